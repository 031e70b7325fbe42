/* attend_product.h -- the f32 products of span attention: a few rows by a few vectors in registers.
 *
 *   scores    c[row][key]     =  query[row][d]  . key[d][key]        d = 0 .. D-1
 *   outputs   c[row][channel] += prob[row][key] . value[key][channel]    keys ascending
 *
 * Each element of c is one chain of multiply-adds in the order of d, or of the keys. The number of
 * rows and vectors computed together never changes a result.
 *
 *   panels   f32 [n][16], for tiles of many rows; scores and outputs use the same layout. Six rows
 *            by two vectors: twelve chains hide the latency of two units, and 2 + 6 loads feed 12
 *            multiply-adds. (AVX-512: two panels of one vector each.)
 *   direct   for at most eight rows: elements are decoded in registers, since each is used only
 *            once or twice. Eight channels, or keys, are unrolled: a loop of eight iterations
 *            measured 10 % slower, probably because the CPU often mispredicts its end.
 */
#ifndef SP_COMPUTE_SIMD_ATTEND_PRODUCT_H
#define SP_COMPUTE_SIMD_ATTEND_PRODUCT_H

#include "base/mem.h"
#include "compute/kernel/attend.h"
#include "compute/simd/kv_vec.h"

enum {
    STEP = SP_STEP_TOKENS,
    STEP_BLOCKS = STEP / B,
    STEP_VECS = STEP / VL,
    DIRECT_ROWS = 8,            /* most rows for direct products */
    DIRECT_GROUP = 5,           /* most rows at a time: eight to twelve chains in flight */
    TURN = 8,                   /* channels, or keys, between two prefetches */
    PANEL_ROWS = 6,             /* most rows that a panel kernel takes */
    PANEL_COLUMNS = 2 / V16,    /* panels that it takes with them */
    NEAR_ROWS = 4 * PANEL_ROWS, /* rows that finish a step together */
    STREAM_BYTES = 4 * SP_CACHE_LINE,
};

/* Prefetch of the next step's data, four cache lines at a time between products: the heads of a
 * block are far apart, so the CPU does not predict them, and prefetching all at once would stall.
 * Lines are counted in fours, so a few past the end may be fetched in vain. */
typedef struct stream {
    const uint8_t *p[2 * STEP_BLOCKS];
    int n, i;
    size_t at, bytes; /* offset in p[i]; size of each p */
    int turns;        /* prefetches of STREAM_BYTES per call */
} stream;

INLINE void stream_on(stream *s)
{
    for (int turns = s->turns; turns > 0 && s->i < s->n; turns--) {
        const char *p = (const char *)s->p[s->i] + s->at;
#pragma GCC unroll 4
        for (int i = 0; i < STREAM_BYTES; i += SP_CACHE_LINE) __builtin_prefetch(p + i, 0, 2);
        s->at += STREAM_BYTES;
        const bool next = s->at >= s->bytes; /* without a branch, which would be mispredicted */
        s->at = next ? 0 : s->at;
        s->i += next;
    }
}

/* -- panels ------------------------------------------------------------------------------------ */

/* c = a . panels, or c += a . panels, over elements from .. to-1 of each chain. Rows are `step` floats
 * apart, panels `next`. */
typedef struct panel_product {
    const float *a, *panel;
    float *c;
    size_t a_step, c_step, next;
    int from, to;
    bool add;
} panel_product;

