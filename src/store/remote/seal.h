/* seal.h -- message authentication codes of values in the remote tier: over namespace, name of the copy, field and
 * bytes, with a key that the processes share. Without a key there are none.
 *
 *   offset size  of a code, which follows the value
 *        0   16  a random number
 *       16   16  Poly1305 of the value, under HMAC-SHA256 (shared key; namespace, 0, name, 0, field, 0, number)
 *
 * Poly1305 takes a seventh of the time of HMAC-SHA256, but needs a new key for every value. A forged value of 4 MiB
 * passes with a probability of 2^-85 (D. J. Bernstein, "The Poly1305-AES message-authentication code"). */
#ifndef SP_STORE_REMOTE_SEAL_H
#define SP_STORE_REMOTE_SEAL_H

#include <openssl/evp.h>

#include "base/err.h"

enum { SP_SEAL_BYTES = 32, SP_SEAL_KEY = 64 };

typedef struct sp_remote_seal {
    char space[48]; /* prefix of all keys of the tier */
    uint8_t key[SP_SEAL_KEY];
    size_t n_key; /* 0: none */
    EVP_MAC *hmac, *poly;
} sp_remote_seal;

/* sp_seal_init -- key [n]; the caller sets `space`. Errors: SP_E_ARG (too long), SP_E_UNSUPPORTED. */
sp_err sp_seal_init(sp_remote_seal *s, const void *key, size_t n) SP_MUST_CHECK;
/* sp_seal_fini -- overwrites the key. */
void sp_seal_fini(sp_remote_seal *s);

/* sp_seal_put -- appends the code to data [*n], which has room for SP_SEAL_BYTES more; *n grows. Errors:
 * SP_E_NOMEM. */
sp_err sp_seal_put(const sp_remote_seal *s, const char *name, const char *field, uint8_t *data,
                   size_t *n) SP_MUST_CHECK;
/* sp_seal_check -- whether data [*n] is authentic; *n then excludes the code. */
bool sp_seal_check(const sp_remote_seal *s, const char *name, const char *field, const void *data, size_t *n);

#endif
