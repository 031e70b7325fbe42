/* test_by_path.c -- the path index: what it finds and keeps. */
#include "support/path_bench.h"

#include "cache/ledger_int.h"

/* -- finding -------------------------------------------------------------------------------- */

static void an_empty_ledger_finds_nothing(void **state)
{
    bench b;
    bench_begin(&b, 8, 8);
    sp_segment s = numbered(1, 40);
    match m = find(&b, &s, 1);
    assert_int_equal(m.n_path, 0);
    assert_null(m.partial);
    assert_int_equal(m.n_partial, 0);
    release(&b, &m);
    m = find(&b, NULL, 0);
    assert_int_equal(m.n_path, 0);
    sp_ledger_destroy(NULL);
    bench_end(&b);
}

static void a_known_prompt_is_found_segment_by_segment(void **state)
{
    bench *b = *state;
    sp_segment s[] = {numbered(1, 20), numbered(100, 5), numbered(200, 32)};
    assert_int_equal(learn(b, s, 3), 0);
    match m = find(b, s, 3);
    assert_int_equal(m.n_path, 3);
    int32_t at = 0;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(m.path[i]->n, s[i].n);
        assert_int_equal(m.path[i]->facts.at, at);
        for (int k = 0; k < small_blocks(s[i].n); k++) {
            uint32_t block = m.path[i]->blocks[k];
            assert_int_equal(sp_kv_refs(b->pool, block), 1); /* I1 */
            assert_true(sp_kv_is_sealed(b->pool, block));
        }
        at += s[i].n;
    }
    assert_ptr_equal(tip_of(&m), m.path[2]);
    release(b, &m);
}

static void the_longest_prefix_is_found(void **state)
{
    bench *b = *state;
    sp_segment a = numbered(1, 16), c = numbered(100, 16), d = numbered(200, 16),
               e = numbered(300, 16);
    learn(b, (sp_segment[]){a, c, d}, 3);
    learn(b, (sp_segment[]){a, e}, 2);
    assert_int_equal(known(b, (sp_segment[]){a, c, d, e}, 4), 3);
    assert_int_equal(known(b, (sp_segment[]){a, c, e}, 3), 2);
    assert_int_equal(known(b, (sp_segment[]){a, e, d}, 3), 2);
    assert_int_equal(known(b, (sp_segment[]){a, d}, 2), 1);
    assert_int_equal(known(b, (sp_segment[]){c, d}, 2), 0); /* known, but after something else */
}

/* The same chunk after another path has other keys and values. */
static void a_chunk_after_two_parents_is_two_copies(void **state)
{
    bench *b = *state;
    sp_segment a = numbered(1, 16), c = numbered(100, 30), x = numbered(500, 20);
    learn(b, (sp_segment[]){a, x}, 2);
    assert_int_equal(learn(b, (sp_segment[]){c, x}, 2), 0);
    assert_int_equal(n_copies(b), 4);
    match after_a = find(b, (sp_segment[]){a, x}, 2);
    match after_c = find(b, (sp_segment[]){c, x}, 2);
    assert_ptr_not_equal(tip_of(&after_a), tip_of(&after_c));
    assert_int_equal(tip_of(&after_a)->facts.at, 16);
    assert_int_equal(tip_of(&after_c)->facts.at, 30);
    assert_int_not_equal(tip_of(&after_a)->blocks[0], tip_of(&after_c)->blocks[0]);
    release(b, &after_a);
    release(b, &after_c);
    /* and the same chunk twice in a row is one below the other */
    learn(b, (sp_segment[]){x, x, x}, 3);
    assert_int_equal(known(b, (sp_segment[]){x, x, x, x}, 4), 3);
}

