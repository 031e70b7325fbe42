/* panels.h -- unpacks blocks of a packed panel for products: integers in lines, factors in f32.
 *
 * A block is up to eight groups of 32 columns of the R = 2 VL outputs of a panel. A line is the
 * operand of one vector instruction: VL outputs times the columns of a step.
 *
 *   words   int16, two columns a step
 *   bytes   uint8, four columns a step: the codes; for 8-bit weights w + 128
 *
 * A weight is its scale times an integer, plus a constant: that of its type, or minus the zero
 * point times the scale. */
#ifndef SP_COMPUTE_X86_PANELS_H
#define SP_COMPUTE_X86_PANELS_H

#include "compute/kernel/pack.h"
#include "compute/kernel/quant.h"
#include "compute/x86/quantized.h"

enum {
    R = 2 * VL,    /* outputs in a panel */
    LINE = 4 * VL, /* bytes */
    GROUPS = 8,    /* in a block */
    MOST_LINES = SP_VNNI ? 16 : 32,
};

INLINE int step_of(sp_dtype type)
{
    return words_of(type) ? 2 : 4;
}

/* Steps in a group; each has two lines. */
INLINE int steps_of(sp_dtype type)
{
    return 32 / step_of(type);
}

INLINE sp_pack_form form_of(sp_dtype type)
{
    return (sp_pack_form){R, step_of(type)};
}

typedef struct factors_of {
    _Alignas(64) float scale[2][R]; /* one for each half, if they differ */
    float min[2][R];                /* the constant */
} factors_of;

typedef struct block {
    _Alignas(64) uint8_t lines[GROUPS][MOST_LINES * LINE];
    factors_of factors[GROUPS];
} block;

/* Whether each 16-column half of a group has its own factors. */
INLINE bool in_halves(sp_dtype type)
{
    return type == SP_Q6_K || type == SP_Q2_K;
}

INLINE bool has_min(sp_dtype type)
{
    return type != SP_Q8_0;
}

INLINE int zero_of(sp_dtype type)
{
    return type == SP_Q4_0 ? 8 : type == SP_Q5_0 ? 16 : type == SP_Q6_K ? 32 : 0;
}

/* -- codes ------------------------------------------------------------------------------------- */

INLINE __m256i load_piece(const uint8_t *p, int k)
{
    return _mm256_loadu_si256((const __m256i *)p + k);
}

INLINE __m256i bits_of(__m256i b, int shift, int mask)
{
    return _mm256_and_si256(_mm256_srl_epi16(b, _mm_cvtsi32_si128(shift)),
                            _mm256_set1_epi8((char)mask));
}

/* Codes 32 k .. 32 k + 31 of a group. */
INLINE __m256i codes(sp_dtype type, const sp_pack_layout *l, const uint8_t *group, int k)
{
    const uint8_t *low = group + l->low, *high = group + l->high;
    if (type == SP_Q8_0) return load_piece(low, k);
    __m256i c = bits_of(load_piece(low, k % (R / 2)), k / (R / 2) * 4, 15);
    if (type == SP_Q5_0 || type == SP_Q5_1 || type == SP_Q5_K) {
        __m256i b = bits_of(load_piece(high, k % (R / 8)), k / (R / 8), 1);
        c = _mm256_or_si256(c, _mm256_slli_epi16(b, 4));
    } else if (type == SP_Q6_K) {
        __m256i b = bits_of(load_piece(high, k % (R / 4)), k / (R / 4) * 2, 3);
        c = _mm256_or_si256(c, _mm256_slli_epi16(b, 4));
    }
    return c;
}

/* Codes 32 k .. 32 k + 31 in the form of lines: one 256-bit vector of bytes, or two of words. */
INLINE void expand(sp_dtype type, const sp_pack_layout *l, const uint8_t *group, int k,
                   __m256i out[2])
{
    const __m256i c = codes(type, l, group, k);
    if (words_of(type)) {
        out[0] = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(c));
        out[1] = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(c, 1));
    } else {
        out[0] = type == SP_Q8_0 ? _mm256_xor_si256(c, _mm256_set1_epi8((char)0x80)) : c;
    }
}

