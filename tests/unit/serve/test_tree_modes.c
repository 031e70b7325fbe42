/* test_tree_modes.c -- positions of trees: exact and shifted; lists and tables; nodes computed ahead. */
#include "support/requests.h"

static const policy prefix = {"prefix", 0};
static const sp_prompt_node alice[] = {{"Alice", -1}, {" likes", 0}, {" Titanic", 1}, {" Ghost", 1}};
static const sp_prompt_node bob[] = {{"Bob", -1}, {" lives in", 0}, {" Velm", 1}};

/* begin -- a prompt with its system text. */
static sp_prompt *begin(sp_context *c, sp_tree_mode mode)
{
    sp_prompt *p;
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_system(p, "Be brief."));
    assert_ok(sp_prompt_tree_mode(p, mode));
    return p;
}

static sp_request *ask_where(sp_context *c, sp_prompt *p)
{
    assert_ok(sp_prompt_question(p, "Where?"));
    sp_request *r = run(c, submit_prompt(c, p, 6));
    if (sp_request_result(r)->finish != SP_FINISH_LENGTH)
        fail_msg("%s", sp_request_result(r)->detail);
    assert_adds_up(sp_request_result(r));
    return r;
}

static sp_request *ask_trees(sp_context *c, sp_tree_mode mode, bool bob_first)
{
    sp_prompt *p = begin(c, mode);
    if (bob_first) assert_ok(sp_prompt_tree(p, bob, SP_COUNT(bob)));
    assert_ok(sp_prompt_tree(p, alice, SP_COUNT(alice)));
    if (!bob_first) assert_ok(sp_prompt_tree(p, bob, SP_COUNT(bob)));
    return ask_where(c, p);
}

static int nodes_reused(const sp_request *r)
{
    const sp_result *res = sp_request_result(r);
    int n = 0;
    for (int i = 0; i < res->n_segments; i++)
        n += !strcmp(res->segments[i].kind, "node") &&
             res->segments[i].n_reused == res->segments[i].n_tokens;
    return n;
}

