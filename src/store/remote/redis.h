/* redis.h -- a connection to Redis or Valkey: its URL, and commands that wait for their replies together. */
#ifndef SP_STORE_REMOTE_REDIS_H
#define SP_STORE_REMOTE_REDIS_H

#include <hiredis/hiredis.h>

#include "base/err.h"

/* redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]; rediss:// with TLS */
typedef struct sp_redis_address {
    char host[256], user[128], password[256]; /* user, password "": none */
    int port, database;
    bool tls;
    const char *ca_file; /* borrowed: sp_tls_connect */
} sp_redis_address;

/* sp_redis_parse -- ca_file is NULL. Errors: SP_E_ARG names what is wrong, without the password. */
sp_err sp_redis_parse(const char *url, sp_redis_address *out) SP_MUST_CHECK;

/* sp_redis_open -- connected, logged in, the database selected. No call waits longer than timeout_us for a byte.
 * Errors: SP_E_IO names the server. */
sp_err sp_redis_open(const sp_redis_address *a, int64_t timeout_us, redisContext **out) SP_MUST_CHECK;

/* A command: its words. */
typedef struct sp_redis_command {
    const char *words[8];
    size_t sizes[8]; /* 0: a word that ends with NUL */
    int n;
} sp_redis_command;

/* sp_redis_append -- sent with the first sp_redis_next after it. Errors: SP_E_NOMEM. */
sp_err sp_redis_append(redisContext *c, const sp_redis_command *command) SP_MUST_CHECK;
/* sp_redis_next -- the reply of the oldest command that has none. Errors: SP_E_IO: the connection is of no use any
 * more (c->err), or the server refuses the command; SP_E_LIMIT: it has no memory left. Owns: freeReplyObject. */
sp_err sp_redis_next(redisContext *c, redisReply **out) SP_MUST_CHECK;
/* sp_redis_call -- one command and its reply. */
sp_err sp_redis_call(redisContext *c, const sp_redis_command *command, redisReply **out) SP_MUST_CHECK;
/* sp_redis_run -- the same; the reply does not matter unless it is an error. */
sp_err sp_redis_run(redisContext *c, const sp_redis_command *command) SP_MUST_CHECK;

/* sp_redis_scan -- the fields and values of the hash `key`; key NULL: the keys that match the pattern, value NULL.
 * What changes meanwhile may be missed or come twice. Errors: SP_E_IO, and those of each. */
sp_err sp_redis_scan(redisContext *c, const char *key, const char *pattern,
                     sp_err (*each)(void *user, const char *word, const char *value), void *user) SP_MUST_CHECK;

#endif
