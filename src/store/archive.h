/* archive.h -- copies of a tier in one file, to be carried to another machine with the same model. The
 * format is in archive.c. */
#ifndef SP_STORE_ARCHIVE_H
#define SP_STORE_ARCHIVE_H

#include "store/tier.h"

typedef struct sp_archive_stats {
    int64_t n_copies, bytes; /* written, or put into the tier; bytes of the file */
    int64_t n_damaged;       /* left out, each with one log line */
} sp_archive_stats;

typedef bool sp_archive_keep_fn(void *user, const sp_tier_info *info);

/* sp_archive_export -- writes the copies that `keep` wants (NULL: all) into a new file, which has this
 * name only when it is whole. Copies that are dropped meanwhile are left out. Errors: SP_E_IO names the
 * file, SP_E_NOMEM; an older file of this name is then there still. */
sp_err sp_archive_export(sp_tier *t, const char *path, const sp_digest *space,
                         sp_archive_keep_fn *keep, void *user, sp_archive_stats *out) SP_MUST_CHECK;

/* sp_archive_space -- the namespace of a file's copies. Errors: as import. */
sp_err sp_archive_space(const char *path, sp_digest *out) SP_MUST_CHECK;

/* sp_archive_import -- puts all copies of a file into a tier; each is verified before it is found there.
 * Errors: SP_E_UNSUPPORTED (of another version or namespace: another model, KV type or salt),
 * SP_E_FORMAT (no archive, or it ends early: what precedes the end is in the tier), SP_E_IO, SP_E_NOMEM, or
 * the put's. *out counts up to there. */
sp_err sp_archive_import(sp_tier *t, const char *path, const sp_digest *space,
                         sp_archive_stats *out) SP_MUST_CHECK;

/* sp_archive_each -- calls fn for every copy of a file; with `verify` after its layers were verified,
 * without those that are damaged. Errors: as import, but any namespace is fine; or fn's. */
typedef sp_err sp_archive_fn(void *user, const sp_record *r);
sp_err sp_archive_each(const char *path, bool verify, sp_archive_fn *fn, void *user,
                       sp_archive_stats *out) SP_MUST_CHECK;

#endif
