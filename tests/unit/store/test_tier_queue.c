/* test_tier_queue.c -- operations that wait for a tier: their order, and how they end without it. */
#include "support/check.h"

#include "store/tier_type.h"

/* A tier that has not come to its operations yet. */
typedef struct busy_tier {
    sp_tier base; /* first */
    sp_op_queue queue;
} busy_tier;

static sp_op_queue *queue_of(sp_tier *t, sp_tier_verb verb)
{
    SP_UNUSED(verb);
    return &((busy_tier *)t)->queue;
}

static const sp_tier_type busy = {.name = "busy", .queue_of = queue_of};

static void busy_begin(busy_tier *t)
{
    t->base.type = &busy;
    assert_ok(sp_op_queue_init(&t->queue));
}

/* submit -- an operation that is known by its number of layers. */
static sp_tier_op *submit(busy_tier *t, int number, bool urgent)
{
    sp_tier_op *op;
    assert_ok(sp_tier_submit(
        &t->base, &(sp_tier_job){.verb = SP_TIER_GET, .n_layers = number, .urgent = urgent}, &op));
    return op;
}

/* next -- the number of the one that the tier runs now; 0: none. */
static int next(busy_tier *t)
{
    sp_tier_op *op = sp_op_queue_pop(&t->queue, false);
    const int number = op ? op->job.n_layers : 0;
    if (op) sp_tier_op_finish(op, SP_OK);
    return number;
}

/* What a request waits for goes before what is loaded ahead. */
static void urgent_operations_go_first(void **state)
{
    static const bool urgent[] = {false, true, false, true, false};
    static const int order[] = {2, 4, 1, 3, 5, 0};
    sp_tier_op *ops[SP_COUNT(urgent)];
    busy_tier t;
    (void)state;
    busy_begin(&t);
    for (int i = 0; i < (int)SP_COUNT(urgent); i++) ops[i] = submit(&t, i + 1, urgent[i]);
    for (size_t i = 0; i < SP_COUNT(order); i++) assert_int_equal(next(&t), order[i]);
    for (size_t i = 0; i < SP_COUNT(urgent); i++) {
        assert_true(sp_tier_op_is_done(ops[i]));
        sp_tier_op_release(ops[i]);
    }
    sp_op_queue_fini(&t.queue);
}

static void a_withdrawn_operation_ends_at_once(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        sp_tier_op *ops[4];
        busy_tier t;
        busy_begin(&t);
        for (int i = 0; i < 3; i++) ops[i] = submit(&t, i + 1, false);
        sp_tier_op_withdraw(ops[which]);
        assert_true(sp_tier_op_is_done(ops[which]));
        assert_fails(sp_tier_op_result(ops[which]), SP_E_CANCELED, "cancelled");
        ops[3] = submit(&t, 4, false);
        for (int i = 0; i < 4; i++)
            if (i != which) assert_int_equal(next(&t), i + 1);
        assert_int_equal(next(&t), 0);
        for (int i = 0; i < 4; i++) sp_tier_op_release(ops[i]);
        sp_op_queue_fini(&t.queue);
    }
}

static int n_listed;

static sp_err cancel_second(void *user, const sp_tier_info *info)
{
    SP_UNUSED(info);
    if (++n_listed == 2) sp_tier_op_cancel(*(sp_tier_op **)user);
    return SP_OK;
}

static void a_list_ends_when_nobody_wants_it(void **state)
{
    static const sp_tier_info infos[5];
    sp_tier_op *op;
    busy_tier t;
    (void)state;
    busy_begin(&t);
    n_listed = 0;
    assert_ok(sp_tier_submit(&t.base, &(sp_tier_job){.verb = SP_TIER_LIST, .each = cancel_second, .user = &op}, &op));
    assert_ptr_equal(sp_op_queue_pop(&t.queue, false), op);
    const sp_err err = sp_tier_op_list(op, infos, SP_COUNT(infos));
    assert_int_equal(err, SP_E_CANCELED);
    assert_int_equal(n_listed, 2);
    sp_tier_op_finish(op, err);
    sp_tier_op_release(op);
    sp_op_queue_fini(&t.queue);
}

/* All of them or none: a caller that gets an error has nothing to wait for. */
static void several_operations_are_submitted_together(void **state)
{
    const sp_tier_job jobs[3] = {{.verb = SP_TIER_DROP, .n_layers = 1},
                                 {.verb = SP_TIER_DROP, .n_layers = 2},
                                 {.verb = SP_TIER_DROP, .n_layers = 3}};
    sp_tier_op *ops[3];
    busy_tier t;
    (void)state;
    busy_begin(&t);
    assert_survives_faults(sp_tier_submit_all(&t.base, jobs, 3, ops), next(&t) == 0);
    for (int i = 0; i < 3; i++) assert_int_equal(next(&t), i + 1);
    for (int i = 0; i < 3; i++) sp_tier_op_release(ops[i]);
    sp_op_queue_fini(&t.queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urgent_operations_go_first),
        cmocka_unit_test(a_withdrawn_operation_ends_at_once),
        cmocka_unit_test(a_list_ends_when_nobody_wants_it),
        cmocka_unit_test(several_operations_are_submitted_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
