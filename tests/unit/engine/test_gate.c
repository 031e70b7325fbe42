/* test_gate.c -- gates see every layer and its attention mass, and drop tokens from those that
 * remain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/tiny_model.h"

#define N 40 /* tokens of the prompt: two spans of 24 and 16 */

typedef struct watch {
    int layers_seen, rows_seen[8];
    int drop_after, drop_from, drop_below; /* after this layer, drop these todo ids */
} watch;

static void on_layer(void *user, const sp_gate_view *view)
{
    watch *w = user;
    assert_int_equal(view->layer, w->layers_seen);
    w->rows_seen[w->layers_seen++] = view->n;
    for (int i = 0; i < view->n; i++) {
        assert_true(view->keep[i]);
        if (view->layer == w->drop_after && view->id[i] >= w->drop_from && view->id[i] < w->drop_below)
            view->keep[i] = false;
    }
    for (int i = 0; view->mass && i < view->n * 4; i++) { /* 4 heads */
        const float *m = view->mass + i * view->plan->n_spans;
        double sum = (double)m[0] + (double)m[1];
        assert_true(m[0] >= 0 && m[1] >= 0 && fabs(sum - 1) < 1e-5);
        /* the first span's tokens do not see the second, whose tokens see themselves */
        assert_int_equal(m[1] > 0, view->plan->todo[view->id[i / 4]].span);
    }
}

static void make_plan(tiny *t, sp_plan *p)
{
    int32_t at = 0;
    sp_plan_init(p, t->pool);
    for (int s = 0; s < 2; s++) {
        int n = s ? 16 : 24, span, see;
        assert_int_equal(sp_plan_add_span(p, &(sp_span_spec){.n = n, .at = at}, &span), SP_OK);
        assert_int_equal(sp_plan_add_sight(p, NULL, s + 1, &see), SP_OK);
        for (int i = 0; i < n; i++, at++)
            assert_int_equal(sp_plan_add_todo(p, (sp_todo){.token = (at * 7) % 101,
                                                           .pos = at,
                                                           .span = (uint16_t)span,
                                                           .see = (uint16_t)see,
                                                           .index = i}),
                             SP_OK);
    }
    assert_int_equal(sp_plan_bind(p), SP_OK);
}

static void step(tiny *t, watch *w, bool mass, sp_want want, float *logits)
{
    sp_plan p;
    make_plan(t, &p);
    if (w) p.gate = (sp_gate){.after_layer = on_layer, .user = w, .wants_mass = mass};
    sp_slice s = {&p, 0, N, want, logits};
    assert_int_equal(sp_engine_step(t->engine, &s, 1), SP_OK);
    sp_plan_fini(&p);
}

static void open_tiny(tiny *t, int n_layers)
{
    tiny_spec s = TINY_SPEC_DEFAULT;
    s.n_layers = n_layers;
    s.cpu = NULL; /* the best here */
    assert_int_equal(tiny_open(t, &s, 11), SP_OK);
}

static void watching_changes_nothing(void **state)
{
    tiny t;
    open_tiny(&t, 3);
    float *plain = malloc(sizeof(float) * N * 101), *watched = malloc(sizeof(float) * N * 101);
    watch w = {.drop_after = -1};
    step(&t, NULL, false, SP_WANT_ALL, plain);
    step(&t, &w, true, SP_WANT_ALL, watched);
    assert_memory_equal(plain, watched, sizeof(float) * N * 101);
    assert_int_equal(w.layers_seen, 3);
    for (int l = 0; l < 3; l++) assert_int_equal(w.rows_seen[l], N);
    free(plain);
    free(watched);
    tiny_close(&t);
}

/* written -- whether the value of token i (of N, in the order of the prompt) was stored in a layer
 * whose memory was filled with 0x55 before. */
static bool written(const tiny *t, const sp_plan *p, int layer, int i)
{
    sp_kv_view kv = sp_kv_pool_layer(t->pool, layer);
    const sp_todo *d = &p->todo[i];
    uint32_t block = p->spans[d->span].blocks[d->index / SP_BLOCK_TOKENS];
    size_t keys = sp_kv_head_bytes(kv.type, kv.head); /* of the first head, before its values */
    size_t row = (size_t)(d->index % SP_BLOCK_TOKENS) * (size_t)kv.head * 2; /* f16 */
    const uint8_t *v = kv.base + block * kv.block_bytes + keys + row;
    for (int k = 0; k < 2 * kv.head; k++)
        if (v[k] != 0x55) return true;
    return false;
}

