/* test_replacement.c -- paths of copies: which the ledger gives up, and in which order. */
#include "support/path_bench.h"

#include "cache/evict.h"
#include "spolia_context.h"

static void the_least_recently_used_leaf_goes_first(void **state)
{
    bench b;
    bench_begin(&b, 20, 4);
    sp_segment s[] = {numbered(1, B), numbered(100, B), numbered(200, B), numbered(300, B)};
    sp_segment more = numbered(400, B), again = numbered(500, B);
    for (int i = 0; i < 4; i++) learn(&b, &s[i], 1);
    assert_int_equal(known(&b, &s[0], 1), 1); /* used again: now s[1] is the oldest */
    learn(&b, &more, 1);
    assert_int_equal(known(&b, &s[1], 1), 0);
    assert_int_equal(stats_of(&b).n_evicted, 1);
    learn(&b, &again, 1);
    assert_int_equal(known(&b, &s[2], 1), 0);
    assert_int_equal(known(&b, &s[0], 1), 1);
    assert_int_equal(known(&b, &s[3], 1), 1);
    assert_int_equal(known(&b, &more, 1), 1);
    assert_int_equal(known(&b, &again, 1), 1);
    bench_end(&b);
}

static void paths_go_leaf_by_leaf(void **state)
{
    bench b;
    bench_begin(&b, 20, 6);
    sp_segment path[] = {numbered(1, B), numbered(100, B), numbered(200, B)};
    learn(&b, path, 3);
    for (int gone = 1; gone <= 3; gone++) {
        sp_segment big = numbered(1000 * gone, (3 + gone) * B);
        learn(&b, &big, 1); /* needs `gone` blocks more than are left beside the path */
        assert_int_equal(known(&b, &big, 1), 1);
        match m = find(&b, path, 3);
        assert_int_equal(m.n_path, 3 - gone);
        release(&b, &m);
        sp_ledger_clear(b.ledger);
        learn(&b, path, 3);
    }
    bench_end(&b);
}

/* A retained copy is the last to leave, whatever the policy says, until its time is over. */
static void retained_copies_leave_last(void **state)
{
    bench b;
    bench_begin(&b, 20, 6);
    sp_segment first = numbered(1, 3 * B), second = numbered(100, 3 * B), third = numbered(200, 3 * B),
               large = numbered(300, 6 * B);
    learn(&b, &first, 1);
    match m = find(&b, &first, 1);
    sp_ledger_tick(b.ledger, 1000);
    sp_ledger_retain(b.ledger, m.path[0], 2000);
    sp_ledger_retain(b.ledger, m.path[0], 500); /* shortens nothing */
    release(&b, &m);
    learn(&b, &second, 1);
    learn(&b, &third, 1); /* the oldest stays, the newer one goes */
    assert_int_equal(known(&b, &first, 1), 1);
    assert_int_equal(known(&b, &second, 1), 0);
    sp_ledger_tick(b.ledger, 2000);
    known(&b, &third, 1);
    learn(&b, &second, 1);
    assert_int_equal(known(&b, &first, 1) + known(&b, &third, 1), 1);
    m = find(&b, &second, 1);
    sp_ledger_retain(b.ledger, m.path[0], 9000);
    release(&b, &m);
    learn(&b, &large, 1); /* nothing else can go */
    assert_int_equal(known(&b, &large, 1), 1);
    bench_end(&b);
}

