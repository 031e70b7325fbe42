#include "serve/tiers/disk_order.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "cache/order.h"
#include "store/sweep.h"

enum { FEWEST_SLOTS = 64, REMEMBERED = 1 << 16 /* copies: sizes the past of a policy */ };

/* A name on disk, pinned by sp_disk_order_hold and sp_disk_order_begin. */
typedef struct entry {
    sp_copy copy; /* first: its stand-in */
    sp_tier_key key;
    bool held;
} entry;

struct sp_disk_order {
    pthread_mutex_t lock; /* guards the following */
    sp_order by_policy;
    entry **slots; /* [n_slots] by key, open addressing, at most 3/4 full; NULL: free */
    size_t n_slots, n;
    int64_t now;
    SP_VEC(sp_digest) held;        /* sorted */
    sp_tier_key coming, continues; /* a put that is under way, and what its copy continues ... */
    entry *guarded;                /* ... pinned until it is over; NULL: none */
    bool is_coming;
};

/* -- look-up -------------------------------------------------------------------------------- */

static uint64_t hash_of(const sp_tier_key *key)
{
    uint64_t h;
    memcpy(&h, key->id.b, sizeof h); /* of a hash */
    return h ^ key->head ^ key->kind;
}

static bool same_key(const sp_tier_key *a, const sp_tier_key *b)
{
    return a->kind == b->kind && a->head == b->head && sp_digest_eq(&a->id, &b->id);
}

/* slot_of -- the slot of a key, or the free slot for it. Pre: there are slots. */
static size_t slot_of(const sp_disk_order *o, const sp_tier_key *key)
{
    size_t i = (size_t)hash_of(key) & (o->n_slots - 1);
    while (o->slots[i] && !same_key(&o->slots[i]->key, key)) i = (i + 1) & (o->n_slots - 1);
    return i;
}

static entry *find(const sp_disk_order *o, const sp_tier_key *key)
{
    return o->n_slots ? o->slots[slot_of(o, key)] : NULL;
}

static sp_copy *copy_of(entry *e)
{
    return e ? &e->copy : NULL;
}

static sp_err grow(sp_disk_order *o)
{
    sp_disk_order larger = {.n_slots = o->n_slots ? 2 * o->n_slots : FEWEST_SLOTS};
    larger.slots = SP_NEW_N(entry *, larger.n_slots);
    if (!larger.slots) return sp_fail_nomem("the store's order");
    for (size_t i = 0; i < o->n_slots; i++)
        if (o->slots[i]) larger.slots[slot_of(&larger, &o->slots[i]->key)] = o->slots[i];
    sp_free(o->slots);
    o->slots = larger.slots;
    o->n_slots = larger.n_slots;
    return SP_OK;
}

/* free_slot -- moves the following entries up, unless that would put them before their home slot. */
static void free_slot(sp_disk_order *o, size_t gap)
{
    const size_t mask = o->n_slots - 1;
    for (size_t i = (gap + 1) & mask; o->slots[i]; i = (i + 1) & mask) {
        size_t from_home = (i - (size_t)hash_of(&o->slots[i]->key)) & mask;
        if (from_home < ((i - gap) & mask)) continue;
        o->slots[gap] = o->slots[i];
        gap = i;
    }
    o->slots[gap] = NULL;
}

static void set_held(sp_disk_order *o, entry *e, bool held)
{
    if (held && !e->held) sp_order_pin(&e->copy);
    if (!held && e->held) sp_order_unpin(&o->by_policy, &e->copy);
    e->held = held;
}

/* -- the tier's hooks ----------------------------------------------------------------------- */

static sp_err new_entry(sp_disk_order *o, const sp_tier_info *info, entry **out)
{
    if (4 * (o->n + 1) > 3 * o->n_slots) SP_TRY(grow(o));
    SP_TRY(sp_order_reserve(&o->by_policy));
    entry *e = SP_NEW(entry);
    if (!e) return sp_fail_nomem("the store's order");
    const uint64_t name[3] = {hash_of(&info->key), info->key.head, info->key.kind};
    e->key = info->key;
    e->copy = (sp_copy){.facts.kind = (sp_copy_kind)info->key.kind,
                        .facts.id = info->key.id,
                        .facts.head = info->key.head,
                        .n = info->n,
                        .state = SP_COPY_READY,
                        .places = SP_AT_DISK,
                        .facts.cost_us = info->cost_us,
                        .uses.n = info->n_uses,
                        .uses.recent = info->n_uses > 0 ? log2((double)info->n_uses) : 0, /* all at time 0 */
                        .uses.worth = 1 + (float)info->n_uses,
                        .name = sp_hash64(name, sizeof name)};
    *out = e;
    return SP_OK;
}

/* add -- adds a copy. Out of memory: the copy stays on disk until it is replaced. */
static void add(void *user, const sp_tier_info *info)
{
    sp_disk_order *o = user;
    entry *e;
    pthread_mutex_lock(&o->lock);
    e = find(o, &info->key);
    sp_err err = e ? SP_OK : new_entry(o, info, &e);
    if (err == SP_OK && !find(o, &info->key)) {
        o->slots[slot_of(o, &e->key)] = e;
        o->n++;
        if (o->is_coming && same_key(&e->key, &o->coming))
            sp_order_follow(&o->by_policy, &e->copy, copy_of(find(o, &o->continues)));
        set_held(o, e, sp_digest_among(&e->key.id, o->held.v, o->held.n));
        sp_order_add(&o->by_policy, &e->copy, ++o->now);
    }
    if (err == SP_OK) {
        e->copy.n = info->n;
        e->copy.facts.cost_us = info->cost_us;
    }
    pthread_mutex_unlock(&o->lock);
    if (err != SP_OK) sp_log(SP_LOG_DEBUG, "the order of use lacks a copy: %s", sp_error_detail());
}

