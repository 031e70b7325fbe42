/* test_err.c -- errors, their details, and the log. */
#include "support/check.h"

#include <pthread.h>
#include <stdio.h>

#include "base/log.h"

/* -- errors --------------------------------------------------------------------------------- */

static void every_code_has_a_text_of_its_own(void **state)
{
    static const sp_err codes[] = {
#define X(name, value, text) SP_##name,
        SP_ERRORS(X)
#undef X
    };
    for (size_t i = 0; i < SP_COUNT(codes); i++) {
        assert_int_equal(codes[i], -(int)i); /* part of the binary interface: without gaps */
        assert_true(strlen(sp_error_text(codes[i])) > 0);
        assert_string_not_equal(sp_error_text(codes[i]), "unknown error");
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(sp_error_text(codes[i]), sp_error_text(codes[j]));
    }
    assert_string_equal(sp_error_text((sp_err)-99), "unknown error");
    assert_string_equal(sp_error_text((sp_err)1), "unknown error");
}

static void a_failure_says_what_failed(void **state)
{
    assert_int_equal(sp_fail(SP_E_FORMAT, "%s: field %d", "file", 7), SP_E_FORMAT);
    assert_string_equal(sp_error_detail(), "file: field 7");
    assert_int_equal(sp_fail_in(SP_E_FORMAT, "model %s", "m"), SP_E_FORMAT);
    assert_string_equal(sp_error_detail(), "model m: file: field 7");
    assert_int_equal(sp_fail_nomem("a thing"), SP_E_NOMEM);
    assert_string_equal(sp_error_detail(), "cannot allocate memory for a thing");
}

/* A name from a file may have any byte. */
static void a_failure_is_one_line_without_control_characters(void **state)
{
    assert_int_equal(sp_fail(SP_E_FORMAT, "%s", "a\nb\x1b[31m\x7f \xc3\xa9"), SP_E_FORMAT);
    assert_string_equal(sp_error_detail(), "a?b?[31m? \xc3\xa9");
    assert_int_equal(sp_fail_in(SP_E_FORMAT, "in\t%s", "c\r\n"), SP_E_FORMAT);
    assert_string_equal(sp_error_detail(), "in?c??: a?b?[31m? \xc3\xa9");
}

/* The size is that of the allocation that failed before, once. */
static void a_lack_of_memory_names_its_size(void **state)
{
    const size_t huge = (size_t)PTRDIFF_MAX + 1;
    for (int kind = 0; kind < 5; kind++) {
        sp_fault_after(kind < 4 ? 0 : -1);
        void *p = kind == 0   ? sp_alloc(41, 3)
                  : kind == 1 ? sp_alloc_zero(3, 41)
                  : kind == 2 ? sp_resize(NULL, 123, 1)
                  : kind == 3 ? sp_alloc_aligned(123)
                              : sp_pages_alloc(huge);
        sp_fault_after(-1);
        assert_null(p);
        char text[80];
        snprintf(text, sizeof text, "cannot allocate %zu bytes for a thing", kind < 4 ? (size_t)123 : huge);
        assert_int_equal(sp_fail_nomem("a thing"), SP_E_NOMEM);
        assert_string_equal(sp_error_detail(), text);
        assert_int_equal(sp_fail_nomem("another"), SP_E_NOMEM);
        assert_string_equal(sp_error_detail(), "cannot allocate memory for another");
    }
}

/* Long messages are truncated at the end, for any lengths of context and detail. */
static void long_explanations_are_cut(void **state)
{
    static const size_t lengths[] = {0,    1,    500,  1018, 1019, 1020,
                                     1021, 1022, 1023, 1024, 1025, 3000};
    char long_text[3001], context[3001];
    for (size_t i = 0; i < SP_COUNT(lengths); i++)
        for (size_t j = 0; j < SP_COUNT(lengths); j++) {
            memset(long_text, 'd', lengths[i]);
            long_text[lengths[i]] = '\0';
            memset(context, 'c', lengths[j]);
            context[lengths[j]] = '\0';
            assert_int_equal(sp_fail(SP_E_IO, "%s", long_text), SP_E_IO);
            size_t inner = SP_MIN(lengths[i], 1023), outer = SP_MIN(lengths[j], 1023);
            assert_int_equal(strlen(sp_error_detail()), inner);
            assert_int_equal(sp_fail_in(SP_E_IO, "%s", context), SP_E_IO);
            const char *got = sp_error_detail();
            assert_int_equal(strspn(got, "c"), outer);
            assert_in_range(strlen(got), outer, SP_MIN(outer + 2 + inner, 1023));
            if (outer + 2 + inner <= 1023) {
                assert_memory_equal(got + outer, ": ", 2);
                assert_int_equal(strspn(got + outer + 2, "d"), inner);
            }
        }
}

