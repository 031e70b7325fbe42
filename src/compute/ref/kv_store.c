/* kv_store.c -- the definition of writing a token's keys and values into its slot. */
#include <string.h>

#include "compute/kv_int.h"
#include "compute/ops_int.h"

enum { B = SP_BLOCK_TOKENS };

void sp_kv_scatter_keys(sp_dtype type, int head, const uint8_t *row, uint8_t *keys, int slot)
{
    if (type == SP_Q8_0) {
        for (int g = 0; g < head / 32; g++, row += 34, keys += 34 * B) {
            memcpy(keys + 2 * slot, row, 2);
            for (int i = 0; i < 32; i++) keys[2 * B + i * B + slot] = row[2 + i];
        }
        return;
    }
    size_t size = sp_row_bytes(type, 1);
    for (int d = 0; d < head; d++) {
        memcpy(keys + (size_t)(d * B + slot) * size, row + (size_t)d * size, size);
    }
}

void sp_kv_store_ref(const sp_kv_store_args *a, int part, int n_parts)
{
    const sp_kv_view *kv = a->kv;
    const size_t row_bytes = sp_row_bytes(kv->type, kv->head);
    const int64_t width = (int64_t)kv->n_heads * kv->head;
    assert(kv->head <= SP_HEAD_MAX);
    int64_t from, to; /* of [G, m]: a part writes whole heads where it can */
    sp_part(kv->n_heads * a->m, 1, part, n_parts, &from, &to);
    for (int64_t i = from; i < to; i++) {
        int head = (int)(i / a->m);
        int64_t t = i % a->m, at = t * width + (int64_t)head * kv->head;
        float key[SP_HEAD_MAX];
        uint8_t row[SP_HEAD_MAX * sizeof(float)];
        memcpy(key, a->k + at, (size_t)kv->head * sizeof(float));
        sp_rope_rotate(a->rope, key, a->rot[t]);
        sp_row_from_f32(kv->type, key, row, kv->head);
        sp_kv_scatter_keys(kv->type, kv->head, row, sp_kv_keys(kv, a->block[t], head), a->slot[t]);
        sp_row_from_f32(kv->type, a->v + at,
                        sp_kv_values(kv, a->block[t], head) + a->slot[t] * row_bytes, kv->head);
    }
}
