#include "cache/order.h"

#include <stdio.h>
#include <string.h>

/* -- policies ------------------------------------------------------------------------------- */

static double lru_score(const sp_copy *c)
{
    return (double)c->last_used;
}

/* Among equally frequent ones the older leaves first: logical time is far below 2^40. */
static double lfu_score(const sp_copy *c)
{
    return (double)c->n_uses + (double)c->last_used * 0x1p-40;
}

static double fr_score(const sp_copy *c)
{
    return (double)c->worth + (double)c->last_used * 0x1p-40;
}

static const sp_order_policy policies[] = {
    {"lru", "drops what was used least recently", lru_score},
    {"lfu", "drops what was used least often", lfu_score},
    {"fr", "drops what spares least recomputation (Cache-Craft section 3.3)", fr_score},
};

sp_err sp_order_init(sp_order *o, const char *policy)
{
    char names[128] = "";
    o->rank.which = 3;
    for (size_t i = 0; i < SP_COUNT(policies); i++) {
        if (!policy || strcmp(policy, policies[i].name) == 0) {
            o->policy = &policies[i];
            return SP_OK;
        }
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", policies[i].name);
    }
    return sp_fail(SP_E_ARG, "replacement policy \"%s\" of the host tier is unknown: %s", policy,
                   names);
}

void sp_order_fini(sp_order *o)
{
    sp_rank_fini(&o->rank);
    sp_vec_fini(&o->aside);
}

sp_err sp_order_reserve(sp_order *o, size_t n)
{
    SP_TRY(sp_vec_reserve(&o->aside, n));
    return sp_rank_reserve(&o->rank, n);
}

void sp_order_add(sp_order *o, sp_copy *c)
{
    if (!c->rank[o->rank.which].slot) sp_rank_put(&o->rank, c, o->policy->score(c));
}

void sp_order_drop(sp_order *o, sp_copy *c)
{
    sp_rank_drop(&o->rank, c);
}

/* top -- the copy of the lowest score now. */
static sp_copy *top(sp_order *o)
{
    while (o->rank.heap.n) {
        sp_copy *c = o->rank.heap.v[0];
        double score = o->policy->score(c);
        if (score <= c->rank[o->rank.which].priority) return c;
        sp_rank_put(&o->rank, c, score);
    }
    return NULL;
}

sp_copy *sp_order_victim(sp_order *o, bool (*may_go)(const sp_copy *c))
{
    sp_copy *c;
    o->aside.n = 0;
    while ((c = top(o)) && !may_go(c)) {
        sp_rank_drop(&o->rank, c);
        o->aside.v[o->aside.n++] = c;
    }
    for (size_t i = 0; i < o->aside.n; i++) sp_rank_back(&o->rank, o->aside.v[i]);
    return c;
}
