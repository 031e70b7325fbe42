/* The chunk index: what it finds, keeps and gives up; and room made in tree and index alike. */
#include "support/small_kv.h"

#include "cache/cache.h"

enum { B = SP_BLOCK_TOKENS, MAX_BLOCKS = 8 };

typedef struct bench {
    sp_kv_pool *pool;
    sp_chunks *chunks;
    int64_t now;
} bench;

static void bench_begin(bench *b, int64_t n_blocks, int64_t max_blocks)
{
    *b = (bench){.pool = small_pool(n_blocks)};
    assert_ok(sp_chunks_create(b->pool, max_blocks, 64, &b->chunks));
}

static void bench_end(bench *b)
{
    sp_chunks_destroy(b->chunks);
    small_pool_end(b->pool); /* the index has given everything back */
}

static const sp_digest before[] = {{{1}}, {{2}}, {{3}}, {{4}}};

/* numbered -- n tokens that begin at `first`, and count. Valid until 32 more were made. */
static sp_segment numbered(int32_t first, int32_t n)
{
    static int32_t tokens[32][MAX_BLOCKS * B];
    static int next;
    int32_t *t = tokens[next++ % 32];
    assert_in_range(n, 1, MAX_BLOCKS * B);
    for (int32_t i = 0; i < n; i++) t[i] = first + i;
    return small_segment(t, n);
}

/* sealed -- blocks as a fill leaves them; the caller holds them. */
static void sealed(sp_kv_pool *pool, int32_t n_tokens, uint32_t *blocks)
{
    assert_ok(sp_kv_acquire(pool, small_blocks(n_tokens), blocks));
    sp_kv_seal(pool, blocks, small_blocks(n_tokens));
}

/* insert -- fresh sealed blocks behind before[0], handed over to the index. */
static bool insert(bench *b, const sp_segment *seg)
{
    uint32_t blocks[MAX_BLOCKS];
    bool added = false;
    sealed(b->pool, seg->n, blocks);
    assert_ok(sp_chunks_insert(b->chunks, seg, &(sp_variant){.before = before, .n_before = 1, .at = 5, .blocks = blocks}, ++b->now, &added));
    sp_kv_release(b->pool, blocks, small_blocks(seg->n));
    return added;
}

static const sp_variant *find(bench *b, const sp_segment *seg)
{
    return sp_chunks_find(b->chunks, seg, before, 1, ++b->now);
}

/* has -- without leaving a pin; counts as a use. */
static bool has(bench *b, const sp_segment *seg)
{
    const sp_variant *v = find(b, seg);
    if (v) sp_chunks_unpin(b->chunks, v);
    return v != NULL;
}

/* -- finding -------------------------------------------------------------------------------- */

static void assert_unknown(bench *b, const sp_segment *seg, const sp_digest *ids, int n)
{
    assert_null(sp_chunks_find(b->chunks, seg, ids, n, ++b->now));
}

static void test_found_by_tokens_and_what_stood_before(void **state)
{
    bench b;
    bench_begin(&b, 20, 20);
    sp_segment seg = numbered(100, 40), shorter = seg, forged = numbered(200, 40);
    uint32_t blocks[3];
    bool added = false;
    sealed(b.pool, 40, blocks);
    assert_ok(sp_chunks_insert(b.chunks, &seg, &(sp_variant){.before = before, .n_before = 2, .at = 17, .blocks = blocks}, 1, &added));
    assert_true(added);
    const sp_variant *v = sp_chunks_find(b.chunks, &seg, before, 2, 2);
    assert_non_null(v);
    assert_int_equal(v->n_before, 2);
    assert_memory_equal(v->before, before, 2 * sizeof *before);
    assert_int_equal(v->at, 17);
    assert_int_equal(v->n, 40);
    assert_memory_equal(v->blocks, blocks, sizeof blocks);
    sp_chunks_unpin(b.chunks, v);
    assert_unknown(&b, &seg, before, 0);
    assert_unknown(&b, &seg, before, 1);
    assert_unknown(&b, &seg, before, 3);
    assert_unknown(&b, &seg, before + 1, 2);
    shorter.n = 39;
    assert_unknown(&b, &shorter, before, 2); /* the same id, but ... */
    forged.id = seg.id;
    assert_unknown(&b, &forged, before, 2); /* ... the tokens decide */
    forged.id = numbered(200, 40).id;
    forged.tokens = seg.tokens;
    assert_unknown(&b, &forged, before, 2);
    sp_kv_release(b.pool, blocks, 3);
    bench_end(&b);
}

