/* What computing a prompt takes: guessed from a few layers, then as steps have shown it. */
#include "support/requests.h"

#include <math.h>

#include "serve/queue/pace.h"

static void assert_near(double is, double wanted, double tolerance)
{
    if (!(fabs(is - wanted) <= tolerance)) fail_msg("%.9g, not %.9g", is, wanted);
}

static void a_guess_ends_with_the_first_step(void **state)
{
    sp_pace p = {0};
    assert_true(sp_pace_us(&p, 100) == 0);
    sp_pace_guess(&p, 64, 6400);
    assert_near(sp_pace_us(&p, 1000), 100000, 1e-9);
    assert_false(p.measured);
    sp_pace_learn(&p, 64, 0, 64 * 250.0);
    assert_true(p.measured);
    assert_near(sp_pace_us(&p, 1000), 250000, 1e-9);
    sp_pace_guess(&p, 64, 6400);
    assert_near(sp_pace_us(&p, 1000), 250000, 1e-9);
}

/* Steps of a machine whose tokens take longer the further they look back, as the model's shape says. */
static void long_prompts_take_what_they_look_at(void **state)
{
    const double token_us = 80, sight = 3000;
    sp_pace p = {.sight = sight};
    for (int from = 0; from < 4096; from += 256) {
        const double positions = 256.0 * from + 255 * 128;
        sp_pace_learn(&p, 256, positions, token_us * (256 + positions / sight));
    }
    assert_near(sp_pace_us(&p, 1), token_us, 1e-6);
    assert_near(sp_pace_us(&p, 6000), token_us * (6000 + 6000.0 * 5999 / 2 / sight), 1e-3);
}

/* What is said to be the time of a whole prompt must not be that of a step that was held up. */
static void steps_that_are_held_up_count_little(void **state)
{
    sp_pace p = {0};
    sp_pace_learn(&p, 80, 0, 80 * 3000.0); /* weights come from a disk */
    sp_pace_learn(&p, 80, 0, 80 * 110.0);
    assert_near(sp_pace_us(&p, 1), 110, 1e-9);
    sp_pace_learn(&p, 16, 0, 16 * 1000.0);
    sp_pace_learn(&p, 256, 0, 256 * 100.0);
    assert_near(sp_pace_us(&p, 1), 100, 1e-9);
    sp_pace_learn(&p, 0, 0, 5);
    sp_pace_learn(&p, 10, 0, -5); /* a step of answers that took less than usual */
    assert_near(sp_pace_us(&p, 1), 100, 1e-9);
}

/* A machine that has become slower or faster; a single time that cannot be counts for nothing. */
static void recent_steps_count(void **state)
{
    sp_pace p = {0};
    for (int i = 0; i < 40; i++) sp_pace_learn(&p, 256, 0, 256 * (100.0 + i % 3));
    assert_near(sp_pace_us(&p, 1), 100, 1e-9);
    for (int i = 0; i < SP_PACE_STEPS; i++) sp_pace_learn(&p, 256, 0, 256 * 300.0);
    assert_near(sp_pace_us(&p, 1), 300, 1e-9);
    sp_pace_learn(&p, 16, 0, 16);
    assert_near(sp_pace_us(&p, 1), 300, 1e-9);
    for (int i = 0; i < 6; i++) sp_pace_learn(&p, 256, 0, 256 * 50.0);
    assert_near(sp_pace_us(&p, 1), 50, 1e-9);
}

static void the_shape_says_what_a_position_costs(void **state)
{
    sp_context *c = open_policy(&(policy){"full", 0});
    const sp_hparams *hp = &c->model->hp;
    double weights = 0;
    const double sight = sp_pace_sight(c->model);
    for (int l = 0; l < hp->n_layers; l++) {
        const sp_layer *w = &c->model->layers[l];
        const sp_mat *all[] = {&w->wq, &w->wk, &w->wv, &w->wo, &w->mlp.w_gate, &w->mlp.w_up, &w->mlp.w_down};
        for (size_t i = 0; i < SP_COUNT(all); i++) weights += (double)all[i]->n_rows * all[i]->n_cols;
    }
    assert_near(sight, weights / (2.0 * hp->n_layers * hp->n_heads * hp->head), 1e-9);
    c->model->layers[0].window = 4;
    assert_near(sp_pace_sight(c->model), sight * hp->n_layers / (hp->n_layers - 1), 1e-6);
    c->model->layers[0].window = 0;
    close_clean(c);
}

static void a_context_guesses_and_then_measures(void **state)
{
    sp_context *c = open_policy(&(policy){"full", 0});
    const int64_t n_free = sp_kv_pool_n_free(c->pool);
    assert_true(sp_context_describe(c).token_us == 0);
    assert_ok(sp_context_guess(c));
    assert_int_equal(sp_kv_pool_n_free(c->pool), n_free);
    sp_context_info info = sp_context_describe(c);
    assert_true(info.token_us > 0 && !info.token_measured && info.n_computed == 0);
    sp_request_destroy(run(c, submit(c, "012012012", "Why?", 1)));
    info = sp_context_describe(c);
    assert_true(info.token_us > 0 && info.token_measured);
    close_clean(c);
}

/* A request that reused nothing was cold; another would have been what the pace says of its whole prompt. */
static void the_account_says_what_cold_would_have_been(void **state)
{
    sp_context *c = open_policy(&(policy){"full", 0});
    sp_request *r = run(c, submit(c, "012", "Why?", 1));
    const sp_result *res = sp_request_result(r);
    assert_int_equal(res->n_reused, 0);
    assert_true(res->cold_us > 0 && res->cold_us == res->ttft_us - res->queue_us);
    sp_request_destroy(r);
    c->pace = (sp_pace){.sight = 100};
    for (int i = 0; i < SP_PACE_STEPS; i++) sp_pace_learn(&c->pace, 1, 0, 1e6);
    r = run(c, submit(c, "012", "What?", 1));
    res = sp_request_result(r);
    const double n = res->n_prompt;
    assert_true(res->n_reused > 0 && c->pace.token_us == 1e6);
    assert_near((double)res->cold_us, c->pace.token_us * (n + n * (n - 1) / 2 / 100), 1);
    sp_request_destroy(r);
    close_clean(c);
}

static void a_request_without_an_answer_says_nothing(void **state)
{
    sp_context *c = open_policy(&(policy){"full", 0});
    sp_request *r = run(c, submit(c, "012", "Why?", 0));
    assert_int_equal(sp_request_result(r)->cold_us, 0);
    sp_request_destroy(r);
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_guess_ends_with_the_first_step),
        cmocka_unit_test(long_prompts_take_what_they_look_at),
        cmocka_unit_test(steps_that_are_held_up_count_little),
        cmocka_unit_test(recent_steps_count),
        cmocka_unit_test(the_shape_says_what_a_position_costs),
        cmocka_unit_test(a_context_guesses_and_then_measures),
        cmocka_unit_test(the_account_says_what_cold_would_have_been),
        cmocka_unit_test(a_request_without_an_answer_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
