/* test_guard.c -- the guard samples, checks in idle time, and takes reuse back where it diverges.
 *
 * On a random model Full Reuse diverges by its nature, so a small bound is always left and a huge
 * one never. */
#include <math.h>

#include "serve/check/guard_check.h"
#include "serve/guard/checks.h"
#include "support/check.h"

#include "serve/request/context.h"

#define MODEL "tests/golden/tiny.gguf"

static sp_context *open_guarded(const char *policy, float share, float bound)
{
    sp_context *c = NULL;
    assert_ok(sp_context_open(&(sp_context_opts){.model = MODEL,
                                                 .reuse.policy = policy,
                                                 .guard.share = share,
                                                 .guard.bound = bound,
                                                 .machine.n_threads = 1,
                                                 .cache.kv_bytes = 4 << 20},
                              &c));
    return c;
}

static sp_prompt *prompt_of(sp_context *c, int turn)
{
    static const char *const texts[] = {"Boats leave Velm at nine.", "Torin has two hotels.",
                                        "The Anchor has twelve rooms at the pier."};
    sp_prompt *p;
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_system(p, "Be brief."));
    for (int k = 0; k < 3; k++) assert_ok(sp_prompt_chunk(p, "T", texts[(turn + k) % 3]));
    assert_ok(sp_prompt_question(p, "Where?"));
    return p;
}

/* ask -- one answered question; returns how many prompt tokens were computed for it. */
static int ask(sp_context *c, int turn, const sp_reuse_opts *reuse)
{
    sp_prompt *p = prompt_of(c, turn);
    sp_request *r;
    assert_ok(sp_generate(
        c, p,
        &(sp_request_opts){.sampling = sp_sampling_default(), .max_tokens = 2, .reuse = reuse},
        &r));
    int n = sp_request_result(r)->n_computed;
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    return n;
}

/* idle -- until nothing is left to do, in the background either. */
static void idle(sp_context *c)
{
    bool busy = true;
    for (int steps = 0; busy; steps++) {
        assert_in_range(steps, 0, 1000);
        assert_ok(sp_context_step(c, &busy));
    }
}

static const sp_guard_report *report(const sp_context *c)
{
    int n;
    const sp_guard_report *r = sp_context_guard(c, &n);
    assert_int_equal(n, 1);
    return r;
}

static void the_guard_checks_the_share_it_is_told(void **state)
{
    sp_context *c = open_guarded("full", 0.25f, 1e6f);
    for (int i = 0; i < 16; i++) {
        ask(c, i, NULL);
        idle(c);
    }
    assert_int_equal(report(c)->n_checked, 4);
    assert_string_equal(report(c)->policy, "full");
    assert_true(report(c)->mean_kl > 0);
    assert_in_range(report(c)->n_agreed, 0, 4);
    assert_false(report(c)->fallen_back);
    sp_context_close(c);
}

/* answer -- of 8 tokens; returns how many were decoded sparsely. */
static int answer(sp_context *c, int turn, const char *decode)
{
    sp_prompt *p = prompt_of(c, turn);
    sp_request *r;
    const sp_request_opts o = {
        .sampling = sp_sampling_default(), .max_tokens = 8, .ignore_end = true, .decode = decode};
    assert_ok(sp_generate(c, p, &o, &r));
    int n = sp_request_result(r)->decode.n_sparse;
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    idle(c);
    return n;
}

/* A budget of everything is exact; one of a single block is not, and is taken back. */
static void sparse_decoding_is_checked_and_taken_back(void **state)
{
    static const struct {
        const char *decode;
        bool is_exact;
    } cases[] = {{"sparse:100%,depth=0", true}, {"sparse:1,depth=0", false}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_context *c = NULL;
        assert_ok(sp_context_open(&(sp_context_opts){.model = MODEL,
                                                     .reuse.policy = "prefix",
                                                     .guard.share = 1,
                                                     .guard.bound = 1e-12f,
                                                     .machine.n_threads = 1,
                                                     .cache.kv_bytes = 4 << 20,
                                                     .decode.how = cases[i].decode},
                                  &c));
        for (int k = 0; k < 8; k++) assert_int_equal(answer(c, k, NULL), 7);
        const sp_guard_report *r = report(c);
        assert_string_equal(r->policy, "sparse");
        assert_int_equal(r->n_checked, 8);
        assert_true(r->fallen_back == !cases[i].is_exact);
        assert_int_equal(answer(c, 0, NULL), cases[i].is_exact ? 7 : 0);
        assert_int_equal(answer(c, 0, cases[i].decode), 7); /* who asks for it gets it */
        if (cases[i].is_exact) assert_true(r->mean_kl == 0 && r->n_agreed == r->n_checked);
        sp_context_close(c);
    }
}

