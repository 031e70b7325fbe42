#include "cache/chunks.h"

#include <string.h>

#include "cache/ghosts.h"

#define MOST_WORTH 100.0f /* of one use: CFO may be 0 */

typedef struct entry {
    sp_variant v; /* first, so that a view leads back to its entry; its arrays are in the arena */
    int n_pins;   /* by users, and by patches over it */
    sp_digest id;
    int32_t *tokens; /* [n] */
    sp_copy_stats stats;
    float worth; /* f_r */
    struct entry *next_in_slot;
    struct entry *newer, *older;
    int64_t last_used;
    sp_arena arena;
} entry;

struct sp_chunks {
    sp_kv_pool *pool;
    entry **slots;  /* hash table [n_slots] by content id */
    size_t n_slots; /* power of two */
    entry *newest, *oldest;
    int64_t max_placed;
    sp_ghosts *ghosts;
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
    sp_arena_fini(&e->arena);
    sp_free(e);
}

/* copy_of -- n items in the arena of e; NULL stays NULL. *ok becomes false when memory is out. */
static void *copy_of(entry *e, const void *v, size_t n, size_t size, bool *ok)
{
    if (!v) return NULL;
    void *p = sp_arena_take(&e->arena, n, size);
    if (p && n) memcpy(p, v, n * size);
    *ok &= p != NULL;
    return p;
}

static entry *new_entry(const sp_segment *seg, const sp_variant *copy)
{
    entry *e = SP_NEW(entry);
    if (!e) return NULL;
    sp_arena_init(&e->arena);
    bool ok = true;
    size_t n = (size_t)seg->n, n_before = (size_t)copy->n_before, n_patch = (size_t)copy->n_patch;
    e->id = seg->id;
    e->worth = 1;
    e->v = *copy;
    e->v.n = seg->n;
    e->tokens = copy_of(e, seg->tokens, n, sizeof *seg->tokens, &ok);
    e->v.before = copy_of(e, copy->before, n_before, sizeof *copy->before, &ok);
    e->v.blocks =
        copy_of(e, copy->blocks, (size_t)sp_blocks_for(seg->n), sizeof *copy->blocks, &ok);
    e->v.heavy = copy_of(e, copy->heavy, n, sizeof *copy->heavy, &ok);
    if (copy->base) {
        e->v.patch = copy_of(e, copy->patch, n_patch, sizeof *copy->patch, &ok);
        e->v.patch_blocks = copy_of(e, copy->patch_blocks, (size_t)sp_blocks_for(copy->n_patch),
                                    sizeof *copy->patch_blocks, &ok);
    }
    if (copy->stats) {
        e->stats.cci = copy->stats->cci;
        e->stats.inter = copy_of(e, copy->stats->inter, n_before, sizeof(float), &ok);
        e->stats.order = copy_of(e, copy->stats->order, n, sizeof(int32_t), &ok);
        e->v.stats = &e->stats;
    }
    if (ok) return e;
    free_entry(e);
    return NULL;
}

/* own_blocks -- those that this entry alone accounts for. */
static const uint32_t *own_blocks(const sp_variant *v, int32_t *n)
{
    *n = sp_blocks_for(v->base ? v->n_patch : v->n);
    return v->base ? v->patch_blocks : v->blocks;
}

static bool is_same(const entry *e, const sp_segment *seg)
{
    return sp_digest_eq(&e->id, &seg->id) && e->v.n == seg->n &&
           memcmp(e->tokens, seg->tokens, (size_t)seg->n * sizeof *seg->tokens) == 0;
}

static bool begins_with(const entry *e, const sp_digest *before, int n)
{
    return e->v.n_before >= n &&
           (n == 0 || memcmp(e->v.before, before, (size_t)n * sizeof *before) == 0);
}

static entry *find(const sp_chunks *c, const sp_segment *seg, const sp_variant *like)
{
    bool fused = like->kind == SP_COPY_FUSED;
    for (entry *e = c->slots[slot_of(c, &seg->id)]; e; e = e->next_in_slot)
        if ((e->v.kind == SP_COPY_FUSED) == fused && !e->v.base == !like->base &&
            e->v.n_before == like->n_before && begins_with(e, like->before, like->n_before) &&
            is_same(e, seg))
            return e;
    return NULL;
}

static entry *find_fused(const sp_chunks *c, const sp_segment *seg, const sp_digest *head, int n)
{
    for (entry *e = c->slots[slot_of(c, &seg->id)]; e; e = e->next_in_slot)
        if (e->v.kind == SP_COPY_FUSED && begins_with(e, head, n) && is_same(e, seg)) return e;
    return NULL;
}

