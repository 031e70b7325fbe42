#include "cache/ledger.h"

#include <math.h>
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
    SP_TRY(sp_order_init(&l->host, o->host_evict));
    l->pool = o->pool;
    l->ending.which = 2;
    l->max_placed = o->max_placed;
    l->keeps = true;
    l->stats.max_blocks = o->max_blocks;
    l->ghosts = SP_NEW(sp_ghosts);
    if (!l->ghosts) return sp_fail_nomem(sizeof *l->ghosts, "the ledger of copies");
    SP_TRY(sp_by_path_init(l));
    return sp_by_content_init(l);
}

sp_err sp_ledger_create(const sp_ledger_opts *o, sp_ledger **out)
{
    sp_ledger *l = SP_NEW(sp_ledger);
    if (!l) return sp_fail_nomem(sizeof *l, "the ledger of copies");
    sp_err err = init(l, o);
    if (err == SP_OK)
        *out = l;
    else
        sp_ledger_destroy(l);
    return err;
}

/* -- FREE copies ---------------------------------------------------------------------------- */

static bool tiers_may_have(const sp_copy *c)
{
    return c->kind != SP_COPY_PLACED && !c->base;
}

static sp_adopted name_of(const sp_copy *c)
{
    return (sp_adopted){.id = c->id, .kind = c->kind, .head = c->head};
}

/* enter -- a new copy among all; FREE, in no index yet. Pre: sp_vec_reserve. */
static void enter(sp_ledger *l, sp_copy *c)
{
    c->slot = l->all.n;
    l->all.v[l->all.n++] = c;
    sp_evict_link(&l->free, c);
}

/* enter_path, leave_path -- the index, and the list of what continues the parent. */
static void enter_path(sp_ledger *l, sp_copy *c)
{
    sp_by_path_add(l, c);
    if (!c->parent) return;
    c->sibling.next = c->parent->first_child;
    if (c->sibling.next) c->sibling.next->sibling.previous = c;
    c->parent->first_child = c;
}

static void leave_path(sp_ledger *l, sp_copy *c)
{
    sp_by_path_drop(l, c);
    if (c->sibling.next) c->sibling.next->sibling.previous = c->sibling.previous;
    if (c->sibling.previous)
        c->sibling.previous->sibling.next = c->sibling.next;
    else if (c->parent)
        c->parent->first_child = c->sibling.next;
    c->sibling.next = c->sibling.previous = NULL;
}

/* forget -- a FREE copy is gone; the tiers are told. Pre: no path copy continues it. */
static void forget(sp_ledger *l, sp_copy *c)
{
    assert(c->state == SP_COPY_FREE && c->n_pins == 0 && !c->first_child);
    if (c->kind != SP_COPY_PATH)
        sp_by_content_drop(l, c);
    else
        leave_path(l, c);
    sp_order_drop(&l->host, c);
    sp_evict_unlink(&l->free, c);
    sp_copy *last = l->all.v[--l->all.n];
    l->all.v[c->slot] = last;
    last->slot = c->slot;
    sp_copy_empty(c);
    sp_free(c);
}

/* unplace -- a copy loses places below the device; with `tell`, its tiers have the bytes still. */
static void unplace(sp_ledger *l, sp_copy *c, unsigned places, bool tell)
{
    places &= c->places & ~(unsigned)SP_AT_DEVICE;
    c->places &= ~places;
    if (places & SP_AT_HOST) sp_order_drop(&l->host, c);
    if (places && tell && l->tiers.useless) l->tiers.useless(l->tiers.user, c, places);
}

/* next_below -- walks the path copies that continue `root`: each one after those that continue it. */
static sp_copy *deepest(sp_copy *c)
{
    while (c->first_child) c = c->first_child;
    return c;
}

static sp_copy *next_below(const sp_copy *root, sp_copy *c)
{
    if (c->sibling.next) return deepest(c->sibling.next);
    return c->parent == root ? NULL : c->parent;
}

