/* evict_lacr.c -- locality-aware cache replacement: what was read often and what waiting requests are
 * about to read stays.
 *
 *     priority = ALPHA history + (1 - ALPHA) future
 *     history    uses of the copy                                            } each as a share of the
 *     future     expected uses in the waiting queue (sp_ledger_expect)       } largest one
 *
 * Only evictable copies are compared, so a path goes leaf by leaf. Equal priorities: the least
 * recently used. Cost: O(READY copies) a victim. Source: DepCache section 4.2.2, eq. 6 (D6). */
#include "cache/evict.h"

#define ALPHA 0.2f

/* expected -- of an earlier look at the queue nothing counts. */
static float expected(const sp_evict *e, const sp_copy *c)
{
    return c->expected_look == e->look ? c->expected : 0;
}

static float share(float x, float most)
{
    return most > 0 ? x / most : 0;
}

static sp_copy *lacr_victim(const sp_evict *e)
{
    float most_uses = 0, most_expected = 0, least = 0;
    for (const sp_copy *c = e->oldest; c; c = c->used.newer) {
        if (!sp_copy_evictable(c)) continue;
        most_uses = SP_MAX(most_uses, (float)c->n_uses);
        most_expected = SP_MAX(most_expected, expected(e, c));
    }
    sp_copy *victim = NULL;
    for (sp_copy *c = e->oldest; c; c = c->used.newer) {
        if (!sp_copy_evictable(c)) continue;
        float priority = ALPHA * share((float)c->n_uses, most_uses) +
                         (1 - ALPHA) * share(expected(e, c), most_expected);
        if (victim && priority >= least) continue;
        least = priority;
        victim = c;
    }
    return victim;
}

const sp_evict_policy sp_evict_lacr = {
    .name = "lacr",
    .help = "keeps what was used often and what waiting requests will use",
    .looks_ahead = true,
    .victim = lacr_victim};
