/* keys.h -- API keys from a file, one a line. Blank lines and lines that begin with # are skipped, except for these,
 * which describe the next key:
 *
 *   # name: anna                                         in the log; other keys are called key-1, key-2 and so on
 *   # limits: requests=60 tokens=20000 documents=500 bytes=64M    requests and tokens a minute, registered documents
 *   # may: priority                                      its priorities apply across all keys
 *
 * A key is kept as its SHA-256 and compared in constant time. Each key is a tenant: the salt of its
 * content ids is derived here, so tenants never find each other's cached documents, and no client
 * can choose its salt. */
#ifndef SP_SERVER_HTTP_KEYS_H
#define SP_SERVER_HTTP_KEYS_H

#include <stdbool.h>

#include "server/http/limits.h"

typedef struct srv_keys srv_keys;

typedef enum srv_key_state { SRV_KEY_UNKNOWN, SRV_KEY_KNOWN, SRV_KEY_NO_MEMORY /* to find out */ } srv_key_state;

/* srv_keys_open -- false after an error message: not readable, no key in it, or one that no header can carry. */
bool srv_keys_open(const char *path, srv_keys **out);
void srv_keys_close(srv_keys *k);
/* srv_keys_reload -- reloads the file; the old keys remain valid when it cannot be read.
 * Thread: any. */
bool srv_keys_reload(srv_keys *k);
/* srv_keys_check -- whether `authorization` (the header, or NULL) or `plain` (a key alone, or NULL) carries a known
 * key; *out receives its tenant. Thread: any. */
srv_key_state srv_keys_check(srv_keys *k, const char *authorization, const char *plain, srv_tenant *out);
/* srv_keys_count -- keys in the file. */
size_t srv_keys_count(srv_keys *k);

#endif
