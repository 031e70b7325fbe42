/* test_files.c -- a file of the laboratory is whole, or stays as it is where memory has run out. */
#include "support/caught.h"
#include "support/failing_malloc.h"

#include <math.h>

#include "cli/cli.h"
#include "cli/json.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(json_that_lacks_a_part_is_not_written),
                                       cmocka_unit_test(a_file_that_takes_no_more_is_an_error),
                                       cmocka_unit_test(a_number_that_is_not_finite_is_an_empty_field)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
