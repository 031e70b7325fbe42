/* layernorm.c -- layer normalisation in three passes over a row, which is in L1: the mean, the squares of
 * the distances to it, the result. Four accumulators hide the latency of addition. */
#include "compute/kernel/ops.h"
#include "compute/simd/vec.h"

INLINE vec of_four(const vec acc[4])
{
    return vec_add(vec_add(acc[0], acc[1]), vec_add(acc[2], acc[3]));
}

static float mean_of(const float *x, int64_t n)
{
    vec acc[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL)
        for (int j = 0; j < 4; j++) acc[j] = vec_add(acc[j], vec_load(x + i + j * VL));
    float sum = vec_sum(of_four(acc));
    for (; i < n; i++) sum += x[i];
    return sum / (float)n;
}

static float variance_of(const float *x, int64_t n, float mean)
{
    vec acc[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL)
        for (int j = 0; j < 4; j++) {
            const vec d = vec_sub(vec_load(x + i + j * VL), vec_all(mean));
            acc[j] = vec_fma(d, d, acc[j]);
        }
    float sum = vec_sum(of_four(acc));
    for (; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return sum / (float)n;
}

void SP_VARIANT(sp_layernorm)(const sp_layernorm_args *a, int part, int n_parts)
{
    int64_t from, to;
    sp_part(a->m, 1, part, n_parts, &from, &to);
    for (int64_t m = from; m < to; m++) {
        const float *x = a->x + m * a->n;
        float *y = a->y + m * a->n;
        const float mean = mean_of(x, a->n);
        const float factor = 1 / sqrtf(variance_of(x, a->n, mean) + a->eps);
        int64_t i = 0;
        for (; i + VL <= a->n; i += VL) {
            const vec d = vec_mul(vec_sub(vec_load(x + i), vec_all(mean)), vec_all(factor));
            vec_store(y + i, vec_fma(d, vec_load(a->w + i), a->b ? vec_load(a->b + i) : vec_zero()));
        }
        for (; i < a->n; i++) y[i] = fmaf((x[i] - mean) * factor, a->w[i], a->b ? a->b[i] : 0);
    }
}
