#include "cache/tree.h"

#include <string.h>

#include "cache/tree_int.h"

struct sp_tree {
    sp_kv_pool *pool;
    const sp_evict_policy *policy;
    sp_evict_state evict;
    sp_node root;
    sp_node **by_id;    /* hash table [n_slots] by (parent, id) */
    sp_node **by_start; /* hash table [n_slots] by (parent, tokens of the first block) */
    size_t n_slots;     /* power of two */
    sp_tree_stats stats;
};

/* -- the two tables ------------------------------------------------------------------------- */

static size_t slot_of_id(const sp_tree *t, const sp_node *parent, const sp_digest *id)
{
    uint64_t low;
    memcpy(&low, id->b, sizeof low);
    uint64_t key[2] = {(uint64_t)(uintptr_t)parent, low};
    return (size_t)sp_hash64(key, sizeof key) & (t->n_slots - 1);
}

static size_t slot_of_start(const sp_tree *t, const sp_node *parent, const int32_t *tokens)
{
    struct {
        uint64_t parent;
        int32_t tokens[SP_BLOCK_TOKENS];
    } key = {.parent = (uint64_t)(uintptr_t)parent};
    memcpy(key.tokens, tokens, sizeof key.tokens);
    return (size_t)sp_hash64(&key, sizeof key) & (t->n_slots - 1);
}

static void link_node(sp_tree *t, sp_node *n)
{
    sp_node **head = &t->by_id[slot_of_id(t, n->parent, &n->id)];
    n->next_same_id = *head;
    *head = n;
    if (n->n < SP_BLOCK_TOKENS) return;
    head = &t->by_start[slot_of_start(t, n->parent, n->tokens)];
    n->next_same_start = *head;
    *head = n;
}

static void unlink_node(sp_tree *t, sp_node *n)
{
    sp_node **at = &t->by_id[slot_of_id(t, n->parent, &n->id)];
    while (*at != n) at = &(*at)->next_same_id;
    *at = n->next_same_id;
    if (n->n < SP_BLOCK_TOKENS) return;
    at = &t->by_start[slot_of_start(t, n->parent, n->tokens)];
    while (*at != n) at = &(*at)->next_same_start;
    *at = n->next_same_start;
}

static sp_err widen_tables(sp_tree *t)
{
    size_t n = t->n_slots * 2;
    sp_node **ids = SP_NEW_N(sp_node *, n), **starts = SP_NEW_N(sp_node *, n);
    if (!ids || !starts) {
        sp_free(ids);
        sp_free(starts);
        return sp_fail_nomem(2 * n * sizeof *ids, "the knowledge tree");
    }
    sp_free(t->by_id);
    sp_free(t->by_start);
    t->by_id = ids;
    t->by_start = starts;
    t->n_slots = n;
    for (sp_node *v = t->evict.newest; v; v = v->older) link_node(t, v);
    return SP_OK;
}

/* -- nodes ---------------------------------------------------------------------------------- */

static bool same_tokens(const sp_node *n, const sp_segment *seg)
{
    return n->n == seg->n && memcmp(n->tokens, seg->tokens, (size_t)n->n * sizeof *n->tokens) == 0;
}

const sp_node *sp_tree_root(const sp_tree *t)
{
    return &t->root;
}

/* The hash discovers, the tokens verify. */
sp_node *sp_tree_child(const sp_tree *t, const sp_node *parent, const sp_segment *seg)
{
    for (sp_node *n = t->by_id[slot_of_id(t, parent, &seg->id)]; n; n = n->next_same_id)
        if (n->parent == parent && sp_digest_eq(&n->id, &seg->id) && same_tokens(n, seg)) return n;
    return NULL;
}

static int32_t common_blocks(const sp_node *n, const sp_segment *seg)
{
    int32_t limit = SP_MIN(n->n, seg->n) / SP_BLOCK_TOKENS, b = 0;
    while (b < limit && memcmp(n->tokens + b * SP_BLOCK_TOKENS, seg->tokens + b * SP_BLOCK_TOKENS,
                               SP_BLOCK_TOKENS * sizeof *n->tokens) == 0)
        b++;
    return b;
}

