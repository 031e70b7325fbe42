/* test_tree_requests.c -- prompts with dependency trees: their segments, what is reused, and what is
 * refused. */
#include <stdio.h>

#include "support/requests.h"

static const policy prefix = {"prefix", 0}, off = {"off", 0}, full = {"full", 0};

/*   0 Alice -- 1 likes -- 2 Titanic
 *          \-- 3 knows -- 4 Bob           5 Bob -- 6 lives in -- 7 Velm */
static const sp_prompt_node alice[] = {{"Alice", -1},    {" likes", 0}, {" Titanic", 1},
                                       {" knows", 0},    {" Bob", 3},   {"Bob", -1},
                                       {" lives in", 5}, {" Velm", 6}};
static const sp_prompt_node bob[] = {
    {"Bob", -1}, {" eats", 0}, {" bread", 1}, {" lives in", 0}, {" Velm", 3}};

static sp_prompt *tree_prompt(sp_context *c, const sp_prompt_node *nodes, int n,
                              const char *question)
{
    sp_prompt *p;
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_system(p, "Be brief."));
    assert_ok(sp_prompt_tree(p, nodes, n));
    if (question) assert_ok(sp_prompt_question(p, question));
    return p;
}

static sp_request *ask_tree(sp_context *c, const sp_prompt_node *nodes, int n, const char *question,
                            int max_tokens)
{
    sp_request *r = run(c, submit_prompt(c, tree_prompt(c, nodes, n, question), max_tokens));
    if (sp_request_result(r)->finish != SP_FINISH_LENGTH)
        fail_msg("%s", sp_request_result(r)->detail);
    assert_adds_up(sp_request_result(r));
    return r;
}

static char *tree_alone(const sp_prompt_node *nodes, int n, const char *question, int max_tokens)
{
    sp_context *c = open_policy(&off);
    sp_request *r = ask_tree(c, nodes, n, question, max_tokens);
    char *text = strdup(sp_request_result(r)->text);
    sp_request_destroy(r);
    close_clean(c);
    return text;
}

