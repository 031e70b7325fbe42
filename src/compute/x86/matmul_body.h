/* matmul_body.h -- matrix product, f32 arithmetic on weights decoded on the way.
 *
 * One order of summation for every (row of x, output), whatever is computed beside it:
 *
 *   columns are cut into blocks of 512 (the last one shorter), and for types without groups the
 *   columns beyond the last multiple of 32 are a block of their own, padded with zeros;
 *   in a block, lane c % VL of one accumulator takes column c by FMA, in ascending order;
 *   the lanes are summed by vec_sum4, and the block's sum is added to y, in ascending order.
 *
 * Two paths keep to it. One row of x (decode): weights go from memory through registers into the
 * sum, four outputs at a time. More rows: a panel of eight outputs by one block of columns is
 * decoded to the stack (16 KB, stays in L1) and meets tiles of TILE rows of x:
 *
 *   for rows of x in runs of 128      x of a run and a block: 256 KB, stays in L2
 *     for blocks of columns
 *       for panels of 8 outputs       decoded here: once for 128 rows
 *         for tiles of rows of x, for 4 outputs: TILE x 4 accumulators in registers
 */
#include "base/mem.h"
#include "compute/ops_int.h"
#include "compute/x86/weights.h"

enum {
    UNITS = 16,         /* of 32 columns in a block */
    BLOCK = 32 * UNITS, /* columns */
    QUAD = 4,           /* outputs whose sums are taken together */
    PANEL = 2 * QUAD,   /* outputs decoded together */
    AHEAD = 1024,       /* bytes of a row of weights fetched ahead */
    RUN = 128,          /* rows of x that a panel serves */
    TILE =
        SP_VL == 8 ? 3 : 6 /* rows of x: TILE * QUAD sums and what they need fill the registers */
};

/* Four rows of weights from r on; beyond the end the last row stands in, its sum is dropped. */
INLINE void quad_rows(const sp_mat *w, size_t row_bytes, int64_t r, int64_t end,
                      const uint8_t *row[QUAD])
{
    for (int i = 0; i < QUAD; i++) {
        row[i] = (const uint8_t *)w->data + (size_t)SP_MIN(r + i, end - 1) * row_bytes;
    }
}

/* y[r .. r+3] += sums, as far as the row goes */
INLINE void quad_add(float *y, int64_t r, int64_t end, __m128 sums)
{
    if (SP_LIKELY(r + QUAD <= end)) {
        _mm_storeu_ps(y + r, _mm_add_ps(_mm_loadu_ps(y + r), sums));
        return;
    }
    float s[QUAD];
    _mm_storeu_ps(s, sums);
    for (int i = 0; r + i < end; i++) y[r + i] += s[i];
}

/* What the sums are added to. */
static void start(const sp_matmul_args *a, int64_t from, int64_t to)
{
    for (int64_t m = 0; m < a->m; m++) {
        float *y = a->y + m * a->w->n_rows;
        for (int64_t r = from; r < to; r++) {
            y[r] = (a->add ? y[r] : 0) + (a->bias ? a->bias[r] : 0);
        }
    }
}

/* -- one row of x ------------------------------------------------------------------------------ */

/* The next run but a few of a K type: four streams at once, whose scales are read before what
 * stands in front of them, are too much for the CPU to foresee. */
INLINE void fetch_run(sp_dtype type, const uint8_t *run)
{
    for (int i = 0; is_k_type(type) && i < 256; i += SP_CACHE_LINE) {
        _mm_prefetch((const char *)run + AHEAD + i, _MM_HINT_T0);
    }
}

/* One unit of four rows into their sums. */
INLINE void fused_unit(sp_dtype type, const uint8_t *const run[QUAD], int k, const scales s[QUAD],
                       const float *x, vec acc[QUAD])
{
    for (int i = 0; i < QUAD; i++) {
        vec w[V32];
        unit_load(type, run[i], k, &s[i], w);
        for (int v = 0; v < V32; v++) acc[i] = vec_fma(vec_load(x + v * VL), w[v], acc[i]);
    }
}

