#include "cache/past.h"

#include "base/mem.h"

enum { WAYS = 4, LEAST = 4096, MOST = 4 << 20 };

sp_err sp_past_init(sp_past *p, int64_t n)
{
    size_t buckets = 1;
    while ((int64_t)buckets * WAYS < SP_MIN(SP_MAX(n, (int64_t)LEAST), (int64_t)MOST)) buckets *= 2;
    p->slots = SP_NEW_N(sp_past_copy, buckets * WAYS);
    if (!p->slots) return sp_fail_nomem("a cache's past");
    p->n_buckets = buckets;
    return SP_OK;
}

void sp_past_fini(sp_past *p)
{
    sp_free(p->slots);
    *p = (sp_past){0};
}

static sp_past_copy *bucket_of(const sp_past *p, uint64_t name)
{
    return &p->slots[(name >> 1 & (p->n_buckets - 1)) * WAYS]; /* bit 0 of a name is always set */
}

const sp_past_copy *sp_past_find(const sp_past *p, uint64_t name)
{
    const sp_past_copy *b = bucket_of(p, name);
    for (int i = 0; i < WAYS; i++)
        if (b[i].name == name) return &b[i];
    return NULL;
}

void sp_past_put(sp_past *p, const sp_past_copy *c)
{
    sp_past_copy *b = bucket_of(p, c->name), *to = b;
    for (int i = 0; i < WAYS; i++) {
        if (b[i].name == c->name || b[i].name == 0) {
            to = &b[i];
            break;
        }
        if (b[i].uses.last < to->uses.last) to = &b[i];
    }
    *to = *c;
}