static void settle(sp_ledger *l, sp_copy *c);

/* orphan -- a FREE path copy is in no tier: nothing that continues it can be read any more. Pins keep
 * the copies known until they are let go. */
static void orphan(sp_ledger *l, sp_copy *c)
{
    for (sp_copy *d = c->first_child ? deepest(c) : NULL, *next; d; d = next) {
        next = next_below(c, d);
        unplace(l, d, ~0u, true);
        if (d->state == SP_COPY_FREE && d->n_pins == 0 && !d->first_child) forget(l, d);
    }
}

/* settle -- a copy that nobody pins and no tier has is gone; then its parent may be. */
static void settle(sp_ledger *l, sp_copy *c)
{
    while (c && c->state == SP_COPY_FREE && c->places == 0) {
        sp_copy *parent = c->parent;
        orphan(l, c);
        if (c->n_pins || c->first_child) return;
        forget(l, c);
        c = parent;
    }
}

/* forget_oldest -- I6; pinned ones stay. */
static void forget_oldest(sp_ledger *l)
{
    for (sp_copy *c = l->free.oldest; c && l->free.n > SP_LEDGER_MAX_FREE;) {
        sp_copy *end = deepest(c), *next = c->used.newer;
        bool may = end->state == SP_COPY_FREE && end->n_pins == 0 && end->places == SP_AT_DISK;
        if (may) forget(l, end);
        if (!may || end == c) c = next;
    }
}

/* -- on the device and off it --------------------------------------------------------------- */

/* count -- own blocks enter (1) or leave (-1) the sums. */
static void count(sp_ledger *l, const sp_copy *c, int sign)
{
    l->stats.n_blocks += sign * sp_copy_n_own_blocks(c);
    if (c->kind == SP_COPY_PLACED) l->stats.n_placed += sign;
}

static const uint32_t *own_blocks(const sp_copy *c)
{
    return c->base ? c->patch_blocks : c->blocks;
}

/* name -- what a policy remembers the copy by: of a path copy the whole path is in it. */
static uint64_t name(const sp_copy *c)
{
    uint64_t key[3] = {c->parent ? c->parent->name : c->head, (uint64_t)c->kind};
    memcpy(&key[2], c->id.b, sizeof key[2]);
    return sp_hash64(key, sizeof key) | 1;
}

/* become_ready -- Pre: sealed blocks that are counted, and no list has the copy. */
static void become_ready(sp_ledger *l, sp_copy *c, int64_t now)
{
    sp_segment seg = {.tokens = c->tokens, .n = c->n, .id = c->id, .tenant = c->tenant};
    c->state = SP_COPY_READY;
    c->places |= SP_AT_DEVICE;
    c->name = name(c);
    sp_evict_add(&l->ready, c, now);
    for (sp_copy *p = c->parent; p; p = p->parent) sp_evict_use(&l->ready, p, now);
    if (c->kind != SP_COPY_PATH) sp_ghosts_add(l->ghosts, &seg);
    l->stats.n_added++;
}

/* tell_evictable -- after a pin or a child has gone. */
static void tell_evictable(sp_ledger *l, sp_copy *c)
{
    if (!sp_copy_evictable(c)) return;
    sp_evict_back(&l->ready, c);
    if (c->expires) sp_rank_back(&l->ending, c);
}

static void drop_pin(sp_ledger *l, sp_copy *c)
{
    assert(c->n_pins > 0);
    c->n_pins--;
    tell_evictable(l, c);
}

/* keep_name -- what a FREE copy still says of itself. */
static void keep_name(sp_copy *c)
{
    if (c->kind == SP_COPY_PATH)
        c->blocks = NULL;
    else
        sp_copy_empty(c);
}

/* become_free -- a READY copy, or one whose load has failed, loses its blocks; the pointer is dead
 * afterwards unless it is pinned. */
