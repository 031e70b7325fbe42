/* Several tenants in one context: a salt for each prompt. */
#include <stdio.h>

#include "support/requests.h"
#include "support/tiny_model.h"

static const char story[] =
    "The keeper of the lighthouse is called Anna Berg. She came from the north in 1931, by boat.";
static const char edited[] =
    "The keeper of the lighthouse is called Anna Berg. She came from the north in 1950, by train.";

static const sp_reuse_opts full = {.policy = "full"};

/* answer -- a finished request; chunk NULL: the story in a plain message. */
static sp_request *answer(sp_context *c, const char *salt, const char *chunk, const char *question)
{
    sp_prompt *p;
    sp_request *r;
    assert_ok(salt ? sp_prompt_create_for(c, salt, &p) : sp_prompt_create(c, &p));
    assert_ok(sp_prompt_system(p, "S"));
    if (chunk) assert_ok(sp_prompt_chunk(p, NULL, chunk));
    char text[256];
    snprintf(text, sizeof text, "%s\n\n%s", story, question);
    if (!chunk) assert_ok(sp_prompt_cut(p, text, NULL, false));
    assert_ok(chunk ? sp_prompt_question(p, question) : sp_prompt_answer(p));
    sp_request_opts o = {.reuse = &full, .sampling = sp_sampling_default(), .max_tokens = 4, .ignore_end = true};
    assert_ok(sp_generate(c, p, &o, &r));
    sp_prompt_destroy(p);
    return r;
}

typedef struct outcome {
    int n_reused, n_chunks;
    char missed[32];
} outcome;

static outcome outcome_of(sp_context *c, const char *salt, const char *chunk, const char *question)
{
    outcome out = {0};
    sp_request *r = answer(c, salt, chunk, question);
    const sp_result *res = sp_request_result(r);
    for (int i = 0; i < res->n_segments; i++)
        if (strcmp(res->segments[i].kind, "chunk") == 0) {
            out.n_chunks++;
            out.n_reused += res->segments[i].n_reused;
            snprintf(out.missed, sizeof out.missed, "%s", res->segments[i].missed);
        }
    sp_request_destroy(r);
    return out;
}

static void tenants_share_nothing(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    assert_int_equal(outcome_of(c, "red", story, "Who?").n_reused, 0);
    assert_true(outcome_of(c, "red", story, "When?").n_reused > 0);
    const char *const others[] = {"blue", "", "re", NULL};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(outcome_of(c, others[i], NULL, "Who?").n_chunks, 0); /* not known in a text */
        outcome o = outcome_of(c, others[i], story, "Who?");
        assert_int_equal(o.n_reused, 0);
        assert_string_equal(o.missed, "never seen");
        assert_true(outcome_of(c, others[i], story, "Who?").n_reused > 0);
        assert_int_equal(outcome_of(c, others[i], NULL, "Who?").n_chunks, 1);
    }
    close_clean(c);
}

/* An edit is recognised by the first tokens, which another tenant may have cached. */
static void an_edit_reveals_nothing(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    outcome_of(c, NULL, story, "Who?");
    assert_string_equal(outcome_of(c, "blue", edited, "Who?").missed, "never seen");
    assert_string_equal(outcome_of(c, NULL, edited, "Who?").missed, "edited");
    close_clean(c);
}

/* The salt of the context is the default, and naming it is no other tenant. */
static void the_contexts_salt_is_the_default(void **state)
{
    sp_context *c = open_with((sp_context_opts){.salt = "red"});
    outcome_of(c, NULL, story, "Who?");
    assert_true(outcome_of(c, "red", story, "When?").n_reused > 0);
    assert_int_equal(outcome_of(c, "blue", story, "When?").n_reused, 0);
    assert_string_equal(outcome_of(c, "red", edited, "Who?").missed, "edited");
    close_clean(c);
}

/* The next turn of a chat finds the answer of the turn before: its tenant's. */
static void an_answer_is_its_tenants(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    const char *const salts[] = {"red", "blue"};
    int reused[2];
    sp_prompt *p;
    sp_request *first, *r;
    sp_request_opts o = {.sampling = sp_sampling_default(), .max_tokens = 40, .ignore_end = true};
    assert_ok(sp_prompt_create_for(c, "red", &p));
    assert_ok(sp_prompt_text(p, "One two three four five six seven eight nine ten.", false));
    assert_ok(sp_generate(c, p, &o, &first));
    const sp_result *res = sp_request_result(first);
    for (int i = 0; i < 2; i++) {
        sp_prompt *next;
        assert_ok(sp_prompt_create_for(c, salts[i], &next));
        assert_ok(sp_prompt_text(next, "One two three four five six seven eight nine ten.", false));
        assert_ok(sp_prompt_tokens(next, res->tokens, (size_t)res->n_generated - 1));
        assert_ok(sp_prompt_text(next, "And?", false));
        assert_ok(sp_generate(c, next, &o, &r));
        reused[i] = sp_request_result(r)->n_reused;
        sp_request_destroy(r);
        sp_prompt_destroy(next);
    }
    assert_true(reused[0] >= sp_request_result(first)->n_prompt + 16);
    assert_int_equal(reused[1], 0);
    sp_request_destroy(first);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* Unless the request names another one. */
static void a_prompt_is_work_for_the_tenant_of_its_salt(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    sp_share *red;
    sp_request_destroy(answer(c, "red", story, "Who?"));
    assert_ok(sp_shares_join(&c->waiting.shares, "red", &red));
    assert_true(sp_share_served(red) > 0);
    sp_shares_leave(&c->waiting.shares, red);
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tenants_share_nothing),
        cmocka_unit_test(an_edit_reveals_nothing),
        cmocka_unit_test(the_contexts_salt_is_the_default),
        cmocka_unit_test(an_answer_is_its_tenants),
        cmocka_unit_test(a_prompt_is_work_for_the_tenant_of_its_salt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
