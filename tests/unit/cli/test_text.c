/* test_text.c -- a text in memory is whole, or there is none: libc's stream loses what does not fit, without error. */
#include "support/check.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"

typedef void *reallocator(void *p, size_t n);

static int until_failure = -1; /* calls; -1: none fails */

void *realloc(void *p, size_t n)
{
    static reallocator *next; /* that of a sanitizer, where there is one */
    if (!next) next = (reallocator *)dlsym(RTLD_NEXT, "realloc");
    if (until_failure >= 0 && until_failure-- == 0) return NULL;
    return next(p, n);
}

static void a_text_is_whole_or_missing(void **state)
{
    char line[301];
    memset(line, 'x', 300);
    line[300] = '\0';
    for (int fails_at = -1; fails_at < 6; fails_at++) {
        char *text = line;
        size_t n = 7;
        FILE *f = cli_text_open(&text, &n);
        assert_non_null(f);
        until_failure = fails_at;
        for (int i = 0; i < 200; i++) fputs(line, f);
        const int rc = fclose(f);
        const bool failed = fails_at >= 0 && until_failure < 0;
        until_failure = -1;
        assert_int_equal(rc, failed ? EOF : 0);
        if (failed) assert_true(text == NULL && n == 0);
        if (!failed) assert_true(n == 200 * 300 && strlen(text) == n && strspn(text, "x") == n);
        assert_true(failed == (fails_at >= 0) || fails_at > 1); /* it grows twice at least */
        free(text);
    }
}

static void an_empty_text_is_a_text(void **state)
{
    char *text;
    size_t n;
    FILE *f = cli_text_open(&text, &n);
    assert_int_equal(fclose(f), 0);
    assert_string_equal(text, "");
    assert_int_equal(n, 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_whole_or_missing),
        cmocka_unit_test(an_empty_text_is_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
