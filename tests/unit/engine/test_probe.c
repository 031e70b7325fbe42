/* test_probe.c -- probes in the engine: attention by key and distances of copies, from plans.
 *
 * The operations themselves are tested in tests/kernel/test_probe_ops.c. */
#include "kernel/kernels.h"

#include "engine/state.h"
#include "support/packing.h"
#include "support/tiny_model.h"

enum { B = SP_BLOCK_TOKENS };

enum { CONTEXT = 50, QUESTION = 11, LAST = 2 }; /* the tiny model has layers 0, 1 and 2 */

typedef struct scene {
    tiny t;
    int32_t tokens[CONTEXT + QUESTION];
    sp_plan context; /* computed */
} scene;

/* step -- todo[from .. from + n) of a plan, behind another plan's one token if there is one. */
static void step(scene *s, sp_plan *p, int from, int n, sp_plan *other, float *logits)
{
    sp_slice slices[] = {{other, 0, 1, SP_WANT_LAST, logits}, {p, from, n, SP_WANT_NONE, NULL}};
    int skip_first = !other;
    assert_int_equal(sp_engine_step(s->t.engine, slices + skip_first, 2 - skip_first), SP_OK);
}

static void one_token_alone(scene *s, sp_plan *p, float *logits)
{
    sp_slice slice = {p, 0, 1, SP_WANT_LAST, logits};
    assert_int_equal(sp_engine_step(s->t.engine, &slice, 1), SP_OK);
}

static void bind(sp_plan *p)
{
    assert_int_equal(sp_plan_bind(p), SP_OK);
    assert_int_equal(sp_plan_check(p), SP_OK);
}

/* add -- tokens first .. first + n - 1 of the scene as todo of a span. */
static void add(scene *s, sp_plan *p, int span, int first, int n)
{
    int see;
    assert_int_equal(sp_plan_add_sight(p, NULL, p->n_spans, &see), SP_OK);
    for (int i = 0; i < n; i++) {
        sp_todo todo = {s->tokens[first + i], first + i, (uint16_t)span, (uint16_t)see, i};
        assert_int_equal(sp_plan_add_todo(p, todo), SP_OK);
    }
}

/* scene_open -- with kernels other than "ref", layers are multiplied in integers. */
static void scene_open(scene *s, const char *device, const char *cpu)
{
    tiny_spec spec = TINY_SPEC_DEFAULT;
    int span;
    spec.device = device;
    spec.cpu = cpu;
    if (strcmp(cpu, "ref") != 0) spec.weight_type = SP_Q8_0;
    assert_int_equal(tiny_open(&s->t, &spec, 11), SP_OK);
    for (int i = 0; i < CONTEXT + QUESTION; i++) s->tokens[i] = tiny_below(&s->t.rng, spec.n_vocab);
    sp_plan *p = &s->context;
    sp_plan_init(p, s->t.pool);
    assert_int_equal(sp_plan_add_span(p, &(sp_span_spec){.n = CONTEXT}, &span), SP_OK);
    add(s, p, span, 0, CONTEXT);
    bind(p);
    step(s, p, 0, CONTEXT, NULL, NULL);
}

static void scene_close(scene *s)
{
    sp_plan_fini(&s->context);
    assert_int_equal(sp_kv_pool_n_free(s->t.pool), sp_kv_pool_n_blocks(s->t.pool));
    tiny_close(&s->t);
}

/* behind -- a plan whose span 0 is the known context. */
static void behind(scene *s, sp_plan *p)
{
    const uint32_t *known = s->context.spans[0].blocks;
    int span;
    sp_plan_init(p, s->t.pool);
    assert_int_equal(
        sp_plan_add_span(p, &(sp_span_spec){.n = CONTEXT, .known = known, .n_known = CONTEXT},
                         &span),
        SP_OK);
}

static void ask(scene *s, sp_plan *p, int n)
{
    int span;
    behind(s, p);
    assert_int_equal(sp_plan_add_span(p, &(sp_span_spec){.n = n, .at = CONTEXT}, &span), SP_OK);
    add(s, p, span, CONTEXT, n);
    bind(p);
}

static void sum_mass(void *user, const sp_gate_view *v)
{
    double *sum = user;
    const int n = v->plan->n_spans;
    for (int i = 0; v->layer == LAST && i < v->n * 4; i++) /* four heads */
        for (int k = 0; k < n; k++) sum[k] += (double)v->mass[n * i + k];
}