/* A hash discovers, tokens verify: an id forged to that of another segment finds nothing of it. */
static void equal_ids_of_different_tokens_are_a_miss(void **state)
{
    bench *b = *state;
    sp_segment good = numbered(1, 20), forged = numbered(1000, 20), longer = numbered(1, 21);
    forged.id = longer.id = good.id;
    learn(b, &good, 1);
    assert_int_equal(known(b, &forged, 1), 0);
    assert_int_equal(known(b, &longer, 1), 0);
    assert_int_equal(learn(b, &forged, 1), 0); /* both can live side by side */
    match a = find(b, &good, 1), c = find(b, &forged, 1);
    assert_int_equal(a.n_path, 1);
    assert_int_equal(c.n_path, 1);
    assert_ptr_not_equal(tip_of(&a), tip_of(&c));
    release(b, &a);
    release(b, &c);
}

static void ids_with_the_same_first_bytes_are_told_apart(void **state)
{
    bench *b = *state;
    sp_segment s = numbered(1, 20), twin = s;
    twin.id.b[31] ^= 1; /* the tables hash the first bytes only */
    learn(b, &s, 1);
    match m = find(b, &twin, 1);
    assert_int_equal(m.n_path, 0);
    release(b, &m);
}

/* -- partial matches ------------------------------------------------------------------------ */

static sp_segment changed_at(const sp_segment *s, int32_t at)
{
    static int32_t tokens[8][128];
    static int next;
    int32_t *t = tokens[next++ % 8];
    memcpy(t, s->tokens, (size_t)s->n * sizeof *t);
    t[at] = -7;
    return small_segment(t, s->n);
}

static void the_most_shared_blocks_win(void **state)
{
    bench b;
    bench_begin(&b, 40, 40);
    sp_segment root = numbered(1, 16), base = numbered(100, 5 * B);
    sp_segment one = changed_at(&base, B), three = changed_at(&base, 3 * B + 2),
               two = changed_at(&base, 3 * B - 1);
    learn(&b, (sp_segment[]){root, one}, 2);
    learn(&b, (sp_segment[]){root, three}, 2);
    learn(&b, (sp_segment[]){root, two}, 2);
    match m = find(&b, (sp_segment[]){root, base}, 2);
    assert_int_equal(m.n_path, 1);
    assert_int_equal(m.n_partial, 3 * B);
    assert_non_null(m.partial);
    assert_int_equal(m.partial->facts.at, 16);
    match exact = find(&b, (sp_segment[]){root, three}, 2);
    assert_ptr_equal(m.partial, tip_of(&exact));
    assert_null(exact.partial); /* found whole: nothing left to share */
    release(&b, &exact);
    release(&b, &m);
    assert_int_equal(known(&b, (sp_segment[]){base}, 1), 0);
    m = find(&b, &base, 1); /* after another path nothing is shared */
    assert_null(m.partial);
    release(&b, &m);
    bench_end(&b);
}

/* Shorter and longer ones, both ways; the piece is whole blocks, at most what both have. */
static void a_message_that_has_grown_finds_its_beginning(void **state)
{
    static const struct {
        int32_t known, wanted, shared;
    } cases[] = {{40, 70, 32}, {48, 70, 48}, {70, 40, 32}, {70, 48, 48},    {16, 17, 16},
                 {17, 16, 16}, {15, 40, 0},  {40, 15, 0},  {31, 31 + B, 16}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        bench b;
        bench_begin(&b, 20, 20);
        sp_segment old = numbered(1, cases[i].known), new = numbered(1, cases[i].wanted);
        learn(&b, &old, 1);
        match m = find(&b, &new, 1);
        assert_int_equal(m.n_path, 0);
        assert_int_equal(m.n_partial, cases[i].shared);
        assert_int_equal(m.partial != NULL, cases[i].shared > 0);
        release(&b, &m);
        bench_end(&b);
    }
}

static void a_difference_in_the_first_block_shares_nothing(void **state)
{
    bench *b = *state;
    sp_segment base = numbered(1, 4 * B), other = changed_at(&base, B - 1);
    learn(b, &base, 1);
    match m = find(b, &other, 1);
    assert_null(m.partial);
    assert_int_equal(m.n_partial, 0);
    release(b, &m);
}

/* -- extending ------------------------------------------------------------------------------ */

