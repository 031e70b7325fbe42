/* attend_f16.c -- steps of span attention over keys and values in F16 and BF16. */
#include "compute/simd/attend_floats.h"

STEP_OF(F16)
STEP_OF(BF16)

void SP_VARIANT(sp_attend_f16)(const state *t, step *x, int32_t at)
{
    if (t->a->kv->type == SP_F16) {
        step_F16(t, x, at);
    } else {
        step_BF16(t, x, at);
    }
}
