/* evict_lru.c -- least recently used first. Ancestors are used after their descendants, so a leaf is
 * always older than the path above it, and the search from the old end is short. */
#include "cache/evict.h"

static sp_copy *lru_victim(sp_evict *e)
{
    for (sp_copy *c = e->oldest; c; c = c->used.newer)
        if (sp_copy_evictable(c)) return c;
    return NULL;
}

const sp_evict_policy sp_evict_lru = {
    .name = "lru", .help = "drops the least recently used copy", .victim = lru_victim};