static void a_child_that_exists_is_walked_to(void **state)
{
    bench *b = *state;
    sp_segment s[] = {numbered(1, 20), numbered(100, 20)};
    match first = find(b, s, 2), second = find(b, s, 2); /* both know nothing yet */
    assert_true(extend(b, &first, &s[0]));
    assert_true(extend(b, &second, &s[0]));
    assert_ptr_equal(tip_of(&first), tip_of(&second));
    assert_true(extend(b, &second, &s[1]));
    assert_int_equal(n_copies(b), 2);
    assert_int_equal(stats_of(b).n_blocks, 4);
    assert_int_equal(sp_kv_pool_n_free(b->pool), 16); /* the second copy was not kept */
    release(b, &first);
    release(b, &second);
}

static void what_was_handed_over_may_change(void **state)
{
    bench b;
    int32_t tokens[20];
    uint32_t blocks[2];
    bench_begin(&b, 4, 4);
    for (int i = 0; i < 20; i++) tokens[i] = i;
    sp_segment s = small_segment(tokens, 20);
    match m = find(&b, &s, 1);
    sealed(b.pool, 20, blocks);
    assert_true(extend_with(&b, &m, &s, blocks));
    assert_int_equal(sp_kv_refs(b.pool, blocks[0]), 2); /* a reference of its own */
    sp_kv_release(b.pool, blocks, 2);
    release(&b, &m);
    uint32_t mine = blocks[0];
    memset(tokens, 0, sizeof tokens);
    memset(blocks, 0xff, sizeof blocks);
    sp_segment again = numbered(0, 20);
    m = find(&b, &again, 1);
    assert_int_equal(m.n_path, 1);
    assert_int_equal(tip_of(&m)->blocks[0], mine);
    release(&b, &m);
    bench_end(&b);
}

static void blocks_may_be_shared_between_copies(void **state)
{
    bench b;
    bench_begin(&b, 8, 8);
    sp_segment old = numbered(1, 2 * B), new = numbered(1, 3 * B);
    learn(&b, &old, 1);
    match m = find(&b, &new, 1);
    assert_int_equal(m.n_partial, 2 * B);
    uint32_t blocks[3];
    memcpy(blocks, m.partial->blocks, 2 * sizeof *blocks);
    assert_ok(sp_kv_acquire(b.pool, 1, &blocks[2]));
    sp_kv_seal(b.pool, &blocks[2], 1);
    assert_true(extend_with(&b, &m, &new, blocks));
    sp_kv_release(b.pool, &blocks[2], 1);
    release(&b, &m);
    assert_int_equal(sp_kv_refs(b.pool, blocks[0]), 2);
    assert_int_equal(sp_kv_pool_n_free(b.pool), 5);
    assert_int_equal(stats_of(&b).n_blocks, 3); /* I4: each block once */
    bench_end(&b);
}

/* -- the rest ------------------------------------------------------------------------------- */

static void it_counts_what_happens(void **state)
{
    bench *b = *state;
    sp_segment s[] = {numbered(1, 20), numbered(100, 40)};
    sp_segment grown[] = {s[0], numbered(100, 60)};
    learn(b, s, 2);     /* 2 looked up, none found */
    learn(b, s, 2);     /* both found */
    known(b, grown, 2); /* one found, and 32 tokens of the other */
    sp_ledger_stats st = stats_of(b);
    assert_int_equal(st.n_copies, 2);
    assert_int_equal(st.n_blocks, 5);
    assert_int_equal(st.max_blocks, 20);
    assert_int_equal(st.n_lookups, 6);
    assert_int_equal(st.n_hits, 3);
    assert_int_equal(st.tokens_looked_up, 60 + 60 + 80);
    assert_int_equal(st.tokens_hit, 60 + 20 + 32);
    assert_int_equal(st.n_evicted, 0);
    sp_ledger_clear(b->ledger);
    st = stats_of(b);
    assert_int_equal(st.n_copies, 0);
    assert_int_equal(st.n_blocks, 0);
    assert_int_equal(st.n_evicted, 2);
    assert_int_equal(sp_kv_pool_n_free(b->pool), 20);
}

