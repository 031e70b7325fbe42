/* test_memory.c -- allocations that fail while a body is read and an answer written. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "server/body/fields.h"
#include "server/http/body.h"
#include "server/http/memory.h"

static size_t n_calls, fails_at, most_bytes;

static void *allocate(size_t n)
{
    if (++n_calls == fails_at || n > most_bytes) return NULL;
    return malloc(n);
}

static void begin(size_t at, size_t most)
{
    srv_memory_begin();
    n_calls = 0;
    fails_at = at;
    most_bytes = most;
}

static const char body[] =
    "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"a text that is longer than any first "
    "buffer of a parser is, and so has to grow at least once while it is read\"}], \"seed\": 12345678901234,"
    " \"temperature\": 0.25, \"nul\": \"a\\u0000b\","
    " \"stop\": [\"\\u00e4\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\"]}";

/* dump -- the body as it was read, or NULL: out of memory, as a client is told. */
static char *dump(size_t fails)
{
    srv_fields f;
    begin(fails, SIZE_MAX);
    json_t *o = srv_fields_parse(&f, body, sizeof body - 1);
    if (!o) assert_string_equal(f.why, "out of memory");
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    bool failed = srv_memory_failed();
    json_decref(o);
    srv_memory_end();
    if (!failed) return text;
    free(text);
    return NULL;
}

static void each_allocation_that_fails_is_noted(void **state)
{
    char *whole = dump(0);
    assert_non_null(whole);
    const size_t n = n_calls;
    assert_true(n > 30);
    for (size_t i = 1; i <= n; i++) {
        char *text = dump(i);
        if (text) fail_msg("allocation %zu of %zu fails, and the answer is %s", i, n, text);
    }
    char *again = dump(n + 1);
    assert_string_equal(again, whole);
    free(again);
    free(whole);
}

static void after_a_failure_nothing_is_tried_again(void **state)
{
    const size_t n = 15 << 20;
    char *big = malloc(n + 1);
    srv_fields f;
    memset(big, 'x', n);
    memcpy(big, "{\"a\":\"", 6);
    memcpy(big + n - 2, "\"}", 3);
    begin(0, 1 << 20);
    assert_null(srv_fields_parse(&f, big, n));
    assert_string_equal(f.why, "out of memory");
    assert_true(n_calls < 100);
    srv_memory_end();
    free(big);
}

static void another_request_begins_with_memory(void **state)
{
    begin(1, SIZE_MAX);
    assert_null(json_object());
    assert_null(json_object());
    assert_true(srv_memory_failed());
    begin(0, SIZE_MAX);
    assert_false(srv_memory_failed());
    json_t *o = json_object();
    assert_non_null(o);
    json_decref(o);
    srv_memory_end();
}

static void a_thread_without_a_request_notes_nothing(void **state)
{
    srv_memory_end();
    n_calls = 0;
    fails_at = 1;
    assert_null(json_object());
    json_t *o = json_object();
    assert_non_null(o);
    assert_false(srv_memory_failed());
    json_decref(o);
}

static void a_body_that_memory_lacks_is_refused_and_not_cut_off(void **state)
{
    srv_bodies all = {.most_each = SIZE_MAX / 4, .most_all = SIZE_MAX / 2};
    srv_body b = {.cap = SIZE_MAX / 8, .n = SIZE_MAX / 8 - 1}; /* its double is more than any machine has */
    all.n_all = b.cap;
    assert_true(srv_body_take(&all, &b, "abc", 3, 0));
    assert_int_equal(b.fit, SRV_BODIES_FULL);
    assert_int_equal(all.n_all, 0);
    srv_body_fini(&all, &b);
}

/* Each body has a limit, and all of them one; a refused body is read to its limit, so that its client reads why. */
static void bodies_have_limits_each_and_together(void **state)
{
    srv_bodies all = {.most_each = 10, .most_all = 16};
    srv_body a = {0}, b = {0}, c = {0};
    assert_true(srv_body_take(&all, &a, "12345678", 8, 8) && a.fit == SRV_FITS && a.n == 8);
    assert_int_equal(all.n_all, 9);
    assert_true(srv_body_take(&all, &b, "12345678", 8, 8));
    assert_int_equal(b.fit, SRV_BODIES_FULL);
    assert_true(srv_body_take(&all, &b, "12", 2, 8));
    assert_false(srv_body_take(&all, &b, "1", 1, 8));
    assert_int_equal(all.n_all, 9);
    assert_true(srv_body_take(&all, &a, "12", 2, 8) && a.fit == SRV_BODIES_FULL); /* longer than announced: it grows */
    assert_int_equal(all.n_all, 0);
    assert_true(srv_body_take(&all, &c, "1234567890", 10, 10) && c.fit == SRV_FITS);
    assert_true(srv_body_take(&all, &c, "1", 1, 10) && c.fit == SRV_BODY_TOO_LONG);
    assert_int_equal(all.n_all, 0);
    srv_body_fini(&all, &c);
}

int main(void)
{
    srv_memory_open(allocate);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_that_fails_is_noted),
        cmocka_unit_test(after_a_failure_nothing_is_tried_again),
        cmocka_unit_test(another_request_begins_with_memory),
        cmocka_unit_test(a_thread_without_a_request_notes_nothing),
        cmocka_unit_test(a_body_that_memory_lacks_is_refused_and_not_cut_off),
        cmocka_unit_test(bodies_have_limits_each_and_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
