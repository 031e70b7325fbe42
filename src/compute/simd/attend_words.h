/* attend_words.h -- the integer products of span attention, for keys and values in Q16.
 *
 *   scores    c[row][key]     =  query[row][d]  . key[d][key]        a word: two channels
 *   outputs   c[row][channel] += prob[row][key] . value[key][channel]    a word: two keys
 *
 * A block holds keys and values as panels of words (sp_kv_view), so nothing is decoded, whatever
 * the number of rows. A kernel takes six rows by 16 keys or channels: twelve sums, two vectors of a
 * panel, a broadcast word of a row and a product fill the registers of AVX2. (AVX-512: two panels.)
 *
 * Queries and probabilities are rounded to words such that no sum exceeds 2^31:
 *
 *   scores   |any partial sum| <= |query| |key|: norms of 65,400 and 32,700
 *   outputs  |sum| <= sum of |prob| times the largest value: 65,000 and 32,767
 *
 * and each element is at most 32,767. A query then has a squared relative error of D / 12 /
 * 65,400^2 (1e-9 at D = 64). That of probabilities is largest when all 64 are equal, each rounded
 * at 1,015: 2.4e-7; typically it is 8e-8.
 */
#ifndef SP_COMPUTE_SIMD_ATTEND_WORDS_H
#define SP_COMPUTE_SIMD_ATTEND_WORDS_H

#include <string.h>

#include "compute/simd/attend_product.h"
#include "compute/simd/ivec.h"

enum {
    WORD_ROWS = 6,
    WORD_PANELS = 2 / V16,
    WORD_LINE = 64, /* bytes: one word for each of 16 keys or channels */
};

#define WORD_MAX   32767.0f
#define QUERY_NORM 65400.0f
#define PROB_SUM   65000.0f
#define WORD_TINY  0x1p-100f /* smaller norms and sums become 0: no reciprocal overflows */

/* -- rounding ---------------------------------------------------------------------------------- */

/* Stores 16 floats times f as words; `to` may be equal to `from` or before it. */
INLINE void store_words(void *to, const float *from, vec f)
{
    vec x[V16];
    for (int v = 0; v < V16; v++) x[v] = vec_mul(vec_load(from + v * VL), f);
    ivec_store_words(to, x);
}

/* Converts a row of a query to words, in place. Returns the value of 1; NaN for a query that is not
 * finite. */
INLINE float words_of_query(float *row, int width)
{
    vec most = vec_zero(), squares = vec_zero();
    for (int d = 0; d < width; d += VL) {
        const vec x = vec_load(row + d);
        most = vec_max(most, vec_abs(x));
        squares = vec_fma(x, x, squares);
    }
    const float largest = vec_largest(most), norm = sqrtf(vec_sum(squares));
    if (norm <= WORD_TINY) {
        memset(row, 0, (size_t)width * sizeof *row);
        return 0;
    }
    float f = QUERY_NORM / norm;
    if (largest * f > WORD_MAX) f = WORD_MAX / largest;
    for (int d = 0; d < width; d += 16) store_words((int16_t *)row + d, row + d, vec_all(f));
    return 1 / f;
}

/* Converts a row's probabilities in a step, times the scales of the values, to words, in place;
 * those outside the mask become 0. Returns the value of 1. */
INLINE float words_of_probs(float *prob, const float *scale, uint64_t mask)
{
    vec most = vec_zero(), all = vec_zero();
    for (int v = 0; v < STEP_VECS; v++) {
        vec p = vec_mul(vec_load(prob + v * VL), vec_load(scale + v * VL));
        if (SP_UNLIKELY(mask != ~(uint64_t)0))
            p = vec_select((unsigned)(mask >> (v * VL)), p, vec_zero());
        most = vec_max(most, p);
        all = vec_add(all, p);
        vec_store(prob + v * VL, p);
    }
    const float largest = vec_largest(most), sum = vec_sum(all);
    if (SP_UNLIKELY(sum <= WORD_TINY)) {
        memset(prob, 0, STEP * sizeof *prob);
        return 0;
    }
    float f = PROB_SUM / sum;
    if (largest * f > WORD_MAX) f = WORD_MAX / largest;
    for (int k = 0; k < STEP; k += 16) store_words((int16_t *)prob + k, prob + k, vec_all(f));
    return 1 / f;
}

/* -- products ---------------------------------------------------------------------------------- */

/* The panels of a product, and the addresses to prefetch meanwhile. */
typedef struct word_lines {
    const uint8_t *panel[2], *ahead[2];
} word_lines;

/* sum += eight words of rows, which are `stride` floats apart, times eight lines of each panel. With
 * each line, prefetches the line at the same offset in the panel of the next step (`ahead`). */
INLINE void eight_words(int rows, int panels, const float *row, size_t stride, const word_lines *x,
                        ivec sum[WORD_ROWS][2])
{
    const int n = panels * V16;
#pragma GCC unroll 8
    for (int i = 0; i < TURN; i++) {
        ivec_words w[2];
#pragma GCC unroll 2
        for (int v = 0; v < n; v++) {
            w[v] = ivec_load_words(x->panel[v / V16] + i * WORD_LINE + v % V16 * (int)sizeof(ivec));
        }
#pragma GCC unroll 2
        for (int v = 0; v < panels; v++) {
            vec_prefetch(x->ahead[v] + i * WORD_LINE);
        }
#pragma GCC unroll 8
        for (int j = 0; j < rows; j++) {
            int32_t word;
            memcpy(&word, row + (size_t)j * stride + i, sizeof word);
            const ivec_word all = ivec_word_all(word);
#pragma GCC unroll 2
            for (int v = 0; v < n; v++) sum[j][v] = ivec_add_words(sum[j][v], w[v], all);
        }
    }
}

