/* test_copies.c -- the copies that one chunk may have: plain, fused, placed after other chunks, and
 * patches over them; what they are worth, and why a chunk has none. */
#include "support/copy_bench.h"

enum { MANY = MAX_BLOCKS * B };

/* measured -- statistics of any chunk after up to four segments; valid until the next call. */
static sp_copy_stats measured(float cci)
{
    static int32_t order[MANY];
    static float inter[] = {0.5f, 0.25f, 0.125f, 3};
    static sp_copy_stats stats;
    for (int32_t i = 0; i < MANY; i++) order[i] = MANY - 1 - i;
    stats = (sp_copy_stats){inter, cci, order};
    return stats;
}

static sp_copy_spec placed(int n_before)
{
    return (sp_copy_spec){.facts.kind = SP_COPY_PLACED,
                          .facts.before = before,
                          .facts.n_before = n_before,
                          .facts.n_head = 1,
                          .facts.at = 7 * n_before,
                          .facts.stats = measured(0.75f)};
}

static sp_copy_spec fused(const sp_digest *after, int n_before)
{
    return (sp_copy_spec){.facts.kind = SP_COPY_FUSED,
                          .facts.before = after,
                          .facts.n_before = n_before,
                          .facts.n_head = 1,
                          .facts.stats = measured(0.75f)};
}

static sp_err find_all(bench *b, const sp_segment *seg, sp_arena *arena, const sp_copy ***out,
                       int *n)
{
    sp_content_query q = query(seg, before, 1);
    return sp_by_content_all(b->ledger, &q, arena, out, n);
}

/* all -- the measured copies after the first head; unpinned again. Their list lives as long as the
 * arena. */
static int all(bench *b, const sp_segment *seg, sp_arena *arena, const sp_copy ***out)
{
    int n;
    assert_ok(find_all(b, seg, arena, out, &n));
    for (int i = 0; i < n; i++) sp_ledger_unpin(b->ledger, (*out)[i]);
    return n;
}

static int n_all(bench *b, const sp_segment *seg)
{
    const sp_copy **list;
    sp_arena arena = {0};
    int n = all(b, seg, &arena, &list);
    sp_arena_fini(&arena);
    return n;
}

/* one -- the measured copy after exactly n segments; it is there, and pinned until it is let
 * go. */
static const sp_copy *one(bench *b, const sp_segment *seg, int n_before, bool patch)
{
    const sp_copy **list, *found = NULL;
    sp_arena arena = {0};
    int n;
    assert_ok(find_all(b, seg, &arena, &list, &n));
    for (int i = 0; i < n; i++) {
        bool is_it = !found && list[i]->facts.n_before == n_before && !list[i]->base == !patch;
        if (is_it)
            found = list[i];
        else
            sp_ledger_unpin(b->ledger, list[i]);
    }
    sp_arena_fini(&arena);
    return found;
}

static bool has_placed(bench *b, const sp_segment *seg, int n_before)
{
    const sp_copy *v = one(b, seg, n_before, false);
    if (v) sp_ledger_unpin(b->ledger, v);
    return v != NULL;
}

/* -- kinds ---------------------------------------------------------------------------------- */

static void everything_is_copied(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    int32_t heavy[40];
    for (int i = 0; i < 40; i++) heavy[i] = i ^ 1;
    sp_copy_spec v = placed(3);
    v.facts.heavy = heavy;
    v.facts.cost_us = 12;
    assert_true(enter(b, &seg, v));
    memset(heavy, 0, sizeof heavy);
    measured(0.9f); /* what was handed over may change */
    const sp_copy *got = one(b, &seg, 3, false);
    assert_int_equal(got->facts.kind, SP_COPY_PLACED);
    assert_int_equal(got->facts.at, 21);
    assert_true(got->facts.cost_us == 12);
    assert_true(got->facts.stats.cci == 0.75f);
    assert_true(got->facts.stats.inter[0] == 0.5f && got->facts.stats.inter[2] == 0.125f);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(got->facts.stats.order[i], MANY - 1 - i);
        assert_int_equal(got->facts.heavy[i], i ^ 1);
    }
    sp_ledger_unpin(b->ledger, got);
}