/* find_partial -- the child that shares most leading blocks with seg; sets *n_tokens. */
static sp_node *find_partial(const sp_tree *t, const sp_node *parent, const sp_segment *seg,
                             int32_t *n_tokens)
{
    sp_node *best = NULL;
    int32_t best_blocks = 0;
    if (seg->n < SP_BLOCK_TOKENS) return NULL;
    for (sp_node *n = t->by_start[slot_of_start(t, parent, seg->tokens)]; n;
         n = n->next_same_start) {
        int32_t b = n->parent == parent ? common_blocks(n, seg) : 0;
        if (b > best_blocks) {
            best_blocks = b;
            best = n;
        }
    }
    *n_tokens = best_blocks * SP_BLOCK_TOKENS;
    return best;
}

static void drop_node(sp_tree *t, sp_node *n)
{
    assert(sp_node_evictable(n)); /* I2 */
    t->policy->forget(&t->evict, n);
    unlink_node(t, n);
    sp_kv_release(t->pool, n->blocks, sp_blocks_for(n->n));
    n->parent->n_children--;
    t->stats.n_nodes--;
    t->stats.n_blocks -= sp_blocks_for(n->n);
    sp_free(n->tokens);
    sp_free(n->blocks);
    sp_free(n);
}

bool sp_tree_evict_one(sp_tree *t)
{
    sp_node *n = t->policy->victim(&t->evict);
    if (!n) return false;
    drop_node(t, n);
    t->stats.n_evicted++;
    return true;
}

/* -- the tree ------------------------------------------------------------------------------- */

sp_err sp_tree_create(sp_kv_pool *pool, int64_t max_blocks, const char *evict, sp_tree **out)
{
    if (strcmp(evict, sp_evict_lru.name) != 0)
        return sp_fail(SP_E_ARG, "replacement policy \"%s\" is unknown: lru", evict);
    sp_tree *t = SP_NEW(sp_tree);
    if (!t) return sp_fail_nomem(sizeof *t, "the knowledge tree");
    t->pool = pool;
    t->policy = &sp_evict_lru;
    t->stats.max_blocks = max_blocks;
    t->n_slots = 256;
    t->by_id = SP_NEW_N(sp_node *, t->n_slots);
    t->by_start = SP_NEW_N(sp_node *, t->n_slots);
    if (!t->by_id || !t->by_start) {
        sp_tree_destroy(t);
        return sp_fail_nomem(2 * 256 * sizeof *t->by_id, "the knowledge tree");
    }
    *out = t;
    return SP_OK;
}

void sp_tree_destroy(sp_tree *t)
{
    if (!t) return;
    sp_tree_clear(t);
    assert(t->stats.n_nodes == 0); /* all matches were released */
    sp_free(t->by_id);
    sp_free(t->by_start);
    sp_free(t);
}

sp_err sp_tree_match(sp_tree *t, const sp_segment *segs, int n_segs, int64_t now, sp_arena *arena,
                     sp_match *out)
{
    sp_match m = {.path = sp_arena_take(arena, (size_t)n_segs, sizeof *m.path), .tip = &t->root};
    if (!m.path) return sp_fail_nomem((size_t)n_segs * sizeof *m.path, "a match");
    while (m.n_path < n_segs) {
        sp_node *child = sp_tree_child(t, m.tip, &segs[m.n_path]);
        if (!child) break;
        m.path[m.n_path++] = m.tip = child;
        t->stats.tokens_hit += child->n;
    }
    sp_node *partial = NULL;
    if (m.n_path < n_segs) partial = find_partial(t, m.tip, &segs[m.n_path], &m.n_partial);
    if (partial) {
        partial->n_pins++;
        t->policy->touch(&t->evict, partial, now);
        t->stats.tokens_hit += m.n_partial;
    }
    m.partial = partial;
    m.tip->n_pins++;
    for (sp_node *n = m.tip; n != &t->root; n = n->parent) t->policy->touch(&t->evict, n, now);
    t->stats.n_lookups += n_segs;
    t->stats.n_hits += m.n_path;
    for (int i = 0; i < n_segs; i++) t->stats.tokens_looked_up += segs[i].n;
    *out = m;
    return SP_OK;
}

