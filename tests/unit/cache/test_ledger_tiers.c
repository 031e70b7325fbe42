/* test_ledger_tiers.c -- what the ledger says to tiers, what it takes from them, and what it refuses. */
#include "support/copy_bench.h"
#include "support/path_bench.h"

#include "cache/cost.h"
#include "cache/ledger_int.h"

static sp_adopted name_of(const sp_segment *seg, sp_copy_kind kind, sp_place place)
{
    return (sp_adopted){
        .facts.id = seg->id, .facts.kind = kind, .facts.head = sp_head_key(before, 1), .place = place};
}

static const sp_copy *adopt(bench *b, const sp_segment *seg, const sp_adopted *a)
{
    const sp_content_query q = query(seg, before, 1);
    assert_ok(sp_ledger_adopt(b->ledger, a));
    return sp_by_content_peek(b->ledger, &q, a->facts.kind);
}

static const sp_copy *adopt_path(bench *b, const sp_segment *seg, const sp_copy *parent, sp_place place)
{
    const sp_adopted_path a = {.seg = seg,
                               .parent = parent,
                               .facts.at = parent ? parent->facts.at + parent->n : 0,
                               .facts.exact = true,
                               .place = place};
    assert_ok(sp_ledger_adopt_path(b->ledger, &a));
    return sp_by_path_child(b->ledger, parent, seg);
}

static int n_useless;

static void count_useless(void *user, const sp_copy *c, unsigned places)
{
    n_useless++;
}

/* -- told to tiers ---------------------------------------------------------------------------- */

static void tiers_hear_of_what_is_useless(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40), other = numbered(100, 20);
    n_useless = 0;
    sp_ledger_set_tiers(b->ledger, &(sp_ledger_tiers){.useless = count_useless});
    const sp_adopted on_host = name_of(&seg, SP_COPY_PLAIN, SP_AT_HOST),
                     on_disk = name_of(&other, SP_COPY_PLAIN, SP_AT_DISK);
    adopt(b, &seg, &on_host);
    const sp_copy *c = adopt(b, &other, &on_disk);
    sp_ledger_clear(b->ledger);
    assert_int_equal(n_useless, 1);
    sp_ledger_drop(b->ledger, c);
    assert_int_equal(n_useless, 2);
    assert_int_equal(n_copies(b), 0);
}

static void a_pinned_copy_does_not_leave_the_host(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    const sp_adopted a = name_of(&seg, SP_COPY_PLAIN, SP_AT_HOST);
    const sp_copy *c = adopt(b, &seg, &a);
    sp_ledger_pin(b->ledger, c);
    assert_null(sp_ledger_host_victim(b->ledger));
    sp_ledger_unpin(b->ledger, c);
    assert_ptr_equal(sp_ledger_host_victim(b->ledger), c);
}

/* Nothing could be read after it any more. */
static void what_is_continued_on_disk_does_not_leave_the_host_alone(void **state)
{
    bench *b = *state;
    sp_segment head = numbered(1, B), next = numbered(100, B);
    const sp_copy *root = adopt_path(b, &head, NULL, SP_AT_HOST);
    adopt_path(b, &next, root, SP_AT_DISK);
    assert_null(sp_ledger_host_victim(b->ledger));
    sp_ledger_placed(b->ledger, root, SP_AT_DISK);
    assert_ptr_equal(sp_ledger_host_victim(b->ledger), root);
}

/* A pin keeps a copy known, and what it continues. */
static void a_pinned_child_keeps_its_parent_known(void **state)
{
    bench *b = *state;
    sp_segment s[] = {numbered(1, B), numbered(100, B)};
    const sp_copy *root = adopt_path(b, &s[0], NULL, SP_AT_DISK), *child = adopt_path(b, &s[1], root, SP_AT_DISK);
    sp_ledger_pin(b->ledger, child);
    sp_ledger_unplaced(b->ledger, root, SP_AT_DISK);
    assert_int_equal(n_copies(b), 2);
    sp_ledger_unpin(b->ledger, child);
    assert_int_equal(n_copies(b), 0);
}

/* -- taken from tiers -------------------------------------------------------------------------- */

static void an_index_says_what_a_copy_has(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    sp_adopted a = name_of(&seg, SP_COPY_PLAIN, SP_AT_DISK);
    a.measured = true;
    const sp_copy *c = adopt(b, &seg, &a);
    assert_true(c->stored.stats && !c->stored.heavy && !c->stored.exact);
    a.measured = false;
    a.heavy = true;
    adopt(b, &seg, &a);
    assert_true(c->stored.stats && c->stored.heavy && !c->stored.exact);
}

