/* vec.h -- one vector of SP_VL floats, 8 (AVX2) or 16 (AVX-512), so that a kernel is written once.
 *
 * The Makefile compiles each kernel once for every variant, into X_avx2.o, X_avx512.o and so on:
 *
 *   SP_CPU    the variant's name, the suffix of its functions (SP_VARIANT)
 *   SP_VL     the width of a vector
 *   SP_VNNI   1: products of integers use VNNI (ivec.h). Kernels that multiply no integers have no
 *             such variant: a CPU with VNNI runs their avx2 or avx512 one.
 *
 * Sums over lanes have one fixed order. NaN gets no special care: max and min may drop it.
 */
#ifndef SP_COMPUTE_X86_VEC_H
#define SP_COMPUTE_X86_VEC_H

#if SP_EMULATE
#include "compute/x86/emulate.h"
#else
#include <immintrin.h>
#endif
#include <math.h>
#include <stdint.h>

#if SP_VL == 8
typedef __m256 vec;
#define OF(op) _mm256_##op
#elif SP_VL == 16
typedef __m512 vec;
#define OF(op) _mm512_##op
#else
#error "SP_VL must be 8 or 16 (the Makefile sets it)"
#endif

#define SP_VARIANT(name)      SP_VARIANT_2(name, SP_CPU)
#define SP_VARIANT_2(name, v) SP_VARIANT_3(name, v)
#define SP_VARIANT_3(name, v) name##_##v

/* The function of the variant without VNNI: what multiplies no integers is compiled once a width. */
#if SP_VL == 8
#define SP_WIDTH(name) name##_avx2
#else
#define SP_WIDTH(name) name##_avx512
#endif

#if SP_EMULATE /* inlining everything would take the compiler minutes */
#define INLINE static inline __attribute__((unused))
#else
#define INLINE static inline __attribute__((always_inline, unused))
#endif

enum { VL = SP_VL, V16 = 16 / SP_VL, V32 = 32 / SP_VL }; /* vectors in 16 and 32 floats */

INLINE vec vec_zero(void)
{
    return OF(setzero_ps)();
}
INLINE vec vec_all(float f)
{
    return OF(set1_ps)(f);
}
INLINE vec vec_load(const float *p)
{
    return OF(loadu_ps)(p);
}
INLINE void vec_store(float *p, vec a)
{
    OF(storeu_ps)(p, a);
}
INLINE vec vec_add(vec a, vec b)
{
    return OF(add_ps)(a, b);
}
INLINE vec vec_sub(vec a, vec b)
{
    return OF(sub_ps)(a, b);
}
INLINE vec vec_mul(vec a, vec b)
{
    return OF(mul_ps)(a, b);
}
INLINE vec vec_div(vec a, vec b)
{
    return OF(div_ps)(a, b);
}
INLINE vec vec_max(vec a, vec b)
{
    return OF(max_ps)(a, b);
}
INLINE vec vec_min(vec a, vec b)
{
    return OF(min_ps)(a, b);
}
/* a * b + c and a * b - c, rounded once */
INLINE vec vec_fma(vec a, vec b, vec c)
{
    return OF(fmadd_ps)(a, b, c);
}
INLINE vec vec_fms(vec a, vec b, vec c)
{
    return OF(fmsub_ps)(a, b, c);
}

INLINE vec vec_abs(vec a)
{
    return OF(andnot_ps)(vec_all(-0.0f), a);
}

/* -- operations that differ by width ----------------------------------------------------------- */

#if SP_VL == 8

