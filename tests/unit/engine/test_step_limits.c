/* test_step_limits.c -- what a step refuses: each limit holds, and one more is named. */
#include "support/check.h"
#include "support/tiny_model.h"

#include "engine/pack.h"
#include "engine/state.h"
#include "kv/plan.h"

enum { ROWS = 8, CONTEXT = 32, SLICES = 8, V = 101 };

typedef struct scene {
    tiny t;
    sp_plan plan;
} scene;

/* scene_open -- a plan of n todo, the last of which has this token and position. */
static void scene_open(scene *s, int n, int32_t token, int32_t pos)
{
    tiny_spec spec = TINY_SPEC_DEFAULT;
    int span, see;
    spec.max_rows = ROWS;
    spec.n_ctx = CONTEXT;
    assert_ok(tiny_open(&s->t, &spec, 5));
    sp_plan_init(&s->plan, s->t.pool);
    assert_ok(sp_plan_add_span(&s->plan, &(sp_span_spec){.n = n, .at = pos + 1 - n}, &span));
    assert_ok(sp_plan_add_sight(&s->plan, NULL, 1, &see));
    for (int i = 0; i < n; i++)
        assert_ok(sp_plan_add_todo(
            &s->plan, (sp_todo){.token = i + 1 < n ? i : token, .pos = pos + 1 - n + i, .index = i}));
    assert_ok(sp_plan_bind(&s->plan));
}

static void scene_close(scene *s)
{
    sp_plan_fini(&s->plan);
    tiny_close(&s->t);
}

static sp_err step(scene *s, int from, int n)
{
    return sp_engine_step(s->t.engine, &(sp_slice){&s->plan, from, n, SP_WANT_NONE, NULL}, 1);
}

static void as_many_rows_as_there_is_room_for(void **state)
{
    for (int n = ROWS; n <= ROWS + 1; n++) {
        scene s;
        scene_open(&s, n, 0, n - 1);
        if (n == ROWS)
            assert_ok(step(&s, 0, n));
        else
            assert_fails(step(&s, 0, n), SP_E_ARG, "9 tokens, at most 8");
        scene_close(&s);
    }
}

static void an_engine_needs_layers_and_room(void **state)
{
    scene s;
    sp_engine *e = NULL;
    scene_open(&s, 1, 0, 0);
    const sp_engine_opts good = s.t.engine->o;
    sp_engine_opts bad[] = {good, good, good};
    bad[0].n_ctx = bad[1].max_rows = bad[2].max_slices = 0;
    for (size_t i = 0; i < SP_COUNT(bad); i++)
        assert_fails(sp_engine_create(&bad[i], &e), SP_E_ARG, "engine: context");
    sp_model vocabulary = s.t.model;
    vocabulary.hp.n_layers = 0;
    sp_engine_opts none = good;
    none.model = &vocabulary;
    assert_fails(sp_engine_create(&none, &e), SP_E_ARG, "holds a vocabulary but no weights");
    assert_null(e);
    scene_close(&s);
}

static void slices_are_parts_of_their_plans(void **state)
{
    static const int bad[][2] = {{0, 0}, {0, 4}, {-1, 2}, {3, 1}, {0, -1}};
    scene s;
    scene_open(&s, 3, 0, 2);
    for (size_t i = 0; i < SP_COUNT(bad); i++)
        assert_fails(step(&s, bad[i][0], bad[i][1]), SP_E_ARG, "slice 0 takes todo");
    sp_slice many[SLICES + 1];
    for (int i = 0; i <= SLICES; i++) many[i] = (sp_slice){&s.plan, 0, 1, SP_WANT_NONE, NULL};
    assert_fails(sp_engine_step(s.t.engine, many, SLICES + 1), SP_E_ARG, "9 slices, at most 8");
    assert_ok(step(&s, 0, 3));
    scene_close(&s);
}

