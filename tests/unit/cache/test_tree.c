/* test_tree.c -- the tree of copies: what is below what, whose it is, and pages of it. */
#include "support/copy_bench.h"
#include "support/path_bench.h"

#include "cache/tree.h"

enum { PAGE = 64 };

static const sp_digest space = {{1}}; /* as small_segment */
static const sp_tree_reader nobody = {.space = &space};
static const sp_tree_reader tenant = {.space = &space, .salt = "t", .tenant = 77};

typedef struct page {
    sp_tree_node nodes[PAGE];
    int n;
    bool more;
} page;

static page list(const bench *b, const sp_tree_reader *reader, const sp_copy *parent)
{
    page p;
    const sp_tree_query q = {.reader = *reader, .parent = parent, .limit = PAGE};
    assert_ok(sp_tree_list(b->ledger, &q, p.nodes, &p.n, &p.more));
    assert_false(p.more);
    return p;
}

/* among -- the node of a segment and kind; NULL: it is not in the page. */
static const sp_tree_node *among(const page *p, const sp_segment *seg, sp_copy_kind kind)
{
    for (int i = 0; i < p->n; i++)
        if (p->nodes[i].copy->facts.kind == kind && sp_digest_eq(&p->nodes[i].copy->facts.id, &seg->id))
            return &p->nodes[i];
    return NULL;
}

/* after_head -- a copy of a chunk; the first of `ids` is its head. */
static sp_copy_spec after_head(const sp_digest *ids, int n, sp_copy_kind kind)
{
    static const float inter[4];
    sp_copy_spec s = {.facts.kind = kind, .facts.before = ids, .facts.n_before = n, .facts.n_head = 1, .facts.at = 16};
    if (kind == SP_COPY_PLACED) s.facts.stats.inter = inter;
    return s;
}

/* owned -- the segment as the tenant's. */
static sp_segment owned(sp_segment s)
{
    s.tenant = tenant.tenant;
    assert_ok(sp_segment_id(&space, tenant.salt, s.tokens, s.n, &s.id));
    return s;
}

static void a_copy_is_below_what_it_was_computed_after(void **state)
{
    bench b;
    bench_begin(&b, 32, 32);
    sp_segment head = numbered(1, 16), a = numbered(100, 16), c = numbered(200, 16), d = numbered(300, 16),
               alone = numbered(400, 16);
    const sp_digest ids[] = {head.id, a.id};
    learn(&b, (sp_segment[]){head, a, c}, 3);
    learn(&b, (sp_segment[]){head, d}, 2);
    assert_true(enter(&b, &c, after_head(ids, 1, SP_COPY_PLAIN)));
    assert_true(enter(&b, &d, after_head(ids, 2, SP_COPY_PLACED)));
    assert_true(insert(&b, &alone)); /* after a head that has no copy */

    page top = list(&b, &nobody, NULL);
    assert_int_equal(top.n, 2);
    const sp_tree_node *h = among(&top, &head, SP_COPY_PATH), *x = among(&top, &alone, SP_COPY_PLAIN);
    assert_int_equal(h->n_below, 4);
    assert_int_equal(x->n_below, 0);

    page below = list(&b, &nobody, h->copy);
    assert_int_equal(below.n, 4);
    assert_int_equal(among(&below, &a, SP_COPY_PATH)->n_below, 1);
    assert_int_equal(among(&below, &d, SP_COPY_PATH)->n_below, 0);
    assert_int_equal(among(&below, &c, SP_COPY_PLAIN)->n_below, 0);
    assert_non_null(among(&below, &d, SP_COPY_PLACED));
    page last = list(&b, &nobody, among(&below, &a, SP_COPY_PATH)->copy);
    assert_int_equal(last.n, 1);
    assert_ptr_equal(sp_tree_find(b.ledger, &nobody, last.nodes[0].copy->name), last.nodes[0].copy);
    assert_null(sp_tree_find(b.ledger, &nobody, x->copy->name)); /* nothing can be below it */
    bench_end(&b);
}

