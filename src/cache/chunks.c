#include "cache/chunks.h"

#include <string.h>

typedef struct entry {
    sp_variant v; /* first, so that a view leads back to its entry; its arrays are owned */
    int n_pins;
    sp_digest id;
    int32_t *tokens;
    struct entry *next_in_slot;
    struct entry *newer, *older;
    int64_t last_used;
} entry;

struct sp_chunks {
    sp_kv_pool *pool;
    entry **slots;  /* hash table [n_slots] by content id */
    size_t n_slots; /* power of two */
    entry *newest, *oldest;
    sp_chunks_stats stats;
};

static size_t slot_of(const sp_chunks *c, const sp_digest *id)
{
    uint64_t low;
    memcpy(&low, id->b, sizeof low);
    return (size_t)low & (c->n_slots - 1);
}

/* -- order of use --------------------------------------------------------------------------- */

static void forget(sp_chunks *c, entry *e)
{
    if (e->newer) e->newer->older = e->older;
    if (e->older) e->older->newer = e->newer;
    if (c->newest == e) c->newest = e->older;
    if (c->oldest == e) c->oldest = e->newer;
    e->newer = e->older = NULL;
}

static void touch(sp_chunks *c, entry *e, int64_t now)
{
    forget(c, e);
    e->last_used = now;
    e->older = c->newest;
    if (c->newest) c->newest->newer = e;
    c->newest = e;
    if (!c->oldest) c->oldest = e;
}

/* -- entries -------------------------------------------------------------------------------- */

static void free_entry(entry *e)
{
    sp_free(e->tokens);
    sp_free((void *)e->v.before);
    sp_free((void *)e->v.blocks);
    sp_free(e);
}

static void *copy_of(const void *v, size_t n, size_t size)
{
    void *p = sp_alloc(n, size);
    if (p && n) memcpy(p, v, n * size);
    return p;
}

static entry *new_entry(const sp_segment *seg, const sp_digest *before, int n_before, int32_t at,
                        const uint32_t *blocks)
{
    entry *e = SP_NEW(entry);
    if (!e) return NULL;
    e->id = seg->id;
    e->tokens = copy_of(seg->tokens, (size_t)seg->n, sizeof *seg->tokens);
    e->v = (sp_variant){.before = copy_of(before, (size_t)n_before, sizeof *before),
                        .n_before = n_before,
                        .at = at,
                        .n = seg->n,
                        .blocks = copy_of(blocks, (size_t)sp_blocks_for(seg->n), sizeof *blocks)};
    if (e->tokens && e->v.before && e->v.blocks) return e;
    free_entry(e);
    return NULL;
}

static bool same_before(const entry *e, const sp_digest *before, int n)
{
    return e->v.n_before == n &&
           (n == 0 || memcmp(e->v.before, before, (size_t)n * sizeof *before) == 0);
}

static entry *find(const sp_chunks *c, const sp_segment *seg, const sp_digest *before, int n_before)
{
    for (entry *e = c->slots[slot_of(c, &seg->id)]; e; e = e->next_in_slot)
        if (sp_digest_eq(&e->id, &seg->id) && same_before(e, before, n_before) &&
            e->v.n == seg->n &&
            memcmp(e->tokens, seg->tokens, (size_t)seg->n * sizeof *seg->tokens) == 0)
            return e;
    return NULL;
}

static void drop(sp_chunks *c, entry *e)
{
    entry **at = &c->slots[slot_of(c, &e->id)];
    while (*at != e) at = &(*at)->next_in_slot;
    *at = e->next_in_slot;
    forget(c, e);
    sp_kv_release(c->pool, e->v.blocks, sp_blocks_for(e->v.n));
    c->stats.n_variants--;
    c->stats.n_blocks -= sp_blocks_for(e->v.n);
    free_entry(e);
}

static sp_err widen(sp_chunks *c)
{
    size_t n = c->n_slots * 2;
    entry **slots = SP_NEW_N(entry *, n);
    if (!slots) return sp_fail_nomem(n * sizeof *slots, "the chunk index");
    sp_free(c->slots);
    c->slots = slots;
    c->n_slots = n;
    for (entry *e = c->newest; e; e = e->older) {
        entry **head = &c->slots[slot_of(c, &e->id)];
        e->next_in_slot = *head;
        *head = e;
    }
    return SP_OK;
}