/* The columns of a probe are the mass that a gate is shown, from pieces of any size and in
 * company. */
static void probe_of_columns_on(const char *device)
{
    scene s = {0};
    sp_plan p, other;
    double mass[2] = {0};
    float alone[101], beside[101], whole[CONTEXT + QUESTION];
    scene_open(&s, device, "ref");
    ask(&s, &p, QUESTION);
    p.gate = (sp_gate){.after_layer = sum_mass, .user = mass, .wants_mass = true};
    step(&s, &p, 0, QUESTION, NULL, NULL);
    sp_plan_fini(&p);
    ask(&s, &other, 1);
    one_token_alone(&s, &other, alone);
    for (int piece = QUESTION; piece > 0; piece -= 5) {
        float columns[CONTEXT + QUESTION] = {0};
        float *of_span[] = {columns, columns + CONTEXT};
        ask(&s, &p, QUESTION);
        p.probe = (sp_probe){.kind = SP_PROBE_COLUMNS, .layer = LAST, .columns = of_span};
        for (int from = 0; from < QUESTION; from += piece)
            step(&s, &p, from, SP_MIN(piece, QUESTION - from), &other, beside);
        assert_same_bits(beside, alone, 101);
        double sum[2] = {0};
        for (int i = 0; i < CONTEXT + QUESTION; i++) sum[i >= CONTEXT] += (double)columns[i];
        for (int k = 0; k < 2; k++) assert_true(fabs(sum[k] - mass[k]) < 1e-4);
        if (piece == QUESTION) memcpy(whole, columns, sizeof whole);
        assert_true(nmse(columns, whole, CONTEXT + QUESTION) < 1e-10);
        sp_plan_fini(&p);
    }
    sp_plan_fini(&other);
    scene_close(&s);
}

/* Queries of one slice that do not see the same spans are measured apart. */
static void columns_of_several_sights_are_the_mass(void **state)
{
    enum { HALF = 6 };
    scene s = {0};
    double mass[3] = {0}, sum[3] = {0};
    float columns[CONTEXT + QUESTION] = {0};
    float *of_span[] = {columns, columns + CONTEXT, columns + CONTEXT + HALF};
    scene_open(&s, "cpu", "ref");
    for (int measured = 0; measured < 2; measured++) {
        sp_plan p;
        int span;
        behind(&s, &p);
        for (int at = 0; at < QUESTION; at += HALF) {
            const int n = SP_MIN(HALF, QUESTION - at);
            assert_int_equal(sp_plan_add_span(&p, &(sp_span_spec){.n = n, .at = CONTEXT + at}, &span), SP_OK);
            add(&s, &p, span, CONTEXT + at, n);
        }
        bind(&p);
        if (measured)
            p.probe = (sp_probe){.kind = SP_PROBE_COLUMNS, .layer = LAST, .columns = of_span};
        else
            p.gate = (sp_gate){.after_layer = sum_mass, .user = mass, .wants_mass = true};
        step(&s, &p, 0, QUESTION, NULL, NULL);
        sp_plan_fini(&p);
    }
    for (int i = 0; i < CONTEXT + QUESTION; i++) sum[(i >= CONTEXT) + (i >= CONTEXT + HALF)] += (double)columns[i];
    for (int k = 0; k < 3; k++) assert_true(fabs(sum[k] - mass[k]) < 1e-4);
    scene_close(&s);
}

/* again -- the context once more in a private span, some tokens changed; every seventh has no
 * twin. */
static void again(scene *s, sp_plan *p, sp_twin *twins, float *deviation)
{
    int32_t pos[CONTEXT];
    int span;
    behind(s, p);
    for (int i = 0; i < CONTEXT; i++) {
        pos[i] = i;
        assert_int_equal(sp_plan_mark_stale(p, 0, i), SP_OK);
        twins[i] = i % 7 == 6 ? (sp_twin){-1, 0} : (sp_twin){0, i};
        deviation[i] = -1;
    }
    assert_int_equal(sp_plan_add_span(p, &(sp_span_spec){.n = CONTEXT, .pos = pos}, &span), SP_OK);
    add(s, p, span, 0, CONTEXT);
    for (int i = 4; i < CONTEXT; i += 9) p->todo[i].token = (p->todo[i].token + 1) % 101;
    bind(p);
    p->twins = twins;
    p->n_twins = CONTEXT;
    p->probe = (sp_probe){.kind = SP_PROBE_DEVIATION, .layer = 1, .deviation = deviation};
}