/* A partial match is a use too, and its pin protects what it found. */
static void partial_matches_count_as_uses(void **state)
{
    bench b;
    bench_begin(&b, 20, 6);
    sp_segment first = numbered(1, 3 * B), second = numbered(100, 3 * B),
               third = numbered(200, 3 * B);
    sp_segment like_first = numbered(1, 2 * B);
    learn(&b, &first, 1);
    learn(&b, &second, 1);
    match m = find(&b, &like_first, 1);
    assert_int_equal(m.n_partial, 2 * B);
    release(&b, &m);
    learn(&b, &third, 1);
    assert_int_equal(known(&b, &second, 1), 0);
    assert_int_equal(known(&b, &first, 1), 1);
    m = find(&b, &like_first, 1); /* pinned: now even the newer one goes before it */
    assert_int_equal(known(&b, &third, 1), 1);
    learn(&b, &second, 1);
    assert_int_equal(known(&b, &third, 1), 0);
    assert_int_equal(known(&b, &first, 1), 1);
    release(&b, &m);
    bench_end(&b);
}

static void pinned_paths_survive(void **state)
{
    bench b;
    bench_begin(&b, 20, 4);
    sp_segment path[] = {numbered(1, B), numbered(100, B)}, others = numbered(500, 3 * B);
    learn(&b, path, 2);
    match pin = find(&b, path, 2);
    assert_int_equal(pin.n_path, 2);
    match m = find(&b, &others, 1);
    assert_false(extend(&b, &m, &others)); /* only 2 of the 4 can be had */
    release(&b, &m);
    sp_ledger_clear(b.ledger);
    assert_false(sp_ledger_free_up(b.ledger, 20));
    assert_int_equal(known(&b, path, 2), 2);
    release(&b, &pin);
    assert_int_equal(learn(&b, &others, 1), 0);
    assert_int_equal(known(&b, &others, 1), 1);
    assert_in_range(stats_of(&b).n_blocks, 3, 4);
    bench_end(&b);
}

/* What a prompt adds is pinned like what it has found. */
static void what_was_added_may_be_pinned(void **state)
{
    bench *b = *state;
    sp_segment s[] = {numbered(1, B), numbered(100, B)};
    match m = find(b, s, 2);
    assert_true(extend(b, &m, &s[0]));
    sp_ledger_clear(b->ledger);
    assert_int_equal(n_copies(b), 1);
    assert_true(extend(b, &m, &s[1]));
    sp_ledger_clear(b->ledger);
    assert_int_equal(n_copies(b), 2);
    sp_ledger_unpin(b->ledger, m.path[0]);
    sp_ledger_clear(b->ledger); /* I3: the second one protects it */
    assert_int_equal(n_copies(b), 2);
    sp_ledger_pin(b->ledger, m.path[0]);
    release(b, &m);
    sp_ledger_clear(b->ledger);
    assert_int_equal(n_copies(b), 0);
}

static void a_segment_beyond_the_budget_costs_nothing(void **state)
{
    bench b;
    bench_begin(&b, 20, 4);
    sp_segment small = numbered(1, 2 * B), large = numbered(100, 5 * B);
    learn(&b, &small, 1);
    match m = find(&b, &large, 1);
    assert_false(extend(&b, &m, &large));
    release(&b, &m);
    assert_int_equal(known(&b, &small, 1), 1); /* nothing was dropped in vain */
    assert_int_equal(sp_kv_pool_n_free(b.pool), 18);
    bench_end(&b);
}

static void eviction_frees_blocks_unless_others_hold_them(void **state)
{
    bench b;
    bench_begin(&b, 6, 6);
    sp_segment first = numbered(1, 2 * B), second = numbered(100, 2 * B);
    learn(&b, &first, 1);
    learn(&b, &second, 1);
    match m = find(&b, &first, 1);
    uint32_t held[2];
    memcpy(held, tip_of(&m)->blocks, sizeof held);
    sp_kv_retain(b.pool, held, 2); /* as a running request does */
    release(&b, &m);
    assert_true(sp_ledger_free_up(b.ledger, 2)); /* they are free already */
    assert_int_equal(n_copies(&b), 2);
    assert_true(sp_ledger_free_up(b.ledger, 3)); /* drops the older one: the second */
    assert_int_equal(sp_kv_pool_n_free(b.pool), 4);
    assert_false(sp_ledger_free_up(b.ledger, 5)); /* drops the first, which frees nothing */
    assert_int_equal(n_copies(&b), 0);
    assert_int_equal(sp_kv_pool_n_free(b.pool), 4);
    assert_int_equal(sp_kv_refs(b.pool, held[0]), 1);
    sp_kv_release(b.pool, held, 2);
    bench_end(&b);
}