static void test_variants_of_one_chunk(void **state)
{
    bench b;
    bench_begin(&b, 20, 20);
    sp_segment seg = numbered(100, 16);
    uint32_t blocks[4];
    bool added;
    for (int n = 0; n < 4; n++) {
        sealed(b.pool, 16, &blocks[n]);
        assert_ok(sp_chunks_insert(b.chunks, &seg, &(sp_variant){.before = before, .n_before = n, .at = 10 * n, .blocks = &blocks[n]}, ++b.now, &added));
        assert_true(added);
    }
    assert_int_equal(sp_chunks_stats_of(b.chunks).n_variants, 4);
    for (int n = 0; n < 4; n++) {
        const sp_variant *v = sp_chunks_find(b.chunks, &seg, before, n, ++b.now);
        assert_non_null(v);
        assert_int_equal(v->n_before, n);
        assert_int_equal(v->at, 10 * n);
        assert_int_equal(v->blocks[0], blocks[n]);
        sp_chunks_unpin(b.chunks, v);
    }
    sp_kv_release(b.pool, blocks, 4);
    bench_end(&b);
}

static void test_index_keeps_its_own_copies(void **state)
{
    bench b;
    bench_begin(&b, 20, 20);
    int32_t tokens[20] = {7, 8, 9};
    sp_digest ids[2] = {before[2], before[3]};
    uint32_t blocks[2], kept[2];
    bool added;
    sp_segment seg = small_segment(tokens, 20);
    sealed(b.pool, 20, blocks);
    memcpy(kept, blocks, sizeof kept);
    assert_ok(sp_chunks_insert(b.chunks, &seg, &(sp_variant){.before = ids, .n_before = 2, .blocks = blocks}, 1, &added));
    assert_int_equal(sp_kv_refs(b.pool, kept[0]), 2);
    sp_kv_release(b.pool, blocks, 2);
    memset(tokens, 0, sizeof tokens);
    memset(ids, 0, sizeof ids);
    memset(blocks, 0xff, sizeof blocks);
    assert_null(sp_chunks_find(b.chunks, &seg, before + 2, 2, 2)); /* its tokens are others now */
    memcpy(tokens, (int32_t[]){7, 8, 9}, 3 * sizeof *tokens);
    const sp_variant *v = sp_chunks_find(b.chunks, &seg, before + 2, 2, 3);
    assert_non_null(v);
    assert_memory_equal(v->before, before + 2, 2 * sizeof *before);
    assert_memory_equal(v->blocks, kept, sizeof kept);
    assert_int_equal(sp_kv_refs(b.pool, kept[1]), 1);
    sp_chunks_unpin(b.chunks, v);
    bench_end(&b);
}

static void test_known_copy_is_kept(void **state)
{
    bench b;
    bench_begin(&b, 20, 20);
    sp_segment first = numbered(100, 32), second = numbered(200, 32);
    assert_true(insert(&b, &first));
    const sp_variant *v = find(&b, &first);
    uint32_t block = v->blocks[0];
    sp_chunks_unpin(b.chunks, v);
    assert_true(insert(&b, &second));
    assert_true(insert(&b, &first)); /* again, with other blocks: these are free once more ... */
    assert_int_equal(sp_kv_pool_n_free(b.pool), 16);
    assert_int_equal(sp_chunks_stats_of(b.chunks).n_variants, 2);
    v = find(&b, &first);
    assert_int_equal(v->blocks[0], block);
    assert_int_equal(sp_kv_refs(b.pool, block), 1);
    sp_chunks_unpin(b.chunks, v);
    assert_true(has(&b, &second));
    assert_true(insert(&b, &first)); /* ... and it was a use */
    assert_true(sp_chunks_evict_one(b.chunks));
    assert_true(has(&b, &first));
    assert_false(has(&b, &second));
    bench_end(&b);
}

/* -- giving up ------------------------------------------------------------------------------ */