static void the_most_used_come_first(void **state)
{
    bench b;
    bench_begin(&b, 8, 8);
    sp_segment s[] = {numbered(1, 16), numbered(100, 16), numbered(200, 16)};
    for (int i = 0; i < 3; i++) learn(&b, &s[i], 1);
    for (int i = 0; i < 3; i++) known(&b, &s[1], 1);
    known(&b, &s[2], 1);
    page p = list(&b, &nobody, NULL);
    assert_int_equal(p.n, 3);
    assert_true(sp_digest_eq(&p.nodes[0].copy->facts.id, &s[1].id));
    assert_true(sp_digest_eq(&p.nodes[1].copy->facts.id, &s[2].id));
    bench_end(&b);
}

/* All of 10,000 copies, each once, whatever the size of a page is. */
static void pages_have_every_copy_once(void **state)
{
    enum { N = 10000, MOST = 1000 };
    static const int limits[] = {7, 999, MOST};
    static sp_tree_node nodes[MOST];
    static bool seen[N];
    bench b;
    bench_begin(&b, N + 1, N + 1);
    sp_segment head = numbered(-5, 4);
    match m = find(&b, &head, 1);
    assert_true(extend(&b, &m, &head));
    for (int i = 0; i < N; i++) {
        sp_segment s = numbered(i, 1);
        match one = m;
        sp_ledger_pin(b.ledger, m.path[0]);
        assert_true(extend(&b, &one, &s));
        release(&b, &one);
        if (i % 3 == 0) known(&b, (sp_segment[]){head, s}, 2);
    }
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
        sp_tree_query q = {.reader = nobody, .parent = m.path[0], .limit = limits[k]};
        int n, n_all = 0;
        memset(seen, 0, sizeof seen);
        for (bool more = true; more; n_all += n) {
            assert_ok(sp_tree_list(b.ledger, &q, nodes, &n, &more));
            assert_true(n == limits[k] || !more);
            for (int i = 0; i < n; i++) {
                assert_false(seen[nodes[i].copy->tokens[0]]);
                seen[nodes[i].copy->tokens[0]] = true;
            }
            q.after = (sp_tree_place){nodes[n - 1].copy->uses.n, nodes[n - 1].copy->name};
        }
        assert_int_equal(n_all, N);
    }
    assert_int_equal(list(&b, &nobody, NULL).nodes[0].n_below, N);
    release(&b, &m);
    bench_end(&b);
}

static void a_tenant_sees_its_own_copies_only(void **state)
{
    bench b;
    bench_begin(&b, 16, 16);
    sp_segment head = numbered(1, 16), a = numbered(100, 16), x = numbered(200, 16);
    sp_segment own[] = {owned(head), owned(a)}, own_x = owned(x);
    learn(&b, (sp_segment[]){head, a}, 2);
    learn(&b, own, 2);
    assert_true(enter(&b, &own_x, after_head(&own[0].id, 1, SP_COPY_PLAIN)));
    assert_true(enter(&b, &own_x, after_head(&x.id, 1, SP_COPY_PLAIN))); /* after no head that is known */

    page mine = list(&b, &tenant, NULL), theirs = list(&b, &nobody, NULL);
    assert_int_equal(theirs.n, 1);
    assert_int_equal(theirs.nodes[0].n_below, 1);
    assert_int_equal(mine.n, 2);
    assert_int_equal(among(&mine, &own[0], SP_COPY_PATH)->n_below, 2);
    assert_non_null(among(&mine, &own_x, SP_COPY_PLAIN));
    const uint64_t name = theirs.nodes[0].copy->name;
    assert_null(sp_tree_find(b.ledger, &tenant, name));
    assert_ptr_equal(sp_tree_find(b.ledger, &nobody, name), theirs.nodes[0].copy);
    page below = list(&b, &tenant, among(&mine, &own[0], SP_COPY_PATH)->copy);
    assert_null(sp_tree_find(b.ledger, &nobody, below.nodes[0].copy->name));
    bench_end(&b);
}