/* Below its depth an answer reads all keys, as without sparse decoding. */
static void what_was_not_decoded_sparsely_is_not_checked(void **state)
{
    int n = 0;
    sp_context *c = NULL;
    assert_ok(sp_context_open(&(sp_context_opts){.model = MODEL,
                                                 .reuse.policy = "prefix",
                                                 .guard = {.share = 1, .bound = 1},
                                                 .machine.n_threads = 1,
                                                 .cache.kv_bytes = 4 << 20,
                                                 .decode.how = "sparse:1,depth=4096"},
                              &c));
    for (int k = 0; k < 4; k++) assert_int_equal(answer(c, k, NULL), 0);
    const sp_guard_report *r = sp_context_guard(c, &n);
    for (int i = 0; i < n; i++) assert_int_equal(r[i].n_checked, 0);
    sp_context_close(c);
}

/* What could not be checked in time is left out, not piled up. */
static void checks_wait_for_idle_time(void **state)
{
    int n;
    sp_context *c = open_guarded("full", 1, 1e6f);
    for (int i = 0; i < 16; i++) ask(c, i, NULL); /* sp_generate stops with its request */
    sp_context_guard(c, &n);
    assert_int_equal(n, 0);
    idle(c);
    assert_in_range(report(c)->n_checked, 1, 8);
    sp_context_close(c);
}

/* A driver that hears that nothing is left to do sleeps, and the check with it. */
static void a_context_with_a_waiting_check_is_busy(void **state)
{
    sp_context *c = open_guarded("full", 1, 1e6f);
    assert_false(sp_guard_busy(c));
    ask(c, 0, NULL);
    assert_null(c->guard->check);
    assert_int_equal(c->guard->n_waiting, 1);
    assert_true(sp_guard_busy(c));
    idle(c);
    assert_false(sp_guard_busy(c));
    sp_context_close(c);
}

static void exact_reuse_is_not_checked(void **state)
{
    int n;
    sp_context *c = open_guarded("prefix", 1, 1e-9f);
    const sp_reuse_opts own = {.policy = "full"};
    for (int i = 0; i < 4; i++) {
        ask(c, i, NULL);
        ask(c, i, &own); /* who names a policy gets it unwatched */
        idle(c);
    }
    sp_context_guard(c, &n);
    assert_int_equal(n, 0);
    sp_context_close(c);
}

/* A policy that selects is given more, step by step; then prefixes remain. */
static void diverging_reuse_is_taken_back(void **state)
{
    static const float steps[] = {0, 0.15f, 0.3f, 0.5f};
    sp_context *c = open_guarded("random", 1, 1e-12f);
    int asked = 0;
    for (int s = 0; s < 4; s++) {
        for (int i = 0; i < 8; i++, asked++) {
            ask(c, asked, NULL);
            if (asked) assert_true(report(c)->recompute == steps[s]);
            idle(c);
        }
        assert_int_equal(report(c)->n_raised, s < 3 ? s + 1 : 3);
    }
    assert_true(report(c)->fallen_back);
    assert_int_equal(report(c)->n_checked, 32);
    ask(c, 0, NULL);
    idle(c);
    assert_int_equal(report(c)->n_checked, 32); /* prefixes are exact */
    assert_in_range(ask(c, 0, NULL), 1, 16);    /* and known the second time */
    assert_true(ask(c, 0, &(sp_reuse_opts){.policy = "off"}) > 16);
    sp_context_close(c);
}

static void a_policy_that_cannot_select_falls_at_once(void **state)
{
    sp_context *c = open_guarded("full", 1, 1e-12f);
    for (int i = 0; i < 8; i++) {
        assert_true(i == 0 || !report(c)->fallen_back);
        ask(c, i, NULL);
        idle(c);
    }
    assert_true(report(c)->fallen_back);
    assert_int_equal(report(c)->n_raised, 0);
    sp_context_close(c);
}

