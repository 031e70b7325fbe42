#include "store/remote/seal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <string.h>

#include "base/mem.h"

sp_err sp_seal_init(sp_remote_seal *s, const void *key, size_t n)
{
    if (n > sizeof s->key)
        return sp_fail(SP_E_ARG, "the key of the remote tier has %zu bytes, at most %zu", n, sizeof s->key);
    s->hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    s->poly = EVP_MAC_fetch(NULL, "POLY1305", NULL);
    if (!s->hmac || !s->poly) return sp_fail(SP_E_UNSUPPORTED, "OpenSSL lacks HMAC or Poly1305");
    if (n) memcpy(s->key, key, n);
    s->n_key = n;
    return SP_OK;
}

void sp_seal_fini(sp_remote_seal *s)
{
    EVP_MAC_free(s->hmac);
    EVP_MAC_free(s->poly);
    OPENSSL_cleanse(s->key, sizeof s->key);
}

enum { NUMBER = 16, TAG = 16, ONE_TIME_KEY = 32 };

/* key_of -- of one value. Errors: false: out of memory. */
static bool key_of(const sp_remote_seal *s, const char *name, const char *field, const uint8_t number[NUMBER],
                   uint8_t out[ONE_TIME_KEY])
{
    const OSSL_PARAM how[] = {OSSL_PARAM_construct_utf8_string("digest", (char *)"SHA256", 0),
                              OSSL_PARAM_construct_end()};
    size_t size = 0;
    EVP_MAC_CTX *h = EVP_MAC_CTX_new(s->hmac);
    bool good = h && EVP_MAC_init(h, s->key, s->n_key, how) &&
                EVP_MAC_update(h, (const uint8_t *)s->space, strlen(s->space) + 1) &&
                EVP_MAC_update(h, (const uint8_t *)name, strlen(name) + 1) &&
                EVP_MAC_update(h, (const uint8_t *)field, strlen(field) + 1) && EVP_MAC_update(h, number, NUMBER) &&
                EVP_MAC_final(h, out, &size, ONE_TIME_KEY);
    EVP_MAC_CTX_free(h);
    return good && size == ONE_TIME_KEY;
}

/* tag_of -- false: out of memory. */
static bool tag_of(const sp_remote_seal *s, const uint8_t key[ONE_TIME_KEY], const void *data, size_t n,
                   uint8_t out[TAG])
{
    size_t size = 0;
    EVP_MAC_CTX *h = EVP_MAC_CTX_new(s->poly);
    bool good = h && EVP_MAC_init(h, key, ONE_TIME_KEY, NULL) && EVP_MAC_update(h, data, n) &&
                EVP_MAC_final(h, out, &size, TAG);
    EVP_MAC_CTX_free(h);
    return good && size == TAG;
}

sp_err sp_seal_put(const sp_remote_seal *s, const char *name, const char *field, uint8_t *data, size_t *n)
{
    uint8_t key[ONE_TIME_KEY], *code = data + *n;
    if (!s->n_key) return SP_OK;
    if (RAND_bytes(code, NUMBER) != 1) return sp_fail(SP_E_IO, "OpenSSL cannot generate random numbers");
    bool good = key_of(s, name, field, code, key) && tag_of(s, key, data, *n, code + NUMBER);
    OPENSSL_cleanse(key, sizeof key);
    if (!good) return sp_fail_nomem("a code of authentication");
    *n += SP_SEAL_BYTES;
    return SP_OK;
}

bool sp_seal_check(const sp_remote_seal *s, const char *name, const char *field, const void *data, size_t *n)
{
    uint8_t key[ONE_TIME_KEY], tag[TAG];
    if (!s->n_key) return true;
    if (*n < SP_SEAL_BYTES) return false;
    const uint8_t *code = (const uint8_t *)data + *n - SP_SEAL_BYTES;
    bool good = key_of(s, name, field, code, key) && tag_of(s, key, data, *n - SP_SEAL_BYTES, tag) &&
                CRYPTO_memcmp(tag, code + NUMBER, TAG) == 0;
    OPENSSL_cleanse(key, sizeof key);
    if (good) *n -= SP_SEAL_BYTES;
    return good;
}