static sp_err fails_at(int step, int *reached)
{
    for (int i = 0; i < 3; i++) {
        *reached = i;
        SP_TRY(i == step ? sp_fail(SP_E_ARG, "step %d", i) : SP_OK);
    }
    return SP_OK;
}

static sp_err cleans_up(sp_err with, bool *cleaned)
{
    sp_err err;
    SP_TRY_GOTO(with, out);
    return SP_OK;
out:
    *cleaned = true;
    return err;
}

static void try_passes_errors_on(void **state)
{
    int reached;
    assert_int_equal(fails_at(1, &reached), SP_E_ARG);
    assert_int_equal(reached, 1);
    assert_string_equal(sp_error_detail(), "step 1");
    assert_int_equal(fails_at(9, &reached), SP_OK);
    assert_int_equal(reached, 2);
    bool cleaned = false;
    assert_int_equal(cleans_up(SP_OK, &cleaned), SP_OK);
    assert_false(cleaned);
    assert_int_equal(cleans_up(SP_E_IO, &cleaned), SP_E_IO);
    assert_true(cleaned);
}

static void *fail_elsewhere(void *arg)
{
    bool *was_empty = arg;
    *was_empty = sp_error_detail()[0] == '\0';
    return sp_fail(SP_E_IO, "of another thread") == SP_E_IO ? arg : NULL;
}

static void each_thread_has_its_own_explanation(void **state)
{
    bool was_empty = false;
    pthread_t other;
    assert_int_equal(sp_fail(SP_E_ARG, "mine"), SP_E_ARG);
    assert_int_equal(pthread_create(&other, NULL, fail_elsewhere, &was_empty), 0);
    void *done;
    assert_int_equal(pthread_join(other, &done), 0);
    assert_ptr_equal(done, &was_empty);
    assert_true(was_empty);
    assert_string_equal(sp_error_detail(), "mine");
}

/* -- the log -------------------------------------------------------------------------------- */

typedef struct heard {
    int n;
    sp_log_level level;
    char line[2000];
} heard;

static void hear(sp_log_level level, const char *line, void *user)
{
    heard *h = user;
    h->n++;
    h->level = level;
    strcpy(h->line, line);
}

static int silence(void **state)
{
    sp_log_set(SP_LOG_ERROR, NULL, NULL);
    return 0;
}

static void only_lines_up_to_the_level_arrive(void **state)
{
    for (int level = SP_LOG_ERROR; level <= SP_LOG_DEBUG; level++) {
        heard h = {0};
        sp_log_set((sp_log_level)level, hear, &h);
        for (int of = SP_LOG_ERROR; of <= SP_LOG_DEBUG; of++) {
            int before = h.n;
            sp_log((sp_log_level)of, "line of level %d", of);
            assert_int_equal(h.n - before, of <= level ? 1 : 0);
            if (of <= level) assert_int_equal(h.level, of);
        }
        char want[32] = "line of level ?";
        want[14] = (char)('0' + level);
        assert_string_equal(h.line, want);
    }
}

static void without_a_sink_nothing_happens(void **state)
{
    heard h = {0};
    sp_log_set(SP_LOG_DEBUG, hear, &h);
    sp_log_set(SP_LOG_DEBUG, NULL, &h);
    sp_log(SP_LOG_ERROR, "nobody hears this");
    assert_int_equal(h.n, 0);
}

static void long_lines_are_cut(void **state)
{
    heard h = {0};
    char text[1500];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    sp_log_set(SP_LOG_WARN, hear, &h);
    sp_log(SP_LOG_WARN, "%s", text);
    assert_int_equal(strspn(h.line, "x"), 1023);
    assert_int_equal(strlen(h.line), 1023);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_text_of_its_own),
        cmocka_unit_test(a_failure_says_what_failed),
        cmocka_unit_test(a_failure_is_one_line_without_control_characters),
        cmocka_unit_test(a_lack_of_memory_names_its_size),
        cmocka_unit_test(long_explanations_are_cut),
        cmocka_unit_test(try_passes_errors_on),
        cmocka_unit_test(each_thread_has_its_own_explanation),
        cmocka_unit_test_teardown(only_lines_up_to_the_level_arrive, silence),
        cmocka_unit_test_teardown(without_a_sink_nothing_happens, silence),
        cmocka_unit_test_teardown(long_lines_are_cut, silence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
