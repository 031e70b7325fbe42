/* test_by_content.c -- the content index: what is found, kept and given up. */
#include "support/copy_bench.h"

#include "cache/ledger_int.h"

/* plain_of -- a copy of seg in these blocks, computed after n segments that are all head. */
static sp_copy_spec plain_of(const sp_segment *seg, const sp_digest *head, int n,
                             const uint32_t *blocks)
{
    return (sp_copy_spec){.seg = seg,
                          .facts.kind = SP_COPY_PLAIN,
                          .facts.before = head,
                          .facts.n_before = n,
                          .facts.n_head = n,
                          .blocks = blocks};
}

/* -- finding -------------------------------------------------------------------------------- */

static void assert_unknown(bench *b, const sp_segment *seg, const sp_digest *ids, int n)
{
    assert_null(find_plain(b, seg, ids, n));
}

static void a_copy_is_found_by_tokens_and_head(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(100, 40), shorter = seg, forged = numbered(200, 40);
    uint32_t blocks[3];
    const sp_copy *added = NULL;
    sealed(b->pool, 40, blocks);
    sp_copy_spec spec = plain_of(&seg, before, 2, blocks);
    spec.facts.at = 17;
    assert_ok(sp_ledger_add(b->ledger, &spec, 1, &added));
    const sp_copy *v = find_plain(b, &seg, before, 2);
    assert_non_null(v);
    assert_ptr_equal(v, added);
    assert_int_equal(v->facts.n_before, 2);
    assert_memory_equal(v->facts.before, before, 2 * sizeof *before);
    assert_int_equal(v->facts.at, 17);
    assert_int_equal(v->n, 40);
    assert_memory_equal(v->blocks, blocks, sizeof blocks);
    sp_ledger_unpin(b->ledger, v);
    assert_unknown(b, &seg, before, 0);
    assert_unknown(b, &seg, before, 1);
    assert_unknown(b, &seg, before, 3);
    assert_unknown(b, &seg, before + 1, 2);
    shorter.n = 39;
    assert_unknown(b, &shorter, before, 2); /* the same id, but ... */
    forged.id = seg.id;
    assert_unknown(b, &forged, before, 2); /* ... the tokens decide */
    forged.id = numbered(200, 40).id;
    forged.tokens = seg.tokens;
    assert_unknown(b, &forged, before, 2);
    forged.id = seg.id;
    forged.id.b[31] ^= 1; /* equal where the index looks first */
    assert_unknown(b, &forged, before, 2);
    sp_kv_release(b->pool, blocks, 3);
}

/* A plain copy is a path copy's equal if it is exact, whole, and where the path puts it. */
static void a_plain_copy_equals_a_path_in_its_place_alone(void **state)
{
    for (int wrong = 0; wrong < 5; wrong++) {
        bench b;
        bench_begin(&b, 20, 20);
        sp_segment segs[] = {numbered(0, 20), numbered(60, 24), numbered(100, 40)};
        const sp_digest ids[] = {segs[0].id, segs[1].id, before[2]};
        segs[2].kind = SP_SEG_CHUNK;
        sp_copy_spec spec = {.facts.kind = SP_COPY_PLAIN,
                             .facts.exact = wrong != 1,
                             .facts.at = wrong == 2 ? 45 : 44,
                             .facts.before = wrong == 3 ? before : ids,
                             .facts.n_before = wrong == 4 ? 3 : 2,
                             .facts.n_head = 1};
        assert_true(enter(&b, &segs[2], spec));
        assert_int_equal(sp_by_content_plain(b.ledger, segs, 2) != NULL, wrong == 0);
        bench_end(&b);
    }
}

/* A policy that needs the attention of tokens finds no copy without it, on the device or below. */
static void a_query_for_heavy_tokens_finds_no_other_copy(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    sp_content_query q = query(&seg, before, 1);
    assert_true(insert(b, &seg));
    const sp_copy *c = find_copy(b, &seg);
    sp_ledger_placed(b->ledger, c, SP_AT_DISK);
    sp_ledger_unpin(b->ledger, c);
    for (int is_free = 0; is_free < 2; is_free++) {
        q.heavy = false;
        assert_ptr_equal(sp_by_content_peek(b->ledger, &q, SP_COPY_PLAIN), c);
        q.heavy = true;
        assert_null(sp_by_content_peek(b->ledger, &q, SP_COPY_PLAIN));
        sp_ledger_clear(b->ledger);
    }
}

