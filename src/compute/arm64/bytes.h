/* bytes.h -- 32 bytes and eight floats in NEON: panels.h unpacks weights with them, quantize.c rounds groups of x. */
#ifndef SP_COMPUTE_ARM64_BYTES_H
#define SP_COMPUTE_ARM64_BYTES_H

#include "compute/arm64/ivec.h"

/* -- 32 bytes ---------------------------------------------------------------------------------- */

typedef struct bytes {
    uint8x16_t lo, hi;
} bytes;

INLINE bytes bytes_load(const uint8_t *p)
{
    return (bytes){vld1q_u8(p), vld1q_u8(p + 16)};
}
INLINE void bytes_store(uint8_t *to, bytes b)
{
    vst1q_u8(to, b.lo);
    vst1q_u8(to + 16, b.hi);
}
/* (b >> shift) & mask */
INLINE bytes bytes_field(bytes b, int shift, int mask)
{
    const int8x16_t by = vdupq_n_s8((int8_t)-shift);
    const uint8x16_t m = vdupq_n_u8((uint8_t)mask);
    return (bytes){vandq_u8(vshlq_u8(b.lo, by), m), vandq_u8(vshlq_u8(b.hi, by), m)};
}
/* low | high << 4, of codes below 16 */
INLINE bytes bytes_above(bytes low, bytes high)
{
    return (bytes){vsliq_n_u8(low.lo, high.lo, 4), vsliq_n_u8(low.hi, high.hi, 4)};
}
/* Signed weights as ivec_dot_bytes takes them: as they are. */
INLINE bytes bytes_of_signed(bytes w)
{
    return w;
}
INLINE ivec ivec_of_bytes(const bytes b[1])
{
    return (ivec){vreinterpretq_s32_u8(b->lo), vreinterpretq_s32_u8(b->hi)};
}

/* -- eight floats ------------------------------------------------------------------------------ */

typedef vec vec8;

INLINE vec8 vec8_f16(const uint8_t *p)
{
    return vec_load_f16(p);
}
INLINE vec8 vec8_u8(const uint8_t *p)
{
    return vec_of_words(vreinterpretq_s16_u16(vmovl_u8(vld1_u8(p))));
}
INLINE vec8 vec8_i8(const uint8_t *p)
{
    return vec_load_i8(p);
}
INLINE vec8 vec8_mul(vec8 a, vec8 b)
{
    return vec_mul(a, b);
}
INLINE vec8 vec8_times(vec8 a, float f)
{
    return vec_mul(a, vec_all(f));
}
HALVES_1(vec8_minus, vnegq_f32)
INLINE void vec8_store(float *p, vec8 a)
{
    vec_store(p, a);
}

/* -- a group of 32 floats ---------------------------------------------------------------------- */

typedef struct group32 {
    quad v[8];
} group32;

INLINE group32 group_load(const float *x)
{
    group32 g;
    for (int i = 0; i < 8; i++) g.v[i] = vld1q_f32(x + 4 * i);
    return g;
}
INLINE group32 group_zero(void)
{
    group32 g;
    for (int i = 0; i < 8; i++) g.v[i] = vdupq_n_f32(0);
    return g;
}

/* The bits of the largest |x|; larger than those of FLT_MAX if one is not finite. */
INLINE int32_t group_largest(const group32 *g)
{
    int32x4_t most = vdupq_n_s32(0);
    for (int i = 0; i < 8; i++) most = vmaxq_s32(most, vreinterpretq_s32_f32(vabsq_f32(g->v[i])));
    return vmaxvq_s32(most);
}

/* x times `by`, rounded to bytes, and the sum of each half. */
INLINE void group_bytes(const group32 *g, float by, int8_t to[32], int32_t sum[2])
{
    for (int half = 0; half < 2; half++) {
        int16x4_t q[4];
        for (int i = 0; i < 4; i++)
            q[i] = vqmovn_s32(vcvtnq_s32_f32(vmulq_f32(g->v[4 * half + i], vdupq_n_f32(by))));
        const int8x8_t low = vqmovn_s16(vcombine_s16(q[0], q[1])), high = vqmovn_s16(vcombine_s16(q[2], q[3]));
        const int8x16_t all = vcombine_s8(low, high);
        vst1q_s8(to + 16 * half, all);
        sum[half] = vaddlvq_s8(all);
    }
}

#endif