static void a_context_closes_with_a_check_under_way(void **state)
{
    bool busy;
    sp_context *c = open_guarded("full", 1, 1);
    for (int i = 0; i < 3; i++) ask(c, i, NULL);
    assert_ok(sp_context_step(c, &busy)); /* begins one: fill, then the answer */
    assert_true(busy);
    sp_context_close(c);
}

static void bad_settings_are_refused(void **state)
{
    static const float shares[] = {-0.5f, 1.5f};
    for (size_t i = 0; i < SP_COUNT(shares); i++) {
        sp_context *c = NULL;
        assert_fails(
            sp_context_open(&(sp_context_opts){.model = MODEL, .guard.share = shares[i]}, &c),
            SP_E_ARG, "guard");
        assert_null(c);
    }
}

/* Of tokens that are decoded sparsely the first four are noted, each with the token before it. */
static void four_sparse_tokens_are_noted(void **state)
{
    const int32_t ids[] = {1, 2, 3};
    const sp_segment seg = {.kind = SP_SEG_TEXT, .tokens = ids, .n = 3};
    const float logits[2] = {0, 1};
    const sp_guarded of = {.segs = &seg, .n_segs = 1, .n_tokens = 3, .n_vocab = 2};
    sp_guard *g;
    assert_ok(sp_guard_create(1, 0.5f, &g));
    sp_guard_noted *n = sp_guard_begin_sparse(g, &of);
    assert_non_null(n);
    for (int i = 0; i < SP_GUARD_ROWS; i++) assert_true(sp_guard_add_sparse(n, 10 + i, logits, 2));
    assert_false(sp_guard_add_sparse(n, 99, logits, 2));
    assert_int_equal(n->n_rows, 4);
    for (int i = 0; i < SP_GUARD_ROWS; i++) assert_int_equal(n->tokens[i], 10 + i);
    sp_guard_destroy(g);
}

/* -- without a model ------------------------------------------------------------------------ */

static const int32_t three[] = {1, 2, 3};
static const sp_segment one_seg = {.kind = SP_SEG_TEXT, .tokens = three, .n = 3};
static const float even[2] = {0, 0}, first[2] = {1, 0}, second[2] = {0, 1};

#define KL_EVEN_FIRST 0.12011 /* KL of (1/2, 1/2) and (e, 1) / (e + 1), nats */

static sp_guarded guarded_by(const char *policy)
{
    sp_guarded of = {.segs = &one_seg, .n_segs = 1, .n_tokens = 3, .n_vocab = 2};
    if (policy) assert_ok(sp_reuse_policy_find(policy, &of.policy, NULL));
    return of;
}

/* take -- the oldest note is what is checked, as serve/check does. */
static void take(sp_guard *g)
{
    assert_true(g->n_waiting > 0);
    g->now = g->waiting[0];
    memmove(g->waiting, g->waiting + 1, (size_t)--g->n_waiting * sizeof *g->waiting);
    g->n_seen = 0;
}

static void give_back(sp_guard *g)
{
    sp_guard_free_noted(g->now);
    g->now = NULL;
}

/* check_first -- n answers whose first token had the logits `noted` under reuse, and `full` without. */
static void check_first(sp_guard *g, const char *policy, const float *noted, const float *full, int n)
{
    const sp_guarded of = guarded_by(policy);
    for (int i = 0; i < n; i++) {
        sp_guard_note(g, &of, noted);
        take(g);
        sp_guard_judge(g, full, 2);
        give_back(g);
    }
}

static void the_bound_is_of_the_mean_divergence(void **state)
{
    for (int above = 0; above < 2; above++) {
        sp_guard *g;
        int n;
        assert_ok(sp_guard_create(1, (float)KL_EVEN_FIRST + (above ? 0.001f : -0.001f), &g));
        check_first(g, "fusion", first, even, 7);
        assert_int_equal(sp_guard_reports(g, &n)->n_raised, 0);
        assert_true(fabs(sp_guard_reports(g, &n)->mean_kl - KL_EVEN_FIRST) < 1e-4);
        check_first(g, "fusion", first, even, 1);
        assert_int_equal(n, 1);
        assert_int_equal(sp_guard_reports(g, &n)->n_raised, !above);
        sp_guard_destroy(g);
    }
}

