/* test_meter.c -- a meter: its peaks, what it refuses, and that it gives everything back. */
#include "compute/meter.h"

#include <string.h>

#include "base/threads.h"
#include "compute/roofline.h"
#include "compute/kernel/roofline.h"

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

/* is_of -- a peak was measured by a loop of its kind that runs here, or there is none. */
static void is_of(sp_roof_kind kind, double rate, const char *by)
{
    int n, n_here = 0, n_named = 0;
    const sp_roof_loop *const *loops = sp_roof_loops(&n);
    for (int i = 0; i < n; i++) {
        if (loops[i]->kind != kind || !loops[i]->runs_here()) continue;
        n_here++;
        n_named += by && strcmp(loops[i]->name, by) == 0;
    }
    assert_int_equal(n_named > 0, n_here > 0);
    assert_int_equal(by != NULL, n_here > 0);
    assert_int_equal(rate > 0, n_here > 0);
}

static void peaks_are_those_of_loops_that_run_here(void **state)
{
    sp_peaks p = sp_meter_peaks(meter);
    is_of(SP_ROOF_FP32, p.fp32, p.fp32_by);
    is_of(SP_ROOF_INT8, p.int8, p.int8_by);
    is_of(SP_ROOF_BF16, p.bf16, p.bf16_by);
    is_of(SP_ROOF_READ, p.read, p.read_by);
    assert_int_equal(p.n_threads, SP_MIN(2, sp_cores_allowed()));
    assert_true(p.read_bytes >= (size_t)64 << 20);
}

/* Threads that take turns are slower than the machine. */
static void there_is_a_thread_for_each_core_at_most(void **state)
{
    sp_meter *m;
    assert_ok(sp_meter_open(sp_cores_allowed() + 1, NULL, &m));
    assert_int_equal(sp_meter_peaks(m).n_threads, sp_cores_allowed());
    sp_meter_close(m);
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
        cmocka_unit_test(peaks_are_those_of_loops_that_run_here),
        cmocka_unit_test(there_is_a_thread_for_each_core_at_most),
        cmocka_unit_test(meters_that_cannot_be_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, open_meter, close_meter);
}
