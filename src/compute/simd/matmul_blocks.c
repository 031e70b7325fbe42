/* matmul_blocks.c -- tiles of unpacked blocks, for products of all types. */
#include "compute/simd/matmul_tiles.h"

EACH_HEIGHT(BLOCK_TILE, Q8_0)
EACH_HEIGHT(BLOCK_TILE, Q4_1)
EACH_HEIGHT(BLOCK_TILE, Q5_1)
EACH_HEIGHT(BLOCK_TILE, Q6_K)

#define BLOCK_NAME(type, k)  [k] = block_##type##_##k,
#define BLOCK_ROW(type) [SP_##type] = {EACH_HEIGHT(BLOCK_NAME, type)},
tile_fn *const SP_VARIANT(sp_block_tiles)[SP_DTYPE_N][TILE + 1] = {BLOCK_ROW(Q8_0) BLOCK_ROW(Q4_1) BLOCK_ROW(Q5_1)
                                                                       BLOCK_ROW(Q6_K)};
