/* summary.c -- scores of block summaries: eight query heads against one block after the other; and the
 * sum of what these heads would give to each block. The same bits as ref/summary.c. */
#include <math.h>
#include <string.h>

#include "compute/kernel/summary.h"
#include "compute/simd/vec.h"

enum { B = SP_BLOCK_TOKENS, ROWS = SP_PICK_ROWS, HALF = ROWS / 2, LINE = 16, AHEAD = 4 };

/* -- bounds ------------------------------------------------------------------------------------ */

/* sum[r] += q . (middle - 128) + size . half of 16 channels. */
INLINE void add_channels(int32x4_t sum[ROWS], const sp_pick_query *x, int d, const uint8_t *middle,
                         const uint8_t *half)
{
    const int8x16_t m = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(middle + d), vdupq_n_u8(128)));
    const int8x16_t h = vreinterpretq_s8_u8(vld1q_u8(half + d));
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
        sum[r] = vdotq_s32(sum[r], m, vld1q_s8(x->q[r] + d));
        sum[r] = vdotq_s32(sum[r], h, vld1q_s8(x->size[r] + d));
    }
}

void SP_VARIANT(sp_score_bounds)(const sp_score_args *a)
{
    const sp_summary_view *s = a->summary;
    const sp_pick_query *x = a->query;
    const int width = sp_summary_width(s->head);
    const size_t first = (size_t)a->kv_head * (size_t)s->n_blocks, bytes = 2 * (size_t)width;
    for (int i = 0; i < a->n; i++) {
        const size_t at = first + a->block[i];
        const uint8_t *middle = s->base + at * bytes;
        const uint8_t *next = s->base + (first + a->block[SP_MIN(i + AHEAD, a->n - 1)]) * bytes;
        int32x4_t sum[ROWS];
        for (int r = 0; r < ROWS; r++) sum[r] = vdupq_n_s32(0);
        for (int d = 0; d < width; d += LINE) {
            vec_prefetch(next + 2 * d);
            add_channels(sum, x, d, middle, middle + width);
        }
        for (int r = 0; r < ROWS; r++)
            a->out[i * ROWS + r] = (float)vaddvq_s32(sum[r]) * (s->scale[at] * x->scale[r]);
    }
}

/* -- hash -------------------------------------------------------------------------------------- */

/* The least distance of a block's codes, of `words` 64 bits each, to a query's. */
INLINE int least_distance(const uint8_t *code, const uint64_t *query, int words)
{
    int least = words * 64;
    for (int t = 0; t < B; t++) {
        uint8x16_t n = vdupq_n_u8(0);
        for (int w = 0; w < words; w += 2) {
            const uint8x16_t c = vld1q_u8(code + (t * words + w) * 8);
            n = vaddq_u8(n, vcntq_u8(veorq_u8(c, vreinterpretq_u8_u64(vld1q_u64(query + w)))));
        }
        least = SP_MIN(least, (int)vaddlvq_u8(n));
    }
    return least;
}

void SP_VARIANT(sp_score_hash)(const sp_score_args *a)
{
    const sp_summary_view *s = a->summary;
    const sp_pick_query *x = a->query;
    const int bits = sp_hash_bits(s->kind);
    for (int i = 0; i < a->n; i++) {
        const size_t at = (size_t)a->kv_head * (size_t)s->n_blocks + a->block[i];
        const uint8_t *code = s->base + at * (size_t)(B * bits / 8);
        for (int r = 0; r < ROWS; r++)
            a->out[i * ROWS + r] =
                (float)(bits - 2 * least_distance(code, x->code[r], bits / 64)) * (s->scale[at] * x->scale[r]);
    }
}

/* -- keys in 4 bits ---------------------------------------------------------------------------- */

