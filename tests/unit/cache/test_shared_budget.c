/* test_shared_budget.c -- paths and chunks in one ledger: one budget, one order of use. */
#include "support/copy_bench.h"
#include "support/path_bench.h"

static void assert_left(const bench *b, int paths, int chunks)
{
    int n[2] = {0};
    for (const sp_copy *c = NULL; (c = sp_ledger_next(b->ledger, c));)
        n[c->facts.kind != SP_COPY_PATH]++;
    assert_int_equal(n[0], paths);
    assert_int_equal(n[1], chunks);
}

/* fill_up -- five copies of two blocks each, at times 1, 2, 3, 4 and 4. */
static void fill_up(bench *b, sp_segment *s)
{
    for (int i = 0; i < 5; i++) s[i] = numbered(100 * i, 2 * B);
    assert_true(insert(b, &s[0]));
    assert_int_equal(learn(b, &s[1], 1), 0);
    assert_int_equal(learn(b, &s[2], 1), 0);
    assert_int_equal(learn(b, &s[3], 1), 0);
    b->now--;
    assert_true(insert(b, &s[4]));
}

static void room_is_made_where_use_is_oldest(void **state)
{
    bench b;
    sp_segment s[5];
    bench_begin(&b, 10, 10);
    fill_up(&b, s);
    assert_left(&b, 3, 2);
    assert_true(sp_ledger_free_up(b.ledger, 0));
    assert_left(&b, 3, 2);
    assert_true(sp_ledger_free_up(b.ledger, 1));
    assert_left(&b, 3, 1); /* time 1: a chunk */
    assert_true(sp_ledger_free_up(b.ledger, 2));
    assert_left(&b, 3, 1); /* free already */
    assert_true(sp_ledger_free_up(b.ledger, 6));
    assert_left(&b, 1, 1); /* times 2 and 3: paths */
    assert_true(sp_ledger_free_up(b.ledger, 8));
    assert_left(&b, 0, 1); /* time 4 twice: what was used first */
    assert_true(sp_ledger_free_up(b.ledger, 10));
    assert_left(&b, 0, 0);
    assert_false(sp_ledger_free_up(b.ledger, 11));
    assert_int_equal(stats_of(&b).n_evicted, 5);
    bench_end(&b);
}

static void pinned_copies_are_no_room(void **state)
{
    bench b;
    sp_segment s[4];
    bench_begin(&b, 8, 8);
    for (int i = 0; i < 4; i++) s[i] = numbered(100 * i, 2 * B);
    learn(&b, &s[0], 1);
    assert_true(insert(&b, &s[1]));
    learn(&b, &s[2], 1);
    assert_true(insert(&b, &s[3]));
    match m = find(&b, &s[0], 1);
    const sp_copy *c = find_copy(&b, &s[1]);
    assert_true(sp_ledger_free_up(b.ledger, 2));
    assert_left(&b, 1, 2); /* the oldest that is free to go: a path */
    assert_false(sp_ledger_free_up(b.ledger, 5));
    assert_left(&b, 1, 1);
    sp_ledger_clear(b.ledger);
    assert_left(&b, 1, 1);
    release(&b, &m);
    sp_ledger_unpin(b.ledger, c);
    sp_ledger_clear(b.ledger);
    assert_left(&b, 0, 0);
    bench_end(&b);
}

/* I4: a new copy of either kind drops the oldest of both. */
static void paths_and_chunks_have_one_budget(void **state)
{
    bench b;
    sp_segment s[5], more = numbered(600, 3 * B), last = numbered(700, 2 * B);
    bench_begin(&b, 20, 10);
    fill_up(&b, s);
    learn(&b, &more, 1); /* drops times 1 and 2 */
    assert_left(&b, 3, 1);
    assert_int_equal(stats_of(&b).n_blocks, 9);
    assert_true(insert(&b, &last)); /* drops time 3 */
    assert_left(&b, 2, 2);
    assert_int_equal(known(&b, &s[2], 1), 0);
    assert_int_equal(known(&b, &s[3], 1), 1);
    assert_int_equal(known(&b, &more, 1), 1);
    assert_true(has(&b, &s[4]) && has(&b, &last));
    assert_int_equal(stats_of(&b).n_blocks, 9);
    assert_int_equal(stats_of(&b).max_blocks, 10);
    bench_end(&b);
}

/* A path and a chunk may share blocks; each of them holds its own reference. */
static void a_path_and_a_chunk_may_share_blocks(void **state)
{
    bench b;
    sp_segment s = numbered(1, B);
    uint32_t block;
    const sp_copy *c = NULL;
    bench_begin(&b, 2, 2);
    sealed(b.pool, B, &block);
    match m = find(&b, &s, 1);
    assert_true(extend_with(&b, &m, &s, &block));
    release(&b, &m);
    sp_copy_spec spec = {.seg = &s,
                         .facts.kind = SP_COPY_PLAIN,
                         .facts.before = before,
                         .facts.n_before = 1,
                         .facts.n_head = 1,
                         .blocks = &block};
    assert_ok(sp_ledger_add(b.ledger, &spec, ++b.now, &c));
    sp_kv_release(b.pool, &block, 1);
    assert_int_equal(sp_kv_refs(b.pool, block), 2);
    assert_int_equal(stats_of(&b).n_blocks, 1); /* counted once */
    assert_true(sp_ledger_free_up(b.ledger, 2)); /* dropping the first frees nothing yet */
    assert_left(&b, 0, 0);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room_is_made_where_use_is_oldest),
        cmocka_unit_test(pinned_copies_are_no_room),
        cmocka_unit_test(paths_and_chunks_have_one_budget),
        cmocka_unit_test(a_path_and_a_chunk_may_share_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
