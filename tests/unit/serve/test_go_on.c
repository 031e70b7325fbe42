/* test_go_on.c -- a request that is canceled while a step computes its prompt ends at the next layer, and leaves
 * nothing behind that others could read. */
#include <stdio.h>

#include "support/requests.h"

typedef struct counter {
    int n, last; /* calls; the one that ends it, or -1 */
    sp_request *cancels;
} counter;

static bool go_on(void *user)
{
    counter *k = user;
    bool ends = k->n++ == k->last;
    if (ends && k->cancels) sp_request_cancel(k->cancels);
    return !ends || k->cancels;
}

static sp_request *submit_counted(sp_context *c, const char *order, counter *k)
{
    sp_prompt *p = prompt_of(c, order, "When?");
    sp_request_opts o = {.sampling = sp_sampling_default(),
                         .max_tokens = 6,
                         .ignore_end = true,
                         .go_on = go_on,
                         .user = k};
    sp_request *r;
    assert_ok(sp_request_submit(c, p, &o, &r));
    sp_prompt_destroy(p);
    return r;
}

static const policy policies[] = {{"prefix", 0}, {"full", 0}, {"fusion", 0.5f}, {"craft", 0.5f}, {"blend", 0.5f}};

static void a_prompt_ends_at_any_layer_and_leaves_no_trace(void **state)
{
    for (size_t i = 0; i < SP_COUNT(policies); i++) {
        bool whole = false;
        int last = 0;
        for (; !whole; last++) {
            sp_context *c = open_policy(&policies[i]);
            sp_request_destroy(run(c, submit(c, "10", "Who?", 2)));
            sp_request *want = run(c, submit_counted(c, "201", &(counter){.last = -1}));
            sp_context_forget(c);
            sp_request_destroy(run(c, submit(c, "10", "Who?", 2)));
            counter k = {.last = last};
            sp_request *r = run(c, submit_counted(c, "201", &k));
            whole = sp_request_result(r)->finish != SP_FINISH_CANCELED;
            if (!whole) assert_int_equal(k.n, last + 1); /* it is not asked again */
            if (!whole) assert_int_equal(sp_request_result(r)->n_generated, 0);
            sp_request_destroy(r);
            sp_context_forget(c);
            sp_request_destroy(run(c, submit(c, "10", "Who?", 2)));
            r = run(c, submit_counted(c, "201", &(counter){.last = -1}));
            assert_string_equal(sp_request_result(r)->text, sp_request_result(want)->text);
            sp_request_destroy(r);
            sp_request_destroy(want);
            close_clean(c);
        }
        assert_true(last > 2); /* it was asked before several layers */
    }
}

/* What a cut step has computed is not found by the next request. */
static void what_a_cut_step_computed_is_never_reused(void **state)
{
    for (size_t i = 0; i < SP_COUNT(policies); i++)
        for (int last = 0; last < 12; last++) {
            sp_context *c = open_policy(&policies[i]), *fresh = open_policy(&policies[i]);
            sp_request_destroy(run(c, submit_counted(c, "201", &(counter){.last = last})));
            sp_request *r = run(c, submit_counted(c, "201", &(counter){.last = -1}));
            sp_request *want = run(fresh, submit_counted(fresh, "201", &(counter){.last = -1}));
            if (strcmp(policies[i].name, "prefix") == 0)
                assert_string_equal(sp_request_result(r)->text, sp_request_result(want)->text);
            assert_int_equal(sp_request_result(r)->finish, SP_FINISH_LENGTH);
            sp_request_destroy(r);
            sp_request_destroy(want);
            close_clean(c);
            close_clean(fresh);
        }
}

/* One request of a step ends; the others of the step do not notice. */
static void others_of_the_step_go_on(void **state)
{
    int n_canceled = 0;
    for (int last = 0; last < 8; last++) {
        sp_context *c = open_with((sp_context_opts){.n_batch = 256});
        counter k = {.last = last}, other = {.last = -1};
        sp_request *stays = submit_counted(c, "01", &other);
        sp_request *r = submit_counted(c, "2", &k);
        k.cancels = r;
        while (!done(r) || !done(stays)) step(c);
        sp_request *want = run(c, submit_counted(c, "01", &(counter){.last = -1}));
        assert_string_equal(sp_request_result(stays)->text, sp_request_result(want)->text);
        assert_int_equal(sp_request_result(stays)->n_generated, 6);
        if (k.n == last + 1) assert_int_equal(sp_request_result(r)->finish, SP_FINISH_CANCELED);
        n_canceled += k.n == last + 1;
        sp_request_destroy(r);
        sp_request_destroy(stays);
        sp_request_destroy(want);
        close_clean(c);
    }
    assert_true(n_canceled > 1);
}

static void a_fused_copy_can_be_given_up_and_made_again(void **state)
{
    sp_err err = SP_E_CANCELED;
    for (int last = 0; err == SP_E_CANCELED; last++) {
        sp_context *c = open_with((sp_context_opts){.n_batch = 16});
        sp_prompt *p = prompt_of(c, "021", NULL);
        counter k = {.last = last};
        bool fresh = true;
        err = sp_chunk_fuse_while(c, p, go_on, &k, &fresh);
        if (err != SP_OK) assert_fails(err, SP_E_CANCELED, "chunk");
        assert_int_equal(count_copies(c).n_content < 4, err == SP_E_CANCELED);
        assert_ok(sp_chunk_fuse(c, p, &fresh));
        assert_int_equal(fresh, err == SP_E_CANCELED);
        assert_int_equal(count_copies(c).n_content, 4);
        sp_prompt_destroy(p);
        close_clean(c);
        assert_true(last < 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_ends_at_any_layer_and_leaves_no_trace),
        cmocka_unit_test(what_a_cut_step_computed_is_never_reused),
        cmocka_unit_test(others_of_the_step_go_on),
        cmocka_unit_test(a_fused_copy_can_be_given_up_and_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
