/* matmul.c -- matrix product with packed F32, F16 and BF16 weights (kernel/pack.h), in f32.
 *
 * A tile is a sum of outer products, one for each column: R = 2 VL weights of the column, in two
 * vectors, times one element of each of TILE rows of x. The TILE x 2 sums fill the registers. AVX2,
 * TILE 6:
 *
 *                    w[c]  |  0 .. 7  |  8 .. 15 |          two loads a column
 *                   -------+----------+----------+
 *    x[0][c] in all lanes  |  sum 0,0 |  sum 0,1 |          one load a row
 *          x[1][c]         |  sum 1,0 |  sum 1,1 |
 *            ...           |    ...   |    ...   |          12 FMAs a column: six cycles on two
 *          x[5][c]         |  sum 5,0 |  sum 5,1 |          pipes; their 8 loads take four
 *
 * The lanes of a sum are different outputs, so they are never added up, and 12 chains exceed the 8
 * (two pipes, latency 4) that two FMAs a cycle need. The arithmetic alone reaches 98 % of the peak.
 *
 *   for rows of x in runs of 132
 *     for blocks of columns                  256 (AVX-512: 128)
 *       for panels of R outputs              a block of a panel, decoded: 16 KB, stays in L1
 *         for tiles of TILE rows of x        x of a run and a block: 132 KB, stays in L2
 *
 * Costs of a block and a tile on AVX2: 1536 cycles of FMAs; 6 KB of x from L2 (190 cycles of its
 * bandwidth, hidden by the FMAs); adding 12 sums to y and the call, 30 cycles; 1/22 of the decoding
 * of 4096 weights, 30 cycles. So at most 95 % of the peak is possible. Two things would cost much
 * more if the tile did not prefetch them: its part of y, and its share of the next block, which is
 * a panel further, where the CPU does not predict it.
 *
 * Few rows (decode): weights go from memory through registers into the sums of a tile. Reading is
 * the limit, given enough chains: one row takes four panels at once, two rows take two. Up to four
 * tiles, decoding a block first does not pay: its stores and loads cost as much as the conversions
 * saved.
 *
 * One order of summation for every (row, output): within a block, columns by FMA in ascending order
 * from zero; blocks are added to y in ascending order.
 */
#include "base/mem.h"
#include "compute/kernel/ops.h"
#include "compute/simd/vec.h"

enum {
    R = 2 * VL,                 /* outputs in a panel */
    COLUMNS = 4096 / R,         /* in a block */
    TILE = SP_VL == 8 ? 6 : 12, /* most rows of x */
    FEW = 4 * TILE,             /* up to this many rows, a block is not decoded first */
    WIDE = 4,                   /* most panels that one row takes at once */
    RUN = 132,                  /* rows of x: a multiple of TILE */
};

/* The operands of a tile. Rows of x and y, and panels, are strides apart. */
typedef struct tile_args {
    const float *x;   /* the block's first column */
    const uint8_t *w; /* the same, in the first panel */
    float *y;         /* the first output */
    int64_t n;        /* columns */
    int64_t x_stride, y_stride;
    size_t w_stride; /* bytes */
    int64_t n_left;  /* outputs from y to the end of its row */
} tile_args;

/* Vector i of weights, as f32. */
INLINE vec weights(sp_dtype type, const uint8_t *w, int64_t i)
{
    switch (type) {
    case SP_F16:
        return vec_load_f16(w + i * VL * 2);
    case SP_BF16:
        return vec_load_bf16(w + i * VL * 2);
    default:
        return vec_load((const float *)w + i * VL);
    }
}

/* y += the sums, up to the end of the row. */
INLINE void add_to_y(float *y, int64_t n_left, const vec sum[2])
{
    if (SP_LIKELY(n_left >= R)) {
        for (int v = 0; v < 2; v++) vec_store(y + v * VL, vec_add(vec_load(y + v * VL), sum[v]));
        return;
    }
    float s[R];
    for (int v = 0; v < 2; v++) vec_store(s + v * VL, sum[v]);
    for (int64_t r = 0; r < n_left; r++) y[r] += s[r];
}

INLINE void tile(sp_dtype type, const int rows, const int panels, const tile_args *t)
{
    vec sum[WIDE][TILE][2];
    for (int p = 0; p < panels; p++)
        for (int j = 0; j < rows; j++) sum[p][j][0] = sum[p][j][1] = vec_zero();
    for (int j = 0; j < rows; j++)
        for (int p = 0; p < panels; p++)
            vec_prefetch((t->y + j * t->y_stride + p * R));
    const float *x = t->x;
    for (int64_t c = 0; c < t->n; c++, x++) {
        for (int p = 0; p < panels; p++) {
            const uint8_t *panel = t->w + (size_t)p * t->w_stride;
            const vec w0 = weights(type, panel, 2 * c), w1 = weights(type, panel, 2 * c + 1);
            for (int j = 0; j < rows; j++) {
                const vec xs = vec_all(x[j * t->x_stride]);
                sum[p][j][0] = vec_fma(xs, w0, sum[p][j][0]);
                sum[p][j][1] = vec_fma(xs, w1, sum[p][j][1]);
            }
        }
    }
#pragma GCC unroll 16
    for (int j = 0; j < rows; j++)
        for (int p = 0; p < panels; p++)
            add_to_y(t->y + j * t->y_stride + p * R, t->n_left - p * R, sum[p][j]);
}

/* One function for each shape of tile: inlined into one function, they would compete for
 * registers. */
typedef void tile_fn(const tile_args *t);

#define TILES_OF(X, type)                                                                          \
    X(type, 1, 1)                                                                                  \
    X(type, 1, 4)                                                                                  \
    X(type, 2, 1) X(type, 2, 2) X(type, 3, 1) X(type, 4, 1) X(type, 5, 1) X(type, 6, 1)
