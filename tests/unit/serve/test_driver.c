/* The engine thread: many threads submit, cancel and destroy; answers are those of a context without one. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "support/requests.h"
#include "support/tiny_model.h"
#include "support/task.h"

enum { THREADS = 4, ROUNDS = 12, TOKENS = 12 };

static const char *const orders[] = {"01", "10", "012", "2"};

static sp_request_opts greedy(void)
{
    return (sp_request_opts){
        .sampling = sp_sampling_default(), .max_tokens = TOKENS, .ignore_end = true};
}

/* expected -- answers of a context that steps by itself. */
static void expected(char out[4][256])
{
    sp_context *c = open_with((sp_context_opts){0});
    for (int i = 0; i < 4; i++) {
        sp_prompt *p = prompt_of(c, orders[i], "Where?");
        sp_request_opts o = greedy();
        sp_request *r;
        assert_ok(sp_generate(c, p, &o, &r));
        snprintf(out[i], 256, "%s", sp_request_result(r)->text);
        sp_request_destroy(r);
        sp_prompt_destroy(p);
    }
    close_clean(c);
}

typedef struct worker {
    sp_context *c;
    const char (*want)[256];
    uint64_t rng;
    int n_right, n_wrong, n_gone;
    atomic_int n_done;
} worker;

static void on_done(void *user)
{
    worker *w = user;
    w->n_done++;
}

static void ask_once(worker *w, int i)
{
    sp_prompt *p = prompt_of(w->c, orders[i], "Where?");
    sp_request_opts o = greedy();
    sp_request *r = NULL;
    o.on_done = on_done;
    o.user = w;
    assert_ok(sp_request_submit(w->c, p, &o, &r));
    sp_prompt_destroy(p);
    int fate = tiny_below(&w->rng, 4);
    if (fate == 0) sp_request_cancel(r);
    if (fate == 1) { /* it may be finished by then, or not */
        sp_request_destroy(r);
        w->n_gone++;
        return;
    }
    while (!sp_request_wait(r, 1000)) {
    }
    const sp_result *res = sp_request_result(r);
    bool whole = res->finish == SP_FINISH_LENGTH;
    w->n_right += whole ? strcmp(res->text, w->want[i]) == 0 : fate == 0;
    w->n_wrong += whole ? strcmp(res->text, w->want[i]) != 0 : fate != 0;
    sp_request_destroy(r);
}

static void *work(void *arg)
{
    worker *w = arg;
    for (int k = 0; k < ROUNDS; k++) {
        ask_once(w, tiny_below(&w->rng, 4));
        if (k % 5 == 4) sp_context_forget(w->c);
        if (sp_context_describe(w->c).n_vocab < 1) w->n_wrong++;
    }
    return NULL;
}

static void many_threads_may_use_a_context(void **state)
{
    char want[4][256];
    expected(want);
    sp_context *c = open_with((sp_context_opts){.max_requests = 3});
    assert_ok(sp_context_start(c));
    assert_ok(sp_context_start(c)); /* it runs already */
    worker w[THREADS] = {0};
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) {
        w[i].c = c;
        w[i].want = (const char (*)[256])want;
        w[i].rng = (uint64_t)i + 1;
        assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(w[i].n_wrong, 0);
        assert_int_equal(w[i].n_right + w[i].n_gone, ROUNDS);
    }
    sp_context_stop(c);
    for (int i = 0; i < THREADS; i++) assert_true(w[i].n_done >= ROUNDS - w[i].n_gone);
    close_clean(c);
}

/* Errors reach the caller with their detail; a step by hand is refused. */
static void errors_of_commands_reach_the_caller(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    assert_ok(sp_context_start(c));
    bool busy;
    assert_int_equal(sp_context_step(c, &busy), SP_E_ARG);
    sp_prompt *p = prompt_of(c, "", NULL);
    assert_int_equal(sp_chunk_fuse(c, p, NULL), SP_E_ARG);
    assert_non_null(strstr(sp_error_detail(), "fuse"));
    assert_int_equal(sp_store_retain(c, NULL, NULL), SP_E_ARG);
    sp_prompt_destroy(p);
    p = prompt_of(c, "01", "Where?");
    sp_request_opts o = greedy();
    sp_request *r;
    assert_ok(sp_generate(c, p, &o, &r));
    assert_int_equal(sp_request_result(r)->n_generated, TOKENS);
    assert_true(sp_request_wait(r, 0));
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    sp_context_stop(c);
    assert_ok(sp_context_step(c, NULL)); /* it belongs to this thread again */
    close_clean(c);
}

