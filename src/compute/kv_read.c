/* kv_read.c -- stored keys and values back to floats, for what measures and compares them; and as
 * they are to another slot. */
#include <string.h>

#include "compute/kv_int.h"
#include "compute/quant_int.h"

enum { B = SP_BLOCK_TOKENS };

void sp_kv_read_keys(const sp_kv_view *kv, uint32_t block, int head, float *out)
{
    const uint8_t *keys = sp_kv_keys(kv, block, head);
    if (kv->type != SP_Q8_0) {
        sp_row_to_f32(kv->type, keys, out, (int64_t)kv->head * B);
        return;
    }
    for (int d = 0; d < kv->head; d += 32, keys += 34 * B) {
        float scale[B];
        sp_row_to_f32(SP_F16, keys, scale, B);
        for (int i = 0; i < 32 * B; i++)
            out[d * B + i] = scale[i % B] * (float)(int8_t)keys[2 * B + i];
    }
}

void sp_kv_read(const sp_kv_view *kv, const sp_kv_slot *at, int head, float *k, float *v)
{
    float keys[SP_HEAD_MAX * B];
    sp_kv_read_keys(kv, at->block, head, keys);
    for (int d = 0; d < kv->head; d++) k[d] = keys[d * B + at->slot];
    const uint8_t *values = sp_kv_values(kv, at->block, head);
    sp_row_to_f32(kv->type, values + at->slot * sp_row_bytes(kv->type, kv->head), v, kv->head);
}

/* copy_column -- entry `from` of n rows of B entries each, to entry `to` of another block. */
static void copy_column(const uint8_t *src, int from, uint8_t *dst, int to, int n, size_t size)
{
    for (int i = 0; i < n; i++, src += B * size, dst += B * size)
        memcpy(dst + (size_t)to * size, src + (size_t)from * size, size);
}

static void copy_keys(const sp_kv_view *kv, const uint8_t *src, int from, uint8_t *dst, int to)
{
    if (kv->type != SP_Q8_0) {
        copy_column(src, from, dst, to, kv->head, sp_row_bytes(kv->type, 1));
        return;
    }
    for (int d = 0; d < kv->head; d += 32, src += 34 * B, dst += 34 * B) {
        copy_column(src, from, dst, to, 1, 2); /* scales */
        copy_column(src + 2 * B, from, dst + 2 * B, to, 32, 1);
    }
}

void sp_kv_copy(const sp_kv_view *kv, const sp_kv_slot *from, const sp_kv_slot *to)
{
    assert(from->rot == to->rot);
    size_t row = sp_row_bytes(kv->type, kv->head);
    for (int h = 0; h < kv->n_heads; h++) {
        copy_keys(kv, sp_kv_keys(kv, from->block, h), from->slot, sp_kv_keys(kv, to->block, h),
                  to->slot);
        memcpy(sp_kv_values(kv, to->block, h) + to->slot * row,
               sp_kv_values(kv, from->block, h) + from->slot * row, row);
    }
}
