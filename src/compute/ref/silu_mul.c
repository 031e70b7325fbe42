/* silu_mul.c -- the definition of the gated activation of a feed-forward layer. */
#include <math.h>

#include "compute/ops_int.h"

void sp_silu_mul_ref(const sp_silu_mul_args *a, int part, int n_parts)
{
    int64_t from, to;
    sp_part(a->n, 64, part, n_parts, &from, &to);
    for (int64_t i = from; i < to; i++) {
        a->y[i] = a->gate[i] / (1 + expf(-a->gate[i])) * a->up[i];
    }
}
