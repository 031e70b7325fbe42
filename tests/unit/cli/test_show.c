/* test_show.c -- texts of files and models on a terminal: what is not printed, how wide they are; sizes. */
#include "cli/show.h"

#include <pty.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>

#include "cli/text.h"
#include "support/check.h"

static void assert_line(const char *text, int width, const char *want)
{
    char *got = show_copy(text, width);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

static void assert_text(const char *text, size_t n, const char *want)
{
    char *got = NULL;
    size_t n_got;
    FILE *f = cli_text_open(&got, &n_got);
    assert_non_null(f);
    show_text(f, text, n);
    assert_int_equal(fclose(f), 0);
    assert_string_equal(got, want);
    free(got);
}

/* Escapes, and marks that turn the direction or end a line; joiners and soft hyphens stay. */
static void what_a_terminal_obeys_is_not_printed(void **state)
{
    assert_text("a\x1b[31mb\n\tc\0d", 12, "a\uFFFD[31mb\n\tc\uFFFDd");
    assert_text("\u202Ea\u2028b\u2029\u200Bc", 15, "\uFFFDa\uFFFDb\uFFFD\uFFFDc");
    assert_text("\u200C\u200D\u00ADx\xFFy", 11, "\u200C\u200D\u00ADx\uFFFDy");
}

static void lines_are_as_wide_as_they_are_shown(void **state)
{
    assert_int_equal(show_columns("東京 a\n\x1b"), 8);
    assert_line("abc", 0, "abc");
    assert_line("abc", 3, "abc");
    assert_line("abcd", 3, "ab\u2026");
    assert_line("abc", 5, "abc  ");
    assert_line("a\nb\tc", 0, "a b c");
    assert_line("東京都", 4, "東\u2026 ");
}

static void sizes_have_three_digits(void **state)
{
    static const struct {
        int64_t bytes;
        const char *want;
    } cases[] = {{0, "0 bytes"},       {1023, "1023 bytes"},     {1024, "1.0 KiB"},
                 {51200, "50.0 KiB"},  {102400, "100 KiB"},     {1536 << 10, "1.5 MiB"}, {INT64_C(3) << 30, "3.0 GiB"},
                 {INT64_C(5) << 40, "5.0 TiB"}, {INT64_C(5000) << 40, "5000 TiB"}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char text[SHOW_SIZE];
        assert_string_equal(show_size(text, cases[i].bytes), cases[i].want);
    }
}

/* Dim text is for terminals that can show it, and for people who want it. */
static void colours_can_be_refused(void **state)
{
    int outside, inside;
    assert_int_equal(openpty(&outside, &inside, NULL, NULL, NULL), 0);
    FILE *terminal = fdopen(inside, "w"), *file = tmpfile();
    assert_true(terminal && file);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    assert_string_equal(show_dim(terminal), "\033[2m");
    assert_string_equal(show_plain(terminal), "\033[0m");
    assert_string_equal(show_dim(file), "");
    setenv("NO_COLOR", "", 1);
    assert_string_equal(show_dim(terminal), "\033[2m");
    setenv("NO_COLOR", "1", 1);
    assert_string_equal(show_dim(terminal), "");
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    assert_string_equal(show_dim(terminal), "");
    fclose(terminal);
    fclose(file);
    close(outside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_terminal_obeys_is_not_printed),
        cmocka_unit_test(lines_are_as_wide_as_they_are_shown),
        cmocka_unit_test(sizes_have_three_digits),
        cmocka_unit_test(colours_can_be_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
