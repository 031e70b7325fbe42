#include "cli/policies.h"

#include <stdio.h>
#include <string.h>

static const cli_policy policies[] = {
    {"off", "compute every prompt from its first token", .exact = true},
    {"prefix", "reuse the longest known prefix", .exact = true},
    {"set", "reuse chunks that were read together before, in any order"},
    {"full", "reuse chunks at any position as they are", .anywhere = true},
    {"random", "recompute random tokens", .anywhere = true, .recomputes = true},
    {"h2o", "recompute the tokens that receive most attention", .anywhere = true,
     .recomputes = true, .own_statistics = true},
    {"blend", "recompute the tokens that deviate most (CacheBlend)", .anywhere = true,
     .recomputes = true},
    {"craft", "recompute where the chunks before have changed (Cache-Craft)", .anywhere = true,
     .recomputes = true, .own_statistics = true, .keeps_placed = true},
    {"fusion", "recompute the tokens that the question attends to (FusionRAG)", .anywhere = true,
     .recomputes = true},
    {"flow", "half of fusion's tokens, and the tokens that these attend to", .anywhere = true,
     .recomputes = true},
};
#define N_POLICIES ((int)(sizeof policies / sizeof *policies))

const cli_policy *cli_policies(int *n)
{
    *n = N_POLICIES;
    return policies;
}

const cli_policy *cli_policy_find(const char *name, bool *fused)
{
    size_t n = strlen(name), m = strlen(CLI_FUSED);
    bool ends = n > m && strcmp(name + n - m, CLI_FUSED) == 0;
    if (ends) n -= m;
    if (fused) *fused = ends;
    for (int i = 0; i < N_POLICIES; i++) {
        const cli_policy *p = &policies[i];
        if (strlen(p->name) == n && memcmp(p->name, name, n) == 0)
            return ends && !p->anywhere ? NULL : p;
    }
    return NULL;
}

static bool is_in(int i, cli_policy_set which)
{
    switch (which) {
    case CLI_ANYWHERE:
        return policies[i].anywhere;
    case CLI_RECOMPUTING:
        return policies[i].recomputes;
    case CLI_BUT_OFF:
        return i > 0;
    default:
        return true;
    }
}

static const char *join(cli_policy_set which, const char *separator, char *out, size_t size)
{
    size_t n = 0;
    for (int i = 0; i < N_POLICIES && n < size; i++)
        if (is_in(i, which))
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
