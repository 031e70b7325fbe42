/* hash.h -- SHA-256 for identities of untrusted content, and a fast hash for in-memory tables. */
#ifndef SP_BASE_HASH_H
#define SP_BASE_HASH_H

#include "base/err.h"

typedef struct sp_digest {
    uint8_t b[32];
} sp_digest;

typedef struct sp_sha256 sp_sha256;

/* Incremental SHA-256 (OpenSSL). Errors: SP_E_NOMEM. Owns: final frees the state. */
sp_err sp_sha256_create(sp_sha256 **out) SP_MUST_CHECK;
void sp_sha256_update(sp_sha256 *s, const void *data, size_t n);
/* sp_sha256_field -- adds a tagged, length-prefixed field: different lists of fields never give the
 * same byte string. */
void sp_sha256_field(sp_sha256 *s, const char *tag, const void *data, size_t n);
void sp_sha256_final(sp_sha256 *s, sp_digest *out);

bool sp_digest_eq(const sp_digest *a, const sp_digest *b);
/* sp_digest_hex -- the first n_bytes bytes as hex into out[2 * n_bytes + 1]. */
void sp_digest_hex(const sp_digest *d, size_t n_bytes, char *out);

/* sp_hash64 -- FNV-1a over bytes with a final 64-bit mix; for in-memory tables only. */
uint64_t sp_hash64(const void *data, size_t n);

#endif
