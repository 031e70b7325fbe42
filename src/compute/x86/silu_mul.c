/* silu_mul.c -- gated activation. The tail is computed in a padded vector, so that an element has
 * the same bits at every index. */
#include <string.h>

#include "compute/ops_int.h"
#include "compute/x86/vec.h"

INLINE vec silu(vec x)
{
    return vec_div(x, vec_add(vec_all(1), vec_exp(vec_sub(vec_zero(), x))));
}

void SP_VARIANT(sp_silu_mul)(const sp_silu_mul_args *a, int part, int n_parts)
{
    int64_t i, to;
    sp_part(a->n, 64, part, n_parts, &i, &to);
    for (; i + VL <= to; i += VL) {
        vec_store(a->y + i, vec_mul(silu(vec_load(a->gate + i)), vec_load(a->up + i)));
    }
    if (i < to) {
        float gate[VL] = {0}, up[VL] = {0};
        const size_t bytes = (size_t)(to - i) * sizeof(float);
        memcpy(gate, a->gate + i, bytes);
        memcpy(up, a->up + i, bytes);
        vec_store(gate, vec_mul(silu(vec_load(gate)), vec_load(up)));
        memcpy(a->y + i, gate, bytes);
    }
}
