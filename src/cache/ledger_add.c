/* ledger_add.c -- a copy that was just computed enters the ledger. */
#include "cache/ledger_int.h"

#include <string.h>

static sp_err check_spec(const sp_copy_spec *spec)
{
    const sp_copy *p = spec->parent;
    if (spec->facts.n_head > spec->facts.n_before)
        return sp_fail(SP_E_ARG, "copy: %d segments before it, but %d of its head",
                       spec->facts.n_before, spec->facts.n_head);
    if (spec->facts.kind != SP_COPY_PATH)
        return p ? sp_fail(SP_E_ARG, "copy: only a path copy has a parent") : SP_OK;
    if (!spec->facts.exact && !spec->seg->origin)
        return sp_fail(SP_E_ARG, "copy: a path copy must be exact");
    if (spec->base) return sp_fail(SP_E_ARG, "copy: a path copy cannot be a patch");
    if (p && (p->facts.kind != SP_COPY_PATH || p->state != SP_COPY_READY))
        return sp_fail(SP_E_ARG, "copy: the parent of a path copy must be a READY path copy");
    return SP_OK;
}

/* knows_as_much -- whether the new copy adds no statistics. */
static bool knows_as_much(const sp_copy *c, const sp_copy_spec *spec)
{
    return c->facts.kind == SP_COPY_PATH ||
           ((sp_copy_is_measured(&c->facts) || !sp_copy_is_measured(&spec->facts)) &&
            (c->facts.heavy || !spec->facts.heavy));
}

/* existing -- the copy that the new one is or replaces: READY, or FREE of its name; or NULL. */
static sp_copy *existing(const sp_ledger *l, const sp_copy_spec *spec, uint64_t head)
{
    if (spec->facts.kind == SP_COPY_PATH) return sp_by_path_child(l, spec->parent, spec->seg);
    sp_copy *c = sp_by_content_same(l, spec);
    if (c && (c->n_pins == 0 || knows_as_much(c, spec))) return c;
    sp_adopted name = {.facts = spec->facts};
    name.facts.id = spec->seg->id;
    name.facts.head = head;
    c = sp_by_content_named(l, &name, c);
    return c && c->state == SP_COPY_FREE ? c : NULL;
}

/* drop_replaced -- drops older copies fused with other chunks that no request reads. The new copy takes over their
 * places: a tier has one copy of a name. */
static void drop_replaced(sp_ledger *l, sp_copy *by)
{
    for (sp_copy *c = sp_by_content_first(l, &by->facts.id), *next; c; c = next) {
        next = c->index.by_id;
        if (c == by || c->facts.kind != SP_COPY_FUSED || c->facts.head != by->facts.head ||
            !sp_copy_evictable(c) || !sp_digest_eq(&c->facts.id, &by->facts.id))
            continue;
        sp_ledger_unplace(l, c, SP_AT_HOST, true);
        by->places |= c->places;
        c->places = SP_AT_DEVICE; /* so it is gone, and no other copy with it */
        sp_ledger_become_free(l, c);
    }
}

sp_err sp_ledger_new_copy(sp_ledger *l, sp_copy_kind kind, sp_copy **out)
{
    SP_TRY(sp_vec_reserve(&l->all, 1));
    SP_TRY(sp_evict_reserve(&l->ready, l->all.n + 1));
    SP_TRY(kind == SP_COPY_PATH ? sp_by_path_reserve(l) : sp_by_content_reserve(l));
    sp_copy *c = SP_NEW(sp_copy);
    if (!c) return sp_fail_nomem("a cached copy");
    c->facts.kind = kind;
    c->uses.worth = 1;
    *out = c;
    return SP_OK;
}

/* n_new_blocks -- of a copy all of whose blocks other copies have: none. */
static int32_t n_new_blocks(const sp_ledger *l, const sp_copy_spec *spec)
{
    const uint32_t *blocks = spec->base ? spec->patch.blocks : spec->blocks;
    const int32_t n = sp_blocks_for(spec->base ? spec->patch.n : spec->first + spec->seg->n);
    for (int32_t i = 0; i < n; i++)
        if (l->n_holders[blocks[i]] == 0) return n;
    return 0;
}

/* limit_variants -- so that one more placed copy of the chunk may be: the one of least worth leaves all tiers. Source:
 * Cache-Craft section 3.3 (C7). */
static bool limit_variants(sp_ledger *l, const sp_copy_spec *spec)
{
    const uint64_t head = sp_head_key(spec->facts.before, spec->facts.n_head);
    sp_copy *least;
    if (spec->facts.kind != SP_COPY_PLACED || !l->max_variants) return true;
    while (sp_by_content_variants(l, &spec->seg->id, head, &least) >= l->max_variants) {
        if (!least) return false;
        sp_ledger_drop(l, least);
        l->stats.n_evicted++;
    }
    return true;
}

