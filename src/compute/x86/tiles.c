/* tiles.c -- products of packed weights with AMX: weights and x rounded to bf16, sums in f32.
 *
 *   for rows of x in runs of 512
 *     for columns in stretches of 1280        x of a run and a stretch: 1.3 MB, in L2
 *       for panels of 32 outputs              their sums: 64 KB
 *         for blocks of 256 columns           rounded to bf16 once for the run: 16 KB, in L1
 *           for 32 rows of x                  2 x 2 tiles of sums, loaded and stored once a block
 *
 * Up to FEW rows (decode): weights are rounded in registers and multiplied by FMAs, without a block. BF16, and F16
 * where that is asked for, is packed as tiles (kernel/pack.h), which are read where they are.
 *
 * A weight is scale * code + constant, rounded once to f32 and once to bf16; x is rounded to bf16 as it is, without
 * scales. Where integer tiles would have to leave their sums for a scale every 32 columns, sums of bf16 stay in tiles
 * through all columns of a block: on a Xeon that is twice as fast as VNNI, where integer tiles were slower than it.
 *
 * One order of summation for every (row, output), that of tile_dot (tiles.h): in each group of 32 columns one chain of
 * FMAs over the even columns and one over the odd ones, both from zero; groups are added to the initial value of y in
 * ascending order. The vector unit computes the same bits for few rows, since denormals are flushed (`flush`).
 */
#include "compute/kernel/ops.h"
#include "compute/simd/sums.h"
#include "compute/x86/tiles.h"

enum {
    PAIRS = 16,          /* of columns in a group: the rows of a tile of weights */
    BLOCK = 256 / 32,    /* groups */
    STRETCH = 1280 / 32, /* groups */
    RUN = 512,           /* rows of x */
    FEW = 2,
    AHEAD = 32,          /* groups */
};

#if SP_EMULATE /* would take the compiler long */
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* -- rows of x --------------------------------------------------------------------------------- */

/* A row in bf16. An odd number of cache lines, so that 16 rows do not compete for the same sets of L1. */
size_t sp_quantized_bytes_amx(int64_t n)
{
    return SP_ROUND_UP((size_t)n * 2, (size_t)SP_CACHE_LINE) | SP_CACHE_LINE;
}

int sp_x_bits_amx(sp_dtype type)
{
    return type == SP_F32 || type == SP_F16 ? 0 : 9;
}

int sp_x_bits_amx_f16(sp_dtype type)
{
    return type == SP_F32 ? 0 : 9;
}

/* 32 columns; all NaN if one is not finite or becomes infinite, so that all products of the row are NaN. */
INLINE __m512i round_group(const float *x)
{
    const group32 g = group_load(x);
    const bool finite = group_largest(&g) < 0x7f7f8000;
    return finite ? bf16_of(vec_load(x), vec_load(x + VL)) : _mm512_set1_epi16(0x7fc0);
}

void sp_quantize_amx(const sp_quantize_args *a, int part, int n_parts)
{
    int64_t from, to;
    assert(!a->rest); /* weights are rounded, too: there are no exact products */
    sp_part(a->m, 1, part, n_parts, &from, &to);
    for (int64_t m = from; m < to; m++) {
        const float *x = a->x + m * a->n;
        uint8_t *q = (uint8_t *)a->q + (size_t)m * sp_quantized_bytes_amx(a->n);
        for (int64_t i = 0; i < a->n; i += 32) _mm512_storeu_si512((void *)(q + 2 * i), round_group(x + i));
    }
}

/* -- weights ----------------------------------------------------------------------------------- */

static const sp_pack_form form = {R, 2};

/* Whether the weights are packed as tiles. Rows that end within a group are multiplied as floats. */
static bool as_tiles(const sp_mat *w, bool f16)
{
    return w->n_cols % 32 == 0 && (w->type == SP_BF16 || (f16 && w->type == SP_F16));
}

size_t sp_pack_bytes_amx(const sp_mat *w)
{
    return as_tiles(w, false) ? sp_pack_tiles_bytes(w) : sp_pack_bytes(w, form);
}

