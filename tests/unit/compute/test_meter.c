/* test_meter.c -- a meter: its peaks, what it refuses, and that it gives everything back. */
#include "compute/meter.h"

#include "support/check.h"

static sp_meter *meter; /* opening one touches much memory: the tests share it */

static int open_meter(void **state)
{
    return sp_meter_open(2, NULL, &meter) == SP_OK ? 0 : -1;
}

static int close_meter(void **state)
{
    sp_meter_close(meter);
    return 0;
}

static void peaks_are_measured(void **state)
{
    sp_peaks p = sp_meter_peaks(meter);
    assert_true(p.fp32 > 0 && p.int8 > 0 && p.read > 0);
    assert_non_null(p.fp32_by);
    assert_non_null(p.int8_by);
    assert_non_null(p.read_by);
    assert_int_equal(p.n_threads, 2);
    assert_true(p.read_bytes >= (size_t)64 << 20);
}

static void meters_that_cannot_be_are_refused(void **state)
{
    sp_meter *none = NULL;
    assert_fails(sp_meter_open(-1, NULL, &none), SP_E_ARG, "-1");
    assert_fails(sp_meter_open(1, "abacus", &none), SP_E_ARG, "abacus");
    assert_null(none);
    sp_meter_close(NULL);
}

static void every_allocation_may_fail(void **state)
{
    sp_meter *m = NULL;
    assert_survives_faults(sp_meter_open(1, NULL, &m), m == NULL);
    sp_meter_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peaks_are_measured),
        cmocka_unit_test(meters_that_cannot_be_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, open_meter, close_meter);
}
