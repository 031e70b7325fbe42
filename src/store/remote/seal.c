#include "store/remote/seal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <string.h>

#include "base/mem.h"

sp_err sp_seal_init(sp_remote_seal *s, const void *key, size_t n)
{
    if (n > sizeof s->key)
        return sp_fail(SP_E_ARG, "the key of the remote tier has %zu bytes, at most %zu", n, sizeof s->key);
    s->hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    if (!s->hmac) return sp_fail(SP_E_UNSUPPORTED, "OpenSSL has no HMAC");
    if (n) memcpy(s->key, key, n);
    s->n_key = n;
    return SP_OK;
}

void sp_seal_fini(sp_remote_seal *s)
{
    EVP_MAC_free(s->hmac);
    OPENSSL_cleanse(s->key, sizeof s->key);
}

/* code_of -- false: out of memory. */
static bool code_of(const sp_remote_seal *s, const char *name, const char *field, const void *data, size_t n,
                    uint8_t out[SP_SEAL_BYTES])
{
    const OSSL_PARAM how[] = {OSSL_PARAM_construct_utf8_string("digest", (char *)"SHA256", 0),
                              OSSL_PARAM_construct_end()};
    size_t size = 0;
    EVP_MAC_CTX *h = EVP_MAC_CTX_new(s->hmac);
    bool good = h && EVP_MAC_init(h, s->key, s->n_key, how) &&
                EVP_MAC_update(h, (const uint8_t *)s->space, strlen(s->space) + 1) &&
                EVP_MAC_update(h, (const uint8_t *)name, strlen(name) + 1) &&
                EVP_MAC_update(h, (const uint8_t *)field, strlen(field) + 1) && EVP_MAC_update(h, data, n) &&
                EVP_MAC_final(h, out, &size, SP_SEAL_BYTES);
    EVP_MAC_CTX_free(h);
    return good && size == SP_SEAL_BYTES;
}

sp_err sp_seal_put(const sp_remote_seal *s, const char *name, const char *field, uint8_t *data, size_t *n)
{
    if (!s->n_key) return SP_OK;
    if (!code_of(s, name, field, data, *n, data + *n)) return sp_fail_nomem(SP_SEAL_BYTES, "a code of authentication");
    *n += SP_SEAL_BYTES;
    return SP_OK;
}

bool sp_seal_check(const sp_remote_seal *s, const char *name, const char *field, const void *data, size_t *n)
{
    uint8_t code[SP_SEAL_BYTES];
    if (!s->n_key) return true;
    if (*n < sizeof code) return false;
    *n -= sizeof code;
    return code_of(s, name, field, data, *n, code) &&
           CRYPTO_memcmp(code, (const uint8_t *)data + *n, sizeof code) == 0;
}
