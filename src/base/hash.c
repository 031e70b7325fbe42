#include "base/hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

/* sp_sha256 is OpenSSL's digest context under our own name. */
static EVP_MD_CTX *ctx_of(sp_sha256 *s)
{
    return (EVP_MD_CTX *)s;
}

sp_err sp_sha256_create(sp_sha256 **out)
{
    /* libcrypto makes this context once; without it, for lack of memory, it crashes. */
    EVP_MD_CTX *c = OSSL_LIB_CTX_get0_global_default() ? EVP_MD_CTX_new() : NULL;
    if (!c || EVP_DigestInit_ex(c, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(c);
        return sp_fail(SP_E_NOMEM, "cannot start SHA-256");
    }
    *out = (sp_sha256 *)c;
    return SP_OK;
}

void sp_sha256_update(sp_sha256 *s, const void *data, size_t n)
{
    int ok = EVP_DigestUpdate(ctx_of(s), data, n);
    assert(ok == 1);
    SP_UNUSED(ok);
}

void sp_sha256_field(sp_sha256 *s, const char *tag, const void *data, size_t n)
{
    uint64_t len = n;
    uint8_t le[8];
    for (int i = 0; i < 8; i++) le[i] = (uint8_t)(len >> (8 * i));
    sp_sha256_update(s, tag, strlen(tag) + 1);
    sp_sha256_update(s, le, sizeof le);
    sp_sha256_update(s, data, n);
}

void sp_sha256_final(sp_sha256 *s, sp_digest *out)
{
    unsigned n = 0;
    int ok = EVP_DigestFinal_ex(ctx_of(s), out->b, &n);
    assert(ok == 1 && n == sizeof out->b);
    SP_UNUSED(ok);
    EVP_MD_CTX_free(ctx_of(s));
}

bool sp_digest_eq(const sp_digest *a, const sp_digest *b)
{
    return memcmp(a->b, b->b, sizeof a->b) == 0;
}

void sp_digest_hex(const sp_digest *d, size_t n_bytes, char *out)
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < n_bytes; i++) {
        out[2 * i] = hex[d->b[i] >> 4];
        out[2 * i + 1] = hex[d->b[i] & 15];
    }
    out[2 * n_bytes] = '\0';
}

uint64_t sp_hash64(const void *data, size_t n)
{
    const uint8_t *p = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ (h >> 32);
}
