/* check.h -- cmocka with the headers that it wants, and the checks that tests of C code share. */
#ifndef SP_TESTS_CHECK_H
#define SP_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

#endif
