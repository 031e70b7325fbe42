#include "cache/by_content.h"

#include <string.h>

#include "cache/ledger_int.h"

/* Ids are SHA-256: eight bytes of one are a hash already. */
static uint64_t hash_of(const sp_digest *id)
{
    uint64_t low;
    memcpy(&low, id->b, sizeof low);
    return low;
}

static uint64_t hash_copy(const sp_copy *c)
{
    return hash_of(&c->facts.id);
}

sp_err sp_by_content_init(sp_ledger *l)
{
    return sp_chains_init(&l->content, offsetof(sp_copy, index.by_id), hash_copy);
}

void sp_by_content_fini(sp_ledger *l)
{
    sp_chains_fini(&l->content);
}

sp_err sp_by_content_reserve(sp_ledger *l)
{
    return sp_chains_reserve(&l->content);
}

void sp_by_content_add(sp_ledger *l, sp_copy *c)
{
    sp_chains_add(&l->content, c);
}

void sp_by_content_drop(sp_ledger *l, sp_copy *c)
{
    sp_chains_drop(&l->content, c);
}

sp_copy *sp_by_content_first(const sp_ledger *l, const sp_digest *id)
{
    return sp_chains_first(&l->content, hash_of(id));
}

/* -- find ----------------------------------------------------------------------------------- */

static bool begins_with(const sp_copy *c, const sp_digest *ids, int n)
{
    return c->facts.n_before >= n &&
           (n == 0 || memcmp(c->facts.before, ids, (size_t)n * sizeof *ids) == 0);
}

static bool is_after(const sp_copy *c, const sp_digest *ids, int n)
{
    return c->facts.n_before == n && begins_with(c, ids, n);
}

sp_copy *sp_by_content_same(const sp_ledger *l, const sp_copy_spec *spec)
{
    bool fused = spec->facts.kind == SP_COPY_FUSED;
    for (sp_copy *c = sp_by_content_first(l, &spec->seg->id); c; c = c->index.by_id)
        if (c->state == SP_COPY_READY && (c->facts.kind == SP_COPY_FUSED) == fused &&
            !c->base == !spec->base && is_after(c, spec->facts.before, spec->facts.n_before) &&
            sp_copy_says(c, spec->seg))
            return c;
    return NULL;
}

const sp_copy *sp_by_content_plain(const sp_ledger *l, const sp_segment *segs, int i)
{
    for (const sp_copy *c = sp_by_content_first(l, &segs[i].id); c; c = c->index.by_id) {
        bool fits = c->state == SP_COPY_READY && c->facts.kind == SP_COPY_PLAIN && c->facts.exact && !c->base &&
                    c->facts.n_before == i && sp_copy_says(c, &segs[i]);
        int32_t end = 0;
        for (int k = 0; fits && k < i; k++) {
            fits = sp_digest_eq(&c->facts.before[k], &segs[k].id);
            end += segs[k].n;
        }
        if (fits && c->facts.at == end) return c;
    }
    return NULL;
}

sp_copy *sp_by_content_named(const sp_ledger *l, const sp_adopted *name, const sp_copy * not )
{
    const uint64_t head = sp_copy_key_head(&name->facts);
    sp_copy *best = NULL;
    for (sp_copy *c = sp_by_content_first(l, &name->facts.id); c; c = c->index.by_id)
        if (c != not &&c->facts.kind == name->facts.kind && sp_copy_key_head(&c->facts) == head &&
            sp_digest_eq(&c->facts.id, &name->facts.id) &&
            (!best || (best->state == SP_COPY_FREE && c->state != SP_COPY_FREE)))
            best = c;
    return best;
}

int sp_by_content_variants(const sp_ledger *l, const sp_digest *id, uint64_t head, sp_copy **least)
{
    int n = 0;
    *least = NULL;
    for (sp_copy *c = sp_by_content_first(l, id); c; c = c->index.by_id) {
        if (c->facts.kind != SP_COPY_PLACED || c->facts.head != head || !sp_digest_eq(&c->facts.id, id)) continue;
        n++;
        if (c->n_pins || c->state == SP_COPY_LOADING) continue;
        if (!*least || c->uses.worth < (*least)->uses.worth ||
            (c->uses.worth <= (*least)->uses.worth && c->uses.last < (*least)->uses.last))
            *least = c;
    }
    return n;
}

/* serves -- a READY copy answers the query as `kind`. */
static bool serves(const sp_copy *c, const sp_content_query *q, sp_copy_kind kind)
{
    if (c->base || (q->heavy && !c->facts.heavy) || !sp_copy_says(c, q->seg)) return false;
    if (kind == SP_COPY_FUSED)
        return c->facts.kind == SP_COPY_FUSED && begins_with(c, q->head, q->n_head);
    return c->facts.kind == SP_COPY_PLAIN && is_after(c, q->head, q->n_head);
}

/* may_serve -- a copy without readable blocks will answer the query, going by its name. */
static bool may_serve(const sp_copy *c, const sp_content_query *q, sp_copy_kind kind, uint64_t head)
{
    if (q->heavy && !c->stored.heavy) return false;
    return c->facts.kind == kind && c->facts.head == head &&
           sp_digest_eq(&c->facts.id, &q->seg->id) &&
           (c->state == SP_COPY_LOADING ? sp_copy_says(c, q->seg) : sp_copy_loadable(c));
}

