/* matmul_packed_body.h -- matrix product in integers: packed weights, quantized x.
 *
 *   for rows of x in runs of 128
 *     for columns in stretches of 2048        x of a run and a stretch: half a MB, in L2
 *       for panels of R outputs
 *         for blocks of 256 columns           unpacked here, once for 128 rows: 8 to 16 KB, in L1
 *           for tiles of TILE rows of x       TILE x 2 vectors of sums in registers
 *
 * In a tile, a group of 32 columns costs 2 TILE STEPS multiplications, and then for each vector of
 * sums a conversion, a scale and an FMA: with TILE x 2 integer sums the registers are full, so the
 * float sums wait in L1.
 *
 * One order of summation for every (row, output): integers are exact, groups are added in ascending
 * order from zero within a block, and blocks to y in ascending order.
 */
#include "compute/ops_int.h"
#include "compute/x86/panels.h"

enum {
    RUN = 128,
    STRETCH = 2048 / 256,       /* blocks */
    TILE = SP_VL == 8 ? 6 : 12, /* rows of x */
};

/* What of x a tile reads: rows of a block. */
typedef struct xs {
    qrow row[TILE];
    int64_t group; /* first of the block */
} xs;

/* out[j] += one group (or half, of `steps` steps from `first` on) of `rows` rows of x. */
INLINE void group(const int rows, const int first, const int steps, const block *b, int g,
                  const xs *x, const bool min, vec out[TILE][2])
{
    const int half = first > 0;
    const int64_t i = x->group + g;
    const uint8_t *w = b->lines[g] + first * 2 * LINE;
    ivec sum[TILE][2];
    for (int j = 0; j < rows; j++) {
        int32_t start = SP_STEP == 2     ? 0
                        : steps == STEPS ? x->row[j].start[i]
                                         : x->row[j].half[2 * i + half];
        sum[j][0] = sum[j][1] = ivec_all(start);
    }
#pragma GCC unroll 16
    for (int s = 0; s < steps; s++) {
        const ivec w0 = ivec_load(w + s * 2 * LINE), w1 = ivec_load(w + s * 2 * LINE + LINE);
        for (int j = 0; j < rows; j++) {
            int32_t word;
            memcpy(&word, x->row[j].x + i * (128 / SP_STEP) + (first + s) * 4, sizeof word);
            const ivec xv = ivec_all(word);
            sum[j][0] = ivec_dot(sum[j][0], w0, xv);
            sum[j][1] = ivec_dot(sum[j][1], w1, xv);
        }
    }
    for (int v = 0; v < 2; v++) {
        const vec scale = vec_load(b->scale[g][half] + v * VL);
        for (int j = 0; j < rows; j++) {
            vec factor = vec_mul(scale, vec_all(x->row[j].scale[i]));
            out[j][v] = vec_fma(ivec_to_vec(sum[j][v]), factor, out[j][v]);
            if (min && !half) {
                out[j][v] =
                    vec_fma(vec_load(b->min[g] + v * VL), vec_all(x->row[j].sum[i]), out[j][v]);
            }
        }
    }
}

/* y[j, r .. r + R - 1] += a block of n groups, as far as the row goes */
INLINE void tile(sp_dtype type, const int rows, const block *b, int n, const xs *x, float *y,
                 int64_t y_stride, int64_t n_left)
{
    vec out[TILE][2];
    for (int j = 0; j < rows; j++) out[j][0] = out[j][1] = vec_zero();
    for (int g = 0; g < n; g++) {
        if (in_halves(type)) {
            group(rows, 0, STEPS / 2, b, g, x, false, out);
            group(rows, STEPS / 2, STEPS / 2, b, g, x, false, out);
        } else {
            group(rows, 0, STEPS, b, g, x, has_min(type), out);
        }
    }
    for (int j = 0; j < rows; j++, y += y_stride) {
        if (SP_LIKELY(n_left >= R)) {
            for (int v = 0; v < 2; v++) {
                vec_store(y + v * VL, vec_add(vec_load(y + v * VL), out[j][v]));
            }
            continue;
        }
        float s[R];
        for (int v = 0; v < 2; v++) vec_store(s + v * VL, out[j][v]);
        for (int r = 0; r < n_left; r++) y[r] += s[r];
    }
}

