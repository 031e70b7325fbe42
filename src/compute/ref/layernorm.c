/* layernorm.c -- the definition of layer normalisation. */
#include <math.h>

#include "compute/kernel/ops.h"

void sp_layernorm_ref(const sp_layernorm_args *a, int part, int n_parts)
{
    int64_t from, to;
    sp_part(a->m, 1, part, n_parts, &from, &to);
    for (int64_t m = from; m < to; m++) {
        const float *x = a->x + m * a->n;
        float *y = a->y + m * a->n;
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < a->n; i++) sum += (double)x[i];
        const double mean = sum / (double)a->n;
        for (int64_t i = 0; i < a->n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        const double factor = 1 / sqrt(squares / (double)a->n + (double)a->eps);
        for (int64_t i = 0; i < a->n; i++)
            y[i] = (float)(((double)x[i] - mean) * factor) * a->w[i] + (a->b ? a->b[i] : 0);
    }
}
