#include "cache/evict.h"

#include <stdio.h>
#include <string.h>

static const sp_evict_policy *const policies[] = {&sp_evict_lru, &sp_evict_lacr};

sp_err sp_evict_find(const char *name, const sp_evict_policy **out)
{
    char names[256] = "";
    for (size_t i = 0; i < SP_COUNT(policies); i++) {
        if (!name || strcmp(name, policies[i]->name) == 0) {
            *out = policies[i];
            return SP_OK;
        }
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", policies[i]->name);
    }
    return sp_fail(SP_E_ARG, "replacement policy \"%s\" is unknown: %s", name, names);
}

/* -- order of use --------------------------------------------------------------------------- */

void sp_evict_link(sp_evict *e, sp_copy *c)
{
    c->used.newer = NULL;
    c->used.older = e->newest;
    if (e->newest) e->newest->used.newer = c;
    e->newest = c;
    if (!e->oldest) e->oldest = c;
    e->n++;
}

void sp_evict_unlink(sp_evict *e, sp_copy *c)
{
    if (c->used.newer)
        c->used.newer->used.older = c->used.older;
    else
        e->newest = c->used.older;
    if (c->used.older)
        c->used.older->used.newer = c->used.newer;
    else
        e->oldest = c->used.newer;
    c->used.newer = c->used.older = NULL;
    e->n--;
}

void sp_evict_add(sp_evict *e, sp_copy *c, int64_t now)
{
    c->last_used = now;
    c->n_uses++;
    sp_evict_link(e, c);
    if (e->policy->add) e->policy->add(e, c, now);
}

void sp_evict_use(sp_evict *e, sp_copy *c, int64_t now)
{
    c->last_used = now;
    c->n_uses++;
    sp_evict_unlink(e, c);
    sp_evict_link(e, c);
    if (e->policy->use) e->policy->use(e, c, now);
}

void sp_evict_drop(sp_evict *e, sp_copy *c)
{
    if (e->policy->drop) e->policy->drop(e, c);
    sp_evict_unlink(e, c);
}
