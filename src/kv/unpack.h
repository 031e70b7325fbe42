/* unpack.h -- the KV of a node that shares blocks, as lower tiers keep it: from slot 0 of blocks of its
 * own. */
#ifndef SP_KV_UNPACK_H
#define SP_KV_UNPACK_H

#include "kv/pool.h"

/* Tokens in slots first .. first + n - 1, counted from blocks[0] on. */
typedef struct sp_kv_tokens {
    const uint32_t *blocks; /* [ceil((first + n) / B)] */
    int32_t first, n;
} sp_kv_tokens;

/* sp_kv_unpack -- copies them to `to` [ceil(n / B) * layer_block_bytes], slot 0 first; the slots after the
 * last token are zero. Errors: SP_E_NOMEM, and those of sp_kv_pool_read. Thread: any; of sealed blocks. */
sp_err sp_kv_unpack(const sp_kv_pool *p, int layer, const sp_kv_tokens *tokens,
                    uint8_t *to) SP_MUST_CHECK;

#endif
