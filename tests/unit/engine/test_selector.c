/* test_selector.c -- selectors rewrite the spans of a KV head before attention.
 *
 *   returning everything      the same bits as without
 *   dropping a span           the bits of a plan in which that span is out of sight
 *   for one KV head only      the other heads attend as before: attention mass says so
 *   keeping some keys         the bits of a span whose other keys are stale
 *   two requests in a step    each has the spans of its own selector
 */
#include "support/check.h"

#include "support/tiny_model.h"

enum { B = SP_BLOCK_TOKENS, N_SPANS = 3, V = 101, H = 4, G = 2, LAYERS = 3 };

static const int lengths[N_SPANS] = {150, 70, 12}; /* the question is the last */

typedef struct scene {
    tiny t;
    sp_plan known; /* the first two spans, computed */
} scene;

static void add_run(sp_plan *p, int span, int see, int first, int n)
{
    for (int i = 0; i < n; i++)
        assert_ok(sp_plan_add_todo(p, (sp_todo){.token = (first + i) * 7 % V,
                                                .pos = first + i,
                                                .span = (uint16_t)span,
                                                .see = (uint16_t)see,
                                                .index = i}));
}

static void scene_open(scene *s, const char *device, const char *cpu)
{
    tiny_spec spec = TINY_SPEC_DEFAULT;
    int span, see, at = 0;
    spec.device = device;
    spec.cpu = cpu;
    assert_ok(tiny_open(&s->t, &spec, 21));
    sp_plan_init(&s->known, s->t.pool);
    for (int i = 0; i < 2; i++) {
        assert_ok(sp_plan_add_span(&s->known, &(sp_span_spec){.n = lengths[i], .at = at}, &span));
        assert_ok(sp_plan_add_sight(&s->known, NULL, i + 1, &see));
        add_run(&s->known, span, see, at, lengths[i]);
        at += lengths[i];
    }
    assert_ok(sp_plan_bind(&s->known));
    assert_ok(sp_engine_step(s->t.engine,
                             &(sp_slice){&s->known, 0, s->known.n_todo, SP_WANT_NONE, NULL}, 1));
}

static void scene_close(scene *s)
{
    sp_plan_fini(&s->known);
    assert_int_equal(sp_kv_pool_n_free(s->t.pool), sp_kv_pool_n_blocks(s->t.pool));
    tiny_close(&s->t);
}

/* question -- a plan over the known spans; `list`: those in its sight, or NULL for all. */
static void question(scene *s, sp_plan *p, const uint16_t *list, int n_list)
{
    int span, see, at = 0;
    sp_plan_init(p, s->t.pool);
    for (int i = 0; i < 2; i++) {
        assert_ok(sp_plan_add_span(p,
                                   &(sp_span_spec){.n = lengths[i],
                                                   .at = at,
                                                   .known = s->known.spans[i].blocks,
                                                   .n_known = lengths[i]},
                                   &span));
        at += lengths[i];
    }
    assert_ok(sp_plan_add_span(p, &(sp_span_spec){.n = lengths[2], .at = at}, &span));
    assert_ok(sp_plan_add_sight(p, list, list ? n_list : N_SPANS, &see));
    add_run(p, span, see, at, lengths[2]);
    assert_ok(sp_plan_bind(p));
    assert_ok(sp_plan_check(p));
}

static void ask(scene *s, sp_plan *p, float *logits)
{
    assert_ok(
        sp_engine_step(s->t.engine, &(sp_slice){p, 0, p->n_todo, SP_WANT_ALL, logits}, 1));
    sp_plan_fini(p);
}

/* What a selector does, and what it and a gate have seen. */
typedef struct watch {
    int drop_span, of_head; /* of_head -1: of all; drop_span -1: none */
    const sp_span *replace; /* span 0 becomes this one, or NULL */
    int n_calls;
    double mass[G][N_SPANS]; /* of the first layer, by KV head */
} watch;

static void rewrite(void *user, const sp_selector_view *v)
{
    watch *w = user;
    assert_int_equal(v->layer, w->n_calls / G);
    assert_int_equal(v->kv_head, w->n_calls++ % G);
    assert_memory_equal(v->spans, v->plan->spans, N_SPANS * sizeof *v->spans);
    if (w->replace) v->spans[0] = *w->replace;
    if (w->drop_span >= 0 && (w->of_head < 0 || w->of_head == v->kv_head))
        v->spans[w->drop_span].n = 0;
}

static void see_mass(void *user, const sp_gate_view *v)
{
    watch *w = user;
    for (int i = 0; v->layer == 0 && i < v->n * H; i++)
        for (int k = 0; k < N_SPANS; k++)
            w->mass[i % H / (H / G)][k] += (double)v->mass[i * N_SPANS + k];
}

