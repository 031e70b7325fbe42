/* test_alternative.c -- the alternative path: an exact prefix where one is known, copies of chunks
 * behind it (FusionRAG section 4.1). */
#include "support/check.h"

#include "serve/request/context.h"

#define MODEL "tests/golden/tiny.gguf"

static sp_request *ask(sp_context *c, const char *order, const sp_reuse_opts *reuse, int max_tokens)
{
    static const char *const texts[] = {"Boats leave Velm at nine.", "Torin has two hotels.",
                                        "The Anchor has twelve rooms at the pier."};
    sp_prompt *p;
    sp_request *r;
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_system(p, "Be brief."));
    for (; *order; order++) assert_ok(sp_prompt_chunk(p, "T", texts[*order - '0']));
    if (max_tokens) assert_ok(sp_prompt_question(p, "Where?"));
    assert_ok(sp_generate(c, p,
                          &(sp_request_opts){.sampling = sp_sampling_default(),
                                             .max_tokens = max_tokens,
                                             .reuse = reuse,
                                             .ignore_end = true},
                          &r));
    sp_prompt_destroy(p);
    return r;
}

static void an_exact_prefix_comes_before_copies(void **state)
{
    int n_policies;
    const sp_reuse_info *policies = sp_reuse_policies(&n_policies);
    for (int i = 0; i < n_policies; i++) {
        if (!policies[i].anywhere) continue;
        const sp_reuse_opts prefix = {.policy = "prefix"};
        const sp_reuse_opts first = {.policy = policies[i].name, .recompute = 0.5f, .exact_first = true};
        sp_context *c = NULL;
        assert_ok(sp_context_open(&(sp_context_opts){.model = MODEL, .machine.n_threads = 1}, &c));
        sp_request_destroy(ask(c, "012", &first, 0)); /* a copy of every chunk */
        sp_request *known = ask(c, "01", &prefix, 6); /* an exact prefix of the next one */
        sp_request *same = ask(c, "01", &first, 6), *longer = ask(c, "012", &first, 6);
        const sp_result *a = sp_request_result(known), *b = sp_request_result(same),
                        *l = sp_request_result(longer);
        assert_memory_equal(a->tokens, b->tokens,
                            6 * sizeof *a->tokens); /* exact: nothing mended */
        assert_int_equal(b->n_recomputed, 0);
        assert_int_equal(b->n_computed, b->segments[3].n_tokens);
        for (int s = 1; s <= 2; s++) {
            assert_int_equal(l->segments[s].n_reused, l->segments[s].n_tokens);
            assert_string_equal(l->segments[s].from, "memory");
        }
        /* the third has a copy, and the policy mends that */
        assert_string_equal(l->segments[3].from, "memory");
        assert_int_equal(l->n_recomputed, l->segments[3].n_recomputed);
        sp_request_destroy(known);
        sp_request_destroy(same);
        sp_request_destroy(longer);
        sp_context_close(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_exact_prefix_comes_before_copies)};
    return cmocka_run_group_tests_name("serve/alternative", tests, NULL, NULL);
}
