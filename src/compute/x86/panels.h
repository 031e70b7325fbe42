/* panels.h -- a block of a packed panel as the products want it: integers in lines, factors in f32.
 *
 * A block is up to eight groups of 32 columns of the R = 2 VL outputs of a panel. A line is what
 * one vector instruction takes: VL outputs times SP_STEP columns.
 *
 *   SP_STEP 2   int16, zero point taken off; of Q6_K also times its scale
 *   SP_STEP 4   uint8, zero point taken off and 128 added; quantized.h takes that off again
 */
#ifndef SP_COMPUTE_X86_PANELS_H
#define SP_COMPUTE_X86_PANELS_H

#include "compute/pack_int.h"
#include "compute/quant_int.h"
#include "compute/x86/quantized.h"

enum {
    R = 2 * VL,                     /* outputs of a panel */
    STEPS = 32 / SP_STEP,           /* of a group */
    LINE = 4 * VL,                  /* bytes */
    GROUP_LINES = 2 * STEPS * LINE, /* bytes of a group */
    GROUPS = 8,                     /* of a block */
};

static const sp_pack_form FORM = {R, SP_STEP};

typedef struct factors_of {
    _Alignas(64) float scale[2][R]; /* of both halves, where they differ */
    float min[R];                   /* the constant in the weights */
} factors_of;

typedef struct block {
    _Alignas(64) uint8_t lines[GROUPS][GROUP_LINES];
    factors_of factors[GROUPS];
} block;

/* Do the 16-column halves of a group have factors of their own in lines? */
INLINE bool in_halves(sp_dtype type)
{
    return type == SP_Q6_K && SP_STEP == 4;
}

INLINE bool has_min(sp_dtype type)
{
    return type == SP_Q4_1 || type == SP_Q5_1 || type == SP_Q4_K || type == SP_Q5_K;
}

INLINE int zero_of(sp_dtype type)
{
    return type == SP_Q4_0 ? 8 : type == SP_Q5_0 ? 16 : type == SP_Q6_K ? 32 : 0;
}

/* -- codes ------------------------------------------------------------------------------------- */

INLINE __m256i bytes_at(const uint8_t *p, int k)
{
    return _mm256_loadu_si256((const __m256i *)p + k);
}

INLINE __m256i bits_of(__m256i b, int shift, int mask)
{
    return _mm256_and_si256(_mm256_srl_epi16(b, _mm_cvtsi32_si128(shift)),
                            _mm256_set1_epi8((char)mask));
}

/* Codes 32 k .. 32 k + 31 of a group, signed. */
INLINE __m256i codes(sp_dtype type, const sp_pack_layout *l, const uint8_t *group, int k)
{
    const uint8_t *low = group + l->low, *high = group + l->high;
    if (type == SP_Q8_0) return bytes_at(low, k);
    __m256i c = bits_of(bytes_at(low, k % (R / 2)), k / (R / 2) * 4, 15);
    if (type == SP_Q5_0 || type == SP_Q5_1 || type == SP_Q5_K) {
        __m256i b = bits_of(bytes_at(high, k % (R / 8)), k / (R / 8), 1);
        c = _mm256_or_si256(c, _mm256_slli_epi16(b, 4));
    } else if (type == SP_Q6_K) {
        __m256i b = bits_of(bytes_at(high, k % (R / 4)), k / (R / 4) * 2, 3);
        c = _mm256_or_si256(c, _mm256_slli_epi16(b, 4));
    }
    return zero_of(type) ? _mm256_sub_epi8(c, _mm256_set1_epi8((char)zero_of(type))) : c;
}

/* The scales of eight outputs, each for both columns of a step. */
INLINE __m256i pair_scales(const uint8_t *p)
{
    __m256i s = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
    return _mm256_mullo_epi32(_mm256_and_si256(s, _mm256_set1_epi32(0xffff)),
                              _mm256_set1_epi32(0x10001));
}

