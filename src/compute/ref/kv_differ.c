/* kv_differ.c -- the distance between two stored copies of the same token. */
#include "compute/kernel/kv.h"
#include "compute/kernel/ops.h"

static double squared(const float *x, const float *y, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    return sum;
}

static double square(const float *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sum;
}

void sp_kv_differ_ref(const sp_kv_differ_args *a, int part, int n_parts)
{
    float ka[SP_HEAD_MAX], kb[SP_HEAD_MAX], va[SP_HEAD_MAX], vb[SP_HEAD_MAX];
    int64_t from, to;
    sp_part(a->m, 16, part, n_parts, &from, &to);
    for (int64_t i = from; i < to; i++) {
        const sp_kv_slot *x = &a->a[i], *y = &a->b[i];
        double sum = 0, size = 0;
        for (int g = 0; g < a->kv->n_heads; g++) {
            sp_kv_read(a->kv, x, g, ka, va);
            sp_kv_read(a->kv, y, g, kb, vb);
            if (a->size) size += square(kb, a->kv->head) + square(vb, a->kv->head);
            /* Both are rotated to the later position. The other key turns by 0, which still applies
             * the magnitude of the tables. */
            sp_rope_rotate(a->rope, ka, SP_MAX(0, y->rot - x->rot));
            sp_rope_rotate(a->rope, kb, SP_MAX(0, x->rot - y->rot));
            sum += squared(ka, kb, a->kv->head) + squared(va, vb, a->kv->head);
        }
        a->out[i] = (float)sum;
        if (a->size) a->size[i] = (float)size;
    }
}