size_t sp_pack_bytes_amx_f16(const sp_mat *w)
{
    return as_tiles(w, true) ? sp_pack_tiles_bytes(w) : sp_pack_bytes(w, form);
}

void sp_pack_amx(const sp_pack_args *a, int part, int n_parts)
{
    if (as_tiles(a->w, false))
        sp_pack_tiles(a, part, n_parts);
    else
        sp_pack(a, form, part, n_parts);
}

void sp_pack_amx_f16(const sp_pack_args *a, int part, int n_parts)
{
    if (as_tiles(a->w, true))
        sp_pack_tiles(a, part, n_parts);
    else
        sp_pack(a, form, part, n_parts);
}

/* A packed panel. */
typedef struct panel {
    sp_pack_layout l;
    const uint8_t *p;
} panel;

INLINE panel panel_at(sp_dtype type, const sp_mat *w, int64_t r)
{
    panel p = {0};
    if (type == SP_BF16) {
        p.p = (const uint8_t *)w->packed + (size_t)(r * w->n_cols) * 2;
        return p;
    }
    sp_pack_layout_of(type, R, &p.l);
    p.p = (const uint8_t *)w->packed + (size_t)(r / R) * sp_pack_panel_bytes(&p.l, w->n_cols / 32);
    return p;
}

/* Factors of a group, of 8 outputs a vector, each twice: for two columns. */
typedef struct twice {
    vec scale[2][R / 8], min[2][R / 8];
} twice;

/* Weights of a group: for 16 outputs a tile. */
typedef uint8_t tiles16[2][TILE_ROWS][TILE_BYTES];

/* A block of a panel. */
typedef struct block16 {
    _Alignas(64) tiles16 of[BLOCK];
} block16;

typedef struct group {
    const uint8_t *at;
    size_t n_bytes;
    twice f;
} group;

INLINE void open_group(sp_dtype type, const panel *p, int64_t i, group *g)
{
    if (type == SP_BF16) {
        g->at = p->p + (size_t)i * sizeof(tiles16);
        g->n_bytes = sizeof(tiles16);
        return;
    }
    const uint8_t *head = p->p + (size_t)(i / GROUPS) * (p->l.head + GROUPS * p->l.group);
    factors_of f;
    g->at = head + p->l.head + (size_t)(i % GROUPS) * p->l.group;
    g->n_bytes = p->l.group;
    factors(type, head, g->at, &f);
    for (int half = 0; half < (in_halves(type) ? 2 : 1); half++)
        for (int k = 0; k < R / 8; k++) {
            g->f.scale[half][k] = vec_twice(f.scale[half] + 8 * k);
            if (has_min(type)) g->f.min[half][k] = vec_twice(f.min[half] + 8 * k);
        }
}

/* Prefetches a part of a later group into L2, beside each pair. L1 has too few buffers: on a Xeon, lines that come
 * from memory into L1 made answers slower than none. */
INLINE void fetch_ahead(const group *g, int s)
{
    for (size_t i = (size_t)s * SP_CACHE_LINE; i < g->n_bytes; i += PAIRS * SP_CACHE_LINE)
        _mm_prefetch((const char *)g->at + AHEAD * g->n_bytes + i, _MM_HINT_T1);
}

INLINE __m512i field(const uint8_t *p, int shift, int mask)
{
    const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm512_and_si512(_mm512_srli_epi32(wide, (unsigned)shift), _mm512_set1_epi32(mask));
}

/* Codes i .. i + 15 of a group (kernel/pack.h). */
INLINE vec codes_at(sp_dtype type, const sp_pack_layout *l, const uint8_t *at, int i)
{
    const uint8_t *low = at + l->low, *high = at + l->high;
    if (type == SP_Q8_0) return vec_load_i8(low + i);
    __m512i c = field(low + i % (16 * R), i / (16 * R) * 4, 15);
    if (type == SP_Q5_0 || type == SP_Q5_1 || type == SP_Q5_K)
        c = _mm512_or_si512(c, _mm512_slli_epi32(field(high + i % (4 * R), i / (4 * R), 1), 4));
    if (type == SP_Q6_K)
        c = _mm512_or_si512(c, _mm512_slli_epi32(field(high + i % (8 * R), i / (8 * R) * 2, 3), 4));
    return _mm512_cvtepi32_ps(c);
}

