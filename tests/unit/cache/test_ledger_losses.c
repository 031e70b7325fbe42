/* test_ledger_losses.c -- what leaves the ledger and what may not: lost blocks and devices, retained copies, copies
 * that lower tiers have; and the copies that a look-up may not take for others. */
#include "support/copy_bench.h"
#include "support/path_bench.h"

#include "cache/ledger_int.h"

/* -- lost blocks ------------------------------------------------------------------------------ */

/* A path reads the blocks of all that it continues. */
static void a_lost_block_takes_what_continues_it(void **state)
{
    bench *b = *state;
    sp_segment root = numbered(1, B), child = numbered(100, B), leaf = numbered(200, B), other = numbered(300, B);
    learn(b, (sp_segment[]){root, child, leaf}, 3);
    learn(b, &other, 1);
    match m = find(b, (sp_segment[]){root}, 1);
    const uint32_t block = m.path[0]->blocks[0];
    release(b, &m);
    sp_ledger_lose_block(b->ledger, block);
    assert_int_equal(known(b, (sp_segment[]){root, child, leaf}, 3), 0);
    assert_int_equal(known(b, &other, 1), 1);
    assert_int_equal(n_copies(b), 1);
}

static sp_copy_spec placed_after(int n_before)
{
    static float inter[] = {0.5f, 0.25f, 0.125f, 0.5f};
    static int32_t order[MAX_BLOCKS * B];
    for (int32_t i = 0; i < MAX_BLOCKS * B; i++) order[i] = i;
    sp_copy_spec spec = computed_after(SP_COPY_PLACED, n_before);
    spec.facts.stats = (sp_copy_stats){inter, 0.5f, order};
    return spec;
}

/* all_of -- the measured copies of a chunk; not pinned. */
static int all_of(bench *b, const sp_segment *seg, const sp_copy **out)
{
    const sp_content_query q = query(seg, before, 1);
    sp_arena arena = {0};
    const sp_copy **list;
    int n;
    assert_ok(sp_by_content_all(b->ledger, &q, &arena, &list, &n));
    for (int i = 0; i < n; i++) {
        out[i] = list[i];
        sp_ledger_unpin(b->ledger, list[i]);
    }
    sp_arena_fini(&arena);
    return n;
}

/* A patch reads the blocks of its base, and the base those of no patch. */
static void a_lost_block_of_a_base_takes_its_patches(void **state)
{
    static int32_t changed[] = {0, 3};
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    const sp_copy *c[2] = {NULL};
    assert_true(enter(b, &seg, placed_after(2)));
    assert_int_equal(all_of(b, &seg, c), 1);
    const sp_copy *base = c[0];
    sp_copy_spec patch = placed_after(3);
    patch.base = base;
    patch.patch.tokens = changed;
    patch.patch.n = 2;
    assert_true(enter(b, &seg, patch));
    assert_int_equal(all_of(b, &seg, c), 2);
    const sp_copy *over = c[0]->base ? c[0] : c[1];
    sp_ledger_lose_block(b->ledger, over->patch.blocks[0]);
    assert_int_equal(all_of(b, &seg, c), 1);
    assert_ptr_equal(c[0], base);
    assert_true(enter(b, &seg, patch));
    sp_ledger_lose_block(b->ledger, base->blocks[1]);
    assert_int_equal(n_copies(b), 0);
}

/* -- leaving the device ------------------------------------------------------------------------- */

static int n_left;

static void count_leaving(void *user, const sp_copy *c)
{
    n_left++;
}

static void watch(bench *b)
{
    n_left = 0;
    sp_ledger_set_tiers(b->ledger, &(sp_ledger_tiers){.leaving = count_leaving});
}

/* Nothing can be read from a device that is lost. */
static void copies_of_a_lost_device_go_to_no_tier(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40), other = numbered(100, 20);
    watch(b);
    assert_true(insert(b, &seg) && insert(b, &other));
    sp_ledger_lose_device(b->ledger);
    assert_int_equal(n_left, 0);
    assert_int_equal(n_copies(b), 0);
    assert_true(insert(b, &seg)); /* the next one is kept again */
    assert_true(evict_one(b));
    assert_int_equal(n_left, 1);
}

