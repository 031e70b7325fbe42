/* test_disk_order.c -- which copy leaves a full store: policies differ, the ends of paths go first, held
 * copies stay, and uses last from one process to the next. */
#include "support/check.h"

#include "../store/tier.h"

#include "serve/tiers/disk_order.h"
#include "spolia.h"

enum {
    STEP = 6 /* copies of such numbers have one size and one kind */,
    N = 6 /* copies in a full store: with one more, one has to leave (7/8: sp_disk_make_room) */
};

typedef struct bench {
    char dir[128];
    int64_t max_bytes;
    sp_disk_order *order;
    sp_tier *tier;
} bench;

static void bench_open(bench *b, const char *evict)
{
    assert_ok(sp_disk_order_create(evict, NULL, &b->order));
    assert_ok(sp_disk_tier_open(&(sp_disk_tier_opts){.dir = b->dir,
                                                     .space = &noise_space,
                                                     .max_bytes = b->max_bytes,
                                                     .reserve_bytes = -1,
                                                     .evict = sp_disk_order_hooks(b->order)},
                                &b->tier));
}

static void bench_close(bench *b)
{
    sp_tier_close(b->tier);
    sp_disk_order_destroy(b->order);
}

static sp_tier_key key_of(uint32_t i)
{
    return noise_key(STEP * i);
}

static void put(bench *b, uint32_t i)
{
    assert_ok(noise_put(b->tier, STEP * i, 1));
}

static bool knows(bench *b, uint32_t i)
{
    const sp_tier_key key = key_of(i);
    return sp_tier_knows(b->tier, &key);
}

static void use(bench *b, uint32_t i, int times, float worth)
{
    const sp_tier_key key = key_of(i);
    while (times--) {
        sp_disk_order_worth(b->order, &key, worth);
        sp_tier_use(b->tier, &key);
    }
}

/* bench_fill -- a full store. */
static void bench_fill(bench *b, const char *evict)
{
    *b = (bench){0};
    make_folder(b->dir, sizeof b->dir);
    bench_open(b, evict);
    for (uint32_t i = 0; i < N; i++) put(b, i);
    b->max_bytes = sp_tier_stats_of(b->tier).bytes_live / N * 69 / 10;
    bench_close(b);
    bench_open(b, evict);
    assert_int_equal(sp_tier_stats_of(b->tier).n_copies, N);
}

static void bench_end(bench *b)
{
    bench_close(b);
    remove_folder(b->dir);
}

/* first_out -- which of the first N copies leaves when another one comes. */
static int first_out(bench *b, uint32_t newcomer)
{
    int gone = -1;
    put(b, newcomer);
    for (uint32_t i = 0; i < N; i++)
        if (!knows(b, i)) gone = gone < 0 ? (int)i : 100 + (int)i; /* one alone is expected */
    return gone;
}

/* Copy 0 was used most, and longest ago; copy 1 least; copy 2 is worth most. */
static int victim_of(const char *evict, bool restarts)
{
    bench b;
    bench_fill(&b, evict);
    use(&b, 0, 6, 1);
    for (uint32_t i = 2; i < N; i++) use(&b, i, 2, i == 2 ? 500 : 2);
    use(&b, 1, 1, 1);
    if (restarts) {
        bench_close(&b);
        bench_open(&b, evict);
    }
    int gone = first_out(&b, N);
    bench_end(&b);
    return gone;
}

static void policies_differ(void **state)
{
    for (int restarts = 0; restarts < 2; restarts++) {
        assert_int_equal(victim_of(NULL, restarts), 0);
        assert_int_equal(victim_of("lru", restarts), 0);
        assert_int_equal(victim_of("lfu", restarts), 1);
        assert_int_equal(victim_of("gdsf", restarts), 1);
        assert_int_equal(victim_of("pgdsf", restarts), 1);
        assert_int_equal(victim_of("lacr", restarts), 1);
        assert_int_equal(victim_of("lfu+ghosts", restarts), 1);
        assert_true(victim_of("fr", restarts) != 2);
        assert_true(victim_of("hazard", restarts) < 100); /* one, whichever it learns */
    }
    sp_disk_order *o = NULL;
    assert_fails(sp_disk_order_create("mru", NULL, &o), SP_E_ARG, "lru, lfu");
    assert_null(o);
}

static void what_is_worth_most_stays(void **state)
{
    bench b;
    bench_fill(&b, "fr");
    for (uint32_t i = 0; i < N; i++) use(&b, i, 1, i == 0 ? 500 : 2);
    assert_int_equal(first_out(&b, N), 1);
    bench_end(&b);
}

