#include "cli/policies.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const cli_policy *cli_policies(int *n)
{
    return sp_reuse_policies(n);
}

const cli_policy *cli_policy_find(const char *name, bool *fused)
{
    size_t n = strlen(name), m = strlen(CLI_FUSED);
    bool ends = n > m && strcmp(name + n - m, CLI_FUSED) == 0;
    if (ends) n -= m;
    if (fused) *fused = ends;
    int n_policies;
    const cli_policy *policies = cli_policies(&n_policies);
    for (int i = 0; i < n_policies; i++) {
        const cli_policy *p = &policies[i];
        if (strlen(p->name) == n && memcmp(p->name, name, n) == 0)
            return ends && !p->anywhere ? NULL : p;
    }
    return NULL;
}

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

#define MOST 31

const opt_choice *cli_policy_choices(void)
{
    static opt_choice choices[MOST + 1];
    int n;
    const cli_policy *all = cli_policies(&n);
    assert(n <= MOST);
    for (int i = 0; i < n; i++) choices[i] = (opt_choice){all[i].name, all[i].help};
    return choices;
}

const opt_choice *cli_evict_choices(void)
{
    static opt_choice choices[MOST + 1];
    int n;
    const sp_evict_info *all = sp_evict_policies(&n);
    assert(n <= MOST);
    for (int i = 0; i < n; i++) choices[i] = (opt_choice){all[i].name, all[i].help};
    return choices;
}