/* All rows m .. end-1 meet one block of the panel of outputs r .. r + R - 1. */
INLINE void block_run(sp_dtype type, const sp_matmul_packed_args *a, const block *b, int n,
                      int64_t first_group, int64_t m, int64_t end, int64_t r)
{
    const int64_t n_out = a->w->n_rows;
    for (int rows; m < end; m += rows) {
        rows = (int)SP_MIN(TILE, end - m);
        xs x = {.group = first_group};
        for (int j = 0; j < rows; j++) x.row[j] = qrow_at(a->q, m + j, a->w->n_cols);
        float *y = a->y + m * n_out + r;
        switch (rows) {
#define CASE(k)                                                                                    \
    case k:                                                                                        \
        tile(type, k, b, n, &x, y, n_out, n_out - r);                                              \
        break;
            CASE(1)
            CASE(2)
            CASE(3)
            CASE(4)
            CASE(5)
            CASE(6)
#if SP_VL == 16
            CASE(7)
            CASE(8)
            CASE(9)
            CASE(10)
            CASE(11)
            CASE(12)
#endif
#undef CASE
        }
    }
}

INLINE void product(sp_dtype type, const sp_matmul_packed_args *a, int64_t from, int64_t to)
{
    sp_pack_layout l;
    sp_pack_layout_of(type, R, &l);
    const int64_t n_groups = a->w->n_cols / 32, n_blocks = SP_DIV_UP(n_groups, GROUPS);
    const size_t panel_bytes = sp_pack_panel_bytes(&l, n_groups);
    const size_t block_bytes = l.head + GROUPS * l.group;
    block b;
    for (int64_t m = 0; m < a->m; m += RUN) {
        const int64_t m_end = SP_MIN(a->m, m + RUN);
        for (int64_t first = 0; first < n_blocks; first += STRETCH) {
            for (int64_t r = from; r < to; r += R) {
                const uint8_t *panel =
                    (const uint8_t *)a->w->packed + (size_t)(r / R) * panel_bytes;
                for (int64_t i = first; i < SP_MIN(n_blocks, first + STRETCH); i++) {
                    const int n = (int)SP_MIN(GROUPS, n_groups - i * GROUPS);
                    unpack(type, &l, panel + (size_t)i * block_bytes, n, &b);
                    block_run(type, a, &b, n, i * GROUPS, m, m_end, r);
                }
            }
        }
    }
}

#define PACKED_TYPES(X) X(Q8_0) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q4_K) X(Q5_K) X(Q6_K)
#define PRODUCT(type)                                                                              \
    static void product_##type(const sp_matmul_packed_args *a, int64_t from, int64_t to)           \
    {                                                                                              \
        product(SP_##type, a, from, to);                                                           \
    }
PACKED_TYPES(PRODUCT)

void SP_VARIANT(sp_matmul_packed)(const sp_matmul_packed_args *a, int part, int n_parts)
{
    typedef void fn(const sp_matmul_packed_args *, int64_t, int64_t);
#define ENTRY(type) [SP_##type] = product_##type,
    static fn *const products[SP_DTYPE_N] = {PACKED_TYPES(ENTRY)};
    int64_t from, to;
    sp_part(a->w->n_rows, R, part, n_parts, &from, &to);
    for (int64_t m = 0; m < a->m; m++) {
        float *y = a->y + m * a->w->n_rows;
        for (int64_t r = from; r < to; r++) {
            y[r] = (a->add ? y[r] : 0) + (a->bias ? a->bias[r] : 0);
        }
    }
    if (from < to) products[a->w->type](a, from, to);
}

size_t SP_VARIANT(sp_pack_bytes)(const sp_mat *w)
{
    return sp_pack_bytes(w, FORM);
}

void SP_VARIANT(sp_pack)(const sp_pack_args *a, int part, int n_parts)
{
    sp_pack(a, FORM, part, n_parts);
}
