/* sums.h -- the sums of a panel's outputs: loaded from y before a product, and stored to it. */
#ifndef SP_COMPUTE_SIMD_SUMS_H
#define SP_COMPUTE_SIMD_SUMS_H

#include "compute/kernel/ops.h"
#include "compute/simd/panels.h"

/* A row of a panel: all R outputs, or the first n at the end of a matrix. A constant size needs no call. */
INLINE void copy_outputs(float *to, const float *from, int64_t n)
{
    if (n == R)
        memcpy(to, from, R * sizeof *to);
    else
        memcpy(to, from, (size_t)n * sizeof *to);
}

/* Initialises the sums of outputs r .. r + R - 1 from y; before the first stretch (`begin`), from
 * the bias and, if the product is added, y. */
INLINE void load_sums(const sp_matmul_packed_args *a, int64_t m, int64_t end, int64_t r, bool begin,
                      float (*sums)[R])
{
    const int64_t n = SP_MIN(R, a->w->n_rows - r);
    const bool from_y = !begin || a->add;
    _Alignas(64) float bias[R] = {0};
    if (begin && a->bias) copy_outputs(bias, a->bias + r, n);
    for (; m < end; m++, sums++) {
        for (int v = 0; v < 2; v++) vec_store(sums[0] + v * VL, vec_zero());
        if (from_y) copy_outputs(sums[0], a->y + m * a->w->n_rows + r, n);
        for (int v = 0; begin && v < 2; v++)
            vec_store(sums[0] + v * VL, vec_add(vec_load(sums[0] + v * VL), vec_load(bias + v * VL)));
    }
}

INLINE void store_sums(const sp_matmul_packed_args *a, int64_t m, int64_t end, int64_t r,
                       float (*sums)[R])
{
    const int64_t n = SP_MIN(R, a->w->n_rows - r);
    for (; m < end; m++, sums++) copy_outputs(a->y + m * a->w->n_rows + r, sums[0], n);
}

#endif
