#include "cache/by_path.h"

#include <string.h>

#include "cache/ledger_int.h"

/* -- the two tables ------------------------------------------------------------------------- */

/* By (parent, id). */
static uint64_t hash_id(const sp_copy *parent, const sp_digest *id)
{
    uint64_t low;
    memcpy(&low, id->b, sizeof low);
    uint64_t key[2] = {(uint64_t)(uintptr_t)parent, low};
    return sp_hash64(key, sizeof key);
}

/* Keyed by parent and tokens of the first block. A root has no parent; its tenant is used instead. */
static uint64_t hash_start(const sp_copy *parent, uint64_t tenant, const int32_t *tokens)
{
    struct {
        uint64_t parent;
        int32_t tokens[SP_BLOCK_TOKENS];
    } key = {.parent = parent ? (uint64_t)(uintptr_t)parent : tenant};
    memcpy(key.tokens, tokens, sizeof key.tokens);
    return sp_hash64(&key, sizeof key);
}

static uint64_t id_of(const sp_copy *c)
{
    return hash_id(c->parent, &c->facts.id);
}

static uint64_t start_of(const sp_copy *c)
{
    return hash_start(c->parent, c->tenant, c->tokens);
}

sp_err sp_by_path_init(sp_ledger *l)
{
    SP_TRY(sp_chains_init(&l->path_by_id, offsetof(sp_copy, index.by_id), id_of));
    return sp_chains_init(&l->path_by_start, offsetof(sp_copy, index.by_start), start_of);
}

void sp_by_path_fini(sp_ledger *l)
{
    sp_chains_fini(&l->path_by_id);
    sp_chains_fini(&l->path_by_start);
}

sp_err sp_by_path_reserve(sp_ledger *l)
{
    SP_TRY(sp_chains_reserve(&l->path_by_id));
    return sp_chains_reserve(&l->path_by_start);
}

void sp_by_path_add(sp_ledger *l, sp_copy *c)
{
    assert(c->facts.kind == SP_COPY_PATH);
    sp_chains_add(&l->path_by_id, c);
    if (c->n >= SP_BLOCK_TOKENS) sp_chains_add(&l->path_by_start, c);
}

void sp_by_path_drop(sp_ledger *l, sp_copy *c)
{
    sp_chains_drop(&l->path_by_id, c);
    if (c->n >= SP_BLOCK_TOKENS) sp_chains_drop(&l->path_by_start, c);
}

/* -- find ----------------------------------------------------------------------------------- */

sp_copy *sp_by_path_child(const sp_ledger *l, const sp_copy *parent, const sp_segment *seg)
{
    sp_copy *c = sp_chains_first(&l->path_by_id, hash_id(parent, &seg->id));
    while (c && (c->parent != parent || !sp_copy_says(c, seg))) c = c->index.by_id;
    return c;
}

const sp_copy *sp_by_path_at(const sp_ledger *l, const sp_digest *ids, int n)
{
    const sp_copy *at = NULL;
    for (int i = 0; i < n && (i == 0 || at); i++) {
        const sp_copy *c = sp_chains_first(&l->path_by_id, hash_id(at, &ids[i]));
        while (c && (c->parent != at || !sp_digest_eq(&c->facts.id, &ids[i]))) c = c->index.by_id;
        at = c;
    }
    return at;
}

sp_copy *sp_by_path_after(const sp_ledger *l, const sp_digest *head, int n, const sp_segment *seg)
{
    const sp_copy *parent = sp_by_path_at(l, head, n);
    sp_copy *c = seg->kind == SP_SEG_CHUNK && (parent || n == 0) ? sp_by_path_child(l, parent, seg) : NULL;
    return c && c->facts.exact && c->first == 0 ? c : NULL;
}

static int32_t common_blocks(const sp_copy *c, const sp_segment *seg)
{
    int32_t limit = SP_MIN(c->n, seg->n) / SP_BLOCK_TOKENS, b = 0;
    while (b < limit && memcmp(c->tokens + b * SP_BLOCK_TOKENS, seg->tokens + b * SP_BLOCK_TOKENS,
                               SP_BLOCK_TOKENS * sizeof *c->tokens) == 0)
        b++;
    return b;
}

bool sp_by_path_can_serve(const sp_copy *c, bool ready_only)
{
    return c->state == SP_COPY_READY ||
           (!ready_only && (c->state == SP_COPY_LOADING || sp_copy_loadable(c)));
}