/* The sums of four outputs over the units [u, end) of one block. */
INLINE __m128 fused_quad(sp_dtype type, const uint8_t *const row[QUAD], const float *x, int64_t u,
                         int64_t end)
{
    vec acc[QUAD];
    for (int i = 0; i < QUAD; i++) acc[i] = vec_zero();
    for (; u < end; u += 8) {
        const uint8_t *run[QUAD];
        scales s[QUAD];
        const int n = (int)SP_MIN(8, end - u);
        for (int i = 0; i < QUAD; i++) {
            run[i] = run_at(type, row[i], u);
            fetch_run(type, run[i]);
            load_scales(type, run[i], &s[i]);
        }
#define DO_UNIT(k) fused_unit(type, run, k, s, x + (u + (k)) * 32, acc);
        EACH_UNIT(type, n, DO_UNIT)
#undef DO_UNIT
    }
    return vec_sum4(acc[0], acc[1], acc[2], acc[3]);
}

INLINE void fused(sp_dtype type, const sp_matmul_args *a, int64_t from, int64_t to)
{
    const sp_mat *w = a->w;
    const size_t row_bytes = sp_row_bytes(w->type, w->n_cols);
    const int64_t n_units = w->n_cols / 32;
    for (int64_t r = from; r < to; r += QUAD) {
        const uint8_t *row[QUAD];
        quad_rows(w, row_bytes, r, to, row);
        for (int64_t u = 0; u < n_units; u += UNITS) {
            quad_add(a->y, r, to, fused_quad(type, row, a->x, u, SP_MIN(n_units, u + UNITS)));
        }
    }
}

/* -- many rows of x ---------------------------------------------------------------------------- */

/* Decodes units [u, end) of four rows: vector i of row q at out[(i * QUAD + q) * VL]. */
INLINE void decode_quad(sp_dtype type, const uint8_t *const row[QUAD], int64_t u, int64_t end,
                        float *out)
{
    for (; u < end; u += 8, out += 8 * 32 * QUAD) {
        const int n = (int)SP_MIN(8, end - u);
        for (int i = 0; i < QUAD; i++) {
            const uint8_t *run = run_at(type, row[i], u);
            scales s;
            load_scales(type, run, &s);
#define DO_UNIT(k)                                                                                 \
    {                                                                                              \
        vec w[V32];                                                                                \
        unit_load(type, run, k, &s, w);                                                            \
        for (int v = 0; v < V32; v++) vec_store(out + (((k)*V32 + v) * QUAD + i) * VL, w[v]);      \
    }
            EACH_UNIT(type, n, DO_UNIT)
#undef DO_UNIT
        }
    }
}

/* y[j, r .. r+3] += x[j, :n] . w for `rows` rows of x, rows <= TILE a constant. */
INLINE void tile(int rows, const float *x, int64_t stride, const float *w, int64_t n, float *y,
                 int64_t y_stride, int64_t r, int64_t end)
{
    vec acc[TILE][QUAD];
    for (int j = 0; j < rows; j++) {
        for (int i = 0; i < QUAD; i++) acc[j][i] = vec_zero();
    }
    for (int64_t c = 0; c < n; c += VL, w += QUAD * VL) {
        vec xs[TILE];
        for (int j = 0; j < rows; j++) xs[j] = vec_load(x + j * stride + c);
        for (int i = 0; i < QUAD; i++) {
            vec ws = vec_load(w + i * VL);
            for (int j = 0; j < rows; j++) acc[j][i] = vec_fma(xs[j], ws, acc[j][i]);
        }
    }
    for (int j = 0; j < rows; j++) {
        quad_add(y + j * y_stride, r, end, vec_sum4(acc[j][0], acc[j][1], acc[j][2], acc[j][3]));
    }
}