/* LACR: the least used goes first, unless a waiting request will read it. Everything but the copy
 * that is expected goes in the order of its uses. */
static void what_is_expected_stays(void **state)
{
    for (int expected = -1; expected < 3; expected++) {
        bench b;
        const sp_copy *path[1];
        bench_begin(&b, 20, 3);
        sp_ledger_destroy(b.ledger);
        assert_ok(sp_ledger_create(
            &(sp_ledger_opts){.pool = b.pool, .max_blocks = 3, .evict = "lacr"}, &b.ledger));
        assert_true(sp_ledger_looks_ahead(b.ledger));
        sp_segment s[] = {numbered(1, B), numbered(100, B), numbered(200, B)};
        sp_segment more = numbered(300, B);
        for (int i = 0; i < 3; i++) learn(&b, &s[i], 1);
        for (int i = 0; i < 3; i++) /* s[1] is used least, then s[2], then s[0] */
            for (int k = 0; k < (i == 0 ? 3 : i - 1); k++) assert_int_equal(known(&b, &s[i], 1), 1);
        sp_ledger_look(b.ledger);
        sp_by_path_peek(b.ledger, &s[1], 1, path);
        sp_ledger_expect(b.ledger, path[0], 1); /* an older look: it does not count */
        sp_ledger_look(b.ledger);
        if (expected >= 0) {
            sp_by_path_peek(b.ledger, &s[expected], 1, path);
            assert_non_null(path[0]);
            sp_ledger_expect(b.ledger, path[0], 0.5f);
        }
        learn(&b, &more, 1);
        int gone = expected == 1 ? 2 : 1;
        for (int i = 0; i < 3; i++) {
            sp_by_path_peek(b.ledger, &s[i], 1, path);
            assert_int_equal(path[0] == NULL, i == gone);
        }
        bench_end(&b);
    }
}

/* Alpha is 0.2 and both parts are shares: of A, used most and not expected, 0.2; of B, used once, 0.8 of what it is
 * expected relative to C. */
static void lacr_weighs_history_by_a_fifth(void **state)
{
    static const struct {
        float b, c;
        int gone;
    } cases[] = {{0.6f, 2, 0}, {0.4f, 2, 1}, {0.03f, 0.1f, 0}, {0.02f, 0.1f, 1}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        bench b;
        const sp_copy *path[1];
        bench_begin(&b, 20, 3);
        sp_ledger_destroy(b.ledger);
        assert_ok(sp_ledger_create(&(sp_ledger_opts){.pool = b.pool, .max_blocks = 3, .evict = "lacr"}, &b.ledger));
        sp_segment s[] = {numbered(1, B), numbered(100, B), numbered(200, B)}, more = numbered(300, B);
        for (int k = 0; k < 3; k++) learn(&b, &s[k], 1);
        for (int k = 0; k < 60; k++) assert_int_equal(known(&b, &s[0], 1), 1);
        for (int k = 0; k < 2; k++) { /* what an earlier look expected is nobody's measure */
            sp_ledger_look(b.ledger);
            sp_by_path_peek(b.ledger, &s[2], 1, path);
            if (k == 0) sp_ledger_expect(b.ledger, path[0], 50);
        }
        for (int k = 2; k > 0; k--) { /* the most first */
            sp_by_path_peek(b.ledger, &s[k], 1, path);
            sp_ledger_expect(b.ledger, path[0], k == 1 ? cases[i].b : cases[i].c);
        }
        learn(&b, &more, 1);
        for (int k = 0; k < 3; k++) {
            sp_by_path_peek(b.ledger, &s[k], 1, path);
            assert_int_equal(path[0] == NULL, k == cases[i].gone);
        }
        bench_end(&b);
    }
}