/* A token dropped after a layer computes and stores nothing in the layers that remain. */
static void dropped_rows_are_gone(void **state)
{
    tiny t;
    open_tiny(&t, 4);
    sp_plan p;
    float logits[101];
    watch w = {.drop_after = 1, .drop_below = 10};
    make_plan(&t, &p);
    p.gate = (sp_gate){.after_layer = on_layer, .user = &w};
    sp_kv_view first = sp_kv_pool_layer(t.pool, 0);
    memset(first.base, 0x55, (size_t)sp_kv_pool_n_blocks(t.pool) * first.block_bytes * 4);
    sp_slice s = {&p, 0, N, SP_WANT_LAST, logits};
    assert_int_equal(sp_engine_step(t.engine, &s, 1), SP_OK);
    for (int l = 0; l < 4; l++) {
        assert_int_equal(w.rows_seen[l], l <= 1 ? N : N - 10);
        for (int i = 0; i < N; i++) assert_int_equal(written(&t, &p, l, i), l <= 1 || i >= 10);
    }
    sp_plan_fini(&p);
    tiny_close(&t);
}

static void dropping_all_ends_the_step(void **state)
{
    tiny t;
    open_tiny(&t, 3);
    float logits[101] = {[0] = 42};
    watch w = {.drop_after = 0, .drop_below = N};
    step(&t, &w, false, SP_WANT_LAST, logits);
    assert_int_equal(w.layers_seen, 1);
    assert_true(logits[0] == 42); /* untouched: nobody is left to want them */
    tiny_close(&t);
}

/* Rows close the gaps that a gate leaves between other slices, which compute what they would alone. */
static void other_slices_do_not_notice_a_gate(void **state)
{
    enum { V = 101 };
    tiny t;
    sp_plan p[3];
    float alone[V], gated[V], behind[V];
    open_tiny(&t, 3);
    step(&t, NULL, false, SP_WANT_LAST, alone);
    watch w = {.drop_after = 0, .drop_below = 13};
    for (int i = 0; i < 3; i++) make_plan(&t, &p[i]);
    p[1].gate = (sp_gate){.after_layer = on_layer, .user = &w};
    const sp_slice slices[] = {{&p[0], 0, 24, SP_WANT_NONE, NULL},
                               {&p[1], 0, N, SP_WANT_LAST, gated},
                               {&p[2], 0, N, SP_WANT_LAST, behind}};
    assert_int_equal(sp_engine_step(t.engine, slices, 3), SP_OK);
    assert_memory_equal(behind, alone, sizeof alone);
    assert_memory_not_equal(gated, alone, sizeof alone);
    assert_int_equal(p[1].n_dropped, 13);
    for (int i = 0; i < 3; i++) sp_plan_fini(&p[i]);
    tiny_close(&t);
}

/* Rows before a gap stay where they are, and compute what they would without it. */
static void rows_before_a_gap_do_not_notice_it(void **state)
{
    enum { V = 101, BEFORE = 10 };
    tiny t;
    open_tiny(&t, 3);
    float *plain = malloc(sizeof(float) * N * V), *gated = malloc(sizeof(float) * N * V);
    watch w = {.drop_after = 0, .drop_from = BEFORE, .drop_below = BEFORE + 5};
    step(&t, NULL, false, SP_WANT_ALL, plain);
    step(&t, &w, false, SP_WANT_ALL, gated);
    assert_int_equal(w.rows_seen[2], N - 5);
    assert_memory_equal(gated, plain, sizeof(float) * BEFORE * V);
    assert_memory_not_equal(gated, plain, sizeof(float) * (N - 5) * V);
    free(plain);
    free(gated);
    tiny_close(&t);
}

/* Two requests of one step have masses of their own: those that each has alone. */
static void masses_of_two_slices_are_apart(void **state)
{
    tiny t;
    sp_plan p[2];
    watch w[2] = {{.drop_after = -1}, {.drop_after = -1}};
    open_tiny(&t, 2);
    for (int i = 0; i < 2; i++) make_plan(&t, &p[i]);
    assert_int_equal(sp_engine_step(t.engine, &(sp_slice){&p[0], 0, 24, SP_WANT_NONE, NULL}, 1), SP_OK);
    for (int i = 0; i < 2; i++) p[i].gate = (sp_gate){.after_layer = on_layer, .user = &w[i], .wants_mass = true};
    const sp_slice slices[] = {{&p[0], 24, 16, SP_WANT_NONE, NULL}, {&p[1], 0, 24, SP_WANT_NONE, NULL}};
    assert_int_equal(sp_engine_step(t.engine, slices, 2), SP_OK); /* on_layer checks them */
    for (int i = 0; i < 2; i++) assert_int_equal(w[i].layers_seen, 2);
    for (int i = 0; i < 2; i++) sp_plan_fini(&p[i]);
    tiny_close(&t);
}