/* Without a system text all tenants' chunks follow the same head: none. */
static void chunks_after_no_head_are_their_owners(void **state)
{
    bench b;
    bench_begin(&b, 16, 16);
    const sp_segment mine = owned(numbered(100, 16)), theirs = numbered(200, 16);
    const sp_copy_spec alone = {.facts.kind = SP_COPY_PLAIN};
    assert_true(enter(&b, &mine, alone) && enter(&b, &theirs, alone));
    const page of_tenant = list(&b, &tenant, NULL), of_nobody = list(&b, &nobody, NULL);
    assert_int_equal(of_tenant.n, 1);
    assert_non_null(among(&of_tenant, &mine, SP_COPY_PLAIN));
    assert_int_equal(of_nobody.n, 1);
    assert_non_null(among(&of_nobody, &theirs, SP_COPY_PLAIN));
    bench_end(&b);
}

/* Another tenant's copies stay its own, even with the reader's ids and after the reader's head. */
static void equal_ids_do_not_make_a_copy_the_readers(void **state)
{
    bench b;
    bench_begin(&b, 16, 16);
    sp_segment head = owned(numbered(1, 16)), lone = owned(numbered(300, 16)), x = owned(numbered(200, 16));
    lone.tenant = x.tenant = tenant.tenant + 1;
    learn(&b, &head, 1);
    learn(&b, &lone, 1);
    assert_true(enter(&b, &x, after_head(&head.id, 1, SP_COPY_PLAIN)));
    page top = list(&b, &tenant, NULL);
    assert_int_equal(top.n, 1);
    assert_int_equal(top.nodes[0].n_below, 0);
    assert_int_equal(list(&b, &tenant, top.nodes[0].copy).n, 0);
    sp_segment mixed[] = {lone, owned(numbered(400, 16))}; /* a path is its root's */
    learn(&b, mixed, 2);
    const sp_copy *end = sp_by_path_at(b.ledger, (sp_digest[]){mixed[0].id, mixed[1].id}, 2);
    assert_true(end && end->tenant == tenant.tenant);
    assert_null(sp_tree_find(b.ledger, &tenant, end->name));
    bench_end(&b);
}

/* A copy that only a pin keeps known is in no tier, and not in the tree. */
static void what_no_tier_has_is_not_listed(void **state)
{
    bench b;
    bench_begin(&b, 8, 8);
    sp_segment s[] = {numbered(1, 16), numbered(100, 16)};
    learn(&b, s, 2);
    match m = find(&b, s, 2);
    sp_ledger_placed(b.ledger, m.path[0], SP_AT_DISK);
    sp_ledger_lose_pinned(b.ledger);
    page top = list(&b, &nobody, NULL);
    assert_int_equal(top.n, 1);
    assert_int_equal(top.nodes[0].n_below, 0);
    assert_int_equal(list(&b, &nobody, top.nodes[0].copy).n, 0);
    release(&b, &m);
    bench_end(&b);
}

static void adopt_path(bench *b, const sp_segment *seg, const sp_copy *parent, int32_t at)
{
    const sp_adopted_path a = {
        .seg = seg, .parent = parent, .facts.at = at, .facts.exact = true, .place = SP_AT_DISK, .n_uses = 3};
    assert_ok(sp_ledger_adopt_path(b->ledger, &a));
}

/* A load that failed leaves nothing to read, but what continues it is still loaded. */
static void what_is_loaded_is_below_what_was_lost(void **state)
{
    bench b;
    bench_begin(&b, 8, 8);
    sp_segment s[] = {numbered(1, 16), numbered(100, 16)};
    adopt_path(&b, &s[0], NULL, 0);
    const sp_copy *root = sp_by_path_at(b.ledger, &s[0].id, 1);
    adopt_path(&b, &s[1], root, 16);
    const sp_copy *end = sp_by_path_at(b.ledger, (sp_digest[]){s[0].id, s[1].id}, 2);
    assert_ok(sp_ledger_load_begin(b.ledger, root, &s[0], 0));
    assert_ok(sp_ledger_load_begin(b.ledger, end, &s[1], 0));
    assert_ok(sp_ledger_load_end(b.ledger, root, NULL, SP_AT_DISK, ++b.now));
    assert_true(root->state == SP_COPY_FREE && !root->places);
    page top = list(&b, &nobody, NULL);
    assert_int_equal(top.n, 1);
    assert_ptr_equal(top.nodes[0].copy, root);
    assert_int_equal(top.nodes[0].n_below, 1);
    assert_ok(sp_ledger_load_end(b.ledger, end, NULL, SP_AT_DISK, ++b.now));
    assert_int_equal(list(&b, &nobody, NULL).n, 0);
    bench_end(&b);
}