/* make_room_for -- makes room without dropping what the new copy continues or patches. */
static bool make_room_for(sp_ledger *l, const sp_copy_spec *spec, bool is_new)
{
    if (spec->parent) sp_ledger_pin(l, spec->parent);
    if (spec->base) sp_ledger_pin(l, spec->base);
    bool fits = (!is_new || limit_variants(l, spec)) &&
                sp_ledger_make_room(l, n_new_blocks(l, spec), spec->facts.kind);
    if (spec->parent) sp_ledger_unpin(l, spec->parent);
    if (spec->base) sp_ledger_unpin(l, spec->base);
    return fits;
}

/* token_cost -- of the copy, by the request that computed it. Source: RAGCache section 5.1, equation 3 (R2). */
static double token_cost(const sp_ledger *l, const sp_copy *c, const sp_copy_spec *spec)
{
    if (spec->n_fresh > 0)
        return sp_cost_us(l->ready.cost, spec->n_cached, spec->n_fresh) / spec->n_fresh;
    const int32_t n = SP_MAX(spec->base ? spec->patch.n : spec->seg->n, 1);
    return sp_cost_us(l->ready.cost, c->facts.at, n) / n;
}

/* take_contents -- a FREE copy becomes READY with what was computed. Pre: there is room. */
static void take_contents(sp_ledger *l, sp_copy *c, sp_copy *from, const sp_copy_spec *spec,
                          int64_t now)
{
    const uint32_t *blocks = sp_ledger_own_blocks(from);
    int32_t n = sp_copy_n_own_blocks(from);
    const bool path = c->facts.kind == SP_COPY_PATH, is_new = !c->memory;
    for (int32_t i = 0; i < n; i++) assert(sp_kv_is_sealed(l->pool, blocks[i])); /* I1 */
    sp_kv_retain(l->pool, blocks, n);
    sp_evict_unlink(&l->free, c);
    if (path && !is_new) sp_ledger_leave_path(l, c); /* an adopted copy gets its tenant */
    sp_copy_empty(c);
    sp_copy_move_contents(c, from);
    c->facts.head =
        spec->facts.kind == SP_COPY_PATH ? 0 : sp_head_key(spec->facts.before, spec->facts.n_head);
    if (c->base) sp_ledger_own(l, c->base)->n_pins++;
    if (spec->parent) {
        c->parent = sp_ledger_own(l, spec->parent);
        c->parent->children.n++;
        if (c->facts.exact) c->facts.at = c->parent->facts.at + c->parent->n;
    }
    sp_ledger_count(l, c, 1);
    if (path) sp_ledger_enter_path(l, c);
    sp_ledger_become_ready(l, c, token_cost(l, c, spec), now);
}

sp_err sp_ledger_add(sp_ledger *l, const sp_copy_spec *spec, int64_t now, const sp_copy **out)
{
    SP_TRY(check_spec(spec));
    bool path = spec->facts.kind == SP_COPY_PATH;
    sp_copy contents = {0};
    sp_copy *c = existing(l, spec, path ? 0 : sp_head_key(spec->facts.before, spec->facts.n_head));
    if (c && c->state == SP_COPY_READY && knows_as_much(c, spec)) {
        sp_ledger_touch(l, c, now);
        *out = c;
        return SP_OK;
    }
    bool is_new = !c;
    if (c && c->state == SP_COPY_LOADING) {
        *out = NULL; /* a path copy: loading it restores them */
        return SP_OK;
    }
    SP_TRY(sp_copy_fill(&contents, spec));
    sp_err err = is_new ? sp_ledger_new_copy(l, spec->facts.kind, &c) : SP_OK;
    if (err != SP_OK) {
        sp_copy_empty(&contents);
        return err;
    }
    c->n_pins++;
    if (c->state == SP_COPY_READY)
        sp_ledger_become_free(l, c); /* the new one was measured, this one was not */
    bool fits = make_room_for(l, spec, is_new);
    if (fits && is_new) {
        c->facts.id = spec->seg->id;
        c->tenant = spec->seg->tenant;
        sp_ledger_enter(l, c);
        if (!path) sp_by_content_add(l, c);
    }
    if (fits) take_contents(l, c, &contents, spec, now);
    sp_ledger_drop_pin(l, c);
    if (fits && c->facts.kind == SP_COPY_FUSED) drop_replaced(l, c);
    sp_copy_empty(&contents);
    *out = fits ? c : NULL;
    if (!fits && is_new)
        sp_free(c);
    else
        sp_ledger_settle(l, c);
    return SP_OK;
}