/* A plain copy and the path copy that serves for it: the host gets one of them, unless the plain one knows more. */
static void what_another_copy_knows_as_well_goes_to_no_tier(void **state)
{
    static int32_t heavy[B];
    for (int kind = 0; kind < 3; kind++) { /* as the path copy; measured; with heavy tokens */
        bench b;
        bench_begin(&b, 20, 20);
        watch(&b);
        const sp_segment head = numbered(1, B), chunk = numbered(100, B);
        learn(&b, (sp_segment[]){head, chunk}, 2);
        sp_copy_spec spec = {.facts = {.kind = SP_COPY_PLAIN, .exact = true, .before = &head.id, .n_before = 1,
                                       .n_head = 1, .at = B}};
        if (kind == 1) spec.facts.stats = placed_after(1).facts.stats;
        if (kind == 2) spec.facts.heavy = heavy;
        assert_true(enter(&b, &chunk, spec));
        sp_content_query q = query(&chunk, &head.id, 1);
        q.no_path = true;
        const sp_copy *plain = sp_by_content_find(b.ledger, &q, SP_COPY_PLAIN, ++b.now);
        assert_non_null(plain);
        match m = find(&b, (sp_segment[]){head, chunk}, 2); /* pinned: only the plain one can go */
        assert_int_equal(m.n_path, 2);
        sp_ledger_unpin(b.ledger, plain);
        assert_true(evict_one(&b));
        assert_int_equal(n_left, kind > 0);
        release(&b, &m);
        bench_end(&b);
    }
}

/* -- retained copies ------------------------------------------------------------------------------ */

/* retain_all -- copies of one block each, retained until `until`. */
static void retain_all(bench *b, int n, int64_t until)
{
    for (int i = 0; i < n; i++) {
        sp_segment seg = numbered(1000 * (i + 1), B);
        learn(b, &seg, 1);
        match m = find(b, &seg, 1);
        sp_ledger_retain(b->ledger, m.path[0], until);
        release(b, &m);
    }
}

/* However many are retained: the oldest goes when nothing else can. */
static void more_retained_copies_than_are_passed_over(void **state)
{
    enum { N = 200 };
    bench b;
    bench_begin(&b, N + 1, N);
    sp_ledger_tick(b.ledger, 1);
    retain_all(&b, N, 1000);
    sp_segment more = numbered(5, B), first = numbered(1000, B), second = numbered(2000, B);
    learn(&b, &more, 1);
    assert_int_equal(known(&b, &more, 1), 1);
    assert_int_equal(known(&b, &first, 1), 0);
    assert_int_equal(known(&b, &second, 1), 1);
    bench_end(&b);
}

/* What was passed over can go later, in every policy's order. */
static void retained_copies_go_when_their_time_is_over(void **state)
{
    static const char *const policies[] = {"lru", "pgdsf", "lacr"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        bench b = {.pool = small_pool(8)};
        const sp_ledger_opts o = {.pool = b.pool, .max_blocks = 4, .evict = policies[i]};
        assert_ok(sp_ledger_create(&o, &b.ledger));
        sp_ledger_tick(b.ledger, 1);
        retain_all(&b, 3, 1000);
        sp_segment short_lived = numbered(5, B), all = numbered(50, 4 * B);
        learn(&b, &short_lived, 1);
        for (int k = 0; k < 8; k++) known(&b, &short_lived, 1);
        assert_true(evict_one(&b)); /* passes over the three, which are used less */
        assert_int_equal(known(&b, &short_lived, 1), 0);
        sp_ledger_tick(b.ledger, 2000);
        learn(&b, &all, 1);
        assert_int_equal(known(&b, &all, 1), 1);
        assert_int_equal(n_copies(&b), 1);
        bench_end(&b);
    }
}

/* -- copies that tiers have ------------------------------------------------------------------------- */

static sp_adopted name_of(const sp_segment *seg, sp_place place)
{
    return (sp_adopted){
        .facts.id = seg->id, .facts.kind = SP_COPY_PLAIN, .facts.head = sp_head_key(before, 1), .place = place};
}

