#include "cache/chains.h"

#include "base/mem.h"

enum { FIRST_SLOTS = 256 };

static sp_copy **next_of(const sp_chains *t, sp_copy *c)
{
    return (sp_copy **)((char *)c + t->link);
}

static size_t slot_of(const sp_chains *t, uint64_t hash)
{
    return (size_t)hash & (t->n_slots - 1);
}

sp_err sp_chains_init(sp_chains *t, size_t link, uint64_t (*hash)(const sp_copy *))
{
    sp_copy **slots = SP_NEW_N(sp_copy *, FIRST_SLOTS);
    if (!slots) return sp_fail_nomem("an index of copies");
    *t = (sp_chains){.slots = slots, .n_slots = FIRST_SLOTS, .link = link, .hash = hash};
    return SP_OK;
}

void sp_chains_fini(sp_chains *t)
{
    sp_free(t->slots);
    *t = (sp_chains){0};
}

sp_err sp_chains_reserve(sp_chains *t)
{
    if (t->n < t->n_slots) return SP_OK;
    size_t n = t->n_slots;
    sp_copy **slots = SP_NEW_N(sp_copy *, 2 * n);
    if (!slots) return sp_fail_nomem("an index of copies");
    t->n_slots = 2 * n;
    for (size_t i = 0; i < n; i++) { /* one chain becomes two, each in the old order */
        sp_copy **ends[] = {&slots[i], &slots[i + n]};
        for (sp_copy *c = t->slots[i], *next; c; c = next) {
            size_t upper = slot_of(t, t->hash(c)) >= n;
            next = *next_of(t, c);
            *next_of(t, c) = NULL;
            *ends[upper] = c;
            ends[upper] = next_of(t, c);
        }
    }
    sp_free(t->slots);
    t->slots = slots;
    return SP_OK;
}

void sp_chains_add(sp_chains *t, sp_copy *c)
{
    sp_copy **first = &t->slots[slot_of(t, t->hash(c))];
    *next_of(t, c) = *first;
    *first = c;
    t->n++;
}

void sp_chains_drop(sp_chains *t, sp_copy *c)
{
    sp_copy **at = &t->slots[slot_of(t, t->hash(c))];
    while (*at != c) at = next_of(t, *at);
    *at = *next_of(t, c);
    t->n--;
}

sp_copy *sp_chains_first(const sp_chains *t, uint64_t hash)
{
    return t->slots[slot_of(t, hash)];
}