/* Beyond 256 copies the tables widen, several times; every copy and every partial match stays. */
static void thousands_of_copies_are_found(void **state)
{
    enum { N = 3000 };
    bench b;
    bench_begin(&b, 2 * N + 2, 2 * N);
    for (int i = 0; i < N; i++) {
        sp_segment s[] = {numbered(7, 3), numbered(1000 + i * 100, 20)};
        assert_int_equal(learn(&b, s, 2), i ? 1 : 0);
    }
    assert_int_equal(stats_of(&b).n_evicted, 1); /* 1 + 2N blocks wanted, 2N allowed */
    for (int i = 1; i < N; i++) {
        sp_segment s[] = {numbered(7, 3), numbered(1000 + i * 100, 20)};
        sp_segment longer[] = {s[0], numbered(1000 + i * 100, 40)};
        assert_int_equal(known(&b, s, 2), 2);
        match m = find(&b, longer, 2);
        assert_int_equal(m.n_partial, 16);
        release(&b, &m);
    }
    bench_end(&b);
}

static void policies_have_names(void **state)
{
    sp_kv_pool *pool = small_pool(1);
    sp_ledger *ledger = (sp_ledger *)&ledger;
    sp_ledger_opts o = {.pool = pool, .max_blocks = 1, .evict = "fifo"};
    assert_fails(sp_ledger_create(&o, &ledger), SP_E_ARG, "\"fifo\" is unknown: lru, lfu");
    assert_ptr_equal(ledger, &ledger);
    o.evict = "lru";
    assert_ok(sp_ledger_create(&o, &ledger));
    sp_ledger_destroy(ledger);
    small_pool_end(pool);
}

/* -- memory ---------------------------------------------------------------------------------- */

static void creation_survives_faults(void **state)
{
    sp_kv_pool *pool = small_pool(1);
    sp_ledger *ledger = NULL;
    sp_ledger_opts o = {.pool = pool, .max_blocks = 1};
    assert_survives_faults(sp_ledger_create(&o, &ledger), ledger == NULL);
    sp_ledger_destroy(ledger);
    small_pool_end(pool);
}

/* Across the first widening of the tables, so that it fails as well. */
static void adding_survives_faults(void **state)
{
    enum { N = 300 };
    bench b;
    bench_begin(&b, N, N);
    for (int i = 0; i < N; i++) {
        sp_segment s = numbered(i * 100, B);
        const sp_copy *c = NULL;
        uint32_t block;
        sealed(b.pool, B, &block);
        sp_copy_spec spec = {
            .seg = &s, .facts.kind = SP_COPY_PATH, .facts.exact = true, .blocks = &block};
        assert_survives_faults(sp_ledger_add(b.ledger, &spec, ++b.now, &c),
                               !c && sp_kv_refs(b.pool, block) == 1 && n_copies(&b) == i &&
                                   stats_of(&b).n_blocks == i && known(&b, &s, 1) == 0);
        assert_non_null(c);
        assert_int_equal(sp_kv_refs(b.pool, block), 2);
        sp_kv_release(b.pool, &block, 1);
    }
    for (int i = 0; i < N; i++) {
        sp_segment s = numbered(i * 100, B);
        assert_int_equal(known(&b, &s, 1), 1);
    }
    bench_end(&b);
}

/* I2: what is found by path is exact, to its root. */
static void approximate_copies_are_refused(void **state)
{
    bench *b = *state;
    sp_segment s = numbered(1, B), next = numbered(100, B);
    static const sp_digest head = {{1}};
    const sp_copy *c = NULL, *plain = NULL;
    uint32_t block;
    sealed(b->pool, B, &block);
    sp_copy_spec path = {.seg = &s, .facts.kind = SP_COPY_PATH, .blocks = &block};
    assert_fails(sp_ledger_add(b->ledger, &path, 1, &c), SP_E_ARG, "must be exact");
    sp_copy_spec content = path;
    content.facts.kind = SP_COPY_PLAIN;
    content.facts.before = &head;
    content.facts.n_before = content.facts.n_head = 1;
    assert_ok(sp_ledger_add(b->ledger, &content, 1, &plain));
    assert_int_equal(known(b, &s, 1), 0);
    path.facts.exact = true;
    path.seg = &next;
    path.parent = plain;
    assert_fails(sp_ledger_add(b->ledger, &path, 1, &c), SP_E_ARG, "parent");
    path.parent = NULL;
    path.base = plain;
    assert_fails(sp_ledger_add(b->ledger, &path, 1, &c), SP_E_ARG, "patch");
    path.base = NULL;
    assert_null(c);
    assert_int_equal(n_copies(b), 1);
    assert_int_equal(sp_kv_refs(b->pool, block), 2);
    assert_ok(sp_ledger_add(b->ledger, &path, 2, &c));
    content.facts.n_head = 2;
    assert_fails(sp_ledger_add(b->ledger, &content, 3, &plain), SP_E_ARG, "2 of its head");
    content.facts.n_head = 1;
    content.parent = c;
    assert_fails(sp_ledger_add(b->ledger, &content, 3, &plain), SP_E_ARG, "only a path copy");
    sp_kv_release(b->pool, &block, 1);
}