/* Copy 1 is used least: it stays while a waiting request will read it. */
static void what_waiting_requests_read_stays(void **state)
{
    for (int look = 0; look < 3; look++) {
        bench b;
        bench_fill(&b, look == 2 ? "lfu" : "lacr");
        use(&b, 0, 2, 1);
        for (uint32_t i = 2; i < N; i++) use(&b, i, 3, 1);
        const sp_tier_key key = key_of(1);
        assert_int_equal(sp_disk_order_looks_ahead(b.order), look < 2);
        sp_disk_order_look(b.order);
        if (look) sp_disk_order_expect(b.order, &key, 0.5f);
        assert_int_equal(first_out(&b, N), look == 1 ? 0 : 1);
        bench_end(&b);
    }
}

/* 2 continues 1, which continues 0: least used, and longest ago. */
static void the_ends_of_paths_go_first(void **state)
{
    int n;
    const sp_evict_info *policies = sp_evict_policies(&n);
    for (int p = 0; p < n; p++) {
        bench b;
        bench_fill(&b, policies[p].name);
        for (uint32_t i = 1; i < 3; i++) {
            const sp_tier_key key = key_of(i), parent = key_of(i - 1);
            sp_disk_order_follows(b.order, &key, &parent);
        }
        for (uint32_t i = 1; i < N; i++) use(&b, i, i == 2 ? 2 : 4, 1);
        for (uint32_t i = N; i < 40; i++) {
            put(&b, i);
            assert_true(knows(&b, 0) || !knows(&b, 1));
            assert_true(knows(&b, 1) || !knows(&b, 2));
        }
        bench_end(&b);
    }
}

static void a_put_keeps_what_it_continues(void **state)
{
    bench b;
    bench_fill(&b, "lfu");
    for (uint32_t i = 1; i < N; i++) use(&b, i, 3, 1);
    const sp_tier_key parent = key_of(0);
    noise c;
    noise_init(&c, STEP * N, 1);
    sp_tier_job job = noise_put_job(&c);
    job.after = &parent;
    job.n_after = 1;
    assert_ok(sp_tier_run(b.tier, &job));
    assert_true(knows(&b, 0) && knows(&b, N) && !knows(&b, 1)); /* 1: used longest ago of equals */
    put(&b, N + 1);
    assert_true(knows(&b, 0) && !knows(&b, N)); /* it follows 0 */
    put(&b, N + 2);
    assert_false(knows(&b, 0)); /* the put is over */
    bench_end(&b);
}

/* A copy that comes back has no pin of the one that a put held. */
static void what_a_put_continues_may_go_meanwhile(void **state)
{
    sp_disk_order *o;
    sp_tier_key key = key_of(2), victim;
    const sp_tier_info parent = {.key = key_of(1), .n = NOISE_TOKENS};
    assert_ok(sp_disk_order_create("lru", NULL, &o));
    const sp_tier_evict hooks = sp_disk_order_hooks(o);
    hooks.added(o, &parent);
    hooks.coming(o, &key, &parent.key);
    assert_false(hooks.victim(o, &victim));
    hooks.removed(o, &parent.key);
    hooks.added(o, &parent);
    assert_ok(sp_disk_order_hold(o, &parent.key.id, 1));
    hooks.coming(o, NULL, NULL);
    assert_false(hooks.victim(o, &victim)); /* held */
    sp_disk_order_destroy(o);
}

/* A touch is no use. */
static void uses_are_counted(void **state)
{
    sp_disk_order *o;
    sp_tier_key victim;
    for (int k = 0; k < 2; k++) {
        assert_ok(sp_disk_order_create(k ? "fr" : "lfu", NULL, &o));
        const sp_tier_evict hooks = sp_disk_order_hooks(o);
        const sp_tier_info one = {.key = key_of(1), .n = NOISE_TOKENS, .n_uses = 3},
                           two = {.key = key_of(2), .n = NOISE_TOKENS};
        hooks.added(o, &one);
        hooks.added(o, &two);
        for (int i = 0; i < 9; i++) hooks.used(o, &two.key, false);
        assert_true(hooks.victim(o, &victim));
        assert_true(sp_digest_eq(&victim.id, &two.key.id));
        sp_disk_order_destroy(o);
    }
}