INLINE void clear_words(ivec sum[WORD_ROWS][2])
{
#pragma GCC unroll 8
    for (int j = 0; j < WORD_ROWS; j++) sum[j][0] = sum[j][1] = ivec_all(0);
}

/* A step: its blocks of keys and values, and those of the next step, to prefetch. */
typedef struct word_step {
    int n_blocks, width;
    const uint8_t *keys[STEP_BLOCKS], *values[STEP_BLOCKS];
    const uint8_t *next_keys[STEP_BLOCKS], *next_values[STEP_BLOCKS];
} word_step;

/* Some rows of a product. */
typedef struct word_rows {
    const float *row;    /* words of queries, width floats apart, or of probabilities, STEP apart */
    const float *factor; /* the value of 1 in a row's words */
    float *to;           /* scores [rows][STEP], or outputs [rows][width] */
} word_rows;

/* Scores of some rows with blocks b .. b+panels-1. */
INLINE void score_words(int rows, int panels, const word_step *x, int b, const word_rows *w)
{
    word_lines lines;
    ivec sum[WORD_ROWS][2];
    for (int i = 0; i < panels; i++) {
        lines.panel[i] = x->keys[b + i] + SP_Q16_SCALES;
        lines.ahead[i] = x->next_keys[b + i] + SP_Q16_SCALES;
        vec_prefetch(x->next_keys[b + i]);
    }
    clear_words(sum);
    for (int at = 0; at < x->width / 2; at += TURN) {
        eight_words(rows, panels, w->row + at, (size_t)x->width, &lines, sum);
        for (int i = 0; i < panels; i++) {
            lines.panel[i] += TURN * WORD_LINE;
            lines.ahead[i] += TURN * WORD_LINE;
        }
    }
#pragma GCC unroll 2
    for (int v = 0; v < panels * V16; v++) {
        const vec scale = vec_load((const float *)x->keys[b + v / V16] + v % V16 * VL);
#pragma GCC unroll 8
        for (int j = 0; j < rows; j++) {
            const vec s = vec_mul(ivec_to_vec(sum[j][v]), vec_mul(vec_all(w->factor[j]), scale));
            vec_store(w->to + j * STEP + b * B + v * VL, s);
        }
    }
}

/* Adds to the outputs of some rows, channels 16 p .. 16 (p+panels) - 1. */
INLINE void output_words(int rows, int panels, const word_step *x, int p, const word_rows *w)
{
    const float *prob = w->row;
    const int at = (int)SP_Q16_SCALES + p * (B / 2 * WORD_LINE);
    ivec sum[WORD_ROWS][2];
    clear_words(sum);
    for (int b = 0; b < x->n_blocks; b++, prob += B / 2) {
        word_lines lines;
        for (int i = 0; i < panels; i++) {
            lines.panel[i] = x->values[b] + at + i * (B / 2 * WORD_LINE);
            lines.ahead[i] = x->next_values[b] + at + i * (B / 2 * WORD_LINE);
        }
        eight_words(rows, panels, prob, STEP, &lines, sum);
    }
#pragma GCC unroll 8
    for (int j = 0; j < rows; j++) {
        const vec one = vec_all(w->factor[j]);
#pragma GCC unroll 2
        for (int v = 0; v < panels * V16; v++) {
            float *o = w->to + j * x->width + p * 16 + v * VL;
            vec_store(o, vec_fma(ivec_to_vec(sum[j][v]), one, vec_load(o)));
        }
    }
}

/* One function for each number of rows, so that its sums stay in registers. */
typedef void words_fn(const word_step *x, const float *row, const float *factor, float *to);
#define WORDS_OF(rows)                                                                             \
    static __attribute__((noinline)) void score_words_##rows(                                      \
        const word_step *x, const float *query, const float *factor, float *score)                 \
    {                                                                                              \
        const word_rows w = {query, factor, score};                                                \
        int b = 0;                                                                                 \
        for (; b + WORD_PANELS <= x->n_blocks; b += WORD_PANELS)                                   \
            score_words(rows, WORD_PANELS, x, b, &w);                                              \
        if (b < x->n_blocks) score_words(rows, 1, x, b, &w);                                       \
    }                                                                                              \
    static __attribute__((noinline)) void output_words_##rows(                                     \
        const word_step *x, const float *prob, const float *factor, float *out)                    \
    {                                                                                              \
        const word_rows w = {prob, factor, out};                                                   \
        int p = 0;                                                                                 \
        for (; p + WORD_PANELS <= x->width / 16; p += WORD_PANELS)                                 \
            output_words(rows, WORD_PANELS, x, p, &w);                                             \
        if (p < x->width / 16) output_words(rows, 1, x, p, &w);                                    \
    }
WORDS_OF(1)
WORDS_OF(2)
WORDS_OF(3)
WORDS_OF(4)
WORDS_OF(5)
WORDS_OF(6)

static words_fn *const score_words_of[] = {
    NULL, score_words_1, score_words_2, score_words_3, score_words_4, score_words_5, score_words_6};
static words_fn *const output_words_of[] = {NULL,           output_words_1, output_words_2,
                                            output_words_3, output_words_4, output_words_5,
                                            output_words_6};

/* How many of the remaining rows to compute together: groups are as equal as possible. */
INLINE int word_group(int rows)
{
    return SP_DIV_UP(rows, SP_DIV_UP(rows, WORD_ROWS));
}

#endif
