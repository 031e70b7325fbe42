/* kv_read.c -- stored keys and values back to floats, for what measures and compares them; and as
 * they are to another slot. */
#include <string.h>

#include "compute/kernel/kv.h"
#include "compute/kernel/quant.h"

enum {
    B = SP_BLOCK_TOKENS,
    LINE_BYTES = B / 2 * 64 /* Q16: 16 channels of the values of a block */
};

/* -- decoded ----------------------------------------------------------------------------------- */

static float q16_scale(const uint8_t *scales, int slot)
{
    float scale;
    memcpy(&scale, scales + 4 * slot, sizeof scale);
    return scale;
}

static float q16_element(const uint8_t *p, float scale)
{
    return scale * (float)(int16_t)sp_load_u16(p);
}

void sp_kv_get_key(sp_dtype type, int head, const uint8_t *keys, int slot, float *out)
{
    if (type == SP_Q16) {
        const float scale = q16_scale(keys, slot);
        for (int d = 0; d < head; d++) out[d] = q16_element(keys + sp_q16_key_at(d, slot), scale);
    } else if (type == SP_Q8_0) {
        for (int d = 0; d < head; d++) {
            const uint8_t *group = keys + d / 32 * 34 * B;
            out[d] = sp_f16_to_f32(sp_load_u16(group + 2 * slot)) *
                     (float)(int8_t)group[2 * B + d % 32 * B + slot];
        }
    } else {
        const size_t size = sp_row_bytes(type, 1);
        for (int d = 0; d < head; d++)
            sp_row_to_f32(type, keys + (size_t)(d * B + slot) * size, out + d, 1);
    }
}

void sp_kv_get_value(sp_dtype type, int head, const uint8_t *values, int slot, float *out)
{
    if (type == SP_Q16) {
        const float scale = q16_scale(values, slot);
        for (int d = 0; d < head; d++)
            out[d] = q16_element(values + sp_q16_value_at(d, slot), scale);
    } else {
        sp_row_to_f32(type, values + (size_t)slot * sp_row_bytes(type, head), out, head);
    }
}

/* read_q16_keys -- n channels; a word holds two of a key. */
static void read_q16_keys(const uint8_t *keys, int n, float *out)
{
    float scale[B], odd[B];
    int32_t word[B];
    memcpy(scale, keys, sizeof scale);
    for (int d = 0; d < n; d += 2, out += 2 * B) {
        memcpy(word, keys + SP_Q16_SCALES + (size_t)d / 2 * sizeof word, sizeof word);
        for (int i = 0; i < B; i++) {
            out[i] = scale[i] * (float)(int16_t)(word[i] & 0xffff);
            odd[i] = scale[i] * (float)(word[i] >> 16);
        }
        if (d + 1 < n) memcpy(out + B, odd, sizeof odd);
    }
}

void sp_kv_read_keys(const sp_kv_view *kv, uint32_t block, int head, float *out)
{
    const uint8_t *keys = sp_kv_keys(kv, block, head);
    if (kv->type == SP_Q16) {
        read_q16_keys(keys, kv->head, out);
    } else if (kv->type == SP_Q8_0) {
        float key[SP_HEAD_MAX];
        for (int slot = 0; slot < B; slot++) {
            sp_kv_get_key(kv->type, kv->head, keys, slot, key);
            for (int d = 0; d < kv->head; d++) out[d * B + slot] = key[d];
        }
    } else {
        sp_row_to_f32(kv->type, keys, out, (int64_t)kv->head * B);
    }
}

void sp_kv_read(const sp_kv_view *kv, const sp_kv_slot *at, int head, float *k, float *v)
{
    sp_kv_get_key(kv->type, kv->head, sp_kv_keys(kv, at->block, head), at->slot, k);
    sp_kv_get_value(kv->type, kv->head, sp_kv_values(kv, at->block, head), at->slot, v);
}

/* -- copied ------------------------------------------------------------------------------------ */

/* copy_column -- entry `from` of n rows of B entries each, to entry `to` of another block. Inline, so that `size`
 * is a constant. */
static inline void copy_column(const uint8_t *src, int from, uint8_t *dst, int to, int n,
                               size_t size)
{
    src += (size_t)from * size;
    dst += (size_t)to * size;
    for (int i = 0; i < n; i++, src += B * size, dst += B * size) memcpy(dst, src, size);
}

static void copy_key(sp_dtype type, int head, const uint8_t *src, int from, uint8_t *dst, int to)
{
    switch (type) {
    case SP_Q16:
        copy_column(src, from, dst, to, 1, sizeof(float)); /* scale */
        copy_column(src + SP_Q16_SCALES, from, dst + SP_Q16_SCALES, to, SP_DIV_UP(head, 2), 4);
        break;
    case SP_Q8_0:
        for (int d = 0; d < head; d += 32, src += 34 * B, dst += 34 * B) {
            copy_column(src, from, dst, to, 1, 2); /* scale */
            copy_column(src + 2 * B, from, dst + 2 * B, to, 32, 1);
        }
        break;
    case SP_F32:
        copy_column(src, from, dst, to, head, 4);
        break;
    default:
        copy_column(src, from, dst, to, head, 2);
    }
}

/* copy_words -- Q16: a value is one half of 16 words in a line, and a line of each 16 channels. */
static void copy_words(int head, const uint8_t *src, int from, uint8_t *dst, int to)
{
    const uint8_t *line = src + sp_q16_value_at(0, from);
    uint8_t *out = dst + sp_q16_value_at(0, to);
    for (int d = 0; d < head; d += 16, line += LINE_BYTES, out += LINE_BYTES)
        for (int i = 0; i < SP_MIN(16, head - d); i++) memcpy(out + 4 * i, line + 4 * i, 2);
}

static void copy_value(sp_dtype type, int head, const uint8_t *src, int from, uint8_t *dst, int to)
{
    if (type == SP_Q16) {
        copy_column(src, from, dst, to, 1, sizeof(float)); /* scale */
        copy_words(head, src, from, dst, to);
    } else {
        const size_t row = sp_row_bytes(type, head);
        memcpy(dst + (size_t)to * row, src + (size_t)from * row, row);
    }
}

void sp_kv_copy(const sp_kv_view *kv, const sp_kv_slot *from, const sp_kv_slot *to)
{
    assert(from->rot == to->rot);
    for (int h = 0; h < kv->n_heads; h++) {
        copy_key(kv->type, kv->head, sp_kv_keys(kv, from->block, h), from->slot,
                 sp_kv_keys(kv, to->block, h), to->slot);
        copy_value(kv->type, kv->head, sp_kv_values(kv, from->block, h), from->slot,
                   sp_kv_values(kv, to->block, h), to->slot);
    }
}
