/* test_inplace.c -- the policy inplace: what no copy serves is computed in the prompt, and its copies know what
 * preceded them. */
#include "serve/check/measure.h"
#include "support/requests.h"

static const policy off = {"off", 0}, inplace = {"inplace", 0.25f};

static void a_first_prompt_is_answered_exactly(void **state)
{
    SP_UNUSED(state);
    sp_context *c = open_policy(&inplace);
    sp_request *r = ask(c, "012", "Where are the hotels?", 24);
    const sp_result *res = sp_request_result(r);
    assert_int_equal(res->n_computed, res->n_prompt);
    assert_int_equal(res->n_recomputed, 0);
    assert_text(r, alone(&off, "012", "Where are the hotels?", 24));
    sp_request_destroy(r);
    close_clean(c);
}

static void another_order_reuses_all_and_recomputes_a_share(void **state)
{
    SP_UNUSED(state);
    sp_context *c = open_policy(&inplace);
    sp_request *cold = ask(c, "012", "When?", 4), *warm = ask(c, "201", "When?", 4);
    const sp_result *b = sp_request_result(warm);
    int n_chunks = 0;
    for (int s = 1; s < 4; s++) n_chunks += b->segments[s].n_tokens;
    assert_int_equal(b->n_recomputed, (n_chunks + 3) / 4);
    assert_int_equal(b->n_computed, b->n_recomputed + b->segments[4].n_tokens);
    sp_request_destroy(cold);
    sp_request_destroy(warm);
    close_clean(c);
}

static void the_same_prompt_again_is_exact_too(void **state)
{
    SP_UNUSED(state);
    sp_context *c = open_policy(&inplace);
    sp_request *first = ask(c, "0123", "When?", 4), *again = ask(c, "012", "Where are the hotels?", 24);
    assert_int_equal(sp_request_result(again)->n_recomputed, 0);
    assert_int_equal(sp_request_result(again)->n_computed, sp_request_result(again)->segments[4].n_tokens);
    assert_text(again, alone(&off, "012", "Where are the hotels?", 24));
    sp_request_destroy(first);
    sp_request_destroy(again);
    close_clean(c);
}

/* What this very prompt has computed is right already. */
static void only_served_chunks_are_recomputed(void **state)
{
    SP_UNUSED(state);
    sp_context *c = open_policy(&inplace);
    sp_request *cold = ask(c, "01", "When?", 4), *warm = ask(c, "120", "When?", 4);
    const sp_result *b = sp_request_result(warm);
    const int n_served = b->segments[1].n_tokens + b->segments[3].n_tokens;
    assert_int_equal(b->segments[2].n_recomputed, 0);
    assert_int_equal(b->segments[2].n_reused, 0);
    assert_int_equal(b->n_recomputed, (n_served + 3) / 4);
    sp_request_destroy(cold);
    sp_request_destroy(warm);
    close_clean(c);
}

/* n_before -- segments that the copy of the prompt's chunk i was computed after. */
static int n_before(sp_context *c, const char *order, int i)
{
    sp_prompt *p = prompt_of(c, order, "When?");
    const sp_content_query q = {.seg = &p->segs.v[i], .head = &p->segs.v[0].id, .n_head = 1};
    const sp_copy *copy = sp_by_content_peek(c->ledger, &q, SP_COPY_FUSED);
    const int n = copy ? copy->facts.n_before : -1;
    if (copy) assert_true(sp_digest_eq(&copy->facts.before[n - 1], &p->segs.v[i - 1].id));
    sp_prompt_destroy(p);
    return n;
}

/* ask_holding -- its last plan can be looked at. */
static sp_request *ask_holding(sp_context *c, const char *order)
{
    sp_prompt *p = prompt_of(c, order, "When?");
    sp_request *r;
    assert_ok(sp_measure_submit(c, p, &(sp_request_opts){.sampling = sp_sampling_default(), .max_tokens = 2},
                                &(sp_measure){.keep_kv = true}, &r));
    sp_prompt_destroy(p);
    return run(c, r);
}

static void a_copy_knows_what_preceded_it(void **state)
{
    SP_UNUSED(state);
    const policy one = {"inplace:prior=1", 0.25f};
    for (int k = 0; k < 2; k++) {
        sp_context *c = open_policy(k ? &one : &inplace);
        sp_request *r = ask_holding(c, "012");
        for (int s = 1; s < 4; s++) assert_null(r->plans.now.spans[s].stale); /* nothing is recomputed */
        assert_int_equal(n_before(c, "012", 1), -1); /* after the head alone: a plain copy */
        assert_int_equal(n_before(c, "012", 2), 2);
        assert_int_equal(n_before(c, "012", 3), k ? 2 : 3);
        sp_request_destroy(r);
        close_clean(c);
    }
}

/* The second time it sees the first. */
static void of_a_chunk_that_repeats_the_first_is_kept(void **state)
{
    SP_UNUSED(state);
    sp_context *c = open_policy(&inplace);
    sp_request *r = ask(c, "010", "When?", 2);
    assert_int_equal(n_before(c, "01", 2), 2);
    assert_int_equal(n_before(c, "010", 3), -1);
    sp_request_destroy(r);
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_first_prompt_is_answered_exactly),
        cmocka_unit_test(another_order_reuses_all_and_recomputes_a_share),
        cmocka_unit_test(the_same_prompt_again_is_exact_too),
        cmocka_unit_test(only_served_chunks_are_recomputed),
        cmocka_unit_test(a_copy_knows_what_preceded_it),
        cmocka_unit_test(of_a_chunk_that_repeats_the_first_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
