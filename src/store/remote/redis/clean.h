/* clean.h -- a Redis or Valkey server as a whole: what store/remote/server.h asks of it. */
#ifndef SP_STORE_REMOTE_REDIS_CLEAN_H
#define SP_STORE_REMOTE_REDIS_CLEAN_H

#include "store/remote/link.h"

sp_err sp_redis_each_space(const sp_remote_site *s, sp_err (*each)(void *user, const sp_digest *space),
                           void *user) SP_MUST_CHECK;
sp_err sp_redis_clean(const sp_remote_site *s, int64_t *n_orphans, int64_t *n_gone) SP_MUST_CHECK;

#endif
