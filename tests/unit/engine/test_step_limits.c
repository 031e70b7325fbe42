/* test_step_limits.c -- what a step refuses: each limit holds, and one more is named. */
#include "support/check.h"
#include "support/tiny_model.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_rows_as_there_is_room_for),
        cmocka_unit_test(slices_are_parts_of_their_plans),
        cmocka_unit_test(a_plan_is_bound_first),
        cmocka_unit_test(tokens_and_positions_have_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
