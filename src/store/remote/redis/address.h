/* address.h -- where a Redis or Valkey server is, and who logs in there. */
#ifndef SP_STORE_REMOTE_REDIS_ADDRESS_H
#define SP_STORE_REMOTE_REDIS_ADDRESS_H

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

#endif
