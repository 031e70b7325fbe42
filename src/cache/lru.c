/* lru.c -- least recently used first. A list from newest to oldest; since ancestors are touched
 * after their descendants, a leaf is always older than the path above it and the search from the
 * old end is short. */
#include "cache/node_int.h"

static void lru_forget(sp_evict_state *s, sp_node *n)
{
    if (n->newer) n->newer->older = n->older;
    if (n->older) n->older->newer = n->newer;
    if (s->newest == n) s->newest = n->older;
    if (s->oldest == n) s->oldest = n->newer;
    n->newer = n->older = NULL;
}

static void lru_touch(sp_evict_state *s, sp_node *n, int64_t now)
{
    lru_forget(s, n);
    n->last_used = now;
    n->n_uses++;
    n->older = s->newest;
    if (s->newest) s->newest->newer = n;
    s->newest = n;
    if (!s->oldest) s->oldest = n;
}

static sp_node *lru_victim(const sp_evict_state *s)
{
    for (sp_node *n = s->oldest; n; n = n->newer)
        if (sp_node_evictable(n)) return n;
    return NULL;
}

const sp_evict_policy sp_evict_lru = {
    .name = "lru", .touch = lru_touch, .forget = lru_forget, .victim = lru_victim};
