/* ledger_tiers.c -- what lower tiers tell the ledger: which copies they have, and what they load. */
#include "cache/ledger_int.h"

#include <math.h>
#include <string.h>

void sp_ledger_set_tiers(sp_ledger *l, const sp_ledger_tiers *tiers)
{
    l->tiers = *tiers;
}

/* -- the host tier's order ------------------------------------------------------------------ */

typedef struct host_copy {
    sp_copy copy; /* first: the stand-in */
    const sp_copy *of;
} host_copy;

/* enter_host -- adds the copy to the host's order, with its past uses. Out of memory: the host policy does not see the
 * copy. */
static void enter_host(sp_ledger *l, sp_copy *c)
{
    if (c->host) return;
    host_copy *h = sp_order_reserve(&l->host) == SP_OK ? SP_NEW(host_copy) : NULL;
    if (!h) return;
    const int64_t now = l->ready.now;
    *h = (host_copy){.copy = {.facts.kind = c->facts.kind,
                              .facts.id = c->facts.id,
                              .facts.head = c->facts.head,
                              .n = c->n,
                              .facts.at = c->facts.at,
                              .state = SP_COPY_READY,
                              .places = SP_AT_HOST,
                              .facts.cost_us = c->facts.cost_us,
                              .uses.n = c->uses.n,
                              .uses.last = now, /* entering is no use of its own */
                              .uses.recent = c->uses.recent,
                              .uses.mean_cost = c->uses.mean_cost,
                              .uses.n_costs = c->uses.n_costs,
                              .uses.worth = c->uses.worth,
                              .name = sp_ledger_name(c)},
                     .of = c};
    c->host = &h->copy;
    if (c->parent) sp_order_follow(&l->host, c->host, c->parent->host);
    for (sp_copy *d = c->children.first; d; d = d->sibling.next)
        sp_order_follow(&l->host, d->host, c->host);
    sp_order_add(&l->host, c->host, now);
}

void sp_ledger_host_use(sp_ledger *l, const sp_copy *c, int64_t now)
{
    if (!c->host) return;
    c->host->uses.worth = c->uses.worth;
    c->host->uses.mean_cost = c->uses.mean_cost;
    c->host->uses.n_costs = c->uses.n_costs;
    sp_order_use(&l->host, c->host, now);
}

void sp_ledger_host_leave(sp_ledger *l, sp_copy *c)
{
    if (!c->host) return;
    sp_order_drop(&l->host, c->host);
    sp_free(c->host);
    c->host = NULL;
}

/* -- what tiers have ------------------------------------------------------------------------ */

/* adopt_uses -- uses before now. Their CFO is not known: each was worth at least 1 of f_r. */
static void adopt_uses(sp_copy *c, int64_t n_uses)
{
    if (c->uses.n || n_uses <= 0) return;
    c->uses.n = n_uses;
    c->uses.worth = SP_MAX(c->uses.worth, 1 + (float)n_uses);
    c->uses.recent = log2((double)n_uses); /* as if all of them were at time 0 */
}

/* learn -- a FREE copy of which only the name was known knows what was measured of it. Errors: SP_E_NOMEM. */
static sp_err learn(sp_copy *c, const sp_copy_facts *f)
{
    sp_copy_facts known;
    if (c->state != SP_COPY_FREE || c->memory || !sp_copy_is_measured(f)) return SP_OK;
    void *memory = sp_copy_known(f, &known);
    if (!memory) return sp_fail_nomem("what was measured of a copy");
    known.cost_us = c->facts.cost_us;
    sp_copy_fade(c, memory, &known);
    return SP_OK;
}

sp_err sp_ledger_adopt(sp_ledger *l, const sp_adopted *a)
{
    const bool placed = a->facts.kind == SP_COPY_PLACED;
    if (a->facts.kind != SP_COPY_PLAIN && a->facts.kind != SP_COPY_FUSED && !placed)
        return sp_fail(SP_E_ARG, "adopted copy: kind %d is not found by content", (int)a->facts.kind);
    if (placed && !sp_copy_is_measured(&a->facts))
        return sp_fail(SP_E_ARG, "adopted copy: a placed copy does not say what it was computed after");
    if (a->place == SP_AT_DEVICE)
        return sp_fail(SP_E_ARG, "adopted copy: a copy on the device is added, not adopted");
    sp_copy *c = sp_by_content_named(l, a, NULL);
    if (!c) {
        SP_TRY(sp_ledger_new_copy(l, a->facts.kind, &c));
        c->facts.id = a->facts.id;
        c->facts.head = a->facts.head;
        sp_err err = learn(c, &a->facts);
        if (err != SP_OK) {
            sp_free(c);
            return err;
        }
        c->tenant = sp_ledger_nobody(&c->facts.id);
        c->name = sp_ledger_name(c);
        sp_ledger_enter(l, c);
        sp_by_content_add(l, c);
    } else {
        SP_TRY(learn(c, &a->facts));
    }
    c->places |= a->place;
    c->stored.stats |= a->measured;
    c->stored.heavy |= a->heavy;
    c->stored.exact |= a->facts.exact;
    if (a->n) c->stored.n = a->n;
    if (a->facts.cost_us > 0) c->facts.cost_us = a->facts.cost_us;
    adopt_uses(c, a->n_uses);
    if (a->place == SP_AT_HOST) enter_host(l, c);
    l->stats.n_added++;
    sp_ledger_forget_oldest(l);
    return SP_OK;
}

