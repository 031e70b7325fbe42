/* rope.c -- rotary embedding of one head. */
#include "compute/ops.h"

static void rotate_pair(float *a, float *b, float c, float s)
{
    float x = *a, y = *b;
    *a = x * c - y * s;
    *b = x * s + y * c;
}

void sp_rope_rotate(const sp_rope *r, float *x, int32_t pos)
{
    const int half = r->n_rot / 2;
    if (half == 0) return;
    assert(pos >= 0 && pos < r->n_pos);
    const float *c = r->c + (int64_t)pos * half, *s = r->s + (int64_t)pos * half;
    if (r->adjacent) {
        for (int i = 0; i < half; i++) rotate_pair(&x[2 * i], &x[2 * i + 1], c[i], s[i]);
    } else {
        for (int i = 0; i < half; i++) rotate_pair(&x[i], &x[i + half], c[i], s[i]);
    }
}
