/* act_mul.c -- the definition of the gated activation of a feed-forward layer. */
#include <math.h>

#include "compute/kernel/ops.h"

static float act(sp_act kind, float x)
{
    if (kind == SP_ACT_GELU_ERF) return 0.5f * x * erfcf(-0x1.6a09e6p-1f * x);
    if (kind == SP_ACT_RELU2) return fmaxf(x, 0) * fmaxf(x, 0);
    if (kind == SP_ACT_SWIGLU_OAI) x = fminf(x, SP_OAI_LIMIT);
    const float z = kind == SP_ACT_SILU         ? x
                    : kind == SP_ACT_SWIGLU_OAI ? SP_OAI_ALPHA * x
                                                : 0x1.988454p+0f * (x + 0.044715f * x * x * x);
    return x / (1 + expf(-z));
}

static float factor(sp_act kind, float up)
{
    return kind == SP_ACT_SWIGLU_OAI ? 1 + fmaxf(-SP_OAI_LIMIT, fminf(up, SP_OAI_LIMIT)) : up;
}

void sp_act_mul_ref(const sp_act_mul_args *a, int part, int n_parts)
{
    int64_t from, to;
    sp_part(a->n, 64, part, n_parts, &from, &to);
    for (int64_t i = from; i < to; i++) {
        a->y[i] = act(a->act, a->gate[i]) * (a->up ? factor(a->act, a->up[i]) : 1);
    }
}