/* The slots of these two are the same: the second one is found when the first one is gone. */
static void one_text_after_two_heads_is_two_copies(void **state)
{
    sp_disk_order *o;
    sp_tier_info one = {.key = key_of(1), .n = NOISE_TOKENS}, two = one;
    two.key.head ^= UINT64_C(1) << 40;
    assert_ok(sp_disk_order_create("lru", NULL, &o));
    const sp_tier_evict hooks = sp_disk_order_hooks(o);
    hooks.added(o, &one);
    hooks.added(o, &two);
    hooks.removed(o, &one.key);
    assert_true(hooks.victim(o, &one.key));
    assert_true(one.key.head == two.key.head);
    hooks.removed(o, &two.key);
    assert_false(hooks.victim(o, &one.key));
    sp_disk_order_destroy(o);
}

/* By any policy; and when nobody holds them any more, all are victims again. */
static void held_copies_stay(void **state)
{
    int n;
    const sp_evict_info *policies = sp_evict_policies(&n);
    sp_digest ids[40]; /* sorted: the first byte is the number */
    for (uint32_t i = 0; i < 40; i++) ids[i] = key_of(i).id;
    for (int p = 0; p < n; p++) {
        bench b;
        bench_fill(&b, policies[p].name);
        assert_ok(sp_disk_order_hold(b.order, ids, 2));
        assert_int_equal(first_out(&b, N), 2);
        for (uint32_t i = N + 1; i < 30; i++) put(&b, i);
        assert_true(knows(&b, 0) && knows(&b, 1));
        assert_ok(sp_disk_order_hold(b.order, ids, 40));
        assert_fails(noise_put(b.tier, STEP * 30, 1), SP_E_LIMIT, "no room");
        assert_ok(sp_disk_order_hold(b.order, NULL, 0));
        put(&b, 30);
        put(&b, 31);
        assert_true(knows(&b, 31));
        bench_end(&b);
    }
}

/* As where a document that is kept is stored after it was registered. */
static void copies_that_come_later_are_held_too(void **state)
{
    sp_disk_order *o;
    sp_tier_key victim;
    const sp_tier_info held = {.key = key_of(1), .n = NOISE_TOKENS}, other = {.key = key_of(2), .n = NOISE_TOKENS};
    assert_ok(sp_disk_order_create("lru", NULL, &o));
    const sp_tier_evict hooks = sp_disk_order_hooks(o);
    assert_ok(sp_disk_order_hold(o, &held.key.id, 1));
    hooks.added(o, &held);
    assert_false(hooks.victim(o, &victim));
    hooks.added(o, &other);
    assert_true(hooks.victim(o, &victim) && sp_digest_eq(&victim.id, &other.key.id));
    sp_disk_order_destroy(o);
}

/* Whatever happens, the order has what the tier has: all of it can be evicted. */
static void the_order_follows_the_tier(void **state)
{
    bench b;
    uint64_t seed = 5;
    bench_fill(&b, "gdsf+ghosts");
    for (int round = 0; round < 4; round++) {
        for (int k = 0; k < 150; k++) {
            uint32_t i = (uint32_t)check_random(&seed, 30),
                     other = (uint32_t)check_random(&seed, 30);
            const sp_tier_key key = key_of(i), parent = key_of(other);
            switch (check_random(&seed, 5)) {
            case 0:
                assert_ok(noise_drop(b.tier, STEP * i));
                break;
            case 1:
                if (i > other) sp_disk_order_follows(b.order, &key, &parent);
                break;
            case 2:
                use(&b, i, 1, 1);
                break;
            default:
                put(&b, i);
            }
        }
        sp_tier_key least;
        const sp_tier_evict hooks = sp_disk_order_hooks(b.order);
        const sp_tier_stats s = sp_tier_stats_of(b.tier);
        assert_true(s.bytes_used <= b.max_bytes);
        for (int64_t n = s.n_copies; n > 0; n--) {
            assert_true(hooks.victim(hooks.user, &least));
            assert_true(sp_tier_knows(b.tier, &least));
            assert_ok(sp_tier_run(b.tier, &(sp_tier_job){.verb = SP_TIER_DROP, .key = least}));
        }
        assert_false(hooks.victim(hooks.user, &least));
        bench_close(&b);
        bench_open(&b, "gdsf+ghosts");
    }
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_differ),
        cmocka_unit_test(what_is_worth_most_stays),
        cmocka_unit_test(what_waiting_requests_read_stays),
        cmocka_unit_test(the_ends_of_paths_go_first),
        cmocka_unit_test(a_put_keeps_what_it_continues),
        cmocka_unit_test(what_a_put_continues_may_go_meanwhile),
        cmocka_unit_test(uses_are_counted),
        cmocka_unit_test(one_text_after_two_heads_is_two_copies),
        cmocka_unit_test(held_copies_stay),
        cmocka_unit_test(copies_that_come_later_are_held_too),
        cmocka_unit_test(the_order_follows_the_tier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
