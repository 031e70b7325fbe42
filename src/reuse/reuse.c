#include "reuse/reuse.h"

#include <string.h>

#include "reuse/reuse_int.h"

static const sp_reuse_policy *const policies[] = {
    &sp_reuse_off, &sp_reuse_prefix, &sp_reuse_set,   &sp_reuse_full,   &sp_reuse_random,
    &sp_reuse_h2o, &sp_reuse_blend,  &sp_reuse_craft, &sp_reuse_fusion, &sp_reuse_flow,
};

sp_err sp_reuse_find(const char *name, const sp_reuse_policy **out)
{
    for (size_t i = 0; i < SP_COUNT(policies); i++)
        if (strcmp(policies[i]->name, name) == 0) {
            *out = policies[i];
            return SP_OK;
        }
    return sp_fail(SP_E_ARG,
                   "reuse policy \"%s\" is unknown: off, prefix, set, full, random, h2o, "
                   "blend, craft, fusion, flow",
                   name);
}
