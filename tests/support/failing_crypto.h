/* failing_crypto.h -- memory of libcrypto's, one allocation of which fails; failing_crypto_begin comes before any
 * other use of libcrypto. */
#ifndef SP_TESTS_FAILING_CRYPTO_H
#define SP_TESTS_FAILING_CRYPTO_H

#include <openssl/crypto.h>
#include <stdbool.h>
#include <stdlib.h>

static int crypto_until_failure = -1; /* allocations; -1: none fails, or one has */

static bool crypto_fails(void)
{
    return crypto_until_failure >= 0 && crypto_until_failure-- == 0;
}

static void *crypto_take(size_t n, const char *file, int line)
{
    return crypto_fails() ? NULL : malloc(n);
}

static void *crypto_grow(void *p, size_t n, const char *file, int line)
{
    return crypto_fails() ? NULL : realloc(p, n);
}

static void crypto_release(void *p, const char *file, int line)
{
    free(p);
}

/* failing_crypto_begin -- false: it has allocated already. */
static inline bool failing_crypto_begin(void)
{
    return CRYPTO_set_mem_functions(crypto_take, crypto_grow, crypto_release) == 1;
}

#endif