/* The largest products of a block's keys with four rows, still 8 sum(q) too much. */
INLINE void most_keys(const uint8_t *keys, const int8_t (*q)[SP_SUMMARY_WIDTH_MAX], int width,
                      int32_t most[HALF])
{
    int32x4_t sum[4][HALF]; /* of keys 0-3, 4-7, 8-11, 12-15 */
    for (int k = 0; k < 4; k++)
        for (int r = 0; r < HALF; r++) sum[k][r] = vdupq_n_s32(0);
    for (int d = 0; d < width; d += 4) {
        int8x16_t key[4];
        for (int k = 0; k < 2; k++) {
            const uint8x16_t both = vld1q_u8(keys + d * 8 + 16 * k);
            key[k] = vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(15)));
            key[2 + k] = vreinterpretq_s8_u8(vshrq_n_u8(both, 4));
        }
#pragma GCC unroll 4
        for (int r = 0; r < HALF; r++) {
            int32_t word;
            memcpy(&word, q[r] + d, sizeof word);
            const int8x16_t query = vreinterpretq_s8_s32(vdupq_n_s32(word));
            for (int k = 0; k < 4; k++) sum[k][r] = vdotq_s32(sum[k][r], key[k], query);
        }
    }
    for (int r = 0; r < HALF; r++)
        most[r] = vmaxvq_s32(vmaxq_s32(vmaxq_s32(sum[0][r], sum[1][r]), vmaxq_s32(sum[2][r], sum[3][r])));
}

void SP_VARIANT(sp_score_keys4)(const sp_score_args *a)
{
    const sp_summary_view *s = a->summary;
    const sp_pick_query *x = a->query;
    const int width = sp_summary_width(s->head);
    const size_t first = (size_t)a->kv_head * (size_t)s->n_blocks, bytes = 8 * (size_t)width;
    for (int i = 0; i < a->n; i++) {
        const size_t at = first + a->block[i];
        const uint8_t *keys = s->base + at * bytes;
        const uint8_t *next = s->base + (first + a->block[SP_MIN(i + AHEAD, a->n - 1)]) * bytes;
        for (size_t line = 0; line < bytes; line += 64) vec_prefetch(next + line);
        int32_t most[ROWS] = {0};
        most_keys(keys, x->q, width, most);
        if (x->n > HALF) most_keys(keys, x->q + HALF, width, most + HALF);
        for (int r = 0; r < ROWS; r++)
            a->out[i * ROWS + r] =
                (float)(most[r] - 8 * x->sum[r]) * (s->scale[at] * x->scale[r]);
    }
}

/* -- the sum over heads ------------------------------------------------------------------------ */

/* 2^x for x <= 0, linear between powers: it only orders blocks. */
INLINE quad quad_power(quad x)
{
    const quad biased = vmaxnmq_f32(vaddq_f32(x, vdupq_n_f32(127)), vdupq_n_f32(0));
    return vreinterpretq_f32_s32(vcvtq_s32_f32(vmulq_f32(biased, vdupq_n_f32(0x1p23f))));
}
HALVES_1(vec_power, quad_power)

/* powers -- the scores become powers of 2; returns 1 / their sums, 0 for rows that do not count. */
INLINE vec powers(const sp_combine_args *a)
{
    vec most = vec_all(-INFINITY), sum = vec_zero();
    float parts[ROWS];
    for (int i = 0; i < a->n; i++) most = vec_max(most, vec_load(a->scores + i * ROWS));
    for (int i = 0; i < a->n; i++) {
        float *x = a->scores + i * ROWS;
        const vec power = vec_power(vec_mul(vec_sub(vec_load(x), most), vec_all(a->scale)));
        sum = vec_add(sum, power);
        vec_store(x, power);
    }
    vec_store(parts, sum);
    for (int r = 0; r < ROWS; r++) parts[r] = r < a->rows && parts[r] > 0 ? 1 / parts[r] : 0;
    return vec_load(parts);
}

void SP_VARIANT(sp_combine)(const sp_combine_args *a)
{
    const vec part = powers(a);
    for (int i = 0; i < a->n; i += 4) {
        const int n = SP_MIN(4, a->n - i);
        vec v[4];
        float all[4];
        for (int k = 0; k < 4; k++)
            v[k] = vec_mul(vec_load(a->scores + (i + SP_MIN(k, n - 1)) * ROWS), part);
        quad_store(all, vec_sum4(v[0], v[1], v[2], v[3]));
        for (int k = 0; k < n; k++) a->out[i + k] += all[k];
    }
}
