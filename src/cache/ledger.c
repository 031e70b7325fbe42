#include "cache/ledger.h"

#include <string.h>

#include "cache/ledger_int.h"

enum { BLOCKS_A_COPY = 4 }; /* about: sizes what policies remember */

/* -- create and destroy --------------------------------------------------------------------- */

static sp_err init(sp_ledger *l, const sp_ledger_opts *o)
{
    sp_evict_opts evict = {.name = o->evict,
                           .policy = o->policy,
                           .max_copies = SP_DIV_UP(o->max_blocks, BLOCKS_A_COPY),
                           .cost = o->cost,
                           .user = o->user};
    SP_TRY(sp_evict_init(&l->ready, &evict));
    evict.name = o->host_evict;
    evict.policy = NULL;
    SP_TRY(sp_order_init(&l->host, &evict));
    l->pool = o->pool;
    l->max_placed = o->max_placed;
    l->max_variants = o->max_variants;
    l->keeps = true;
    l->stats.max_blocks = o->max_blocks;
    l->n_holders = SP_NEW_N(uint32_t, (size_t)sp_kv_pool_n_blocks(o->pool));
    if (!l->n_holders)
        return sp_fail_nomem("the ledger of copies");
    l->ghosts = SP_NEW(sp_ghosts);
    if (!l->ghosts) return sp_fail_nomem("the ledger of copies");
    SP_TRY(sp_by_path_init(l));
    return sp_by_content_init(l);
}

sp_err sp_ledger_create(const sp_ledger_opts *o, sp_ledger **out)
{
    sp_ledger *l = SP_NEW(sp_ledger);
    if (!l) return sp_fail_nomem("the ledger of copies");
    sp_err err = init(l, o);
    if (err == SP_OK)
        *out = l;
    else
        sp_ledger_destroy(l);
    return err;
}

/* -- FREE copies ---------------------------------------------------------------------------- */

static sp_adopted name_of(const sp_copy *c)
{
    return (sp_adopted){.facts = c->facts};
}

void sp_ledger_enter(sp_ledger *l, sp_copy *c)
{
    c->index.slot = l->all.n;
    l->all.v[l->all.n++] = c;
    sp_evict_link(&l->free, c);
}

void sp_ledger_enter_path(sp_ledger *l, sp_copy *c)
{
    sp_by_path_add(l, c);
    if (!c->parent) return;
    c->sibling.next = c->parent->children.first;
    if (c->sibling.next) c->sibling.next->sibling.previous = c;
    c->parent->children.first = c;
}

void sp_ledger_leave_path(sp_ledger *l, sp_copy *c)
{
    sp_by_path_drop(l, c);
    if (c->sibling.next) c->sibling.next->sibling.previous = c->sibling.previous;
    if (c->sibling.previous)
        c->sibling.previous->sibling.next = c->sibling.next;
    else if (c->parent)
        c->parent->children.first = c->sibling.next;
    c->sibling.next = c->sibling.previous = NULL;
}

/* forget -- a FREE copy is gone; the tiers are told. Pre: no path copy continues it. */
static void forget(sp_ledger *l, sp_copy *c)
{
    assert(c->state == SP_COPY_FREE && c->n_pins == 0 && !c->children.first);
    if (c->facts.kind != SP_COPY_PATH)
        sp_by_content_drop(l, c);
    else
        sp_ledger_leave_path(l, c);
    sp_ledger_host_leave(l, c);
    sp_evict_unlink(&l->free, c);
    sp_copy *last = l->all.v[--l->all.n];
    l->all.v[c->index.slot] = last;
    last->index.slot = c->index.slot;
    sp_copy_empty(c);
    sp_free(c);
}

void sp_ledger_unplace(sp_ledger *l, sp_copy *c, unsigned places, bool tell)
{
    places &= c->places & SP_BELOW_DEVICE;
    c->places &= ~places;
    if (places & SP_AT_HOST) sp_ledger_host_leave(l, c);
    if (places && tell && l->tiers.useless) l->tiers.useless(l->tiers.user, c, places);
}

/* next_below -- walks the path copies that continue `root`: each one after those that continue it. */
static sp_copy *deepest(sp_copy *c)
{
    while (c->children.first) c = c->children.first;
    return c;
}

static sp_copy *next_below(const sp_copy *root, sp_copy *c)
{
    if (c->sibling.next) return deepest(c->sibling.next);
    return c->parent == root ? NULL : c->parent;
}

/* orphan -- a FREE path copy is in no tier: nothing that continues it can be read any more. Pins keep
 * the copies known until they are let go. */
static void orphan(sp_ledger *l, sp_copy *c)
{
    for (sp_copy *d = c->children.first ? deepest(c) : NULL, *next; d; d = next) {
        next = next_below(c, d);
        sp_ledger_unplace(l, d, ~0u, true);
        if (d->state == SP_COPY_FREE && d->n_pins == 0 && !d->children.first) forget(l, d);
    }
}

