/* kv_int.h -- where the keys and values of a head lie in a block; see sp_kv_view. */
#ifndef SP_COMPUTE_KV_INT_H
#define SP_COMPUTE_KV_INT_H

#include "compute/kernels.h"

static inline uint8_t *sp_kv_keys(const sp_kv_view *kv, uint32_t block, int head)
{
    return kv->base + block * kv->block_bytes +
           2 * (size_t)head * sp_kv_head_bytes(kv->type, kv->head);
}

static inline uint8_t *sp_kv_values(const sp_kv_view *kv, uint32_t block, int head)
{
    return sp_kv_keys(kv, block, head) + sp_kv_head_bytes(kv->type, kv->head);
}

/* -- Q16 --------------------------------------------------------------------------------------- */

#define SP_Q16_SCALES            (SP_BLOCK_TOKENS * sizeof(float)) /* in front */
#define SP_Q16_HEAD_BYTES(width) (SP_Q16_SCALES + SP_BLOCK_TOKENS * (width) * sizeof(int16_t))

#define SP_Q16_KEY_NORM  32700.0f /* a key's norm, and a value's largest element, as integers */
#define SP_Q16_VALUE_MAX 32767.0f

/* sp_q16_is_usual -- of a norm or a largest element. One of less is rounded to zeros, so that no
 * reciprocal overflows; one that is not finite has NaN as its scale. */
static inline bool sp_q16_is_usual(float size)
{
    return size > 0x1p-100f && size <= 0x1p100f;
}

/* Offset of an element, in bytes. */
static inline size_t sp_q16_key_at(int channel, int slot)
{
    return SP_Q16_SCALES + (size_t)((channel / 2 * SP_BLOCK_TOKENS + slot) * 4 + channel % 2 * 2);
}

static inline size_t sp_q16_value_at(int channel, int slot)
{
    const int pair = channel / 16 * (SP_BLOCK_TOKENS / 2) + slot / 2;
    return SP_Q16_SCALES + (size_t)((pair * 16 + channel % 16) * 4 + slot % 2 * 2);
}

/* -- one token --------------------------------------------------------------------------------- */

/* sp_kv_put_key -- a key, rotated, into column `slot` of a head of a block: the definition of what
 * is stored of it. sp_kv_put_value -- the same of a value. */
void sp_kv_put_key(sp_dtype type, int head, const float *key, uint8_t *keys, int slot);
void sp_kv_put_value(sp_dtype type, int head, const float *value, uint8_t *values, int slot);

/* sp_kv_get_key, sp_kv_get_value -- decoded: out [D]. */
void sp_kv_get_key(sp_dtype type, int head, const uint8_t *keys, int slot, float *out);
void sp_kv_get_value(sp_dtype type, int head, const uint8_t *values, int slot, float *out);

/* sp_kv_read_keys -- a block's keys of one KV head decoded: out [D][B]. */
void sp_kv_read_keys(const sp_kv_view *kv, uint32_t block, int head, float *out);

#endif