static void test_least_recently_used_goes_first(void **state)
{
    bench b;
    bench_begin(&b, 20, 20);
    sp_segment s[4];
    assert_int_equal(sp_chunks_oldest(b.chunks), INT64_MAX);
    assert_false(sp_chunks_evict_one(b.chunks));
    for (int i = 0; i < 4; i++) { /* times 1 .. 4 */
        s[i] = numbered(100 * i, 16);
        assert_true(insert(&b, &s[i]));
    }
    assert_int_equal(sp_chunks_oldest(b.chunks), 1);
    assert_true(has(&b, &s[0]));                /* 5: now 1 2 3 0 */
    const sp_variant *pinned = find(&b, &s[1]); /* 6: now 2 3 0 1 */
    assert_int_equal(sp_chunks_oldest(b.chunks), 3);
    assert_true(sp_chunks_evict_one(b.chunks));
    assert_int_equal(sp_chunks_oldest(b.chunks), 4);
    assert_true(sp_chunks_evict_one(b.chunks));
    assert_int_equal(sp_chunks_oldest(b.chunks), 5);
    assert_true(sp_chunks_evict_one(b.chunks));
    assert_int_equal(sp_chunks_oldest(b.chunks), INT64_MAX); /* what is left is pinned */
    assert_false(sp_chunks_evict_one(b.chunks));
    assert_int_equal(sp_kv_pool_n_free(b.pool), 19);
    assert_int_equal(sp_chunks_stats_of(b.chunks).n_evicted, 3);
    sp_chunks_unpin(b.chunks, pinned);
    assert_int_equal(sp_chunks_oldest(b.chunks), 6);
    bench_end(&b);
}

static void test_pins_are_counted(void **state)
{
    bench b;
    bench_begin(&b, 20, 20);
    sp_segment s = numbered(0, 16);
    assert_true(insert(&b, &s));
    const sp_variant *one = find(&b, &s), *two = find(&b, &s);
    assert_ptr_equal(one, two);
    sp_chunks_unpin(b.chunks, one);
    assert_false(sp_chunks_evict_one(b.chunks));
    sp_chunks_clear(b.chunks);
    assert_int_equal(sp_chunks_stats_of(b.chunks).n_variants, 1);
    sp_chunks_unpin(b.chunks, two);
    assert_true(sp_chunks_evict_one(b.chunks));
    bench_end(&b);
}

static void test_budget(void **state)
{
    bench b;
    bench_begin(&b, 20, 6);
    sp_segment two = numbered(0, 17), three = numbered(100, 48), four = numbered(200, 64),
               seven = numbered(300, 97);
    assert_true(insert(&b, &two));
    assert_true(insert(&b, &three));
    assert_false(insert(&b, &seven)); /* never fits: nothing is given up for it */
    assert_true(has(&b, &three) && has(&b, &two));
    assert_int_equal(sp_chunks_stats_of(b.chunks).n_blocks, 5);
    assert_true(insert(&b, &four)); /* `three` was used before `two`, and its room is enough */
    assert_false(has(&b, &three));
    assert_int_equal(sp_chunks_stats_of(b.chunks).n_blocks, 6);
    const sp_variant *pinned = find(&b, &two);
    assert_true(insert(&b, &three)); /* `two` is older than `four`, but pinned */
    assert_false(has(&b, &four));
    assert_int_equal(sp_chunks_stats_of(b.chunks).n_blocks, 5);
    const sp_variant *also = find(&b, &three);
    assert_false(insert(&b, &four));
    assert_int_equal(sp_chunks_stats_of(b.chunks).n_blocks, 5);
    assert_int_equal(sp_kv_pool_n_free(b.pool), 15);
    sp_chunks_unpin(b.chunks, pinned);
    sp_chunks_unpin(b.chunks, also);
    bench_end(&b);
}

static void test_clear_spares_the_pinned(void **state)
{
    bench b;
    bench_begin(&b, 20, 20);
    sp_segment s[5];
    for (int i = 0; i < 5; i++) {
        s[i] = numbered(100 * i, 20);
        assert_true(insert(&b, &s[i]));
    }
    const sp_variant *pinned = find(&b, &s[2]);
    sp_chunks_clear(b.chunks);
    assert_int_equal(sp_kv_pool_n_free(b.pool), 18);
    for (int i = 0; i < 5; i++) assert_int_equal(has(&b, &s[i]), i == 2);
    sp_chunks_unpin(b.chunks, pinned);
    sp_chunks_clear(b.chunks);
    assert_int_equal(sp_kv_pool_n_free(b.pool), 20);
    assert_true(insert(&b, &s[0])); /* and it goes on */
    assert_true(has(&b, &s[0]));
    bench_end(&b);
}