static double stored_distance(const scene *s, const sp_plan *p, int i)
{
    double sum = 0;
    for (int g = 0; g < 2; g++) {
        float k[2][32], v[2][32];
        for (int x = 0; x < 2; x++) {
            sp_kv_slot slot = {p->spans[x].blocks[i / B], (uint8_t)(i % B), i};
            tiny_kv_read(s->t.pool, 1, &slot, g, k[x], v[x]);
        }
        for (int d = 0; d < 32; d++)
            sum += pow((double)k[0][d] - k[1][d], 2) + pow((double)v[0][d] - v[1][d], 2);
    }
    return sum;
}

static void assert_never_written(const scene *s, const sp_span *span, int layer)
{
    for (int b = 0; b * B < span->n; b++) {
        uint8_t *kv = tiny_block(s->t.pool, layer, span->blocks[b]);
        for (size_t i = 0; i < sp_kv_pool_layer_block_bytes(s->t.pool); i++)
            assert_true(kv[i] == 0);
        free(kv);
    }
}

/* Deviations are the distances of what is stored at the probed layer; no later one is computed. */
static void probe_of_deviation_on(const char *device)
{
    scene s = {0};
    sp_plan other;
    float alone[101], beside[101];
    scene_open(&s, device, "ref");
    ask(&s, &other, 1);
    one_token_alone(&s, &other, alone);
    for (int piece = CONTEXT; piece > 0; piece -= 23) {
        sp_plan p;
        sp_twin twins[CONTEXT];
        float deviation[CONTEXT];
        again(&s, &p, twins, deviation);
        for (int from = 0; from < CONTEXT; from += piece)
            step(&s, &p, from, SP_MIN(piece, CONTEXT - from), &other, beside);
        assert_same_bits(beside, alone, 101);
        for (int i = 0; i < CONTEXT; i++) {
            double want = twins[i].span < 0 ? -1 : stored_distance(&s, &p, i);
            if (!(fabs(deviation[i] - want) <= 1e-5 * fabs(want)))
                fail_msg("token %d: %g, not %g", i, deviation[i], want);
            if (i < 4) assert_true(deviation[i] == 0); /* nothing before it has changed */
            if (i == 4) assert_true(deviation[i] > 0);
        }
        assert_never_written(&s, &p.spans[1], LAST);
        sp_plan_fini(&p);
    }
    sp_plan_fini(&other);
    scene_close(&s);
}

/* numbers_of -- the sum of squares of a token's keys and values in layer 1. */
static double numbers_of(const scene *s, const sp_kv_slot *at)
{
    double sum = 0;
    for (int g = 0; g < 2; g++) {
        float k[32], v[32];
        tiny_kv_read(s->t.pool, 1, at, g, k, v);
        for (int d = 0; d < 32; d++) sum += pow((double)k[d], 2) + pow((double)v[d], 2);
    }
    return sum;
}

/* Of more pairs than a step has rows. */
static void the_distance_of_copies_is_relative_to_the_second(void **state)
{
    enum { TIMES = 12, N = TIMES * CONTEXT };
    scene s = {0};
    sp_plan p;
    sp_twin twins[CONTEXT];
    float deviation[CONTEXT], got;
    sp_kv_slot a[N], b[N];
    double difference = 0, size = 0;
    scene_open(&s, "cpu", "ref");
    again(&s, &p, twins, deviation);
    step(&s, &p, 0, CONTEXT, NULL, NULL);
    for (int i = 0; i < N; i++) {
        const int t = i < N - 9 ? i % CONTEXT : 4; /* the last ones, of a step of their own, differ more */
        a[i] = (sp_kv_slot){p.spans[0].blocks[t / B], (uint8_t)(t % B), t};
        b[i] = (sp_kv_slot){p.spans[1].blocks[t / B], (uint8_t)(t % B), t};
        difference += stored_distance(&s, &p, t);
        size += numbers_of(&s, &b[i]);
    }
    assert_int_equal(sp_engine_kv_distance(s.t.engine, 1, &(sp_kv_pairs){a, b, N}, &got), SP_OK);
    assert_true(difference > 0 && fabs((double)got - sqrt(difference / size)) <= 1e-5);
    assert_int_equal(sp_engine_kv_distance(s.t.engine, 1, &(sp_kv_pairs){a, a, N}, &got), SP_OK);
    assert_true(got == 0);
    assert_int_equal(sp_engine_kv_distance(s.t.engine, LAST, &(sp_kv_pairs){a, b, CONTEXT}, &got), SP_OK);
    assert_true(got == 0); /* the second was never written there */
    sp_plan_fini(&p);
    scene_close(&s);
}