static void use(void *user, const sp_tier_key *key, bool counts)
{
    sp_disk_order *o = user;
    pthread_mutex_lock(&o->lock);
    entry *e = find(o, key);
    if (e && counts)
        sp_order_use(&o->by_policy, &e->copy, ++o->now);
    else if (e)
        sp_order_touch(&o->by_policy, &e->copy);
    pthread_mutex_unlock(&o->lock);
}

static void remove_entry(sp_disk_order *o, entry *e)
{
    if (o->guarded == e) o->guarded = NULL;
    sp_order_drop(&o->by_policy, &e->copy);
    free_slot(o, slot_of(o, &e->key));
    o->n--;
    sp_free(e);
}

static void gone(void *user, const sp_tier_key *key)
{
    sp_disk_order *o = user;
    pthread_mutex_lock(&o->lock);
    entry *e = find(o, key);
    if (e) remove_entry(o, e);
    pthread_mutex_unlock(&o->lock);
}

static bool victim(void *user, sp_tier_key *out)
{
    sp_disk_order *o = user;
    pthread_mutex_lock(&o->lock);
    const entry *e = (const entry *)(void *)sp_order_victim(&o->by_policy, NULL);
    if (e) *out = e->key;
    pthread_mutex_unlock(&o->lock);
    return e != NULL;
}

/* coming -- called around a put of `key`: pins the parent, which the new copy follows. */
static void coming(void *user, const sp_tier_key *key, const sp_tier_key *parent)
{
    sp_disk_order *o = user;
    pthread_mutex_lock(&o->lock);
    if (o->guarded) sp_order_unpin(&o->by_policy, &o->guarded->copy);
    o->is_coming = key != NULL;
    o->guarded = key ? find(o, parent) : NULL;
    if (key) o->coming = *key;
    if (key) o->continues = *parent;
    if (o->guarded) sp_order_pin(&o->guarded->copy);
    pthread_mutex_unlock(&o->lock);
}

sp_tier_evict sp_disk_order_hooks(sp_disk_order *o)
{
    return (sp_tier_evict){.victim = victim,
                           .added = add,
                           .used = use,
                           .removed = gone,
                           .coming = coming,
                           .user = o};
}

/* -- create and destroy --------------------------------------------------------------------- */

sp_err sp_disk_order_create(const char *evict, const sp_cost *cost, sp_disk_order **out)
{
    sp_disk_order *o = SP_NEW(sp_disk_order);
    if (!o) return sp_fail_nomem("the store's order");
    pthread_mutex_init(&o->lock, NULL);
    sp_err err = sp_order_init(
        &o->by_policy, &(sp_evict_opts){.name = evict, .max_copies = REMEMBERED, .cost = cost});
    if (err != SP_OK) {
        sp_disk_order_destroy(o);
        return err;
    }
    *out = o;
    return SP_OK;
}

void sp_disk_order_destroy(sp_disk_order *o)
{
    if (!o) return;
    for (size_t i = 0; i < o->n_slots; i++) sp_free(o->slots[i]);
    sp_free(o->slots);
    sp_vec_fini(&o->held);
    sp_order_fini(&o->by_policy);
    pthread_mutex_destroy(&o->lock);
    sp_free(o);
}

/* -- what others say ------------------------------------------------------------------------ */

void sp_disk_order_worth(sp_disk_order *o, const sp_tier_key *key, float worth)
{
    pthread_mutex_lock(&o->lock);
    entry *e = find(o, key);
    if (e) e->copy.uses.worth = SP_MAX(e->copy.uses.worth, worth);
    pthread_mutex_unlock(&o->lock);
}

bool sp_disk_order_looks_ahead(const sp_disk_order *o)
{
    return o->by_policy.evict.policy->looks_ahead;
}

void sp_disk_order_look(sp_disk_order *o)
{
    pthread_mutex_lock(&o->lock);
    sp_evict_look(&o->by_policy.evict);
    pthread_mutex_unlock(&o->lock);
}

void sp_disk_order_expect(sp_disk_order *o, const sp_tier_key *key, float weight)
{
    pthread_mutex_lock(&o->lock);
    entry *e = find(o, key);
    if (e) sp_evict_expect(&o->by_policy.evict, &e->copy, weight);
    pthread_mutex_unlock(&o->lock);
}

void sp_disk_order_follows(sp_disk_order *o, const sp_tier_key *key, const sp_tier_key *parent)
{
    pthread_mutex_lock(&o->lock);
    sp_order_follow(&o->by_policy, copy_of(find(o, key)), copy_of(find(o, parent)));
    pthread_mutex_unlock(&o->lock);
}

sp_err sp_disk_order_hold(sp_disk_order *o, const sp_digest *ids, size_t n)
{
    pthread_mutex_lock(&o->lock);
    sp_err err = n > o->held.cap ? sp_vec_reserve(&o->held, n) : SP_OK;
    if (err == SP_OK) {
        if (n) memcpy(o->held.v, ids, n * sizeof *ids);
        o->held.n = n;
    }
    for (size_t i = 0; err == SP_OK && i < o->n_slots; i++)
        if (o->slots[i]) set_held(o, o->slots[i], sp_digest_among(&o->slots[i]->key.id, ids, n));
    pthread_mutex_unlock(&o->lock);
    return err;
}
