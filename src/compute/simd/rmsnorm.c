/* rmsnorm.c -- root-mean-square normalisation, with four accumulators to hide the latency of
 * FMA. */
#include "compute/kernel/ops.h"
#include "compute/simd/vec.h"

static float squares(const float *x, int64_t n)
{
    vec acc[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        for (int j = 0; j < 4; j++) {
            vec v = vec_load(x + i + j * VL);
            acc[j] = vec_fma(v, v, acc[j]);
        }
    }
    float sum = vec_sum(vec_add(vec_add(acc[0], acc[1]), vec_add(acc[2], acc[3])));
    for (; i < n; i++) sum += x[i] * x[i];
    return sum;
}

void SP_VARIANT(sp_rmsnorm)(const sp_rmsnorm_args *a, int part, int n_parts)
{
    int64_t from, to;
    sp_part(a->m, 1, part, n_parts, &from, &to);
    for (int64_t m = from; m < to; m++) {
        const float *x = a->x + m * a->n;
        float *y = a->y + m * a->n;
        float factor = 1 / sqrtf(squares(x, a->n) / (float)a->n + a->eps);
        int64_t i = 0;
        for (; i + VL <= a->n; i += VL) {
            vec_store(y + i,
                      vec_mul(vec_mul(vec_load(x + i), vec_all(factor)), vec_load(a->w + i)));
        }
        for (; i < a->n; i++) y[i] = x[i] * factor * a->w[i];
    }
}
