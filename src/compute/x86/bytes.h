/* bytes.h -- 32 bytes and eight floats in AVX2, whatever the width of vec: panels.h unpacks weights with them,
 * quantize.c rounds groups of x. */
#ifndef SP_COMPUTE_X86_BYTES_H
#define SP_COMPUTE_X86_BYTES_H

#include "compute/x86/ivec.h"

/* -- 32 bytes ---------------------------------------------------------------------------------- */

typedef __m256i bytes;

INLINE bytes bytes_load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}
/* to: aligned to 32 bytes */
INLINE void bytes_store(uint8_t *to, bytes b)
{
    _mm256_store_si256((__m256i *)to, b);
}
/* (b >> shift) & mask; the mask is at most 255 >> shift */
INLINE bytes bytes_field(bytes b, int shift, int mask)
{
    return _mm256_and_si256(_mm256_srl_epi16(b, _mm_cvtsi32_si128(shift)),
                            _mm256_set1_epi8((char)mask));
}
/* low | high << 4, of codes below 16 */
INLINE bytes bytes_above(bytes low, bytes high)
{
    return _mm256_or_si256(low, _mm256_slli_epi16(high, 4));
}
/* Signed weights as ivec_dot_bytes takes them: w + 128. */
INLINE bytes bytes_of_signed(bytes w)
{
    return _mm256_xor_si256(w, _mm256_set1_epi8((char)0x80));
}

#if !SP_DOT
/* Signed bytes as words. */
INLINE void bytes_widen(bytes b, bytes out[2])
{
    out[0] = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(b));
    out[1] = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(b, 1));
}
#endif

INLINE ivec ivec_of_bytes(const bytes b[SP_VL / 8])
{
#if SP_VL == 8
    return b[0];
#else
    return _mm512_inserti64x4(_mm512_castsi256_si512(b[0]), b[1], 1);
#endif
}

/* -- eight floats ------------------------------------------------------------------------------ */

typedef __m256 vec8;

INLINE vec8 vec8_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
INLINE vec8 vec8_u8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
INLINE vec8 vec8_i8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
INLINE vec8 vec8_mul(vec8 a, vec8 b)
{
    return _mm256_mul_ps(a, b);
}
INLINE vec8 vec8_times(vec8 a, float f)
{
    return _mm256_mul_ps(a, _mm256_set1_ps(f));
}
INLINE vec8 vec8_minus(vec8 a)
{
    return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f));
}
/* p: aligned to 32 bytes */
INLINE void vec8_store(float *p, vec8 a)
{
    _mm256_store_ps(p, a);
}

/* -- a group of 32 floats ---------------------------------------------------------------------- */

typedef struct group32 {
    __m256i v[4];
} group32;

INLINE group32 group_load(const float *x)
{
    group32 g;
    for (int i = 0; i < 4; i++) g.v[i] = _mm256_loadu_si256((const __m256i *)(x + 8 * i));
    return g;
}
INLINE group32 group_zero(void)
{
    group32 g;
    for (int i = 0; i < 4; i++) g.v[i] = _mm256_setzero_si256();
    return g;
}

/* The bits of the largest |x|; larger than those of FLT_MAX if one is not finite. */
INLINE int32_t group_largest(const group32 *g)
{
    const __m256i sign = _mm256_set1_epi32(0x7fffffff);
    __m256i a = _mm256_and_si256(g->v[0], sign);
    for (int i = 1; i < 4; i++) a = _mm256_max_epi32(a, _mm256_and_si256(g->v[i], sign));
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}

/* x times `by`, rounded to words; the permutation restores the order after packs. */
INLINE void group_round(const group32 *g, float by, __m256i out[2])
{
    __m256i q[4];
    for (int i = 0; i < 4; i++)
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_castsi256_ps(g->v[i]), _mm256_set1_ps(by)));
    for (int i = 0; i < 2; i++)
        out[i] = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[2 * i], q[2 * i + 1]), 0xd8);
}

INLINE void group_words(const group32 *g, float by, int16_t to[32])
{
    __m256i q[2];
    group_round(g, by, q);
    for (int i = 0; i < 2; i++) _mm256_storeu_si256((__m256i *)(to + 16 * i), q[i]);
}

INLINE int32_t sum_of_words(__m256i q)
{
    const __m256i a = _mm256_madd_epi16(q, _mm256_set1_epi16(1));
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* x times `by`, rounded to bytes, and the sum of each half. */
INLINE void group_bytes(const group32 *g, float by, int8_t to[32], int32_t sum[2])
{
    __m256i q[2];
    group_round(g, by, q);
    for (int i = 0; i < 2; i++) sum[i] = sum_of_words(q[i]);
    _mm256_storeu_si256((__m256i *)to,
                        _mm256_permute4x64_epi64(_mm256_packs_epi16(q[0], q[1]), 0xd8));
}

#endif
