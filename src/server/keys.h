/* keys.h -- API keys from a file, one a line; blank lines and lines that begin with # are skipped. A
 * line "# name: NAME" names the next key in the log; others are called key-1, key-2 and so on.
 *
 * A key is kept as its SHA-256, and compared in constant time. Each key is a tenant: the salt of its
 * content ids is derived here, so tenants never find each other's cached documents, and no client
 * chooses a salt of its own. */
#ifndef SP_SERVER_KEYS_H
#define SP_SERVER_KEYS_H

#include <stdbool.h>

#include "server/log.h"

typedef struct srv_keys srv_keys;

#define SRV_SALT_SIZE 65 /* 64 hexadecimal digits and NUL */

/* srv_keys_open -- false after an error message: not readable, or no key in it. */
bool srv_keys_open(const char *path, srv_keys **out);
void srv_keys_close(srv_keys *k);
/* srv_keys_reload -- reads the file anew; the old keys remain valid when it cannot be read.
 * Thread: any. */
bool srv_keys_reload(srv_keys *k);
/* srv_keys_check -- whether `authorization` (the header, or NULL) carries a key; salt receives its
 * tenant's, name the key's name. Thread: any. */
bool srv_keys_check(srv_keys *k, const char *authorization, char salt[SRV_SALT_SIZE],
                    char name[SRV_KEY_NAME_SIZE]);

#endif