static void a_plan_is_bound_first(void **state)
{
    scene s;
    scene_open(&s, 3, 0, 2);
    s.plan.bound = false;
    assert_fails(step(&s, 0, 3), SP_E_ARG, "slice 0 takes todo");
    s.plan.bound = true;
    assert_ok(step(&s, 0, 3));
    scene_close(&s);
}

static void tokens_and_positions_have_ends(void **state)
{
    static const struct {
        int32_t token, pos;
        sp_err err;
        const char *why;
    } cases[] = {{V - 1, CONTEXT - 1, SP_OK, NULL},
                 {V, 3, SP_E_ARG, "token id 101"},
                 {-1, 3, SP_E_ARG, "token id -1"},
                 {0, CONTEXT, SP_E_CONTEXT, "position 32"}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        scene s;
        scene_open(&s, 2, cases[i].token, cases[i].pos);
        if (cases[i].why)
            assert_fails(step(&s, 0, 2), cases[i].err, cases[i].why);
        else
            assert_ok(step(&s, 0, 2));
        scene_close(&s);
    }
}

/* More tokens than a step has rows move together, each to its own place. */
static void nodes_longer_than_a_step_are_packed(void **state)
{
    enum { NODE = 10 };
    tiny t;
    sp_plan known, p;
    float logits[2][V];
    tiny_spec spec = TINY_SPEC_DEFAULT;
    int span, see;
    spec.max_rows = ROWS;
    spec.n_ctx = CONTEXT;
    assert_ok(tiny_open(&t, &spec, 5));
    sp_plan_init(&known, t.pool);
    for (int i = 0; i < 2; i++) assert_ok(sp_plan_add_span(&known, &(sp_span_spec){.n = NODE, .at = i * NODE}, &span));
    assert_ok(sp_plan_add_sight(&known, NULL, 2, &see));
    for (int i = 0; i < 2 * NODE; i++)
        assert_ok(sp_plan_add_todo(&known, (sp_todo){.token = i * 5, .pos = i, .span = (uint16_t)(i / NODE),
                                                     .index = i % NODE}));
    assert_ok(sp_plan_bind(&known));
    for (int i = 0; i < 2 * NODE; i += 5)
        assert_ok(sp_engine_step(t.engine, &(sp_slice){&known, i, 5, SP_WANT_NONE, NULL}, 1));
    for (int i = 0; i < 2; i++) sp_kv_seal(t.pool, known.spans[i].blocks, 1);
    for (int packs = 0; packs < 2; packs++) {
        sp_plan_init(&p, t.pool);
        for (int i = 0; i < 2; i++)
            assert_ok(sp_plan_add_span(&p, &(sp_span_spec){.n = NODE, .at = i * NODE, .known = known.spans[i].blocks,
                                                           .n_known = NODE, .joined = true}, &span));
        assert_ok(sp_plan_add_span(&p, &(sp_span_spec){.room = 1, .at = 2 * NODE}, &span));
        assert_ok(sp_plan_add_sight(&p, NULL, 3, &see));
        assert_ok(sp_plan_bind(&p));
        const sp_packing what = sp_plan_packing(&p);
        assert_true(what.n_tokens > ROWS);
        if (packs) assert_ok(sp_engine_pack(t.engine, &p, &what));
        assert_ok(sp_plan_grow(&p, 2, 3, 2 * NODE, 0));
        assert_ok(sp_engine_step(t.engine, &(sp_slice){&p, 0, 1, SP_WANT_LAST, logits[packs]}, 1));
        sp_plan_fini(&p);
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    sp_plan_fini(&known);
    tiny_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_rows_as_there_is_room_for),
        cmocka_unit_test(an_engine_needs_layers_and_room),
        cmocka_unit_test(slices_are_parts_of_their_plans),
        cmocka_unit_test(a_plan_is_bound_first),
        cmocka_unit_test(tokens_and_positions_have_ends),
        cmocka_unit_test(nodes_longer_than_a_step_are_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
