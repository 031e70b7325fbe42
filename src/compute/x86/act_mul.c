/* act_mul.c -- gated activation. The tail is computed in a padded vector, so that an element has
 * the same bits at every index. */
#include <string.h>

#include "compute/kernel/ops.h"
#include "compute/x86/vec.h"

INLINE vec act(sp_act kind, vec x)
{
    vec z = x;
    if (kind == SP_ACT_GELU) {
        const vec cube = vec_mul(vec_mul(x, x), x);
        z = vec_mul(vec_all(0x1.988454p+0f), vec_fma(vec_all(0.044715f), cube, x));
    }
    return vec_div(x, vec_add(vec_all(1), vec_exp(vec_sub(vec_zero(), z))));
}

INLINE void act_mul(sp_act kind, const sp_act_mul_args *a, int part, int n_parts)
{
    int64_t i, to;
    sp_part(a->n, 64, part, n_parts, &i, &to);
    for (; i + VL <= to; i += VL) {
        vec_store(a->y + i, vec_mul(act(kind, vec_load(a->gate + i)), vec_load(a->up + i)));
    }
    if (i < to) {
        float gate[VL] = {0}, up[VL] = {0};
        const size_t bytes = (size_t)(to - i) * sizeof(float);
        memcpy(gate, a->gate + i, bytes);
        memcpy(up, a->up + i, bytes);
        vec_store(gate, vec_mul(act(kind, vec_load(gate)), vec_load(up)));
        memcpy(a->y + i, gate, bytes);
    }
}

void SP_VARIANT(sp_act_mul)(const sp_act_mul_args *a, int part, int n_parts)
{
    if (a->act == SP_ACT_GELU)
        act_mul(SP_ACT_GELU, a, part, n_parts);
    else
        act_mul(SP_ACT_SILU, a, part, n_parts);
}