typedef struct wait_for {
    int missing; /* the first layer whose known KV is not there */
    int n_asked;
} wait_for;

static bool is_there(void *user, int layer)
{
    wait_for *w = user;
    w->n_asked++;
    return layer < w->missing;
}

/* A request whose known KV does not come is dropped, and not asked for again; others are not touched. */
static void a_slice_whose_layer_is_missing_ends(void **state)
{
    enum { V = 101 };
    tiny t;
    sp_plan p[2];
    float alone[V], got[V], none[V] = {[0] = 42};
    wait_for w = {.missing = 1};
    watch seen = {.drop_after = -1};
    open_tiny(&t, 4);
    step(&t, NULL, false, SP_WANT_LAST, alone);
    for (int i = 0; i < 2; i++) make_plan(&t, &p[i]);
    p[0].gate = (sp_gate){.after_layer = on_layer, .user = &seen};
    const sp_slice slices[] = {{&p[0], 0, N, SP_WANT_LAST, none, {is_there, &w}}, {&p[1], 0, N, SP_WANT_LAST, got}};
    assert_int_equal(sp_engine_step(t.engine, slices, 2), SP_OK);
    assert_int_equal(w.n_asked, 2);
    assert_int_equal(seen.layers_seen, 1);
    assert_true(none[0] == 42);
    assert_memory_equal(got, alone, sizeof alone);
    for (int i = 0; i < 2; i++) sp_plan_fini(&p[i]);
    tiny_close(&t);
}

/* After the last layer nothing is saved, so nothing counts as dropped. */
static void rows_of_the_last_layer_are_not_dropped(void **state)
{
    tiny t;
    sp_plan p;
    float logits[101];
    open_tiny(&t, 2);
    watch w = {.drop_after = 1, .drop_below = 10};
    make_plan(&t, &p);
    p.gate = (sp_gate){.after_layer = on_layer, .user = &w};
    assert_int_equal(sp_engine_step(t.engine, &(sp_slice){&p, 0, N, SP_WANT_LAST, logits}, 1), SP_OK);
    assert_int_equal(w.layers_seen, 2);
    assert_int_equal(p.n_dropped, 0);
    sp_plan_fini(&p);
    tiny_close(&t);
}

static void bad_slices_are_refused(void **state)
{
    tiny t;
    open_tiny(&t, 2);
    sp_plan p;
    float logits[101];
    make_plan(&t, &p);
    const sp_slice wrong[] = {{&p, 0, 0, SP_WANT_NONE, NULL},
                              {&p, -1, 2, SP_WANT_NONE, NULL},
                              {&p, N - 1, 2, SP_WANT_NONE, NULL}};
    for (size_t i = 0; i < SP_COUNT(wrong); i++)
        assert_int_equal(sp_engine_step(t.engine, &wrong[i], 1), SP_E_ARG);
    p.todo[3].token = 101;
    assert_int_equal(sp_engine_step(t.engine, &(sp_slice){&p, 0, N, SP_WANT_LAST, logits}, 1),
                     SP_E_ARG);
    assert_non_null(strstr(sp_error_detail(), "token id 101"));
    p.todo[3].token = 1;
    p.todo[3].pos = 512;
    assert_int_equal(sp_engine_step(t.engine, &(sp_slice){&p, 0, N, SP_WANT_LAST, logits}, 1),
                     SP_E_CONTEXT);
    sp_plan_fini(&p);
    tiny_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(watching_changes_nothing),
        cmocka_unit_test(dropped_rows_are_gone),
        cmocka_unit_test(dropping_all_ends_the_step),
        cmocka_unit_test(other_slices_do_not_notice_a_gate),
        cmocka_unit_test(rows_before_a_gap_do_not_notice_it),
        cmocka_unit_test(masses_of_two_slices_are_apart),
        cmocka_unit_test(a_slice_whose_layer_is_missing_ends),
        cmocka_unit_test(rows_of_the_last_layer_are_not_dropped),
        cmocka_unit_test(bad_slices_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
