#include "lab/eval/settings.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/options/policies.h"

/* habits_of -- how a policy is run so that the comparison is fair. */
static unsigned habits_of(const cli_policy *p)
{
    bool is_off = p == cli_policy_find("off", NULL);
    return (p->recomputes ? EVAL_SHARE : 0) | (p->anywhere || is_off ? 0 : EVAL_STREAM) |
           (p->keeps_placed ? EVAL_TRACES : 0) | (p->own_statistics ? 0 : EVAL_STEADY);
}

static bool add(eval_settings *all, eval_setting s)
{
    for (int i = 0; i < all->n; i++) /* a duplicate is run once */
        if (strcmp(all->v[i].name, s.name) == 0 && all->v[i].reuse.recompute == s.reuse.recompute &&
            all->v[i].amount == s.amount)
            return true;
    if (all->n == (int)(sizeof all->v / sizeof *all->v)) {
        cli_fail_with("--policies: over %d settings", all->n);
        return false;
    }
    eval_setting *kept = &all->v[all->n++];
    *kept = s;
    kept->reuse.policy = kept->spec;
    return true;
}

/* add_values -- one setting for each number of the option's list: shares, or values of the parameter. */
static bool add_values(eval_settings *all, eval_setting s, const char *list, const sp_reuse_param *param,
                       const char *option)
{
    for (const char *p = list;; p++) {
        eval_setting one = s;
        char *end;
        errno = 0;
        float v = strtof(p, &end);
        if (errno || end == p || (*end && *end != ',') || !(v >= 0) ||
            v > (param ? (float)param->most : 1)) {
            cli_fail_with("%s: \"%.*s\" is not a number from 0 to %.9g; a list has commas between its numbers", option,
                          (int)strcspn(p, ","), p, param ? param->most : 1);
            return false;
        }
        if (param) {
            one.amount = (double)v;
            cli_policy_add(one.spec, param->name, one.amount);
        } else {
            one.reuse.recompute = v;
        }
        if (!add(all, one)) return false;
        if (!*(p = end)) return true;
    }
}

/* add_policy -- item: "NAME[+fused][:key=value,...][@SHARE]"; cut at the '@', whose share replaces the ratios. */
static bool add_policy(eval_settings *all, char *item, const char *ratios, const char *alphas)
{
    eval_setting s = {{0}};
    const char *name = item;
    char *share = strrchr(item, '@');
    if (share) *share++ = '\0';
    if (!cli_policy_read("--policies", name, s.spec)) return false;
    bool fused;
    const cli_policy *p = cli_policy_find(name, &fused);
    const sp_reuse_param *param = cli_policy_amount_param(p);
    s.reuse.unfused = !fused;
    s.habits = habits_of(p);
    s.amount = cli_policy_amount(s.spec);
    snprintf(s.name, sizeof s.name, "%s", name);
    if (share && (!p->recomputes || s.amount > 0)) {
        cli_fail_with("--policies: \"%s@%s\": %s", name, share,
                      p->recomputes ? "its parameter replaces the share" : "this policy recomputes no share");
        return false;
    }
    if (share) return add_values(all, s, share, NULL, "--policies");
    if (!p->recomputes || s.amount > 0) return add(all, s);
    return alphas && param ? add_values(all, s, alphas, param, "--alphas")
                           : add_values(all, s, ratios, NULL, "--ratios");
}

bool eval_settings_make(const char *policies, const char *ratios, const char *alphas,
                        eval_settings *out)
{
    *out = (eval_settings){0};
    char off[] = "off";
    if (!add_policy(out, off, ratios, alphas)) return false;
    char *copy = strdup(policies), *rest = copy;
    bool good = copy != NULL;
    for (char *s = cli_policy_next(&rest); s && good; s = cli_policy_next(&rest))
        good = !*s || add_policy(out, s, ratios, alphas);
    free(copy);
    return good;
}
