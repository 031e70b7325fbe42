/* kv_read.c -- stored keys and values back to floats, for what measures and compares them. */
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
