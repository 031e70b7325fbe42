/* matmul_tiles.h -- integer products of packed weights and quantized x: a tile of rows of x times a block of a panel.
 * matmul_product.h builds matrix products from tiles.
 *
 * In a tile, a group of 32 columns takes 2 TILE multiplications a step (16 steps of words, 8 of
 * bytes), then for each vector of sums a conversion, a scale and one or two FMAs. TILE x 2 integer
 * sums fill the registers, so the float sums stay in L1.
 *
 * One order of summation for every (row, output): integer sums are exact, and groups are added to
 * the initial value of y in ascending order.
 *
 * Three files compile tiles, to keep compile times short: matmul_blocks.c (of unpacked blocks),
 * matmul_packed.c and matmul_packed_k.c (of packed blocks, half of the types each).
 */
#ifndef SP_COMPUTE_SIMD_MATMUL_TILES_H
#define SP_COMPUTE_SIMD_MATMUL_TILES_H

#include "compute/kernel/ops.h"
#include "compute/simd/panels.h"

enum {
    WIDE_DOT = SP_DOT && SP_VL == 16, /* products are so fast that unpacking and waiting for L2 show */
    TILE = SP_MMLA ? 6 : SP_VL == 8 ? 5 : 8, /* most rows of x */
    AHEAD = 3072,                            /* distance of the prefetch, in bytes */
};

/* How many products with weights of this type fit in a 16-bit sum (ivec.h). */
INLINE int fold_of(sp_dtype type)
{
    if (type == SP_Q6_K) return 2;
    /* Q2_K: a half has four steps. */
    return type == SP_Q5_0 || type == SP_Q5_1 || type == SP_Q5_K || type == SP_Q2_K ? 4 : 8;
}

/* The operands of a tile: rows of x, and a block of a panel, unpacked or packed. */
typedef struct tile_args {
    const uint8_t *x; /* first row, at the group that matches the block's first */
    size_t x_stride;  /* bytes from row to row */
    int64_t first;    /* index of that group */
    int n;            /* number of groups */
    const block *b;
    const uint8_t *head; /* the packed block, if b is NULL */
    float (*sums)[R];    /* [rows] */
} tile_args;

/* The two lines of step s of a group (SP_MMLA: of half of step s / 2). */
INLINE void lines_of(sp_dtype type, const bool direct, const sp_pack_layout *l,
                     const uint8_t *group, int s, ivec w[2])
{
    for (int v = 0; v < 2; v++) {
        const int i = 2 * s + v;
        w[v] = direct ? line_direct(type, l, group, i) : ivec_load(group + i * LINE);
    }
}

/* A group of a row of x. The weight type selects the member. */
typedef union xgroup {
    words_group w;
    bytes_group b;
} xgroup;

/* Step s of a group of x, in all lanes. */
INLINE ivec x_of(sp_dtype type, const xgroup *x, int s)
{
    int32_t word;
    if (words_of(type)) {
        memcpy(&word, x->w.x + 2 * s, sizeof word);
    } else {
        memcpy(&word, x->b.x + 4 * s, sizeof word);
    }
    return ivec_all(word);
}

/* The operands of a group of 32 columns. */
typedef struct group_args {
    const sp_pack_layout *l;
    const uint8_t *group; /* of weights: lines, or packed */
    const factors_of *f;
    int first, n_steps; /* steps first .. first + n_steps - 1: all of the group, or half of it */
    const xgroup *x[TILE];
} group_args;

#if !SP_DOT
/* sum = the products of the steps, bytes, `fold` of them added in 16 bits. */
INLINE void sum_pairs(sp_dtype type, const bool direct, const int rows, const group_args *e,
                      ivec sum[TILE][2])
{
    const int first = e->first, fold = fold_of(type);
    ivec pairs[TILE][2];
#pragma GCC unroll 16
    for (int s = first; s < first + e->n_steps; s++) {
        ivec w[2];
        lines_of(type, direct, e->l, e->group, s, w);
        for (int j = 0; j < rows; j++) {
            const ivec x = x_of(type, e->x[j], s);
            for (int v = 0; v < 2; v++)
                pairs[j][v] =
                    s % fold == 0 ? ivec_pairs(w[v], x) : ivec_add_pairs(pairs[j][v], w[v], x);
        }
        if (s % fold < fold - 1) continue;
        for (int j = 0; j < rows; j++)
            for (int v = 0; v < 2; v++) {
                const ivec folded = ivec_fold(pairs[j][v]);
                sum[j][v] = s - first < fold ? folded : IVEC_ADD(32, sum[j][v], folded);
            }
    }
}
#endif

