/* vec.h -- the operations of simd/vec.h in AVX2 (SP_VL 8) and AVX-512 (16). */
#ifndef SP_COMPUTE_X86_VEC_H
#define SP_COMPUTE_X86_VEC_H

#if SP_EMULATE
#include "compute/x86/emulate.h"
#else
#include <immintrin.h>
#endif
#include <stdbool.h>
#include <stdint.h>

#if SP_VL == 8
typedef __m256 vec;
#define OF(op) _mm256_##op
#else
typedef __m512 vec;
#define OF(op) _mm512_##op
#endif
typedef __m128 quad; /* four floats */

INLINE void quad_store(float *p, quad a)
{
    _mm_storeu_ps(p, a);
}
INLINE float quad_first(quad a)
{
    return _mm_cvtss_f32(a);
}

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

/* a * b - c in even lanes, a * b + c in odd ones */
INLINE vec vec_fma_sub_add(vec a, vec b, vec c)
{
    return OF(fmaddsub_ps)(a, b, c);
}
INLINE float vec_f16_one(uint16_t bits)
{
    return _cvtsh_ss(bits);
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
/* a + n * 2^23 in the bits of a: adds the low bits of n to its exponent. */
INLINE vec vec_add_exponent(vec a, vec n)
{
    __m256i e = _mm256_slli_epi32(_mm256_castps_si256(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), e));
}
/* Whether any lane of a is larger than b. */
INLINE bool vec_any_above(vec a, float b)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(a, vec_all(b), _CMP_GT_OQ)) != 0;
}
/* VL / 2 numbers, each duplicated: a a b b ... */
INLINE vec vec_twice(const float *p)
{
    const __m256i pairs = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), pairs);
}
INLINE vec vec_swap_pairs(vec a)
{
    return _mm256_permute_ps(a, 0xb1);
}
/* Rounds to nearest even, like sp_f32_to_f16. */
INLINE void vec_store_f16(void *p, vec a)
{
    _mm_storeu_si128(p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
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
INLINE vec vec_add_exponent(vec a, vec n)
{
    __m512i e = _mm512_slli_epi32(_mm512_castps_si512(n), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), e));
}
INLINE bool vec_any_above(vec a, float b)
{
    return _mm512_cmp_ps_mask(a, vec_all(b), _CMP_GT_OQ) != 0;
}
INLINE vec vec_twice(const float *p)
{
    const __m512i pairs = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(pairs, _mm512_castps256_ps512(_mm256_loadu_ps(p)));
}
INLINE vec vec_swap_pairs(vec a)
{
    return _mm512_permute_ps(a, 0xb1);
}
INLINE void vec_store_f16(void *p, vec a)
{
    _mm256_storeu_si256(p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
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
INLINE quad vec_sum4(vec a, vec b, vec c, vec d)
{
    __m256 ab = _mm256_hadd_ps(vec_fold_add(a), vec_fold_add(b));
    __m256 cd = _mm256_hadd_ps(vec_fold_add(c), vec_fold_add(d));
    __m256 all = _mm256_hadd_ps(ab, cd);
    return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}

INLINE float vec_largest(vec a)
{
    __m256 x = vec_fold_max(a);
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

/* One lane of a vector whose lanes are equal. */
INLINE float vec_one(vec a)
{
    return _mm_cvtss_f32(_mm256_castps256_ps128(vec_fold_max(a)));
}

/* The sum of 16 floats, aligned: each half onto the other. */
INLINE float vec_sum16(const float x[16])
{
    const __m256 h = _mm256_add_ps(_mm256_load_ps(x), _mm256_load_ps(x + 8));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

#endif
