/* kv_store.c -- stores keys and values of new tokens in their slots. Rotation, F16 and Q16 are
 * vectorised, with the same bits as ref/kv_store.c; other types use the definition. */
#include <string.h>

#include "compute/kernel/kv.h"
#include "compute/kernel/ops.h"
#include "compute/simd/ivec.h"
#include "compute/simd/kv_vec.h"

/* sp_rope_rotate in vectors; no FMA, so that the bits are the same. */
INLINE void rotate_key(const sp_rope *rope, float *x, int32_t pos)
{
    const int half = rope->n_rot / 2;
    if (half == 0 || half % VL != 0 || rope->adjacent) {
        sp_rope_rotate(rope, x, pos);
        return;
    }
    assert(pos >= 0 && pos < rope->n_pos);
    const float *c = rope->c + (int64_t)pos * half, *s = rope->s + (int64_t)pos * half;
    for (int i = 0; i < half; i += VL) {
        const vec a = vec_load(x + i), b = vec_load(x + half + i);
        const vec cos = vec_load(c + i), sin = vec_load(s + i);
        vec_store(x + i, vec_sub(vec_mul(a, cos), vec_mul(b, sin)));
        vec_store(x + half + i, vec_add(vec_mul(a, sin), vec_mul(b, cos)));
    }
}

INLINE void row_to_f16(const float *x, uint16_t *out, int n)
{
    int i = 0;
    for (; i + VL <= n; i += VL) vec_store_f16(out + i, vec_load(x + i));
    if (i < n) sp_row_from_f32(SP_F16, x + i, (uint8_t *)(out + i), n - i);
}

/* -- Q16, D a multiple of 16 ------------------------------------------------------------------- */

/* The sum of squares, in the order of the definition. */
INLINE float sum_of_squares(const float *x, int n)
{
    _Alignas(64) float sum[16];
    vec s[V16];
    for (int v = 0; v < V16; v++) s[v] = vec_zero();
    for (int i = 0; i < n; i += 16) {
        for (int v = 0; v < V16; v++) {
            const vec a = vec_load(x + i + v * VL);
            s[v] = vec_add(s[v], vec_mul(a, a));
        }
    }
    for (int v = 0; v < V16; v++) vec_store(sum + v * VL, s[v]);
    return vec_sum16(sum);
}

INLINE void row_to_words(const float *x, int n, float inverse, int16_t *q)
{
    for (int i = 0; i < n; i += 16) {
        vec a[V16];
        for (int v = 0; v < V16; v++) a[v] = vec_mul(vec_load(x + i + v * VL), vec_all(inverse));
        ivec_store_words(q + i, a);
    }
}

INLINE void store_key_words(const float *key, int head, uint8_t *keys, int slot)
{
    _Alignas(64) int16_t q[SP_HEAD_MAX];
    const float norm = sqrtf(sum_of_squares(key, head));
    if (!sp_q16_is_usual(norm)) {
        sp_kv_put_key(SP_Q16, head, key, keys, slot);
        return;
    }
    const float scale = norm / SP_Q16_KEY_NORM;
    row_to_words(key, head, SP_Q16_KEY_NORM / norm, q);
    memcpy(keys + 4 * slot, &scale, 4);
    for (int d = 0; d < head; d += 2) memcpy(keys + sp_q16_key_at(d, slot), q + d, 4);
}

INLINE void store_value_words(const float *value, int head, uint8_t *values, int slot)
{
    _Alignas(64) int16_t q[SP_HEAD_MAX];
    vec largest = vec_zero(), sum = vec_zero();
    for (int d = 0; d < head; d += VL) {
        const vec a = vec_abs(vec_load(value + d));
        largest = vec_max(largest, a);
        sum = vec_add(sum, a);
    }
    const float most = vec_largest(largest);
    if (!sp_q16_is_usual(most) || !sp_q16_is_usual(vec_sum(sum))) { /* only the sum shows a NaN */
        sp_kv_put_value(SP_Q16, head, value, values, slot);
        return;
    }
    const float scale = most / SP_Q16_VALUE_MAX;
    row_to_words(value, head, SP_Q16_VALUE_MAX / most, q);
    memcpy(values + 4 * slot, &scale, 4);
    for (int d = 0; d < head; d++) memcpy(values + sp_q16_value_at(d, slot), q + d, 2);
}

/* -- all types --------------------------------------------------------------------------------- */

/* Stores the key of one head in column `slot`. */
INLINE void store_key(sp_dtype type, const float *key, int head, uint8_t *keys, int slot)
{
    if (type == SP_F16) {
        _Alignas(64) uint16_t row[SP_HEAD_MAX];
        row_to_f16(key, row, head);
        for (int d = 0; d < head; d++) memcpy(keys + 2 * (d * B + slot), row + d, 2);
    } else if (type == SP_Q16 && head % 16 == 0) {
        store_key_words(key, head, keys, slot);
    } else {
        sp_kv_put_key(type, head, key, keys, slot);
    }
}

INLINE void store_value(sp_dtype type, const float *value, int head, uint8_t *values, int slot)
{
    if (type == SP_F16) {
        row_to_f16(value, (uint16_t *)values + slot * head, head);
    } else if (type == SP_Q16 && head % 16 == 0) {
        store_value_words(value, head, values, slot);
    } else {
        sp_kv_put_value(type, head, value, values, slot);
    }
}

INLINE void store_heads(sp_dtype type, const sp_kv_store_args *a, int64_t from, int64_t to)
{
    const sp_kv_view *kv = a->kv;
    const int64_t width = (int64_t)kv->n_heads * kv->head;
    for (int64_t i = from; i < to; i++) {
        const int head = (int)(i / a->m);
        const int64_t t = i % a->m, at = t * width + (int64_t)head * kv->head;
        _Alignas(64) float key[SP_HEAD_MAX];
        memcpy(key, a->k + at, (size_t)kv->head * sizeof(float));
        rotate_key(a->rope, key, a->rot[t]);
        store_key(type, key, kv->head, sp_kv_keys(kv, a->block[t], head), a->slot[t]);
        store_value(type, a->v + at, kv->head, sp_kv_values(kv, a->block[t], head), a->slot[t]);
    }
}

void SP_VARIANT(sp_kv_store)(const sp_kv_store_args *a, int part, int n_parts)
{
    int64_t from, to; /* of [G, m]: parts get whole heads where possible */
    assert(a->kv->head <= SP_HEAD_MAX);
    sp_part(a->kv->n_heads * a->m, 1, part, n_parts, &from, &to);
    if (a->kv->type == SP_F16)
        store_heads(SP_F16, a, from, to);
    else if (a->kv->type == SP_Q16)
        store_heads(SP_Q16, a, from, to);
    else
        store_heads(a->kv->type, a, from, to);
}