#if SP_MMLA
/* sum = the products of the steps, of two rows of x at a time; an odd last row is multiplied twice. */
INLINE void sum_squares(sp_dtype type, const bool direct, const int rows, const group_args *e,
                        ivec sum[TILE][2])
{
    const int pairs = SP_DIV_UP(rows, 2);
    ivec_square square[TILE / 2][2] = {0};
#pragma GCC unroll 4
    for (int s = e->first; s < e->first + e->n_steps; s++) {
        int8x16_t x[TILE / 2];
        for (int p = 0; p < pairs; p++)
            x[p] = ivec_two_rows(e->x[2 * p]->b.x + 8 * s, e->x[SP_MIN(2 * p + 1, rows - 1)]->b.x + 8 * s);
        for (int v = 0; v < 2; v++) {
            ivec w[2];
            lines_of(type, direct, e->l, e->group, 2 * s + v, w);
            for (int p = 0; p < pairs; p++) square[p][v] = ivec_add_square(square[p][v], w, x[p]);
        }
    }
    for (int p = 0; p < pairs; p++)
        for (int v = 0; v < 2; v++) {
            ivec twice;
            ivec_rows_of(&square[p][v], &sum[2 * p][v], 2 * p + 1 < rows ? &sum[2 * p + 1][v] : &twice);
        }
}
#elif SP_DOT
/* sum = the products of the steps, each added in 32 bits. */
INLINE void sum_steps(sp_dtype type, const bool direct, const int rows, const group_args *e,
                      ivec sum[TILE][2])
{
    for (int j = 0; j < rows; j++)
        sum[j][0] = sum[j][1] = ivec_all(type == SP_Q8_0 && DOT_OFFSET ? e->x[j]->b.start : 0);
#pragma GCC unroll 16
    for (int s = e->first; s < e->first + e->n_steps; s++) {
        ivec w[2];
        lines_of(type, direct, e->l, e->group, s, w);
        for (int j = 0; j < rows; j++) {
            const ivec x = x_of(type, e->x[j], s);
            for (int v = 0; v < 2; v++) sum[j][v] = ivec_dot_bytes(sum[j][v], w[v], x);
        }
    }
}
#else
/* sum = the products of a group, words, each added in 32 bits during the multiplications of the
 * next row. */
INLINE void sum_words(sp_dtype type, const bool direct, const int rows, const group_args *e,
                      ivec sum[TILE][2])
{
    ivec late[2];
#pragma GCC unroll 16
    for (int s = 0; s < steps_of(type); s++) {
        ivec w[2];
        lines_of(type, direct, e->l, e->group, s, w);
        for (int j = 0; j < rows; j++) {
            const ivec x = x_of(type, e->x[j], s);
            if (s == 0) {
                for (int v = 0; v < 2; v++) sum[j][v] = ivec_dot_words(w[v], x);
            } else if (s == 1 && j == 0) {
                for (int v = 0; v < 2; v++) late[v] = ivec_dot_words(w[v], x);
            } else {
                ivec_add_late_dots(sum[(j + rows - 1) % rows], late, w, x);
            }
        }
    }
    for (int v = 0; v < 2; v++) sum[rows - 1][v] = IVEC_ADD(32, sum[rows - 1][v], late[v]);
}
#endif

