/* test_json.c -- JSON is read whole, or memory was missing: whichever allocation of jansson's fails, it neither goes
 * on with a text that lost a byte nor keeps what it had. */
#include "support/check.h"
#include "support/failing_json.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* write_hostile -- strings of all lengths up to 70, so that some end, and some have a backslash, where the buffer of
 * jansson's lexer grows; numbers of up to 40 digits; names, lists, an object in an object. */
static void write_hostile(char *out, size_t size)
{
    static const char letters[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    size_t n = (size_t)snprintf(out, size, "{\"outer\": {\"inner\": [[1, 2.5], {\"a\": null}]}, \"list\": [1");
    for (int i = 0; i < 70; i++)
        n += (size_t)snprintf(out + n, size - n, ", \"%.*s\\u00e4\\n\\\"%.*s\"", i, letters,
                              2 * (i % 3), "\\\\\\\\");
    for (int i = 1; i < 40; i++) n += (size_t)snprintf(out + n, size - n, ", 0.%0*d", i, 7);
    snprintf(out + n, size - n, "]}");
}

static void assert_no_memory(const json_t *j, const json_error_t *why)
{
    assert_null(j);
    assert_string_equal(why->text, "out of memory");
    assert_int_equal(sp_json_code(why, SP_E_FORMAT), SP_E_NOMEM);
}

static void it_is_whole_or_memory_was_missing(void **state)
{
    char text[16384];
    json_error_t why;
    write_hostile(text, sizeof text);
    sp_json_watch(json_allocate);
    json_t *whole = sp_json_load(text, strlen(text), 0, &why), *again = NULL;
    assert_int_equal(json_array_size(json_object_get(whole, "list")), 1 + 70 + 39);
    const size_t used = mallinfo2().uordblks;
    int n = 0;
    for (; !again; n++) {
        until_failure = n;
        again = sp_json_load(text, strlen(text), 0, &why);
        if (!again) assert_no_memory(again, &why);
    }
    until_failure = -1;
    assert_true(n > 2 * 70 + 39);
    assert_true(json_equal(whole, again));
    for (int i = 0; i < 1000; i++) json_decref(sp_json_load(text, strlen(text), 0, &why));
    assert_true(mallinfo2().uordblks < used + 100000); /* `again`, and what malloc keeps for itself */
    json_decref(whole);
    json_decref(again);
}

static void so_is_that_of_a_file(void **state)
{
    char text[16384], path[] = "/tmp/spolia-json-XXXXXX";
    json_error_t why;
    write_hostile(text, sizeof text);
    const int fd = mkstemp(path);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    sp_json_watch(json_allocate);
    json_t *j = NULL;
    for (int n = 0; !j; n++) {
        until_failure = n;
        j = sp_json_load_file(path, 0, &why);
        if (!j) assert_no_memory(j, &why);
    }
    until_failure = -1;
    assert_int_equal(json_array_size(json_object_get(j, "list")), 1 + 70 + 39);
    json_decref(j);
    unlink(path);
    assert_null(sp_json_load_file(path, 0, &why));
    assert_non_null(strstr(why.text, path));
    assert_int_equal(sp_json_code(&why, SP_E_IO), SP_E_IO);
}

static void read_inside(void *user)
{
    json_error_t why;
    json_t **out = user;
    out[0] = json_string("before");
    until_failure = 3;
    out[1] = sp_json_load("[\"inside\"]", 10, 0, &why);
    until_failure = -1;
    out[2] = json_string("after");
}

static void read_on(void *user)
{
    json_t **out = user;
    read_inside(out);
    until_failure = 0;
    out[2] = json_string("more than there is memory for");
}

/* The outer one is left, too, where memory ends after the inner one: nothing of it is kept. */
static void a_reading_is_watched_after_one_inside_it(void **state)
{
    json_t *out[3];
    sp_json_watch(json_allocate);
    for (int i = 0; i < 100; i++) {
        assert_false(sp_json_whole(read_on, out));
        until_failure = -1;
    }
}

/* What fails inside another reading ends that one alone. */
static void readings_inside_each_other(void **state)
{
    json_t *out[3];
    sp_json_watch(json_allocate);
    assert_true(sp_json_whole(read_inside, out));
    assert_string_equal(json_string_value(out[0]), "before");
    assert_null(out[1]);
    assert_string_equal(json_string_value(out[2]), "after");
    json_decref(out[0]);
    json_decref(out[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_whole_or_memory_was_missing),
        cmocka_unit_test(so_is_that_of_a_file),
        cmocka_unit_test(readings_inside_each_other),
        cmocka_unit_test(a_reading_is_watched_after_one_inside_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