static void become_free(sp_ledger *l, sp_copy *c)
{
    assert(c->n_children == 0 || c->state == SP_COPY_LOADING);
    if (c->state == SP_COPY_READY) sp_evict_drop(&l->ready, c);
    sp_rank_drop(&l->ending, c);
    c->expires = 0;
    sp_kv_release(l->pool, own_blocks(c), sp_copy_n_own_blocks(c));
    count(l, c, -1);
    c->places &= ~(unsigned)SP_AT_DEVICE;
    if (!tiers_may_have(c)) c->places = 0;
    if (c->base) drop_pin(l, sp_ledger_own(l, c->base));
    if (c->parent) c->parent->n_children--, tell_evictable(l, c->parent);
    keep_name(c);
    c->state = SP_COPY_FREE;
    sp_evict_link(&l->free, c);
    if (c->places && c->kind != SP_COPY_PATH) {
        sp_adopted name = name_of(c);
        const sp_copy *twin = sp_by_content_named(l, &name, c);
        if (twin && (twin->places & c->places) == c->places)
            unplace(l, c, ~0u, false); /* one name, one copy */
    }
    settle(l, c);
    forget_oldest(l);
}

/* -- making room ---------------------------------------------------------------------------- */

static bool evict(sp_ledger *l, sp_copy *c)
{
    if (!c) return false;
    assert(sp_copy_evictable(c)); /* I3 */
    if (l->keeps && l->tiers.leaving && tiers_may_have(c)) {
        c->n_pins++;
        l->tiers.leaving(l->tiers.user, c);
        c->n_pins--;
    }
    become_free(l, c);
    l->stats.n_evicted++;
    return true;
}

static bool evict_one(sp_ledger *l)
{
    return evict(l, sp_evict_victim(&l->ready));
}

/* make_room -- evicts until n_blocks more fit the budgets (I4, I5); false when size or pins forbid
 * it. */
static bool make_room(sp_ledger *l, int64_t n_blocks, sp_copy_kind kind)
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