/* Line i of a group, unpacked directly into registers. */
INLINE ivec line_direct(sp_dtype type, const sp_pack_layout *l, const uint8_t *group, int i)
{
    enum { PER_LINE = SP_VL / 8 }; /* 256-bit vectors */
    const int per_piece = words_of(type) ? 2 : 1;
    __m256i v[PER_LINE], piece[2];
    for (int n = 0; n < PER_LINE; n++) {
        const int at = i * PER_LINE + n;
        expand(type, l, group, at / per_piece, piece);
        v[n] = piece[at % per_piece];
    }
#if SP_VL == 8
    return v[0];
#else
    return _mm512_inserti64x4(_mm512_castsi256_si512(v[0]), v[1], 1);
#endif
}

/* -- factors ----------------------------------------------------------------------------------- */

INLINE __m256 f16s(const uint8_t *p, int r)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 2 * r)));
}

INLINE __m256 u8s(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

INLINE __m256 i8s(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

/* The constant of types with a zero point: -zero_of(type) * d. */
INLINE __m256 less_zero(sp_dtype type, __m256 d)
{
    return _mm256_mul_ps(d, _mm256_set1_ps((float)-zero_of(type)));
}

/* Factors of outputs r .. r + 7. */
INLINE void eight_factors(sp_dtype type, const uint8_t *head, const uint8_t *group, int r,
                          factors_of *out)
{
    __m256 scale, min;
    switch (type) {
    case SP_Q4_1:
    case SP_Q5_1:
        scale = f16s(group, r);
        min = f16s(group, R + r);
        break;
    case SP_Q4_K:
    case SP_Q5_K:
        scale = _mm256_mul_ps(f16s(head, r), u8s(group + r));
        min = _mm256_mul_ps(_mm256_xor_ps(f16s(head, R + r), _mm256_set1_ps(-0.0f)),
                            u8s(group + R + r));
        break;
    case SP_Q2_K:
        min = _mm256_xor_ps(f16s(head, R + r), _mm256_set1_ps(-0.0f));
        _mm256_store_ps(out->scale[1] + r, _mm256_mul_ps(f16s(head, r), u8s(group + R + r)));
        _mm256_store_ps(out->min[1] + r, _mm256_mul_ps(min, u8s(group + 3 * R + r)));
        scale = _mm256_mul_ps(f16s(head, r), u8s(group + r));
        min = _mm256_mul_ps(min, u8s(group + 2 * R + r));
        break;
    case SP_Q6_K:
        scale = _mm256_mul_ps(f16s(head, r), i8s(group + R + r));
        _mm256_store_ps(out->scale[1] + r, scale);
        _mm256_store_ps(out->min[1] + r, less_zero(type, scale));
        scale = _mm256_mul_ps(f16s(head, r), i8s(group + r));
        min = less_zero(type, scale);
        break;
    default:
        scale = f16s(group, r);
        min = less_zero(type, scale);
    }
    _mm256_store_ps(out->scale[0] + r, scale);
    if (has_min(type)) _mm256_store_ps(out->min[0] + r, min);
}

INLINE void factors(sp_dtype type, const uint8_t *head, const uint8_t *group, factors_of *out)
{
    for (int r = 0; r < R; r += 8) eight_factors(type, head, group, r, out);
}

/* Prefetches weights: the CPU's own prefetch stops at the end of a page. */
INLINE void fetch(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += SP_CACHE_LINE) {
        _mm_prefetch((const char *)p + i, _MM_HINT_T0);
    }
}

/* Unpacks n groups and prefetches those of the next block. `head` is the head of these groups, or
 * their start for types without heads. */
INLINE void unpack(sp_dtype type, const sp_pack_layout *l, const uint8_t *head, int n, block *out)
{
    const int pieces = words_of(type) ? 2 : 1; /* of 32 codes */
    const uint8_t *group = head + l->head;
    for (int g = 0; g < n; g++, group += l->group) {
        fetch(group + GROUPS * l->group, l->group);
        factors(type, head, group, &out->factors[g]);
        for (int k = 0; k < R; k++) {
            __m256i *to = (__m256i *)out->lines[g] + k * pieces, v[2];
            expand(type, l, group, k, v);
            for (int i = 0; i < pieces; i++) _mm256_store_si256(to + i, v[i]);
        }
    }
}

#endif
