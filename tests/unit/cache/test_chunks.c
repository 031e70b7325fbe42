/* test_chunks.c -- the chunk index: what it finds, keeps and gives up. */
#include "support/chunk_bench.h"

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
    assert_ok(sp_chunks_insert(
        b.chunks, &seg, &(sp_variant){.before = before, .n_before = 2, .at = 17, .blocks = blocks},
        1, &added));
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
        assert_ok(sp_chunks_insert(
            b.chunks, &seg,
            &(sp_variant){.before = before, .n_before = n, .at = 10 * n, .blocks = &blocks[n]},
            ++b.now, &added));
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
    assert_ok(sp_chunks_insert(
        b.chunks, &seg, &(sp_variant){.before = ids, .n_before = 2, .blocks = blocks}, 1, &added));
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

/* -- out of memory -------------------------------------------------------------------------- */

static void test_create_without_memory(void **state)
{
    sp_kv_pool *pool = small_pool(4);
    sp_chunks *chunks = NULL;
    assert_survives_faults(sp_chunks_create(pool, 4, 64, &chunks), chunks == NULL);
    sp_chunks_destroy(chunks);
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
            sp_chunks_insert(
                b.chunks, &s,
                &(sp_variant){.before = before, .n_before = i % 3, .at = 5, .blocks = &block},
                ++b.now, &added),
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
        cmocka_unit_test(test_create_without_memory),
        cmocka_unit_test(test_insert_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