/* What a FREE copy keeps of its statistics has no numbers of tokens, of which none are left. */
static void an_evicted_copy_keeps_no_numbers_of_tokens(void **state)
{
    static const int32_t heavy[40], order[40];
    static const float inter[4] = {1, 2};
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    sp_copy_spec spec = computed_after(SP_COPY_PLACED, 2);
    spec.facts.heavy = heavy;
    spec.facts.stats.inter = inter;
    spec.facts.stats.order = order;
    assert_true(enter(b, &seg, spec));
    const sp_copy *c = sp_ledger_next(b->ledger, NULL);
    sp_ledger_placed(b->ledger, c, SP_AT_DISK);
    assert_true(c->facts.heavy && c->facts.stats.order && c->stored.heavy);
    sp_ledger_lose_device(b->ledger);
    assert_int_equal(c->state, SP_COPY_FREE);
    assert_true(c->facts.stats.inter && c->facts.stats.inter[1] == 2);
    assert_true(!c->facts.heavy && !c->facts.stats.order && c->stored.heavy);
}

/* A copy that has left the device still says how long it is. */
static void what_was_written_to_a_tier_keeps_its_length(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    const sp_content_query q = query(&seg, before, 1);
    assert_true(insert(b, &seg));
    const sp_copy *c = sp_by_content_peek(b->ledger, &q, SP_COPY_PLAIN);
    sp_ledger_placed(b->ledger, c, SP_AT_DISK);
    sp_ledger_lose_device(b->ledger);
    c = sp_by_content_peek(b->ledger, &q, SP_COPY_PLAIN);
    assert_int_equal(c->state, SP_COPY_FREE);
    assert_int_equal(c->n, 0);
    assert_int_equal(c->stored.n, 40);
}

/* What computing a copy of another process took, by a profile: times can be compared with its times. */
static void the_hosts_policy_knows_what_a_record_says(void **state)
{
    static const sp_cost profile = {
        .n_cached = 2, .n_new = 2, .cached = {0, 1000}, .fresh = {1, 1001}, .us = {2, 2002, 4, 4004}};
    bench b = {.pool = small_pool(20)};
    assert_ok(sp_ledger_create(&(sp_ledger_opts){.pool = b.pool, .max_blocks = 20, .cost = &profile}, &b.ledger));
    sp_segment seg = numbered(0, 40);
    const sp_adopted_path a = {
        .seg = &seg, .facts.exact = true, .facts.cost_us = 37000, .place = SP_AT_HOST};
    assert_ok(sp_ledger_adopt_path(b.ledger, &a));
    const sp_copy *c = sp_by_path_child(b.ledger, NULL, &seg);
    assert_true(c && c->host && c->host->uses.mean_cost == 37000.0F / 40);
    sp_segment other = numbered(1000, 40);
    sp_adopted named = name_of(&other, SP_COPY_PLAIN, SP_AT_HOST);
    named.n = 40, named.n_uses = 3, named.facts.cost_us = 37000;
    c = adopt(&b, &other, &named);
    assert_true(c->host && c->host->facts.cost_us == 37000 && c->host->uses.n == c->uses.n);
    bench_end(&b);
}

/* Each load has a header of its own; only a plain copy is exact. */
static void a_load_takes_the_facts_of_its_header(void **state)
{
    static const sp_copy_kind kinds[] = {SP_COPY_PLAIN, SP_COPY_FUSED};
    bench *b = *state;
    for (int i = 0; i < 4; i++) {
        const sp_copy_kind kind = kinds[i / 2];
        sp_segment seg = numbered(100 * (i / 2), 40);
        const sp_adopted a = name_of(&seg, kind, SP_AT_DISK);
        const sp_copy_facts loaded = {.before = before, .n_before = 1, .at = 9 + i, .exact = true};
        const sp_copy *c = adopt(b, &seg, &a);
        sp_ledger_pin(b->ledger, c);
        assert_ok(sp_ledger_load_begin(b->ledger, c, &seg, 0));
        assert_ok(sp_ledger_load_end(b->ledger, c, &loaded, SP_AT_DISK, ++b->now));
        assert_int_equal(c->facts.at, 9 + i);
        assert_int_equal(c->facts.exact, kind == SP_COPY_PLAIN);
        sp_ledger_unpin(b->ledger, c);
        sp_ledger_clear(b->ledger);
    }
}

static void a_path_that_is_loaded_is_not_computed_beside_it(void **state)
{
    bench *b = *state;
    sp_segment head = numbered(1, B), next = numbered(100, B);
    const sp_copy *c = adopt_path(b, &head, NULL, SP_AT_DISK), *out = c;
    uint32_t block;
    sealed(b->pool, B, &block);
    sp_copy_spec spec = {.seg = &next, .facts.kind = SP_COPY_PATH, .facts.exact = true, .parent = c, .blocks = &block};
    assert_fails(sp_ledger_add(b->ledger, &spec, ++b->now, &out), SP_E_ARG, "READY path copy");
    sp_ledger_pin(b->ledger, c);
    assert_ok(sp_ledger_load_begin(b->ledger, c, &head, 0));
    spec.seg = &head;
    spec.parent = NULL;
    assert_ok(sp_ledger_add(b->ledger, &spec, ++b->now, &out));
    assert_null(out);
    assert_ok(sp_ledger_load_end(b->ledger, c, &(sp_copy_facts){0}, SP_AT_DISK, ++b->now));
    sp_ledger_unpin(b->ledger, c);
    sp_kv_release(b->pool, &block, 1);
}

