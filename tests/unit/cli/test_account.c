/* The line that a person sees after an answer. */
#include "support/check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/account.h"

/* summary -- what account_summary prints; in a buffer of its own. */
static const char *summary(const sp_result *r, int64_t n_computed)
{
    static char said[512];
    FILE *to = tmpfile();
    assert_non_null(to);
    fflush(stderr);
    const int before = dup(STDERR_FILENO);
    assert_true(before >= 0 && dup2(fileno(to), STDERR_FILENO) >= 0);
    account_summary(r, n_computed);
    fflush(stderr);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    rewind(to);
    const size_t n = fread(said, 1, sizeof said - 1, to);
    said[n] = '\0';
    fclose(to);
    return said;
}

/* What was recomputed takes longer for each token than a prompt does: it is no measure of one. */
static void the_time_without_reuse_is_the_results_estimate(void **state)
{
    const sp_result r = {.policy = "inplace", .n_prompt = 1000, .n_reused = 800, .n_recomputed = 180,
                         .n_computed = 200, .ttft_us = 400000, .cold_us = 1000000};
    assert_non_null(strstr(summary(&r, 300), "first token 400 ms, about 1000 ms without"));
}

static void a_process_that_has_computed_little_says_no_time_without_reuse(void **state)
{
    sp_result r = {.policy = "inplace", .n_prompt = 1000, .n_reused = 900, .n_computed = 100, .ttft_us = 400000,
                   .cold_us = 3000000};
    assert_null(strstr(summary(&r, 100), "without"));
    assert_non_null(strstr(summary(&r, 256), "about 3000 ms without"));
    r.cold_us = 0;
    assert_null(strstr(summary(&r, 1000), "without"));
    r.cold_us = 3000000, r.n_reused = 0;
    assert_null(strstr(summary(&r, 1000), "without"));
    r.n_reused = 99; /* less than a tenth: the estimate may be shorter than what was measured */
    assert_null(strstr(summary(&r, 1000), "without"));
    r.n_reused = 100;
    assert_non_null(strstr(summary(&r, 1000), "without"));
}

static void recomputed_tokens_are_said_if_there_are_any(void **state)
{
    sp_result r = {.policy = "inplace", .n_prompt = 1000, .n_reused = 800, .n_recomputed = 180};
    assert_non_null(strstr(summary(&r, 300), "800 of 1000 tokens reused, 180 recomputed"));
    r.n_recomputed = 0;
    assert_null(strstr(summary(&r, 300), "recomputed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_time_without_reuse_is_the_results_estimate),
        cmocka_unit_test(recomputed_tokens_are_said_if_there_are_any),
        cmocka_unit_test(a_process_that_has_computed_little_says_no_time_without_reuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
