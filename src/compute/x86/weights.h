/* weights.h -- 32 weights of a row as vectors, for every type; the layouts are in dtype.c.
 *
 * Everything here takes `type` as a compile-time constant. Columns are counted in units of 32, and
 * walked in runs of eight: the K types share scales among the 256 columns of a run, taken out of it
 * by load_scales(). A run begins at a unit that is a multiple of 8. Both the fused and the panel
 * path of matmul get their weights here, so that a weight has the same bits on both.
 */
#ifndef SP_COMPUTE_X86_WEIGHTS_H
#define SP_COMPUTE_X86_WEIGHTS_H

#include "compute/quant_int.h"
#include "compute/x86/vec.h"

typedef struct scales {
    float scale[16], min[8];
} scales;

INLINE float f16_at(const uint8_t *p)
{
    return _cvtsh_ss(sp_load_u16(p));
}

/* out[i] = d * p[i] for eight unsigned bytes */
INLINE void scale8(float d, const uint8_t *p, float *out)
{
    __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
    _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_set1_ps(d), v));
}

INLINE void load_k_scales(const uint8_t *block, scales *s)
{
    uint8_t scale[8], min[8];
    sp_k_scales(block + 4, scale, min);
    scale8(f16_at(block), scale, s->scale);
    scale8(f16_at(block + 2), min, s->min);
}

INLINE void load_q6_scales(const uint8_t *block, scales *s)
{
    __m256 d = _mm256_set1_ps(f16_at(block + 208));
    for (int i = 0; i < 16; i += 8) {
        __m128i b = _mm_loadl_epi64((const __m128i *)(block + 192 + i));
        _mm256_storeu_ps(s->scale + i,
                         _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b))));
    }
}

INLINE bool is_k_type(sp_dtype type)
{
    return type == SP_Q4_K || type == SP_Q5_K || type == SP_Q6_K;
}

/* Bytes of 32 weights; of the K types, 256 weights take eight times as many. */
INLINE int unit_bytes(sp_dtype type)
{
    switch (type) {
    case SP_F32:
        return 128;
    case SP_F16:
    case SP_BF16:
        return 64;
    case SP_Q8_0:
        return 34;
    case SP_Q4_0:
    case SP_Q4_K:
        return 18;
    case SP_Q4_1:
        return 20;
    case SP_Q5_0:
    case SP_Q5_K:
        return 22;
    case SP_Q5_1:
        return 24;
    default:
        return 0; /* Q6_K: 210 / 8 is no whole number */
    }
}

/* The run that begins at unit u of a row. */
INLINE const uint8_t *run_at(sp_dtype type, const uint8_t *row, int64_t u)
{
    return row + (type == SP_Q6_K ? u / 8 * 210 : u * unit_bytes(type));
}

/* Scales of a run. They are to lie in memory, where a broadcast takes them for the price of a load;
 * a compiler that sees through the array makes shuffles of it. */
INLINE void load_scales(sp_dtype type, const uint8_t *run, scales *s)
{
    if (!is_k_type(type)) return;
    if (type == SP_Q6_K) {
        load_q6_scales(run, s);
    } else {
        load_k_scales(run, s);
    }
    __asm__("" : "+m"(*s));
}

/* -- bytes ------------------------------------------------------------------------------------- */

/* bits `shift` and up of 32 bytes, under a mask */
INLINE __m256i bits32(__m256i b, int shift, char mask)
{
    return _mm256_and_si256(_mm256_srl_epi16(b, _mm_cvtsi32_si128(shift)), _mm256_set1_epi8(mask));
}