/* A request that is submitted when another is done. */
typedef struct sequel {
    sp_context *c;
    sp_prompt *p;
    sp_request *r;
    sp_err err;
    atomic_bool there;
} sequel;

static void submit_sequel(void *user)
{
    sequel *s = user;
    const sp_request_opts o = greedy();
    s->err = sp_request_submit(s->c, s->p, &o, &s->r);
    s->there = true;
}

static void a_request_may_follow_from_the_end_of_another(void **state)
{
    for (int thread = 0; thread < 2; thread++) {
        sp_context *c = open_with((sp_context_opts){0});
        sequel s = {.c = c, .p = prompt_of(c, "01", "Where?")};
        sp_request_opts o = greedy();
        sp_request *r;
        bool busy = true;
        o.on_done = submit_sequel;
        o.user = &s;
        if (thread) assert_ok(sp_context_start(c));
        assert_ok(sp_request_submit(c, s.p, &o, &r));
        while (!thread && busy) assert_ok(sp_context_step(c, &busy));
        assert_true(sp_request_wait(r, 60000000));
        for (int i = 0; i < 60000 && !s.there; i++) usleep(1000);
        assert_true(s.there && s.err == SP_OK);
        assert_true(sp_request_wait(s.r, 20000000));
        assert_string_equal(sp_request_result(s.r)->text, sp_request_result(r)->text);
        sp_request_destroy(s.r);
        sp_request_destroy(r);
        sp_prompt_destroy(s.p);
        sp_context_stop(c);
        close_clean(c);
    }
}

/* Closing waits for what runs. */
static void closing_waits_for_what_runs(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    assert_ok(sp_context_start(c));
    sp_prompt *p = prompt_of(c, "01", "Where?");
    sp_request_opts o = greedy();
    sp_request *r;
    assert_ok(sp_request_submit(c, p, &o, &r));
    sp_prompt_destroy(p);
    sp_context_stop(c);
    assert_true(sp_request_wait(r, 0));
    assert_int_equal(sp_request_result(r)->n_generated, TOKENS);
    sp_request_destroy(r);
    close_clean(c);
}

/* Those of its device, too. */
static void closing_ends_the_threads_of_a_context(void **state)
{
    const int before = task_n_threads();
    sp_context *c = open_with((sp_context_opts){.machine.n_threads = 3});
    assert_ok(sp_context_start(c));
    assert_true(task_n_threads() >= before + 3); /* two of the device, and the engine thread */
    sp_context_close(c);
    for (int i = 0; i < 5000 && task_n_threads() > before; i++) usleep(1000); /* the kernel is late */
    assert_int_equal(task_n_threads(), before);
}

/* -- how long a step takes -------------------------------------------------------------------- */

static sp_err look_at_step(sp_context *c, void *arg)
{
    int64_t *us = arg;
    usleep(20000);
    *us = sp_context_step_us(c);
    return SP_OK;
}

static void a_thread_that_was_stopped_starts_again(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    assert_ok(sp_context_start(c));
    sp_context_stop(c);
    assert_false(sp_driver_runs(c));
    assert_ok(sp_context_start(c));
    for (int i = 0; i < 20; i++) {
        sp_context_describe(c);
        usleep(1000); /* nothing to do */
    }
    assert_true(sp_driver_runs(c));
    sp_context_close(c);
}

static void a_long_command_is_seen(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    int64_t us = 0;
    assert_int_equal(sp_context_step_us(c), 0);
    assert_ok(sp_context_start(c));
    assert_ok(sp_driver_call(c, look_at_step, &us));
    assert_true(us >= 20000);
    for (int i = 0; i < 60000 && sp_context_step_us(c); i++) usleep(1000);
    assert_int_equal(sp_context_step_us(c), 0);
    sp_context_stop(c);
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_was_stopped_starts_again),
        cmocka_unit_test(a_long_command_is_seen),
        cmocka_unit_test(many_threads_may_use_a_context),
        cmocka_unit_test(errors_of_commands_reach_the_caller),
        cmocka_unit_test(a_request_may_follow_from_the_end_of_another),
        cmocka_unit_test(closing_waits_for_what_runs),
        cmocka_unit_test(closing_ends_the_threads_of_a_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