/* All rows of a run meet one panel of n columns; x at the first of them. */
static void panel_run(const sp_matmul_args *a, const float *panel, const float *x, int64_t stride,
                      int64_t n, int64_t m, int64_t m_end, int64_t r, int64_t end)
{
    const int64_t n_out = a->w->n_rows;
    for (int64_t rows; m < m_end; m += rows, x += rows * stride) {
        rows = SP_MIN(TILE, m_end - m);
        for (int q = 0; q < PANEL && r + q < end; q += QUAD) {
            const float *w = panel + q * BLOCK;
            float *y = a->y + m * n_out;
            switch (rows) {
#define CASE(k)                                                                                    \
    case k:                                                                                        \
        tile(k, x, stride, w, n, y, n_out, r + q, end);                                            \
        break;
                CASE(1)
                CASE(2)
                CASE(3)
#if SP_VL == 16
                CASE(4)
                CASE(5)
                CASE(6)
#endif
#undef CASE
            }
        }
    }
}

INLINE void panels(sp_dtype type, const sp_matmul_args *a, int64_t from, int64_t to)
{
    const sp_mat *w = a->w;
    const size_t row_bytes = sp_row_bytes(w->type, w->n_cols);
    const int64_t n_units = w->n_cols / 32;
    float panel[PANEL * BLOCK];
    for (int64_t m = 0; m < a->m; m += RUN) {
        for (int64_t u = 0; u < n_units; u += UNITS) {
            int64_t end = SP_MIN(n_units, u + UNITS);
            for (int64_t r = from; r < to; r += PANEL) {
                for (int q = 0; q < PANEL && r + q < to; q += QUAD) {
                    const uint8_t *row[QUAD];
                    quad_rows(w, row_bytes, r + q, to, row);
                    decode_quad(type, row, u, end, panel + q * BLOCK);
                }
                panel_run(a, panel, a->x + m * w->n_cols + u * 32, w->n_cols, (end - u) * 32, m,
                          SP_MIN(a->m, m + RUN), r, to);
            }
        }
    }
}

/* -- both -------------------------------------------------------------------------------------- */

/* The block of columns beyond the last multiple of 32: F32, F16 and BF16 only. */
static void rest(const sp_matmul_args *a, int64_t from, int64_t to)
{
    const sp_mat *w = a->w;
    const int64_t n = w->n_cols % 32, first = w->n_cols - n;
    const size_t row_bytes = sp_row_bytes(w->type, w->n_cols);
    for (int64_t r = from; r < to; r += QUAD) {
        const uint8_t *row[QUAD];
        float panel[32 * QUAD], one[32] = {0}, x[32] = {0};
        quad_rows(w, row_bytes, r, to, row);
        for (int i = 0; i < QUAD; i++) {
            sp_row_to_f32(w->type, row[i] + sp_row_bytes(w->type, first), one, n);
            for (int v = 0; v < V32; v++) {
                vec_store(panel + (v * QUAD + i) * VL, vec_load(one + v * VL));
            }
        }
        for (int64_t m = 0; m < a->m; m++) {
            memcpy(x, a->x + m * w->n_cols + first, (size_t)n * sizeof(float));
            tile(1, x, 32, panel, 32, a->y + m * w->n_rows, w->n_rows, r, to);
        }
    }
}

typedef void path(const sp_matmul_args *a, int64_t from, int64_t to);

#define PATHS(type)                                                                                \
    static void fused_##type(const sp_matmul_args *a, int64_t from, int64_t to)                    \
    {                                                                                              \
        fused(SP_##type, a, from, to);                                                             \
    }                                                                                              \
    static void panels_##type(const sp_matmul_args *a, int64_t from, int64_t to)                   \
    {                                                                                              \
        panels(SP_##type, a, from, to);                                                            \
    }
#define TYPES(X)                                                                                   \
    X(F32) X(F16) X(BF16) X(Q8_0) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q4_K) X(Q5_K) X(Q6_K)

TYPES(PATHS)

void SP_VARIANT(sp_matmul)(const sp_matmul_args *a, int part, int n_parts)
{
#define ENTRY(type) [SP_##type] = {fused_##type, panels_##type},
    static path *const paths[SP_DTYPE_N][2] = {TYPES(ENTRY)};
    int64_t from, to;
    sp_part(a->w->n_rows, 16, part, n_parts, &from, &to);
    if (from == to) return;
    start(a, from, to);
    paths[a->w->type][a->m > 1](a, from, to);
    if (a->w->n_cols % 32 != 0) rest(a, from, to);
}