static void link_entry(sp_chunks *c, entry *e)
{
    entry **head = &c->slots[slot_of(c, &e->id)];
    e->next_in_slot = *head;
    *head = e;
}

static void unlink_entry(sp_chunks *c, entry *e)
{
    entry **at = &c->slots[slot_of(c, &e->id)];
    while (*at != e) at = &(*at)->next_in_slot;
    *at = e->next_in_slot;
}

/* count -- enters (1) or leaves (-1) the sums. */
static void count(sp_chunks *c, const entry *e, int sign)
{
    int32_t n;
    own_blocks(&e->v, &n);
    c->stats.n_variants += sign;
    c->stats.n_blocks += sign * n;
    if (e->v.kind == SP_COPY_PLACED) c->stats.n_placed += sign;
}

static void drop(sp_chunks *c, entry *e)
{
    int32_t n;
    const uint32_t *blocks = own_blocks(&e->v, &n);
    unlink_entry(c, e);
    forget(c, e);
    sp_kv_release(c->pool, blocks, n);
    if (e->v.base) ((entry *)e->v.base)->n_pins--;
    count(c, e, -1);
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
    for (entry *e = c->oldest; e; e = e->newer) link_entry(c, e);
    return SP_OK;
}

/* -- the index ------------------------------------------------------------------------------ */

sp_err sp_chunks_create(sp_kv_pool *pool, int64_t max_blocks, int64_t max_placed, sp_chunks **out)
{
    sp_chunks *c = SP_NEW(sp_chunks);
    if (!c) return sp_fail_nomem(sizeof *c, "the chunk index");
    c->pool = pool;
    c->stats.max_blocks = max_blocks;
    c->max_placed = max_placed;
    c->n_slots = 256;
    c->slots = SP_NEW_N(entry *, c->n_slots);
    c->ghosts = SP_NEW(sp_ghosts);
    if (!c->slots || !c->ghosts) {
        sp_chunks_destroy(c);
        return sp_fail_nomem(sizeof *c->ghosts, "the chunk index");
    }
    *out = c;
    return SP_OK;
}

void sp_chunks_destroy(sp_chunks *c)
{
    if (!c) return;
    sp_chunks_clear(c);
    assert(!c->oldest); /* all pins were given back */
    sp_free(c->ghosts);
    sp_free(c->slots);
    sp_free(c);
}

static const sp_variant *looked_up(sp_chunks *c, entry *e, int64_t now)
{
    c->stats.n_lookups++;
    if (!e) return NULL;
    c->stats.n_hits++;
    touch(c, e, now);
    e->n_pins++;
    return &e->v;
}

const sp_variant *sp_chunks_find(sp_chunks *c, const sp_segment *seg, const sp_digest *before,
                                 int n_before, int64_t now)
{
    sp_variant like = {.kind = SP_COPY_PLAIN, .before = before, .n_before = n_before};
    return looked_up(c, find(c, seg, &like), now);
}

const sp_variant *sp_chunks_find_fused(sp_chunks *c, const sp_segment *seg, const sp_digest *head,
                                       int n_head, int64_t now)
{
    return looked_up(c, find_fused(c, seg, head, n_head), now);
}

sp_err sp_chunks_find_all(sp_chunks *c, const sp_segment *seg, const sp_digest *head, int n_head,
                          sp_arena *arena, const sp_variant ***out, int *n)
{
    int found = 0;
    const sp_variant **list = NULL;
    for (int pass = 0; pass < 2; pass++) { /* count, then take */
        for (entry *e = c->slots[slot_of(c, &seg->id)]; e; e = e->next_in_slot) {
            if (!e->v.stats || !begins_with(e, head, n_head) || !is_same(e, seg)) continue;
            if (list) list[found] = &e->v, e->n_pins++;
            found++;
        }
        if (pass || !found) break;
        list = sp_arena_take(arena, (size_t)found, sizeof *list);
        if (!list) return sp_fail_nomem((size_t)found * sizeof *list, "the variants of a chunk");
        found = 0;
    }
    c->stats.n_lookups++;
    c->stats.n_hits += found > 0;
    *out = list;
    *n = found;
    return SP_OK;
}

void sp_chunks_unpin(sp_chunks *c, const sp_variant *v)
{
    SP_UNUSED(c);
    entry *e = (entry *)v;
    assert(e->n_pins > 0);
    e->n_pins--;
}