/* Rows that go on when others end move up, and so must what they were rounded to. */
static void rows_behind_a_probe_go_on(void **state)
{
    const sp_ops *ops;
    scene s = {0};
    sp_plan p, other;
    sp_twin twins[CONTEXT];
    float deviation[CONTEXT], alone[101], behind_it[101];
    if (sp_ops_select(PACKING, &ops) != SP_OK) skip();
    scene_open(&s, "cpu", PACKING);
    ask(&s, &other, 1);
    one_token_alone(&s, &other, alone);
    again(&s, &p, twins, deviation);
    sp_slice slices[] = {{&p, 0, CONTEXT, SP_WANT_NONE, NULL},
                         {&other, 0, 1, SP_WANT_LAST, behind_it}};
    assert_int_equal(sp_engine_step(s.t.engine, slices, 2), SP_OK);
    assert_same_bits(behind_it, alone, 101);
    sp_plan_fini(&p);
    sp_plan_fini(&other);
    scene_close(&s);
}

/* Here attention is computed already, and moves with them. The first token of both plans is the same. */
static void rows_behind_a_probe_of_columns_go_on(void **state)
{
    scene s = {0};
    sp_plan p, other;
    float alone[101], behind_it[101];
    scene_open(&s, "cpu", "ref");
    ask(&s, &other, 1);
    one_token_alone(&s, &other, alone);
    for (int layer = 0; layer <= LAST; layer++) {
        float columns[CONTEXT + QUESTION] = {0};
        float *of_span[] = {columns, columns + CONTEXT};
        ask(&s, &p, QUESTION);
        p.probe = (sp_probe){.kind = SP_PROBE_COLUMNS, .layer = layer, .columns = of_span};
        step(&s, &p, 0, 1, NULL, NULL);
        sp_slice slices[] = {{&p, 1, QUESTION - 1, SP_WANT_NONE, NULL}, {&other, 0, 1, SP_WANT_LAST, behind_it}};
        assert_int_equal(sp_engine_step(s.t.engine, slices, 2), SP_OK);
        assert_same_bits(behind_it, alone, 101);
        sp_plan_fini(&p);
    }
    sp_plan_fini(&other);
    scene_close(&s);
}

/* -- every layer ---------------------------------------------------------------------------- */

static void sum_all_mass(void *user, const sp_gate_view *v)
{
    double *sum = user;
    for (int i = 0; i < v->n * 4; i++)
        for (int k = 0; k < 2; k++) sum[k] += (double)v->mass[2 * i + k];
}

/* one_layer -- the columns of one layer, as a probe that ends there. */
static void one_layer(scene *s, int layer, double *sum)
{
    float columns[CONTEXT + QUESTION] = {0}, *of_span[] = {columns, columns + CONTEXT};
    sp_plan p;
    ask(s, &p, QUESTION);
    p.probe = (sp_probe){.kind = SP_PROBE_COLUMNS, .layer = layer, .columns = of_span};
    step(s, &p, 0, QUESTION, NULL, NULL);
    for (int i = 0; i < CONTEXT + QUESTION; i++) sum[i] += (double)columns[i];
    sp_plan_fini(&p);
}

/* Added up over all layers while the plan runs to its end: the last logits are those of a plan that
 * measures nothing. */
