/* test_json.c -- what is printed as JSON is whole, whichever allocation fails, or an error in its place. */
#include "support/caught.h"

#include <dlfcn.h>

#include "cli/cli.h"
#include "cli/json.h"

typedef void *allocator(size_t);

static int until_failure = -1; /* calls; -1: none fails */

void *malloc(size_t n)
{
    static allocator *next;
    if (!next) next = (allocator *)dlsym(RTLD_NEXT, "malloc");
    if (until_failure >= 0 && until_failure-- == 0) return NULL;
    return next(n);
}

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
        cmocka_unit_test(a_text_that_is_not_utf8_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
