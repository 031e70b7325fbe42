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

/* Of experts those count that a token uses, and the shared one. */
static void of_experts_those_count_that_are_used(void **state)
{
    sp_layer layers[2] = {0};
    sp_model m = {.layers = layers,
                  .hp = {.n_layers = 2, .n_embd = 10, .n_heads = 4, .n_kv_heads = 2, .head = 8, .n_ff = 1000}};
    assert_near(sp_pace_sight(&m), 10 * (2 * 32 + 2 * 16 + 3 * 1000) / 64.0, 1e-9);
    m.hp.moe = (sp_moe){.n = 8, .n_used = 2, .n_ff = 100, .n_shared = 50};
    assert_near(sp_pace_sight(&m), 10 * (2 * 32 + 2 * 16 + 3 * 250) / 64.0, 1e-9);
    layers[0].window = layers[1].window = 4;
    assert_near(sp_pace_sight(&m), 0, 0);
}

/* A step of one prompt of 64 tokens and of one answer, as the scheduler describes it. */
typedef struct fake_step {
    sp_context *c;
    sp_request prompt, answer;
    sp_plan plans[2];
    sp_todo todo[64];
} fake_step;

static fake_step *fake_begin(void)
{
    fake_step *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->c = open_with((sp_context_opts){.reuse.policy = "full", .n_batch = 80, .max_requests = 2});
    f->prompt.state = SP_REQ_PREFILL;
    f->answer.state = SP_REQ_DECODE;
    for (int i = 0; i < 2; i++) {
        f->plans[i].todo = f->todo;
        f->c->step.slices[i] = (sp_slice){.plan = &f->plans[i], .n = i ? 1 : 64};
    }
    f->c->step.of[0] = &f->prompt;
    f->c->step.of[1] = &f->answer;
    return f;
}

/* token_us -- as a step of so many us has shown it; 0: it has shown nothing. */
static double token_us(const fake_step *f, double us)
{
    f->c->pace = (sp_pace){.sight = 100};
    sp_context_learn_pace(f->c, 2, us);
    return f->c->pace.token_us;
}

static void fake_end(fake_step *f)
{
    f->c->step.n_decoding = 0;
    close_clean(f->c);
    free(f);
}

static void answers_are_no_part_of_a_prompts_pace(void **state)
{
    fake_step *f = fake_begin();
    f->todo[0].pos = 1 << 20; /* of the answer's token */
    f->c->step.slices[0].from = 1;
    f->c->step.slices[0].n = 63;
    assert_near(token_us(f, 6300), 100, 1e-9);
    for (int i = 1; i < 64; i++) f->todo[i].pos = 100;
    assert_near(token_us(f, 6300), 50, 1e-9);
    f->c->step.n_decoding = 1;
    f->c->step.budget.decode_us = 3000;
    assert_near(token_us(f, 9300), 50, 1e-9);
    assert_near(token_us(f, 5999), 0, 0); /* most of it is the answer's */
    fake_end(f);
}

static void steps_of_a_few_tokens_show_nothing(void **state)
{
    fake_step *f = fake_begin();
    f->c->step.slices[0].n = 15;
    assert_near(token_us(f, 1500), 0, 0);
    f->c->step.slices[0].n = 16;
    assert_near(token_us(f, 1600), 100, 1e-9);
    fake_end(f);
}

static void after_layer(void *user, const sp_gate_view *view)
{
}

/* Rows that leave after a few layers, wait for a load or are probed take another time. */
static void plans_that_are_not_plain_show_nothing(void **state)
{
    fake_step *f = fake_begin();
    assert_near(token_us(f, 6400), 100, 1e-9);
    f->prompt.cut = true;
    assert_near(token_us(f, 6400), 0, 0);
    f->prompt.cut = false;
    f->prompt.loads.state = SP_LOADS_EARLY;
    assert_near(token_us(f, 6400), 0, 0);
    f->prompt.loads.state = SP_LOADS_ANY;
    f->prompt.plans.now.gate.after_layer = after_layer;
    assert_near(token_us(f, 6400), 0, 0);
    f->prompt.plans.now.gate.after_layer = NULL;
    f->prompt.plans.now.probe.kind = SP_PROBE_NONE + 1;
    assert_near(token_us(f, 6400), 0, 0);
    f->prompt.plans.now.probe.kind = SP_PROBE_NONE;
    assert_near(token_us(f, 6400), 100, 1e-9);
    fake_end(f);
}

/* Nothing is guessed once something is known, and not while requests are under way. */
static void a_guess_holds_up_nobody(void **state)
{
    sp_context *c = open_policy(&(policy){"full", 0});
    sp_request *r = submit(c, "012", "Why?", 1);
    assert_ok(sp_context_guess(c));
    assert_true(c->pace.token_us == 0); /* one waits */
    sp_request_destroy(run(c, r));
    c->pace = (sp_pace){.token_us = 7};
    assert_ok(sp_context_guess(c));
    assert_true(c->pace.token_us == 7 && !c->pace.measured);
    c->pace = (sp_pace){0};
    assert_ok(sp_context_guess(c));
    assert_true(c->pace.token_us > 0);
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

/* Attention over many tiny spans takes a multiple of what the same tokens take in one piece. */
static void prompts_of_many_tiny_chunks_teach_nothing(void **state)
{
    sp_context *c = open_policy(&(policy){"prefix", 0});
    sp_prompt *p = prompt_of(c, "", NULL);
    char text[] = "a";
    for (int i = 0; i < 24; i++, text[0]++) assert_ok(sp_prompt_chunk(p, NULL, text));
    assert_ok(sp_prompt_question(p, "Why?"));
    sp_request *r = run(c, submit_prompt(c, p, 1));
    const sp_result *res = sp_request_result(r);
    assert_true(res->n_prompt > 24 && res->n_prompt < 24 * SP_BLOCK_TOKENS);
    sp_request_destroy(r);
    assert_false(c->pace.measured);
    sp_request_destroy(run(c, submit(c, "012012012", "Why?", 1)));
    assert_true(c->pace.measured);
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
        cmocka_unit_test(of_experts_those_count_that_are_used),
        cmocka_unit_test(answers_are_no_part_of_a_prompts_pace),
        cmocka_unit_test(steps_of_a_few_tokens_show_nothing),
        cmocka_unit_test(plans_that_are_not_plain_show_nothing),
        cmocka_unit_test(a_guess_holds_up_nobody),
        cmocka_unit_test(a_context_guesses_and_then_measures),
        cmocka_unit_test(prompts_of_many_tiny_chunks_teach_nothing),
        cmocka_unit_test(the_account_says_what_cold_would_have_been),
        cmocka_unit_test(a_request_without_an_answer_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