/* A patch needs its base: it is no copy that a look-up may return, and no reason not to keep a whole one. */
static void a_patch_is_not_a_copy_of_its_own(void **state)
{
    static const int32_t changed[] = {0, 5};
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    assert_true(insert(b, &seg));
    const sp_copy *base = find_copy(b, &seg);
    sp_copy_spec spec = computed_after(SP_COPY_PLAIN, 2);
    spec.base = base;
    spec.patch.n = 2;
    spec.patch.tokens = changed;
    assert_true(enter(b, &seg, spec));
    sp_ledger_unpin(b->ledger, base);
    assert_unknown(b, &seg, before, 2);
    assert_int_equal(n_copies(b), 2);
    assert_true(enter(b, &seg, computed_after(SP_COPY_PLAIN, 2)));
    assert_int_equal(n_copies(b), 3);
    const sp_copy *whole = find_plain(b, &seg, before, 2);
    assert_true(whole && !whole->base);
    sp_ledger_unpin(b->ledger, whole);
}

static void a_chunk_may_have_several_copies(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(100, 16);
    uint32_t blocks[4];
    for (int n = 0; n < 4; n++) {
        const sp_copy *added = NULL;
        sealed(b->pool, 16, &blocks[n]);
        sp_copy_spec spec = plain_of(&seg, before, n, &blocks[n]);
        spec.facts.at = 10 * n;
        assert_ok(sp_ledger_add(b->ledger, &spec, ++b->now, &added));
        assert_non_null(added);
    }
    assert_int_equal(n_copies(b), 4);
    for (int n = 0; n < 4; n++) {
        const sp_copy *v = find_plain(b, &seg, before, n);
        assert_non_null(v);
        assert_int_equal(v->facts.n_before, n);
        assert_int_equal(v->facts.at, 10 * n);
        assert_int_equal(v->blocks[0], blocks[n]);
        sp_ledger_unpin(b->ledger, v);
    }
    sp_kv_release(b->pool, blocks, 4);
}

static void what_was_handed_over_may_change(void **state)
{
    bench *b = *state;
    int32_t tokens[20] = {7, 8, 9};
    sp_digest ids[2] = {before[2], before[3]};
    uint32_t blocks[2], kept[2];
    const sp_copy *added = NULL;
    sp_segment seg = small_segment(tokens, 20);
    sealed(b->pool, 20, blocks);
    memcpy(kept, blocks, sizeof kept);
    sp_copy_spec spec = plain_of(&seg, ids, 2, blocks);
    assert_ok(sp_ledger_add(b->ledger, &spec, 1, &added));
    assert_int_equal(sp_kv_refs(b->pool, kept[0]), 2);
    sp_kv_release(b->pool, blocks, 2);
    memset(tokens, 0, sizeof tokens);
    memset(ids, 0, sizeof ids);
    memset(blocks, 0xff, sizeof blocks);
    assert_null(find_plain(b, &seg, before + 2, 2)); /* its tokens are others now */
    memcpy(tokens, (int32_t[]){7, 8, 9}, 3 * sizeof *tokens);
    const sp_copy *v = find_plain(b, &seg, before + 2, 2);
    assert_non_null(v);
    assert_memory_equal(v->facts.before, before + 2, 2 * sizeof *before);
    assert_memory_equal(v->blocks, kept, sizeof kept);
    assert_int_equal(sp_kv_refs(b->pool, kept[1]), 1);
    sp_ledger_unpin(b->ledger, v);
}

static void a_known_copy_is_kept(void **state)
{
    bench *b = *state;
    sp_segment first = numbered(100, 32), second = numbered(200, 32);
    assert_true(insert(b, &first));
    const sp_copy *v = find_copy(b, &first);
    uint32_t block = v->blocks[0];
    sp_ledger_unpin(b->ledger, v);
    assert_true(insert(b, &second));
    assert_true(insert(b, &first)); /* again, with other blocks: these are free once more ... */
    assert_int_equal(sp_kv_pool_n_free(b->pool), 16);
    assert_int_equal(n_copies(b), 2);
    v = find_copy(b, &first);
    assert_int_equal(v->blocks[0], block);
    assert_int_equal(sp_kv_refs(b->pool, block), 1);
    sp_ledger_unpin(b->ledger, v);
    assert_true(has(b, &second));
    assert_true(insert(b, &first)); /* ... and it was a use */
    assert_true(evict_one(b));
    assert_true(has(b, &first));
    assert_false(has(b, &second));
}

