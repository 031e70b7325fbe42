/* matmul.c -- the definition of the matrix product: decoded weights, sums in double. */
#include "compute/kernel/ops.h"

#define CHUNK 256 /* columns decoded at a time; a multiple of every group size */

static double dot(const float *x, const float *w, int64_t n)
{
    double sum = 0;
    for (int64_t c = 0; c < n; c++) sum += (double)x[c] * w[c];
    return sum;
}

void sp_matmul_ref(const sp_matmul_args *a, int part, int n_parts)
{
    const sp_mat *w = a->w;
    const size_t row_bytes = sp_row_bytes(w->type, w->n_cols);
    int64_t from, to;
    sp_part(w->n_rows, 16, part, n_parts, &from, &to);
    for (int64_t r = from; r < to; r++) {
        const uint8_t *row = (const uint8_t *)w->data + (size_t)r * row_bytes;
        /* Runs of 32 rows of x share one decoding of a row of weights. */
        for (int64_t m0 = 0; m0 < a->m; m0 += 32) {
            int64_t m1 = SP_MIN(a->m, m0 + 32);
            double sum[32] = {0};
            for (int64_t c = 0; c < w->n_cols; c += CHUNK) {
                float decoded[CHUNK];
                int64_t n = SP_MIN(CHUNK, w->n_cols - c);
                sp_row_to_f32(w->type, row + sp_row_bytes(w->type, c), decoded, n);
                for (int64_t m = m0; m < m1; m++) {
                    sum[m - m0] += dot(a->x + m * w->n_cols + c, decoded, n);
                }
            }
            for (int64_t m = m0; m < m1; m++) {
                float *y = a->y + m * w->n_rows + r;
                *y = (float)(sum[m - m0] + (a->bias ? a->bias[r] : 0) + (a->add ? *y : 0));
            }
        }
    }
}