static void test_stats(void **state)
{
    bench b;
    bench_begin(&b, 20, 12);
    sp_segment s = numbered(0, 33), other = numbered(50, 16);
    assert_false(has(&b, &s));
    assert_true(insert(&b, &s) && insert(&b, &s) && insert(&b, &other));
    assert_true(has(&b, &s) && has(&b, &s));
    assert_true(sp_chunks_evict_one(b.chunks));
    assert_false(has(&b, &other));
    sp_chunks_stats got = sp_chunks_stats_of(b.chunks);
    assert_int_equal(got.n_variants, 1);
    assert_int_equal(got.n_blocks, 3);
    assert_int_equal(got.max_blocks, 12);
    assert_int_equal(got.n_lookups, 4);
    assert_int_equal(got.n_hits, 2);
    assert_int_equal(got.n_evicted, 1);
    bench_end(&b);
}

/* -- many ----------------------------------------------------------------------------------- */

static void test_more_than_the_first_table_holds(void **state)
{
    enum { N = 1200 }; /* the table of 256 doubles three times */
    bench b;
    bench_begin(&b, N, N);
    for (int i = 0; i < N; i++) {
        sp_segment s = numbered(i, 1 + i % B);
        assert_true(insert(&b, &s));
    }
    assert_int_equal(sp_chunks_stats_of(b.chunks).n_variants, N);
    for (int i = 0; i < N; i++) {
        sp_segment s = numbered(i, 1 + i % B), near = numbered(i, 1 + (i + 1) % B);
        const sp_variant *v = find(&b, &s);
        assert_non_null(v);
        assert_int_equal(v->n, s.n);
        sp_chunks_unpin(b.chunks, v);
        assert_false(has(&b, &near));
    }
    for (int i = 0; i < N; i += 2) { /* the order of use survived */
        assert_int_equal(sp_chunks_oldest(b.chunks), N + 2 * i + 1);
        assert_true(sp_chunks_evict_one(b.chunks));
        sp_segment next = numbered(i + 1, 1 + (i + 1) % B);
        assert_true(has(&b, &next));
    }
    bench_end(&b);
}

/* What the index should hold, kept the simple way. */
typedef struct shadow {
    bool in[24];
    int64_t used[24];
    const sp_variant *pins[24][3];
    int n_pins[24];
} shadow;

static int32_t size_of(int i)
{
    return 1 + i * 5 % 60;
}

static int shadow_blocks(const shadow *w)
{
    int n = 0;
    for (int i = 0; i < 24; i++) n += w->in[i] ? small_blocks(size_of(i)) : 0;
    return n;
}

/* shadow_victim -- or -1. */
static int shadow_victim(const shadow *w)
{
    int best = -1;
    for (int i = 0; i < 24; i++)
        if (w->in[i] && !w->n_pins[i] && (best < 0 || w->used[i] < w->used[best])) best = i;
    return best;
}

static void random_insert(bench *b, shadow *w, int i, int budget)
{
    sp_segment s = numbered(1000 * i, size_of(i));
    bool fits = true;
    while (!w->in[i] && fits && shadow_blocks(w) + small_blocks(s.n) > budget) {
        int victim = shadow_victim(w);
        fits = victim >= 0;
        if (fits) w->in[victim] = false;
    }
    assert_int_equal(insert(b, &s), fits);
    if (!fits) return;
    w->in[i] = true;
    w->used[i] = b->now;
}

static void random_use(bench *b, shadow *w, int i, bool keep)
{
    sp_segment s = numbered(1000 * i, size_of(i));
    const sp_variant *v = find(b, &s);
    assert_int_equal(v != NULL, w->in[i]);
    if (!v) return;
    assert_int_equal(v->n, s.n);
    w->used[i] = b->now;
    if (keep && w->n_pins[i] < 3)
        w->pins[i][w->n_pins[i]++] = v;
    else
        sp_chunks_unpin(b->chunks, v);
}

