/* kv_vec.h -- reads elements of a KV block as vectors, for every cache type; the layout is in
 * ops.h. `type` is always a compile-time constant. */
#ifndef SP_COMPUTE_SIMD_KV_VEC_H
#define SP_COMPUTE_SIMD_KV_VEC_H

#include "compute/kernels.h"
#include "compute/kernel/quant.h"
#include "compute/simd/vec.h"

enum { B = SP_BLOCK_TOKENS };

/* Vector v of the scales of 16 keys, for the group of 32 channels that contains d. Q8_0 only. */
INLINE vec key_scale(sp_dtype type, const uint8_t *keys, int d, int v)
{
    return type == SP_Q8_0 ? vec_load_f16(keys + d / 32 * 34 * B + 2 * v * VL) : vec_zero();
}

/* Vector v of channel d of 16 keys. */
INLINE vec key_at(sp_dtype type, const uint8_t *keys, int d, int v, vec scale)
{
    const int i = d * B + v * VL;
    switch (type) {
    case SP_F32:
        return vec_load((const float *)keys + i);
    case SP_F16:
        return vec_load_f16(keys + 2 * i);
    case SP_BF16:
        return vec_load_bf16(keys + 2 * i);
    default: /* Q8_0: the scales of a group come before its elements */
        return vec_mul(scale, vec_load_i8(keys + (d / 32 + 1) * 2 * B + i));
    }
}

/* Channels d .. d+VL-1 of one row of values. */
INLINE vec value_at(sp_dtype type, const uint8_t *row, int d)
{
    switch (type) {
    case SP_F32:
        return vec_load((const float *)row + d);
    case SP_F16:
        return vec_load_f16(row + 2 * d);
    case SP_BF16:
        return vec_load_bf16(row + 2 * d);
    default:
        row += d / 32 * 34;
        return vec_mul(vec_all(vec_f16_one(sp_load_u16(row))), vec_load_i8(row + 2 + d % 32));
    }
}

/* Decodes the keys of one block and head: out [D][B]. */
INLINE void keys_to_f32(sp_dtype type, const uint8_t *keys, int head, float *out)
{
    for (int from = 0; from < head; from += 32) {
        const int to = SP_MIN(head, from + 32);
        for (int v = 0; v < V16; v++) {
            vec scale = key_scale(type, keys, from, v);
            for (int d = from; d < to; d++) {
                vec_store(out + d * B + v * VL, key_at(type, keys, d, v, scale));
            }
        }
    }
}

/* Decodes a row of values: 16 channels to out, the next 16 to out + next, and so on. Channels from
 * D to the next multiple of 16 become 0. */
INLINE void value_to_f32(sp_dtype type, const uint8_t *row, int head, float *out, size_t next)
{
    int d = 0;
    for (; d + 16 <= head; d += 16, out += next) {
        for (int v = 0; v < V16; v++) vec_store(out + v * VL, value_at(type, row, d + v * VL));
    }
    if (d == head) return;
    for (int i = 0; i < 16; i += VL) vec_store(out + i, vec_zero());
    sp_row_to_f32(type, row + sp_row_bytes(type, d), out, head - d);
}

#endif
