/* folder.h -- the folder of a store as a whole: its namespaces and its disk.
 *
 *   DIR/<namespace>/   one disk tier (tier.h) for each model, KV type and layout */
#ifndef SP_STORE_DISK_FOLDER_H
#define SP_STORE_DISK_FOLDER_H

#include "base/hash.h"
#include "base/mem.h"

/* The file system of a folder, in bytes. */
typedef struct sp_folder_space {
    int64_t total, free;
    int64_t reserve; /* stays free: 1 GiB, or 5 % of a small disk */
} sp_folder_space;

/* sp_folder_space_of -- of a folder, or of its nearest existing parent. Errors: SP_E_IO. */
sp_err sp_folder_space_of(const char *dir, sp_folder_space *out) SP_MUST_CHECK;

typedef struct sp_folder_part {
    sp_digest space;
    int64_t bytes; /* of its segment files */
    bool index_is_lost; /* damaged or missing; opening the tier for writing
                           rebuilds it */
} sp_folder_part;

/* sp_folder_each -- calls fn for every namespace that has an index or a copy. Errors: SP_E_NOTFOUND (no
 * such folder), SP_E_IO, SP_E_NOMEM, or fn's. */
typedef sp_err sp_folder_fn(void *user, const sp_folder_part *part);
sp_err sp_folder_each(const char *dir, sp_folder_fn *fn, void *user) SP_MUST_CHECK;

/* sp_folder_is_empty -- whether it has no files, except the one naming the index that it was created for. */
bool sp_folder_is_empty(const char *dir);

/* sp_folder_budget -- the limit for copies of one namespace if the folder is limited to max_bytes (0: its size now
 * plus half of the free disk space). Errors: SP_E_LIMIT: nothing is left. */
sp_err sp_folder_budget(const char *dir, const sp_digest *space, int64_t max_bytes,
                        int64_t *out) SP_MUST_CHECK;

#endif