/* -- room and uses ------------------------------------------------------------------------------ */

static void what_exceeds_the_budget_drops_nothing(void **state)
{
    bench b;
    bench_begin(&b, 20, 4);
    sp_segment small = numbered(0, B), large = numbered(100, 5 * B);
    assert_true(insert(&b, &small));
    assert_false(insert(&b, &large));
    assert_true(has(&b, &small));
    assert_int_equal(stats_of(&b).n_evicted, 0);
    bench_end(&b);
}

static void a_copy_is_retained_until_its_time(void **state)
{
    bench *b = *state;
    sp_segment first = numbered(0, B), second = numbered(100, B);
    assert_true(insert(b, &first) && insert(b, &second));
    const sp_copy *c = find_copy(b, &first);
    sp_ledger_unpin(b->ledger, c);
    assert_true(has(b, &second));
    sp_ledger_retain(b->ledger, c, 10);
    sp_ledger_tick(b->ledger, 10);
    assert_true(evict_one(b));
    assert_false(has(b, &first));
}

static void uncounted_look_ups_leave_no_trace(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40), other = numbered(100, 20);
    assert_true(insert(b, &seg));
    assert_true(has(b, &seg));
    const sp_ledger_stats was = stats_of(b);
    assert_true(has(b, &seg) && !has(b, &other));
    sp_ledger_uncount(b->ledger, &was);
    const sp_ledger_stats is = stats_of(b);
    assert_int_equal(is.n_lookups, was.n_lookups);
    assert_int_equal(is.n_hits, was.n_hits);
    assert_int_equal(is.tokens_looked_up, was.tokens_looked_up);
    assert_int_equal(is.tokens_hit, was.tokens_hit);
}

static void kinds_have_names_of_their_own(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    assert_true(insert(b, &seg) && enter(b, &seg, computed_after(SP_COPY_FUSED, 1)));
    const sp_copy *plain = find_copy(b, &seg), *fused = find_fused(b, &seg, before);
    assert_true(plain && fused && plain->name != fused->name);
    sp_ledger_unpin(b->ledger, plain);
    sp_ledger_unpin(b->ledger, fused);
}

/* The host's policy may look ahead where the device's does not, and each look begins with nothing. */
static void the_hosts_policy_looks_ahead_too(void **state)
{
    for (int which = 0; which < 3; which++) {
        bench b = {.pool = small_pool(20)};
        const sp_ledger_opts o = {.pool = b.pool,
                                  .max_blocks = 20,
                                  .evict = which == 1 ? "lacr" : "lru",
                                  .host_evict = which == 2 ? "lacr" : "lru"};
        assert_ok(sp_ledger_create(&o, &b.ledger));
        assert_int_equal(sp_ledger_looks_ahead(b.ledger), which > 0);
        sp_segment seg = numbered(0, 40);
        const sp_adopted a = name_of(&seg, SP_COPY_PLAIN, SP_AT_HOST);
        const sp_copy *c = adopt(&b, &seg, &a);
        sp_ledger_look(b.ledger);
        sp_ledger_expect(b.ledger, c, 1);
        assert_true(sp_evict_expected(&b.ledger->host.evict, c->host) == 1);
        sp_ledger_look(b.ledger);
        assert_true(sp_evict_expected(&b.ledger->host.evict, c->host) == 0);
        bench_end(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(tiers_hear_of_what_is_useless),
        BENCH_TEST(a_pinned_copy_does_not_leave_the_host),
        BENCH_TEST(what_is_continued_on_disk_does_not_leave_the_host_alone),
        BENCH_TEST(a_pinned_child_keeps_its_parent_known),
        BENCH_TEST(an_index_says_what_a_copy_has),
        BENCH_TEST(an_evicted_copy_keeps_no_numbers_of_tokens),
        BENCH_TEST(what_was_written_to_a_tier_keeps_its_length),
        cmocka_unit_test(the_hosts_policy_knows_what_a_record_says),
        BENCH_TEST(a_load_takes_the_facts_of_its_header),
        BENCH_TEST(a_path_that_is_loaded_is_not_computed_beside_it),
        cmocka_unit_test(what_exceeds_the_budget_drops_nothing),
        BENCH_TEST(a_copy_is_retained_until_its_time),
        BENCH_TEST(uncounted_look_ups_leave_no_trace),
        BENCH_TEST(kinds_have_names_of_their_own),
        cmocka_unit_test(the_hosts_policy_looks_ahead_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
