/* rows.c -- the definitions of operations that scale, take and spread rows. */
#include <string.h>

#include "compute/kernel/ops.h"

void sp_blend_ref(const sp_blend_args *a, int part, int n_parts)
{
    int64_t from, to;
    sp_part(a->n, 64, part, n_parts, &from, &to);
    if (!a->x) {
        for (int64_t i = from; i < to; i++) a->y[i] = a->keep != 0 ? a->keep * a->y[i] : 0;
        return;
    }
    for (int64_t i = from; i < to; i++) a->y[i] = a->keep * a->y[i] + a->scale * a->x[i];
}

void sp_take_ref(const sp_take_args *a, int part, int n_parts)
{
    int64_t from, to;
    sp_part(a->m, 1, part, n_parts, &from, &to);
    for (int64_t i = from; i < to; i++)
        memcpy(a->y + i * a->n, a->x + a->from[i] * a->n, (size_t)a->n * sizeof *a->y);
}

void sp_spread_ref(const sp_spread_args *a, int part, int n_parts)
{
    int64_t from, to;
    sp_part(a->m, 1, part, n_parts, &from, &to);
    for (int64_t i = from; i < to; i++) {
        const float *x = a->x + i * a->n;
        float *y = a->y + a->to[i] * a->n;
        for (int64_t k = 0; k < a->n; k++) y[k] += a->weight[i] * x[k];
    }
}