static void positions_count_depth(void **state)
{
    sp_context *c = open_policy(&prefix);
    sp_prompt *p = tree_prompt(c, alice, SP_COUNT(alice), "Where?");
    const sp_segment *s = p->segs.v;
    assert_int_equal(p->segs.n, SP_COUNT(alice) + 2);
    int32_t deepest = 0;
    for (int i = 0; i < (int)SP_COUNT(alice); i++) {
        int parent = alice[i].parent + 1; /* segment 0 is the system text */
        assert_int_equal(s[i + 1].kind, SP_SEG_NODE);
        assert_int_equal(sp_segment_parent(s, i + 1), parent);
        assert_int_equal(sp_segment_at(s, i + 1), sp_segment_at(s, parent) + s[parent].n);
        assert_true(sp_segment_on_path(s, i + 1));
        deepest = SP_MAX(deepest, sp_segment_at(s, i + 1) + s[i + 1].n);
    }
    int last = (int)p->segs.n - 1;
    assert_int_equal(sp_segment_at(s, last), deepest);
    assert_int_equal(sp_segment_n_seen(s, last), last + 1);
    assert_int_equal(sp_segments_end(s, last + 1), deepest + s[last].n);
    assert_int_equal(p->end, deepest + s[last].n);
    assert_true(p->n_tokens > p->end);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* Two calls make the same prompt as one: all roots look at the system text. */
static void trees_may_be_added_one_by_one(void **state)
{
    sp_context *c = open_policy(&prefix);
    const sp_prompt_node second[] = {{"Bob", -1}, {" lives in", 0}, {" Velm", 1}};
    sp_prompt *one = tree_prompt(c, alice, SP_COUNT(alice), NULL),
              *two = tree_prompt(c, alice, 5, NULL);
    assert_ok(sp_prompt_tree(two, second, 3));
    assert_int_equal(one->segs.n, two->segs.n);
    for (size_t i = 0; i < one->segs.n; i++) {
        assert_true(sp_digest_eq(&one->segs.v[i].id, &two->segs.v[i].id));
        assert_int_equal(one->segs.v[i].parent, two->segs.v[i].parent);
        assert_int_equal(one->segs.v[i].place, two->segs.v[i].place);
    }
    sp_prompt_destroy(one);
    sp_prompt_destroy(two);
    close_clean(c);
}

static void nodes_serve_other_questions(void **state)
{
    sp_context *c = open_policy(&prefix);
    sp_request *first = ask_tree(c, alice, SP_COUNT(alice), "Where?", 20);
    assert_int_equal(sp_request_result(first)->n_reused, 0);
    assert_text(first, tree_alone(alice, SP_COUNT(alice), "Where?", 20));
    sp_request *same = ask_tree(c, alice, SP_COUNT(alice), "Where?", 20);
    const sp_result *r = sp_request_result(same);
    assert_same_text(first, same);
    for (int i = 0; i < r->n_segments; i++) {
        bool question = i == r->n_segments - 1;
        assert_string_equal(r->segments[i].kind, i == 0     ? "system"
                                                 : question ? "question"
                                                            : "node");
        assert_int_equal(r->segments[i].n_reused, question ? 0 : r->segments[i].n_tokens);
        assert_string_equal(r->segments[i].from, question ? "" : "memory");
    }
    sp_request *other = ask_tree(c, bob, SP_COUNT(bob), "What?", 20);
    r = sp_request_result(other);
    static const bool reused[] = {true, true, false, false, true, true, false};
    for (int i = 0; i < r->n_segments; i++)
        assert_int_equal(r->segments[i].n_reused, reused[i] ? r->segments[i].n_tokens : 0);
    assert_text(other, tree_alone(bob, SP_COUNT(bob), "What?", 20));
    sp_request_destroy(first);
    sp_request_destroy(same);
    sp_request_destroy(other);
    close_clean(c);
}

/* path_by_path -- each leaf's path becomes known in a question of its own. */
static void path_by_path(sp_context *c, const sp_prompt_node *nodes, int n)
{
    for (int leaf = 0; leaf < n; leaf++) {
        sp_prompt_node path[8];
        int depth = 0, k = leaf;
        for (int i = leaf; i >= 0; i = nodes[i].parent) depth++;
        assert_in_range(depth, 1, SP_COUNT(path));
        for (int i = depth - 1; i >= 0; k = nodes[k].parent, i--)
            path[i] = (sp_prompt_node){nodes[k].text, i - 1};
        sp_request_destroy(ask_tree(c, path, depth, NULL, 0));
    }
}

/* Nodes that other questions have left apart move together for a long answer, and for no short one; the answer
 * is the same. */
static void nodes_are_packed_for_long_answers(void **state)
{
    sp_context *c = open_policy(&prefix);
    path_by_path(c, alice, SP_COUNT(alice));
    const int64_t n_cached = sp_ledger_stats_of(c->ledger).n_blocks;
    for (int n = 15; n <= 24; n += 9) {
        sp_request *r = ask_tree(c, alice, SP_COUNT(alice), "Where?", n);
        const sp_result *got = sp_request_result(r);
        int n_nodes = 0;
        for (int i = 1; i < got->n_segments - 1; i++) n_nodes += got->segments[i].n_reused;
        assert_int_equal(got->decode.n_packed, n == 24 ? n_nodes : 0);
        assert_true(n_nodes > 0 && got->decode.pack_us >= 0);
        assert_text(r, tree_alone(alice, SP_COUNT(alice), "Where?", n));
        sp_request_destroy(r);
        assert_int_equal(sp_ledger_stats_of(c->ledger).n_blocks, n_cached);
        assert_int_equal(sp_kv_pool_n_blocks(c->pool) - sp_kv_pool_n_free(c->pool), n_cached);
    }
    close_clean(c);
}

/* n_packed -- in a KV memory of so many blocks; 0 blocks: a large one. */
static int n_packed(int64_t n_blocks)
{
    sp_context *c = open_policy(&prefix);
    const size_t bytes = (size_t)n_blocks * sp_context_describe(c).kv_block_bytes;
    close_clean(c);
    c = open_with((sp_context_opts){.reuse.policy = "prefix", .cache.kv_bytes = bytes});
    path_by_path(c, alice, SP_COUNT(alice));
    sp_request *r = ask_tree(c, alice, SP_COUNT(alice), "Where?", 24);
    const int n = sp_request_result(r)->decode.n_packed;
    sp_request_destroy(r);
    close_clean(c);
    return n;
}

/* Nodes that are packed are there twice: they may take an eighth of the memory for it. */
static void nodes_stay_apart_in_a_small_memory(void **state)
{
    const int n = n_packed(0);
    assert_true(n > SP_BLOCK_TOKENS);
    assert_int_equal(n_packed(8 * sp_blocks_for(n)), n);
    assert_int_equal(n_packed(8 * sp_blocks_for(n) - 1), 0);
}

/* Memory that others have set aside is not taken, and a failure is not the answer's. */
static void nodes_stay_apart_without_memory(void **state)
{
    for (int fault = 0; fault < 2; fault++) {
        sp_context *c = open_policy(&prefix);
        path_by_path(c, alice, SP_COUNT(alice));
        sp_request *r = submit_prompt(c, tree_prompt(c, alice, SP_COUNT(alice), "Where?"), 24);
        while (r->answer.tokens.n < 7) step(c); /* the next one packs */
        const int64_t others = fault ? 0 : sp_kv_pool_n_free(c->pool) - c->reserved;
        uint32_t *held = malloc((size_t)(others + 1) * sizeof *held);
        assert_ok(sp_kv_acquire(c->pool, others, held));
        sp_ledger_stats before = sp_ledger_stats_of(c->ledger);
        if (fault) sp_fault_after(0);
        step(c);
        sp_fault_after(-1);
        run(c, r);
        assert_int_equal(sp_ledger_stats_of(c->ledger).n_blocks, before.n_blocks);
        sp_kv_release(c->pool, held, others);
        free(held);
        assert_int_equal(sp_request_result(r)->finish, SP_FINISH_LENGTH);
        assert_int_equal(sp_request_result(r)->decode.n_packed, 0);
        assert_text(r, tree_alone(alice, SP_COUNT(alice), "Where?", 24));
        sp_request_destroy(r);
        close_clean(c);
    }
}

/* compute_depkv: a prompt without a question, and no answer. */
static void nodes_are_computed_ahead(void **state)
{
    sp_context *c = open_policy(&prefix);
    sp_request *warm = ask_tree(c, bob, SP_COUNT(bob), NULL, 0);
    assert_int_equal(sp_request_result(warm)->n_generated, 0);
    sp_request *r = ask_tree(c, bob, SP_COUNT(bob), "What?", 8);
    const sp_result *got = sp_request_result(r);
    for (int i = 0; i < got->n_segments - 1; i++)
        assert_int_equal(got->segments[i].n_reused, got->segments[i].n_tokens);
    assert_text(r, tree_alone(bob, SP_COUNT(bob), "What?", 8));
    sp_request_destroy(warm);
    sp_request_destroy(r);
    close_clean(c);
}

/* Policies that move chunks leave trees alone. */
static void trees_are_exact_under_any_policy(void **state)
{
    sp_context *c = open_policy(&full);
    for (int round = 0; round < 2; round++) {
        sp_prompt *p;
        assert_ok(sp_prompt_create(c, &p));
        assert_ok(sp_prompt_system(p, "Be brief."));
        assert_ok(sp_prompt_chunk(p, "T", texts[round]));
        assert_ok(sp_prompt_tree(p, bob, SP_COUNT(bob)));
        assert_ok(sp_prompt_question(p, "What?"));
        sp_request *r = run(c, submit_prompt(c, p, 8));
        assert_int_equal(sp_request_result(r)->finish, SP_FINISH_LENGTH);
        assert_adds_up(sp_request_result(r));
        assert_int_equal(count_copies(c).n_content, 0);
        sp_request_destroy(r);
    }
    close_clean(c);
}

/* -- what is refused -------------------------------------------------------------------------- */

static void refuse_tree(sp_context *c, const sp_prompt_node *nodes, int n, sp_err want,
                        const char *word)
{
    sp_prompt *p = tree_prompt(c, NULL, 0, NULL);
    assert_int_equal(sp_prompt_tree(p, nodes, n), want);
    if (!strstr(sp_error_detail(), word)) fail_msg("\"%s\" in: %s", word, sp_error_detail());
    sp_prompt_destroy(p);
}

static void bad_trees_are_refused(void **state)
{
    sp_context *c = open_policy(&prefix);
    refuse_tree(c, (sp_prompt_node[]){{"a", 0}}, 1, SP_E_ARG, "node 0");
    refuse_tree(c, (sp_prompt_node[]){{"a", -1}, {"b", 1}}, 2, SP_E_ARG, "node 1");
    refuse_tree(c, (sp_prompt_node[]){{"a", -2}}, 1, SP_E_ARG, "-2");
    refuse_tree(c, (sp_prompt_node[]){{NULL, -1}}, 1, SP_E_ARG, "NULL");
    refuse_tree(c, NULL, 1, SP_E_ARG, "NULL");
    refuse_tree(c, (sp_prompt_node[]){{"a", -1}}, -1, SP_E_ARG, "-1 nodes");
    enum { MANY = 70000 };
    sp_prompt_node *many = malloc(MANY * sizeof *many);
    for (int i = 0; i < MANY; i++) many[i] = (sp_prompt_node){"x", i - 1};
    refuse_tree(c, many, MANY, SP_E_LIMIT, "70000 nodes");
    refuse_tree(c, many, 257, SP_E_LIMIT, "levels");
    sp_prompt *p = tree_prompt(c, many, 256, NULL);
    sp_prompt_destroy(p);
    free(many);
    p = tree_prompt(c, bob, SP_COUNT(bob), "What?");
    assert_int_equal(sp_prompt_tree(p, bob, SP_COUNT(bob)), SP_E_ARG); /* after the question */
    sp_prompt_destroy(p);
    close_clean(c);
}

/* Otherwise the node would have tokens that it has in no other prompt. */
static void the_last_node_does_not_grow(void **state)
{
    sp_context *c = open_policy(&prefix);
    sp_prompt *p = tree_prompt(c, bob, SP_COUNT(bob), NULL);
    const int32_t n = p->segs.v[p->segs.n - 1].n;
    assert_ok(sp_prompt_answer(p));
    assert_int_equal(p->segs.n, SP_COUNT(bob) + 2);
    assert_int_equal(p->segs.v[SP_COUNT(bob)].n, n);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* A node without text adds no segment; its children continue its parent. */
static void an_empty_node_adds_no_segment(void **state)
{
    sp_context *c = open_policy(&prefix);
    const sp_prompt_node gap[] = {{"", -1}, {"Bob", 0}, {"", 1}, {" eats", 2}};
    const sp_prompt_node dense[] = {{"Bob", -1}, {" eats", 0}};
    sp_request *r = ask_tree(c, gap, 4, "What?", 8);
    assert_int_equal(sp_request_result(r)->n_segments, 4);
    assert_text(r, tree_alone(dense, 2, "What?", 8));
    sp_request_destroy(r);
    close_clean(c);
}

/* A hub: more leaves than KV memory holds is refused by its number of tokens; what fits, works. */
static void a_hub_that_does_not_fit_is_refused(void **state)
{
    sp_context *c = open_policy(&prefix);
    enum { LEAVES = 40, TOO_MANY = 9000 };
    sp_prompt_node *hub = malloc((TOO_MANY + 1) * sizeof *hub);
    hub[0] = (sp_prompt_node){"Hub", -1};
    for (int i = 1; i <= TOO_MANY; i++) hub[i] = (sp_prompt_node){i % 2 ? " one" : " two", 0};
    sp_prompt *p = tree_prompt(c, hub, TOO_MANY + 1, "What?");
    sp_request *r = NULL;
    assert_int_equal(sp_request_submit(c, p, NULL, &r), SP_E_CONTEXT);
    sp_prompt_destroy(p);
    r = ask_tree(c, hub, LEAVES + 1, "What?", 4); /* equal leaves are one copy */
    assert_int_equal(count_copies(c).n_path, 1 + 1 + 2);
    sp_request_destroy(r);
    free(hub);
    close_clean(c);
}

/* reused_after_fillers -- nodes of a tree that are still known when its second question comes, after
 * other trees have filled the memory; that question waits in the queue while the last of them runs. */
static int reused_after_fillers(const char *evict)
{
    enum { N_FILLER = 10, N_BLOCKS = 32 };
    sp_context *probe = open_with((sp_context_opts){0});
    size_t block = sp_context_describe(probe).kv_block_bytes;
    close_clean(probe);
    sp_context *c = open_with((sp_context_opts){.cache.kv_bytes = N_BLOCKS * block,
                                                .cache.evict = evict,
                                                .max_requests = 1,
                                                .machine.cpu = "ref",
                                                .queue.order = "fcfs"});
    sp_request_destroy(ask_tree(c, bob, SP_COUNT(bob), "What?", 2));
    sp_request *filler = NULL;
    for (int k = 0; k < 3; k++) {
        char names[N_FILLER][8];
        sp_prompt_node nodes[N_FILLER];
        for (int i = 0; i < N_FILLER; i++) {
            snprintf(names[i], sizeof names[i], "%c%d", 'a' + k, i);
            nodes[i] = (sp_prompt_node){names[i], -1};
        }
        sp_request_destroy(filler);
        filler = submit_prompt(c, tree_prompt(c, nodes, N_FILLER, "Q?"), 2);
        if (k < 2) run(c, filler);
    }
    sp_request *r = submit_prompt(c, tree_prompt(c, bob, SP_COUNT(bob), "Who?"), 2);
    run(c, r);
    assert_true(done(filler));
    int n = 0;
    for (int i = 1; i <= (int)SP_COUNT(bob); i++)
        n += sp_request_result(r)->segments[i].n_reused > 0;
    assert_true(sp_ledger_stats_of(c->ledger).n_evicted > 0);
    sp_request_destroy(filler);
    sp_request_destroy(r);
    close_clean(c);
    return n;
}

static void the_queue_is_looked_at(void **state)
{
    assert_int_equal(reused_after_fillers("lru"), 0);
    assert_int_equal(reused_after_fillers("lacr"), SP_COUNT(bob));
}

static sp_err life(void)
{
    sp_context *c = NULL;
    sp_prompt *p = NULL;
    sp_request *r = NULL;
    const sp_context_opts o = {.model = MODEL, .machine.n_threads = 1, .cache.kv_bytes = 4 << 20};
    sp_err err = sp_context_open(&o, &c);
    if (err == SP_OK) err = sp_prompt_create(c, &p);
    if (err == SP_OK) err = sp_prompt_system(p, "Be brief.");
    if (err == SP_OK) err = sp_prompt_tree(p, bob, SP_COUNT(bob));
    if (err == SP_OK) err = sp_prompt_question(p, "What?");
    if (err == SP_OK) err = sp_generate(c, p, NULL, &r);
    sp_request_destroy(r);
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
        cmocka_unit_test(positions_count_depth),
        cmocka_unit_test(trees_may_be_added_one_by_one),
        cmocka_unit_test(nodes_serve_other_questions),
        cmocka_unit_test(nodes_stay_apart_in_a_small_memory),
        cmocka_unit_test(nodes_are_packed_for_long_answers),
        cmocka_unit_test(nodes_stay_apart_without_memory),
        cmocka_unit_test(nodes_are_computed_ahead),
        cmocka_unit_test(trees_are_exact_under_any_policy),
        cmocka_unit_test(the_last_node_does_not_grow),
        cmocka_unit_test(bad_trees_are_refused),
        cmocka_unit_test(an_empty_node_adds_no_segment),
        cmocka_unit_test(a_hub_that_does_not_fit_is_refused),
        cmocka_unit_test(the_queue_is_looked_at),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
