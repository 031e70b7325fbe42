/* vec.h -- the operations of simd/vec.h in NEON: a vec is two registers, so that the 32 registers of the CPU hold the
 * tiles that AVX2 has in 16, and sums have the order of AVX2. */
#ifndef SP_COMPUTE_ARM64_VEC_H
#define SP_COMPUTE_ARM64_VEC_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>

typedef float32x4_t quad; /* four floats */
typedef struct vec {
    quad lo, hi;
} vec;

INLINE void quad_store(float *p, quad a)
{
    vst1q_f32(p, a);
}
INLINE float quad_first(quad a)
{
    return vgetq_lane_f32(a, 0);
}

/* Functions of one, two and three vectors, computed half by half. */
#define HALVES_1(name, f)                                                                          \
    INLINE vec name(vec a)                                                                         \
    {                                                                                              \
        return (vec){f(a.lo), f(a.hi)};                                                            \
    }
#define HALVES_2(name, f)                                                                          \
    INLINE vec name(vec a, vec b)                                                                  \
    {                                                                                              \
        return (vec){f(a.lo, b.lo), f(a.hi, b.hi)};                                                \
    }
#define HALVES_3(name, f)                                                                          \
    INLINE vec name(vec a, vec b, vec c)                                                           \
    {                                                                                              \
        return (vec){f(a.lo, b.lo, c.lo), f(a.hi, b.hi, c.hi)};                                    \
    }

INLINE vec vec_all(float f)
{
    return (vec){vdupq_n_f32(f), vdupq_n_f32(f)};
}
INLINE vec vec_zero(void)
{
    return vec_all(0);
}
INLINE vec vec_load(const float *p)
{
    return (vec){vld1q_f32(p), vld1q_f32(p + 4)};
}
INLINE void vec_store(float *p, vec a)
{
    vst1q_f32(p, a.lo);
    vst1q_f32(p + 4, a.hi);
}
HALVES_2(vec_add, vaddq_f32)
HALVES_2(vec_sub, vsubq_f32)
HALVES_2(vec_mul, vmulq_f32)
HALVES_2(vec_div, vdivq_f32)
HALVES_2(vec_max, vmaxq_f32)
HALVES_2(vec_min, vminq_f32)
HALVES_1(vec_abs, vabsq_f32)
HALVES_1(vec_round, vrndnq_f32)

/* a * b + c and a * b - c, rounded once */
INLINE quad quad_fma(quad a, quad b, quad c)
{
    return vfmaq_f32(c, a, b);
}
INLINE quad quad_fms(quad a, quad b, quad c)
{
    return vfmaq_f32(vnegq_f32(c), a, b);
}
HALVES_3(vec_fma, quad_fma)
HALVES_3(vec_fms, quad_fms)

/* a * b - c in even lanes, a * b + c in odd ones */
INLINE quad quad_fma_sub_add(quad a, quad b, quad c)
{
    const uint32x4_t even = {0x80000000, 0, 0x80000000, 0};
    return vfmaq_f32(vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(c), even)), a, b);
}
HALVES_3(vec_fma_sub_add, quad_fma_sub_add)

/* -- other types ------------------------------------------------------------------------------- */

INLINE float vec_f16_one(uint16_t bits)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits))), 0);
}
INLINE vec vec_load_f16(const void *p)
{
    const uint16x8_t h = vreinterpretq_u16_u8(vld1q_u8(p));
    return (vec){vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(h))),
                 vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(h)))};
}
/* Rounds to nearest even, like sp_f32_to_f16. */
INLINE void vec_store_f16(void *p, vec a)
{
    const uint16x4_t lo = vreinterpret_u16_f16(vcvt_f16_f32(a.lo));
    const uint16x4_t hi = vreinterpret_u16_f16(vcvt_f16_f32(a.hi));
    vst1q_u8(p, vreinterpretq_u8_u16(vcombine_u16(lo, hi)));
}
INLINE vec vec_load_bf16(const void *p)
{
    const uint16x8_t h = vreinterpretq_u16_u8(vld1q_u8(p));
    return (vec){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)),
                 vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(h), 16))};
}
INLINE vec vec_of_words(int16x8_t w)
{
    return (vec){vcvtq_f32_s32(vmovl_s16(vget_low_s16(w))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(w)))};
}
INLINE vec vec_load_i8(const void *p)
{
    return vec_of_words(vmovl_s8(vld1_s8(p)));
}

/* -- bits -------------------------------------------------------------------------------------- */

INLINE quad quad_select(unsigned bits, quad a, quad b)
{
    const uint32x4_t lane = {1, 2, 4, 8};
    return vbslq_f32(vtstq_u32(vdupq_n_u32(bits), lane), a, b);
}
/* Lane i is from a where bit i is set, else from b. */
INLINE vec vec_select(unsigned bits, vec a, vec b)
{
    return (vec){quad_select(bits, a.lo, b.lo), quad_select(bits >> 4, a.hi, b.hi)};
}
/* a * 2^n, n a whole number in -126 .. 127 */
INLINE quad quad_scale2(quad a, quad n)
{
    const int32x4_t e = vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23);
    return vmulq_f32(a, vreinterpretq_f32_s32(e));
}
HALVES_2(vec_scale2, quad_scale2)

/* a where x >= limit, else 0 */
INLINE quad quad_zero_below(quad a, quad x, quad limit)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), vcgeq_f32(x, limit)));
}
HALVES_3(vec_zero_below, quad_zero_below)

/* a + n * 2^23 in the bits of a: adds the low bits of n to its exponent. */
INLINE quad quad_add_exponent(quad a, quad n)
{
    const int32x4_t e = vshlq_n_s32(vreinterpretq_s32_f32(n), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a), e));
}
HALVES_2(vec_add_exponent, quad_add_exponent)

/* -- across lanes ------------------------------------------------------------------------------ */

/* VL / 2 numbers, each duplicated: a a b b ... */
INLINE vec vec_twice(const float *p)
{
    const quad a = vld1q_f32(p);
    return (vec){vzip1q_f32(a, a), vzip2q_f32(a, a)};
}
HALVES_1(vec_swap_pairs, vrev64q_f32)

/* Whether any lane of a is larger than b. */
INLINE bool vec_any_above(vec a, float b)
{
    const uint32x4_t above = vorrq_u32(vcgtq_f32(a.lo, vdupq_n_f32(b)), vcgtq_f32(a.hi, vdupq_n_f32(b)));
    return vmaxvq_u32(above) != 0;
}

/* The sums over the lanes of four vectors: pairs, pairs of pairs, halves. */
INLINE quad vec_sum4(vec a, vec b, vec c, vec d)
{
    const quad lo = vpaddq_f32(vpaddq_f32(a.lo, b.lo), vpaddq_f32(c.lo, d.lo));
    const quad hi = vpaddq_f32(vpaddq_f32(a.hi, b.hi), vpaddq_f32(c.hi, d.hi));
    return vaddq_f32(lo, hi);
}
INLINE float vec_largest(vec a)
{
    return vmaxvq_f32(vmaxq_f32(a.lo, a.hi));
}
/* One lane of a vector whose lanes are equal. */
INLINE float vec_one(vec a)
{
    return quad_first(a.lo);
}
/* The sum of 16 floats: each half onto the other. */
INLINE float vec_sum16(const float x[16])
{
    const vec h = vec_add(vec_load(x), vec_load(x + 8));
    const quad q = vaddq_f32(h.lo, h.hi);
    const float32x2_t two = vadd_f32(vget_low_f32(q), vget_high_f32(q));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

#endif
