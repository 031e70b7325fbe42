/* act_mul.c -- gated activation. The tail is computed in a padded vector, so that an element has
 * the same bits at every index. */
#include <string.h>

#include "compute/kernel/ops.h"
#include "compute/simd/vec.h"

/* GELU: x for x >= 0, else 0, less |x| q with q = erfc(z) / 2 and z = |x| / sqrt(2): nothing cancels, so
 * tails are accurate, too. erfc(z) = exp(-z^2) t P(t), t = 1 / (1 + 0.39 z): the form of Abramowitz and
 * Stegun 7.1.26 with coefficients fitted by least squares; its absolute error is below 3e-10. */
INLINE vec gelu_erf(vec x)
{
    static const float half[] = {0x1.5780eep-5f, -0x1.e89c22p-3f, 0x1.dc07d0p-2f, -0x1.53fb7ap-2f,
                                 0x1.3550f6p-2f, 0x1.e01c4cp-6f,  0x1.f9c00ap-4f, 0x1.be3b84p-4f};
    const vec size = vec_abs(x), t = vec_div(vec_all(1), vec_fma(vec_all(0x1.1a63e2p-2f), size, vec_all(1)));
    vec q = vec_all(half[0]);
    for (int i = 1; i < 8; i++) q = vec_fma(q, t, vec_all(half[i]));
    q = vec_mul(vec_mul(q, t), vec_exp(vec_mul(vec_mul(x, x), vec_all(-0.5f))));
    return vec_sub(vec_max(x, vec_zero()), vec_mul(size, q));
}

INLINE vec act(sp_act kind, vec x)
{
    if (kind == SP_ACT_GELU_ERF) return gelu_erf(x);
    if (kind == SP_ACT_RELU2) return vec_mul(vec_max(x, vec_zero()), vec_max(x, vec_zero()));
    if (kind == SP_ACT_SWIGLU_OAI) x = vec_min(x, vec_all(SP_OAI_LIMIT));
    vec z = kind == SP_ACT_SWIGLU_OAI ? vec_mul(vec_all(SP_OAI_ALPHA), x) : x;
    if (kind == SP_ACT_GELU) {
        const vec cube = vec_mul(vec_mul(x, x), x);
        z = vec_mul(vec_all(0x1.988454p+0f), vec_fma(vec_all(0.044715f), cube, x));
    }
    return vec_div(x, vec_add(vec_all(1), vec_exp(vec_sub(vec_zero(), z))));
}

INLINE vec times(sp_act kind, vec y, const float *up)
{
    if (!up) return y;
    if (kind != SP_ACT_SWIGLU_OAI) return vec_mul(y, vec_load(up));
    const vec limited = vec_max(vec_min(vec_load(up), vec_all(SP_OAI_LIMIT)), vec_all(-SP_OAI_LIMIT));
    return vec_mul(y, vec_add(vec_all(1), limited));
}

INLINE void act_mul(sp_act kind, const sp_act_mul_args *a, int part, int n_parts)
{
    int64_t i, to;
    sp_part(a->n, 64, part, n_parts, &i, &to);
    for (; i + VL <= to; i += VL) {
        vec_store(a->y + i, times(kind, act(kind, vec_load(a->gate + i)), a->up ? a->up + i : NULL));
    }
    if (i < to) {
        float gate[VL] = {0}, up[VL] = {0};
        const size_t bytes = (size_t)(to - i) * sizeof(float);
        memcpy(gate, a->gate + i, bytes);
        if (a->up) memcpy(up, a->up + i, bytes);
        vec_store(gate, times(kind, act(kind, vec_load(gate)), a->up ? up : NULL));
        memcpy(a->y + i, gate, bytes);
    }
}

void SP_VARIANT(sp_act_mul)(const sp_act_mul_args *a, int part, int n_parts)
{
    switch (a->act) {
    case SP_ACT_GELU:
        return act_mul(SP_ACT_GELU, a, part, n_parts);
    case SP_ACT_GELU_ERF:
        return act_mul(SP_ACT_GELU_ERF, a, part, n_parts);
    case SP_ACT_SWIGLU_OAI:
        return act_mul(SP_ACT_SWIGLU_OAI, a, part, n_parts);
    case SP_ACT_RELU2:
        return act_mul(SP_ACT_RELU2, a, part, n_parts);
    default:
        return act_mul(SP_ACT_SILU, a, part, n_parts);
    }
}
