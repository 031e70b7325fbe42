/* test_scored.c -- the probability of given tokens after a prompt; and requests in the background. */
#include <math.h>

#include "support/requests.h"

/* -- scores ---------------------------------------------------------------------------------- */

typedef struct wanted {
    const int32_t *ids;
    int n_prompt;
    double sum;
} wanted;

static sp_err add_wanted(int position, const float *logits, int n_vocab, void *user)
{
    wanted *w = user;
    double total = 0;
    for (int i = 0; i < n_vocab; i++) total += exp((double)logits[i]);
    w->sum += (double)logits[w->ids[position + 1 - w->n_prompt]] - log(total);
    return SP_OK;
}

/* want -- the tokens are prescribed as an answer, and computed one by one. */
static double want(sp_context *c, const char *order, const int32_t *ids, int n)
{
    sp_prompt *p = prompt_of(c, order, "Write.");
    wanted w = {.ids = ids, .n_prompt = sp_prompt_n_tokens(p)};
    const sp_measure m = {.forced = ids, .n_forced = n, .on_logits = add_wanted, .user = &w};
    sp_request *r;
    assert_ok(sp_measure_submit(c, p, &(sp_request_opts){.max_tokens = n, .ignore_end = true}, &m, &r));
    sp_request_destroy(run(c, r));
    sp_prompt_destroy(p);
    return w.sum;
}

static sp_request *submit_scored(sp_context *c, const char *order, const int32_t *ids, int n)
{
    sp_prompt *p = prompt_of(c, order, "Write.");
    sp_request *r;
    assert_ok(sp_request_submit(c, p, &(sp_request_opts){.scored = ids, .n_scored = n, .background = true}, &r));
    sp_prompt_destroy(p);
    return r;
}

static void fill(int32_t *ids, int n)
{
    for (int i = 0; i < n; i++) ids[i] = 3 + i * 7 % 90;
}

static void the_score_is_that_of_a_prescribed_answer(void **state)
{
    static const int lengths[] = {1, 2, 17, 33, 70};
    int32_t ids[70];
    fill(ids, 70);
    for (int batch = 7; batch < 100; batch += 60) {
        sp_context *c = open_with((sp_context_opts){.n_batch = batch});
        for (size_t i = 0; i < SP_COUNT(lengths); i++)
            for (int again = 0; again < 2; again++) {
                sp_request *r = run(c, submit_scored(c, "02", ids, lengths[i]));
                assert_ptr_equal(c->step.slices[0].logits, c->step.logits); /* each step has all of the rows */
                assert_true(c->step.n_logits >= 1 && c->step.n_logits <= SP_SCORED_ROWS);
                const sp_result *res = sp_request_result(r);
                assert_int_equal(res->finish, SP_FINISH_LENGTH);
                assert_int_equal(res->n_generated, 0);
                assert_true(fabs(res->logprob - want(c, "02", ids, lengths[i])) < 1e-4);
                assert_true(!again || res->n_reused > res->n_prompt / 2);
                sp_request_destroy(r);
            }
        close_clean(c);
    }
}

static void many_at_once_have_their_own_scores(void **state)
{
    int32_t ids[70];
    fill(ids, 70);
    sp_context *c = open_with((sp_context_opts){.n_batch = 64, .max_requests = 8});
    static const char *const orders[] = {"0", "1", "2", "01", "12", "20"};
    double alone[6];
    sp_request *r[6];
    for (int i = 0; i < 6; i++) {
        r[i] = run(c, submit_scored(c, orders[i], ids + i, 40 + i));
        alone[i] = sp_request_result(r[i])->logprob;
        sp_request_destroy(r[i]);
    }
    assert_true(fabs(alone[0] - alone[1]) > 1e-3);
    sp_context_forget(c);
    for (int i = 0; i < 6; i++) r[i] = submit_scored(c, orders[i], ids + i, 40 + i);
    sp_request *talk = submit(c, "012", "Who?", 30);
    for (int i = 0; i < 6; i++) {
        r[i] = run(c, r[i]);
        assert_true(fabs(sp_request_result(r[i])->logprob - alone[i]) < 1e-4);
        sp_request_destroy(r[i]);
    }
    sp_request_destroy(run(c, talk));
    close_clean(c);
}

