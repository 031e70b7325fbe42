/* matmul_packed.c -- products of packed weights in Q4_0 to Q8_0; those in K types are in matmul_packed_k.c. */
#include "compute/simd/matmul_product.h"

#define PACKED_TYPES(X) X(Q8_0) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1)
PACKED_TYPES(DIRECT_TILES)
static tile_fn *const direct_tiles[SP_DTYPE_N][TILE + 1] = {PACKED_TYPES(DIRECT_ROW)};

PACKED_TYPES(PRODUCT)

void SP_VARIANT(sp_matmul_packed)(const sp_matmul_packed_args *a, int part, int n_parts)
{
    typedef void fn(const sp_matmul_packed_args *, int64_t, int64_t);
#define ENTRY(type) [SP_##type] = product_##type,
    static fn *const products[SP_DTYPE_N] = {PACKED_TYPES(ENTRY)};
    int64_t from, to;
    sp_part(a->w->n_rows, R, part, n_parts, &from, &to);
    if (from >= to) return;
    fn *const legacy = products[sp_pack_as(a->w->type)];
    if (legacy)
        legacy(a, from, to);
    else
        SP_VARIANT(sp_matmul_packed_k)(a, from, to);
}

int SP_VARIANT(sp_x_bits)(sp_dtype type)
{
    if (sp_dtype_of(type)->n_group == 1) return 0;
    return words_of(sp_pack_as(type)) ? 16 : 8;
}

size_t SP_VARIANT(sp_pack_bytes)(const sp_mat *w)
{
    return sp_pack_bytes(w, form_of(sp_pack_as(w->type)));
}

void SP_VARIANT(sp_pack)(const sp_pack_args *a, int part, int n_parts)
{
    sp_pack(a, form_of(sp_pack_as(a->w->type)), part, n_parts);
}