uint64_t sp_ledger_nobody(const sp_digest *id)
{
    return sp_hash64(id->b, sizeof id->b);
}

/* enter_adopted -- a new FREE path copy. */
static sp_err enter_adopted(sp_ledger *l, const sp_adopted_path *a, sp_copy **out)
{
    sp_segment seg = *a->seg;
    sp_copy contents = {0}, *c;
    seg.tenant = sp_ledger_nobody(&seg.id);
    SP_TRY(sp_copy_fill(&contents, &(sp_copy_spec){.seg = &seg,
                                                   .facts.kind = SP_COPY_PATH,
                                                   .facts.exact = a->facts.exact,
                                                   .facts.at = a->facts.at,
                                                   .facts.cost_us = a->facts.cost_us}));
    sp_err err = sp_ledger_new_copy(l, SP_COPY_PATH, &c);
    if (err != SP_OK) {
        sp_copy_empty(&contents);
        return err;
    }
    sp_copy_move_contents(c, &contents);
    if (a->parent) c->parent = sp_ledger_own(l, a->parent);
    c->name = sp_ledger_name(c);
    sp_ledger_enter(l, c);
    sp_ledger_enter_path(l, c);
    *out = c;
    return SP_OK;
}

sp_err sp_ledger_adopt_path(sp_ledger *l, const sp_adopted_path *a)
{
    const sp_copy *p = a->parent;
    if (a->place == SP_AT_DEVICE)
        return sp_fail(SP_E_ARG, "adopted copy: a copy on the device is added, not adopted");
    if (a->facts.exact && p && a->facts.at != p->facts.at + p->n)
        return sp_fail(SP_E_FORMAT, "adopted copy: it begins at position %d, its parent ends at %d",
                       a->facts.at, p->facts.at + p->n);
    sp_copy *c = sp_by_path_child(l, p, a->seg);
    if (!c) SP_TRY(enter_adopted(l, a, &c));
    if (a->place == SP_AT_HOST) enter_host(l, c);
    c->places |= a->place;
    adopt_uses(c, a->n_uses);
    l->stats.n_added++;
    return SP_OK;
}

void sp_ledger_placed(sp_ledger *l, const sp_copy *placed, sp_place place)
{
    sp_copy *c = sp_ledger_own(l, placed);
    assert(place != SP_AT_DEVICE);
    if (place == SP_AT_HOST) enter_host(l, c);
    c->places |= place;
    c->stored.stats = sp_copy_is_measured(&c->facts);
    c->stored.heavy = c->facts.heavy != NULL;
    c->stored.exact = c->facts.exact;
    if (c->n) c->stored.n = c->n;
}

void sp_ledger_unplaced(sp_ledger *l, const sp_copy *unplaced, sp_place place)
{
    sp_copy *c = sp_ledger_own(l, unplaced);
    assert(place != SP_AT_DEVICE);
    sp_ledger_unplace(l, c, place, false);
    sp_ledger_settle(l, c);
}

/* may_leave_host -- I7: copies on the host that continue it need it. */
static bool may_leave_host(const sp_copy *stand_in)
{
    const sp_copy *c = ((const host_copy *)(const void *)stand_in)->of;
    if (c->n_pins) return false;
    if (c->state != SP_COPY_FREE || !c->children.first) return true;
    bool needed = !(c->places & SP_AT_DISK);
    for (const sp_copy *d = c->children.first; d && !needed; d = d->sibling.next)
        needed = d->places & SP_AT_HOST;
    return !needed;
}

const sp_copy *sp_ledger_host_victim(sp_ledger *l)
{
    const host_copy *h = (const host_copy *)(const void *)sp_order_victim(&l->host, may_leave_host);
    return h ? h->of : NULL;
}

