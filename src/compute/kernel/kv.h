/* kv.h -- addresses of keys and values in a block; the layout is at sp_kv_view. */
#ifndef SP_COMPUTE_KERNEL_KV_H
#define SP_COMPUTE_KERNEL_KV_H

#include "compute/kernels.h"

static inline uint8_t *sp_kv_keys(const sp_kv_view *kv, uint32_t block, int head)
{
    const size_t to_next = kv->head_bytes ? kv->head_bytes : 2 * sp_kv_head_bytes(kv->type, kv->head);
    return kv->base + block * kv->block_bytes + (size_t)head * to_next;
}

static inline uint8_t *sp_kv_values(const sp_kv_view *kv, uint32_t block, int head)
{
    return sp_kv_keys(kv, block, head) + sp_kv_head_bytes(kv->type, kv->head);
}

/* -- Q16 --------------------------------------------------------------------------------------- */

#define SP_Q16_SCALES            (SP_BLOCK_TOKENS * sizeof(float)) /* they come first */
#define SP_Q16_HEAD_BYTES(width) (SP_Q16_SCALES + SP_BLOCK_TOKENS * (width) * sizeof(int16_t))

/* The integers that a key's norm and a value's largest element become. */
#define SP_Q16_KEY_NORM  32700.0f
#define SP_Q16_VALUE_MAX 32767.0f

/* sp_q16_is_usual -- whether a norm or largest element has a usable reciprocal. Vectors below the
 * range are stored as zeros, so that no reciprocal overflows; vectors above it get NaN as their
 * scale. */
static inline bool sp_q16_is_usual(float size)
{
    return size > 0x1p-100f && size <= 0x1p100f;
}

/* The offset of an element in a head of a block, in bytes. */
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

/* sp_kv_put_key -- stores a rotated key in slot `slot` of a head's keys in a block. It defines how
 * keys are encoded. sp_kv_put_value -- the same for a value. */
void sp_kv_put_key(sp_dtype type, int head, const float *key, uint8_t *keys, int slot);
void sp_kv_put_value(sp_dtype type, int head, const float *value, uint8_t *values, int slot);

/* sp_kv_get_key, sp_kv_get_value -- decode one token: out [D]. */
void sp_kv_get_key(sp_dtype type, int head, const uint8_t *keys, int slot, float *out);
void sp_kv_get_value(sp_dtype type, int head, const uint8_t *values, int slot, float *out);

/* sp_kv_read_keys -- decodes the keys of one KV head in a block: out [D][B]. */
void sp_kv_read_keys(const sp_kv_view *kv, uint32_t block, int head, float *out);

#endif
