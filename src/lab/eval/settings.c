#include "lab/eval/settings.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/policies.h"

/* habits_of -- how a policy is run so that the comparison is fair. */
static unsigned habits_of(const cli_policy *p)
{
    bool is_off = p == cli_policy_find("off", NULL);
    return (p->recomputes ? EVAL_SHARE : 0) | (p->anywhere || is_off ? 0 : EVAL_STREAM) |
           (p->keeps_placed ? EVAL_TRACES : 0);
}

static bool add(eval_settings *all, eval_setting s)
{
    for (int i = 0; i < all->n; i++) /* a duplicate is run once */
        if (strcmp(all->v[i].name, s.name) == 0 && all->v[i].reuse.recompute == s.reuse.recompute &&
            all->v[i].reuse.alpha == s.reuse.alpha)
            return true;
    if (all->n == (int)(sizeof all->v / sizeof *all->v)) {
        cli_fail_with("--policies: over %d settings", all->n);
        return false;
    }
    all->v[all->n++] = s;
    return true;
}

/* add_values -- one setting for each number of the list. */
static bool add_values(eval_settings *all, eval_setting s, const char *option, const char *list,
                       bool are_alphas)
{
    for (const char *p = list;; p++) {
        char *end;
        errno = 0;
        float v = strtof(p, &end);
        if (errno || end == p || (*end && *end != ',') || !(v >= 0) ||
            v > (are_alphas ? 1e6f : 1)) {
            cli_fail_with("%s: \"%s\" is not a list of numbers%s, with commas between them", option,
                          list, are_alphas ? "" : " from 0 to 1");
            return false;
        }
        *(are_alphas ? &s.reuse.alpha : &s.reuse.recompute) = v;
        if (!add(all, s)) return false;
        if (!*(p = end)) return true;
    }
}

static bool add_policy(eval_settings *all, const char *name, const char *ratios, const char *alphas)
{
    bool fused;
    const cli_policy *p = cli_policy_find(name, &fused);
    if (!p) {
        cli_fail_with("--policies: \"%s\" is unknown: %s; with " CLI_FUSED ": %s", name,
                      cli_policy_names(CLI_ALL), cli_policy_names(CLI_ANYWHERE));
        return false;
    }
    eval_setting s = {.reuse = {.policy = p->name, .unfused = !fused},
                      .habits = habits_of(p)};
    snprintf(s.name, sizeof s.name, "%s", name);
    if (!p->recomputes) return add(all, s);
    if (alphas && p->keeps_placed) return add_values(all, s, "--alphas", alphas, true);
    return add_values(all, s, "--ratios", ratios, false);
}

bool eval_settings_make(const char *policies, const char *ratios, const char *alphas,
                        eval_settings *out)
{
    *out = (eval_settings){0};
    if (!add_policy(out, "off", ratios, alphas)) return false;
    char *copy = strdup(policies), *rest = NULL;
    bool good = copy != NULL;
    for (char *s = copy ? strtok_r(copy, ",", &rest) : NULL; s && good;
         s = strtok_r(NULL, ",", &rest))
        good = add_policy(out, s, ratios, alphas);
    free(copy);
    return good;
}
