/* panels.h -- unpacks blocks of a packed panel for products: integers in lines, factors in f32.
 *
 * A block is up to eight groups of 32 columns of the R = 2 VL outputs of a panel. A line is the
 * operand of one vector instruction: VL outputs times the columns of a step.
 *
 *   words   int16, two columns a step
 *   bytes   four columns a step: the codes; for 8-bit weights w + DOT_OFFSET. SP_MMLA: eight columns
 *           a step, which has four lines, each of two matrices of two outputs by eight columns
 *
 * A weight is its scale times an integer, plus a constant: that of its type, or minus the zero
 * point times the scale. */
#ifndef SP_COMPUTE_SIMD_PANELS_H
#define SP_COMPUTE_SIMD_PANELS_H

#include "compute/kernel/pack.h"
#include "compute/kernel/quant.h"
#include "compute/simd/quantized.h"

enum {
    R = 2 * VL,    /* outputs in a panel */
    LINE = 4 * VL, /* bytes */
    GROUPS = 8,    /* in a block */
    MOST_LINES = SP_DOT ? 16 : 32,
};

INLINE int step_of(sp_dtype type)
{
    return words_of(type) ? 2 : SP_MMLA ? 8 : 4;
}

/* Steps in a group; each has two lines (SP_MMLA: four). */
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

/* Codes 32 k .. 32 k + 31 of a group. */
INLINE bytes codes(sp_dtype type, const sp_pack_layout *l, const uint8_t *group, int k)
{
    const uint8_t *low = group + l->low, *high = group + l->high;
    if (type == SP_Q8_0) return bytes_load(low + 32 * k);
    bytes c = bytes_field(bytes_load(low + 32 * (k % (R / 2))), k / (R / 2) * 4, 15);
    if (type == SP_Q5_0 || type == SP_Q5_1 || type == SP_Q5_K) {
        c = bytes_above(c, bytes_field(bytes_load(high + 32 * (k % (R / 8))), k / (R / 8), 1));
    } else if (type == SP_Q6_K) {
        c = bytes_above(c, bytes_field(bytes_load(high + 32 * (k % (R / 4))), k / (R / 4) * 2, 3));
    }
    return c;
}

/* Codes 32 k .. 32 k + 31 in the form of lines: 32 bytes, or twice as many of words. */
INLINE void expand(sp_dtype type, const sp_pack_layout *l, const uint8_t *group, int k, bytes out[2])
{
    const bytes c = codes(type, l, group, k);
#if !SP_DOT
    if (words_of(type)) {
        bytes_widen(c, out);
        return;
    }
#endif
    out[0] = type == SP_Q8_0 ? bytes_of_signed(c) : c;
}

/* Line i of a group, unpacked directly into registers. */
INLINE ivec line_direct(sp_dtype type, const sp_pack_layout *l, const uint8_t *group, int i)
{
    enum { PER_LINE = SP_VL / 8 };
    const int per_piece = words_of(type) ? 2 : 1;
    bytes v[PER_LINE], piece[2];
    for (int n = 0; n < PER_LINE; n++) {
        const int at = i * PER_LINE + n;
        expand(type, l, group, at / per_piece, piece);
        v[n] = piece[at % per_piece];
    }
    return ivec_of_bytes(v);
}

/* -- factors ----------------------------------------------------------------------------------- */

/* The constant of types with a zero point: -zero_of(type) * d. */
INLINE vec8 less_zero(sp_dtype type, vec8 d)
{
    return vec8_times(d, (float)-zero_of(type));
}

/* Factors of outputs r .. r + 7. */
INLINE void eight_factors(sp_dtype type, const uint8_t *head, const uint8_t *group, int r,
                          factors_of *out)
{
    vec8 scale, min;
    switch (type) {
    case SP_Q4_1:
    case SP_Q5_1:
        scale = vec8_f16(group + 2 * r);
        min = vec8_f16(group + 2 * (R + r));
        break;
    case SP_Q4_K:
    case SP_Q5_K:
        scale = vec8_mul(vec8_f16(head + 2 * r), vec8_u8(group + r));
        min = vec8_mul(vec8_minus(vec8_f16(head + 2 * (R + r))), vec8_u8(group + R + r));
        break;
    case SP_Q2_K:
        min = vec8_minus(vec8_f16(head + 2 * (R + r)));
        vec8_store(out->scale[1] + r, vec8_mul(vec8_f16(head + 2 * r), vec8_u8(group + R + r)));
        vec8_store(out->min[1] + r, vec8_mul(min, vec8_u8(group + 3 * R + r)));
        scale = vec8_mul(vec8_f16(head + 2 * r), vec8_u8(group + r));
        min = vec8_mul(min, vec8_u8(group + 2 * R + r));
        break;
    case SP_Q6_K:
        scale = vec8_mul(vec8_f16(head + 2 * r), vec8_i8(group + R + r));
        vec8_store(out->scale[1] + r, scale);
        vec8_store(out->min[1] + r, less_zero(type, scale));
        scale = vec8_mul(vec8_f16(head + 2 * r), vec8_i8(group + r));
        min = less_zero(type, scale);
        break;
    default:
        scale = vec8_f16(group + 2 * r);
        min = less_zero(type, scale);
    }
    vec8_store(out->scale[0] + r, scale);
    if (has_min(type)) vec8_store(out->min[0] + r, min);
}

INLINE void factors(sp_dtype type, const uint8_t *head, const uint8_t *group, factors_of *out)
{
    for (int r = 0; r < R; r += 8) eight_factors(type, head, group, r, out);
}

/* Prefetches weights: the CPU's own prefetch stops at the end of a page. */
INLINE void fetch(const uint8_t *p, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i += SP_CACHE_LINE) vec_prefetch(p + i);
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
            uint8_t *to = out->lines[g] + 32 * k * pieces;
            bytes v[2];
            expand(type, l, group, k, v);
            for (int i = 0; i < pieces; i++) bytes_store(to + 32 * i, v[i]);
        }
    }
}

#endif
