#include "store/table.h"

#include <string.h>

enum { FEWEST_SLOTS = 64 };

void sp_table_init(sp_table *t)
{
    *t = (sp_table){.free = SP_NO_ENTRY, .newest = SP_NO_ENTRY, .oldest = SP_NO_ENTRY};
}

void sp_table_fini(sp_table *t)
{
    sp_vec_fini(&t->entries);
    sp_free(t->slots);
    sp_table_init(t);
}

size_t sp_table_bytes(const sp_table *t)
{
    return t->entries.cap * sizeof *t->entries.v + t->n_slots * sizeof *t->slots;
}

bool sp_disk_place_eq(const sp_disk_place *a, const sp_disk_place *b)
{
    return a->segment == b->segment && a->page == b->page;
}

/* -- slots ---------------------------------------------------------------------------------- */

/* Ids are SHA-256: eight bytes of one are a hash already. */
static size_t home_of(const sp_table *t, const sp_tier_key *key)
{
    uint64_t h;
    memcpy(&h, key->id.b, sizeof h);
    return (size_t)(h ^ key->head ^ key->kind) & (t->n_slots - 1);
}

bool sp_tier_key_eq(const sp_tier_key *a, const sp_tier_key *b)
{
    return a->kind == b->kind && a->head == b->head && sp_digest_eq(&a->id, &b->id);
}

/* slot_of -- the slot of a key, or the free slot for it. Pre: there are slots. */
static size_t slot_of(const sp_table *t, const sp_tier_key *key)
{
    size_t i = home_of(t, key);
    while (t->slots[i] && !sp_tier_key_eq(&t->entries.v[t->slots[i] - 1].key, key))
        i = (i + 1) & (t->n_slots - 1);
    return i;
}

static sp_err grow_slots(sp_table *t)
{
    sp_table larger = *t;
    larger.n_slots = t->n_slots ? 2 * t->n_slots : FEWEST_SLOTS;
    larger.slots = SP_NEW_N(uint32_t, larger.n_slots);
    if (!larger.slots) return sp_fail_nomem("the index");
    for (size_t i = 0; i < t->n_slots; i++)
        if (t->slots[i])
            larger.slots[slot_of(&larger, &t->entries.v[t->slots[i] - 1].key)] = t->slots[i];
    sp_free(t->slots);
    *t = larger;
    return SP_OK;
}

/* free_slot -- moves the following entries up, unless that would put them before their home slot. */
static void free_slot(sp_table *t, size_t gap)
{
    const size_t mask = t->n_slots - 1;
    for (size_t i = (gap + 1) & mask; t->slots[i]; i = (i + 1) & mask) {
        size_t from_home = (i - home_of(t, &t->entries.v[t->slots[i] - 1].key)) & mask;
        if (from_home < ((i - gap) & mask)) continue;
        t->slots[gap] = t->slots[i];
        gap = i;
    }
    t->slots[gap] = 0;
}

/* -- entries -------------------------------------------------------------------------------- */

sp_err sp_table_reserve(sp_table *t, size_t n)
{
    if (t->entries.n + n >= SP_NO_ENTRY) return sp_fail(SP_E_LIMIT, "too many copies");
    SP_TRY(sp_vec_reserve(&t->entries, n));
    while (4 * (t->n + n) > 3 * t->n_slots) SP_TRY(grow_slots(t));
    return SP_OK;
}

uint32_t sp_table_find(const sp_table *t, const sp_tier_key *key)
{
    if (t->n_slots == 0) return SP_NO_ENTRY;
    uint32_t found = t->slots[slot_of(t, key)];
    return found ? found - 1 : SP_NO_ENTRY;
}

static void make_newest(sp_table *t, uint32_t i)
{
    sp_entry *e = &t->entries.v[i];
    e->newer = SP_NO_ENTRY;
    e->older = t->newest;
    if (t->newest != SP_NO_ENTRY)
        t->entries.v[t->newest].newer = i;
    else
        t->oldest = i;
    t->newest = i;
}

static void leave_order(sp_table *t, uint32_t i)
{
    const sp_entry *e = &t->entries.v[i];
    if (e->newer != SP_NO_ENTRY)
        t->entries.v[e->newer].older = e->older;
    else
        t->newest = e->older;
    if (e->older != SP_NO_ENTRY)
        t->entries.v[e->older].newer = e->newer;
    else
        t->oldest = e->newer;
}

uint32_t sp_table_add(sp_table *t, const sp_tier_key *key, const sp_disk_place *place,
                      uint32_t *of_segment)
{
    uint32_t i = t->free;
    if (i != SP_NO_ENTRY)
        t->free = t->entries.v[i].older;
    else
        i = (uint32_t)t->entries.n++;
    size_t slot = slot_of(t, key);
    assert(t->slots[slot] == 0);
    sp_entry *e = &t->entries.v[i];
    *e = (sp_entry){.key = *key, .place = *place, .next = *of_segment, .previous = SP_NO_ENTRY};
    if (*of_segment != SP_NO_ENTRY) t->entries.v[*of_segment].previous = i;
    *of_segment = i;
    t->slots[slot] = i + 1;
    t->n++;
    make_newest(t, i);
    return i;
}

void sp_table_remove(sp_table *t, uint32_t i, uint32_t *of_segment)
{
    sp_entry *e = &t->entries.v[i];
    free_slot(t, slot_of(t, &e->key));
    leave_order(t, i);
    if (e->next != SP_NO_ENTRY) t->entries.v[e->next].previous = e->previous;
    if (e->previous != SP_NO_ENTRY)
        t->entries.v[e->previous].next = e->next;
    else
        *of_segment = e->next;
    e->older = t->free;
    t->free = i;
    t->n--;
}

void sp_table_use(sp_table *t, uint32_t i)
{
    sp_disk_place *place = &t->entries.v[i].place;
    if (place->uses < SP_MOST_USES) place->uses++;
    sp_table_touch(t, i);
}

void sp_table_touch(sp_table *t, uint32_t i)
{
    if (t->newest == i) return;
    leave_order(t, i);
    make_newest(t, i);
}
