/* test_sharing.c -- eight requests at once that share chunks, under every chunk policy: each
 * answers as it does alone, whoever else comes and goes. This is the test to run under
 * ThreadSanitizer. */
#include <stdio.h>

#include "support/requests.h"

static const char *const orders[] = {"012", "210", "120", "012", "02", "1022", "31", "0"};
enum { N = SP_COUNT(orders), ANSWER = 10 };

static sp_context *open_shared(const policy *p)
{
    return open_with((sp_context_opts){.reuse = {.policy = p->name, .recompute = p->recompute},
                                       .machine.n_threads = 4,
                                       .n_batch = 24});
}

static const char *question(int k)
{
    return k % 2 ? "Why?" : "How many people live there?";
}

/* all_at_once -- strangers come between the eight, and are canceled in the middle of it. */
static void all_at_once(sp_context *c, const sp_request **out)
{
    sp_request *r[N], *strangers[3];
    for (int k = 0; k < N; k++) {
        r[k] = submit(c, orders[k], question(k), ANSWER);
        if (k % 3 == 1) strangers[k / 3] = submit(c, k == 4 ? "2013" : "201", "Who?", 30);
    }
    for (int i = 0; i < 4; i++) {
        step(c);
        if (i > 0) sp_request_cancel(strangers[i - 1]);
    }
    for (int k = 0; k < N; k++) out[k] = run(c, r[k]);
    for (int k = 0; k < 3; k++) {
        run(c, strangers[k]);
        assert_int_equal(sp_request_result(strangers[k])->finish, SP_FINISH_CANCELED);
        sp_request_destroy(strangers[k]);
    }
    for (int k = 0; k < N; k++) {
        assert_int_equal(sp_request_result(out[k])->n_generated, ANSWER);
        assert_adds_up(sp_request_result(out[k]));
    }
}

static void assert_same_tokens(const sp_request *r, const int32_t *tokens)
{
    assert_memory_equal(sp_request_result(r)->tokens, tokens, ANSWER * sizeof *tokens);
}

static void one_by_one(sp_context *c, int32_t tokens[N][ANSWER])
{
    for (int k = 0; k < N; k++) {
        sp_request *r = ask(c, orders[k], question(k), ANSWER);
        memcpy(tokens[k], sp_request_result(r)->tokens, sizeof tokens[k]);
        sp_request_destroy(r);
    }
}

static void destroy_all(const sp_request **r)
{
    for (int k = 0; k < N; k++) sp_request_destroy((sp_request *)r[k]);
}

static void requests_answer_as_alone(void **state)
{
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++) {
        int32_t alone_tokens[N][ANSWER];
        const sp_request *r[N];
        sp_context *c = open_shared(&how);
        one_by_one(c, alone_tokens);
        sp_context_forget(c);
        for (int round = 0; round < 2; round++) { /* all cold, all warm */
            all_at_once(c, r);
            for (int k = 0; k < N; k++) assert_same_tokens(r[k], alone_tokens[k]);
            destroy_all(r);
        }
        close_clean(c);
    }
}

/* What Cache-Craft answers depends on the variants that it has. Asked for the same prompts again
 * and again it comes to have all that it can use; from then on it answers the same. (Tokens are
 * not dropped here: which ones are depends on the piece of the prompt that the question is
 * computed in.) */
static void craft_answers_as_alone(void **state)
{
    for (int share = 0; share <= 2; share++) {
        int32_t tokens[N][ANSWER];
        const sp_request *r[N];
        sp_context *c = open_with((sp_context_opts){
            .reuse = {.policy = share ? "craft:focus=0" : "craft", .recompute = 0.25f * (float)share},
            .machine.n_threads = 4,
            .n_batch = 24});
        int64_t before = -1, now = 0;
        for (int round = 0; now != before; round++) {
            before = now;
            one_by_one(c, tokens);
            sp_request_destroy(ask(c, "201", "Who?", 2));
            sp_request_destroy(ask(c, "2013", "Who?", 2));
            now = sp_context_describe(c).cached_segments;
            assert_in_range(round, 0, 20);
        }
        for (int round = 0; round < 2; round++) {
            all_at_once(c, r);
            for (int k = 0; k < N; k++) assert_same_tokens(r[k], tokens[k]);
            destroy_all(r);
        }
        assert_int_equal(sp_context_describe(c).cached_segments, now);
        close_clean(c);
    }
}

/* Cold, with variants that come into being while others choose. */
static void craft_shares_from_nothing(void **state)
{
    const sp_request *r[N];
    sp_context *c = open_shared(&(policy){"craft", 0.5f});
    for (int round = 0; round < 3; round++) {
        all_at_once(c, r);
        destroy_all(r);
    }
    close_clean(c);
}

/* Each request names a policy of its own; they share what they can. */
static void all_policies_run_at_once(void **state)
{
    int n_all;
    const sp_reuse_info *all = sp_reuse_policies(&n_all);
    sp_context *c = open_with((sp_context_opts){.machine.n_threads = 4, .n_batch = 24});
    for (int round = 0; round < 3; round++) {
        sp_request *r[N];
        for (int k = 0; k < N; k++) {
            const sp_reuse_opts reuse = {.policy = all[(k + round * N) % n_all].name, .recompute = 0.25f};
            sp_request_opts o = {.reuse = &reuse,
                                 .sampling = sp_sampling_default(),
                                 .max_tokens = ANSWER,
                                 .ignore_end = true};
            o.sampling.temperature = 1;
            o.sampling.seed = 7;
            sp_prompt *p = prompt_of(c, orders[(k + round) % N], question(k));
            assert_ok(sp_request_submit(c, p, &o, &r[k]));
            sp_prompt_destroy(p);
        }
        for (int k = 0; k < N; k++) {
            run(c, r[k]);
            assert_int_equal(sp_request_result(r[k])->n_generated, ANSWER);
            assert_adds_up(sp_request_result(r[k]));
        }
        for (int k = 0; k < N; k++) { /* what is exact is exact in any company */
            static const policy off = {"off", 0};
            if (!all[(k + round * N) % n_all].exact) continue;
            assert_text(r[k], alone(&off, orders[(k + round) % N], question(k), ANSWER));
        }
        for (int k = 0; k < N; k++) sp_request_destroy(r[k]);
    }
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_answer_as_alone),
        cmocka_unit_test(craft_answers_as_alone),
        cmocka_unit_test(craft_shares_from_nothing),
        cmocka_unit_test(all_policies_run_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