/* -- the host tier -------------------------------------------------------------------------- */

static void use_copy(bench *b, const sp_segment *seg, int times, float cfo)
{
    match m = find(b, seg, 1);
    assert_int_equal(m.n_path, 1);
    while (times--) sp_ledger_use(b->ledger, m.path[0], cfo, ++b->now);
    release(b, &m);
}

/* host_victim -- of copies 0, 1, 2, which the host tier has beside the device; with `pinned`, one that may not
 * go; with `expected`, one that a waiting request will read. Copy 0 has saved least, copy 1 was used once, copy 2
 * longest ago. */
static int host_victim(const char *policy, int pinned, int expected)
{
    bench b = {.pool = small_pool(20)};
    const sp_segment s[] = {numbered(1, B), numbered(100, B), numbered(200, B)};
    const sp_copy *copies[3], *v;
    sp_ledger_opts o = {.pool = b.pool, .max_blocks = 8, .max_placed = 4, .host_evict = policy};
    assert_ok(sp_ledger_create(&o, &b.ledger));
    for (int i = 0; i < 3; i++) {
        learn(&b, &s[i], 1);
        match m = find(&b, &s[i], 1);
        copies[i] = m.path[0];
        sp_ledger_placed(b.ledger, copies[i], SP_AT_HOST);
        release(&b, &m);
    }
    use_copy(&b, &s[2], 3, 0.01f);
    use_copy(&b, &s[0], 5, 10);
    use_copy(&b, &s[1], 1, 0.02f);
    if (pinned >= 0) sp_ledger_pin(b.ledger, copies[pinned]);
    sp_ledger_look(b.ledger);
    if (expected >= 0) sp_ledger_expect(b.ledger, copies[expected], 0.5f);
    int which = -1;
    v = sp_ledger_host_victim(b.ledger);
    for (int i = 0; i < 3; i++)
        if (v == copies[i]) which = i;
    if (pinned >= 0) sp_ledger_unpin(b.ledger, copies[pinned]);
    bench_end(&b);
    return which;
}

static void the_host_has_an_order_of_its_own(void **state)
{
    static const struct {
        const char *policy;
        int first, next;
    } all[] = {{NULL, 2, 0},   {"lru", 2, 0},        {"lfu", 1, 2},
               {"gdsf", 1, 2}, {"lfu+ghosts", 1, 2}, {"fr", 0, 1}};
    for (size_t i = 0; i < SP_COUNT(all); i++) {
        assert_int_equal(host_victim(all[i].policy, -1, -1), all[i].first);
        assert_int_equal(host_victim(all[i].policy, all[i].first, -1), all[i].next);
    }
    int n_evict;
    const sp_evict_info *evict = sp_evict_policies(&n_evict);
    for (int i = 0; i < n_evict; i++)
        assert_int_not_equal(host_victim(evict[i].name, 0, -1), 0); /* pinned */
    assert_int_equal(host_victim("lacr", -1, -1), 1);
    assert_int_equal(host_victim("lacr", -1, 1), 2); /* the queue is looked at for the host, too */
    assert_int_equal(host_victim("lfu", -1, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_expected_stays),
        cmocka_unit_test(lacr_weighs_history_by_a_fifth),
        cmocka_unit_test(the_least_recently_used_leaf_goes_first),
        cmocka_unit_test(paths_go_leaf_by_leaf),
        cmocka_unit_test(retained_copies_leave_last),
        cmocka_unit_test(partial_matches_count_as_uses),
        cmocka_unit_test(pinned_paths_survive),
        BENCH_TEST(what_was_added_may_be_pinned),
        cmocka_unit_test(a_segment_beyond_the_budget_costs_nothing),
        cmocka_unit_test(eviction_frees_blocks_unless_others_hold_them),
        cmocka_unit_test(the_host_has_an_order_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