static void shifted_positions_are_consecutive(void **state)
{
    sp_context *c = open_policy(&prefix);
    sp_prompt *p = begin(c, SP_TREE_SHIFTED);
    assert_ok(sp_prompt_tree(p, alice, SP_COUNT(alice)));
    assert_ok(sp_prompt_tree(p, bob, SP_COUNT(bob)));
    const sp_segment *s = p->segs.v;
    int32_t at = s[0].n, root = at;
    for (int i = 1; i < (int)p->segs.n; at += s[i++].n) {
        if (s[i].parent == 1) root = at;
        assert_int_equal(sp_segment_at(s, i), at);
        assert_int_equal(s[i].origin - 1, s[0].n + at - root);
    }
    assert_ok(sp_prompt_question(p, "Where?"));
    int last = (int)p->segs.n - 1;
    assert_int_equal(sp_segment_at(p->segs.v, last), at);
    assert_int_equal(p->end, p->n_tokens);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* A tree that is not the first one is found wherever it comes; and on the same place it is exact. */
static void trees_move(void **state)
{
    sp_context *c = open_policy(&prefix);
    sp_request *a = ask_trees(c, SP_TREE_SHIFTED, false), *b = ask_trees(c, SP_TREE_SHIFTED, true),
               *again = ask_trees(c, SP_TREE_SHIFTED, false);
    assert_int_equal(nodes_reused(a), 0);
    assert_int_equal(nodes_reused(b), SP_COUNT(alice) + SP_COUNT(bob));
    assert_int_equal(nodes_reused(again), SP_COUNT(alice) + SP_COUNT(bob));
    assert_same_text(a, again);
    sp_request_destroy(a);
    sp_request_destroy(b);
    sp_request_destroy(again);
    close_clean(c);
}

/* What is approximate never serves what is exact. */
static void modes_share_nothing(void **state)
{
    for (int first = 0; first < 2; first++) {
        sp_context *c = open_policy(&prefix);
        sp_request *a = ask_trees(c, first ? SP_TREE_EXACT : SP_TREE_SHIFTED, false),
                   *b = ask_trees(c, first ? SP_TREE_SHIFTED : SP_TREE_EXACT, false);
        assert_int_equal(nodes_reused(b), 0);
        sp_request_destroy(a);
        sp_request_destroy(b);
        close_clean(c);
    }
}

/* A copy that comes back from the host tier still moves. */
static void trees_move_through_the_host(void **state)
{
    sp_context *c = open_with((sp_context_opts){.tiers.host_bytes = 8 << 20});
    sp_request *a = ask_trees(c, SP_TREE_SHIFTED, false);
    assert_true(sp_ledger_free_up(c->ledger, sp_context_describe(c).kv_blocks));
    sp_request *b = ask_trees(c, SP_TREE_SHIFTED, true);
    assert_int_equal(nodes_reused(b), SP_COUNT(alice) + SP_COUNT(bob));
    sp_request *again = ask_trees(c, SP_TREE_SHIFTED, false);
    assert_same_text(a, again);
    sp_request_destroy(a);
    sp_request_destroy(b);
    sp_request_destroy(again);
    close_clean(c);
}

static void wrong_modes_are_refused(void **state)
{
    sp_context *c = open_policy(&prefix);
    sp_prompt *p = begin(c, SP_TREE_EXACT);
    assert_int_equal(sp_prompt_tree_mode(p, (sp_tree_mode)7), SP_E_ARG);
    assert_ok(sp_prompt_tree(p, bob, SP_COUNT(bob)));
    assert_int_equal(sp_prompt_tree_mode(p, SP_TREE_SHIFTED), SP_E_ARG);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* -- lists and tables ------------------------------------------------------------------------- */

static const char *const items[] = {"Boats leave at nine.", "The Anchor has rooms.", "Torin: none."};
static const char *const mixed[] = {"Torin: none.", "Boats leave at nine."};

/* Items do not see each other: each serves any list, bit for bit. */
static void items_of_a_list_serve_any_list(void **state)
{
    sp_context *c = open_policy(&prefix), *fresh = open_policy(&prefix);
    sp_prompt *p = begin(c, SP_TREE_EXACT);
    assert_ok(sp_prompt_list(p, items, 3));
    assert_int_equal(sp_prompt_n_segments(p), 4);
    for (int i = 1; i < 4; i++) assert_int_equal(p->segs.v[i].parent, 1);
    sp_request *a = ask_where(c, p);
    p = begin(c, SP_TREE_EXACT);
    assert_ok(sp_prompt_list(p, mixed, 2));
    sp_request *b = ask_where(c, p);
    assert_int_equal(nodes_reused(b), 2);
    p = begin(fresh, SP_TREE_EXACT);
    assert_ok(sp_prompt_list(p, mixed, 2));
    sp_request *cold = ask_where(fresh, p);
    assert_same_text(b, cold);
    p = begin(c, SP_TREE_EXACT);
    assert_int_equal(sp_prompt_list(p, (const char *const[]){"a", NULL}, 2), SP_E_ARG);
    assert_int_equal(sp_prompt_list(p, NULL, 2), SP_E_ARG);
    sp_prompt_destroy(p);
    sp_request_destroy(a);
    sp_request_destroy(b);
    sp_request_destroy(cold);
    close_clean(c);
    close_clean(fresh);
}

/* Rows see the header; under another header they are others. */
static void rows_of_a_table_see_its_header(void **state)
{
    sp_context *c = open_policy(&prefix);
    static const char *const headers[] = {"place | says", "place | says", "other | header"};
    static const int reused[] = {0, 4, 0};
    for (int k = 0; k < 3; k++) {
        sp_prompt *p = begin(c, SP_TREE_EXACT);
        assert_ok(sp_prompt_table(p, headers[k], items, 3));
        assert_int_equal(p->segs.v[1].parent, 1);
        for (int i = 2; i < 5; i++) assert_int_equal(p->segs.v[i].parent, 2);
        sp_request *r = ask_where(c, p);
        assert_int_equal(nodes_reused(r), reused[k]);
        sp_request_destroy(r);
    }
    sp_prompt *p = begin(c, SP_TREE_EXACT);
    assert_int_equal(sp_prompt_table(p, "h", NULL, 2), SP_E_ARG);
    assert_int_equal(sp_prompt_table(p, "h", items, -1), SP_E_ARG);
    sp_prompt_destroy(p);
    close_clean(c);
}

static void nodes_are_computed_ahead(void **state)
{
    sp_context *c = open_policy(&prefix);
    int n = 0;
    sp_prompt *p = begin(c, SP_TREE_SHIFTED);
    assert_ok(sp_prompt_tree(p, alice, SP_COUNT(alice)));
    assert_ok(sp_compute_depkv(c, p, &n));
    assert_int_equal(n, sp_prompt_n_tokens(p));
    assert_ok(sp_compute_depkv(c, p, &n));
    assert_true(n <= p->segs.v[p->segs.n - 1].n); /* the last node */
    sp_prompt_destroy(p);
    sp_request *r = ask_trees(c, SP_TREE_SHIFTED, true);
    assert_int_equal(nodes_reused(r), SP_COUNT(alice));
    sp_request_destroy(r);
    close_clean(c);
}

static sp_err life(void)
{
    sp_context *c = NULL;
    sp_prompt *p = NULL;
    const sp_context_opts o = {.model = MODEL, .machine.n_threads = 1, .cache.kv_bytes = 4 << 20};
    sp_err err = sp_context_open(&o, &c);
    if (err == SP_OK) err = sp_prompt_create(c, &p);
    if (err == SP_OK) err = sp_prompt_system(p, "Be brief.");
    if (err == SP_OK) err = sp_prompt_tree_mode(p, SP_TREE_SHIFTED);
    if (err == SP_OK) err = sp_prompt_list(p, items, 3);
    if (err == SP_OK) err = sp_prompt_table(p, "place | says", items, 3);
    if (err == SP_OK) err = sp_compute_depkv(c, p, NULL);
    sp_prompt_destroy(p);
    sp_context_close(c);
    return err;
}

static void memory_may_run_out(void **state)
{
    survive_every_fault(life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shifted_positions_are_consecutive),
        cmocka_unit_test(trees_move),
        cmocka_unit_test(modes_share_nothing),
        cmocka_unit_test(trees_move_through_the_host),
        cmocka_unit_test(wrong_modes_are_refused),
        cmocka_unit_test(items_of_a_list_serve_any_list),
        cmocka_unit_test(rows_of_a_table_see_its_header),
        cmocka_unit_test(nodes_are_computed_ahead),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