static void test_random_lives(void **state)
{
    enum { BUDGET = 20 };
    bench b;
    shadow w = {0};
    uint64_t seed = 3;
    bench_begin(&b, BUDGET + 4, BUDGET);
    for (int round = 0; round < 20000; round++) {
        int what = check_random(&seed, 10), i = check_random(&seed, 24), victim = shadow_victim(&w);
        assert_int_equal(sp_chunks_oldest(b.chunks), victim < 0 ? INT64_MAX : w.used[victim]);
        if (what < 4) {
            random_insert(&b, &w, i, BUDGET);
        } else if (what < 7) {
            random_use(&b, &w, i, what == 4);
        } else if (what < 9) {
            if (w.n_pins[i]) sp_chunks_unpin(b.chunks, w.pins[i][--w.n_pins[i]]);
        } else {
            assert_int_equal(sp_chunks_evict_one(b.chunks), victim >= 0);
            if (victim >= 0) w.in[victim] = false;
        }
        assert_int_equal(sp_chunks_stats_of(b.chunks).n_blocks, shadow_blocks(&w));
        assert_int_equal(sp_kv_pool_n_free(b.pool), BUDGET + 4 - shadow_blocks(&w));
    }
    for (int i = 0; i < 24; i++)
        while (w.n_pins[i]) sp_chunks_unpin(b.chunks, w.pins[i][--w.n_pins[i]]);
    bench_end(&b);
}

/* -- out of memory -------------------------------------------------------------------------- */

static void test_create_without_memory(void **state)
{
    sp_kv_pool *pool = small_pool(4);
    sp_chunks *chunks = NULL;
    sp_cache cache;
    assert_survives_faults(sp_chunks_create(pool, 4, 64, &chunks), chunks == NULL);
    sp_chunks_destroy(chunks);
    assert_survives_faults(sp_cache_init(&cache, pool, 4, 64, "lru"), !cache.tree && !cache.chunks);
    sp_cache_fini(&cache);
    assert_fails(sp_cache_init(&cache, pool, 4, 64, "fifo"), SP_E_ARG, "fifo");
    sp_chunks_destroy(NULL);
    small_pool_end(pool);
}

static bool holds(const bench *b, int64_t n)
{
    return sp_chunks_stats_of(b->chunks).n_variants == n &&
           sp_chunks_stats_of(b->chunks).n_blocks == n;
}

static void test_insert_without_memory(void **state)
{
    bench b;
    bench_begin(&b, 300, 300);
    for (int i = 0; i <= 256; i++) { /* the last one wants a larger table as well */
        sp_segment s = numbered(i, 3);
        uint32_t block;
        bool added = false;
        sealed(b.pool, 3, &block);
        assert_survives_faults(
            sp_chunks_insert(b.chunks, &s, &(sp_variant){.before = before, .n_before = i % 3, .at = 5, .blocks = &block}, ++b.now, &added),
            !added && holds(&b, i) && sp_kv_refs(b.pool, block) == 1);
        assert_true(added);
        sp_kv_release(b.pool, &block, 1);
    }
    for (int i = 0; i <= 256; i++) {
        sp_segment s = numbered(i, 3);
        const sp_variant *v = sp_chunks_find(b.chunks, &s, before, i % 3, ++b.now);
        assert_non_null(v);
        sp_chunks_unpin(b.chunks, v);
    }
    bench_end(&b);
}

/* -- tree and index in one pool -------------------------------------------------------------- */

typedef struct both {
    sp_kv_pool *pool;
    sp_cache cache;
    sp_arena arena;
} both;

static void both_begin(both *b, int64_t n_blocks)
{
    *b = (both){.pool = small_pool(n_blocks)};
    assert_ok(sp_cache_init(&b->cache, b->pool, n_blocks, 64, "lru"));
}

static void both_end(both *b)
{
    sp_cache_fini(&b->cache);
    sp_arena_fini(&b->arena);
    small_pool_end(b->pool);
}

static sp_match match_both(both *b, const sp_segment *seg, int64_t now)
{
    sp_match m;
    assert_ok(sp_tree_match(b->cache.tree, seg, 1, now, &b->arena, &m));
    return m;
}