static void answers_agree_if_their_best_token_is_the_same(void **state)
{
    sp_guard *g;
    assert_ok(sp_guard_create(1, 9, &g));
    check_first(g, "fusion", first, second, 3);
    check_first(g, "fusion", first, first, 2);
    assert_int_equal(sp_guard_reports(g, NULL)->n_checked, 5);
    assert_int_equal(sp_guard_reports(g, NULL)->n_agreed, 2);
    sp_guard_destroy(g);
}

/* A request never recomputes less than it asked for; a parameter that stands for a share does not count then. */
static void steering_only_raises(void **state)
{
    sp_guard *g;
    sp_reuse_choice c = {.recompute = 0.05f, .params = {7, 3}};
    assert_ok(sp_guard_create(1, 0.01f, &g));
    assert_ok(sp_reuse_policy_find("craft", &c.policy, NULL));
    const sp_reuse_choice asked = c;
    assert_true(c.policy->params[0].replaces_share && !c.policy->params[1].replaces_share);
    sp_guard_steer(g, &c);
    assert_true(c.recompute == 0.05f && c.params[0] == 7);
    check_first(g, "craft", first, even, 8);
    sp_guard_steer(g, &c);
    assert_true(c.recompute == 0.15f && c.params[0] == 0 && c.params[1] == 3 && c.policy == asked.policy);
    c = asked;
    c.recompute = 0.4f;
    sp_guard_steer(g, &c);
    assert_true(c.recompute == 0.4f);
    sp_guard_destroy(g);
}

/* The first token is never decoded sparsely, and the others count as their mean. */
static void sparse_answers_count_as_the_mean_of_their_tokens(void **state)
{
    sp_guard *g;
    const sp_guarded of = guarded_by(NULL);
    assert_ok(sp_guard_create(1, 9, &g));
    sp_guard_noted *n = sp_guard_begin_sparse(g, &of);
    assert_non_null(n);
    for (int i = 0; i < SP_GUARD_ROWS; i++) assert_true(sp_guard_add_sparse(n, 10 + i, first, 2));
    take(g);
    for (int i = 0; i <= SP_GUARD_ROWS; i++) sp_guard_judge(g, i == 0 ? second : i == 2 ? first : even, 2);
    give_back(g);
    assert_true(fabs(sp_guard_reports(g, NULL)->mean_kl - KL_EVEN_FIRST * 3 / 4) < 1e-4);
    sp_guard_destroy(g);
}

static void so_many_answers_wait_for_a_check(void **state)
{
    sp_guard *g;
    const sp_guarded of = guarded_by("full");
    assert_ok(sp_guard_create(1, 9, &g));
    for (int i = 1; i <= SP_GUARD_WAITING + 2; i++) {
        sp_guard_note(g, &of, first);
        assert_int_equal(g->n_waiting, SP_MIN(i, SP_GUARD_WAITING));
    }
    sp_guard_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_guard_checks_the_share_it_is_told),
        cmocka_unit_test(sparse_decoding_is_checked_and_taken_back),
        cmocka_unit_test(four_sparse_tokens_are_noted),
        cmocka_unit_test(what_was_not_decoded_sparsely_is_not_checked),
        cmocka_unit_test(checks_wait_for_idle_time),
        cmocka_unit_test(a_context_with_a_waiting_check_is_busy),
        cmocka_unit_test(exact_reuse_is_not_checked),
        cmocka_unit_test(diverging_reuse_is_taken_back),
        cmocka_unit_test(a_policy_that_cannot_select_falls_at_once),
        cmocka_unit_test(a_context_closes_with_a_check_under_way),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(the_bound_is_of_the_mean_divergence),
        cmocka_unit_test(answers_agree_if_their_best_token_is_the_same),
        cmocka_unit_test(steering_only_raises),
        cmocka_unit_test(sparse_answers_count_as_the_mean_of_their_tokens),
        cmocka_unit_test(so_many_answers_wait_for_a_check),
    };
    return cmocka_run_group_tests_name("serve/guard", tests, NULL, NULL);
}