void sp_ledger_clear(sp_ledger *l)
{
    sp_ledger_lose_device(l);
    for (const sp_copy *c; (c = sp_ledger_host_victim(l));) {
        sp_copy *own = sp_ledger_own(l, c);
        unplace(l, own, SP_AT_HOST, true);
        settle(l, own);
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
    sp_rank_fini(&l->ending);
    sp_free(l->ghosts);
    sp_free(l);
}

void sp_ledger_drop(sp_ledger *l, const sp_copy *dropped)
{
    sp_copy *c = sp_ledger_own(l, dropped);
    assert(c->n_pins == 0 && c->n_children == 0 && c->state != SP_COPY_LOADING);
    unplace(l, c, ~0u, true); /* so it is gone, and not FREE */
    if (c->state == SP_COPY_READY)
        become_free(l, c);
    else
        settle(l, c);
}

void sp_ledger_forget(sp_ledger *l, const sp_digest *id)
{
    sp_ghosts_drop(l->ghosts, id);
}

/* -- use ------------------------------------------------------------------------------------ */

void sp_ledger_touch(sp_ledger *l, sp_copy *c, int64_t now)
{
    if (c->base) sp_evict_use(&l->ready, sp_ledger_own(l, c->base), now);
    for (; c; c = c->parent) sp_evict_use(&l->ready, c, now);
}

void sp_ledger_use(sp_ledger *l, const sp_copy *used, float cfo, int64_t now)
{
    sp_copy *c = sp_ledger_own(l, used);
    c->worth += cfo > 1 / SP_MOST_WORTH ? 1 / cfo : SP_MOST_WORTH;
    if (c->state == SP_COPY_READY) sp_ledger_touch(l, c, now);
}

sp_err sp_ledger_expire_at(sp_ledger *l, const sp_copy *expiring, int64_t when)
{
    sp_copy *c = sp_ledger_own(l, expiring);
    assert(c->state == SP_COPY_READY);
    SP_TRY(sp_rank_reserve(&l->ending, l->all.n));
    c->expires = when;
    if (when)
        sp_rank_put(&l->ending, c, (double)when);
    else
        sp_rank_drop(&l->ending, c);
    return SP_OK;
}

void sp_ledger_expire(sp_ledger *l, int64_t now)
{
    for (sp_copy *c; (c = sp_rank_least(&l->ending)) && c->expires <= now;) {
        unplace(l, c, ~0u, true);
        l->keeps = false;
        evict(l, c);
        l->keeps = true;
    }
}

bool sp_ledger_looks_ahead(const sp_ledger *l)
{
    return l->ready.policy->looks_ahead;
}

void sp_ledger_look(sp_ledger *l)
{
    sp_evict_look(&l->ready);
}

void sp_ledger_expect(sp_ledger *l, const sp_copy *expected, float weight)
{
    sp_copy *c = sp_ledger_own(l, expected);
    if (c->expected_look != l->ready.look) c->expected = 0;
    c->expected_look = l->ready.look;
    c->expected += weight;
    sp_evict_expect(&l->ready, c);
}

void sp_ledger_pin(sp_ledger *l, const sp_copy *c)
{
    sp_ledger_own(l, c)->n_pins++;
}

void sp_ledger_unpin(sp_ledger *l, const sp_copy *pinned)
{
    sp_copy *c = sp_ledger_own(l, pinned);
    drop_pin(l, c);
    settle(l, c);
    forget_oldest(l);
}

/* -- add ------------------------------------------------------------------------------------ */

static sp_err check_spec(const sp_copy_spec *spec)
{
    const sp_copy *p = spec->parent;
    if (spec->n_head > spec->n_before)
        return sp_fail(SP_E_ARG, "copy: %d segments before it, but %d of its head", spec->n_before,
                       spec->n_head);
    if (spec->kind != SP_COPY_PATH)
        return p ? sp_fail(SP_E_ARG, "copy: only a path copy has a parent") : SP_OK;
    if (!spec->exact && !spec->seg->origin)
        return sp_fail(SP_E_ARG, "copy: a path copy must be exact");
    if (spec->base) return sp_fail(SP_E_ARG, "copy: a path copy cannot be a patch");
    if (p && (p->kind != SP_COPY_PATH || p->state != SP_COPY_READY))
        return sp_fail(SP_E_ARG, "copy: the parent of a path copy must be a READY path copy");
    return SP_OK;
}

/* knows_as_much -- whether there is nothing to learn from the new copy. */
static bool knows_as_much(const sp_copy *c, const sp_copy_spec *spec)
{
    return c->kind == SP_COPY_PATH || ((c->stats || !spec->stats) && (c->heavy || !spec->heavy));
}

/* existing -- the copy that the new one is or replaces: READY, or FREE of its name; or NULL. */
static sp_copy *existing(const sp_ledger *l, const sp_copy_spec *spec, uint64_t head)
{
    if (spec->kind == SP_COPY_PATH) return sp_by_path_child(l, spec->parent, spec->seg);
    sp_copy *c = sp_by_content_same(l, spec);
    if (c && (c->n_pins == 0 || knows_as_much(c, spec))) return c;
    if (spec->base) return NULL;
    sp_adopted name = {.id = spec->seg->id, .kind = spec->kind, .head = head};
    c = sp_by_content_named(l, &name, c);
    return c && c->state == SP_COPY_FREE ? c : NULL;
}

/* drop_replaced -- the older copies fused with other chunks that nobody reads now; their places go
 * to the new one, since a tier has one copy of a name. */
static void drop_replaced(sp_ledger *l, sp_copy *by)
{
    for (sp_copy *c = sp_by_content_first(l, &by->id), *next; c; c = next) {
        next = c->next_by_id;
        if (c == by || c->kind != SP_COPY_FUSED || c->head != by->head || !sp_copy_evictable(c) ||
            !sp_digest_eq(&c->id, &by->id))
            continue;
        unplace(l, c, SP_AT_HOST, true);
        by->places |= c->places;
        c->places = SP_AT_DEVICE; /* so it is gone, and no other copy with it */
        become_free(l, c);
    }
}

/* new_copy -- memory for it, and room in the list and in the indices. */
static sp_err new_copy(sp_ledger *l, sp_copy_kind kind, sp_copy **out)
{
    SP_TRY(sp_vec_reserve(&l->all, 1));
    SP_TRY(sp_evict_reserve(&l->ready, l->all.n + 1));
    SP_TRY(kind == SP_COPY_PATH ? sp_by_path_reserve(l) : sp_by_content_reserve(l));
    SP_TRY(sp_order_reserve(&l->host, l->all.n + 1));
    sp_copy *c = SP_NEW(sp_copy);
    if (!c) return sp_fail_nomem(sizeof *c, "a cached copy");
    c->kind = kind;
    c->worth = 1;
    *out = c;
    return SP_OK;
}

/* make_room_for -- makes room without dropping what the new copy continues or patches. */
static bool make_room_for(sp_ledger *l, const sp_copy_spec *spec)
{
    if (spec->parent) sp_ledger_pin(l, spec->parent);
    if (spec->base) sp_ledger_pin(l, spec->base);
    bool fits = make_room(l, sp_blocks_for(spec->base ? spec->n_patch : spec->seg->n), spec->kind);
    if (spec->parent) sp_ledger_unpin(l, spec->parent);
    if (spec->base) sp_ledger_unpin(l, spec->base);
    return fits;
}

/* take_contents -- a FREE copy becomes READY with what was computed. Pre: there is room. */
static void take_contents(sp_ledger *l, sp_copy *c, sp_copy *from, const sp_copy_spec *spec,
                          int64_t now)
{
    const uint32_t *blocks = own_blocks(from);
    int32_t n = sp_copy_n_own_blocks(from);
    const bool path = c->kind == SP_COPY_PATH, is_new = !c->memory;
    for (int32_t i = 0; i < n; i++) assert(sp_kv_is_sealed(l->pool, blocks[i])); /* I1 */
    sp_kv_retain(l->pool, blocks, n);
    sp_evict_unlink(&l->free, c);
    if (path && !is_new) leave_path(l, c); /* one that was adopted learns its tenant */
    sp_copy_empty(c);
    sp_copy_move_contents(c, from);
    c->head = spec->kind == SP_COPY_PATH ? 0 : sp_head_key(spec->before, spec->n_head);
    if (c->base) sp_ledger_own(l, c->base)->n_pins++;
    if (spec->parent) {
        c->parent = sp_ledger_own(l, spec->parent);
        c->parent->n_children++;
        if (c->exact) c->at = c->parent->at + c->parent->n;
    }
    count(l, c, 1);
    if (path) enter_path(l, c);
    become_ready(l, c, now);
}

sp_err sp_ledger_add(sp_ledger *l, const sp_copy_spec *spec, int64_t now, const sp_copy **out)
{
    SP_TRY(check_spec(spec));
    bool path = spec->kind == SP_COPY_PATH;
    sp_copy contents = {0};
    sp_copy *c = existing(l, spec, path ? 0 : sp_head_key(spec->before, spec->n_head));
    if (c && c->state == SP_COPY_READY && knows_as_much(c, spec)) {
        sp_ledger_touch(l, c, now);
        *out = c;
        return SP_OK;
    }
    bool is_new = !c;
    if (c && c->state == SP_COPY_LOADING) {
        *out = NULL; /* a path copy: whoever loads it will have it */
        return SP_OK;
    }
    SP_TRY(sp_copy_fill(&contents, spec));
    sp_err err = is_new ? new_copy(l, spec->kind, &c) : SP_OK;
    if (err != SP_OK) {
        sp_copy_empty(&contents);
        return err;
    }
    c->n_pins++;
    if (c->state == SP_COPY_READY)
        become_free(l, c); /* the new one was measured, this one was not */
    bool fits = make_room_for(l, spec);
    if (fits && is_new) {
        c->id = spec->seg->id;
        c->tenant = spec->seg->tenant;
        enter(l, c);
        if (!path) sp_by_content_add(l, c);
    }
    if (fits) take_contents(l, c, &contents, spec, now);
    drop_pin(l, c);
    if (fits && c->kind == SP_COPY_FUSED) drop_replaced(l, c);
    sp_copy_empty(&contents);
    *out = fits ? c : NULL;
    if (!fits && is_new)
        sp_free(c);
    else
        settle(l, c);
    return SP_OK;
}

/* -- lower tiers ---------------------------------------------------------------------------- */

void sp_ledger_set_tiers(sp_ledger *l, const sp_ledger_tiers *tiers)
{
    l->tiers = *tiers;
}

static void adopt_uses(sp_copy *c, int64_t n_uses)
{
    if (c->n_uses || n_uses <= 0) return;
    c->n_uses = n_uses;
    c->recent = log2((double)n_uses); /* as if all of them were at time 0 */
}

sp_err sp_ledger_adopt(sp_ledger *l, const sp_adopted *a)
{
    if (a->kind != SP_COPY_PLAIN && a->kind != SP_COPY_FUSED)
        return sp_fail(SP_E_ARG, "adopted copy: kind %d is kept by no tier", (int)a->kind);
    if (a->place == SP_AT_DEVICE)
        return sp_fail(SP_E_ARG, "adopted copy: a copy on the device is added, not adopted");
    sp_copy *c = sp_by_content_named(l, a, NULL);
    if (!c) {
        SP_TRY(new_copy(l, a->kind, &c));
        c->id = a->id;
        c->head = a->head;
        enter(l, c);
        sp_by_content_add(l, c);
    }
    if (a->place == SP_AT_HOST) sp_order_add(&l->host, c);
    c->places |= a->place;
    c->stored.stats |= a->measured;
    c->stored.heavy |= a->heavy;
    if (a->cost_us > 0) c->cost_us = a->cost_us;
    adopt_uses(c, a->n_uses);
    l->stats.n_added++;
    forget_oldest(l);
    return SP_OK;
}

/* unknown_tenant -- of a path copy that a tier has: no prompt has it, so none finds the copy by its first
 * tokens alone. */
static uint64_t unknown_tenant(const sp_digest *id)
{
    return sp_hash64(id->b, sizeof id->b);
}

/* enter_adopted -- a new FREE path copy. */
static sp_err enter_adopted(sp_ledger *l, const sp_adopted_path *a, sp_copy **out)
{
    sp_segment seg = *a->seg;
    sp_copy contents = {0}, *c;
    seg.tenant = unknown_tenant(&seg.id);
    SP_TRY(sp_copy_fill(&contents, &(sp_copy_spec){.seg = &seg,
                                                   .kind = SP_COPY_PATH,
                                                   .exact = a->exact,
                                                   .at = a->at,
                                                   .cost_us = a->cost_us}));
    sp_err err = new_copy(l, SP_COPY_PATH, &c);
    if (err != SP_OK) {
        sp_copy_empty(&contents);
        return err;
    }
    sp_copy_move_contents(c, &contents);
    if (a->parent) c->parent = sp_ledger_own(l, a->parent);
    enter(l, c);
    enter_path(l, c);
    *out = c;
    return SP_OK;
}

sp_err sp_ledger_adopt_path(sp_ledger *l, const sp_adopted_path *a)
{
    const sp_copy *p = a->parent;
    if (a->place == SP_AT_DEVICE)
        return sp_fail(SP_E_ARG, "adopted copy: a copy on the device is added, not adopted");
    if (a->exact && p && a->at != p->at + p->n)
        return sp_fail(SP_E_FORMAT, "adopted copy: it begins at position %d, its parent ends at %d", a->at,
                       p->at + p->n);
    sp_copy *c = sp_by_path_child(l, p, a->seg);
    if (!c) SP_TRY(enter_adopted(l, a, &c));
    if (a->place == SP_AT_HOST) sp_order_add(&l->host, c);
    c->places |= a->place;
    adopt_uses(c, a->n_uses);
    l->stats.n_added++;
    return SP_OK;
}

void sp_ledger_placed(sp_ledger *l, const sp_copy *placed, sp_place place)
{
    sp_copy *c = sp_ledger_own(l, placed);
    assert(tiers_may_have(c) && place != SP_AT_DEVICE);
    if (place == SP_AT_HOST) sp_order_add(&l->host, c);
    c->places |= place;
    c->stored.stats = c->stats != NULL;
    c->stored.heavy = c->heavy != NULL;
}

void sp_ledger_unplaced(sp_ledger *l, const sp_copy *unplaced, sp_place place)
{
    sp_copy *c = sp_ledger_own(l, unplaced);
    assert(place != SP_AT_DEVICE);
    unplace(l, c, place, false);
    settle(l, c);
}

static bool is_free_leaf(const sp_copy *c)
{
    return c->n_pins == 0 && !c->first_child;
}

/* may_leave_host -- I7: what continues it there needs it. */
static bool may_leave_host(const sp_copy *c)
{
    if (c->n_pins) return false;
    if (c->state != SP_COPY_FREE || !c->first_child) return true;
    bool needed = !(c->places & SP_AT_DISK);
    for (const sp_copy *d = c->first_child; d && !needed; d = d->sibling.next)
        needed = d->places & SP_AT_HOST;
    return !needed;
}

const sp_copy *sp_ledger_host_victim(sp_ledger *l)
{
    const sp_copy *leaf = sp_order_victim(&l->host, is_free_leaf);
    return leaf ? leaf : sp_order_victim(&l->host, may_leave_host);
}

/* open_blocks -- gives a pinned FREE copy its tokens, and blocks for the load to fill. */
static sp_err open_blocks(sp_ledger *l, sp_copy *c, const sp_segment *seg)
{
    int32_t n = sp_blocks_for(seg->n);
    sp_copy contents = {0}, *parent = c->parent;
    uint32_t *blocks = sp_alloc((size_t)n, sizeof *blocks);
    if (!blocks) return sp_fail_nomem((size_t)n * sizeof *blocks, "a copy that is loaded");
    sp_err err = sp_kv_acquire(l->pool, n, blocks);
    if (err == SP_OK) {
        err = sp_copy_fill(&contents, &(sp_copy_spec){.seg = seg,
                                                      .kind = c->kind,
                                                      .exact = c->exact,
                                                      .at = c->at,
                                                      .blocks = blocks,
                                                      .cost_us = c->cost_us});
        if (err != SP_OK) sp_kv_release(l->pool, blocks, n);
    }
    if (err == SP_OK) {
        sp_copy_empty(c);
        sp_copy_move_contents(c, &contents);
        c->parent = parent;
    }
    sp_free(blocks);
    return err;
}

/* can_load -- I7. */
static sp_err can_load(const sp_copy *c)
{
    if (c->parent && c->parent->state == SP_COPY_FREE)
        return sp_fail(SP_E_NOKV, "what a copy continues has no blocks");
    return SP_OK;
}

sp_err sp_ledger_load_begin(sp_ledger *l, const sp_copy *loading, const sp_segment *seg,
                            int64_t spare)
{
    sp_copy *c = sp_ledger_own(l, loading);
    const sp_segment own = {.tokens = c->tokens, .n = c->n, .id = c->id, .tenant = c->tenant};
    if (c->kind == SP_COPY_PATH) seg = &own;
    assert(c->state == SP_COPY_FREE && sp_digest_eq(&c->id, &seg->id));
    int64_t n = sp_blocks_for(seg->n);
    SP_TRY(can_load(c));
    sp_err err = SP_OK;
    c->n_pins++;
    if (c->parent) c->parent->n_pins++;
    if (!make_room(l, n, c->kind) || !sp_ledger_free_up(l, n + spare))
        err = sp_fail(
            SP_E_NOKV,
            "loading a chunk needs %lld blocks of KV memory and leaves %lld; %lld can be had",
            (long long)n, (long long)spare, (long long)sp_kv_pool_n_free(l->pool));
    if (err == SP_OK) err = open_blocks(l, c, seg);
    if (c->parent) drop_pin(l, c->parent);
    if (err != SP_OK) {
        drop_pin(l, c);
        return err;
    }
    sp_evict_unlink(&l->free, c);
    c->state = SP_COPY_LOADING;
    c->has_head = false;
    if (c->parent) c->parent->n_children++;
    count(l, c, 1);
    return SP_OK;
}

/* loaded_contents -- tokens and blocks as they are, and what the tier says of the copy. */
static sp_err loaded_contents(const sp_copy *c, const sp_loaded *loaded, sp_copy *out)
{
    sp_segment seg = {.tokens = c->tokens, .n = c->n, .id = c->id, .tenant = c->tenant};
    return sp_copy_fill(out, &(sp_copy_spec){.seg = &seg,
                                             .kind = c->kind,
                                             .exact = c->kind == SP_COPY_PLAIN,
                                             .at = loaded->at,
                                             .before = loaded->before,
                                             .n_before = loaded->n_before,
                                             .blocks = c->blocks,
                                             .stats = loaded->stats,
                                             .heavy = loaded->heavy,
                                             .cost_us = loaded->cost_us});
}

/* has_what_was_found -- a policy looked for this copy because of what the tier said of it. */
static bool has_what_was_found(const sp_copy *c, const sp_loaded *loaded)
{
    return (loaded->stats || !c->stored.stats) && (loaded->heavy || !c->stored.heavy);
}

sp_err sp_ledger_load_head(sp_ledger *l, const sp_copy *loading, const sp_loaded *loaded)
{
    sp_copy *c = sp_ledger_own(l, loading), contents = {0};
    assert(c->state == SP_COPY_LOADING);
    if (c->has_head) return SP_OK;
    if (c->kind != SP_COPY_PATH) {
        if (!has_what_was_found(c, loaded))
            return sp_fail(SP_E_FORMAT, "a copy lacks what the index says of it");
        SP_TRY(loaded_contents(c, loaded, &contents));
        sp_copy_empty(c);
        sp_copy_move_contents(c, &contents);
    }
    c->has_head = true;
    return SP_OK;
}

sp_err sp_ledger_load_end(sp_ledger *l, const sp_copy *loading, const sp_loaded *loaded,
                          sp_place from, int64_t now)
{
    sp_copy *c = sp_ledger_own(l, loading);
    assert(c->state == SP_COPY_LOADING && c->n_pins > 0);
    assert(!loaded || !c->parent || c->parent->state != SP_COPY_LOADING);
    sp_err err = loaded ? sp_ledger_load_head(l, c, loaded) : SP_OK;
    if (err == SP_E_FORMAT) loaded = NULL, err = SP_OK;
    if (loaded && c->parent && c->parent->state == SP_COPY_FREE)
        err = sp_fail(SP_E_NOTFOUND, "what a copy continues could not be loaded");
    drop_pin(l, c);
    if (!loaded || err != SP_OK) {
        if (!loaded) unplace(l, c, from, true);
        become_free(l, c);
        return err;
    }
    sp_kv_seal(l->pool, c->blocks, sp_copy_n_own_blocks(c));
    become_ready(l, c, now);
    return SP_OK;
}

/* -- the rest ------------------------------------------------------------------------------- */

const sp_copy *sp_ledger_next(const sp_ledger *l, const sp_copy *c)
{
    size_t i = c ? c->slot + 1 : 0;
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