#if SP_VL == 8
#define EACH_TILE(X, type) TILES_OF(X, type)
#else
#define EACH_TILE(X, type)                                                                         \
    TILES_OF(X, type)                                                                              \
    X(type, 7, 1) X(type, 8, 1) X(type, 9, 1) X(type, 10, 1) X(type, 11, 1) X(type, 12, 1)
#endif
#define FLOAT_TYPES(X) X(F32) X(F16) X(BF16)

#define TILE_FN(type, rows, panels)                                                                \
    static __attribute__((noinline)) void tile_##type##_##rows##_##panels(const tile_args *t)      \
    {                                                                                              \
        tile(SP_##type, rows, panels, t);                                                          \
    }
#define TILE_FNS(type) EACH_TILE(TILE_FN, type)
FLOAT_TYPES(TILE_FNS)

#define TILE_NAME(type, rows, panels) [rows][panels] = tile_##type##_##rows##_##panels,
#define TILE_ROW(type)                [SP_##type] = {EACH_TILE(TILE_NAME, type)},
static tile_fn *const tiles[SP_DTYPE_N][TILE + 1][WIDE + 1] = {FLOAT_TYPES(TILE_ROW)};

/* A product; the columns of a panel are contiguous. */
typedef struct product {
    const sp_matmul_args *a;
    size_t column; /* bytes of a column of a panel */
    size_t panel;  /* bytes of a panel */
} product;

/* The operands for rows from m on and the block of columns at c of the panels from output r on. */
static tile_args tile_at(const product *p, int64_t m, int64_t r, int64_t c)
{
    const sp_mat *w = p->a->w;
    return (tile_args){.x = p->a->x + m * w->n_cols + c,
                       .w = (const uint8_t *)w->packed + (size_t)(r / R) * p->panel +
                            (size_t)c * p->column,
                       .y = p->a->y + m * w->n_rows + r,
                       .n = SP_MIN(COLUMNS, w->n_cols - c),
                       .x_stride = w->n_cols,
                       .y_stride = w->n_rows,
                       .w_stride = p->panel,
                       .n_left = w->n_rows - r};
}

/* Runs n rows against a block, in tiles whose heights differ by at most one. Each tile prefetches a
 * share of the n_next bytes at `next`. */
static void run_tiles(tile_fn *const of_height[TILE + 1][WIDE + 1], int64_t n, int panels,
                      tile_args t, const uint8_t *next, size_t n_next)
{
    const size_t share = SP_DIV_UP(n_next, (size_t)SP_DIV_UP(n, TILE));
    for (int64_t rows; n > 0; n -= rows, next += share) {
        rows = SP_DIV_UP(n, SP_DIV_UP(n, TILE));
        for (size_t i = 0; i < share; i += SP_CACHE_LINE)
            vec_prefetch(next + i);
        of_height[rows][panels](&t);
        t.x += rows * t.x_stride;
        t.y += rows * t.y_stride;
    }
}

/* Few rows: reads the weights sequentially, which the CPU prefetches by itself. */
static void stream(const product *p, int64_t from, int64_t to)
{
    const sp_mat *w = p->a->w;
    const int wide = p->a->m == 1 ? WIDE : p->a->m == 2 ? 2 : 1;
    for (int64_t r = from, panels; r < to; r += panels * R) {
        panels = to - r > (wide - 1) * R ? wide : 1;
        for (int64_t c = 0; c < w->n_cols; c += COLUMNS) {
            const tile_args t = tile_at(p, 0, r, c);
            run_tiles(tiles[w->type], p->a->m, (int)panels, t, t.w, 0);
        }
    }
}

/* Decodes n columns to f32. */
INLINE void decode(sp_dtype type, const uint8_t *w, int64_t n, float *out)
{
    for (int64_t i = 0; i < 2 * n; i++) vec_store(out + i * VL, weights(type, w, i));
}

static void in_blocks(const product *p, int64_t from, int64_t to)
{
    const sp_matmul_args *a = p->a;
    _Alignas(64) float block[COLUMNS * R];
    for (int64_t m = 0; m < a->m; m += RUN)
        for (int64_t c = 0; c < a->w->n_cols; c += COLUMNS)
            for (int64_t r = from; r < to; r += R) {
                tile_args t = tile_at(p, m, r, c);
                const uint8_t *next = t.w + p->panel; /* a prefetch: may be past the end */
                if (a->w->type == SP_F16) decode(SP_F16, t.w, t.n, block);
                if (a->w->type == SP_BF16) decode(SP_BF16, t.w, t.n, block);
                if (a->w->type != SP_F32) t.w = (const uint8_t *)block;
                run_tiles(tiles[SP_F32], SP_MIN(RUN, a->m - m), 1, t, next,
                          (size_t)t.n * p->column);
            }
}

/* -- the operation ----------------------------------------------------------------------------- */

void SP_VARIANT(sp_matmul)(const sp_matmul_args *a, int part, int n_parts)
{
    const sp_mat *w = a->w;
    if (!w->packed || sp_dtype_of(w->type)->n_group > 1) {
        sp_matmul_ref(a, part, n_parts);
        return;
    }
    const size_t column = R * sp_row_bytes(w->type, 1);
    const product p = {a, column, (size_t)w->n_cols * column};
    int64_t from, to;
    sp_part(w->n_rows, R, part, n_parts, &from, &to);
    for (int64_t m = 0; m < a->m; m++) {
        float *y = a->y + m * w->n_rows;
        for (int64_t r = from; r < to; r++) y[r] = (a->add ? y[r] : 0) + (a->bias ? a->bias[r] : 0);
    }
    if (a->m <= FEW)
        stream(&p, from, to);
    else
        in_blocks(&p, from, to);
}