INLINE void panel_kernel(int rows, int columns, bool add, const panel_product *x, size_t r, int p)
{
    const float *a = x->a + r * x->a_step, *panel = x->panel + (size_t)p * x->next;
    float *c = x->c + r * x->c_step + p * 16;
    const int n = columns * V16, from = x->from, to = x->to;
    vec acc[PANEL_ROWS][4 * V16];
#pragma GCC unroll 8
    for (int j = 0; j < rows; j++) {
#pragma GCC unroll 8
        for (int v = 0; v < n; v++) {
            acc[j][v] = add ? vec_load(c + (size_t)j * x->c_step + v * VL) : vec_zero();
        }
    }
#pragma GCC unroll 4
    for (int i = from; i < to; i++) {
        vec b[4 * V16];
#pragma GCC unroll 8
        for (int v = 0; v < n; v++) {
            b[v] = vec_load(panel + (size_t)(v / V16) * x->next + i * 16 + v % V16 * VL);
        }
#pragma GCC unroll 8
        for (int j = 0; j < rows; j++) {
            vec s = vec_all(a[(size_t)j * x->a_step + (size_t)i]);
#pragma GCC unroll 8
            for (int v = 0; v < n; v++) acc[j][v] = vec_fma(s, b[v], acc[j][v]);
        }
    }
#pragma GCC unroll 8
    for (int j = 0; j < rows; j++) {
#pragma GCC unroll 8
        for (int v = 0; v < n; v++) vec_store(c + (size_t)j * x->c_step + v * VL, acc[j][v]);
    }
}

#define PANEL_KERNEL(rows, columns)                                                                \
    static __attribute__((noinline)) void panel_##rows##x##columns(const panel_product *x,         \
                                                                   size_t r, int p)                \
    {                                                                                              \
        if (x->add) {                                                                              \
            panel_kernel(rows, columns, true, x, r, p);                                            \
        } else {                                                                                   \
            panel_kernel(rows, columns, false, x, r, p);                                           \
        }                                                                                          \
    }
#if SP_VL == 16
PANEL_KERNEL(6, 2)
#endif
PANEL_KERNEL(6, 1)
PANEL_KERNEL(4, 1)
PANEL_KERNEL(2, 2)
PANEL_KERNEL(2, 1)
PANEL_KERNEL(1, 4)
PANEL_KERNEL(1, 1)

/* Rows r .. r+rows-1, at most six, times panels p .. end-1. */
static inline void panel_rows(const panel_product *x, int rows, size_t r, int p, int end)
{
    if (rows == PANEL_ROWS) {
#if SP_VL == 16
        for (; p + 2 <= end; p += 2) panel_6x2(x, r, p);
#endif
        for (; p < end; p++) panel_6x1(x, r, p);
        return;
    }
    if (rows >= 4) {
        for (int q = p; q < end; q++) panel_4x1(x, r, q);
        r += 4;
    }
    if (rows & 2) {
        int q = p;
        for (; q + 2 <= end; q += 2) panel_2x2(x, r, q);
        if (q < end) panel_2x1(x, r, q);
        r += 2;
    }
    if (rows & 1) {
        for (; p + 4 <= end; p += 4) panel_1x4(x, r, p);
        for (; p < end; p++) panel_1x1(x, r, p);
    }
}

/* -- direct ------------------------------------------------------------------------------------ */

/* Vectors of keys, or of channels, that are multiplied with this many rows at a time: as many as
 * the registers hold. */
INLINE int direct_vecs(int rows)
{
    if (SP_VL == 16) return 4;
    return rows == 1 ? 8 : rows <= 3 ? 4 : 2;
}

typedef struct direct_score {
    const float *q; /* [rows], width apart */
    int head, width;
    const uint8_t *const *blocks; /* the keys of a step */
    float *score;                 /* [rows][STEP] */
    stream *ahead;
} direct_score;

/* Scores of `rows` rows with vectors v .. v+n-1 of a step's keys. */
INLINE void direct_scores(sp_dtype type, int rows, int n, const direct_score *x, int v)
{
    const uint8_t *keys[8];
    vec acc[DIRECT_GROUP][8], scale[8];
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) {
        keys[i] = x->blocks[(v + i) / V16];
#pragma GCC unroll 8
        for (int j = 0; j < rows; j++) acc[j][i] = vec_zero();
    }
    const int turn = type == SP_Q8_0 ? 2 * TURN : TURN; /* each turn converts the scales again */
    for (int from = 0; from < x->head; from += turn) {
#pragma GCC unroll 8
        for (int i = 0; i < n; i++) scale[i] = key_scale(type, keys[i], from, (v + i) % V16);
        stream_on(x->ahead);
#pragma GCC unroll 8
        for (int d = from; d < from + turn; d++) {
#pragma GCC unroll 8
            for (int i = 0; i < n; i++) {
                vec k = key_at(type, keys[i], d, (v + i) % V16, scale[i]);
#pragma GCC unroll 8
                for (int j = 0; j < rows; j++) {
                    acc[j][i] = vec_fma(vec_all(x->q[j * x->width + d]), k, acc[j][i]);
                }
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < rows; j++) vec_store(x->score + j * STEP + (v + i) * VL, acc[j][i]);
    }
}

