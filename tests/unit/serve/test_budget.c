/* How much of a prompt a step computes while others decode. */
#include "support/requests.h"

#include "serve/queue/budget.h"

/* A machine: a step of answers takes decode_us, a token of a prompt row_us, more as its prompt grows. */
typedef struct machine {
    double decode_us, row_us, growth;
} machine;

/* prefill -- a prompt of n tokens beside one answer: the longest step once the budget has seen one, and the steps. */
static double prefill(sp_budget *b, const machine *m, int n, int *n_steps)
{
    double longest = 0;
    *n_steps = 0;
    for (int done = 0; done < n;) {
        int rows = sp_budget_rows(b, 1, SP_MIN(256, n - done), 0);
        double us = m->decode_us + rows * (m->row_us + m->growth * done);
        sp_budget_learn(b, 1, rows, (int64_t)us);
        if (*n_steps > 1) longest = SP_MAX(longest, us);
        done += rows;
        ++*n_steps;
    }
    return longest;
}

static void steps_keep_to_the_target(void **state)
{
    static const machine machines[] = {{24000, 9000, 0.5}, {2000, 100, 0.02}, {10000, 1000, 0}, {50000, 3000, 0.1}};
    for (size_t i = 0; i < SP_COUNT(machines); i++) {
        int n_steps;
        sp_budget b = {.target_us = 60000};
        sp_budget_learn(&b, 1, 0, (int64_t)machines[i].decode_us);
        double longest = prefill(&b, &machines[i], 6600, &n_steps);
        double allowed = SP_MAX(60000, 1.5 * machines[i].decode_us) + machines[i].row_us;
        if (longest > 1.1 * allowed) fail_msg("machine %zu: a step of %.0f us", i, longest);
        double least = 6600 * (machines[i].row_us + machines[i].growth * 3300) / (allowed - machines[i].decode_us);
        if (n_steps > 1.5 * least + 8) fail_msg("machine %zu: %d steps, %.0f would do", i, n_steps, least);
    }
}

static void a_budget_without_a_target_or_answers_has_no_bound(void **state)
{
    sp_budget b = {0};
    sp_budget_learn(&b, 1, 0, 1000000);
    sp_budget_learn(&b, 1, 10, 9000000);
    assert_int_equal(sp_budget_rows(&b, 1, 256, 1000), 256);
    b.target_us = 1;
    assert_int_equal(sp_budget_rows(&b, 0, 256, 1000), 256);
}

static void prompts_never_stand_still(void **state)
{
    sp_budget b = {.target_us = 60000};
    sp_budget_learn(&b, 4, 0, 500000); /* the answers alone take longer */
    sp_budget_learn(&b, 4, 10, 600000);
    assert_int_equal(sp_budget_rows(&b, 4, 256, 0), 25); /* half of 500 ms, 10 ms each */
    sp_budget_learn(&b, 4, 1, 100000000);
    assert_int_equal(sp_budget_rows(&b, 4, 256, 0), 1);
}

static void a_step_grows_at_most_twice(void **state)
{
    sp_budget b = {.target_us = 60000};
    sp_budget_learn(&b, 1, 0, 50000); /* it was held up */
    sp_budget_learn(&b, 1, 4, 5000);
    assert_int_equal(sp_budget_rows(&b, 1, 256, 0), 16);
}

static void an_unknown_machine_begins_with_few_rows(void **state)
{
    sp_budget b = {.target_us = 60000};
    assert_int_equal(sp_budget_rows(&b, 1, 256, 0), 8);
    assert_int_equal(sp_budget_rows(&b, 1, 4, 0), 4);
    assert_int_equal(sp_budget_rows(&b, 1, 256, 1000), 60);
}

/* An answer is generated when a prompt of many tokens comes: with a target its pieces are short, without one and when
 * nobody decodes they fill the step. */
static void a_context_keeps_to_its_gap(void **state)
{
    for (int gap_ms = 0; gap_ms < 2; gap_ms++) {
        sp_context *c = open_with((sp_context_opts){.n_batch = 64, .queue.gap_ms = gap_ms});
        sp_request *r[2] = {submit(c, "0", "Why?", 50)};
        while (r[0]->state != SP_REQ_DECODE) step(c);
        c->step.budget.decode_us = 900; /* of 1000 */
        c->step.budget.row_us = 50;
        r[1] = submit(c, "20120120120120", "Why?", 1);
        step(c);
        assert_int_equal(r[1]->state, SP_REQ_PREFILL);
        int n = r[1]->plans.next_todo;
        assert_int_equal(n, gap_ms ? 9 : 63); /* half of 900 us, 50 us each */
        for (int i = 0; i < 2; i++) sp_request_destroy(run(c, r[i]));
        close_clean(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_keep_to_the_target),
        cmocka_unit_test(a_budget_without_a_target_or_answers_has_no_bound),
        cmocka_unit_test(prompts_never_stand_still),
        cmocka_unit_test(a_step_grows_at_most_twice),
        cmocka_unit_test(an_unknown_machine_begins_with_few_rows),
        cmocka_unit_test(a_context_keeps_to_its_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