void sp_tree_release(sp_tree *t, sp_match *m)
{
    if (!m->tip) return;
    SP_UNUSED(t);
    m->tip->n_pins--;
    if (m->partial) ((sp_node *)m->partial)->n_pins--;
    *m = (sp_match){0};
}

static sp_node *new_node(sp_tree *t, sp_node *parent, const sp_segment *seg, const uint32_t *blocks)
{
    int32_t n_blocks = sp_blocks_for(seg->n);
    sp_node *n = SP_NEW(sp_node);
    if (!n) return NULL;
    n->tokens = sp_alloc((size_t)seg->n, sizeof *n->tokens);
    n->blocks = sp_alloc((size_t)n_blocks, sizeof *n->blocks);
    if (!n->tokens || !n->blocks) {
        sp_free(n->tokens);
        sp_free(n->blocks);
        sp_free(n);
        return NULL;
    }
    memcpy(n->tokens, seg->tokens, (size_t)seg->n * sizeof *n->tokens);
    memcpy(n->blocks, blocks, (size_t)n_blocks * sizeof *n->blocks);
    sp_kv_retain(t->pool, blocks, n_blocks);
    n->id = seg->id;
    n->n = seg->n;
    n->at = parent->at + parent->n;
    n->parent = parent;
    return n;
}

/* make_room -- evicts until n_blocks more fit the budget; false if pins stand in the way. */
static bool make_room(sp_tree *t, int64_t n_blocks)
{
    if (n_blocks > t->stats.max_blocks) return false;
    while (t->stats.n_blocks + n_blocks > t->stats.max_blocks)
        if (!sp_tree_evict_one(t)) return false;
    return true;
}

sp_err sp_tree_extend(sp_tree *t, sp_match *m, const sp_segment *seg, const uint32_t *blocks,
                      int64_t now, bool *added)
{
    sp_node *child = sp_tree_child(t, m->tip, seg);
    if (!child) {
        int32_t n_blocks = sp_blocks_for(seg->n);
        for (int32_t i = 0; i < n_blocks; i++) assert(sp_kv_is_sealed(t->pool, blocks[i])); /* I1 */
        if (!make_room(t, n_blocks)) {
            *added = false;
            return SP_OK;
        }
        if ((size_t)t->stats.n_nodes >= t->n_slots) SP_TRY(widen_tables(t));
        child = new_node(t, m->tip, seg, blocks);
        if (!child) return sp_fail_nomem(sizeof *child, "a node of the knowledge tree");
        link_node(t, child);
        m->tip->n_children++;
        t->stats.n_nodes++;
        t->stats.n_blocks += n_blocks; /* I3 */
    }
    *added = true;
    m->tip->n_pins--;
    child->n_pins++;
    m->tip = child;
    for (sp_node *n = child; n != &t->root; n = n->parent) t->policy->touch(&t->evict, n, now);
    return SP_OK;
}

int64_t sp_tree_oldest(const sp_tree *t)
{
    const sp_node *n = t->policy->victim(&t->evict);
    return n ? n->last_used : INT64_MAX;
}

void sp_tree_clear(sp_tree *t)
{
    while (sp_tree_evict_one(t)) {
    }
}

sp_tree_stats sp_tree_stats_of(const sp_tree *t)
{
    return t->stats;
}

const uint32_t *sp_node_blocks(const sp_node *n)
{
    return n->blocks;
}

int32_t sp_node_n(const sp_node *n)
{
    return n->n;
}

int32_t sp_node_at(const sp_node *n)
{
    return n->at;
}
