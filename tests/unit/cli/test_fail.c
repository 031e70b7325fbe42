/* test_fail.c -- what a failing command prints: one line for people, and one of JSON for scripts. */
#include "support/caught.h"
#include "support/folder.h"

#include "cli/cli.h"

/* fail_caught -- fails twice, once with an error of the library, and warns. Both texts are in buffers of their own. */
static void fail_caught(const char **shown, const char **json)
{
    static char of_stderr[512], of_stdout[512];
    FILE *err = tmpfile(), *out = tmpfile();
    assert_true(err && out);
    const int err_before = catch(stderr, err), out_before = catch(stdout, out);
    const int code = cli_fail_with("%s is \"missing\"", "x.gguf");
    const int other = cli_fail(sp_fail(SP_E_LIMIT, "too long"));
    cli_warn("careful");
    give_back(stderr, err_before);
    give_back(stdout, out_before);
    assert_true(code == 1 && other == 1);
    read_all(err, of_stderr, sizeof of_stderr);
    read_all(out, of_stdout, sizeof of_stdout);
    *shown = of_stderr;
    *json = of_stdout;
}

static void an_error_is_one_line(void **state)
{
    const char *shown, *json;
    char expected[200];
    fail_caught(&shown, &json);
    snprintf(expected, sizeof expected,
             "spolia: x.gguf is \"missing\"\nspolia: too long (%s)\nspolia: careful\n", sp_error_text(SP_E_LIMIT));
    assert_string_equal(shown, expected);
    assert_string_equal(json, "");
}

/* Warnings are printed nevertheless. */
static void an_error_may_be_kept_instead(void **state)
{
    char line[20] = "";
    const char *shown, *json;
    cli_fail_to(line, sizeof line);
    fail_caught(&shown, &json);
    assert_string_equal(line, "too long (over a li"); /* the last one, cut */
    assert_string_equal(shown, "spolia: careful\n");
    assert_string_equal(json, "");
    cli_fail_with("%d", 7);
    assert_string_equal(line, "7");
    cli_fail_to(NULL, 0);
    fail_caught(&shown, &json);
    assert_non_null(strstr(shown, "spolia: too long"));
}

static void scripts_get_errors_as_json_and_people_still_read_them(void **state)
{
    const char *shown, *json;
    char expected[200];
    cli_fail_as_json(); /* for the rest of the program: the last test */
    fail_caught(&shown, &json);
    snprintf(expected, sizeof expected,
             "{\"error\":{\"code\":\"E_FAILED\",\"message\":\"x.gguf is \\\"missing\\\"\"}}\n"
             "{\"error\":{\"code\":\"E_LIMIT\",\"message\":\"too long (%s)\"}}\n",
             sp_error_text(SP_E_LIMIT));
    assert_string_equal(json, expected);
    assert_non_null(strstr(shown, "spolia: too long"));
    char line[40];
    cli_fail_to(line, sizeof line);
    fail_caught(&shown, &json);
    cli_fail_to(NULL, 0);
    assert_string_equal(json, "");
}

/* Of files about as long as the buffer, and of its doubles: no byte is lost or added. */
static void files_of_any_length_are_read_whole(void **state)
{
    enum { BUFFER = 1 << 16, MOST = 4 * BUFFER + 1 };
    static const size_t lengths[] = {0,          1,          BUFFER - 2,     BUFFER - 1, BUFFER,
                                     BUFFER + 1, 2 * BUFFER - 1, 2 * BUFFER, MOST};
    static char text[MOST];
    char path[200];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i % 23);
    for (size_t i = 0; i < SP_COUNT(lengths); i++) {
        size_t n = 7;
        snprintf(path, sizeof path, "%s/text", (const char *)*state);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(text, 1, lengths[i], f), lengths[i]);
        assert_int_equal(fclose(f), 0);
        char *read = cli_read_file(path, &n);
        assert_non_null(read);
        assert_int_equal(n, lengths[i]);
        assert_memory_equal(read, text, n);
        assert_int_equal(read[n], '\0');
        free(read);
    }
}

static void a_byte_order_mark_is_no_text(void **state)
{
    static const char *const kept[] = {"\xEF\xBB\xBFone", "one", "\xEF\xBB\xBF", "", "\xEF\xBB"},
                      *const read[] = {"one", "one", "", "", "\xEF\xBB"};
    char path[200];
    snprintf(path, sizeof path, "%s/text", (const char *)*state);
    for (size_t i = 0; i < SP_COUNT(kept); i++) {
        FILE *f = fopen(path, "w");
        assert_true(f && fputs(kept[i], f) >= 0 && fclose(f) == 0);
        size_t n = 99;
        char *text = cli_read_text(path, &n);
        assert_string_equal(text, read[i]);
        assert_int_equal(n, strlen(read[i]));
        free(text);
    }
}

/* A missing file, a folder: an error with its name, and no text. */
static void what_cannot_be_read_is_an_error_and_leaks_nothing(void **state)
{
    char paths[2][200], text[512];
    snprintf(paths[0], sizeof paths[0], "%s/missing", (const char *)*state);
    snprintf(paths[1], sizeof paths[1], "%s", (const char *)*state);
    for (int i = 0; i < 2; i++) {
        size_t n = 7;
        FILE *err = tmpfile();
        assert_non_null(err);
        const int before = catch(stderr, err);
        char *read = cli_read_file(paths[i], &n);
        give_back(stderr, before);
        read_all(err, text, sizeof text);
        assert_null(read);
        assert_int_equal(n, 7);
        assert_non_null(strstr(text, paths[i]));
    }
}

/* An answer that could not be printed whole is no success, even where the rest could. */
static void lost_output_is_a_failure(void **state)
{
    assert_int_equal(cli_check_output(0), 0);
    FILE *err = tmpfile();
    char text[512];
    assert_non_null(err);
    const int before = catch(stderr, err);
    cli_lose_output("the answer", "out of memory");
    give_back(stderr, before);
    read_all(err, text, sizeof text);
    assert_string_equal(text, "spolia: the answer: out of memory\n");
    assert_int_equal(cli_check_output(0), 1);
    assert_int_equal(cli_check_output(2), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_is_one_line),
        FOLDER_TEST(files_of_any_length_are_read_whole),
        FOLDER_TEST(a_byte_order_mark_is_no_text),
        FOLDER_TEST(what_cannot_be_read_is_an_error_and_leaks_nothing),
        cmocka_unit_test(lost_output_is_a_failure),
        cmocka_unit_test(an_error_may_be_kept_instead),
        cmocka_unit_test(scripts_get_errors_as_json_and_people_still_read_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