static void all_measured_copies_are_found(void **state)
{
    bench b;
    bench_begin(&b, 40, 40);
    sp_segment seg = numbered(0, 20), other = numbered(100, 20);
    sp_digest elsewhere[] = {{{9}}, {{2}}};
    assert_true(insert(&b, &seg)); /* not measured */
    assert_int_equal(n_all(&b, &seg), 0);
    assert_true(enter(&b, &seg, placed(2)) && enter(&b, &seg, placed(3)));
    assert_true(enter(&b, &seg, fused(before, 4)));
    assert_true(enter(&b, &other, placed(2)));
    sp_copy_spec v = placed(2);
    v.facts.before = elsewhere; /* another head */
    assert_true(enter(&b, &seg, v));
    assert_int_equal(n_all(&b, &seg), 3);
    assert_int_equal(n_all(&b, &other), 1);
    assert_true(has(&b, &seg)); /* the plain one is still there for whoever wants that */
    v = placed(1);
    v.facts.kind = SP_COPY_PLAIN;
    assert_true(enter(&b, &seg, v)); /* measured: takes its place */
    assert_int_equal(n_all(&b, &seg), 4);
    assert_int_equal(n_copies(&b), 6);
    assert_int_equal(stats_of(&b).n_placed, 4);
    assert_true(insert(&b, &seg)); /* not measured: adds nothing */
    assert_int_equal(n_all(&b, &seg), 4);
    bench_end(&b);
}

static void all_copies_with_heavy_tokens_are_found(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 20);
    int32_t heavy[20] = {0};
    sp_copy_spec v = placed(2);
    const sp_copy **list;
    sp_arena arena = {0};
    int n;
    assert_true(enter(b, &seg, placed(3)));
    v.facts.heavy = heavy;
    assert_true(enter(b, &seg, v));
    sp_content_query q = query(&seg, before, 1);
    q.heavy = true;
    assert_ok(sp_by_content_all(b->ledger, &q, &arena, &list, &n));
    assert_int_equal(n, 1);
    assert_int_equal(list[0]->facts.n_before, 2);
    sp_ledger_unpin(b->ledger, list[0]);
    assert_int_equal(n_all(b, &seg), 2);
    sp_arena_fini(&arena);
}

static void finding_all_without_memory_holds_nothing(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 20);
    const sp_copy **list = NULL;
    sp_arena arena = {0};
    int n = 0;
    assert_true(enter(b, &seg, placed(2)) && enter(b, &seg, placed(3)));
    assert_survives_faults(find_all(b, &seg, &arena, &list, &n), n == 0 && !list);
    assert_int_equal(n, 2);
    for (int i = 0; i < n; i++) sp_ledger_unpin(b->ledger, list[i]);
    sp_arena_fini(&arena);
    sp_ledger_clear(b->ledger); /* nothing was pinned by those that failed */
    assert_int_equal(n_copies(b), 0);
}

static void a_newer_fused_copy_replaces(void **state)
{
    bench b;
    bench_begin(&b, 40, 40);
    sp_segment seg = numbered(0, 20), other = numbered(100, 20);
    sp_digest elsewhere[] = {{{9}}, {{2}}};
    assert_null(find_fused(&b, &seg, before));
    assert_true(enter(&b, &seg, fused(before, 3)) && enter(&b, &other, fused(before, 3)));
    assert_true(enter(&b, &seg, fused(elsewhere, 2)));
    assert_true(enter(&b, &seg, fused(before, 2)));
    assert_int_equal(n_copies(&b), 3); /* one for each head */
    const sp_copy *v = find_fused(&b, &seg, before);
    assert_int_equal(v->facts.n_before, 2);
    assert_true(enter(&b, &seg, fused(before, 4))); /* the older one is being read */
    const sp_copy *newer = find_fused(&b, &seg, before);
    assert_int_equal(newer->facts.n_before, 4);
    assert_int_equal(n_copies(&b), 4);
    sp_ledger_unpin(b.ledger, v);
    sp_ledger_unpin(b.ledger, newer);
    assert_true(enter(&b, &seg, fused(before, 3))); /* and now it goes with the other */
    assert_int_equal(n_copies(&b), 3);
    v = find_fused(&b, &seg, elsewhere);
    assert_int_equal(v->facts.n_before, 2);
    sp_ledger_unpin(b.ledger, v);
    assert_null(find_copy(&b, &seg)); /* a fused copy is no plain one */
    assert_int_equal(stats_of(&b).n_evicted, 0);
    bench_end(&b);
}

