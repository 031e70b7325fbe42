/* test_json.c -- what is printed as JSON is whole, whichever allocation fails, or an error in its place. */
#include "support/caught.h"
#include "support/failing_malloc.h"

#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/json.h"

/* print -- builds and prints an object; what came on standard output, and on standard error. */
static const char *print(int fails_at, char *said, size_t n)
{
    caught out = catch_begin(stdout), err = catch_begin(stderr);
    until_failure = fails_at;
    json_t *list = json_array();
    for (int i = 0; i < 9; i++) json_array_append_new(list, json_integer(i));
    json_t *o = json_pack("{s:s, s:o}", "text", "boat", "list", list);
    json_object_set_new(o, "more", json_string("quay"));
    cli_print_json(o, JSON_COMPACT);
    until_failure = -1;
    snprintf(said, n, "%s", catch_end(&err));
    return catch_end(&out);
}

static void it_is_whole_or_an_error(void **state)
{
    static const char whole[] = "{\"text\":\"boat\",\"list\":[0,1,2,3,4,5,6,7,8],\"more\":\"quay\"}\n";
    char said[300];
    int n_errors = 0;
    cli_watch_json();
    assert_string_equal(print(-1, said, sizeof said), whole);
    assert_string_equal(said, "");
    assert_int_equal(cli_check_output(0), 0);
    for (int i = 0; i < 60; i++) {
        const char *printed = print(i, said, sizeof said);
        if (!*said) assert_string_equal(printed, whole);
        if (*said) assert_string_equal(printed, "");
        if (*said) assert_string_equal(said, "spolia: the result as JSON: out of memory\n");
        n_errors += *said != '\0';
    }
    assert_true(n_errors > 20 && n_errors < 60); /* so many allocations are needed, and not more */
    assert_int_equal(cli_check_output(0), 1);
    assert_int_equal(cli_check_output(3), 3);
    assert_string_equal(print(-1, said, sizeof said), whole); /* what is printed later is */
}

/* read_back -- a value, or what was said instead. */
static const char *read_back(int fails_at, const char *text, json_t **out)
{
    caught err = catch_begin(stderr);
    until_failure = fails_at;
    *out = cli_read_json("a.json", text, 0);
    until_failure = -1;
    return catch_end(&err);
}

static void what_is_read_is_whole_or_an_error(void **state)
{
    json_t *value;
    int n_errors = 0;
    cli_watch_json();
    for (int i = 0; i < 60; i++) {
        const char *said = read_back(i, "{\"text\": \"a boat and another boat, which leave the quay at nine\"}",
                                     &value);
        if (value) assert_int_equal(json_string_length(json_object_get(value, "text")), 53);
        assert_string_equal(said, value ? "" : "spolia: a.json: out of memory\n");
        n_errors += !value;
        json_decref(value);
    }
    assert_true(n_errors > 3 && n_errors < 60);
    assert_non_null(strstr(read_back(-1, "{\"a\":\n 1", &value), "spolia: a.json: line 2: "));
    assert_null(value);
    assert_non_null(strstr(read_back(-1, "{\"a\": 1", &value), "spolia: a.json: '}' expected"));
}

/* written -- the file's text after a write that may fail. */
static char *written(const char *path, int fails_at, bool *good)
{
    caught err = catch_begin(stderr);
    json_t *value = json_pack("{s:[i, i]}", "new", 1, 2);
    until_failure = fails_at;
    *good = cli_write_json(path, value, JSON_COMPACT);
    until_failure = -1;
    json_decref(value);
    if (!*good) assert_non_null(strstr(catch_end(&err), path));
    else assert_string_equal(catch_end(&err), "");
    return cli_read_file(path, &(size_t){0});
}

static void a_file_is_replaced_or_stays(void **state)
{
    char folder[] = "/tmp/spolia-json-XXXXXX", path[64];
    int n_errors = 0;
    cli_watch_json();
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.json", folder);
    for (int i = 0; i < 30; i++) {
        bool good;
        FILE *f = fopen(path, "w");
        fputs("old", f);
        fclose(f);
        caught out = catch_begin(stdout), err = catch_begin(stderr);
        cli_print_json(json_null(), 0); /* forgets earlier failures */
        catch_end(&err);
        catch_end(&out);
        char *text = written(path, i, &good);
        assert_string_equal(text, good ? "{\"new\":[1,2]}" : "old");
        n_errors += !good;
        free(text);
    }
    assert_true(n_errors > 2 && n_errors < 30);
    char draft[80], *text;
    bool good;
    snprintf(draft, sizeof draft, "%s.new", path);
    assert_int_equal(mkdir(draft, 0700), 0); /* nothing can be written there */
    FILE *f = fopen(path, "w");
    fputs("old", f);
    fclose(f);
    text = written(path, -1, &good);
    assert_false(good);
    assert_string_equal(text, "old");
    free(text);
    assert_int_equal(rmdir(draft), 0);
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

static void a_text_that_is_not_utf8_is_an_error(void **state)
{
    caught out = catch_begin(stdout), err = catch_begin(stderr);
    cli_print_json(json_pack("{s:s}", "file", "caf\xE9"), 0);
    assert_non_null(strstr(catch_end(&err), "not UTF-8"));
    assert_string_equal(catch_end(&out), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_whole_or_an_error),
        cmocka_unit_test(what_is_read_is_whole_or_an_error),
        cmocka_unit_test(a_file_is_replaced_or_stays),
        cmocka_unit_test(a_text_that_is_not_utf8_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
