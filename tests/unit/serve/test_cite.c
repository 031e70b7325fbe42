/* test_cite.c -- what an answer looks at, by segment: a share of all attention, which changes no answer. */
#include <math.h>

#include "support/requests.h"

static sp_request *submit_cited(sp_context *c, const char *order, int n, bool citations)
{
    sp_request_opts o = {
        .sampling = sp_sampling_default(), .max_tokens = n, .ignore_end = true, .citations = citations};
    o.sampling.temperature = 1;
    o.sampling.seed = 7;
    sp_prompt *p = prompt_of(c, order, "Who?");
    sp_request *r;
    assert_ok(sp_request_submit(c, p, &o, &r));
    sp_prompt_destroy(p);
    return run(c, r);
}

/* row_sum -- of a token: what its answer so far does not get. */
static double row_sum(const sp_result *res, int t)
{
    double sum = 0;
    for (int s = 0; s < res->n_segments; s++) {
        const float x = res->looks[t * res->n_segments + s];
        assert_true(x >= 0 && x <= 1);
        sum += (double)x;
    }
    return sum;
}

static const policy policies[] = {{"prefix", 0}, {"full", 0}, {"fusion", 0.5f}, {"craft", 0.5f}, {"inplace", 0.5f}};

static void looks_are_shares_and_change_no_exact_answer(void **state)
{
    for (size_t i = 0; i < SP_COUNT(policies); i++) {
        sp_context *c = open_policy(&policies[i]);
        for (int again = 0; again < 3; again++) {
            const char *order = again < 2 ? "012" : "210";
            sp_request *want = submit_cited(c, order, 12, false), *r = submit_cited(c, order, 12, true);
            const sp_result *res = sp_request_result(r);
            if (again == 1 && policies[i].recompute == 0) /* else sums have another order */
                assert_string_equal(res->text, sp_request_result(want)->text);
            assert_null(sp_request_result(want)->looks);
            assert_int_equal(res->n_looks, 11); /* the last is computed for nobody */
            assert_int_equal(res->looks_before != NULL, strcmp(policies[i].name, "craft") != 0); /* it has a gate */
            double before = 0, asking = 0;
            for (int s = 0; res->looks_before && s < res->n_segments; s++) {
                assert_true(res->looks_before[s] >= 0 && res->looks_before[s] <= 1);
                assert_true(res->looks_asking[s] >= 0 && res->looks_asking[s] <= 1);
                before += (double)res->looks_before[s];
                asking += (double)res->looks_asking[s];
            }
            if (res->looks_before) assert_true(fabs(before - 1) < 1e-3 && fabs(asking - 1) < 1e-3);
            for (int t = 0; t < res->n_looks; t++) {
                const double sum = row_sum(res, t);
                assert_true(sum > 0.2 && sum < 1); /* the rest is the answer itself */
                assert_true(res->text_at[t] <= res->text_at[t + 1]);
            }
            sp_request_destroy(r);
            sp_request_destroy(want);
        }
        close_clean(c);
    }
}

/* Where the tokens of an answer begin in its text. */
typedef struct begins {
    const sp_request *r; /* NULL until it is known */
    int at[16], n;
} begins;

static void note_begin(const sp_token_logprob *v, int n, void *user)
{
    begins *b = user;
    SP_UNUSED(v);
    SP_UNUSED(n);
    b->at[b->n++] = (int)b->r->answer.text.n;
}

static void rows_say_where_their_tokens_begin(void **state)
{
    enum { N = 12 };
    begins b = {0};
    sp_request *r;
    sp_request_opts o = sampled(N);
    o.citations = true;
    o.on_token = note_begin;
    o.user = &b;
    sp_context *c = open_policy(&policies[0]);
    sp_prompt *p = prompt_of(c, "01", "Who?");
    assert_ok(sp_request_submit(c, p, &o, &r));
    sp_prompt_destroy(p);
    b.r = r;
    run(c, r);
    const sp_result *res = sp_request_result(r);
    assert_int_equal(b.n, N);
    assert_true(b.at[N - 1] > N); /* some have several bytes */
    for (int t = 0; t < N; t++) assert_int_equal(res->text_at[t], b.at[t]);
    sp_request_destroy(r);
    close_clean(c);
}

/* The same rows, computed by the attention of a plan in which nothing is cached. */
static void cached_and_computed_prompts_have_equal_looks(void **state)
{
    sp_context *c = open_with((sp_context_opts){.n_batch = 40});
    sp_request *cold = submit_cited(c, "0123", 10, true), *warm = submit_cited(c, "0123", 10, true);
    const sp_result *a = sp_request_result(cold), *b = sp_request_result(warm);
    assert_true(b->n_reused > a->n_reused);
    assert_int_equal(a->n_looks, b->n_looks);
    for (int i = 0; i < a->n_segments; i++) assert_true(fabsf(a->looks_before[i] - b->looks_before[i]) < 1e-6f);
    for (int i = 0; i < a->n_looks * a->n_segments; i++) assert_true(fabsf(a->looks[i] - b->looks[i]) < 1e-6f);
    sp_request_destroy(cold);
    sp_request_destroy(warm);
    close_clean(c);
}

/* Chunks in another order, with all of their tokens recomputed: each look goes to the chunk that the token is of. */
static void recomputed_tokens_belong_to_their_chunks(void **state)
{
    static const policy all[] = {{"fusion", 1}, {"craft", 1}, {"inplace", 1}};
    static const policy plain = {"prefix", 0};
    sp_context *cold = open_policy(&plain);
    sp_request *want = submit_cited(cold, "210", 3, true);
    const sp_result *a = sp_request_result(want);
    for (size_t i = 0; i < SP_COUNT(all); i++) {
        sp_context *c = open_policy(&all[i]);
        sp_request_destroy(submit_cited(c, "012", 3, true));
        sp_request *r = submit_cited(c, "210", 3, true);
        const sp_result *b = sp_request_result(r);
        assert_int_equal(a->n_segments, b->n_segments);
        for (int s = 0; s < a->n_segments; s++)
            if (!(fabsf(a->looks[s] - b->looks[s]) < 0.01f))
                fail_msg("%s: segment %d: %g, not %g", all[i].name, s, (double)b->looks[s], (double)a->looks[s]);
        sp_request_destroy(r);
        close_clean(c);
    }
    sp_request_destroy(want);
    close_clean(cold);
}

static void other_ways_of_decoding_have_none(void **state)
{
    static const char *const decode[] = {"window:64", "sparse:50%,depth=0"};
    sp_context *c = open_with((sp_context_opts){0});
    for (size_t i = 0; i < SP_COUNT(decode); i++) {
        sp_prompt *p = prompt_of(c, "01", "Who?");
        const sp_request_opts o = {.max_tokens = 6, .ignore_end = true, .citations = true, .decode = decode[i]};
        sp_request *r;
        assert_ok(sp_request_submit(c, p, &o, &r));
        sp_prompt_destroy(p);
        r = run(c, r);
        assert_null(sp_request_result(r)->looks);
        sp_request_destroy(r);
    }
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_are_shares_and_change_no_exact_answer),
        cmocka_unit_test(rows_say_where_their_tokens_begin),
        cmocka_unit_test(cached_and_computed_prompts_have_equal_looks),
        cmocka_unit_test(recomputed_tokens_belong_to_their_chunks),
        cmocka_unit_test(other_ways_of_decoding_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
