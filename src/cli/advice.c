#include "cli/advice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/policies.h"

static void add(advice *a, bool ignored, const char *option)
{
    size_t n = strlen(a->ignored);
    if (ignored) snprintf(a->ignored + n, sizeof a->ignored - n, "%s%s", n ? ", " : "", option);
}

advice advice_of(const model_options *m)
{
    const sp_reuse_opts *r = &m->ctx.reuse;
    advice a = {.policy = r->policy ? r->policy : "prefix"};
    const cli_policy *p = cli_policy_find(a.policy, NULL);
    if (!p) return a; /* model_options_open refuses it */
    bool by_alpha = p->keeps_placed && r->alpha > 0;
    add(&a, !isnan(r->recompute) && (!p->recomputes || by_alpha), "--recompute");
    add(&a, !isnan(r->alpha) && !p->keeps_placed, "--alpha");
    add(&a, r->focus && !p->keeps_placed, "--focus");
    add(&a, r->unfused && !p->anywhere, "--unfused");
    add(&a, m->ctx.store && strcmp(a.policy, "off") == 0, "--store");
    return a;
}

void advice_print(const advice *a)
{
    if (*a->ignored) cli_warn("--reuse %s does not use %s", a->policy, a->ignored);
}
