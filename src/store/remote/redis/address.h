/* address.h -- the address and login of a Redis or Valkey server. */
#ifndef SP_STORE_REMOTE_REDIS_ADDRESS_H
#define SP_STORE_REMOTE_REDIS_ADDRESS_H

#include "base/err.h"

/* redis://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT] ...][/DATABASE]; rediss:// with TLS. A HOST with colons is in
 * brackets. */
typedef struct sp_redis_address {
    char host[256], user[128], password[256]; /* user, password "": none */
    int port, database;
    bool tls;
    const char *ca_file; /* borrowed: sp_tls_connect */
    const char *more;    /* borrowed, of the URL: its other servers; NULL: none */
} sp_redis_address;

/* sp_redis_parse -- the first server; ca_file is NULL. The URL is borrowed. Errors: SP_E_ARG names what is wrong,
 * without the password. */
sp_err sp_redis_parse(const char *url, sp_redis_address *out) SP_MUST_CHECK;
/* sp_redis_next -- the next server of the URL, with the same login; false: there is none. */
bool sp_redis_next(sp_redis_address *a);

#endif