static const sp_copy *adopt(bench *b, const sp_segment *seg, sp_place place)
{
    const sp_adopted a = name_of(seg, place);
    const sp_content_query q = query(seg, before, 1);
    assert_ok(sp_ledger_adopt(b->ledger, &a));
    return sp_by_content_peek(b->ledger, &q, SP_COPY_PLAIN);
}

/* The host has their bytes in memory: only names on disk are forgotten. */
static void copies_on_the_host_are_not_forgotten(void **state)
{
    enum { HOST = 20 };
    bench *b = *state;
    sp_segment seg = numbered(1000, 20);
    for (int i = 1; i <= SP_LEDGER_MAX_FREE + 2 * HOST; i++) {
        memcpy(seg.id.b, &i, sizeof i);
        const sp_adopted a = name_of(&seg, i <= HOST ? SP_AT_HOST : SP_AT_DISK);
        assert_ok(sp_ledger_adopt(b->ledger, &a));
    }
    for (int i = 1; i <= HOST; i++) {
        memcpy(seg.id.b, &i, sizeof i);
        assert_true(has(b, &seg));
    }
    int i = HOST + 1;
    memcpy(seg.id.b, &i, sizeof i);
    assert_false(has(b, &seg));
}

static void a_name_without_a_length_changes_no_length(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    sp_adopted a = name_of(&seg, SP_AT_DISK);
    a.n = 40;
    assert_ok(sp_ledger_adopt(b->ledger, &a));
    assert_int_equal(adopt(b, &seg, SP_AT_HOST)->stored.n, 40);
}

/* The policy chose it for its statistics: a header without them is another copy's. */
static void a_load_must_bring_what_the_index_says(void **state)
{
    for (int lacks = 0; lacks < 3; lacks++) {
        static int32_t heavy[40];
        bench b;
        bench_begin(&b, 20, 20);
        sp_segment seg = numbered(0, 40);
        sp_adopted a = name_of(&seg, SP_AT_DISK);
        a.measured = a.heavy = true;
        assert_ok(sp_ledger_adopt(b.ledger, &a));
        const sp_copy *c = find_copy(&b, &seg);
        assert_non_null(c);
        assert_ok(sp_ledger_load_begin(b.ledger, c, &seg, 0));
        sp_copy_facts loaded = {.before = before, .n_before = 1, .at = 9};
        if (lacks != 1) loaded.stats = placed_after(1).facts.stats;
        if (lacks != 2) loaded.heavy = heavy;
        assert_ok(sp_ledger_load_end(b.ledger, c, &loaded, SP_AT_DISK, ++b.now));
        assert_int_equal(c->state == SP_COPY_READY, lacks == 0);
        assert_int_equal(c->places & SP_AT_DISK, lacks == 0 ? SP_AT_DISK : 0);
        sp_ledger_unpin(b.ledger, c);
        bench_end(&b);
    }
}

/* Loading it makes room, but not by dropping what it continues. */
static void a_load_keeps_what_it_continues(void **state)
{
    bench b;
    bench_begin(&b, 8, 4);
    sp_segment root = numbered(0, 2 * B), child = numbered(100, 3 * B);
    learn(&b, &root, 1);
    match m = find(&b, &root, 1);
    assert_ok(sp_ledger_adopt_path(b.ledger, &(sp_adopted_path){.seg = &child,
                                                                .parent = m.path[0],
                                                                .facts.at = 2 * B,
                                                                .facts.exact = true,
                                                                .place = SP_AT_DISK}));
    const sp_digest ids[] = {root.id, child.id};
    const sp_copy *c = sp_by_path_at(b.ledger, ids, 2);
    assert_non_null(c);
    release(&b, &m);
    sp_ledger_pin(b.ledger, c);
    assert_fails(sp_ledger_load_begin(b.ledger, c, &child, 0), SP_E_NOKV, "needs 3 blocks");
    assert_int_equal(known(&b, &root, 1), 1);
    sp_ledger_unpin(b.ledger, c);
    bench_end(&b);
}

