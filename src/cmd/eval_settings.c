#include "cmd/eval_settings.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"

#define FUSED "+fused"

typedef struct policy {
    const char *name;
    unsigned habits;
    int style, style_fused;
} policy;

static const policy policies_known[] = {
    {"off", 0, 0, 0},
    {"prefix", EVAL_STREAM, 10, 0},
    {"set", EVAL_STREAM, 11, 0},
    {"full", 0, 7, 12},
    {"random", EVAL_SHARE, 5, 13},
    {"h2o", EVAL_SHARE, 8, 14},
    {"blend", EVAL_SHARE, 2, 6},
    {"craft", EVAL_SHARE | EVAL_TRACES, 3, 9},
    {"fusion", EVAL_SHARE, 1, 4},
    {"flow", EVAL_SHARE, 15, 16},
};
#define N_POLICIES     ((int)(sizeof policies_known / sizeof *policies_known))
#define FIRST_OF_CHUNK 3 /* "full" and those behind it set chunks anywhere */

/* find -- a policy by name; *fused: the name ended in "+fused". */
static const policy *find(const char *name, bool *fused)
{
    size_t n = strlen(name), m = strlen(FUSED);
    *fused = n > m && strcmp(name + n - m, FUSED) == 0;
    if (*fused) n -= m;
    for (int i = *fused ? FIRST_OF_CHUNK : 0; i < N_POLICIES; i++)
        if (strlen(policies_known[i].name) == n && memcmp(policies_known[i].name, name, n) == 0)
            return &policies_known[i];
    return NULL;
}

int eval_style(const char *name)
{
    bool fused;
    const policy *p = find(name, &fused);
    return !p ? 0 : fused ? p->style_fused : p->style;
}

bool eval_computes_again(const char *name)
{
    bool fused;
    const policy *p = find(name, &fused);
    return p && p->habits & EVAL_SHARE;
}

static bool add(eval_settings *all, eval_setting s)
{
    for (int i = 0; i < all->n; i++) /* named twice is run once */
        if (strcmp(all->v[i].name, s.name) == 0 && all->v[i].reuse.recompute == s.reuse.recompute &&
            all->v[i].reuse.alpha == s.reuse.alpha)
            return true;
    if (all->n == (int)(sizeof all->v / sizeof *all->v)) {
        cmd_fail_with("--policies: over %d settings", all->n);
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
            cmd_fail_with("%s: \"%s\" is not a list of numbers%s, with commas between them", option,
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
    const policy *p = find(name, &fused);
    if (!p) {
        cmd_fail_with("--policies: \"%s\" is unknown: off, prefix, set, full, random, h2o, blend, "
                      "craft, fusion, flow; the last seven also with " FUSED " behind them",
                      name);
        return false;
    }
    eval_setting s = {.reuse = {.policy = p->name, .unfused = !fused},
                      .habits = p->habits,
                      .style = fused ? p->style_fused : p->style};
    snprintf(s.name, sizeof s.name, "%s", name);
    if (!(p->habits & EVAL_SHARE)) return add(all, s);
    if (alphas && strcmp(p->name, "craft") == 0)
        return add_values(all, s, "--alphas", alphas, true);
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