static void into_tree(both *b, const sp_segment *seg, int64_t now)
{
    uint32_t blocks[MAX_BLOCKS];
    bool added = false;
    sp_match m = match_both(b, seg, now);
    sealed(b->pool, seg->n, blocks);
    assert_ok(sp_tree_extend(b->cache.tree, &m, seg, blocks, now, &added));
    assert_true(added);
    sp_kv_release(b->pool, blocks, small_blocks(seg->n));
    sp_tree_release(b->cache.tree, &m);
}

static void into_index(both *b, const sp_segment *seg, int64_t now)
{
    uint32_t blocks[MAX_BLOCKS];
    bool added = false;
    sealed(b->pool, seg->n, blocks);
    assert_ok(sp_chunks_insert(b->cache.chunks, seg, &(sp_variant){.before = before, .n_before = 1, .blocks = blocks}, now, &added));
    assert_true(added);
    sp_kv_release(b->pool, blocks, small_blocks(seg->n));
}

static void assert_left(const both *b, int nodes, int variants)
{
    assert_int_equal(sp_tree_stats_of(b->cache.tree).n_nodes, nodes);
    assert_int_equal(sp_chunks_stats_of(b->cache.chunks).n_variants, variants);
}

static void test_room_is_made_where_use_is_oldest(void **state)
{
    both b;
    sp_segment s[5];
    both_begin(&b, 10);
    for (int i = 0; i < 5; i++)
        s[i] = numbered(100 * i, 32); /* two blocks each: the pool is full */
    into_index(&b, &s[0], 1);
    into_tree(&b, &s[1], 2);
    into_tree(&b, &s[2], 3);
    into_index(&b, &s[3], 4);
    into_tree(&b, &s[4], 4);
    assert_left(&b, 3, 2);
    assert_true(sp_cache_free_up(&b.cache, 0));
    assert_left(&b, 3, 2);
    assert_true(sp_cache_free_up(&b.cache, 1));
    assert_left(&b, 3, 1); /* time 1: a chunk */
    assert_true(sp_cache_free_up(&b.cache, 2));
    assert_left(&b, 3, 1); /* free already */
    assert_true(sp_cache_free_up(&b.cache, 6));
    assert_left(&b, 1, 1); /* 2 and 3: the tree */
    assert_true(sp_cache_free_up(&b.cache, 8));
    assert_left(&b, 0, 1); /* 4 twice: the tree first */
    assert_true(sp_cache_free_up(&b.cache, 10));
    assert_left(&b, 0, 0);
    assert_false(sp_cache_free_up(&b.cache, 11));
    both_end(&b);
}

static void test_pinned_entries_are_no_room(void **state)
{
    both b;
    sp_segment s[4];
    both_begin(&b, 8);
    for (int i = 0; i < 4; i++) s[i] = numbered(100 * i, 32);
    into_tree(&b, &s[0], 1);
    into_index(&b, &s[1], 2);
    into_tree(&b, &s[2], 3);
    into_index(&b, &s[3], 4);
    sp_match m = match_both(&b, &s[0], 1);
    const sp_variant *v = sp_chunks_find(b.cache.chunks, &s[1], before, 1, 2);
    assert_true(sp_cache_free_up(&b.cache, 2));
    assert_left(&b, 1, 2); /* the oldest that is free to go: the tree's of time 3 */
    assert_false(sp_cache_free_up(&b.cache, 5));
    assert_left(&b, 1, 1);
    sp_cache_clear(&b.cache);
    assert_left(&b, 1, 1);
    sp_tree_release(b.cache.tree, &m);
    sp_chunks_unpin(b.cache.chunks, v);
    sp_cache_clear(&b.cache);
    assert_left(&b, 0, 0);
    both_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_by_tokens_and_what_stood_before),
        cmocka_unit_test(test_variants_of_one_chunk),
        cmocka_unit_test(test_index_keeps_its_own_copies),
        cmocka_unit_test(test_known_copy_is_kept),
        cmocka_unit_test(test_least_recently_used_goes_first),
        cmocka_unit_test(test_pins_are_counted),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_clear_spares_the_pinned),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_more_than_the_first_table_holds),
        cmocka_unit_test(test_random_lives),
        cmocka_unit_test(test_create_without_memory),
        cmocka_unit_test(test_insert_without_memory),
        cmocka_unit_test(test_room_is_made_where_use_is_oldest),
        cmocka_unit_test(test_pinned_entries_are_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