/* The values of a step's live keys; Q8_0: also their scales, which are used for every eight
 * channels. */
typedef struct value_rows {
    int n;
    const uint8_t *row[STEP];
    float scale[SP_HEAD_MAX / 32][STEP];
} value_rows;

INLINE void open_scales(value_rows *v, int head)
{
    for (int g = 0; g < head / 32; g++) {
        for (int k = 0; k < v->n; k++) v->scale[g][k] = vec_f16_one(sp_load_u16(v->row[k] + g * 34));
    }
}

/* value_at, with the scale already converted */
INLINE vec value_scaled(sp_dtype type, const uint8_t *row, int d, const float scale[][STEP], int k)
{
    if (type != SP_Q8_0) return value_at(type, row, d);
    const vec q = vec_load_i8(row + d / 32 * 34 + 2 + d % 32);
    return vec_mul(vec_all(scale[d / 32][k]), q);
}

typedef struct direct_output {
    float *out; /* [rows], width apart */
    int width;
    int d; /* first channel */
    const value_rows *values;
    const float *prob; /* [rows][STEP] */
    stream *ahead;
} direct_output;

/* acc += n vectors of channels of value k, weighted with each row's probability. */
INLINE void direct_value(sp_dtype type, int rows, int n, const direct_output *x, int k,
                         vec acc[DIRECT_GROUP][8])
{
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) {
        vec v = value_scaled(type, x->values->row[k], x->d + i * VL, x->values->scale, k);
#pragma GCC unroll 8
        for (int j = 0; j < rows; j++) {
            acc[j][i] = vec_fma(vec_all(x->prob[j * STEP + k]), v, acc[j][i]);
        }
    }
}

/* Adds values from .. to-1, weighted with their probabilities, to n vectors of channels of the
 * outputs of `rows` rows. */
INLINE void direct_outputs(sp_dtype type, int rows, int n, const direct_output *x, int from, int to)
{
    float *out = x->out + x->d;
    vec acc[DIRECT_GROUP][8];
#pragma GCC unroll 8
    for (int j = 0; j < rows; j++) {
#pragma GCC unroll 8
        for (int i = 0; i < n; i++) acc[j][i] = vec_load(out + j * x->width + i * VL);
    }
    for (; from + TURN <= to; from += TURN) {
        stream_on(x->ahead);
#pragma GCC unroll 8
        for (int k = from; k < from + TURN; k++) direct_value(type, rows, n, x, k, acc);
    }
    for (; from < to; from++) direct_value(type, rows, n, x, from, acc);
#pragma GCC unroll 8
    for (int j = 0; j < rows; j++) {
#pragma GCC unroll 8
        for (int i = 0; i < n; i++) vec_store(out + j * x->width + i * VL, acc[j][i]);
    }
}

/* How many of the remaining rows to compute together: 6, 7 and 8 are halved. */
INLINE int direct_group(int rows)
{
    return rows <= DIRECT_GROUP ? rows : (rows + 1) / 2;
}

INLINE void direct_scores_rows(sp_dtype type, int rows, int n_vecs, const direct_score *x)
{
    const int n = direct_vecs(rows);
    int v = 0;
    for (; v + n <= n_vecs; v += n) direct_scores(type, rows, n, x, v);
    for (; n > V16 && v < n_vecs; v += V16) direct_scores(type, rows, V16, x, v);
}

INLINE void direct_outputs_rows(sp_dtype type, int rows, direct_output x, int from, int to)
{
    const int n = direct_vecs(rows);
    for (; x.d + n * VL <= x.width; x.d += n * VL) direct_outputs(type, rows, n, &x, from, to);
    for (; n > V16 && x.d < x.width; x.d += 16) direct_outputs(type, rows, V16, &x, from, to);
}

#endif