/* 16 codes from i on, times their scales where lines have them. */
INLINE __m256i widened(sp_dtype type, const uint8_t *group, __m128i c, int i)
{
    __m256i w = _mm256_cvtepi8_epi16(c);
    if (type != SP_Q6_K) return w;
    const int half = i / (16 * R), output = i / 2 % R;
    return _mm256_mullo_epi16(w, pair_scales(group + half * R + output));
}

/* Codes 32 k .. 32 k + 31 as they stand in lines: a 256-bit vector, or two. */
INLINE void expand(sp_dtype type, const sp_pack_layout *l, const uint8_t *group, int k,
                   __m256i out[4 / SP_STEP])
{
    const __m256i c = codes(type, l, group, k);
    if (SP_STEP == 4) {
        out[0] = _mm256_xor_si256(c, _mm256_set1_epi8((char)0x80));
    } else {
        out[0] = widened(type, group, _mm256_castsi256_si128(c), 32 * k);
        out[4 / SP_STEP - 1] = widened(type, group, _mm256_extracti128_si256(c, 1), 32 * k + 16);
    }
}

/* Line i of a group, straight from memory. */
INLINE ivec line_direct(sp_dtype type, const sp_pack_layout *l, const uint8_t *group, int i)
{
    enum { PER_PIECE = 4 / SP_STEP, PER_LINE = SP_VL / 8 }; /* 256-bit vectors */
    __m256i v[PER_LINE], piece[PER_PIECE];
    for (int n = 0; n < PER_LINE; n++) {
        const int at = i * PER_LINE + n;
        expand(type, l, group, at / PER_PIECE, piece);
        v[n] = piece[at % PER_PIECE];
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

/* Factors of outputs r .. r + 7. */
INLINE void eight_factors(sp_dtype type, const uint8_t *head, const uint8_t *group, int r,
                          factors_of *out)
{
    float *scale = out->scale[0] + r, *second = out->scale[1] + r, *min = out->min + r;
    switch (type) {
    case SP_Q4_1:
    case SP_Q5_1:
        _mm256_store_ps(min, f16s(group, R + r));
        _mm256_store_ps(scale, f16s(group, r));
        break;
    case SP_Q4_K:
    case SP_Q5_K:
        _mm256_store_ps(scale, _mm256_mul_ps(f16s(head, r), u8s(group + r)));
        _mm256_store_ps(min, _mm256_mul_ps(_mm256_xor_ps(f16s(head, R + r), _mm256_set1_ps(-0.0f)),
                                           u8s(group + R + r)));
        break;
    case SP_Q6_K:
        _mm256_store_ps(scale, f16s(head, r));
        if (!in_halves(type)) break;
        _mm256_store_ps(scale, _mm256_mul_ps(f16s(head, r), i8s(group + r)));
        _mm256_store_ps(second, _mm256_mul_ps(f16s(head, r), i8s(group + R + r)));
        break;
    default:
        _mm256_store_ps(scale, f16s(group, r));
    }
}

INLINE void factors(sp_dtype type, const uint8_t *head, const uint8_t *group, factors_of *out)
{
    for (int r = 0; r < R; r += 8) eight_factors(type, head, group, r, out);
}

/* Unpacks n groups; `head` is the head of the eight that they belong to, if the type has one. */
INLINE void unpack(sp_dtype type, const sp_pack_layout *l, const uint8_t *head, int n, block *out)
{
    const uint8_t *group = head + l->head;
    for (int g = 0; g < n; g++, group += l->group) {
        factors(type, head, group, &out->factors[g]);
        for (int k = 0; k < R; k++) {
            __m256i *to = (__m256i *)out->lines[g] + k * (4 / SP_STEP), v[4 / SP_STEP];
            expand(type, l, group, k, v);
            for (int i = 0; i < 4 / SP_STEP; i++) _mm256_store_si256(to + i, v[i]);
        }
    }
}

#endif
