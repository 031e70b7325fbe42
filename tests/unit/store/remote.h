/* remote.h -- remote tiers of noise (tier.h) in a redis-server of their own, and its keys. */
#ifndef SP_TESTS_REMOTE_H
#define SP_TESTS_REMOTE_H

#include "support/check.h"

#include "store/remote/tier.h"
#include "support/redis.h"
#include "tier.h"

/* open_with -- a tier as another process has it. */
static inline sp_tier *open_with(const redis *r, const char *key, int64_t timeout_us)
{
    sp_tier *t;
    assert_ok(sp_remote_tier_open(&(sp_remote_tier_opts){.url = r->url,
                                                         .space = &noise_space,
                                                         .mac_key = key,
                                                         .n_mac_key = key ? strlen(key) : 0,
                                                         .timeout_us = timeout_us},
                                  &t));
    return t;
}

/* start -- false: this machine has no redis-server. */
static inline bool start(redis *r)
{
    *r = redis_start(NULL);
    return r->pid != 0;
}

/* redis_script -- runs Lua in the server, which must not fail. */
static inline void redis_script(const redis *r, const char *script)
{
    assert_ok(redis_try(r, &(sp_redis_command){.words = {"EVAL", script, "0"}, .n = 3, .anywhere = true}));
}

/* Before a script: `k` is the key of the only copy, or nil. */
#define ONLY_COPY "local k = nil; for _, x in ipairs(redis.call('KEYS', 'SPOLIA:*:copy:*')) do k = x end; "
#define INDEX_IS_EMPTY "(#redis.call('KEYS', 'SPOLIA:*:index') == 0)"

/* redis_holds -- a condition of the keys, as Lua; `k` is the only copy's. */
static inline void redis_holds(const redis *r, const char *condition)
{
    char script[600];
    snprintf(script, sizeof script, ONLY_COPY "if not (%s) then return redis.error_reply('it does not hold') end",
             condition);
    redis_script(r, script);
}

#endif