/* sums[j] += the steps of a group. */
INLINE void add_steps(sp_dtype type, const bool direct, const int rows, const group_args *e,
                      float (*sums)[R])
{
    const int half = e->first > 0;
    ivec sum[TILE][2];
#if SP_MMLA
    sum_squares(type, direct, rows, e, sum);
#elif SP_DOT
    sum_steps(type, direct, rows, e, sum);
#else
    if (words_of(type)) {
        sum_words(type, direct, rows, e, sum);
    } else {
        sum_pairs(type, direct, rows, e, sum);
    }
#endif
    for (int v = 0; v < 2; v++) {
        const vec scale = vec_load(e->f->scale[half] + v * VL);
        const vec min = has_min(type) ? vec_load(e->f->min[half] + v * VL) : vec_zero();
        for (int j = 0; j < rows; j++) {
            const xgroup *x = e->x[j];
            const vec factor = vec_mul(scale, vec_all(words_of(type) ? x->w.scale : x->b.scale));
            vec o = vec_fma(ivec_to_vec(sum[j][v]), factor, vec_load(sums[j] + v * VL));
            if (has_min(type))
                o = vec_fma(min, vec_all(in_halves(type) ? x->b.half[half] : x->b.sum), o);
            vec_store(sums[j] + v * VL, o);
        }
    }
}

INLINE size_t group_bytes_of_x(sp_dtype type)
{
    return words_of(type) ? sizeof(words_group) : sizeof(bytes_group);
}

INLINE void tile(sp_dtype type, const bool direct, const int rows, const tile_args *t)
{
    sp_pack_layout l;
    sp_pack_layout_of(type, R, &l);
    const uint8_t *x[TILE];
    for (int j = 0; j < rows; j++) x[j] = t->x + (size_t)j * t->x_stride;
    for (int g = 0; g < t->n; g++) {
        group_args e;
        factors_of here;
        e.group = direct ? t->head + l.head + (size_t)g * l.group : t->b->lines[g];
        e.f = direct ? &here : &t->b->factors[g];
        for (int j = 0; j < rows; j++)
            e.x[j] = (const xgroup *)(x[j] + (size_t)g * group_bytes_of_x(type));
        for (int j = 0; WIDE_DOT && !direct && j < rows; j++) /* the next tile's x */
            vec_prefetch(x[j] + (size_t)rows * t->x_stride + (size_t)g * group_bytes_of_x(type));
        if (direct) {
            fetch(e.group + AHEAD, l.group);
            factors(type, t->head, e.group, &here);
        }
        const int steps = steps_of(type);
        e.l = &l;
        e.n_steps = in_halves(type) ? steps / 2 : steps;
        for (e.first = 0; e.first < steps; e.first += e.n_steps)
            add_steps(type, direct, rows, &e, t->sums);
    }
}

/* One function for each kind of tile: inlined into one function, they would compete for registers.
 * Unpacked blocks differ only by block_kind, so four kinds cover all types. */
typedef void tile_fn(const tile_args *t);

#define NOINLINE      static __attribute__((noinline))
#define FIVE(X, type) X(type, 1) X(type, 2) X(type, 3) X(type, 4) X(type, 5)
#if SP_MMLA
#define EACH_HEIGHT(X, type) FIVE(X, type) X(type, 6)
#elif SP_VL == 8
#define EACH_HEIGHT(X, type) FIVE(X, type)
#else
#define EACH_HEIGHT(X, type) FIVE(X, type) X(type, 6) X(type, 7) X(type, 8)
#endif

#define DIRECT_TILE(type, k)                                                                       \
    NOINLINE void direct_##type##_##k(const tile_args *t)                                          \
    {                                                                                              \
        tile(SP_##type, true, k, t);                                                               \
    }
#define BLOCK_TILE(type, k)                                                                        \
    NOINLINE void block_##type##_##k(const tile_args *t)                                           \
    {                                                                                              \
        tile(SP_##type, false, k, t);                                                              \
    }
#define DIRECT_TILES(type) EACH_HEIGHT(DIRECT_TILE, type)
#define DIRECT_NAME(type, k) [k] = direct_##type##_##k,
#define DIRECT_ROW(type)     [SP_##type] = {EACH_HEIGHT(DIRECT_NAME, type)},

/* Tiles of unpacked blocks: of each block_kind, each height. */
extern tile_fn *const SP_VARIANT(sp_block_tiles)[SP_DTYPE_N][TILE + 1];

#endif
