/* evict_fr.c -- evicts first what has saved least: f_r, 1 + the sum of 1 / CFO over a copy's uses, with CFO of at
 * least 0.01 (sp_ledger_use); among equals the least recently used. CFO is 0 if a path is used exactly. Source:
 * Cache-Craft section 3.3 (C7). */
#include "cache/evict.h"

static double fr_priority(const sp_evict *e, const sp_copy *c)
{
    return c->uses.worth;
}

const sp_evict_policy sp_evict_fr = {
    .name = "fr", .help = "drops the copy that has saved least recomputation", .priority = fr_priority};