static void bad_tokens_are_named(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    sp_prompt *p = prompt_of(c, "0", "Write.");
    sp_request *r;
    const int32_t bad[] = {5, -1}, ids[2] = {5, 6};
    assert_int_equal(sp_request_submit(c, p, &(sp_request_opts){.scored = bad, .n_scored = 2}, &r), SP_E_ARG);
    assert_non_null(strstr(sp_error_detail(), "token 1"));
    assert_int_equal(sp_request_submit(c, p, &(sp_request_opts){.n_scored = 2}, &r), SP_E_ARG);
    assert_int_equal(sp_request_submit(c, p, &(sp_request_opts){.scored = ids, .n_scored = 1 << 20}, &r),
                     SP_E_CONTEXT);
    sp_prompt_destroy(p);
    close_clean(c);
}

static sp_err look_at_none(int position, const float *logits, int n_vocab, void *user)
{
    *(int *)user += position >= 0 && logits && n_vocab > 0;
    return SP_OK;
}

static void a_text_may_fill_the_context(void **state)
{
    enum { N = 64 };
    int32_t ids[N + 1];
    int n_rows = 0;
    fill(ids, N + 1);
    sp_context *c = open_with((sp_context_opts){.n_ctx = N});
    assert_ok(sp_tokens_score(c, ids, N, 0, look_at_none, &n_rows));
    assert_int_equal(n_rows, N);
    assert_fails(sp_tokens_score(c, ids, N + 1, 0, look_at_none, &n_rows), SP_E_CONTEXT, "65 tokens");
    close_clean(c);
}

/* -- the background ---------------------------------------------------------------------------- */

/* steps_until -- how many steps a request takes while others run. */
static int steps_until(sp_context *c, const sp_request *r)
{
    bool busy = true;
    int n = 0;
    while (busy && sp_request_result(r)->finish == SP_FINISH_NONE) {
        assert_ok(sp_context_step(c, &busy));
        n++;
    }
    return n;
}

static void who_comes_later_in_the_foreground_is_first(void **state)
{
    int32_t ids[70];
    fill(ids, 70);
    sp_context *c = open_with((sp_context_opts){.n_batch = 32, .max_requests = 2});
    sp_request *back[3];
    for (int i = 0; i < 3; i++) back[i] = submit_scored(c, "0123", ids + i, 60);
    sp_request *front = submit(c, "21", "Who?", 12);
    assert_true(steps_until(c, front) < 12 + 8); /* its prompt takes a few */
    int left = 0;
    for (int i = 0; i < 3; i++) left += sp_request_result(back[i])->finish == SP_FINISH_NONE;
    assert_true(left >= 2);
    for (int i = 0; i < 3; i++) sp_request_destroy(run(c, back[i]));
    sp_request_destroy(front);
    close_clean(c);
}

/* Who comes next finds places. */
static void at_most_a_quarter_of_the_places_is_in_the_background(void **state)
{
    int32_t ids[70];
    fill(ids, 70);
    sp_context *c = open_with((sp_context_opts){.n_batch = 512, .max_requests = 8});
    sp_request *back[6];
    int most = 0;
    for (int i = 0; i < 6; i++) back[i] = submit_scored(c, "0123", ids + i, 60);
    for (bool busy = true; busy; most = SP_MAX(most, c->n_running)) assert_ok(sp_context_step(c, &busy));
    assert_int_equal(most, 2);
    for (int i = 0; i < 6; i++) sp_request_destroy(back[i]);
    close_clean(c);
}

static void an_answer_in_the_background_is_the_same(void **state)
{
    sp_context *c = open_with((sp_context_opts){.n_batch = 32, .max_requests = 4});
    sp_request *want = run(c, submit(c, "01", "Who?", 20));
    sp_context_forget(c);
    sp_request_opts o = {.sampling = sp_sampling_default(), .max_tokens = 20, .ignore_end = true, .background = true};
    o.sampling.temperature = 1;
    o.sampling.seed = 7;
    sp_prompt *p = prompt_of(c, "01", "Who?");
    sp_request *r, *other = submit(c, "2", "What?", 10);
    assert_ok(sp_request_submit(c, p, &o, &r));
    sp_prompt_destroy(p);
    r = run(c, r);
    assert_string_equal(sp_request_result(r)->text, sp_request_result(want)->text);
    sp_request_destroy(run(c, other));
    sp_request_destroy(r);
    sp_request_destroy(want);
    assert_int_equal(sp_context_n_decoding(c), 0);
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_score_is_that_of_a_prescribed_answer),
        cmocka_unit_test(many_at_once_have_their_own_scores),
        cmocka_unit_test(bad_tokens_are_named),
        cmocka_unit_test(a_text_may_fill_the_context),
        cmocka_unit_test(who_comes_later_in_the_foreground_is_first),
        cmocka_unit_test(at_most_a_quarter_of_the_places_is_in_the_background),
        cmocka_unit_test(an_answer_in_the_background_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
