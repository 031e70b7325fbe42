/* rmsnorm.c -- the definition of root-mean-square normalisation. */
#include <math.h>

#include "compute/kernel/ops.h"

void sp_rmsnorm_ref(const sp_rmsnorm_args *a, int part, int n_parts)
{
    int64_t from, to;
    sp_part(a->m, 1, part, n_parts, &from, &to);
    for (int64_t m = from; m < to; m++) {
        const float *x = a->x + m * a->n;
        float *y = a->y + m * a->n;
        double squares = 0;
        for (int64_t i = 0; i < a->n; i++) squares += (double)x[i] * x[i];
        float factor = (float)(1 / sqrt(squares / (double)a->n + (double)a->eps));
        for (int64_t i = 0; i < a->n; i++) y[i] = x[i] * factor * a->w[i];
    }
}