/* -- patches -------------------------------------------------------------------------------- */

static sp_copy_spec patch_over(const sp_copy *base, int n_before)
{
    static const int32_t tokens[] = {0, 3, 17, 39};
    sp_copy_spec v = placed(n_before);
    v.facts.at = base->facts.at;
    v.base = base;
    v.patch.n = 4;
    v.patch.tokens = tokens;
    return v;
}

/* A copy that begins in a block's middle holds the blocks that its end reaches. */
static void a_copy_may_begin_within_a_block(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 20);
    uint32_t blocks[3];
    const sp_copy *c = NULL;
    sealed(b->pool, 3 * B, blocks);
    sp_copy_spec spec = computed_after(SP_COPY_PLAIN, 1);
    spec.seg = &seg;
    spec.blocks = blocks;
    spec.first = B - 1;
    assert_ok(sp_ledger_add(b->ledger, &spec, ++b->now, &c));
    sp_kv_release(b->pool, blocks, 3);
    assert_int_equal(c->first, B - 1);
    assert_memory_equal(c->blocks, blocks, sizeof blocks);
    assert_int_equal(stats_of(b).n_blocks, 3);
    assert_int_equal(sp_kv_pool_n_free(b->pool), 17);
    sp_ledger_clear(b->ledger);
    assert_int_equal(sp_kv_pool_n_free(b->pool), 20);
}

static void a_patch_costs_its_own_blocks(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    assert_true(enter(b, &seg, placed(2)));
    const sp_copy *base = one(b, &seg, 2, false);
    assert_true(enter(b, &seg, patch_over(base, 3)));
    assert_int_equal(stats_of(b).n_blocks, 4);
    assert_int_equal(sp_kv_pool_n_free(b->pool), 16);
    const sp_copy *v = one(b, &seg, 3, true);
    assert_ptr_equal(v->base, base);
    assert_int_equal(v->n, 40);
    assert_int_equal(v->patch.n, 4);
    assert_memory_equal(v->patch.tokens, ((int32_t[]){0, 3, 17, 39}), 16);
    assert_memory_equal(v->blocks, base->blocks, 3 * sizeof *v->blocks);
    assert_int_equal(sp_kv_refs(b->pool, v->patch.blocks[0]), 1);
    assert_int_equal(sp_kv_refs(b->pool, v->blocks[0]), 1);
    assert_true(enter(b, &seg, patch_over(base, 3))); /* known already */
    assert_int_equal(n_copies(b), 2);
    sp_ledger_unpin(b->ledger, v);
    sp_ledger_unpin(b->ledger, base);
}

static void a_base_stays_as_long_as_its_patches(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40), other = numbered(100, 16);
    assert_true(enter(b, &seg, placed(2)));
    const sp_copy *base = one(b, &seg, 2, false);
    assert_true(enter(b, &seg, patch_over(base, 3)) && enter(b, &seg, patch_over(base, 4)));
    sp_ledger_unpin(b->ledger, base);
    assert_true(insert(b, &other));
    const sp_copy *patch = one(b, &seg, 4, true);
    assert_true(evict_one(b)); /* the base is oldest, but the first patch goes */
    assert_null(one(b, &seg, 3, true));
    assert_true(has_placed(b, &seg, 2));
    assert_true(evict_one(b)); /* the other chunk: the rest is held */
    assert_false(evict_one(b));
    sp_ledger_clear(b->ledger);
    assert_int_equal(n_copies(b), 2);
    sp_ledger_unpin(b->ledger, patch);
    assert_true(evict_one(b)); /* patch, then base */
    assert_true(has_placed(b, &seg, 2));
    assert_true(evict_one(b));
    assert_int_equal(n_copies(b), 0);
}

static void using_a_patch_uses_its_base(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40), other = numbered(100, 16), third = numbered(200, 16);
    assert_true(enter(b, &seg, placed(2)));
    const sp_copy *base = one(b, &seg, 2, false);
    assert_true(enter(b, &seg, patch_over(base, 3)));
    sp_ledger_unpin(b->ledger, base);
    assert_true(insert(b, &other) && insert(b, &third));
    const sp_copy *patch = one(b, &seg, 3, true);
    sp_ledger_use(b->ledger, patch, 0.5f, ++b->now);
    sp_ledger_unpin(b->ledger, patch);
    assert_true(evict_one(b));
    assert_false(has(b, &other)); /* older than both now */
    sp_ledger_drop(b->ledger, patch);
    assert_true(evict_one(b)); /* no patch holds the base now, but it was used later than this one */
    assert_false(has(b, &third));
    assert_true(has_placed(b, &seg, 2));
}

