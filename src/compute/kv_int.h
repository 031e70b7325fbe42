/* kv_int.h -- where the keys and values of a head lie in a block; see sp_kv_view. */
#ifndef SP_COMPUTE_KV_INT_H
#define SP_COMPUTE_KV_INT_H

#include "compute/ops.h"

static inline uint8_t *sp_kv_keys(const sp_kv_view *kv, uint32_t block, int head)
{
    return kv->base + block * kv->block_bytes + (size_t)head * sp_kv_head_bytes(kv->type, kv->head);
}

static inline uint8_t *sp_kv_values(const sp_kv_view *kv, uint32_t block, int head)
{
    return sp_kv_keys(kv, block, kv->n_heads + head);
}

/* sp_kv_read_keys -- a block's keys of one KV head decoded: out [D][B]. */
void sp_kv_read_keys(const sp_kv_view *kv, uint32_t block, int head, float *out);

/* sp_kv_scatter_keys -- one encoded head of keys into column `slot` of a block's keys. */
void sp_kv_scatter_keys(sp_dtype type, int head, const uint8_t *row, uint8_t *keys, int slot);

#endif
