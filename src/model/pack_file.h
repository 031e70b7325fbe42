/* pack_file.h -- a file of packed weights: written once, mapped by later starts. For model/ alone. */
#ifndef SP_MODEL_PACK_FILE_H
#define SP_MODEL_PACK_FILE_H

#include <stdatomic.h>

#include "base/file.h"
#include "base/hash.h"

/* What a pack holds: `key` names the model and the layout, n_bytes is the size of the weights. */
typedef struct sp_pack_name {
    sp_digest key;
    size_t n_bytes;
} sp_pack_name;

typedef struct sp_pack_map {
    sp_file_map file;
    const uint8_t *weights; /* [n_bytes], page-aligned */
} sp_pack_map;

/* sp_pack_file_bytes -- size of the file. */
size_t sp_pack_file_bytes(size_t n_bytes);

/* sp_pack_file_open -- maps a pack and checks all of it, with n_threads.
 * Errors: SP_E_IO, SP_E_FORMAT (not a pack of this name, damaged), SP_E_NOMEM. Owns: close it with
 * sp_file_map_close. Cost: one pass over the file. */
sp_err sp_pack_file_open(const char *path, const sp_pack_name *name, int n_threads,
                         sp_pack_map *out) SP_MUST_CHECK;

/* sp_pack_file_write -- writes a pack to an empty file; path is for messages. The file is invalid
 * until the call returns. Errors: SP_E_IO; SP_E_LIMIT above 1 TiB. */
sp_err sp_pack_file_write(int fd, const char *path, const sp_pack_name *name,
                          const uint8_t *weights) SP_MUST_CHECK;

#endif