void sp_ledger_settle(sp_ledger *l, sp_copy *c)
{
    while (c && c->state == SP_COPY_FREE && c->places == 0) {
        sp_copy *parent = c->parent;
        orphan(l, c);
        if (c->n_pins || c->children.first) return;
        forget(l, c);
        c = parent;
    }
}

void sp_ledger_forget_oldest(sp_ledger *l)
{
    for (sp_copy *c = l->free.oldest; c && l->free.n > SP_LEDGER_MAX_FREE;) {
        sp_copy *end = deepest(c), *next = c->used.newer;
        bool may = end->state == SP_COPY_FREE && end->n_pins == 0 && end->places == SP_AT_DISK;
        if (may) forget(l, end);
        if (!may || end == c) c = next;
    }
}

/* -- on the device and off it --------------------------------------------------------------- */

void sp_ledger_count(sp_ledger *l, const sp_copy *c, int sign)
{
    const uint32_t *blocks = sp_ledger_own_blocks(c);
    for (int32_t i = 0; i < sp_copy_n_own_blocks(c); i++) {
        uint32_t *n = &l->n_holders[blocks[i]];
        if (sign < 0) --*n;
        l->stats.n_blocks += *n == 0 ? sign : 0;
        if (sign > 0) ++*n;
    }
    if (c->facts.kind == SP_COPY_PLACED) l->stats.n_placed += sign;
}

const uint32_t *sp_ledger_own_blocks(const sp_copy *c)
{
    return c->base ? c->patch.blocks : c->blocks;
}

uint64_t sp_ledger_name(const sp_copy *c)
{
    uint64_t key[3] = {c->parent ? c->parent->name : sp_copy_key_head(&c->facts), (uint64_t)c->facts.kind};
    memcpy(&key[2], c->facts.id.b, sizeof key[2]);
    return sp_hash64(key, sizeof key) | 1;
}

static void use(sp_ledger *l, sp_copy *c, int64_t now)
{
    sp_evict_use(&l->ready, c, now);
    sp_ledger_host_use(l, c, now);
}

void sp_ledger_become_ready(sp_ledger *l, sp_copy *c, double token_cost, int64_t now)
{
    sp_segment seg = {.tokens = c->tokens, .n = c->n, .id = c->facts.id, .tenant = c->tenant};
    c->state = SP_COPY_READY;
    c->places |= SP_AT_DEVICE;
    c->name = sp_ledger_name(c);
    sp_evict_add(&l->ready, c, token_cost, now);
    sp_ledger_host_use(l, c, now);
    for (sp_copy *p = c->parent; p; p = p->parent) use(l, p, now);
    if (c->facts.kind != SP_COPY_PATH) sp_ghosts_add(l->ghosts, &seg);
    l->stats.n_added++;
}

/* tell_evictable -- after a pin or a child has gone. */
static void tell_evictable(sp_ledger *l, sp_copy *c)
{
    if (!sp_copy_evictable(c)) return;
    sp_evict_back(&l->ready, c);
}

void sp_ledger_drop_pin(sp_ledger *l, sp_copy *c)
{
    assert(c->n_pins > 0);
    c->n_pins--;
    tell_evictable(l, c);
}

/* keep_name -- what a FREE copy still says of itself. Without memory a placed copy has no name, and no place. */
static void keep_name(sp_ledger *l, sp_copy *c)
{
    if (c->facts.kind == SP_COPY_PATH) {
        c->blocks = NULL, c->first = 0;
        return;
    }
    sp_copy_facts known;
    void *memory = c->places || c->n_pins ? sp_copy_known(&c->facts, &known) : NULL;
    if (!memory && c->facts.kind == SP_COPY_PLACED) sp_ledger_unplace(l, c, ~0u, true);
    sp_copy_fade(c, memory, &known);
}

void sp_ledger_become_free(sp_ledger *l, sp_copy *c)
{
    assert(c->children.n == 0 || c->state == SP_COPY_LOADING);
    if (c->state == SP_COPY_READY) sp_evict_drop(&l->ready, c);
    sp_kv_release(l->pool, sp_ledger_own_blocks(c), sp_copy_n_own_blocks(c));
    sp_ledger_count(l, c, -1);
    c->places &= ~(unsigned)SP_AT_DEVICE;
    if (c->base) sp_ledger_drop_pin(l, sp_ledger_own(l, c->base));
    if (c->parent) c->parent->children.n--, tell_evictable(l, c->parent);
    keep_name(l, c);
    c->state = SP_COPY_FREE;
    sp_evict_link(&l->free, c);
    if (c->places && c->facts.kind != SP_COPY_PATH) {
        sp_adopted name = name_of(c);
        const sp_copy *twin = sp_by_content_named(l, &name, c);
        if (twin && (twin->places & c->places) == c->places)
            sp_ledger_unplace(l, c, ~0u, false); /* one name, one copy */
    }
    sp_ledger_settle(l, c);
    sp_ledger_forget_oldest(l);
}

