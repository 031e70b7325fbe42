/* test_large_context.c -- prompts that the memory of contexts can never hold are refused: nothing is computed. */
#include "support/folder.h"
#include "support/requests.h"

static sp_context *open_small(const char *dir, const char *decode)
{
    return open_with((sp_context_opts){.reuse.policy = "full",
                                       .decode.how = decode,
                                       .decode.context_bytes = 240 << 10,
                                       .decode.context_dir = dir,
                                       .n_batch = 40});
}

/* most -- tokens that its memory can hold a layer of, at most. */
static int most(const sp_context *c)
{
    return (int)sp_offload_max_context(c->offload) * SP_BLOCK_TOKENS;
}

/* too_long -- the shortest that exceeds it: a question of many words, or a chunk many times. */
static sp_prompt *too_long(sp_context *c, bool repeats)
{
    char order[512] = "", text[2048] = "";
    sp_prompt *p = prompt_of(c, "", "Which?");
    for (size_t i = 0; p->n_tokens <= most(c); i++) {
        assert_true(i < sizeof order - 1);
        sp_prompt_destroy(p);
        order[i] = '2';
        memcpy(text + 3 * i, i % 3 ? "at " : "x, ", 4);
        p = repeats ? prompt_of(c, order, "Which?") : prompt_of(c, "0", text);
    }
    assert_true(p->n_tokens < c->limits.n_ctx);
    return p;
}

static void a_prompt_that_can_never_fit_is_refused_at_once(void **state)
{
    sp_context *c = open_small(*state, NULL);
    sp_prompt *p = too_long(c, false);
    const sp_request_opts o = sampled(2);
    sp_request *r = NULL;
    assert_int_equal(sp_request_submit(c, p, &o, &r), SP_E_LIMIT);
    assert_non_null(strstr(sp_error_detail(), "context memory"));
    assert_null(r);
    assert_null(c->waiting.first);
    sp_prompt_destroy(p);
    r = ask(c, "0123", "Which?", 4);
    assert_ok(sp_request_result(r)->err);
    sp_request_destroy(r);
    sp_context_close(c);
}

/* The same chunk many times is in memory once. */
static void a_repeated_chunk_counts_once(void **state)
{
    sp_context *c = open_small(*state, NULL);
    sp_request *r = run(c, submit_prompt(c, too_long(c, true), 2));
    assert_ok(sp_request_result(r)->err);
    sp_request_destroy(r);
    sp_context_close(c);
}

/* Of two answers each counts what was read from the file for itself. */
static void an_account_has_its_own_bytes_alone(void **state)
{
    sp_context *c = open_small(*state, "sparse:50%,depth=0");
    int64_t sum = 0;
    for (int i = 0; i < 2; i++) {
        sp_request *r = ask(c, "0123", i ? "Who?" : "Which?", 8);
        assert_ok(sp_request_result(r)->err);
        assert_true(sp_request_result(r)->decode.file_bytes > 0);
        sum += sp_request_result(r)->decode.file_bytes;
        sp_request_destroy(r);
    }
    const sp_offload_stats all = sp_offload_stats_of(c->offload);
    assert_true(sum <= all.n_fetched * (int64_t)all.record_bytes);
    sp_context_close(c);
}

/* With a window no token reads all of a layer. */
static void a_window_is_accepted(void **state)
{
    sp_context *c = open_small(*state, "window:64");
    sp_request_destroy(submit_prompt(c, too_long(c, false), 2));
    sp_context_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(a_prompt_that_can_never_fit_is_refused_at_once),
        FOLDER_TEST(a_repeated_chunk_counts_once),
        FOLDER_TEST(an_account_has_its_own_bytes_alone),
        FOLDER_TEST(a_window_is_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
