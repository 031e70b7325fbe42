/* matmul_packed_k.c -- products of packed weights in the K types, which matmul_packed.c calls. */
#include "compute/simd/matmul_product.h"

#define PACKED_TYPES(X) X(Q2_K) X(Q4_K) X(Q5_K) X(Q6_K)
PACKED_TYPES(DIRECT_TILES)
static tile_fn *const direct_tiles[SP_DTYPE_N][TILE + 1] = {PACKED_TYPES(DIRECT_ROW)};
PACKED_TYPES(PRODUCT)

void SP_VARIANT(sp_matmul_packed_k)(const sp_matmul_packed_args *a, int64_t from, int64_t to)
{
    switch (sp_pack_as(a->w->type)) {
    case SP_Q2_K: product_Q2_K(a, from, to); break;
    case SP_Q4_K: product_Q4_K(a, from, to); break;
    case SP_Q5_K: product_Q5_K(a, from, to); break;
    default: product_Q6_K(a, from, to);
    }
}
