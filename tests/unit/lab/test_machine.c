/* The bound that a machine's peaks set. */
#include "lab/bench/machine.h"
#include "support/check.h"

/* Both kinds of products take their time one after the other; reading takes its own beside them. */
static void a_bound_is_computing_or_reading(void **state)
{
    static const bench_work work = {.fp32 = 20, .rounded = 80, .bytes = 30}; /* 2 s, 4 s; 3 s of reading */
    bench_machine m = {.best = {.fp32 = 10, .int8 = 20, .bf16 = 40, .read = 10, .kernels = "avx2"}};
    const char *by;
    assert_true(bench_machine_bound(&m, &work, &by) == 6);
    assert_string_equal(by, "int8");
    m.best.kernels = "amx";
    assert_true(bench_machine_bound(&m, &work, NULL) == 4);
    m.best.read = 5;
    assert_true(bench_machine_bound(&m, &work, &by) == 6);
    assert_string_equal(by, "read");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bound_is_computing_or_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