static void compare(const float *a, const float *b, const char *what)
{
    for (int i = 0; i < lengths[2] * V; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s: logit %d is %g, not %g", what, i, (double)a[i], (double)b[i]);
}

static void everything_and_less(scene *s)
{
    static float plain[12 * V], got[12 * V], want[12 * V];
    sp_plan p;
    watch w = {.drop_span = -1};
    question(s, &p, NULL, 0);
    ask(s, &p, plain);
    question(s, &p, NULL, 0);
    p.selector = (sp_selector){rewrite, &w};
    ask(s, &p, got);
    compare(got, plain, "everything");
    assert_int_equal(w.n_calls, LAYERS * G);
    for (int drop = 0; drop < 2; drop++) {
        const uint16_t rest[] = {(uint16_t)(1 - drop), 2};
        w = (watch){.drop_span = drop, .of_head = -1};
        question(s, &p, rest, 2);
        ask(s, &p, want);
        question(s, &p, NULL, 0);
        p.selector = (sp_selector){rewrite, &w};
        ask(s, &p, got);
        compare(got, want, "without a span");
        assert_true(memcmp(got, plain, sizeof got) != 0);
    }
}

/* Each head's mass in the first layer, where nothing has differed yet, is that of its own list. */
static void one_head_alone(scene *s)
{
    static float logits[12 * V];
    sp_plan p;
    watch all = {.drop_span = -1}, one = {.drop_span = 0, .of_head = 1},
          none = {.drop_span = 0, .of_head = -1};
    watch *const cases[] = {&all, &one, &none};
    for (int i = 0; i < 3; i++) {
        question(s, &p, NULL, 0);
        p.selector = (sp_selector){rewrite, cases[i]};
        p.gate = (sp_gate){.after_layer = see_mass, .user = cases[i], .wants_mass = true};
        ask(s, &p, logits);
    }
    assert_memory_equal(one.mass[0], all.mass[0], sizeof one.mass[0]);
    assert_memory_equal(one.mass[1], none.mass[1], sizeof one.mass[1]);
    assert_true(all.mass[1][0] > 0 && one.mass[1][0] == 0);
}

/* Blocks 0, 1, 4 and 9 of span 0, as a span of scattered keys. */
static void some_keys(scene *s)
{
    static const int kept[] = {0, 1, 4, 9};
    static float got[12 * V], want[12 * V];
    uint32_t blocks[SP_COUNT(kept)];
    int32_t pos[SP_COUNT(kept) * B], n = 0;
    sp_plan p;
    bool keeps[150] = {false};
    for (size_t k = 0; k < SP_COUNT(kept); k++) {
        blocks[k] = s->known.spans[0].blocks[kept[k]];
        for (int i = 0; i < B && kept[k] * B + i < lengths[0]; i++)
            keeps[pos[n++] = kept[k] * B + i] = true;
    }
    const sp_span some = {.blocks = blocks, .n = n, .pos = pos};
    watch w = {.drop_span = -1, .replace = &some};
    question(s, &p, NULL, 0);
    for (int i = 0; i < lengths[0]; i++)
        if (!keeps[i]) assert_ok(sp_plan_mark_stale(&p, 0, i));
    ask(s, &p, want);
    question(s, &p, NULL, 0);
    p.selector = (sp_selector){rewrite, &w};
    ask(s, &p, got);
    double nmse = tiny_nmse(got, want, SP_COUNT(got)); /* the sums are cut at other places */
    if (!(nmse < 1e-6)) fail_msg("some keys: NMSE %g", nmse);
}

static void not_with_columns(scene *s)
{
    sp_plan p;
    watch w = {.drop_span = -1};
    float *columns[N_SPANS] = {NULL};
    question(s, &p, NULL, 0);
    p.selector = (sp_selector){rewrite, &w};
    p.probe = (sp_probe){.kind = SP_PROBE_COLUMNS, .layer = 0, .columns = columns};
    assert_fails(
        sp_engine_step(s->t.engine, &(sp_slice){&p, 0, p.n_todo, SP_WANT_NONE, NULL}, 1), SP_E_ARG,
        "a selector and a probe of columns");
    assert_int_equal(w.n_calls, 0);
    sp_plan_fini(&p);
}

/* The step after those of one request: its lists are longer than any before. */
static void side_by_side(scene *s)
{
    static float want[2][12 * V], got[2][12 * V];
    sp_plan p[2];
    watch w[2];
    for (int together = 0; together < 2; together++) {
        for (int i = 0; i < 2; i++) {
            w[i] = (watch){.drop_span = i, .of_head = -1};
            question(s, &p[i], NULL, 0);
            p[i].selector = (sp_selector){rewrite, &w[i]};
            if (!together) ask(s, &p[i], want[i]);
        }
    }
    assert_ok(sp_engine_step(s->t.engine,
                             (sp_slice[]){{&p[0], 0, p[0].n_todo, SP_WANT_ALL, got[0]},
                                          {&p[1], 0, p[1].n_todo, SP_WANT_ALL, got[1]}}, 2));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(w[i].n_calls, LAYERS * G);
        compare(got[i], want[i], "beside another request");
        sp_plan_fini(&p[i]);
    }
    assert_true(memcmp(got[0], got[1], sizeof got[0]) != 0);
}

static void everywhere(void (*check)(scene *s))
{
    static const struct {
        const char *device, *cpu;
    } where[] = {{"cpu", "ref"}, {"cpu", NULL}, {"far", NULL}};
    for (size_t i = 0; i < SP_COUNT(where); i++) {
        scene s;
        scene_open(&s, where[i].device, where[i].cpu);
        check(&s);
        scene_close(&s);
    }
}

static void everything_is_exact_and_less_is_not(void **state)
{
    everywhere(everything_and_less);
}
static void one_head_may_select_alone(void **state)
{
    everywhere(one_head_alone);
}
static void the_selected_keys_are_read(void **state)
{
    everywhere(some_keys);
}
static void requests_of_a_step_select_for_themselves(void **state)
{
    everywhere(side_by_side);
}
static void a_selector_excludes_columns(void **state)
{
    everywhere(not_with_columns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_exact_and_less_is_not),
        cmocka_unit_test(one_head_may_select_alone),
        cmocka_unit_test(the_selected_keys_are_read),
        cmocka_unit_test(requests_of_a_step_select_for_themselves),
        cmocka_unit_test(a_selector_excludes_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
