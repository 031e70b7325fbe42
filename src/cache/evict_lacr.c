/* evict_lacr.c -- locality-aware cache replacement: keeps copies that were read often, and copies that waiting
 * requests will read.
 *
 *     priority = ALPHA history + (1 - ALPHA) future
 *     history    recent uses of the copy                                     } each as a share of the
 *     future     expected uses in the waiting queue (sp_ledger_expect)       } largest one
 *
 * Copies without expected uses are in the heap, ordered by history; the few with expected uses are
 * compared one by one. Only evictable copies count, so a path is evicted leaf by leaf. Equal
 * priorities: the least recently used. Cost: O(log n + expected copies) a victim.
 * Source: DepCache section 4.2.2, eq. 6 (D6). */
#include "cache/evict.h"

#include <math.h>

#define ALPHA 0.2

static double history(const sp_evict *e, const sp_copy *c)
{
    return exp2(c->uses.recent - e->most_recent);
}

static double score(const sp_evict *e, const sp_copy *c)
{
    float most = e->most_expected, expected = sp_evict_expected(e, c);
    return ALPHA * history(e, c) + (1 - ALPHA) * (most > 0 ? expected / most : 0);
}

static double lacr_priority(const sp_evict *e, const sp_copy *c)
{
    return c->uses.recent;
}

static sp_copy *lacr_victim(sp_evict *e)
{
    sp_copy *victim = sp_rank_least(&e->rank);
    double least = victim ? score(e, victim) : INFINITY;
    for (size_t i = 0; i < e->expected.n; i++) {
        sp_copy *c = e->expected.v[i];
        if (!sp_copy_evictable(c)) continue;
        double s = score(e, c);
        if (s > least || (s == least && victim && c->used.order > victim->used.order)) continue;
        least = s;
        victim = c;
    }
    return victim;
}

const sp_evict_policy sp_evict_lacr = {
    .name = "lacr",
    .help = "keeps what was used often and what waiting requests will use",
    .looks_ahead = true,
    .priority = lacr_priority,
    .victim = lacr_victim};