static void a_patch_without_memory_changes_nothing(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    const sp_copy *added = NULL;
    uint32_t block;
    assert_true(enter(b, &seg, placed(2)));
    const sp_copy *base = one(b, &seg, 2, false);
    sp_copy_spec v = patch_over(base, 3);
    sealed(b->pool, 4, &block);
    v.seg = &seg;
    v.blocks = base->blocks;
    v.patch.blocks = &block;
    assert_survives_faults(sp_ledger_add(b->ledger, &v, 9, &added),
                           !added && sp_kv_refs(b->pool, block) == 1 && n_copies(b) == 1);
    sp_kv_release(b->pool, &block, 1);
    sp_ledger_unpin(b->ledger, base);
}

/* -- worth ---------------------------------------------------------------------------------- */

static void use(bench *b, const sp_segment *seg, int n_before, float cfo)
{
    const sp_copy *v = one(b, seg, n_before, false);
    sp_ledger_use(b->ledger, v, cfo, ++b->now);
    sp_ledger_unpin(b->ledger, v);
}

/* A use is worth 1 / CFO, so what needs no recomputing is worth most; of equals the oldest goes. */
static void the_least_worth_makes_room(void **state)
{
    bench b;
    bench_placed(&b, 40, 40, 3);
    sp_segment seg = numbered(0, 20), other = numbered(100, 20);
    assert_true(insert(&b, &seg) && insert(&b, &other)); /* plain ones do not count */
    for (int n = 2; n <= 4; n++) assert_true(enter(&b, &seg, placed(n)));
    use(&b, &seg, 2, 0); /* + 100, at most */
    use(&b, &seg, 2, 0.001f);
    use(&b, &seg, 3, 0.02f);                            /* + 50 */
    for (int i = 0; i < 3; i++) use(&b, &seg, 4, 0.1f); /* + 30, and last used */
    assert_true(enter(&b, &other, placed(2)));
    assert_false(has_placed(&b, &seg, 4));
    assert_int_equal(stats_of(&b).n_placed, 3);
    assert_true(enter(&b, &other, placed(3))); /* the new one was worth least */
    assert_false(has_placed(&b, &other, 2));
    use(&b, &other, 3, 0.02f); /* as much as the other of 50, but newer */
    assert_true(enter(&b, &other, placed(4)));
    assert_false(has_placed(&b, &seg, 3));
    assert_true(has_placed(&b, &other, 3) && has_placed(&b, &seg, 2));
    assert_true(has(&b, &seg) && has(&b, &other));
    bench_end(&b);
}

/* --max-variants: of the placed copies of one chunk the one with the least f_r leaves all tiers; those of other chunks
 * do not count. */
static void of_too_many_variants_the_least_worth_goes(void **state)
{
    for (int good = 2; good <= 3; good++) {
        const int bad = 5 - good;
        bench b = {.pool = small_pool(40)};
        const sp_ledger_opts o = {.pool = b.pool, .max_blocks = 40, .max_placed = 64, .max_variants = 2};
        assert_ok(sp_ledger_create(&o, &b.ledger));
        sp_segment seg = numbered(0, 20), other = numbered(100, 20);
        assert_true(enter(&b, &seg, placed(2)) && enter(&b, &seg, placed(3)) && enter(&b, &other, placed(2)));
        use(&b, &seg, good, 0.1f);                       /* + 10 */
        for (int k = 0; k < 3; k++) use(&b, &seg, bad, 1); /* more and later uses, + 3 */
        assert_true(enter(&b, &seg, placed(4)));
        assert_true(has_placed(&b, &seg, good) && has_placed(&b, &seg, 4) && has_placed(&b, &other, 2));
        assert_false(has_placed(&b, &seg, bad));
        assert_int_equal(n_copies(&b), 3);
        assert_int_equal(sp_ledger_stats_of(b.ledger).n_evicted, 1);
        bench_end(&b);
    }
}

/* With two allowed: those in use stay, of equal worth the one used longest ago goes, and those after another head do
 * not count. */
