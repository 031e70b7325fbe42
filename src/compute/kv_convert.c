#include "compute/kv_convert.h"

#include "compute/kernel/kv.h"

static void convert_head(const sp_kv_view *from, const sp_kv_view *to, uint32_t block, int head)
{
    float row[SP_HEAD_MAX];
    const uint8_t *keys = sp_kv_keys(from, block, head), *values = sp_kv_values(from, block, head);
    for (int slot = 0; slot < SP_BLOCK_TOKENS; slot++) {
        sp_kv_get_key(from->type, from->head, keys, slot, row);
        sp_kv_put_key(to->type, to->head, row, sp_kv_keys(to, block, head), slot);
        sp_kv_get_value(from->type, from->head, values, slot, row);
        sp_kv_put_value(to->type, to->head, row, sp_kv_values(to, block, head), slot);
    }
}

void sp_kv_convert(const sp_kv_view *from, const sp_kv_view *to, int64_t n_blocks)
{
    assert(from->n_heads == to->n_heads && from->head == to->head);
    for (int64_t b = 0; b < n_blocks; b++)
        for (int h = 0; h < from->n_heads; h++) convert_head(from, to, (uint32_t)b, h);
}
