/* archive.h -- copies of a tier in one file, for another machine with the same model. archive.c has the format. */
#ifndef SP_STORE_ARCHIVE_H
#define SP_STORE_ARCHIVE_H

#include "store/tier.h"

typedef struct sp_archive_stats {
    int64_t n_copies, bytes; /* copies written, or put into the tier; bytes of the file */
    int64_t n_damaged;       /* left out, each with one log line */
} sp_archive_stats;

typedef bool sp_archive_keep_fn(void *user, const sp_tier_info *info);

/* sp_archive_export -- writes the copies for which `keep` is true (NULL: all) to a new file, which gets this name
 * when it is complete. Copies that are dropped during the call are left out. Errors: SP_E_IO names the file,
 * SP_E_NOMEM; an older file of this name is then unchanged. */
sp_err sp_archive_export(sp_tier *t, const char *path, const sp_digest *space,
                         sp_archive_keep_fn *keep, void *user, sp_archive_stats *out) SP_MUST_CHECK;

/* sp_archive_space -- the namespace of a file's copies. Errors: as import. */
sp_err sp_archive_space(const char *path, sp_digest *out) SP_MUST_CHECK;

/* sp_archive_import -- puts all copies of a file into a tier; each is verified before it can be found there.
 * Errors: SP_E_UNSUPPORTED (another version or namespace: another model, KV type or salt), SP_E_FORMAT (not an
 * archive, or truncated: the copies before the end are in the tier), SP_E_IO, SP_E_NOMEM, or those of the put. *out
 * counts the copies up to the error. */
sp_err sp_archive_import(sp_tier *t, const char *path, const sp_digest *space,
                         sp_archive_stats *out) SP_MUST_CHECK;

/* sp_archive_each -- calls fn for every copy of a file; with `verify`, only for copies whose layers are undamaged.
 * Errors: as sp_archive_import, but any namespace is accepted; or those of fn. */
typedef sp_err sp_archive_fn(void *user, const sp_record *r);
sp_err sp_archive_each(const char *path, bool verify, sp_archive_fn *fn, void *user,
                       sp_archive_stats *out) SP_MUST_CHECK;

#endif