/* What a store has from an earlier run says not whose it is: its ids do. */
static void a_copy_that_only_a_tier_has_is_its_owners(void **state)
{
    bench b;
    bench_begin(&b, 8, 8);
    sp_segment head = owned(numbered(1, 16)), a = owned(numbered(100, 16)), x = owned(numbered(200, 20)),
               lone = owned(numbered(300, 16));
    adopt_path(&b, &head, NULL, 0);
    adopt_path(&b, &a, sp_by_path_at(b.ledger, &head.id, 1), 16);
    const sp_adopted plain = {.facts.id = x.id,
                              .facts.kind = SP_COPY_PLAIN,
                              .facts.head = sp_head_key(&head.id, 1),
                              .facts.exact = true,
                              .n = 20,
                              .place = SP_AT_DISK};
    sp_adopted unproven = plain;
    unproven.facts.id = lone.id;
    unproven.facts.head = 5;
    assert_ok(sp_ledger_adopt(b.ledger, &plain));
    assert_ok(sp_ledger_adopt(b.ledger, &unproven));

    page top = list(&b, &tenant, NULL);
    assert_int_equal(top.n, 1);
    assert_int_equal(top.nodes[0].n_below, 2);
    page below = list(&b, &tenant, top.nodes[0].copy);
    const sp_copy *chunk = among(&below, &x, SP_COPY_PLAIN)->copy;
    assert_int_equal(chunk->stored.n, 20);
    assert_true(chunk->stored.exact);
    assert_int_equal(among(&below, &a, SP_COPY_PATH)->copy->uses.n, 3);
    assert_int_equal(list(&b, &nobody, NULL).n, 0);
    assert_null(sp_tree_find(b.ledger, &nobody, top.nodes[0].copy->name));
    bench_end(&b);
}

/* A name is the same before and after a restart, so that a reader may keep it. */
static void a_name_outlives_the_process(void **state)
{
    bench b;
    uint64_t names[2];
    sp_segment head = numbered(1, 16), a = numbered(100, 16);
    for (int i = 0; i < 2; i++) {
        bench_begin(&b, 8, 8);
        if (i == 0) {
            learn(&b, (sp_segment[]){head, a}, 2);
        } else {
            adopt_path(&b, &head, NULL, 0);
            adopt_path(&b, &a, sp_by_path_at(b.ledger, &head.id, 1), 16);
        }
        names[i] = list(&b, &nobody, list(&b, &nobody, NULL).nodes[0].copy).nodes[0].copy->name;
        bench_end(&b);
    }
    assert_int_equal(names[0], names[1]);
}

static void without_memory_it_fails(void **state)
{
    bench b;
    page p;
    bench_begin(&b, 8, 8);
    sp_segment head = numbered(1, 16), a = numbered(100, 16);
    learn(&b, (sp_segment[]){head, a}, 2);
    insert(&b, &a);
    const sp_tree_query q = {.reader = nobody, .limit = PAGE};
    assert_survives_faults(sp_tree_list(b.ledger, &q, p.nodes, &p.n, &p.more), true);
    assert_int_equal(p.n, 2);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_below_what_it_was_computed_after),
        cmocka_unit_test(the_most_used_come_first),
        cmocka_unit_test(pages_have_every_copy_once),
        cmocka_unit_test(a_tenant_sees_its_own_copies_only),
        cmocka_unit_test(chunks_after_no_head_are_their_owners),
        cmocka_unit_test(equal_ids_do_not_make_a_copy_the_readers),
        cmocka_unit_test(what_no_tier_has_is_not_listed),
        cmocka_unit_test(what_is_loaded_is_below_what_was_lost),
        cmocka_unit_test(a_copy_that_only_a_tier_has_is_its_owners),
        cmocka_unit_test(a_name_outlives_the_process),
        cmocka_unit_test(without_memory_it_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
