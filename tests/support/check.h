/* check.h -- cmocka with the headers that it wants, and the checks that tests of C code share. */
#ifndef SP_TESTS_CHECK_H
#define SP_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"

/* assert_ok -- the call succeeds; if not, the message says why. */
#define assert_ok(expr)                                                                            \
    do {                                                                                           \
        sp_err check_err = (expr);                                                                 \
        if (check_err != SP_OK)                                                                    \
            fail_msg("%s: %s: %s", #expr, sp_error_text(check_err), sp_error_detail());            \
    } while (0)

/* assert_fails -- the call fails with this code, and the sentence that explains it holds `part`. */
#define assert_fails(expr, code, part)                                                             \
    do {                                                                                           \
        sp_err check_err = (expr);                                                                 \
        assert_int_equal(check_err, code);                                                         \
        if (!strstr(sp_error_detail(), part))                                                      \
            fail_msg("\"%s\" does not hold \"%s\"", sp_error_detail(), part);                      \
    } while (0)

/* assert_survives_faults -- lets the 1st, 2nd, 3rd ... allocation of `expr` and all after it fail,
 * until it has enough of them to succeed. Each failure must be SP_E_NOMEM and leave `untouched`
 * true; an expression that allocates nothing is a mistake of the test. */
#define assert_survives_faults(expr, untouched)                                                    \
    do {                                                                                           \
        sp_err check_err = SP_E_NOMEM;                                                             \
        long check_n = 0;                                                                          \
        while (check_err != SP_OK) {                                                               \
            sp_fault_after(++check_n);                                                             \
            check_err = (expr);                                                                    \
            sp_fault_after(-1);                                                                    \
            if (check_err == SP_OK) break;                                                         \
            assert_int_equal(check_err, SP_E_NOMEM);                                               \
            assert_true(untouched);                                                                \
            assert_in_range(check_n, 1, 10000);                                                    \
        }                                                                                          \
        assert_true(check_n > 1);                                                                  \
    } while (0)

/* check_random -- 0 .. n-1 (splitmix64): the same sequence on every machine. */
static inline int check_random(uint64_t *seed, int n)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int)((z ^ (z >> 31)) % (uint64_t)n);
}

/* -- groups --------------------------------------------------------------------------------- */

/* A failed assertion leaves its test by longjmp. The test's threads still run, with fixtures on a stack that the next
 * test would use, and could make it wait forever: the tests after a failed one each run in a new process, and what
 * starts these does not reach the failed test's stack. */

static bool check_is_inside; /* a test has begun and has not returned */

#undef skip
#define skip() (check_is_inside = false, _skip(__FILE__, __LINE__))

static inline void check_in_new_process(const char *name)
{
    const pid_t child = fork();
    if (child == 0) {
        setenv("CHECK_ONLY", name, 1);
        setenv("CMOCKA_MESSAGE_OUTPUT", "STDOUT", 1); /* our own line counts */
        execl("/proc/self/exe", name, NULL);
        _exit(127);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0) fail_msg("%s fails in a process of its own", name);
}

static __attribute__((noinline, unused)) void check_inside(const struct CMUnitTest *test)
{
    void *none = NULL;
    volatile char apart[1 << 16];
    apart[0] = 0;
    check_is_inside = true;
    test->test_func(&none);
    check_is_inside = apart[0];
}

static inline void check_guarded(void **state)
{
    const struct CMUnitTest *test = *state;
    if (check_is_inside)
        check_in_new_process(test->name);
    else
        check_inside(test);
}

static inline int check_run_group(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
                                  CMFixtureFunction teardown)
{
    struct CMUnitTest *guarded = malloc(n * sizeof *guarded);
    if (!guarded) abort();
    for (size_t i = 0; i < n; i++) {
        guarded[i] = tests[i];
        if (setup || tests[i].setup_func || tests[i].teardown_func) continue; /* they use the state */
        guarded[i].test_func = check_guarded;
        guarded[i].initial_state = (void *)&tests[i];
    }
    if (getenv("CHECK_ONLY")) cmocka_set_test_filter(getenv("CHECK_ONLY"));
    const int n_failed = _cmocka_run_group_tests(name, guarded, n, setup, teardown);
    free(guarded);
    return n_failed;
}

#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    check_run_group(#tests, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

#endif