/* A use of a copy that has no blocks says what it is worth, and nothing of when. */
static void a_copy_without_blocks_is_not_used(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    const sp_copy *c = adopt(b, &seg, SP_AT_DISK);
    sp_ledger_use(b->ledger, c, 0.5f, 77);
    assert_true(c->uses.worth == 3);
    assert_int_equal(c->uses.n, 0);
    assert_int_equal(c->uses.last, 0);
}

/* -- what a look-up may take -------------------------------------------------------------------------- */

/* The plain copy, or the path copy that is one, if that is closer. */
static void the_copy_in_the_higher_tier_serves(void **state)
{
    for (int path_is_closer = 0; path_is_closer < 2; path_is_closer++) {
        bench b;
        bench_begin(&b, 20, 20);
        sp_segment head = numbered(1, B), chunk = numbered(100, B);
        learn(&b, &head, 1);
        match m = find(&b, &head, 1);
        sp_adopted a = name_of(&chunk, path_is_closer ? SP_AT_DISK : SP_AT_HOST);
        a.facts.head = sp_head_key(&head.id, 1);
        assert_ok(sp_ledger_adopt(b.ledger, &a));
        const sp_adopted_path path = {.seg = &chunk,
                                      .parent = m.path[0],
                                      .facts.at = B,
                                      .facts.exact = true,
                                      .place = path_is_closer ? SP_AT_HOST : SP_AT_DISK};
        assert_ok(sp_ledger_adopt_path(b.ledger, &path));
        release(&b, &m);
        sp_content_query q = query(&chunk, &head.id, 1);
        const sp_copy *c = sp_by_content_peek(b.ledger, &q, SP_COPY_PLAIN);
        assert_non_null(c);
        assert_int_equal(c->facts.kind, path_is_closer ? SP_COPY_PATH : SP_COPY_PLAIN);
        q.no_path = true;
        c = sp_by_content_peek(b.ledger, &q, SP_COPY_PLAIN);
        assert_int_equal(c->facts.kind, SP_COPY_PLAIN);
        bench_end(&b);
    }
}

static void only_tokens_that_were_found_count_as_hits(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 33), other = numbered(500, 16);
    assert_true(insert(b, &seg) && has(b, &seg));
    assert_false(has(b, &other));
    assert_int_equal(stats_of(b).tokens_looked_up, 49);
    assert_int_equal(stats_of(b).tokens_hit, 33);
}

static void a_measured_copy_in_a_tier_is_not_ready(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    sp_adopted a = name_of(&seg, SP_AT_DISK);
    a.measured = true;
    assert_ok(sp_ledger_adopt(b->ledger, &a));
    sp_content_query q = query(&seg, before, 1);
    assert_non_null(sp_by_content_peek_measured(b->ledger, &q, false));
    q.ready_only = true;
    assert_null(sp_by_content_peek_measured(b->ledger, &q, false));
}

/* Its blocks begin with tokens of another segment: no list of whole blocks describes a part of it. */
static void a_copy_that_begins_inside_a_block_is_found_whole_or_not_at_all(void **state)
{
    bench *b = *state;
    const sp_segment head = numbered(1, B), seg = numbered(100, 3 * B), longer = numbered(100, 4 * B);
    uint32_t blocks[4];
    learn(b, &head, 1);
    match m = find(b, &head, 1);
    sealed(b->pool, 3 * B + 4, blocks);
    const sp_copy_spec spec = {.seg = &seg,
                               .facts = {.kind = SP_COPY_PATH, .exact = true},
                               .parent = m.path[0],
                               .blocks = blocks,
                               .first = 4};
    const sp_copy *c = NULL;
    assert_ok(sp_ledger_add(b->ledger, &spec, ++b->now, &c));
    sp_kv_release(b->pool, blocks, 4);
    release(b, &m);
    m = find(b, (sp_segment[]){head, seg}, 2);
    assert_int_equal(m.n_path, 2);
    release(b, &m);
    m = find(b, (sp_segment[]){head, longer}, 2);
    assert_int_equal(m.n_path, 1);
    assert_null(m.partial);
    release(b, &m);
    assert_null(sp_by_path_after(b->ledger, &head.id, 1, &seg)); /* nor is it a plain copy */
}