/* Columns 2 s and 2 s + 1 of outputs 16 v .. 16 v + 15: a row of a tile. */
INLINE __m512i pair(sp_dtype type, const panel *p, const group *g, int s, int v)
{
    if (type == SP_BF16) return _mm512_load_si512((const void *)(g->at + (size_t)(v * PAIRS + s) * TILE_BYTES));
    const int half = in_halves(type) ? s / (PAIRS / 2) : 0;
    vec w[2];
    for (int k = 0; k < 2; k++) {
        const vec codes = codes_at(type, &p->l, g->at, 2 * R * s + 32 * v + 16 * k);
        const vec scale = g->f.scale[half][2 * v + k];
        w[k] = has_min(type) ? vec_fma(codes, scale, g->f.min[half][2 * v + k]) : vec_mul(codes, scale);
    }
    return bf16_of(w[0], w[1]);
}

INLINE void unpack16(sp_dtype type, const panel *p, int64_t first, int n, block16 *to)
{
    for (int i = 0; i < n; i++) {
        group g;
        open_group(type, p, first + i, &g);
        UNROLL
        for (int s = 0; s < PAIRS; s++) {
            fetch_ahead(&g, s);
            for (int v = 0; v < 2; v++) _mm512_store_si512((void *)to->of[i][v][s], pair(type, p, &g, s, v));
        }
    }
}

/* -- few rows ---------------------------------------------------------------------------------- */

/* The product of `rows` rows with a panel. */
INLINE void few_rows(sp_dtype type, const int rows, const sp_matmul_packed_args *a, int64_t r)
{
    const panel p = panel_at(type, a->w, r);
    const size_t stride = sp_quantized_bytes_amx(a->w->n_cols);
    _Alignas(64) float sums[FEW][R];
    load_sums(a, 0, rows, r, true, sums);
    for (int64_t i = 0; i < a->w->n_cols / 32; i++) {
        const uint8_t *x = (const uint8_t *)a->q + TILE_BYTES * i;
        vec even[FEW][2], odd[FEW][2];
        group g;
        open_group(type, &p, i, &g);
        for (int j = 0; j < rows; j++)
            for (int v = 0; v < 2; v++) even[j][v] = odd[j][v] = vec_zero();
        UNROLL
        for (int s = 0; s < PAIRS; s++) {
            fetch_ahead(&g, s);
            const __m512i w[2] = {pair(type, &p, &g, s, 0), pair(type, &p, &g, s, 1)};
            for (int j = 0; j < rows; j++) {
                int32_t two;
                memcpy(&two, x + (size_t)j * stride + 4 * s, sizeof two);
                const __m512i all = _mm512_set1_epi32(two);
                for (int v = 0; v < 2; v++) {
                    even[j][v] = vec_fma(bf16_even(all), bf16_even(w[v]), even[j][v]);
                    odd[j][v] = vec_fma(bf16_odd(all), bf16_odd(w[v]), odd[j][v]);
                }
            }
        }
        for (int j = 0; j < rows; j++)
            for (int v = 0; v < 2; v++)
                vec_store(sums[j] + v * VL,
                          vec_add(vec_load(sums[j] + v * VL), vec_add(even[j][v], odd[j][v])));
    }
    store_sums(a, 0, rows, r, sums);
}

/* -- many rows --------------------------------------------------------------------------------- */

/* What has a function for each type of weights: inlined into one function, they would compete for registers. */
typedef struct of_type {
    void (*few)(const sp_matmul_packed_args *a, int64_t r);
    void (*unpack)(const sp_mat *w, int64_t r, int64_t first, int n, block16 *to); /* NULL: packed as tiles */
} of_type;