static void of_too_many_variants_one_that_can_go_goes(void **state)
{
    static const sp_digest elsewhere[] = {{{9}}, {{2}}, {{3}}};
    bench b = {.pool = small_pool(40)};
    const sp_ledger_opts o = {.pool = b.pool, .max_blocks = 40, .max_placed = 64, .max_variants = 2};
    assert_ok(sp_ledger_create(&o, &b.ledger));
    sp_segment seg = numbered(0, 20);
    assert_true(enter(&b, &seg, placed(2)) && enter(&b, &seg, placed(3)));
    sp_copy_spec other = placed(3);
    other.facts.before = elsewhere;
    assert_true(enter(&b, &seg, other));
    assert_int_equal(n_copies(&b), 3);
    const sp_copy *held = one(&b, &seg, 2, false); /* worth least by its age, too */
    assert_true(enter(&b, &seg, placed(4)));
    assert_true(has_placed(&b, &seg, 2) && has_placed(&b, &seg, 4));
    assert_false(has_placed(&b, &seg, 3));
    sp_ledger_unpin(b.ledger, held);
    assert_true(enter(&b, &seg, placed(3)));
    assert_true(has_placed(&b, &seg, 3) && has_placed(&b, &seg, 4));
    assert_false(has_placed(&b, &seg, 2));
    assert_int_equal(n_copies(&b), 3);
    bench_end(&b);
}

static void a_copy_without_room_is_refused(void **state)
{
    bench b;
    bench_placed(&b, 40, 40, 1);
    sp_segment seg = numbered(0, 20);
    assert_true(enter(&b, &seg, placed(2)));
    const sp_copy *v = one(&b, &seg, 2, false);
    assert_false(enter(&b, &seg, placed(3))); /* the only one is in use */
    assert_true(insert(&b, &seg));
    assert_true(enter(&b, &seg, fused(before, 3)));
    sp_ledger_unpin(b.ledger, v);
    assert_true(enter(&b, &seg, placed(3)));
    assert_false(has_placed(&b, &seg, 2));
    bench_end(&b);
    bench_placed(&b, 4, 4, 0);
    assert_false(enter(&b, &seg, placed(2)));
    assert_true(insert(&b, &seg));
    bench_end(&b);
}

static void a_head_is_among_what_came_before(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, B);
    uint32_t block;
    const sp_copy *c = NULL;
    sealed(b->pool, B, &block);
    sp_copy_spec spec = {.seg = &seg,
                         .facts.kind = SP_COPY_PLAIN,
                         .facts.before = before,
                         .facts.n_before = 1,
                         .facts.n_head = 2,
                         .blocks = &block};
    assert_fails(sp_ledger_add(b->ledger, &spec, ++b->now, &c), SP_E_ARG, "1 segments before it, but 2 of its head");
    assert_null(c);
    assert_int_equal(n_copies(b), 0);
    sp_kv_release(b->pool, &block, 1);
}

/* -- why a chunk is missing ------------------------------------------------------------------ */

static const sp_digest *const other_head = before + 1; /* copies are computed after the first */

/* What was computed after more than the head was computed after the head, too. */
static void a_copy_after_other_chunks_is_unmeasured(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    assert_true(enter(b, &seg, computed_after(SP_COPY_PLAIN, 3)));
    assert_int_equal(why(b, &seg, before), SP_MISS_UNMEASURED);
    assert_int_equal(why(b, &seg, before + 1), SP_MISS_OTHER_HEAD);
}

static void a_miss_has_a_reason(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40), edited = numbered(0, 41), other = numbered(100, 40),
               tiny = numbered(0, 15);
    assert_int_equal(why(b, &seg, other_head), SP_MISS_NEVER_SEEN);
    assert_true(insert(b, &seg));
    assert_int_equal(why(b, &seg, other_head), SP_MISS_OTHER_HEAD);
    assert_int_equal(why(b, &seg, before), SP_MISS_UNMEASURED);
    assert_int_equal(why(b, &edited, other_head), SP_MISS_EDITED);
    assert_int_equal(why(b, &other, other_head), SP_MISS_NEVER_SEEN);
    assert_int_equal(why(b, &tiny, other_head), SP_MISS_NEVER_SEEN); /* less than a block */
    sp_ledger_clear(b->ledger);
    assert_int_equal(why(b, &seg, other_head), SP_MISS_EVICTED);
    assert_int_equal(why(b, &edited, other_head), SP_MISS_EDITED);
    assert_int_equal(why(b, &other, other_head), SP_MISS_NEVER_SEEN);
    assert_true(insert(b, &tiny));
    sp_ledger_clear(b->ledger);
    assert_int_equal(why(b, &tiny, other_head), SP_MISS_EVICTED);
}

