/* dispatch.c -- which implementation of each operation a CPU gets: one line per operation. */
#include <stdlib.h>
#include <string.h>

#include "compute/ops_int.h"

static const sp_ops ref = {
    .name = "ref",
    .matmul = sp_matmul_ref,
    .embed = sp_embed_ref,
    .rmsnorm = sp_rmsnorm_ref,
    .silu_mul = sp_silu_mul_ref,
    .kv_store = sp_kv_store_ref,
    .attend = sp_attend_ref,
};

static bool always(void)
{
    return true;
}

/* From the plainest to the best. */
static const struct {
    const sp_ops *ops;
    bool (*runs_here)(void);
} variants[] = {
    {&ref, always},
};

sp_err sp_ops_select(const char *name, const sp_ops **out)
{
    if (!name) name = getenv("SPOLIA_CPU");
    if (!name || !*name) {
        size_t best = SP_COUNT(variants) - 1;
        while (!variants[best].runs_here()) best--;
        *out = variants[best].ops;
        return SP_OK;
    }
    for (size_t i = 0; i < SP_COUNT(variants); i++) {
        if (strcmp(name, variants[i].ops->name) != 0) continue;
        if (!variants[i].runs_here()) {
            return sp_fail(SP_E_UNSUPPORTED, "CPU variant '%s' does not run on this machine", name);
        }
        *out = variants[i].ops;
        return SP_OK;
    }
    return sp_fail(SP_E_ARG, "unknown CPU variant '%s'", name);
}
