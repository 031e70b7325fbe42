/* matmul_product.h -- integer matrix product of packed weights and quantized x, over the tiles of matmul_tiles.h.
 *
 *   for rows of x in runs of 120 (WIDE_DOT: 256)
 *     for columns in stretches of 1024        x of a run and a stretch: 195 to 426 KB, in L2
 *       for panels of R outputs               their sums: 8 KB, in L1 (32 KB)
 *         for blocks of 256 columns           unpacked once for a run: 8 or 16 KB, in L1
 *           for tiles of TILE rows of x       TILE x 2 vectors of integer sums, in registers
 *
 * Up to FEW rows (decode): a tile unpacks codes from memory in registers, without a block.
 */
#ifndef SP_COMPUTE_SIMD_MATMUL_PRODUCT_H
#define SP_COMPUTE_SIMD_MATMUL_PRODUCT_H

#include "compute/simd/matmul_tiles.h"
#include "compute/simd/sums.h"

enum {
    RUN = WIDE_DOT ? 256 : 120,
    STRETCH = 1024 / 256,           /* blocks */
    FEW = WIDE_DOT ? 64 : 2 * TILE, /* up to this many rows, weights are unpacked in registers */
};

/* A representative of the types whose unpacked blocks have the same bits, constants and halves. */
INLINE sp_dtype block_kind(sp_dtype type)
{
    const bool plain = type == SP_Q8_0 || type == SP_Q6_K;
    if (type == SP_Q2_K) return SP_Q6_K;
    return plain ? type : fold_of(type) == 8 ? SP_Q4_1 : SP_Q5_1;
}

/* Runs rows m .. end-1 of x against a block of a panel, in tiles of nearly equal height: two tiles
 * of four rows are faster than one of five and one of three. */
static void tiles(tile_fn *const *of_height, const sp_matmul_packed_args *a, int64_t m, int64_t end,
                  float (*sums)[R], tile_args *t)
{
    const int64_t n = a->w->n_cols;
    const bool words = words_of(sp_pack_as(a->w->type));
    t->x_stride = qrow_bytes(n);
    for (int64_t rows; m < end; m += rows, sums += rows) {
        const int64_t left = SP_DIV_UP(end - m, TILE);
        rows = SP_DIV_UP(end - m, left);
        t->x = words ? (const uint8_t *)(words_at(a->q, m, n) + t->first)
                     : (const uint8_t *)(bytes_at(a->q, m, n) + t->first);
        t->sums = sums;
        of_height[rows](t);
    }
}

/* Few rows: unpacking a block in each tile is as fast as unpacking it once for all tiles. */
INLINE void stream(sp_dtype type, tile_fn *const *of_height, const sp_matmul_packed_args *a, int64_t from, int64_t to)
{
    sp_pack_layout l;
    sp_pack_layout_of(type, R, &l);
    const int64_t n_groups = a->w->n_cols / 32;
    const uint8_t *p = (const uint8_t *)a->w->packed;
    p += (size_t)(from / R) * sp_pack_panel_bytes(&l, n_groups);
    _Alignas(64) float sums[FEW][R];
    for (int64_t r = from; r < to; r += R) {
        load_sums(a, 0, a->m, r, true, sums);
        for (int64_t g = 0; g < n_groups; g += GROUPS) {
            tile_args t = {.first = g, .n = (int)SP_MIN(GROUPS, n_groups - g), .head = p};
            tiles(of_height, a, 0, a->m, sums, &t);
            p += l.head + (size_t)t.n * l.group;
        }
        store_sums(a, 0, a->m, r, sums);
    }
}

typedef struct range {
    int64_t from, to; /* from .. to-1 */
} range;

/* Rows of x times blocks of the panel of outputs r .. r + R - 1. */
INLINE void panel(sp_dtype type, const sp_matmul_packed_args *a, range rows, range blocks,
                  int64_t r)
{
    sp_pack_layout l;
    sp_pack_layout_of(type, R, &l);
    const int64_t n_groups = a->w->n_cols / 32;
    const uint8_t *p = (const uint8_t *)a->w->packed;
    p += (size_t)(r / R) * sp_pack_panel_bytes(&l, n_groups);
    block b;
    _Alignas(64) float sums[RUN][R];
    load_sums(a, rows.from, rows.to, r, blocks.from == 0, sums);
    for (int64_t i = blocks.from; i < blocks.to; i++) {
        tile_args t = {.first = i * GROUPS, .b = &b};
        t.n = (int)SP_MIN(GROUPS, n_groups - t.first);
        unpack(type, &l, p + (size_t)i * (l.head + GROUPS * l.group), t.n, &b);
        tiles(SP_VARIANT(sp_block_tiles)[block_kind(type)], a, rows.from, rows.to, sums, &t);
    }
    store_sums(a, rows.from, rows.to, r, sums);
}

INLINE void product(sp_dtype type, const sp_matmul_packed_args *a, int64_t from, int64_t to)
{
    const int64_t n_blocks = SP_DIV_UP(a->w->n_cols / 32, GROUPS);
    for (int64_t m = 0; m < a->m; m += RUN) {
        const range rows = {m, SP_MIN(a->m, m + RUN)};
        for (int64_t first = 0; first < n_blocks; first += STRETCH) {
            const range blocks = {first, SP_MIN(n_blocks, first + STRETCH)};
            for (int64_t r = from; r < to; r += R) panel(type, a, rows, blocks, r);
        }
    }
}

#define PRODUCT(type)                                                                              \
    static void product_##type(const sp_matmul_packed_args *a, int64_t from, int64_t to)           \
    {                                                                                              \
        if (a->m <= FEW) {                                                                         \
            stream(SP_##type, direct_tiles[SP_##type], a, from, to);                               \
        } else {                                                                                   \
            product(SP_##type, a, from, to);                                                       \
        }                                                                                          \
    }

/* sp_matmul_packed_k -- outputs from .. to-1 of weights in one of the K types. */
void SP_VARIANT(sp_matmul_packed_k)(const sp_matmul_packed_args *a, int64_t from, int64_t to);

#endif
