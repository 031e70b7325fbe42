/* test_random_requests.c -- random requests in little memory: policies, orders, offline fusion,
 * cancellations, held keys and values, forgotten caches. What is exact answers as full attention
 * does; at the end nothing is held. */
#include <stdio.h>

#include "support/requests.h"

enum { LIVE = 6, LONGEST = 8, ROUNDS = 400 };

static const char *const orders[] = {"012", "210", "01", "10", "1", "0110", "3", "32", "231", ""};

typedef struct live {
    sp_request *r;
    int order;
    bool exact, fuses, canceled;
} live;

typedef struct life {
    sp_context *c;
    uint64_t seed;
    live v[LIVE];
    int32_t want[SP_COUNT(orders)][LONGEST];
    int n_done, n_canceled, n_refused;
} life;

static int below(life *l, int n)
{
    return check_random(&l->seed, n);
}

/* exactly -- the answers of full attention, with keys and values of full precision. */
static void exactly(life *l)
{
    sp_context *c = open_with((sp_context_opts){.reuse.policy = "off", .cache.kv_type = "f32"});
    for (size_t i = 0; i < SP_COUNT(orders); i++) {
        sp_request *r = ask(c, orders[i], "Where?", LONGEST);
        memcpy(l->want[i], sp_request_result(r)->tokens, sizeof l->want[i]);
        sp_request_destroy(r);
    }
    close_clean(c);
}

static void random_submit(life *l, live *v)
{
    const sp_reuse_info *how = sp_reuse_policies(NULL) + below(l, policies_of(EVERY_POLICY));
    char spec[96];
    int n = snprintf(spec, sizeof spec, "%s", how->name);
    for (int i = 0; i < how->n_params; i++) /* some of its parameters, near the lower end */
        if (!how->params[i].replaces_share && below(l, 2))
            n += snprintf(spec + n, sizeof spec - (size_t)n, "%c%s=%g", strchr(spec, ':') ? ',' : ':',
                          how->params[i].name, how->params[i].least + below(l, 4));
    const sp_reuse_opts reuse = {.policy = spec,
                                 .recompute = 0.25f * (float)below(l, 5),
                                 .exact_first = below(l, 2),
                                 .unfused = below(l, 2)};
    sp_request_opts o = sampled(below(l, LONGEST + 1));
    o.reuse = &reuse;
    const sp_measure m = {.keep_kv = below(l, 6) == 0};
    *v = (live){.order = below(l, SP_COUNT(orders)),
                .exact = how->exact || (how->recomputes && reuse.recompute >= 1),
                .fuses = below(l, 8) == 0};
    if (v->fuses) {
        o = (sp_request_opts){.sampling = sp_sampling_default()};
        v->order = below(l, 3);
        sp_prompt *p = prompt_of(l->c, orders[v->order], NULL);
        assert_ok(sp_request_create(l->c, p, &o, &sp_reuse_fuse, &v->r));
        sp_driver_submit(l->c, v->r);
        sp_prompt_destroy(p);
        return;
    }
    sp_prompt *p = prompt_of(l->c, orders[v->order], "Where?");
    assert_ok(sp_measure_submit(l->c, p, &o, &m, &v->r));
    sp_prompt_destroy(p);
}

static void check_done(life *l, live *v)
{
    const sp_result *got = sp_request_result(v->r);
    if (got->finish == SP_FINISH_ERROR) { /* others hold too much */
        assert_refused(v->r);
        l->n_refused++;
    } else if (got->finish == SP_FINISH_CANCELED) {
        assert_true(v->canceled);
        l->n_canceled++;
    } else {
        assert_int_equal(got->finish, SP_FINISH_LENGTH);
        assert_adds_up(got);
        if (v->exact && !v->fuses)
            assert_memory_equal(got->tokens, l->want[v->order],
                                (size_t)got->n_generated * sizeof *got->tokens);
        l->n_done++;
    }
    sp_request_destroy(v->r);
    v->r = NULL;
}

static void random_round(life *l)
{
    live *v = &l->v[below(l, LIVE)];
    if (!v->r) {
        random_submit(l, v);
    } else if (done(v->r)) {
        check_done(l, v);
    } else if (below(l, 12) == 0) {
        v->canceled = true;
        sp_request_cancel(v->r);
    } else if (below(l, 30) == 0) {
        sp_request_destroy(v->r); /* in whatever state */
        v->r = NULL;
    }
    if (below(l, 40) == 0) sp_context_forget(l->c);
    for (int i = below(l, 4); i > 0; i--) step(l->c);
}

static void random_lives_answer_as_they_should(void **state)
{
    sp_context *c = open_with((sp_context_opts){.cache.kv_type = "f32"});
    size_t block = sp_context_describe(c).kv_block_bytes;
    close_clean(c);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        life l = {.seed = seed};
        exactly(&l);
        l.c = open_with((sp_context_opts){.cache.kv_type = "f32",
                                          .cache.kv_bytes = (size_t)(seed % 2 ? 45 : 400) * block,
                                          .n_batch = seed % 3 ? 24 : 7,
                                          .max_requests = 4,
                                          .cache.max_placed = 5});
        for (int i = 0; i < ROUNDS; i++) random_round(&l);
        for (int i = 0; i < LIVE; i++)
            if (l.v[i].r) {
                run(l.c, l.v[i].r);
                check_done(&l, &l.v[i]);
            }
        assert_true(l.n_done > ROUNDS / 10 && l.n_canceled > 0);
        close_clean(l.c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lives_answer_as_they_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