/* -- giving up ------------------------------------------------------------------------------ */

static void least_recently_used_goes_first(void **state)
{
    bench *b = *state;
    sp_segment s[4];
    assert_int_equal(oldest(b), INT64_MAX);
    assert_false(evict_one(b));
    for (int i = 0; i < 4; i++) { /* times 1 .. 4 */
        s[i] = numbered(100 * i, 16);
        assert_true(insert(b, &s[i]));
    }
    assert_int_equal(oldest(b), 1);
    assert_true(has(b, &s[0]));                  /* 5: now 1 2 3 0 */
    const sp_copy *pinned = find_copy(b, &s[1]); /* 6: now 2 3 0 1 */
    assert_int_equal(oldest(b), 3);
    assert_true(evict_one(b));
    assert_int_equal(oldest(b), 4);
    assert_true(evict_one(b));
    assert_int_equal(oldest(b), 5);
    assert_true(evict_one(b));
    assert_int_equal(oldest(b), INT64_MAX); /* what is left is pinned */
    assert_false(evict_one(b));
    assert_int_equal(sp_kv_pool_n_free(b->pool), 19);
    assert_int_equal(stats_of(b).n_evicted, 3);
    sp_ledger_unpin(b->ledger, pinned);
    assert_int_equal(oldest(b), 6);
}

static void pins_are_counted(void **state)
{
    bench *b = *state;
    sp_segment s = numbered(0, 16);
    assert_true(insert(b, &s));
    const sp_copy *one = find_copy(b, &s), *two = find_copy(b, &s);
    assert_ptr_equal(one, two);
    sp_ledger_unpin(b->ledger, one);
    assert_false(evict_one(b));
    sp_ledger_clear(b->ledger);
    assert_int_equal(n_copies(b), 1);
    sp_ledger_unpin(b->ledger, two);
    assert_true(evict_one(b));
}

static void the_budget_is_kept(void **state)
{
    bench b;
    bench_begin(&b, 20, 6);
    sp_segment two = numbered(0, 17), three = numbered(100, 48), four = numbered(200, 64),
               seven = numbered(300, 97);
    assert_true(insert(&b, &two));
    assert_true(insert(&b, &three));
    assert_false(insert(&b, &seven)); /* never fits: nothing is given up for it */
    assert_true(has(&b, &three) && has(&b, &two));
    assert_int_equal(stats_of(&b).n_blocks, 5);
    assert_true(insert(&b, &four)); /* `three` was used before `two`, and its room is enough */
    assert_false(has(&b, &three));
    assert_int_equal(stats_of(&b).n_blocks, 6);
    const sp_copy *pinned = find_copy(&b, &two);
    assert_true(insert(&b, &three)); /* `two` is older than `four`, but pinned */
    assert_false(has(&b, &four));
    assert_int_equal(stats_of(&b).n_blocks, 5);
    const sp_copy *also = find_copy(&b, &three);
    assert_false(insert(&b, &four));
    assert_int_equal(stats_of(&b).n_blocks, 5);
    assert_int_equal(sp_kv_pool_n_free(b.pool), 15);
    sp_ledger_unpin(b.ledger, pinned);
    sp_ledger_unpin(b.ledger, also);
    bench_end(&b);
}

static void clear_spares_the_pinned(void **state)
{
    bench *b = *state;
    sp_segment s[5];
    for (int i = 0; i < 5; i++) {
        s[i] = numbered(100 * i, 20);
        assert_true(insert(b, &s[i]));
    }
    const sp_copy *pinned = find_copy(b, &s[2]);
    sp_ledger_clear(b->ledger);
    assert_int_equal(sp_kv_pool_n_free(b->pool), 18);
    for (int i = 0; i < 5; i++) assert_int_equal(has(b, &s[i]), i == 2);
    sp_ledger_unpin(b->ledger, pinned);
    sp_ledger_clear(b->ledger);
    assert_int_equal(sp_kv_pool_n_free(b->pool), 20);
    assert_true(insert(b, &s[0])); /* and it goes on */
    assert_true(has(b, &s[0]));
}

