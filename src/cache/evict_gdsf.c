/* evict_gdsf.c -- greedy dual, size and frequency; and RAGCache's form of it for prefixes.
 *
 *     priority = clock + uses * cost / size
 *     clock      the largest priority that was evicted: what is not used ages against it
 *     gdsf       cost is proportional to size, so cost / size is 1
 *     pgdsf      uses in a window of time, and the mean of cost / new tokens over the requests that computed the
 *                copy; both are remembered when it is gone. The paper does not say how long the window is; here it
 *                has no edge: uses halve in weight every sp_evict.half_life requests
 *
 * The unit of pgdsf's cost does not matter: the clock is in it too. Source: RAGCache sections 5.1
 * and 7.3, algorithm 1 (R2, R4).
 */
#include "cache/evict.h"

#include <math.h>

static double gdsf_priority(const sp_evict *e, const sp_copy *c)
{
    return e->clock + (double)c->uses.n;
}

/* in_window -- uses of a copy that was just used. */
static double in_window(const sp_evict *e, const sp_copy *c)
{
    return exp2(c->uses.recent - (double)c->uses.last / e->half_life);
}

static double pgdsf_priority(const sp_evict *e, const sp_copy *c)
{
    return e->clock + in_window(e, c) * c->uses.mean_cost;
}

static sp_copy *gdsf_victim(sp_evict *e)
{
    sp_copy *c = sp_rank_least(&e->rank);
    if (c) e->clock = SP_MAX(e->clock, c->rank[0].priority);
    return c;
}

const sp_evict_policy sp_evict_gdsf = {.name = "gdsf",
                                       .help = "weighs uses and age",
                                       .priority = gdsf_priority,
                                       .victim = gdsf_victim};

const sp_evict_policy sp_evict_pgdsf = {
    .name = "pgdsf",
    .help = "weighs uses, age and what computing a token of the copy costs",
    .remembers = true,
    .priority = pgdsf_priority,
    .victim = gdsf_victim};
