/* attend_f32.c -- steps of span attention over keys and values in F32 and Q8_0. */
#include "compute/simd/attend_floats.h"

STEP_OF(F32)
STEP_OF(Q8_0)

void SP_VARIANT(sp_attend_f32)(const state *t, step *x, int32_t at)
{
    if (t->a->kv->type == SP_F32) {
        step_F32(t, x, at);
    } else {
        step_Q8_0(t, x, at);
    }
}
