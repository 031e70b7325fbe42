/* quantize.c -- rounds rows of x to integers, in the layout of quantized.h. */
#include <string.h>

#include "compute/kernel/ops.h"
#include "compute/simd/quantized.h"

/* The range of a group, which determines its scale. */
typedef struct group_range {
    float largest; /* |x|; 0 when its reciprocal would overflow: the group becomes zeros */
    bool finite;
} group_range;

INLINE group_range range_of(group32 *g)
{
    const int32_t bits = group_largest(g);
    group_range r = {.finite = bits <= 0x7f7fffff};
    memcpy(&r.largest, &bits, sizeof bits);
    if (!r.finite) {
        r.largest = 0;
        *g = group_zero();
    }
    if (r.largest < 1e-30f) r.largest = 0;
    return r;
}

INLINE float scale_of(const group_range *r, float steps)
{
    return r->finite ? r->largest / steps : NAN;
}

INLINE float inverse_of(const group_range *r, float steps)
{
    return r->largest > 0 ? steps / r->largest : 0;
}

INLINE void bytes_of_group(const group_range *r, const group32 *g, bytes_group *to)
{
    int32_t sum[2];
    group_bytes(g, inverse_of(r, 127), to->x, sum);
    to->scale = scale_of(r, 127);
    to->sum = to->scale * (float)(sum[0] + sum[1]);
    for (int i = 0; i < 2; i++) to->half[i] = to->scale * (float)sum[i];
    to->start = -DOT_OFFSET * (sum[0] + sum[1]);
}

/* What the bytes of a group leave of x. */
INLINE group32 rest_of(const float x[32], const bytes_group *whole)
{
    float rest[32];
    for (int i = 0; i < 32; i++) rest[i] = fmaf(-(float)whole->x[i], whole->scale, x[i]);
    return group_load(rest);
}

INLINE void quantize_row(const float *x, int64_t n, const sp_quantize_args *a, int64_t row)
{
    for (int64_t i = 0; i < n / 32; i++) {
        group32 g = group_load(x + 32 * i);
        const group_range r = range_of(&g);
        bytes_of_group(&r, &g, bytes_at(a->q, row, n) + i);
#if !SP_DOT
        words_group *to = words_at(a->q, row, n) + i;
        group_words(&g, inverse_of(&r, 32767), to->x);
        to->scale = scale_of(&r, 32767);
#endif
        if (!a->rest) continue;
        group32 rest = rest_of(x + 32 * i, bytes_at(a->q, row, n) + i);
        const group_range of_rest = range_of(&rest);
        bytes_of_group(&of_rest, &rest, bytes_at(a->rest, row, n) + i);
    }
}

void SP_VARIANT(sp_quantize)(const sp_quantize_args *a, int part, int n_parts)
{
    int64_t from, to;
    sp_part(a->m, 1, part, n_parts, &from, &to);
    for (int64_t m = from; m < to; m++) quantize_row(a->x + m * a->n, a->n, a, m);
}

size_t SP_VARIANT(sp_quantized_bytes)(int64_t n)
{
    return qrow_bytes(n);
}
