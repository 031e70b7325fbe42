#include "cli/options/policies.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "cli/fail.h"

#define CLI_MOST_POLICIES 31
#define CLI_MOST_PARAMS   24 /* of all policies together */

const cli_policy *cli_policies(int *n)
{
    return sp_reuse_policies(n);
}

const cli_policy *cli_policy_find(const char *spec, bool *fused)
{
    const cli_policy *standard;
    if (!spec && sp_reuse_parse(NULL, &standard, NULL) == SP_OK) spec = standard->name;
    size_t n = strcspn(spec, ":"), m = strlen(CLI_FUSED);
    bool ends = n > m && memcmp(spec + n - m, CLI_FUSED, m) == 0;
    if (ends) n -= m;
    if (fused) *fused = ends;
    int n_policies;
    const cli_policy *policies = cli_policies(&n_policies);
    for (int i = 0; i < n_policies; i++) {
        const cli_policy *p = &policies[i];
        if (strlen(p->name) == n && memcmp(p->name, spec, n) == 0)
            return ends && !p->anywhere ? NULL : p;
    }
    return NULL;
}

/* -- parameters ------------------------------------------------------------------------------- */

bool cli_policy_read(const char *option, const char *spec, char *out)
{
    const cli_policy *p = cli_policy_find(spec, NULL);
    const char *rest = spec + strcspn(spec, ":");
    int n = p ? snprintf(out, CLI_SPEC, "%s%s", p->name, rest) : 0;
    if (!p)
        cli_fail_with("%s: \"%s\" is unknown: %s; with " CLI_FUSED ": %s", option, spec,
                      cli_policy_names(CLI_ALL), cli_policy_names(CLI_ANYWHERE));
    else if (n >= CLI_SPEC)
        cli_fail_with("%s: \"%.40s...\" is too long", option, spec);
    else if (sp_reuse_parse(out, NULL, NULL) != SP_OK)
        cli_fail_with("%s: %s", option, sp_error_detail());
    else
        return true;
    return false;
}

bool cli_policy_has(const cli_policy *p, const char *key)
{
    for (int i = 0; p && i < p->n_params; i++)
        if (strcmp(p->params[i].name, key) == 0) return true;
    return false;
}

bool cli_policy_sets(const char *spec, const char *key)
{
    for (const char *s = strchr(spec, ':'); s; s = strchr(s + 1, ','))
        if (strncmp(s + 1, key, strlen(key)) == 0 && s[1 + strlen(key)] == '=') return true;
    return false;
}

void cli_policy_add(char *spec, const char *key, double value)
{
    size_t n = strlen(spec);
    if (!cli_policy_has(cli_policy_find(spec, NULL), key) || cli_policy_sets(spec, key)) return;
    snprintf(spec + n, CLI_SPEC - n, "%c%s=%.9g", strchr(spec, ':') ? ',' : ':', key, value);
}

const sp_reuse_param *cli_policy_amount_param(const cli_policy *p)
{
    for (int i = 0; p && i < p->n_params; i++)
        if (p->params[i].replaces_share) return &p->params[i];
    return NULL;
}

double cli_policy_amount(const char *spec)
{
    const sp_reuse_info *p;
    double v[SP_REUSE_PARAMS];
    if (sp_reuse_parse(spec, &p, v) != SP_OK) return 0;
    const sp_reuse_param *amount = cli_policy_amount_param(p);
    return amount ? v[amount - p->params] : 0;
}

char *cli_policy_next(char **list)
{
    char *item = *list, *end = item;
    if (!item) return NULL;
    for (;;) {
        end += strcspn(end, ",");
        if (!*end) break;
        const char *next = end + 1;
        if (next[strcspn(next, ",:=")] != '=') break; /* a name */
        end++;
    }
    *list = *end ? end + 1 : NULL;
    *end = '\0';
    return item;
}

/* -- lists ------------------------------------------------------------------------------------ */

static bool is_in(const cli_policy *p, cli_policy_set which)
{
    switch (which) {
    case CLI_ANYWHERE:
        return p->anywhere;
    case CLI_RECOMPUTING:
        return p->recomputes;
    case CLI_BUT_OFF:
        return strcmp(p->name, "off") != 0;
    default:
        return true;
    }
}

static const char *join(cli_policy_set which, const char *separator, char *out, size_t size)
{
    size_t n = 0;
    int n_policies;
    const cli_policy *policies = cli_policies(&n_policies);
    for (int i = 0; i < n_policies && n < size; i++)
        if (is_in(&policies[i], which))
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? separator : "", policies[i].name);
    return out;
}

const char *cli_policy_names(cli_policy_set which)
{
    static char names[CLI_N_SETS][256];
    return join(which, ", ", names[which], sizeof names[which]);
}

const char *cli_policy_list(cli_policy_set which)
{
    static char lists[CLI_N_SETS][256];
    return join(which, ",", lists[which], sizeof lists[which]);
}

/* param_choice -- "craft:focus=LAYERS", and the help text with its range and default. */
static opt_choice param_choice(const cli_policy *p, const sp_reuse_param *k)
{
    static char texts[CLI_MOST_PARAMS][2][320];
    static int n;
    assert(n < CLI_MOST_PARAMS);
    char *name = texts[n][0], *help = texts[n++][1];
    snprintf(name, sizeof texts[0][0], "%s:%s=%s", p->name, k->name, k->whole ? "N" : "X");
    snprintf(help, sizeof texts[0][1], "%s (%.9g; %.9g to %.9g%s%s)", k->help, k->normal, k->least, k->most,
             *k->unit ? " " : "", k->unit);
    return (opt_choice){name, help};
}

const opt_choice *cli_policy_choices(void)
{
    static opt_choice choices[CLI_MOST_POLICIES + CLI_MOST_PARAMS + 1];
    int n, k = 0;
    const cli_policy *all = cli_policies(&n);
    assert(n <= CLI_MOST_POLICIES);
    if (choices[0].name) return choices; /* made before */
    for (int i = 0; i < n; i++) {
        choices[k++] = (opt_choice){all[i].name, all[i].help};
        for (int j = 0; j < all[i].n_params; j++)
            choices[k++] = param_choice(&all[i], &all[i].params[j]);
    }
    return choices;
}

const opt_choice *cli_evict_choices(void)
{
    static opt_choice choices[CLI_MOST_POLICIES + 1];
    int n;
    const sp_evict_info *all = sp_evict_policies(&n);
    assert(n <= CLI_MOST_POLICIES);
    for (int i = 0; i < n; i++) choices[i] = (opt_choice){all[i].name, all[i].help};
    return choices;
}

const opt_choice *cli_queue_choices(void)
{
    static opt_choice choices[CLI_MOST_POLICIES + 1];
    int n;
    const sp_queue_info *all = sp_queue_orders(&n);
    assert(n <= CLI_MOST_POLICIES);
    for (int i = 0; i < n; i++) choices[i] = (opt_choice){all[i].name, all[i].help};
    return choices;
}