/* find_partial -- the child that shares most leading blocks with seg; sets *n_tokens. */
static sp_copy *find_partial(const sp_ledger *l, const sp_copy *parent, const sp_segment *seg,
                             bool ready_only, int32_t *n_tokens)
{
    sp_copy *best = NULL;
    int32_t best_blocks = 0;
    if (seg->n < SP_BLOCK_TOKENS) return NULL;
    sp_copy *c = sp_chains_first(&l->path_by_start, hash_start(parent, seg->tenant, seg->tokens));
    for (; c; c = c->index.by_start) {
        bool follows = c->parent == parent && (parent || c->tenant == seg->tenant) && c->first == 0;
        int32_t b = follows && sp_by_path_can_serve(c, ready_only) ? common_blocks(c, seg) : 0;
        if (b > best_blocks) {
            best_blocks = b;
            best = c;
        }
    }
    *n_tokens = best_blocks * SP_BLOCK_TOKENS;
    return best;
}

/* find_plain -- the plain copy of a chunk that directly follows the head, where no path copy is READY; or NULL. */
static const sp_copy *find_plain(const sp_ledger *l, const sp_segment *segs, int i, const sp_copy *path,
                                 const sp_copy *parent)
{
    bool is_list = segs[i].kind == SP_SEG_CHUNK && !segs[i].parent && !segs[i].place && !segs[i].origin;
    if (!is_list || (path && path->state != SP_COPY_FREE)) return NULL;
    if (parent && (parent->facts.kind != SP_COPY_PATH || parent->state != SP_COPY_READY)) return NULL;
    return sp_by_content_plain(l, segs, i);
}

/* find_whole -- the copy of the whole segment i, given its ancestors in `found`. A plain copy counts if it equals the
 * path copy. */
static const sp_copy *find_whole(const sp_ledger *l, const sp_path_query *q, int i,
                                 const sp_copy *const *found)
{
    const sp_segment *segs = q->segs;
    int parent = sp_segment_parent(segs, i);
    if (segs[i].parent == SP_PARENT_ALL || (parent >= 0 && !found[parent])) return NULL;
    const sp_copy *c = sp_by_path_child(l, parent < 0 ? NULL : found[parent], &segs[i]);
    const sp_copy *plain = find_plain(l, segs, i, c, parent < 0 ? NULL : found[parent]);
    if (plain) return plain;
    if (c && !sp_by_path_can_serve(c, q->ready_only)) return NULL;
    if (segs[i].origin) return c;
    return c && segs[i].place && segs[i].place - 1 != c->facts.at ? NULL : c;
}

/* find_rest -- a copy whose first tokens equal those of the segment, after the same path; or NULL. Nodes of trees are
 * short: they are found whole or not at all. */
static sp_copy *find_rest(const sp_ledger *l, const sp_path_query *q, sp_path_match *m,
                          const sp_copy *const *found)
{
    const sp_segment *seg = &q->segs[m->n];
    int parent = sp_segment_parent(q->segs, m->n);
    if (seg->kind == SP_SEG_NODE || !sp_segment_on_path(q->segs, m->n)) return NULL;
    return find_partial(l, parent < 0 ? NULL : found[parent], seg, q->ready_only, &m->n_partial);
}

static void use(sp_ledger *l, const sp_copy *found, int64_t now)
{
    if (!found || found->state != SP_COPY_READY) return;
    sp_copy *c = sp_ledger_own(l, found);
    c->uses.worth += SP_MOST_WORTH; /* exact: CFO is 0 */
    sp_evict_use(&l->ready, c, now);
}

void sp_by_path_peek(const sp_ledger *l, const sp_segment *segs, int n_segs, const sp_copy **out)
{
    const sp_path_query q = {.segs = segs, .n_segs = n_segs};
    for (int i = 0; i < n_segs; i++) out[i] = find_whole(l, &q, i, out);
}

/* name_by_path -- adds a path copy that shares the blocks of a plain copy which equals it. Out of memory: the plain
 * copy is not found by path. */
static const sp_copy *name_by_path(sp_ledger *l, const sp_copy *plain, const sp_segment *seg, const sp_copy *parent,
                                   int64_t now)
{
    const sp_copy *path = NULL;
    sp_copy_spec spec = {.seg = seg, .facts = plain->facts, .parent = parent, .blocks = plain->blocks};
    spec.facts.kind = SP_COPY_PATH;
    spec.facts.before = NULL;
    spec.facts.n_before = spec.facts.n_head = 0;
    spec.facts.stats = (sp_copy_stats){0};
    spec.facts.heavy = NULL;
    return sp_ledger_add(l, &spec, now, &path) == SP_OK ? path : NULL;
}

