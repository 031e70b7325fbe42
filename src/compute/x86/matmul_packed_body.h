/* matmul_packed_body.h -- matrix product in integers: packed weights, quantized x.
 *
 *   for rows of x in runs of 128
 *     for columns in stretches of 2048        x of a run and a stretch: half a MB, in L2
 *       for panels of R outputs
 *         for blocks of 256 columns           unpacked here, once for 128 rows: 8 to 16 KB, in L1
 *           for tiles of TILE rows of x       TILE x 2 vectors of sums in registers
 *
 * Up to TILE rows (decode): a tile takes the codes from memory to its sums without a block.
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
    STRETCH = 2048 / 256,      /* blocks */
    TILE = SP_VL == 8 ? 5 : 8, /* rows of x */
};

/* What a tile of `rows` rows of x meets: a block of a panel, unpacked or as it lies in memory. */
typedef struct meeting {
    qrow x[TILE];
    int64_t first; /* group of x that meets the block's first */
    int n;         /* groups */
    const block *b;
    const uint8_t *head;      /* of the block in memory, where b is NULL */
    float *y;                 /* [rows] at the panel's first output */
    int64_t y_stride, n_left; /* outputs from there to the end of a row of y */
} meeting;

/* The lines of step s of a group. */
INLINE void lines_of(sp_dtype type, const bool direct, const sp_pack_layout *l,
                     const uint8_t *group, int s, ivec w[2])
{
    for (int v = 0; v < 2; v++) {
        const int i = 2 * s + v;
        w[v] = direct ? line_direct(type, l, group, i) : ivec_load(group + i * LINE);
    }
}

/* out[j] += steps from `first` on of group i of x, which are all or half of it. */
INLINE void add_steps(sp_dtype type, const bool direct, const sp_pack_layout *l, const int rows,
                      const meeting *t, int64_t i, const uint8_t *group, const factors_of *f,
                      const int first, const int steps, vec out[TILE][2])
{
    const int half = first > 0;
    ivec sum[TILE][2];
    for (int j = 0; j < rows; j++) {
        int32_t start = SP_STEP == 2     ? 0
                        : steps == STEPS ? t->x[j].start[i]
                                         : t->x[j].half[2 * i + half];
        sum[j][0] = sum[j][1] = ivec_all(start);
    }
#pragma GCC unroll 16
    for (int s = first; s < first + steps; s++) {
        ivec w[2];
        lines_of(type, direct, l, group, s, w);
        for (int j = 0; j < rows; j++) {
            int32_t word;
            memcpy(&word, t->x[j].x + i * (128 / SP_STEP) + s * 4, sizeof word);
            const ivec x = ivec_all(word);
            for (int v = 0; v < 2; v++) sum[j][v] = ivec_dot(sum[j][v], w[v], x);
        }
    }
    for (int v = 0; v < 2; v++) {
        const vec scale = vec_load(f->scale[half] + v * VL);
        for (int j = 0; j < rows; j++) {
            vec factor = vec_mul(scale, vec_all(t->x[j].scale[i]));
            out[j][v] = vec_fma(ivec_to_vec(sum[j][v]), factor, out[j][v]);
            if (has_min(type)) { /* of no type in halves */
                out[j][v] = vec_fma(vec_load(f->min + v * VL), vec_all(t->x[j].sum[i]), out[j][v]);
            }
        }
    }
}

/* y += the sums, as far as the row goes */
INLINE void add_to_y(const int rows, const meeting *t, vec out[TILE][2])
{
    float *y = t->y;
    for (int j = 0; j < rows; j++, y += t->y_stride) {
        if (SP_LIKELY(t->n_left >= R)) {
            for (int v = 0; v < 2; v++) {
                vec_store(y + v * VL, vec_add(vec_load(y + v * VL), out[j][v]));
            }
            continue;
        }
        float s[R];
        for (int v = 0; v < 2; v++) vec_store(s + v * VL, out[j][v]);
        for (int r = 0; r < t->n_left; r++) y[r] += s[r];
    }
}

INLINE void tile(sp_dtype type, const bool direct, const int rows, const meeting *t)
{
    sp_pack_layout l;
    sp_pack_layout_of(type, R, &l);
    vec out[TILE][2];
    for (int j = 0; j < rows; j++) out[j][0] = out[j][1] = vec_zero();
    for (int g = 0; g < t->n; g++) {
        const uint8_t *group = direct ? t->head + l.head + (size_t)g * l.group : t->b->lines[g];
        factors_of here;
        const factors_of *f = direct ? &here : &t->b->factors[g];
        if (direct) factors(type, t->head, group, &here);
        const int64_t i = t->first + g;
        const int n = in_halves(type) ? STEPS / 2 : STEPS;
        for (int first = 0; first < STEPS; first += n) {
            add_steps(type, direct, &l, rows, t, i, group, f, first, n, out);
        }
    }
    add_to_y(rows, t, out);
}

/* Each kind of tile is a function of its own: inlined into one, they would leave each other no
 * registers. Of a block, only its constants and halves matter, so three kinds serve all types. */
typedef void tile_fn(const meeting *t);

