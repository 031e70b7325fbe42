/* ivec.h -- the operations of simd/ivec.h in NEON with dot products and, where SP_MMLA says so, i8mm.
 *
 *   words   smlal: products of four words added to four sums. A register of words has a column of each
 *           pair, which is how ld2 loads them
 *   bytes   sdot: adds 4 columns to a sum. smmla: two outputs by two rows of x, 8 columns
 */
#ifndef SP_COMPUTE_ARM64_IVEC_H
#define SP_COMPUTE_ARM64_IVEC_H

#include "compute/simd/vec.h"

typedef struct ivec {
    int32x4_t lo, hi;
} ivec;

INLINE ivec ivec_all(int32_t x)
{
    return (ivec){vdupq_n_s32(x), vdupq_n_s32(x)};
}
INLINE ivec ivec_load(const void *p)
{
    return (ivec){vreinterpretq_s32_s8(vld1q_s8(p)), vreinterpretq_s32_s8(vld1q_s8((const int8_t *)p + 16))};
}

/* -- words ------------------------------------------------------------------------------------- */

/* Words of weights for eight outputs: their even columns, their odd ones. */
typedef int16x8x2_t ivec_words;
/* A word of x: its two columns, twice. */
typedef int16x4_t ivec_word;

INLINE ivec_words ivec_load_words(const void *p)
{
    return vld2q_s16(p);
}
INLINE ivec_word ivec_word_all(int32_t x)
{
    return vreinterpret_s16_s32(vdup_n_s32(x));
}
/* sum + w . x, words */
INLINE ivec ivec_add_words(ivec sum, ivec_words w, ivec_word x)
{
    sum.lo = vmlal_lane_s16(sum.lo, vget_low_s16(w.val[0]), x, 0);
    sum.hi = vmlal_lane_s16(sum.hi, vget_high_s16(w.val[0]), x, 0);
    sum.lo = vmlal_lane_s16(sum.lo, vget_low_s16(w.val[1]), x, 1);
    sum.hi = vmlal_lane_s16(sum.hi, vget_high_s16(w.val[1]), x, 1);
    return sum;
}

/* -- bytes ------------------------------------------------------------------------------------- */

enum { DOT_OFFSET = 0 }; /* weights are signed */

/* sum + w . x, bytes */
INLINE ivec ivec_dot_bytes(ivec sum, ivec w, ivec x)
{
    return (ivec){vdotq_s32(sum.lo, vreinterpretq_s8_s32(w.lo), vreinterpretq_s8_s32(x.lo)),
                  vdotq_s32(sum.hi, vreinterpretq_s8_s32(w.hi), vreinterpretq_s8_s32(x.hi))};
}

#if SP_MMLA

/* Sums of two rows of x and eight outputs: in each register both of a row, then both of the other. */
typedef struct ivec_square {
    int32x4_t v[4];
} ivec_square;

/* Eight columns of two rows of x. */
INLINE int8x16_t ivec_two_rows(const int8_t *a, const int8_t *b)
{
    return vcombine_s8(vld1_s8(a), vld1_s8(b));
}
/* sum + w . x: w are two outputs in each register, of eight columns */
INLINE ivec_square ivec_add_square(ivec_square sum, const ivec w[2], int8x16_t x)
{
    for (int v = 0; v < 2; v++) {
        sum.v[2 * v] = vmmlaq_s32(sum.v[2 * v], x, vreinterpretq_s8_s32(w[v].lo));
        sum.v[2 * v + 1] = vmmlaq_s32(sum.v[2 * v + 1], x, vreinterpretq_s8_s32(w[v].hi));
    }
    return sum;
}
INLINE int32x4_t even_pairs(int32x4_t a, int32x4_t b)
{
    return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
INLINE int32x4_t odd_pairs(int32x4_t a, int32x4_t b)
{
    return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
/* The sums of each of the two rows. */
INLINE void ivec_rows_of(const ivec_square *s, ivec *a, ivec *b)
{
    *a = (ivec){even_pairs(s->v[0], s->v[1]), even_pairs(s->v[2], s->v[3])};
    *b = (ivec){odd_pairs(s->v[0], s->v[1]), odd_pairs(s->v[2], s->v[3])};
}

#endif

/* -- floats ------------------------------------------------------------------------------------ */

/* Rounds 16 floats to words, to nearest even. */
INLINE void ivec_store_words(void *to, const vec x[V16])
{
    int16_t *p = to;
    for (int v = 0; v < V16; v++) {
        const int16x4_t lo = vqmovn_s32(vcvtnq_s32_f32(x[v].lo)), hi = vqmovn_s32(vcvtnq_s32_f32(x[v].hi));
        vst1q_s16(p + v * VL, vcombine_s16(lo, hi));
    }
}
INLINE vec ivec_to_vec(ivec a)
{
    return (vec){vcvtq_f32_s32(a.lo), vcvtq_f32_s32(a.hi)};
}

#endif