/* A path of chunks computed for other positions is not what a plain copy is. */
static void a_path_that_is_not_exact_is_no_plain_copy(void **state)
{
    bench *b = *state;
    const sp_segment head = numbered(1, B);
    sp_segment seg = numbered(100, B);
    uint32_t block;
    learn(b, &head, 1);
    match m = find(b, &head, 1);
    seg.origin = 1 + 5;
    sealed(b->pool, B, &block);
    sp_copy_spec spec = {.seg = &seg, .facts = {.kind = SP_COPY_PATH, .at = 5}, .parent = m.path[0], .blocks = &block};
    const sp_copy *c = NULL;
    assert_ok(sp_ledger_add(b->ledger, &spec, ++b->now, &c));
    sp_kv_release(b->pool, &block, 1);
    release(b, &m);
    assert_non_null(c);
    assert_null(sp_by_path_after(b->ledger, &head.id, 1, &seg));
}

static sp_segment node(sp_segment s, int parent, int32_t at)
{
    s.kind = SP_SEG_NODE;
    s.parent = 1 + parent;
    s.place = 1 + at;
    return s;
}

/* After a node that is unknown, others may be known: they are found, but they continue no path. */
static void the_path_ends_at_the_first_unknown_node(void **state)
{
    bench *b = *state;
    const sp_segment sys = numbered(1, 20), z = numbered(300, 2 * B), near = numbered(300, B + 5);
    const sp_copy *path[4];
    learn(b, (sp_segment[]){sys, z}, 2);
    const sp_segment segs[] = {sys, node(numbered(500, 2), 0, 20), node(z, 0, 20)};
    sp_path_match m = sp_by_path_find(b->ledger, segs, 3, ++b->now, path);
    assert_int_equal(m.n, 1);
    assert_true(path[0] && !path[1] && path[2]);
    sp_ledger_unpin(b->ledger, path[0]);
    sp_ledger_unpin(b->ledger, path[2]);
    const sp_segment alike[] = {sys, node(near, 0, 20)}; /* a node is found whole or not at all */
    m = sp_by_path_find(b->ledger, alike, 2, ++b->now, path);
    assert_int_equal(m.n, 1);
    assert_null(m.partial);
    sp_ledger_unpin(b->ledger, path[0]);
}

/* Chains stay short, however many copies there are. */
static void the_table_grows_with_the_copies(void **state)
{
    enum { N = 700 };
    bench b;
    bench_begin(&b, 2 * N, 2 * N);
    for (int i = 0; i < N; i++) {
        sp_segment s = numbered(i, 1);
        assert_true(insert(&b, &s));
        learn(&b, &s, 1);
    }
    const sp_ledger *l = b.ledger;
    assert_true(l->content.n_slots >= l->content.n && l->path_by_id.n_slots >= l->path_by_id.n);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_lost_block_takes_what_continues_it),
        BENCH_TEST(a_lost_block_of_a_base_takes_its_patches),
        BENCH_TEST(copies_of_a_lost_device_go_to_no_tier),
        cmocka_unit_test(what_another_copy_knows_as_well_goes_to_no_tier),
        cmocka_unit_test(more_retained_copies_than_are_passed_over),
        cmocka_unit_test(retained_copies_go_when_their_time_is_over),
        BENCH_TEST(copies_on_the_host_are_not_forgotten),
        BENCH_TEST(a_name_without_a_length_changes_no_length),
        cmocka_unit_test(a_load_must_bring_what_the_index_says),
        cmocka_unit_test(a_load_keeps_what_it_continues),
        BENCH_TEST(a_copy_without_blocks_is_not_used),
        cmocka_unit_test(the_copy_in_the_higher_tier_serves),
        BENCH_TEST(only_tokens_that_were_found_count_as_hits),
        BENCH_TEST(a_measured_copy_in_a_tier_is_not_ready),
        BENCH_TEST(a_copy_that_begins_inside_a_block_is_found_whole_or_not_at_all),
        BENCH_TEST(a_path_that_is_not_exact_is_no_plain_copy),
        BENCH_TEST(the_path_ends_at_the_first_unknown_node),
        cmocka_unit_test(the_table_grows_with_the_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