#define NOINLINE      static __attribute__((noinline))
#define FIVE(X, type) X(type, 1) X(type, 2) X(type, 3) X(type, 4) X(type, 5)
#if SP_VL == 8
#define EACH_HEIGHT(X, type) FIVE(X, type)
#else
#define EACH_HEIGHT(X, type) FIVE(X, type) X(type, 6) X(type, 7) X(type, 8)
#endif
#define PACKED_TYPES(X) X(Q8_0) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q4_K) X(Q5_K) X(Q6_K)

#define DIRECT_TILE(type, k)                                                                       \
    NOINLINE void direct_##type##_##k(const meeting *t)                                            \
    {                                                                                              \
        tile(SP_##type, true, k, t);                                                               \
    }
#define BLOCK_TILE(type, k)                                                                        \
    NOINLINE void block_##type##_##k(const meeting *t)                                             \
    {                                                                                              \
        tile(SP_##type, false, k, t);                                                              \
    }
#define DIRECT_TILES(type) EACH_HEIGHT(DIRECT_TILE, type)
PACKED_TYPES(DIRECT_TILES)
EACH_HEIGHT(BLOCK_TILE, Q8_0) /* neither constants nor halves */
EACH_HEIGHT(BLOCK_TILE, Q4_1) /* constants */
EACH_HEIGHT(BLOCK_TILE, Q6_K) /* halves */

#define DIRECT_NAME(type, k) [k] = direct_##type##_##k,
#define BLOCK_NAME(type, k)  [k] = block_##type##_##k,
#define DIRECT_ROW(type)     [SP_##type] = {EACH_HEIGHT(DIRECT_NAME, type)},
static tile_fn *const direct_tiles[SP_DTYPE_N][TILE + 1] = {PACKED_TYPES(DIRECT_ROW)};
static tile_fn *const block_tiles[3][TILE + 1] = {{EACH_HEIGHT(BLOCK_NAME, Q8_0)},
                                                  {EACH_HEIGHT(BLOCK_NAME, Q4_1)},
                                                  {EACH_HEIGHT(BLOCK_NAME, Q6_K)}};

/* Rows m .. end-1 of x meet a block of the panel of outputs r .. r + R - 1, in tiles of equal
 * height: two of four rows are faster than one of five and one of three. */
static void tiles(tile_fn *const *of_height, const sp_matmul_packed_args *a, int64_t m, int64_t end,
                  int64_t r, meeting *t)
{
    t->y_stride = a->w->n_rows;
    t->n_left = a->w->n_rows - r;
    for (int64_t rows; m < end; m += rows) {
        const int64_t left = SP_DIV_UP(end - m, TILE);
        rows = SP_DIV_UP(end - m, left);
        for (int j = 0; j < rows; j++) t->x[j] = qrow_at(a->q, m + j, a->w->n_cols);
        t->y = a->y + m * a->w->n_rows + r;
        of_height[rows](t);
    }
}

/* Few rows: one tile, so nothing is gained by unpacking a block before. */
INLINE void stream(sp_dtype type, const sp_matmul_packed_args *a, int64_t from, int64_t to)
{
    sp_pack_layout l;
    sp_pack_layout_of(type, R, &l);
    const int64_t n_groups = a->w->n_cols / 32;
    const uint8_t *p = (const uint8_t *)a->w->packed;
    p += (size_t)(from / R) * sp_pack_panel_bytes(&l, n_groups);
    for (int64_t r = from; r < to; r += R) {
        for (int64_t g = 0; g < n_groups; g += GROUPS) {
            meeting t = {.first = g, .n = (int)SP_MIN(GROUPS, n_groups - g), .head = p};
            tiles(direct_tiles[type], a, 0, a->m, r, &t);
            p += l.head + (size_t)t.n * l.group;
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
    const int kind = in_halves(type) ? 2 : has_min(type) ? 1 : 0;
    block b;
    for (int64_t m = 0; m < a->m; m += RUN) {
        const int64_t m_end = SP_MIN(a->m, m + RUN);
        for (int64_t first = 0; first < n_blocks; first += STRETCH) {
            for (int64_t r = from; r < to; r += R) {
                const uint8_t *p = (const uint8_t *)a->w->packed + (size_t)(r / R) * panel_bytes;
                for (int64_t i = first; i < SP_MIN(n_blocks, first + STRETCH); i++) {
                    meeting t = {.first = i * GROUPS, .b = &b};
                    t.n = (int)SP_MIN(GROUPS, n_groups - t.first);
                    unpack(type, &l, p + (size_t)i * block_bytes, t.n, &b);
                    tiles(block_tiles[kind], a, m, m_end, r, &t);
                }
            }
        }
    }
}

#define PRODUCT(type)                                                                              \
    static void product_##type(const sp_matmul_packed_args *a, int64_t from, int64_t to)           \
    {                                                                                              \
        if (a->m <= TILE) {                                                                        \
            stream(SP_##type, a, from, to);                                                        \
        } else {                                                                                   \
            product(SP_##type, a, from, to);                                                       \
        }                                                                                          \
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