/* One that is used in its own place alone does not serve as the plain copy of its chunk. */
static void an_approximate_path_copy_is_no_plain_one(void **state)
{
    bench *b = *state;
    for (int exact = 0; exact < 2; exact++) {
        sp_segment s = numbered(100 * exact, B);
        const sp_copy *c = NULL;
        uint32_t block;
        s.kind = SP_SEG_CHUNK;
        s.origin = 1;
        sealed(b->pool, B, &block);
        const sp_copy_spec spec = {
            .seg = &s, .facts.kind = SP_COPY_PATH, .facts.exact = exact, .blocks = &block};
        assert_ok(sp_ledger_add(b->ledger, &spec, ++b->now, &c));
        assert_non_null(c);
        assert_ptr_equal(sp_by_path_after(b->ledger, NULL, 0, &s), exact ? c : NULL);
        sp_kv_release(b->pool, &block, 1);
    }
}

/* -- trees ---------------------------------------------------------------------------------- */

static sp_segment node(sp_segment s, int parent, int32_t at)
{
    s.kind = SP_SEG_NODE;
    s.parent = 1 + parent;
    s.place = 1 + at;
    return s;
}

/* n_found -- nodes of a prompt that are known; `which` [n]. */
static int n_found(bench *b, const sp_segment *segs, int n, bool *which)
{
    const sp_copy *path[MAX_PATH];
    sp_path_match m = sp_by_path_find(b->ledger, segs, n, ++b->now, path);
    int found = 0;
    for (int i = 0; i < n; i++) {
        which[i] = path[i] != NULL;
        found += which[i];
        if (path[i]) sp_ledger_unpin(b->ledger, path[i]);
    }
    assert_null(m.partial);
    return found;
}

/* Two branches after one system text; then the second alone, and beside a stranger. */
static void nodes_are_found_by_their_ancestors(void **state)
{
    bench *b = *state;
    bool which[6];
    sp_segment sys = numbered(1, 20), x = numbered(100, 5), y = numbered(200, 16),
               z = numbered(300, 3);
    learn(b, (sp_segment[]){sys, x, y}, 3); /* y after x */
    learn(b, (sp_segment[]){sys, z}, 2);
    sp_segment question = numbered(400, 4);
    question.parent = SP_PARENT_ALL;
    question.place = 1 + 41;
    const sp_segment both[] = {sys,
                               node(numbered(500, 2), 0, 20), /* unknown, and so its child */
                               node(y, 1, 22),
                               node(z, 0, 20),
                               node(x, 0, 20),
                               node(y, 4, 25)};
    assert_int_equal(n_found(b, both, 6, which), 4);
    const bool want[] = {true, false, false, true, true, true};
    assert_memory_equal(which, want, sizeof want);
    const sp_segment moved[] = {sys, node(z, 0, 21), node(x, 0, 20), question};
    assert_int_equal(n_found(b, moved, 4, which), 2);
    assert_false(which[1]); /* it was computed for other positions */
    assert_false(which[3]); /* it looks at all: no path names it */
}