/* -- the index ------------------------------------------------------------------------------ */

sp_err sp_chunks_create(sp_kv_pool *pool, int64_t max_blocks, sp_chunks **out)
{
    sp_chunks *c = SP_NEW(sp_chunks);
    if (!c) return sp_fail_nomem(sizeof *c, "the chunk index");
    c->pool = pool;
    c->stats.max_blocks = max_blocks;
    c->n_slots = 256;
    c->slots = SP_NEW_N(entry *, c->n_slots);
    if (!c->slots) {
        sp_chunks_destroy(c);
        return sp_fail_nomem(256 * sizeof *c->slots, "the chunk index");
    }
    *out = c;
    return SP_OK;
}

void sp_chunks_destroy(sp_chunks *c)
{
    if (!c) return;
    sp_chunks_clear(c);
    assert(!c->oldest); /* all pins were given back */
    sp_free(c->slots);
    sp_free(c);
}

const sp_variant *sp_chunks_find(sp_chunks *c, const sp_segment *seg, const sp_digest *before,
                                 int n_before, int64_t now)
{
    entry *e = find(c, seg, before, n_before);
    c->stats.n_lookups++;
    if (!e) return NULL;
    c->stats.n_hits++;
    touch(c, e, now);
    e->n_pins++;
    return &e->v;
}

void sp_chunks_unpin(sp_chunks *c, const sp_variant *v)
{
    SP_UNUSED(c);
    entry *e = (entry *)v;
    assert(e->n_pins > 0);
    e->n_pins--;
}

/* make_room -- evicts until n_blocks more fit the budget; false when pins or size forbid it. */
static bool make_room(sp_chunks *c, int32_t n_blocks)
{
    if (n_blocks > c->stats.max_blocks) return false;
    while (c->stats.n_blocks + n_blocks > c->stats.max_blocks)
        if (!sp_chunks_evict_one(c)) return false;
    return true;
}

sp_err sp_chunks_insert(sp_chunks *c, const sp_segment *seg, const sp_digest *before, int n_before,
                        int32_t at, const uint32_t *blocks, int64_t now, bool *added)
{
    int32_t n_blocks = sp_blocks_for(seg->n);
    entry *e = find(c, seg, before, n_before);
    if (e) {
        touch(c, e, now);
        *added = true;
        return SP_OK;
    }
    if (!make_room(c, n_blocks)) {
        *added = false;
        return SP_OK;
    }
    for (int32_t i = 0; i < n_blocks; i++) assert(sp_kv_is_sealed(c->pool, blocks[i])); /* I1 */
    if ((size_t)c->stats.n_variants >= c->n_slots) SP_TRY(widen(c));
    e = new_entry(seg, before, n_before, at, blocks);
    if (!e) return sp_fail_nomem(sizeof *e, "an entry of the chunk index");
    sp_kv_retain(c->pool, blocks, n_blocks);
    entry **head = &c->slots[slot_of(c, &e->id)];
    e->next_in_slot = *head;
    *head = e;
    touch(c, e, now);
    c->stats.n_variants++;
    c->stats.n_blocks += n_blocks; /* I4 */
    *added = true;
    return SP_OK;
}

static entry *oldest_unpinned(const sp_chunks *c)
{
    entry *e = c->oldest;
    while (e && e->n_pins) e = e->newer;
    return e;
}

bool sp_chunks_evict_one(sp_chunks *c)
{
    entry *e = oldest_unpinned(c);
    if (!e) return false;
    drop(c, e);
    c->stats.n_evicted++;
    return true;
}

int64_t sp_chunks_oldest(const sp_chunks *c)
{
    const entry *e = oldest_unpinned(c);
    return e ? e->last_used : INT64_MAX;
}

void sp_chunks_clear(sp_chunks *c)
{
    while (oldest_unpinned(c)) drop(c, oldest_unpinned(c));
}

sp_chunks_stats sp_chunks_stats_of(const sp_chunks *c)
{
    return c->stats;
}
