/* clean.h -- an object store as a whole: what store/remote/server.h asks of it. */
#ifndef SP_STORE_REMOTE_S3_CLEAN_H
#define SP_STORE_REMOTE_S3_CLEAN_H

#include "store/remote/link.h"

sp_err sp_s3_each_space(const sp_remote_site *s, sp_err (*each)(void *user, const sp_digest *space),
                        void *user) SP_MUST_CHECK;
/* sp_s3_clean -- also deletes copies whose time is over, and uploads that were begun a day ago and not finished. */
sp_err sp_s3_clean(const sp_remote_site *s, int64_t *n_orphans, int64_t *n_gone) SP_MUST_CHECK;

#endif