sp_path_match sp_by_path_match(sp_ledger *l, const sp_path_query *q, int64_t now,
                               const sp_copy **out)
{
    sp_path_match m = {0};
    bool whole = true; /* so far */
    for (int i = 0; i < q->n_segs; i++) {
        l->stats.tokens_looked_up += q->segs[i].n;
        out[i] = find_whole(l, q, i, out);
        if (out[i] && out[i]->facts.kind != SP_COPY_PATH)
            out[i] = name_by_path(l, out[i], &q->segs[i], i ? out[i - 1] : NULL, now);
        whole &= out[i] != NULL;
        m.n += whole;
        if (!out[i]) continue;
        sp_ledger_own(l, out[i])->n_pins++;
        l->stats.tokens_hit += out[i]->n;
        l->stats.n_hits++;
    }
    sp_copy *partial = m.n < q->n_segs ? find_rest(l, q, &m, out) : NULL;
    if (partial) {
        partial->n_pins++;
        if (partial->state == SP_COPY_READY) sp_evict_use(&l->ready, partial, now);
        l->stats.tokens_hit += m.n_partial;
    }
    m.partial = partial;
    for (int i = q->n_segs - 1; i >= 0; i--) use(l, out[i], now); /* descendants first */
    l->stats.n_lookups += q->n_segs;
    return m;
}

sp_path_match sp_by_path_find(sp_ledger *l, const sp_segment *segs, int n_segs, int64_t now,
                              const sp_copy **out)
{
    const sp_path_query q = {.segs = segs, .n_segs = n_segs, .ready_only = true};
    return sp_by_path_match(l, &q, now, out);
}

/* -- order ---------------------------------------------------------------------------------- */

enum { MOST_COPIES = 4096 };

typedef struct walk {
    const sp_ledger *ledger;
    const sp_segment *segs;
    int n_segs, n_head;
    bool *taken;   /* [n_segs] on the path walked now */
    int32_t *path; /* [n_segs] */
    int32_t *best; /* [n_segs] the path of most tokens so far */
    int n_best, n_seen;
    int64_t best_tokens;
} walk;

/* descend -- depth first through the copies of chunks that are not yet on the path. */
static void descend(walk *w, const sp_copy *at, int depth, int64_t tokens)
{
    if (tokens > w->best_tokens) {
        w->best_tokens = tokens;
        w->n_best = depth;
        memcpy(w->best, w->path, (size_t)depth * sizeof *w->best);
    }
    for (int i = w->n_head; i < w->n_segs && w->n_seen < MOST_COPIES; i++) {
        if (w->taken[i] || w->segs[i].kind != SP_SEG_CHUNK) continue;
        const sp_copy *child = sp_by_path_child(w->ledger, at, &w->segs[i]);
        if (!child) continue;
        w->n_seen++;
        w->taken[i] = true;
        w->path[depth] = i;
        descend(w, child, depth + 1, tokens + child->n);
        w->taken[i] = false;
    }
}

/* descend_after_head -- does nothing if the head is unknown: then no copy continues it. */
static void descend_after_head(walk *w)
{
    const sp_copy *at = NULL;
    for (int i = 0; i < w->n_head; i++) {
        at = sp_by_path_child(w->ledger, at, &w->segs[i]);
        if (!at) return;
    }
    descend(w, at, 0, 0);
}

/* fill_order -- head, best path, the rest. */
static void fill_order(const walk *w, int32_t *out)
{
    int n = 0;
    for (int i = 0; i < w->n_head; i++) out[n++] = i;
    for (int k = 0; k < w->n_best; k++) {
        out[n++] = w->best[k];
        w->taken[w->best[k]] = true;
    }
    for (int i = w->n_head; i < w->n_segs; i++)
        if (!w->taken[i]) out[n++] = i;
}

sp_err sp_by_path_order(const sp_ledger *l, const sp_segment *segs, int n_segs, int n_head,
                        int32_t *out)
{
    size_t n = (size_t)n_segs;
    walk w = {.ledger = l, .segs = segs, .n_segs = n_segs, .n_head = n_head};
    int32_t *lists = SP_NEW_N(int32_t, 2 * n);
    w.taken = SP_NEW_N(bool, n);
    sp_err err = lists && w.taken ? SP_OK : sp_fail_nomem("an order of chunks");
    if (err == SP_OK) {
        w.path = lists;
        w.best = lists + n;
        descend_after_head(&w);
        fill_order(&w, out);
    }
    sp_free(lists);
    sp_free(w.taken);
    return err;
}
