/* attend_math.h -- softmax of a row's scores in a step, and the rotation of a tile's queries. */
#ifndef SP_COMPUTE_SIMD_ATTEND_MATH_H
#define SP_COMPUTE_SIMD_ATTEND_MATH_H

#include <string.h>

#include "compute/kernels.h"
#include "compute/simd/attend_product.h"
#include "compute/simd/vec.h"

/* 2^x for x < 127: 2^n * 2^r with |r| <= 1/2. Adding 1.5 * 2^23 rounds to the whole n and leaves it
 * in the low bits. 2^r is a polynomial of minimal relative error (9e-8) that is 1 at 0, so 2^0 is
 * 1. x below -126 gives a number in 0 .. 2^-126, and x <= -127, so also -inf, gives +0: n = -127
 * clears the exponent of 1, which is 127. */
INLINE vec vec_exp2(vec x)
{
    const vec shift = vec_all(0x1.8p23f);
    vec z = vec_max(x, vec_all(-127.0f));
    vec n = vec_add(z, shift);
    vec r = vec_sub(z, vec_sub(n, shift));
    vec p = vec_all(0x1.5bba0ep-10f);
    p = vec_fma(p, r, vec_all(0x1.3cea88p-7f));
    p = vec_fma(p, r, vec_all(0x1.c6b752p-5f));
    p = vec_fma(p, r, vec_all(0x1.ebf9bcp-3f));
    p = vec_fma(p, r, vec_all(0x1.62e42ap-1f));
    p = vec_fma(p, r, vec_all(1.0f));
    return vec_add_exponent(p, n);
}

INLINE float exp2_one(float x)
{
    return vec_one(vec_exp2(vec_all(x)));
}

/* -- softmax of a row ------------------------------------------------------------------------- */

/* Replaces the scores of a row outside the mask by -inf. */
INLINE void hide_scores(float *score, uint64_t mask)
{
    for (int v = 0; v < STEP_VECS; v++) {
        const vec s = vec_load(score + v * VL);
        vec_store(score + v * VL, vec_select((unsigned)(mask >> (v * VL)), s, vec_all(-INFINITY)));
    }
}

/* Scores of a row, in bits, become cap * tanh(score / cap), with the cap as the model has it. */
INLINE void cap_scores(float *score, float cap)
{
    const vec bits = vec_all(cap * 0x1.715476p+0f), inverse = vec_all(1 / (cap * 0x1.715476p+0f));
    for (int v = 0; v < STEP_VECS; v++) {
        const vec x = vec_mul(vec_load(score + v * VL), inverse);
        vec_store(score + v * VL, vec_mul(bits, vec_tanh(x)));
    }
}

/* The largest scores of a row in a step, lane by lane. */
INLINE vec largest_scores(const float *score)
{
    vec even = vec_load(score), odd = vec_load(score + VL);
#pragma GCC unroll 4
    for (int v = 2; v < STEP_VECS; v += 2) {
        even = vec_max(even, vec_load(score + v * VL));
        odd = vec_max(odd, vec_load(score + (v + 1) * VL));
    }
    return vec_max(even, odd);
}

INLINE vec weigh(float *score, vec max)
{
    const vec p = vec_exp2(vec_sub(vec_load(score), max));
    vec_store(score, p);
    return p;
}

/* Turns scores of a row into probabilities relative to `max`. Returns their sums, lane by lane. */
INLINE vec weigh_scores(float *score, float max)
{
    vec even = vec_zero(), odd = vec_zero();
#pragma GCC unroll 4
    for (int v = 0; v < STEP_VECS; v += 2) {
        even = vec_add(even, weigh(score + v * VL, vec_all(max)));
        odd = vec_add(odd, weigh(score + (v + 1) * VL, vec_all(max)));
    }
    return vec_add(even, odd);
}

/* Moves the probabilities of live keys to the front. */
INLINE void compact(float *prob, uint64_t live)
{
    int n = 0;
    for (; live; live &= live - 1) prob[n++] = prob[__builtin_ctzll(live)];
}

/* -- rotation --------------------------------------------------------------------------------- */

/* Rotates the rows of one query, width apart, to position pos: sp_rope_rotate for several rows,
 * which reads the tables once. */
INLINE void rotate_rows(const sp_rope *rope, const float *from, float *to, int rows, int width,
                        int32_t pos)
{
    const int half = rope->n_rot / 2;
    const float *c = rope->c + (int64_t)pos * half, *s = rope->s + (int64_t)pos * half;
    memcpy(to, from, (size_t)(rows * width) * sizeof(float));
    if (half % VL != 0) {
        for (int r = 0; r < rows; r++) sp_rope_rotate(rope, to + r * width, pos);
        return;
    }
    if (rope->adjacent) {
        for (int i = 0; i < 2 * half; i += VL) {
            const vec cos = vec_twice(c + i / 2), sin = vec_twice(s + i / 2);
            for (float *x = to + i; x < to + rows * width; x += width) {
                vec a = vec_load(x);
                vec_store(x, vec_fma_sub_add(a, cos, vec_mul(vec_swap_pairs(a), sin)));
            }
        }
        return;
    }
    for (int i = 0; i < half; i += VL) {
        const vec cos = vec_load(c + i), sin = vec_load(s + i);
        for (float *x = to + i; x < to + rows * width; x += width) {
            vec a = vec_load(x), b = vec_load(x + half);
            vec_store(x, vec_fms(a, cos, vec_mul(b, sin)));
            vec_store(x + half, vec_fma(a, sin, vec_mul(b, cos)));
        }
    }
}

#endif
