/* quantize_body.h -- rows of x to integers; the form is in quantized.h. */
#include <string.h>

#include "compute/ops_int.h"
#include "compute/x86/quantized.h"

/* bits of the largest of |x| over 32 elements; beyond those of FLT_MAX if one is not finite */
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

INLINE void store_ints(const __m256i q[4], uint8_t *out)
{
    /* packs work on halves of 128 bits: the permutations put the quarters in order again */
    __m256i a = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[0], q[1]), 0xd8);
    __m256i b = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[2], q[3]), 0xd8);
    if (SP_STEP == 2) {
        _mm256_storeu_si256((__m256i *)out, a);
        _mm256_storeu_si256((__m256i *)out + 1, b);
    } else {
        _mm256_storeu_si256((__m256i *)out,
                            _mm256_permute4x64_epi64(_mm256_packs_epi16(a, b), 0xd8));
    }
}

/* Group g of a row. Groups that are zero, or too small for 1 / scale, become zero. */
INLINE void quantize_group(const float *x, const qrow *to, int64_t g)
{
    __m256i v[4], q[4];
    for (int i = 0; i < 4; i++) v[i] = _mm256_loadu_si256((const __m256i *)(x + 8 * i));
    const int32_t bits = largest_bits(v);
    float largest, scale, inverse;
    memcpy(&largest, &bits, sizeof largest);
    const bool tiny = largest < 1e-30f;
    scale = tiny ? 0 : largest / SP_X_MAX;
    inverse = tiny ? 0 : SP_X_MAX / largest;
    if (bits > 0x7f7fffff) {
        scale = NAN, inverse = 0;
        for (int i = 0; i < 4; i++) v[i] = _mm256_setzero_si256();
    }
    for (int i = 0; i < 4; i++)
        q[i] =
            _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_castsi256_ps(v[i]), _mm256_set1_ps(inverse)));
    const int32_t low = sum_lanes(_mm256_add_epi32(q[0], q[1]));
    const int32_t high = sum_lanes(_mm256_add_epi32(q[2], q[3]));
    store_ints(q, (uint8_t *)to->x + g * (128 / SP_STEP));
    ((float *)to->scale)[g] = scale;
    ((float *)to->sum)[g] = scale * (float)(low + high);
    if (SP_STEP == 4) {
        ((int32_t *)to->start)[g] = -128 * (low + high);
        ((int32_t *)to->half)[2 * g] = -128 * low;
        ((int32_t *)to->half)[2 * g + 1] = -128 * high;
    }
}

void SP_VARIANT(sp_quantize)(const sp_quantize_args *a, int part, int n_parts)
{
    int64_t from, to;
    sp_part(a->m, 1, part, n_parts, &from, &to);
    for (int64_t m = from; m < to; m++) {
        const qrow row = qrow_at(a->q, m, a->n);
        for (int64_t g = 0; g < a->n / 32; g++) quantize_group(a->x + m * a->n + g * 32, &row, g);
    }
}

size_t SP_VARIANT(sp_quantized_bytes)(int64_t n)
{
    return qrow_bytes(n);
}