static void probe_of_every_layer_on(const char *device)
{
    scene s = {0};
    sp_plan p, other;
    double mass[2] = {0}, want[CONTEXT + QUESTION] = {0};
    float plain[101], measured[101], beside[101];
    scene_open(&s, device, "ref");
    for (int l = 0; l <= LAST; l++) one_layer(&s, l, want);
    ask(&s, &p, QUESTION);
    p.gate = (sp_gate){.after_layer = sum_all_mass, .user = mass, .wants_mass = true};
    sp_slice slice = {&p, 0, QUESTION, SP_WANT_LAST, plain};
    assert_int_equal(sp_engine_step(s.t.engine, &slice, 1), SP_OK);
    sp_plan_fini(&p);
    ask(&s, &other, 1);
    for (int piece = QUESTION; piece > 0; piece -= 5) {
        float columns[CONTEXT + QUESTION] = {0}, *of_span[] = {columns, columns + CONTEXT};
        ask(&s, &p, QUESTION);
        p.probe = (sp_probe){.kind = SP_PROBE_COLUMNS, .layer = SP_EVERY_LAYER, .columns = of_span};
        for (int from = 0; from < QUESTION; from += piece) {
            int n = SP_MIN(piece, QUESTION - from);
            sp_slice two[] = {{&other, 0, 1, SP_WANT_LAST, beside},
                              {&p, from, n, SP_WANT_LAST, measured}};
            assert_int_equal(sp_engine_step(s.t.engine, two, 2), SP_OK);
        }
        assert_same_bits(measured, plain, 101);
        double sum[2] = {0};
        for (int i = 0; i < CONTEXT + QUESTION; i++) {
            sum[i >= CONTEXT] += (double)columns[i];
            assert_true(fabs((double)columns[i] - want[i]) < 1e-4);
        }
        for (int k = 0; k < 2; k++) assert_true(fabs(sum[k] - mass[k]) < 1e-3);
        sp_plan_fini(&p);
    }
    sp_plan_fini(&other);
    scene_close(&s);
}

/* Plans of several probes share the device's room for columns, which has the largest. */
static void the_largest_probe_of_a_step_has_room_for_its_columns(void **state)
{
    static float columns[2][CONTEXT + QUESTION];
    scene s = {0};
    sp_plan p[2];
    scene_open(&s, "far", "ref");
    const size_t own = s.t.engine->columns.n_bytes;
    float *of_span[2][2];
    sp_slice slices[2];
    for (int k = 0; k < 2; k++) {
        ask(&s, &p[k], QUESTION);
        of_span[k][0] = k ? NULL : columns[k]; /* the second measures the question alone */
        of_span[k][1] = columns[k] + CONTEXT;
        p[k].probe = (sp_probe){.kind = SP_PROBE_COLUMNS, .layer = LAST, .columns = of_span[k]};
        slices[k] = (sp_slice){&p[k], 0, QUESTION, SP_WANT_NONE, NULL};
    }
    assert_int_equal(sp_engine_step(s.t.engine, slices, 2), SP_OK);
    assert_true(own == 0 && s.t.engine->columns.n_bytes >= sizeof columns[0]);
    assert_same_bits(columns[0] + CONTEXT, columns[1] + CONTEXT, QUESTION);
    for (int k = 0; k < 2; k++) sp_plan_fini(&p[k]);
    scene_close(&s);
}

#define ON_BOTH_DEVICES(test)                                                                      \
    static void test(void **state)                                                                 \
    {                                                                                              \
        test##_on("cpu");                                                                          \
    }                                                                                              \
    static void test##_far(void **state)                                                           \
    {                                                                                              \
        test##_on("far");                                                                          \
    }

ON_BOTH_DEVICES(probe_of_columns)
ON_BOTH_DEVICES(probe_of_deviation)
ON_BOTH_DEVICES(probe_of_every_layer)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probe_of_columns),          cmocka_unit_test(probe_of_columns_far),
        cmocka_unit_test(probe_of_deviation),        cmocka_unit_test(probe_of_deviation_far),
        cmocka_unit_test(rows_behind_a_probe_go_on), cmocka_unit_test(probe_of_every_layer),
        cmocka_unit_test(probe_of_every_layer_far),
        cmocka_unit_test(columns_of_several_sights_are_the_mass),
        cmocka_unit_test(rows_behind_a_probe_of_columns_go_on),
        cmocka_unit_test(the_largest_probe_of_a_step_has_room_for_its_columns),
        cmocka_unit_test(the_distance_of_copies_is_relative_to_the_second),
    };
    return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}