/* What was seen last is remembered, whatever had its place before. */
static void the_reason_is_that_of_what_was_seen_last(void **state)
{
    enum { N = 3000 };
    bench b;
    bench_begin(&b, 8, 4);
    int n_forgotten = 0;
    for (int i = 0; i < N; i++) {
        sp_segment s = numbered(50 * i, 20);
        assert_int_equal(why(&b, &s, other_head), SP_MISS_NEVER_SEEN);
        assert_true(insert(&b, &s));
    }
    sp_ledger_clear(b.ledger);
    for (int i = 0; i < N; i++) {
        sp_segment s = numbered(50 * i, 20);
        n_forgotten += why(&b, &s, other_head) != SP_MISS_EVICTED;
        if (i == N - 1) assert_int_equal(why(&b, &s, other_head), SP_MISS_EVICTED);
    }
    assert_in_range(n_forgotten, 0, N / 20); /* of 65,536 places 3,000 are taken */
    bench_end(&b);
}

/* Not that it was cached, and not how it began; whatever else was cached stays known. */
static void a_forgotten_chunk_leaves_no_trace(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40), edited = numbered(0, 41), twin = numbered(100, 40);
    twin.id = seg.id;
    twin.id.b[2] ^= 2; /* another chunk of the same slot (ghosts.c) */
    assert_true(insert(b, &seg));
    sp_ledger_clear(b->ledger);
    sp_ledger_forget(b->ledger, &twin.id);
    assert_int_equal(why(b, &seg, before), SP_MISS_EVICTED);
    assert_int_equal(why(b, &edited, before), SP_MISS_EDITED);
    sp_ledger_forget(b->ledger, &seg.id);
    assert_int_equal(why(b, &seg, before), SP_MISS_NEVER_SEEN);
    assert_int_equal(why(b, &edited, before), SP_MISS_NEVER_SEEN);
    assert_true(insert(b, &seg) && insert(b, &twin));
    sp_ledger_clear(b->ledger);
    sp_ledger_forget(b->ledger, &seg.id);
    assert_int_equal(why(b, &edited, before), SP_MISS_NEVER_SEEN);
    assert_int_equal(why(b, &twin, before), SP_MISS_EVICTED);
}

/* A block of tokens is enough to be known by; the chunks of another tenant say nothing. */
static void an_edited_chunk_is_known_by_its_first_block(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, B), edited = numbered(0, B + 1), other = numbered(0, B + 2);
    other.tenant = 7;
    assert_true(insert(b, &seg));
    assert_int_equal(why(b, &edited, before), SP_MISS_EDITED);
    assert_int_equal(why(b, &other, before), SP_MISS_NEVER_SEEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(everything_is_copied),
        cmocka_unit_test(all_measured_copies_are_found),
        BENCH_TEST(all_copies_with_heavy_tokens_are_found),
        BENCH_TEST(finding_all_without_memory_holds_nothing),
        cmocka_unit_test(a_newer_fused_copy_replaces),
        BENCH_TEST(a_copy_may_begin_within_a_block),
        BENCH_TEST(a_patch_costs_its_own_blocks),
        BENCH_TEST(a_base_stays_as_long_as_its_patches),
        BENCH_TEST(using_a_patch_uses_its_base),
        BENCH_TEST(a_patch_without_memory_changes_nothing),
        cmocka_unit_test(the_least_worth_makes_room),
        cmocka_unit_test(of_too_many_variants_the_least_worth_goes),
        cmocka_unit_test(of_too_many_variants_one_that_can_go_goes),
        cmocka_unit_test(a_copy_without_room_is_refused),
        BENCH_TEST(a_head_is_among_what_came_before),
        BENCH_TEST(a_copy_after_other_chunks_is_unmeasured),
        BENCH_TEST(a_miss_has_a_reason),
        BENCH_TEST(a_forgotten_chunk_leaves_no_trace),
        BENCH_TEST(an_edited_chunk_is_known_by_its_first_block),
        cmocka_unit_test(the_reason_is_that_of_what_was_seen_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
