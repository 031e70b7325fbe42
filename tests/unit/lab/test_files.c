/* test_files.c -- a file of the laboratory is whole, or stays as it is where memory has run out. */
#include "support/caught.h"
#include "support/failing_malloc.h"

#include <math.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "cli/json.h"
#include "lab/eval/csv.h"
#include "lab/files.h"

static void json_that_lacks_a_part_is_not_written(void **state)
{
    char path[] = "/tmp/spolia-lab-XXXXXX";
    int n_errors = 0;
    cli_watch_json();
    close(mkstemp(path));
    for (int i = -1; i < 40; i++) {
        caught err = catch_begin(stderr);
        size_t n;
        until_failure = i;
        json_t *list = json_array();
        for (int k = 0; k < 9; k++) json_array_append_new(list, json_integer(k));
        const bool good = lab_json_write(path, list, JSON_COMPACT);
        until_failure = -1;
        json_decref(list);
        if (good) assert_string_equal(catch_end(&err), "");
        else assert_non_null(strstr(catch_end(&err), path));
        char *text = cli_read_file(path, &n);
        assert_string_equal(text, "[0,1,2,3,4,5,6,7,8]");
        free(text);
        n_errors += !good;
    }
    assert_true(n_errors > 10 && n_errors < 40);
    unlink(path);
}

static void a_file_that_takes_no_more_is_an_error(void **state)
{
    json_t *list = json_array();
    caught err = catch_begin(stderr);
    const bool good = lab_json_write("/dev/full", list, JSON_COMPACT);
    assert_non_null(strstr(catch_end(&err), "/dev/full: cannot be written"));
    assert_false(good);
    json_decref(list);
}

static void a_number_that_is_not_finite_is_an_empty_field(void **state)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    const double v[] = {1.5, INFINITY, NAN, -INFINITY, -2};
    for (size_t i = 0; i < 5; i++) {
        if (i) fputc(',', f);
        lab_csv_number(f, v[i]);
    }
    fclose(f);
    assert_string_equal(text, "1.5,,,,-2");
    free(text);
}

enum { QUESTIONS = 3 };

static json_t *write_rows(const char *path)
{
    static char text[] = "a text that is longer than the first room for a line, with commas, quotes \", and so on";
    json_t *settings = json_pack("{s:i}", "version", 1);
    eval_csv c;
    assert_true(eval_csv_open(path, settings, 1, true, &c));
    for (int i = 0; i < QUESTIONS; i++) {
        char id[8];
        snprintf(id, sizeof id, "q%d", i);
        eval_row row = {.text = {id, text, text, text, text}};
        assert_true(eval_csv_add(&c, &row));
    }
    eval_csv_close(&c);
    return settings;
}

/* continue_rows -- in a process of its own, whose allocation `at` fails; *good: it would go on after the last row. */
static void continue_rows(const char *path, json_t *settings, int at, bool *good)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        eval_csv c;
        until_failure = at;
        const bool opened = eval_csv_open(path, settings, 1, false, &c);
        until_failure = -1;
        _exit(opened && c.n == QUESTIONS ? 0 : opened ? 2 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    *good = WEXITSTATUS(status) == 0;
}

/* Rows that are not read are no reason to cut the file. */
static void rows_outlive_a_lack_of_memory(void **state)
{
    char path[] = "/tmp/spolia-lab-XXXXXX";
    size_t n, n_before;
    int n_errors = 0;
    cli_watch_json();
    close(mkstemp(path));
    json_t *settings = write_rows(path);
    char *before = cli_read_file(path, &n_before);
    caught err = catch_begin(stderr);
    for (int i = -1; i < 60; i++) {
        bool good;
        continue_rows(path, settings, i, &good);
        n_errors += !good;
        char *after = cli_read_file(path, &n);
        assert_string_equal(after, before);
        free(after);
    }
    catch_end(&err);
    assert_in_range(n_errors, 10, 59);
    free(before);
    json_decref(settings);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(json_that_lacks_a_part_is_not_written),
                                       cmocka_unit_test(a_file_that_takes_no_more_is_an_error),
                                       cmocka_unit_test(a_number_that_is_not_finite_is_an_empty_field),
                                       cmocka_unit_test(rows_outlive_a_lack_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