INLINE vec vec_load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}
INLINE vec vec_load_bf16(const void *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
INLINE vec vec_load_i8(const void *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}
/* 32 signed bytes */
INLINE void vec_from_i8(__m256i b, vec w[V32])
{
    __m128i lo = _mm256_castsi256_si128(b), hi = _mm256_extracti128_si256(b, 1);
    w[0] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(lo));
    w[1] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(lo, 8)));
    w[2] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(hi));
    w[3] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(hi, 8)));
}
/* Lane i is from a where bit i is set, else from b. */
INLINE vec vec_select(unsigned bits, vec a, vec b)
{
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i on = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), lane), lane);
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(on));
}
INLINE vec vec_round(vec a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* a * 2^n, n a whole number in -126 .. 127 */
INLINE vec vec_scale2(vec a, vec n)
{
    __m256i e =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(a, _mm256_castsi256_ps(e));
}
/* a where x >= limit, else 0 */
INLINE vec vec_zero_below(vec a, vec x, vec limit)
{
    return _mm256_and_ps(a, _mm256_cmp_ps(x, limit, _CMP_GE_OQ));
}
INLINE __m256 vec_fold_add(vec a)
{
    return a;
}
INLINE __m256 vec_fold_max(vec a)
{
    return a;
}

#else

INLINE vec vec_load_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
INLINE vec vec_load_bf16(const void *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
INLINE vec vec_load_i8(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}
INLINE void vec_from_i8(__m256i b, vec w[V32])
{
    w[0] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(b)));
    w[1] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(b, 1)));
}
INLINE vec vec_select(unsigned bits, vec a, vec b)
{
    return _mm512_mask_blend_ps((__mmask16)bits, b, a);
}
INLINE vec vec_round(vec a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE vec vec_scale2(vec a, vec n)
{
    __m512i e =
        _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23);
    return _mm512_mul_ps(a, _mm512_castsi512_ps(e));
}
INLINE vec vec_zero_below(vec a, vec x, vec limit)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_GE_OQ), a);
}
INLINE __m256 vec_fold_add(vec a)
{
    return _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
}
INLINE __m256 vec_fold_max(vec a)
{
    return _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
}

#endif

/* -- across lanes ------------------------------------------------------------------------------ */

/* The sums over the lanes of four vectors. */
INLINE __m128 vec_sum4(vec a, vec b, vec c, vec d)
{
    __m256 ab = _mm256_hadd_ps(vec_fold_add(a), vec_fold_add(b));
    __m256 cd = _mm256_hadd_ps(vec_fold_add(c), vec_fold_add(d));
    __m256 all = _mm256_hadd_ps(ab, cd);
    return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}

INLINE float vec_sum(vec a)
{
    return _mm_cvtss_f32(vec_sum4(a, a, a, a));
}

INLINE float vec_largest(vec a)
{
    __m256 x = vec_fold_max(a);
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

/* -- exp --------------------------------------------------------------------------------------- */

/* e^x = 2^n * e^r with |r| <= ln 2 / 2; e^r is its series up to r^7 (remainder 6e-9). Relative
 * error about 1e-7. 0 for x < -87, so also for -inf; e^88 for x > 88. Every lane and both widths
 * give the same bits. */
INLINE vec vec_exp(vec x)
{
    const vec low = vec_all(-87.0f);
    vec z = vec_min(vec_max(x, low), vec_all(88.0f));
    vec n = vec_round(vec_mul(z, vec_all(0x1.715476p+0f))); /* 1 / ln 2 */
    vec r = vec_fma(n, vec_all(-0x1.62e4p-1f), z);          /* ln 2, top 15 bits: exact times n */
    r = vec_fma(n, vec_all(-0x1.7f7d1cp-20f), r);           /* the rest of ln 2 */
    vec p = vec_all(1.0f / 5040);
    p = vec_fma(p, r, vec_all(1.0f / 720));
    p = vec_fma(p, r, vec_all(1.0f / 120));
    p = vec_fma(p, r, vec_all(1.0f / 24));
    p = vec_fma(p, r, vec_all(1.0f / 6));
    p = vec_fma(p, r, vec_all(0.5f));
    p = vec_fma(p, r, vec_all(1.0f));
    p = vec_fma(p, r, vec_all(1.0f));
    return vec_zero_below(vec_scale2(p, n), x, low);
}

/* tanh: its series up to x^7 for |x| < 0.2, else 1 - 2 / (e^2x + 1). Relative error below 1e-6. */
INLINE vec vec_tanh(vec x)
{
    const vec square = vec_mul(x, x), size = vec_abs(x);
    vec p = vec_fma(square, vec_all(-17.0f / 315), vec_all(2.0f / 15));
    p = vec_fma(p, square, vec_all(-1.0f / 3));
    const vec near = vec_fma(vec_mul(p, square), x, x);
    const vec e = vec_exp(vec_add(x, x));
    const vec far = vec_sub(vec_all(1), vec_div(vec_all(2), vec_add(e, vec_all(1))));
    return vec_add(vec_zero_below(far, size, vec_all(0x1.99999ap-3f)),
                   vec_zero_below(near, vec_sub(vec_zero(), size), vec_all(-0x1.999998p-3f)));
}

#endif
