/* evict_fr.c -- among placed copies, the one that has saved least (f_r, the sum of 1 / CFO over its
 * uses); of equals the least recently used. Other copies are never its victims.
 * Source: Cache-Craft section 3.3 (C7). */
#include "cache/evict.h"

static sp_copy *fr_victim(const sp_evict *e)
{
    sp_copy *least = NULL;
    for (sp_copy *c = e->oldest; c; c = c->used.newer)
        if (c->kind == SP_COPY_PLACED && sp_copy_evictable(c) &&
            (!least || c->worth < least->worth))
            least = c;
    return least;
}

const sp_evict_policy sp_evict_fr = {
    .name = "fr", .help = "drops the placed copy of least worth", .victim = fr_victim};