INLINE __m256i bytes32(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* 16 bytes as 32 nibbles: the low ones first */
INLINE __m256i nibbles(const uint8_t *p)
{
    __m128i b = _mm_loadu_si128((const __m128i *)p), low = _mm_set1_epi8(15);
    return _mm256_set_m128i(_mm_and_si128(_mm_srli_epi16(b, 4), low), _mm_and_si128(b, low));
}

/* byte i is 16 where bit i is set, else 0 */
INLINE __m256i fifths(const uint8_t *p)
{
    const __m256i spread =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i b = _mm256_shuffle_epi8(_mm256_set1_epi32((int)sp_load_u32(p)), spread);
    __m256i on = _mm256_cmpeq_epi8(_mm256_and_si256(b, bit), bit);
    return _mm256_and_si256(on, _mm256_set1_epi8(16));
}

/* -- 32 weights -------------------------------------------------------------------------------- */

/* w = d * (q - zero) */
INLINE void scaled(__m256i q, int zero, float d, vec w[V32])
{
    vec_from_i8(_mm256_sub_epi8(q, _mm256_set1_epi8((char)zero)), w);
    for (int i = 0; i < V32; i++) w[i] = vec_mul(w[i], vec_all(d));
}

/* w = d * q + m */
INLINE void shifted(__m256i q, float d, float m, vec w[V32])
{
    vec_from_i8(q, w);
    for (int i = 0; i < V32; i++) w[i] = vec_fma(w[i], vec_all(d), vec_all(m));
}

INLINE void unit_q8_0(const uint8_t *p, vec w[V32])
{
    vec d = vec_all(f16_at(p));
    for (int i = 0; i < V32; i++) w[i] = vec_mul(vec_load_i8(p + 2 + i * VL), d);
}

/* Unit k of a run. */
INLINE void unit_q4_k(const uint8_t *run, int k, const scales *s, vec w[V32])
{
    __m256i q = bytes32(run + 16 + k / 2 * 32);
    shifted(bits32(q, k % 2 * 4, 15), s->scale[k], -s->min[k], w);
}

INLINE void unit_q5_k(const uint8_t *run, int k, const scales *s, vec w[V32])
{
    __m256i low = bits32(bytes32(run + 48 + k / 2 * 32), k % 2 * 4, 15);
    __m256i high = bits32(bytes32(run + 16), k, 1);
    shifted(_mm256_or_si256(low, _mm256_slli_epi16(high, 4)), s->scale[k], -s->min[k], w);
}

INLINE void unit_q6_k(const uint8_t *run, int k, const scales *s, vec w[V32])
{
    const int half = k / 4, quarter = k % 4;
    __m256i low = bits32(bytes32(run + half * 64 + quarter % 2 * 32), quarter / 2 * 4, 15);
    __m256i high = bits32(bytes32(run + 128 + half * 32), quarter * 2, 3);
    __m256i q = _mm256_or_si256(low, _mm256_slli_epi16(high, 4));
    vec_from_i8(_mm256_sub_epi8(q, _mm256_set1_epi8(32)), w);
    for (int i = 0; i < V32; i++) w[i] = vec_mul(w[i], vec_all(s->scale[2 * k + i * VL / 16]));
}

/* Weights of unit k of a run. */
INLINE void unit_load(sp_dtype type, const uint8_t *run, int k, const scales *s, vec w[V32])
{
    const uint8_t *p = run + k * unit_bytes(type); /* not of the K types */
    switch (type) {
    case SP_F32:
        for (int i = 0; i < V32; i++) w[i] = vec_load((const float *)p + i * VL);
        break;
    case SP_F16:
        for (int i = 0; i < V32; i++) w[i] = vec_load_f16(p + i * VL * 2);
        break;
    case SP_BF16:
        for (int i = 0; i < V32; i++) w[i] = vec_load_bf16(p + i * VL * 2);
        break;
    case SP_Q8_0:
        unit_q8_0(p, w);
        break;
    case SP_Q4_0:
        scaled(nibbles(p + 2), 8, f16_at(p), w);
        break;
    case SP_Q4_1:
        shifted(nibbles(p + 4), f16_at(p), f16_at(p + 2), w);
        break;
    case SP_Q5_0:
        scaled(_mm256_or_si256(nibbles(p + 6), fifths(p + 2)), 16, f16_at(p), w);
        break;
    case SP_Q5_1:
        shifted(_mm256_or_si256(nibbles(p + 8), fifths(p + 4)), f16_at(p), f16_at(p + 2), w);
        break;
    case SP_Q4_K:
        unit_q4_k(run, k, s, w);
        break;
    case SP_Q5_K:
        unit_q5_k(run, k, s, w);
        break;
    case SP_Q6_K:
        unit_q6_k(run, k, s, w);
        break;
    default:
        __builtin_unreachable();
    }
}

/* Does something for each unit of a run of n: with constant shifts and masks for the K types, whose
 * runs are always whole. */
#define EACH_UNIT(type, n, do_unit)                                                                \
    if (is_k_type(type)) {                                                                         \
        do_unit(0) do_unit(1) do_unit(2) do_unit(3) do_unit(4) do_unit(5) do_unit(6) do_unit(7)    \
    } else {                                                                                       \
        for (int unit = 0; unit < (n); unit++) do_unit(unit)                                       \
    }

#endif