/* is_closer -- in a better state, or FREE in a higher tier. */
static bool is_closer(const sp_copy *a, const sp_copy *b)
{
    if (a->state != b->state || a->state != SP_COPY_FREE) return a->state > b->state;
    return (a->places & -a->places) < (b->places & -b->places);
}

/* best_path -- the path copy that is the better plain copy: the head, then the chunk. */
static sp_copy *best_path(const sp_ledger *l, const sp_content_query *q, sp_copy *plain)
{
    sp_copy *c = q->no_path || q->heavy ? NULL : sp_by_path_after(l, q->head, q->n_head, q->seg);
    bool may = c && (c->state == SP_COPY_READY || (!q->ready_only && sp_by_path_can_serve(c, false)));
    return may && (!plain || is_closer(c, plain)) ? c : plain;
}

static sp_copy *best_copy(const sp_ledger *l, const sp_content_query *q, sp_copy_kind kind)
{
    bool loadable = !q->ready_only;
    uint64_t head = loadable ? sp_head_key(q->head, q->n_head) : 0;
    sp_copy *best = NULL;
    for (sp_copy *c = sp_by_content_first(l, &q->seg->id); c; c = c->index.by_id) {
        if (c->state == SP_COPY_READY ? serves(c, q, kind)
                                      : loadable && may_serve(c, q, kind, head)) {
            if (!best || c->state > best->state) best = c;
        }
    }
    return kind == SP_COPY_PLAIN ? best_path(l, q, best) : best;
}

static void count_lookup(sp_ledger *l, const sp_content_query *q, bool found)
{
    l->stats.n_lookups++;
    l->stats.n_hits += found;
    l->stats.tokens_looked_up += q->seg->n;
    l->stats.tokens_hit += found ? q->seg->n : 0;
}

const sp_copy *sp_by_content_peek(const sp_ledger *l, const sp_content_query *q, sp_copy_kind kind)
{
    return best_copy(l, q, kind);
}

const sp_copy *sp_by_content_find(sp_ledger *l, const sp_content_query *q, sp_copy_kind kind,
                                  int64_t now)
{
    sp_copy *c = best_copy(l, q, kind);
    count_lookup(l, q, c != NULL);
    if (!c) return NULL;
    if (c->state == SP_COPY_READY) sp_ledger_touch(l, c, now);
    c->n_pins++;
    return c;
}

/* is_measured -- and may be loaded, if it must be. head: of q. */
static bool is_measured(const sp_copy *c, const sp_content_query *q, uint64_t head)
{
    if (c->state != SP_COPY_READY)
        return !q->ready_only && c->stored.stats && may_serve(c, q, c->facts.kind, head);
    return sp_copy_is_measured(&c->facts) && (!q->heavy || c->facts.heavy) &&
           begins_with(c, q->head, q->n_head) && sp_copy_says(c, q->seg);
}

const sp_copy *sp_by_content_peek_measured(const sp_ledger *l, const sp_content_query *q, bool unfused)
{
    const uint64_t head = sp_head_key(q->head, q->n_head);
    const sp_copy *best = NULL;
    for (const sp_copy *c = sp_by_content_first(l, &q->seg->id); c; c = c->index.by_id)
        if ((!unfused || c->facts.kind != SP_COPY_FUSED) && is_measured(c, q, head) && (!best || is_closer(c, best)))
            best = c;
    return best;
}

/* take_measured -- into `out`, pinned; NULL: counts them. */
static int take_measured(const sp_ledger *l, const sp_content_query *q, const sp_copy **out)
{
    const uint64_t head = sp_head_key(q->head, q->n_head);
    int n = 0;
    for (sp_copy *c = sp_by_content_first(l, &q->seg->id); c; c = c->index.by_id) {
        if (!is_measured(c, q, head)) continue;
        if (out) out[n] = c, c->n_pins++;
        n++;
    }
    return n;
}

sp_err sp_by_content_all(sp_ledger *l, const sp_content_query *q, sp_arena *arena,
                         const sp_copy ***out, int *n)
{
    const int found = take_measured(l, q, NULL);
    const sp_copy **list = NULL;
    if (found) {
        list = sp_arena_take(arena, (size_t)found, sizeof *list);
        if (!list) return sp_fail_nomem("the copies of a chunk");
        take_measured(l, q, list);
    }
    count_lookup(l, q, found > 0);
    *out = list;
    *n = found;
    return SP_OK;
}

/* -- why not -------------------------------------------------------------------------------- */

sp_miss sp_by_content_why(const sp_ledger *l, const sp_content_query *q)
{
    bool elsewhere = false;
    uint64_t head = sp_head_key(q->head, q->n_head);
    for (const sp_copy *c = sp_by_content_first(l, &q->seg->id); c; c = c->index.by_id) {
        bool ready = c->state == SP_COPY_READY;
        if (ready ? !sp_copy_says(c, q->seg)
                  : !c->places || !sp_digest_eq(&c->facts.id, &q->seg->id))
            continue;
        if (ready ? begins_with(c, q->head, q->n_head) : c->facts.head == head)
            return SP_MISS_UNMEASURED;
        elsewhere = true;
    }
    if (elsewhere) return SP_MISS_OTHER_HEAD;
    if (sp_ghosts_has(l->ghosts, q->seg)) return SP_MISS_EVICTED;
    return sp_ghosts_has_start(l->ghosts, q->seg) ? SP_MISS_EDITED : SP_MISS_NEVER_SEEN;
}