static void statistics_count_what_happened(void **state)
{
    bench b;
    bench_begin(&b, 20, 12);
    sp_segment s = numbered(0, 33), other = numbered(50, 16);
    assert_false(has(&b, &s));
    assert_true(insert(&b, &s) && insert(&b, &s) && insert(&b, &other));
    assert_true(has(&b, &s) && has(&b, &s));
    assert_true(evict_one(&b));
    assert_false(has(&b, &other));
    sp_ledger_stats got = stats_of(&b);
    assert_int_equal(got.n_copies, 1);
    assert_int_equal(got.n_blocks, 3);
    assert_int_equal(got.max_blocks, 12);
    assert_int_equal(got.n_lookups, 4);
    assert_int_equal(got.n_hits, 2);
    assert_int_equal(got.tokens_looked_up, 3 * 33 + 16);
    assert_int_equal(got.tokens_hit, 2 * 33);
    assert_int_equal(got.n_evicted, 1);
    assert_int_equal(b.ledger->content.n, 1); /* the index forgets what is gone */
    bench_end(&b);
}

/* -- many ----------------------------------------------------------------------------------- */

static void more_than_the_first_table_holds(void **state)
{
    enum { N = 1200 }; /* the table of 256 doubles three times */
    bench b;
    bench_begin(&b, N, N);
    for (int i = 0; i < N; i++) {
        sp_segment s = numbered(i, 1 + i % B);
        assert_true(insert(&b, &s));
    }
    assert_int_equal(n_copies(&b), N);
    for (int i = 0; i < N; i++) {
        sp_segment s = numbered(i, 1 + i % B), near = numbered(i, 1 + (i + 1) % B);
        const sp_copy *v = find_copy(&b, &s);
        assert_non_null(v);
        assert_int_equal(v->n, s.n);
        sp_ledger_unpin(b.ledger, v);
        assert_false(has(&b, &near));
    }
    for (int i = 0; i < N; i += 2) { /* the order of use survived */
        assert_int_equal(oldest(&b), N + 2 * i + 1);
        assert_true(evict_one(&b));
        sp_segment next = numbered(i + 1, 1 + (i + 1) % B);
        assert_true(has(&b, &next));
    }
    bench_end(&b);
}

/* -- out of memory -------------------------------------------------------------------------- */

static bool holds(const bench *b, int64_t n)
{
    return n_copies(b) == n && stats_of(b).n_blocks == n;
}

static void adding_without_memory_changes_nothing(void **state)
{
    bench b;
    bench_begin(&b, 300, 300);
    for (int i = 0; i <= 256; i++) { /* the last one wants a larger table as well */
        sp_segment s = numbered(i, 3);
        uint32_t block;
        const sp_copy *added = NULL;
        sealed(b.pool, 3, &block);
        sp_copy_spec spec = plain_of(&s, before, i % 3, &block);
        assert_survives_faults(sp_ledger_add(b.ledger, &spec, ++b.now, &added),
                               !added && holds(&b, i) && sp_kv_refs(b.pool, block) == 1);
        assert_non_null(added);
        sp_kv_release(b.pool, &block, 1);
    }
    for (int i = 0; i <= 256; i++) {
        sp_segment s = numbered(i, 3);
        const sp_copy *v = find_plain(&b, &s, before, i % 3);
        assert_non_null(v);
        sp_ledger_unpin(b.ledger, v);
    }
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_copy_is_found_by_tokens_and_head),
        cmocka_unit_test(a_plain_copy_equals_a_path_in_its_place_alone),
        BENCH_TEST(a_query_for_heavy_tokens_finds_no_other_copy),
        BENCH_TEST(a_patch_is_not_a_copy_of_its_own),
        BENCH_TEST(a_chunk_may_have_several_copies),
        BENCH_TEST(what_was_handed_over_may_change),
        BENCH_TEST(a_known_copy_is_kept),
        BENCH_TEST(least_recently_used_goes_first),
        BENCH_TEST(pins_are_counted),
        cmocka_unit_test(the_budget_is_kept),
        BENCH_TEST(clear_spares_the_pinned),
        cmocka_unit_test(statistics_count_what_happened),
        cmocka_unit_test(more_than_the_first_table_holds),
        cmocka_unit_test(adding_without_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