/* open_blocks -- gives a pinned FREE copy its tokens, and blocks for the load to fill. */
static sp_err open_blocks(sp_ledger *l, sp_copy *c, const sp_segment *seg)
{
    int32_t n = sp_blocks_for(seg->n);
    sp_copy contents = {0}, *parent = c->parent;
    uint32_t *blocks = sp_alloc((size_t)n, sizeof *blocks);
    if (!blocks) return sp_fail_nomem("a copy that is loaded");
    sp_err err = sp_kv_acquire(l->pool, n, blocks);
    if (err == SP_OK) {
        err = sp_copy_fill(&contents, &(sp_copy_spec){.seg = seg, .facts = c->facts, .blocks = blocks});
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
        return sp_fail(SP_E_NOKV, "the copy that this one continues has no blocks");
    return SP_OK;
}

sp_err sp_ledger_load_begin(sp_ledger *l, const sp_copy *loading, const sp_segment *seg,
                            int64_t spare)
{
    sp_copy *c = sp_ledger_own(l, loading);
    const sp_segment own = {.tokens = c->tokens, .n = c->n, .id = c->facts.id, .tenant = c->tenant};
    if (c->facts.kind == SP_COPY_PATH) seg = &own;
    assert(c->state == SP_COPY_FREE && sp_digest_eq(&c->facts.id, &seg->id));
    int64_t n = sp_blocks_for(seg->n);
    SP_TRY(can_load(c));
    sp_err err = SP_OK;
    c->n_pins++;
    if (c->parent) c->parent->n_pins++;
    if (!sp_ledger_make_room(l, n, c->facts.kind) || !sp_ledger_free_up(l, n + spare))
        err = sp_fail(
            SP_E_NOKV,
            "loading a chunk needs %lld blocks of KV memory and leaves %lld; %lld are available",
            (long long)n, (long long)spare, (long long)sp_kv_pool_n_free(l->pool));
    if (err == SP_OK) err = open_blocks(l, c, seg);
    if (c->parent) sp_ledger_drop_pin(l, c->parent);
    if (err != SP_OK) {
        sp_ledger_drop_pin(l, c);
        return err;
    }
    sp_evict_unlink(&l->free, c);
    c->state = SP_COPY_LOADING;
    c->has_head = false;
    if (c->parent) c->parent->children.n++;
    sp_ledger_count(l, c, 1);
    return SP_OK;
}

/* loaded_contents -- tokens and blocks as they are, and what the tier says of the copy. */
static sp_err loaded_contents(const sp_copy *c, const sp_copy_facts *loaded, sp_copy *out)
{
    const sp_segment seg = {.tokens = c->tokens, .n = c->n, .id = c->facts.id, .tenant = c->tenant};
    sp_copy_spec spec = {.seg = &seg, .facts = *loaded, .blocks = c->blocks};
    spec.facts.kind = c->facts.kind;
    spec.facts.exact = c->facts.kind == SP_COPY_PLAIN && loaded->exact;
    return sp_copy_fill(out, &spec);
}

/* has_what_was_found -- whether the loaded header has the facts for which the policy chose this copy. */
static bool has_what_was_found(const sp_copy *c, const sp_copy_facts *loaded)
{
    return (sp_copy_is_measured(loaded) || !c->stored.stats) && (loaded->heavy || !c->stored.heavy);
}

sp_err sp_ledger_load_head(sp_ledger *l, const sp_copy *loading, const sp_copy_facts *loaded)
{
    sp_copy *c = sp_ledger_own(l, loading), contents = {0};
    assert(c->state == SP_COPY_LOADING);
    if (c->has_head) return SP_OK;
    if (c->facts.kind != SP_COPY_PATH) {
        if (!has_what_was_found(c, loaded))
            return sp_fail(SP_E_FORMAT, "a copy does not match its entry in the index");
        SP_TRY(loaded_contents(c, loaded, &contents));
        sp_copy_empty(c);
        sp_copy_move_contents(c, &contents);
    }
    c->has_head = true;
    return SP_OK;
}

sp_err sp_ledger_load_end(sp_ledger *l, const sp_copy *loading, const sp_copy_facts *loaded,
                          sp_place from, int64_t now)
{
    sp_copy *c = sp_ledger_own(l, loading);
    assert(c->state == SP_COPY_LOADING && c->n_pins > 0);
    assert(!loaded || !c->parent || c->parent->state != SP_COPY_LOADING);
    sp_err err = loaded ? sp_ledger_load_head(l, c, loaded) : SP_OK;
    if (err == SP_E_FORMAT) loaded = NULL, err = SP_OK;
    if (loaded && c->parent && c->parent->state == SP_COPY_FREE)
        err = sp_fail(SP_E_NOTFOUND, "the copy that this one continues could not be loaded");
    sp_ledger_drop_pin(l, c);
    if (!loaded || err != SP_OK) {
        if (!loaded) sp_ledger_unplace(l, c, from, true);
        sp_ledger_become_free(l, c);
        return err;
    }
    sp_kv_seal(l->pool, c->blocks, sp_copy_n_own_blocks(c));
    sp_ledger_become_ready(l, c, SP_EVICT_NOT_COMPUTED, now);
    return SP_OK;
}
