/* kv_store_body.h -- keys and values of new tokens into their slots: rotation and f16 in vectors,
 * bit for bit what ref/kv_store.c does; other types are encoded by the definition. */
#include <string.h>

#include "compute/kv_int.h"
#include "compute/ops_int.h"
#include "compute/x86/kv_vec.h"

/* Without FMA, as sp_rope_rotate. */
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

/* One head of keys into column `slot`. */
INLINE void store_key(sp_dtype type, const float *key, int head, uint8_t *keys, int slot)
{
    _Alignas(64) uint8_t row[SP_HEAD_MAX * sizeof(float)];
    if (type == SP_F16) {
        row_to_f16(key, (uint16_t *)row, head);
        for (int d = 0; d < head; d++) memcpy(keys + 2 * (d * B + slot), row + 2 * d, 2);
    } else {
        sp_row_from_f32(type, key, row, head);
        sp_kv_scatter_keys(type, head, row, keys, slot);
    }
}

INLINE void store_value(sp_dtype type, const float *value, int head, uint8_t *row)
{
    if (type == SP_F16)
        row_to_f16(value, (uint16_t *)row, head);
    else
        sp_row_from_f32(type, value, row, head);
}

INLINE void store_heads(sp_dtype type, const sp_kv_store_args *a, int64_t from, int64_t to)
{
    const sp_kv_view *kv = a->kv;
    const size_t row_bytes = sp_row_bytes(type, kv->head);
    const int64_t width = (int64_t)kv->n_heads * kv->head;
    for (int64_t i = from; i < to; i++) {
        const int head = (int)(i / a->m);
        const int64_t t = i % a->m, at = t * width + (int64_t)head * kv->head;
        _Alignas(64) float key[SP_HEAD_MAX];
        memcpy(key, a->k + at, (size_t)kv->head * sizeof(float));
        rotate_key(a->rope, key, a->rot[t]);
        store_key(type, key, kv->head, sp_kv_keys(kv, a->block[t], head), a->slot[t]);
        store_value(type, a->v + at, kv->head,
                    sp_kv_values(kv, a->block[t], head) + a->slot[t] * row_bytes);
    }
}

void SP_VARIANT(sp_kv_store)(const sp_kv_store_args *a, int part, int n_parts)
{
    int64_t from, to; /* of [G, m]: a part writes whole heads where it can */
    assert(a->kv->head <= SP_HEAD_MAX);
    sp_part(a->kv->n_heads * a->m, 1, part, n_parts, &from, &to);
    if (a->kv->type == SP_F16)
        store_heads(SP_F16, a, from, to);
    else
        store_heads(a->kv->type, a, from, to);
}
