/* quantize.c -- rounds rows of x to integers, in the layout of quantized.h. */
#include <string.h>

#include "compute/kernel/ops.h"
#include "compute/x86/quantized.h"

/* The bits of the largest |x| of 32 elements; larger than those of FLT_MAX if one is not finite. */
INLINE int32_t largest_bits(const __m256i v[4])
{
    const __m256i sign = _mm256_set1_epi32(0x7fffffff);
    __m256i a = _mm256_and_si256(v[0], sign);
    for (int i = 1; i < 4; i++) a = _mm256_max_epi32(a, _mm256_and_si256(v[i], sign));
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}

INLINE int32_t sum_lanes(__m256i a)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* v times `by`, rounded to words; the permutation restores the order after packs. */
INLINE void round_words(const __m256i v[4], float by, __m256i out[2])
{
    __m256i q[4];
    for (int i = 0; i < 4; i++)
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_castsi256_ps(v[i]), _mm256_set1_ps(by)));
    for (int i = 0; i < 2; i++)
        out[i] = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[2 * i], q[2 * i + 1]), 0xd8);
}

INLINE void store_ints(__m256i a, void *to)
{
    _mm256_storeu_si256((__m256i *)to, a);
}

/* The range of a group, which determines its scale. */
typedef struct group_range {
    float largest; /* |x|; 0 when its reciprocal would overflow: the group becomes zeros */
    bool finite;
} group_range;

INLINE group_range range_of(__m256i v[4])
{
    const int32_t bits = largest_bits(v);
    group_range r = {.finite = bits <= 0x7f7fffff};
    memcpy(&r.largest, &bits, sizeof bits);
    if (!r.finite) {
        r.largest = 0;
        for (int i = 0; i < 4; i++) v[i] = _mm256_setzero_si256();
    }
    if (r.largest < 1e-30f) r.largest = 0;
    return r;
}

INLINE float scale_of(const group_range *r, float steps)
{
    return r->finite ? r->largest / steps : NAN;
}

INLINE float inverse_of(const group_range *r, float steps)
{
    return r->largest > 0 ? steps / r->largest : 0;
}

INLINE void words_of_group(const group_range *r, const __m256i v[4], words_group *to)
{
    __m256i q[2];
    round_words(v, inverse_of(r, 32767), q);
    for (int i = 0; i < 2; i++) store_ints(q[i], to->x + 16 * i);
    to->scale = scale_of(r, 32767);
}

INLINE void bytes_of_group(const group_range *r, const __m256i v[4], bytes_group *to)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i q[2];
    round_words(v, inverse_of(r, 127), q);
    const int32_t low = sum_lanes(_mm256_madd_epi16(q[0], ones));
    const int32_t high = sum_lanes(_mm256_madd_epi16(q[1], ones));
    store_ints(_mm256_permute4x64_epi64(_mm256_packs_epi16(q[0], q[1]), 0xd8), to->x);
    to->scale = scale_of(r, 127);
    to->sum = to->scale * (float)(low + high);
    to->half[0] = to->scale * (float)low;
    to->half[1] = to->scale * (float)high;
    to->start = -128 * (low + high);
}

INLINE void quantize_row(const float *x, int64_t n, const sp_quantize_args *a, int64_t row)
{
    for (int64_t g = 0; g < n / 32; g++) {
        __m256i v[4];
        for (int i = 0; i < 4; i++)
            v[i] = _mm256_loadu_si256((const __m256i *)(x + 32 * g + 8 * i));
        const group_range r = range_of(v);
        bytes_of_group(&r, v, bytes_at(a->q, row, n) + g);
        if (!SP_VNNI) words_of_group(&r, v, words_at(a->q, row, n) + g);
    }
}

void SP_VARIANT(sp_quantize)(const sp_quantize_args *a, int part, int n_parts)
{
    int64_t from, to;
    sp_part(a->m, 1, part, n_parts, &from, &to);
    for (int64_t m = from; m < to; m++) quantize_row(a->x + m * a->n, a->n, a, m);
}

size_t SP_VARIANT(sp_quantized_bytes)(int64_t n)
{
    return qrow_bytes(n);
}