/* Sixteen rows of x from a column on. */
typedef struct x_tile {
    const uint8_t *x;
    size_t stride;
} x_tile;

/* A run of rows and a stretch of columns. The rows that do not fill a tile are copied, with zeros after them. */
typedef struct stretch {
    int64_t m, n; /* rows m .. m + n - 1 */
    int64_t first, n_groups;
    int n_tiles;
    x_tile x[RUN / TILE_ROWS + 1]; /* one more: the last tile may have no partner */
    _Alignas(64) uint8_t rest[TILE_ROWS][(STRETCH + 1) * TILE_BYTES];
} stretch;

static void open_stretch(const sp_matmul_packed_args *a, int64_t m, int64_t first, stretch *s)
{
    const size_t stride = sp_quantized_bytes_amx(a->w->n_cols);
    const uint8_t *x = (const uint8_t *)a->q + (size_t)m * stride + (size_t)first * TILE_BYTES;
    s->m = m, s->n = SP_MIN(RUN, a->m - m);
    s->first = first, s->n_groups = SP_MIN(STRETCH, a->w->n_cols / 32 - first);
    s->n_tiles = (int)SP_DIV_UP(s->n, TILE_ROWS);
    for (int i = 0; i < s->n_tiles; i++) s->x[i] = (x_tile){x + (size_t)(i * TILE_ROWS) * stride, stride};
    const int64_t left = s->n % TILE_ROWS;
    if (left == 0) return;
    x_tile *last = &s->x[s->n_tiles - 1];
    memset(s->rest, 0, sizeof s->rest);
    for (int64_t j = 0; j < left; j++)
        memcpy(s->rest[j], last->x + (size_t)j * stride, (size_t)s->n_groups * TILE_BYTES);
    *last = (x_tile){s->rest[0], sizeof s->rest[0]};
}

/* sums += 16 rows of x times n groups of weights. */
static void one_tile(const x_tile *x, size_t at, const tiles16 *w, int n, float (*sums)[R])
{
    tile_load(0, sums[0], sizeof sums[0]);
    tile_load(1, sums[0] + VL, sizeof sums[0]);
    for (int i = 0; i < n; i++, at += TILE_BYTES) {
        tile_load(4, x->x + at, x->stride);
        tile_load(6, w[i][0], TILE_BYTES);
        tile_dot(0, 4, 6);
        tile_load(7, w[i][1], TILE_BYTES);
        tile_dot(1, 4, 7);
    }
    tile_store(0, sums[0], sizeof sums[0]);
    tile_store(1, sums[0] + VL, sizeof sums[0]);
}

/* The same of 32 rows: each tile that is loaded is multiplied twice. */
static void two_tiles(const x_tile x[2], size_t at, const tiles16 *w, int n, float (*sums)[R])
{
    float(*below)[R] = sums + TILE_ROWS;
    tile_load(0, sums[0], sizeof sums[0]);
    tile_load(1, sums[0] + VL, sizeof sums[0]);
    tile_load(2, below[0], sizeof sums[0]);
    tile_load(3, below[0] + VL, sizeof sums[0]);
    for (int i = 0; i < n; i++, at += TILE_BYTES) {
        tile_load(4, x[0].x + at, x[0].stride);
        tile_load(6, w[i][0], TILE_BYTES);
        tile_dot(0, 4, 6);
        tile_load(7, w[i][1], TILE_BYTES);
        tile_dot(1, 4, 7);
        tile_load(5, x[1].x + at, x[1].stride);
        tile_dot(2, 5, 6);
        tile_dot(3, 5, 7);
    }
    tile_store(0, sums[0], sizeof sums[0]);
    tile_store(1, sums[0] + VL, sizeof sums[0]);
    tile_store(2, below[0], sizeof sums[0]);
    tile_store(3, below[0] + VL, sizeof sums[0]);
}

/* fetch_sums -- fetches what the next panel adds to or overwrites in up to 32 rows of y. A row of y is far from the
 * one before, so nothing else does. */
