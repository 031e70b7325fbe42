/* test_set_requests.c -- requests that reuse chunks which were read together before, in any order.
 */
#include <stdio.h>

#include "support/requests.h"

static const policy set = {"set", 0}, prefix = {"prefix", 0}, off = {"off", 0};

static int64_t n_nodes(const sp_context *c)
{
    return count_copies(c).n_path;
}

/* ask_as -- under another policy than the context's. */
static sp_request *ask_as(sp_context *c, const policy *p, const char *order, int max_tokens)
{
    const sp_reuse_opts reuse = {.policy = p->name, .recompute = p->recompute};
    sp_request_opts o = {.reuse = &reuse,
                         .sampling = sp_sampling_default(),
                         .max_tokens = max_tokens,
                         .ignore_end = true};
    o.sampling.temperature = 1;
    o.sampling.seed = 7;
    sp_prompt *prompt = prompt_of(c, order, "Where?");
    sp_request *r;
    assert_ok(sp_request_submit(c, prompt, &o, &r));
    sp_prompt_destroy(prompt);
    run(c, r);
    assert_int_equal(sp_request_result(r)->finish, SP_FINISH_LENGTH);
    assert_adds_up(sp_request_result(r));
    return r;
}

/* assert_reuses -- the head and the chunks marked in `which` (1: all of it), nothing else. */
static void assert_reuses(const sp_request *r, const char *which)
{
    const sp_result *got = sp_request_result(r);
    assert_int_equal(got->n_segments, strlen(which) + 2);
    assert_int_equal(got->segments[0].n_reused, got->segments[0].n_tokens);
    for (int i = 0; which[i]; i++)
        assert_int_equal(got->segments[i + 1].n_reused,
                         which[i] == '1' ? got->segments[i + 1].n_tokens : 0);
    assert_int_equal(got->segments[got->n_segments - 1].n_reused, 0);
    assert_int_equal(got->n_recomputed, 0);
}

/* The same order is the prefix: same tokens reused, same text, and the tree grows. */
static void the_same_order_is_exact(void **state)
{
    static const char *const orders[] = {"012", "012", "0123", "01", "3"};
    sp_context *c = open_policy(&set), *plain = open_policy(&prefix);
    for (size_t i = 0; i < SP_COUNT(orders); i++) {
        sp_request *r = ask(c, orders[i], "Where?", 20), *p = ask(plain, orders[i], "Where?", 20);
        assert_same_text(r, p);
        assert_text(r, alone(&off, orders[i], "Where?", 20));
        assert_int_equal(n_nodes(c), n_nodes(plain));
        for (int s = 0; s + 1 < sp_request_result(r)->n_segments; s++)
            assert_int_equal(sp_request_result(r)->segments[s].n_reused,
                             sp_request_result(p)->segments[s].n_reused);
        sp_request_destroy(r);
        sp_request_destroy(p);
    }
    close_clean(c);
    close_clean(plain);
}

static void any_order_of_a_known_set_is_reused(void **state)
{
    static const struct {
        const char *order, *reused;
    } cases[] = {{"210", "111"},   {"021", "111"}, {"20", "01"},  {"12", "00"},
                 {"3102", "0111"}, {"1", "0"},     {"100", "110"}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_context *c = open_policy(&set);
        sp_request *first = ask(c, "012", "Where?", 4), *r = ask(c, cases[i].order, "Where?", 4);
        assert_adds_up(sp_request_result(r));
        assert_reuses(r, cases[i].reused);
        sp_request_destroy(first);
        sp_request_destroy(r);
        close_clean(c);
    }
}

/* Keys and values of another order are an approximation: the tree does not take what was computed
 * behind them, neither the rest of the prompt nor the answer. */
static void nothing_approximate_is_kept(void **state)
{
    static const char *const orders[] = {"210", "2103", "021"};
    sp_context *c = open_policy(&set);
    sp_request *first = ask(c, "012", "Where?", 40);
    int64_t before = n_nodes(c);
    for (size_t i = 0; i < SP_COUNT(orders); i++) {
        sp_request *r = ask(c, orders[i], "Where?", 40);
        assert_int_equal(n_nodes(c), before);
        sp_request_destroy(r);
    }
    for (size_t i = 0; i < SP_COUNT(orders); i++) { /* and whoever asks for what is exact gets it */
        sp_request *r = ask_as(c, &prefix, orders[i], 20);
        assert_text(r, alone(&off, orders[i], "Where?", 20));
        sp_request_destroy(r);
    }
    sp_request_destroy(first);
    close_clean(c);
}

/* The question is known behind the other order, and so would the answer be. */
static void a_known_question_after_another_order_is_computed(void **state)
{
    sp_context *c = open_policy(&set);
    sp_request *exact = ask(c, "10", "Where?", 0); /* no answer, but the whole prompt */
    int64_t before = n_nodes(c);
    sp_request *r = ask(c, "01", "Where?", 40);
    assert_reuses(r, "11");
    assert_int_equal(n_nodes(c), before);
    sp_request_destroy(exact);
    sp_request_destroy(r);
    close_clean(c);
}

static void no_chunks_is_prefix(void **state)
{
    sp_context *c = open_policy(&set);
    sp_request *r = ask(c, "", "How are you?", 20), *again = ask(c, "", "How are you?", 20);
    assert_same_text(r, again);
    assert_in_range(sp_request_result(again)->n_computed, 1, 16);
    sp_request_destroy(r);
    sp_request_destroy(again);
    close_clean(c);
}

static void requests_together_may_be_canceled(void **state)
{
    static const char *const orders[] = {"012", "210", "12", "0", "201", "33"};
    enum { N = SP_COUNT(orders) };
    sp_context *c = open_policy(&set);
    sp_request *r[N];
    sp_request_destroy(ask(c, "012", "Where?", 2));
    for (int k = 0; k < N; k++) r[k] = submit(c, orders[k], "Where?", 8);
    for (int i = 0; i < 3; i++) step(c);
    sp_request_cancel(r[1]);
    for (int k = 0; k < N; k++) run(c, r[k]);
    for (int k = 0; k < N; k++) {
        assert_int_equal(sp_request_result(r[k])->finish,
                         k == 1 ? SP_FINISH_CANCELED : SP_FINISH_LENGTH);
        sp_request_destroy(r[k]);
    }
    close_clean(c);
}

static sp_err life(void)
{
    return life_of(&set, (const char *const[]){"01", "10", NULL});
}

static void every_allocation_may_fail(void **state)
{
    survive_every_fault(life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_order_is_exact),
        cmocka_unit_test(any_order_of_a_known_set_is_reused),
        cmocka_unit_test(nothing_approximate_is_kept),
        cmocka_unit_test(a_known_question_after_another_order_is_computed),
        cmocka_unit_test(no_chunks_is_prefix),
        cmocka_unit_test(requests_together_may_be_canceled),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