/* -- making room ---------------------------------------------------------------------------- */

static bool is_kept(const sp_copy *c)
{
    return c && (c->state == SP_COPY_READY || c->places & SP_AT_HOST);
}

/* is_known_otherwise -- a copy of another name serves where this one does: a path copy that directly follows the
 * head, and a plain copy (by_content.h). Then one of them goes to the host. */
static bool is_known_otherwise(const sp_ledger *l, const sp_copy *c)
{
    const sp_segment seg = {.kind = SP_SEG_CHUNK, .tokens = c->tokens, .n = c->n, .id = c->facts.id};
    if (c->base || sp_copy_is_measured(&c->facts) || c->facts.heavy) return false;
    if (c->facts.kind == SP_COPY_PLAIN)
        return is_kept(sp_by_path_after(l, c->facts.before, c->facts.n_before, &seg));
    const sp_copy *o = c->facts.kind == SP_COPY_PATH && !c->children.first ? sp_by_content_first(l, &seg.id) : NULL;
    while (o && (o->state != SP_COPY_READY || o->base || o->blocks[0] != c->blocks[0])) o = o->index.by_id;
    return o != NULL;
}

static bool evict(sp_ledger *l, sp_copy *c)
{
    if (!c) return false;
    assert(sp_copy_evictable(c)); /* I3 */
    if (l->keeps && l->tiers.leaving && !is_known_otherwise(l, c)) {
        c->n_pins++;
        l->tiers.leaving(l->tiers.user, c);
        c->n_pins--;
    }
    sp_ledger_become_free(l, c);
    l->stats.n_evicted++;
    return true;
}

enum { MAX_ASIDE = 64 }; /* retained copies that one eviction passes over */

/* evict_one -- the victim of the policy; retained copies stay if others can go. */
static bool evict_one(sp_ledger *l)
{
    sp_copy *aside[MAX_ASIDE], *c;
    int n = 0;
    while ((c = sp_evict_victim(&l->ready)) && c->retained_until > l->now_us && n < MAX_ASIDE) {
        c->n_pins++;
        aside[n++] = c;
    }
    for (int i = 0; i < n; i++) {
        aside[i]->n_pins--;
        sp_evict_back(&l->ready, aside[i]);
    }
    return evict(l, n && (!c || c->retained_until > l->now_us) ? aside[0] : c);
}

void sp_ledger_retain(sp_ledger *l, const sp_copy *c, int64_t until)
{
    sp_copy *own = sp_ledger_own(l, c);
    own->retained_until = SP_MAX(own->retained_until, until);
}

void sp_ledger_tick(sp_ledger *l, int64_t now_us)
{
    l->now_us = now_us;
}

bool sp_ledger_make_room(sp_ledger *l, int64_t n_blocks, sp_copy_kind kind)
{
    if (n_blocks > l->stats.max_blocks) return false;
    while (kind == SP_COPY_PLACED && l->stats.n_placed >= l->max_placed)
        if (!evict(l, sp_evict_placed_victim(&l->ready))) return false;
    while (l->stats.n_blocks + n_blocks > l->stats.max_blocks)
        if (!evict_one(l)) return false;
    return true;
}

bool sp_ledger_free_up(sp_ledger *l, int64_t n_blocks)
{
    while (sp_kv_pool_n_free(l->pool) < n_blocks)
        if (!evict_one(l)) return false;
    return true;
}

void sp_ledger_lose_device(sp_ledger *l)
{
    l->keeps = false;
    while (evict_one(l)) {
    }
    l->keeps = true;
}

/* drop_pinned -- a READY copy that only pins keep: patches before their bases, children before parents;
 * false: there is none. */
static bool drop_pinned(sp_ledger *l, bool patches)
{
    for (size_t i = 0; i < l->all.n; i++) {
        sp_copy *c = l->all.v[i];
        if (c->state != SP_COPY_READY || c->children.n || (patches && !c->base)) continue;
        sp_ledger_become_free(l, c);
        return true;
    }
    return false;
}

void sp_ledger_lose_pinned(sp_ledger *l)
{
    sp_ledger_lose_device(l);
    while (drop_pinned(l, true) || drop_pinned(l, false)) {
    }
}

static bool has_block(const sp_copy *c, uint32_t block)
{
    const uint32_t *blocks = c->base ? c->patch.blocks : c->blocks;
    for (int32_t i = 0; i < sp_copy_n_own_blocks(c); i++)
        if (blocks[i] == block) return true;
    return c->base && has_block(c->base, block);
}