static void fetch_sums(const sp_matmul_packed_args *a, const stretch *s, int64_t i, int64_t r)
{
    const int64_t end = SP_MIN(s->n, i + 2 * TILE_ROWS);
    if (r + 2 * R > a->w->n_rows) return;
    for (; i < end; i++) {
        const float *y = a->y + (s->m + i) * a->w->n_rows + r + R;
        vec_prefetch(y);
        vec_prefetch(y + R / 2);
    }
}

static void multiply_panel(const of_type *f, const sp_matmul_packed_args *a, const stretch *s, int64_t r)
{
    block16 b;
    _Alignas(64) float sums[RUN][R];
    load_sums(a, s->m, s->m + s->n, r, s->first == 0, sums);
    for (int64_t i = s->n; i < s->n_tiles * TILE_ROWS; i++) memset(sums[i], 0, sizeof sums[i]);
    for (int64_t g = 0; g < s->n_groups; g += BLOCK) {
        const int n = (int)SP_MIN(BLOCK, s->n_groups - g);
        const size_t at = (size_t)g * TILE_BYTES;
        const tiles16 *w = b.of;
        int t = 0;
        if (f->unpack)
            f->unpack(a->w, r, s->first + g, n, &b);
        else
            w = (const tiles16 *)panel_at(SP_BF16, a->w, r).p + s->first + g;
        for (; t + 2 <= s->n_tiles; t += 2) {
            if (g == 0) fetch_sums(a, s, t * TILE_ROWS, r);
            two_tiles(s->x + t, at, w, n, sums + t * TILE_ROWS);
        }
        if (t < s->n_tiles) one_tile(s->x + t, at, w, n, sums + t * TILE_ROWS);
    }
    store_sums(a, s->m, s->m + s->n, r, sums);
}

static void many_rows(const of_type *f, const sp_matmul_packed_args *a, int64_t from, int64_t to)
{
    stretch s;
    tiles_begin();
    for (int64_t m = 0; m < a->m; m += RUN)
        for (int64_t first = 0; first < a->w->n_cols / 32; first += STRETCH) {
            open_stretch(a, m, first, &s);
            for (int64_t r = from; r < to; r += R) multiply_panel(f, a, &s, r);
        }
    tiles_end();
}

/* -- the operation ----------------------------------------------------------------------------- */

#define PACKED_TYPES(X) X(Q8_0) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q2_K) X(Q4_K) X(Q5_K) X(Q6_K)
#define NOINLINE        static __attribute__((noinline))

#define FEW_ROWS(type)                                                                             \
    NOINLINE void few_##type(const sp_matmul_packed_args *a, int64_t r)                            \
    {                                                                                              \
        if (a->m == 1)                                                                             \
            few_rows(SP_##type, 1, a, r);                                                          \
        else                                                                                       \
            few_rows(SP_##type, FEW, a, r);                                                        \
    }
#define FUNCTIONS(type)                                                                            \
    FEW_ROWS(type)                                                                                 \
    NOINLINE void unpack_##type(const sp_mat *w, int64_t r, int64_t first, int n, block16 *to)     \
    {                                                                                              \
        const panel p = panel_at(SP_##type, w, r);                                                 \
        unpack16(SP_##type, &p, first, n, to);                                                     \
    }
PACKED_TYPES(FUNCTIONS)
FEW_ROWS(BF16)

#define ENTRY(type) [SP_##type] = {few_##type, unpack_##type},
static const of_type functions[SP_DTYPE_N] = {PACKED_TYPES(ENTRY)[SP_BF16] = {few_BF16, NULL},
                                              [SP_F16] = {few_BF16, NULL}};

void sp_matmul_packed_amx(const sp_matmul_packed_args *a, int part, int n_parts)
{
    const of_type *f = &functions[sp_pack_as(a->w->type)];
    int64_t from, to;
    sp_part(a->w->n_rows, R, part, n_parts, &from, &to);
    const unsigned state = flush();
    if (a->m > FEW)
        many_rows(f, a, from, to);
    else
        for (int64_t r = from; r < to; r += R) f->few(a, r);
    _mm_setcsr(state);
}