/* A plain copy is for the place after the head: a chunk that is read elsewhere needs a copy of its own. */
static void a_plain_copy_serves_its_own_place(void **state)
{
    bench *b = *state;
    const sp_segment head = numbered(1, B), chunk = numbered(100, B);
    static const int32_t heavy[B];
    const sp_copy *plain = NULL;
    uint32_t block;
    assert_int_equal(learn(b, &head, 1), 0);
    sealed(b->pool, B, &block);
    const sp_copy_spec spec = {.seg = &chunk,
                               .blocks = &block,
                               .facts = {.kind = SP_COPY_PLAIN, .exact = true, .before = &head.id, .n_before = 1,
                                         .n_head = 1, .at = B, .heavy = heavy}};
    assert_ok(sp_ledger_add(b->ledger, &spec, ++b->now, &plain));
    sp_segment segs[] = {head, chunk};
    segs[1].place = 1 + 2 * B;
    assert_int_equal(known(b, segs, 2), 1);
    segs[1].place = 0;
    assert_int_equal(known(b, segs, 2), 2);
    const sp_copy *path = sp_by_path_at(b->ledger, (sp_digest[]){head.id, chunk.id}, 2);
    assert_true(plain->facts.heavy && !path->facts.heavy); /* facts of chunks are the plain copy's */
    sp_kv_release(b->pool, &block, 1);
}

/* Not by its beginning either, wherever the index puts the two. */
static void another_tenant_finds_no_beginning(void **state)
{
    bench *b = *state;
    const sp_segment seg = numbered(1, 3 * B);
    sp_segment like = numbered(1, 2 * B);
    learn(b, &seg, 1);
    for (uint64_t tenant = 0; tenant < 3000; tenant++) {
        like.tenant = tenant;
        match m = find(b, &like, 1);
        assert_int_equal(m.n_partial, tenant ? 0 : 2 * B);
        release(b, &m);
    }
}

static void finding_a_beginning_is_a_use(void **state)
{
    bench *b = *state;
    const sp_segment old = numbered(1, 3 * B), other = numbered(500, B);
    learn(b, &old, 1);
    learn(b, &other, 1);
    const sp_copy *c = sp_by_path_at(b->ledger, &old.id, 1);
    const float worth = c->uses.worth;
    assert_int_equal(known(b, (sp_segment[]){numbered(1, 2 * B)}, 1), 0);
    assert_true(c->uses.last == b->now && c->uses.n == 2);
    assert_true(evict_one(b)); /* the other */
    assert_int_equal(known(b, &old, 1), 1);
    assert_int_equal(known(b, &old, 1), 1);
    assert_true(c->uses.worth == worth + 2 * SP_MOST_WORTH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(nodes_are_found_by_their_ancestors),
        BENCH_TEST(a_plain_copy_serves_its_own_place),
        cmocka_unit_test(an_empty_ledger_finds_nothing),
        BENCH_TEST(a_known_prompt_is_found_segment_by_segment),
        BENCH_TEST(the_longest_prefix_is_found),
        BENCH_TEST(a_chunk_after_two_parents_is_two_copies),
        BENCH_TEST(equal_ids_of_different_tokens_are_a_miss),
        BENCH_TEST(ids_with_the_same_first_bytes_are_told_apart),
        cmocka_unit_test(the_most_shared_blocks_win),
        cmocka_unit_test(a_message_that_has_grown_finds_its_beginning),
        BENCH_TEST(a_difference_in_the_first_block_shares_nothing),
        BENCH_TEST(a_child_that_exists_is_walked_to),
        cmocka_unit_test(what_was_handed_over_may_change),
        cmocka_unit_test(blocks_may_be_shared_between_copies),
        BENCH_TEST(it_counts_what_happens),
        cmocka_unit_test(thousands_of_copies_are_found),
        cmocka_unit_test(policies_have_names),
        cmocka_unit_test(creation_survives_faults),
        cmocka_unit_test(adding_survives_faults),
        BENCH_TEST(approximate_copies_are_refused),
        BENCH_TEST(another_tenant_finds_no_beginning),
        BENCH_TEST(an_approximate_path_copy_is_no_plain_one),
        BENCH_TEST(finding_a_beginning_is_a_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