static bool reads_block(const sp_copy *c, uint32_t block)
{
    for (; c; c = c->parent)
        if (c->state == SP_COPY_READY && has_block(c, block)) return true;
    return false;
}

void sp_ledger_lose_block(sp_ledger *l, uint32_t block)
{
    for (size_t i = 0; i < l->all.n;) {
        sp_copy *c = l->all.v[i++];
        if (!sp_copy_evictable(c) || !reads_block(c, block)) continue;
        sp_ledger_become_free(l, c);
        i = 0; /* what it continued or patched may go now */
    }
}

void sp_ledger_clear(sp_ledger *l)
{
    sp_ledger_lose_device(l);
    for (const sp_copy *c; (c = sp_ledger_host_victim(l));) {
        sp_copy *own = sp_ledger_own(l, c);
        sp_ledger_unplace(l, own, SP_AT_HOST, true);
        sp_ledger_settle(l, own);
    }
}

void sp_ledger_destroy(sp_ledger *l)
{
    if (!l) return;
    l->tiers = (sp_ledger_tiers){0};
    if (l->all.n) sp_ledger_clear(l);
    while (l->free.oldest) forget(l, deepest(l->free.oldest));
    assert(l->all.n == 0); /* nothing is pinned, nothing is loading */
    sp_by_path_fini(l);
    sp_by_content_fini(l);
    sp_order_fini(&l->host);
    sp_vec_fini(&l->all);
    sp_evict_fini(&l->ready);
    sp_free(l->ghosts);
    sp_free(l->n_holders);
    sp_free(l);
}

void sp_ledger_drop(sp_ledger *l, const sp_copy *dropped)
{
    sp_copy *c = sp_ledger_own(l, dropped);
    assert(c->n_pins == 0 && c->children.n == 0 && c->state != SP_COPY_LOADING);
    sp_ledger_unplace(l, c, ~0u, true); /* so it is gone, and not FREE */
    if (c->state == SP_COPY_READY)
        sp_ledger_become_free(l, c);
    else
        sp_ledger_settle(l, c);
}

void sp_ledger_forget(sp_ledger *l, const sp_digest *id)
{
    sp_ghosts_drop(l->ghosts, id);
}

/* -- use ------------------------------------------------------------------------------------ */

void sp_ledger_touch(sp_ledger *l, sp_copy *c, int64_t now)
{
    if (c->base) use(l, sp_ledger_own(l, c->base), now);
    for (; c; c = c->parent) use(l, c, now);
}

void sp_ledger_use(sp_ledger *l, const sp_copy *used, float cfo, int64_t now)
{
    sp_copy *c = sp_ledger_own(l, used);
    c->uses.worth += cfo > 1 / SP_MOST_WORTH ? 1 / cfo : SP_MOST_WORTH;
    if (c->state == SP_COPY_READY) sp_ledger_touch(l, c, now);
}

bool sp_ledger_looks_ahead(const sp_ledger *l)
{
    return l->ready.policy->looks_ahead || l->host.evict.policy->looks_ahead;
}

void sp_ledger_look(sp_ledger *l)
{
    sp_evict_look(&l->ready);
    sp_evict_look(&l->host.evict);
}

void sp_ledger_expect(sp_ledger *l, const sp_copy *expected, float weight)
{
    sp_copy *c = sp_ledger_own(l, expected);
    sp_evict_expect(&l->ready, c, weight);
    if (c->host) sp_evict_expect(&l->host.evict, c->host, weight);
}

void sp_ledger_pin(sp_ledger *l, const sp_copy *c)
{
    sp_ledger_own(l, c)->n_pins++;
}

void sp_ledger_unpin(sp_ledger *l, const sp_copy *pinned)
{
    sp_copy *c = sp_ledger_own(l, pinned);
    sp_ledger_drop_pin(l, c);
    sp_ledger_settle(l, c);
    sp_ledger_forget_oldest(l);
}

/* -- the rest ------------------------------------------------------------------------------- */

const sp_copy *sp_ledger_next(const sp_ledger *l, const sp_copy *c)
{
    size_t i = c ? c->index.slot + 1 : 0;
    return i < l->all.n ? l->all.v[i] : NULL;
}

sp_ledger_stats sp_ledger_stats_of(const sp_ledger *l)
{
    sp_ledger_stats stats = l->stats;
    stats.n_copies = (int64_t)l->all.n;
    stats.n_free = l->free.n;
    return stats;
}

void sp_ledger_uncount(sp_ledger *l, const sp_ledger_stats *before)
{
    l->stats.n_lookups = before->n_lookups;
    l->stats.n_hits = before->n_hits;
    l->stats.tokens_looked_up = before->tokens_looked_up;
    l->stats.tokens_hit = before->tokens_hit;
}
