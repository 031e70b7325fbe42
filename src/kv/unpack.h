/* unpack.h -- KV in the form of lower tiers: a node that shares blocks begins at slot 0 of its own blocks, and a patch
 * is merged with its base. */
#ifndef SP_KV_UNPACK_H
#define SP_KV_UNPACK_H

#include "kv/pool.h"

/* Tokens in slots first .. first + n - 1, counted from blocks[0] on. */
typedef struct sp_kv_tokens {
    const uint32_t *blocks; /* [ceil((first + n) / B)] */
    int32_t first, n;
} sp_kv_tokens;

/* sp_kv_unpack -- copies tokens to `to` [ceil(n / B) * layer_block_bytes], slot 0 first; slots after the last token
 * are zero. Errors: SP_E_NOMEM, and those of sp_kv_pool_read. Pre: sealed blocks. Thread: any. */
sp_err sp_kv_unpack(sp_kv_pool *p, int layer, const sp_kv_tokens *tokens,
                    uint8_t *to) SP_MUST_CHECK;

/* Recomputed tokens of a copy. */
typedef struct sp_kv_patch {
    const int32_t *tokens;  /* [n] ascending */
    const uint32_t *blocks; /* [ceil(n / B)] their keys and values; NULL: no patch */
    int32_t n;
} sp_kv_patch;

/* sp_kv_merge -- writes the tokens of the patch into one layer of a copy of n tokens, in `layer_blocks`
 * [ceil(n / B) * layer_block_bytes]. Errors, Thread: as sp_kv_unpack. */
sp_err sp_kv_merge(sp_kv_pool *p, int layer, const sp_kv_patch *patch, int32_t n,
                   uint8_t *layer_blocks) SP_MUST_CHECK;

#endif
