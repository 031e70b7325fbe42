/* policies.c -- the list of reuse policies: the one place that names them all. */
#include <pthread.h>
#include <string.h>

#include "reuse/choice.h"
#include "reuse/parts.h"
#include "spolia.h"

static const sp_reuse_policy *const policies[] = {
    &sp_reuse_off, &sp_reuse_prefix, &sp_reuse_set,   &sp_reuse_full,   &sp_reuse_random,
    &sp_reuse_link, &sp_reuse_h2o, &sp_reuse_blend, &sp_reuse_craft, &sp_reuse_fusion, &sp_reuse_flow,
};

const sp_reuse_policy *const *sp_reuse_policy_list(int *n)
{
    *n = SP_COUNT(policies);
    return policies;
}

const sp_reuse_policy *sp_reuse_policy_default(void)
{
    return &sp_reuse_prefix;
}

sp_err sp_reuse_policy_find(const char *name, const sp_reuse_policy **out)
{
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < SP_COUNT(policies); i++) {
        const char *known = policies[i]->name;
        if (strcmp(known, name) == 0) {
            *out = policies[i];
            return SP_OK;
        }
        size_t n = strlen(known);
        assert(used + n + 3 < sizeof names);
        memcpy(names + used, i ? ", " : "", i ? 2 : 0);
        used += i ? 2 : 0;
        memcpy(names + used, known, n + 1);
        used += n;
    }
    return sp_fail(SP_E_ARG, "reuse policy \"%s\" is unknown: %s", name, names);
}

/* -- the same for users of the library ------------------------------------------------------- */

static sp_reuse_info infos[SP_COUNT(policies)]; /* copied once from the list */
static pthread_once_t infos_once = PTHREAD_ONCE_INIT;

static void fill_infos(void)
{
    for (size_t i = 0; i < SP_COUNT(policies); i++)
        infos[i] = (sp_reuse_info){.name = policies[i]->name,
                                   .help = policies[i]->help,
                                   .exact = policies[i]->exact,
                                   .recomputes = policies[i]->recomputes,
                                   .anywhere = policies[i]->anywhere,
                                   .own_statistics = policies[i]->own_statistics,
                                   .keeps_placed = policies[i]->keeps_placed};
}

const sp_reuse_info *sp_reuse_policies(int *n)
{
    pthread_once(&infos_once, fill_infos);
    if (n) *n = SP_COUNT(infos);
    return infos;
}

sp_err sp_reuse_choose(const sp_reuse_opts *o, sp_reuse_choice *out)
{
    if (!(o->recompute >= 0 && o->recompute <= 1))
        return sp_fail(SP_E_ARG, "recompute: %g is not in 0..1", (double)o->recompute);
    if (!(o->alpha >= 0 && o->alpha <= 1e6f))
        return sp_fail(SP_E_ARG, "alpha: %g is negative or too large", (double)o->alpha);
    out->policy = sp_reuse_policy_default();
    if (o->policy) SP_TRY(sp_reuse_policy_find(o->policy, &out->policy));
    out->recompute = o->recompute;
    out->alpha = o->alpha;
    out->focus = o->focus == 0 ? 3 : o->focus < 0 ? 0 : o->focus;
    out->exact_first = o->exact_first;
    out->unfused = o->unfused;
    return SP_OK;
}