void sp_chunks_use(sp_chunks *c, const sp_variant *v, float cfo, int64_t now)
{
    entry *e = (entry *)v;
    e->worth += cfo > 1 / MOST_WORTH ? 1 / cfo : MOST_WORTH;
    if (v->base) touch(c, (entry *)v->base, now);
    touch(c, e, now);
}

sp_miss sp_chunks_why(const sp_chunks *c, const sp_segment *seg, const sp_digest *head, int n_head)
{
    bool elsewhere = false;
    for (const entry *e = c->slots[slot_of(c, &seg->id)]; e; e = e->next_in_slot) {
        if (!is_same(e, seg)) continue;
        if (begins_with(e, head, n_head)) return SP_MISS_UNMEASURED;
        elsewhere = true;
    }
    if (elsewhere) return SP_MISS_OTHER_HEAD;
    if (sp_ghosts_has(c->ghosts, seg)) return SP_MISS_EVICTED;
    return sp_ghosts_has_start(c->ghosts, seg) ? SP_MISS_EDITED : SP_MISS_NEVER_SEEN;
}

/* -- making room ---------------------------------------------------------------------------- */

static entry *oldest_unpinned(const sp_chunks *c)
{
    entry *e = c->oldest;
    while (e && e->n_pins) e = e->newer;
    return e;
}

static bool evict(sp_chunks *c, entry *e)
{
    if (!e) return false;
    drop(c, e);
    c->stats.n_evicted++;
    return true;
}

bool sp_chunks_evict_one(sp_chunks *c)
{
    return evict(c, oldest_unpinned(c));
}

/* least_worth -- the placed variant that has saved least; of equals the one not used longest. */
static entry *least_worth(const sp_chunks *c)
{
    entry *least = NULL;
    for (entry *e = c->oldest; e; e = e->newer)
        if (e->v.kind == SP_COPY_PLACED && !e->n_pins && (!least || e->worth < least->worth))
            least = e;
    return least;
}

/* make_room -- evicts until a copy of n_blocks fits the budgets; false when pins or size forbid
 * it. */
static bool make_room(sp_chunks *c, int32_t n_blocks, sp_copy_kind kind)
{
    if (n_blocks > c->stats.max_blocks) return false;
    while (kind == SP_COPY_PLACED && c->stats.n_placed >= c->max_placed)
        if (!evict(c, least_worth(c))) return false;
    while (c->stats.n_blocks + n_blocks > c->stats.max_blocks)
        if (!sp_chunks_evict_one(c)) return false;
    return true;
}

/* drop_replaced -- the copies fused with other chunks that nobody reads now. */
static void drop_replaced(sp_chunks *c, const sp_segment *seg, const entry *by)
{
    for (entry *e = c->slots[slot_of(c, &seg->id)], *next; e; e = next) {
        next = e->next_in_slot;
        if (e != by && e->v.kind == SP_COPY_FUSED && !e->n_pins && is_same(e, seg) &&
            e->v.n_before > 0 && by->v.n_before > 0 &&
            sp_digest_eq(&e->v.before[0], &by->v.before[0]))
            drop(c, e);
    }
}

sp_err sp_chunks_insert(sp_chunks *c, const sp_segment *seg, const sp_variant *copy, int64_t now,
                        bool *added)
{
    sp_variant v = *copy;
    v.n = seg->n;
    int32_t n_blocks;
    const uint32_t *blocks = own_blocks(&v, &n_blocks);
    entry *e = find(c, seg, &v);
    if (e && (e->v.stats || !v.stats) && (e->v.heavy || !v.heavy)) {
        touch(c, e, now);
        *added = true;
        return SP_OK;
    }
    if (e && !e->n_pins) drop(c, e); /* the new one was measured, this one was not */
    if (!make_room(c, n_blocks, v.kind)) {
        *added = false;
        return SP_OK;
    }
    for (int32_t i = 0; i < n_blocks; i++) assert(sp_kv_is_sealed(c->pool, blocks[i])); /* I1 */
    if ((size_t)c->stats.n_variants >= c->n_slots) SP_TRY(widen(c));
    e = new_entry(seg, &v);
    if (!e) return sp_fail_nomem(sizeof *e, "an entry of the chunk index");
    sp_kv_retain(c->pool, blocks, n_blocks);
    if (v.base) ((entry *)v.base)->n_pins++; /* I3 */
    link_entry(c, e);
    touch(c, e, now);
    count(c, e, 1); /* I4, I5 */
    if (v.kind == SP_COPY_FUSED) drop_replaced(c, seg, e);
    sp_ghosts_add(c->ghosts, seg);
    *added = true;
    return SP_OK;
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
