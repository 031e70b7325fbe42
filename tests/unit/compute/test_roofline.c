/* test_roofline.c -- the loops for the bounds of benchmarks do all the work that they report. */
#include "compute/roofline.h"

#include <math.h>

#include "support/check.h"

enum { N = 8192, LINE = 64 };

static void every_kind_has_a_loop_here(void **state)
{
    int n, runs[SP_ROOF_KINDS] = {0};
    const sp_roof_loop *const *loops = sp_roof_loops(&n);
    for (int i = 0; i < n; i++) {
        assert_in_range(loops[i]->kind, 0, SP_ROOF_KINDS - 1);
        assert_true(strlen(loops[i]->name) > 0);
        assert_true((loops[i]->kind == SP_ROOF_READ) == (loops[i]->read != NULL));
        assert_true((loops[i]->kind == SP_ROOF_READ) == (loops[i]->turns == NULL));
        runs[loops[i]->kind] += loops[i]->runs_here();
    }
    for (int k = 0; k < SP_ROOF_KINDS; k++) assert_true(runs[k] > 0 || k == SP_ROOF_BF16);
}

/* A reader that skipped a cache line would report more bytes than it read. */
static void readers_read_every_byte(void **state)
{
    int n;
    const sp_roof_loop *const *loops = sp_roof_loops(&n);
    uint8_t *p = sp_alloc_aligned(N);
    for (int i = 0; i < N; i++) p[i] = (uint8_t)(i * 7 + i / 256);
    for (int i = 0; i < n; i++) {
        if (loops[i]->kind != SP_ROOF_READ || !loops[i]->runs_here()) continue;
        uint32_t whole = loops[i]->read(p, N), less = loops[i]->read(p, N - 1024);
        for (int at = 0; at < N; at += 8) {
            p[at] ^= 1;
            assert_int_not_equal(loops[i]->read(p, N), whole);
            if (at >= N - 1024) assert_int_equal(loops[i]->read(p, N - 1024), less);
            p[at] ^= 1;
        }
        assert_int_equal(loops[i]->read(p, N), whole);
    }
    sp_free(p);
}

/* The sum of all products is known: half as many as operations, 15 each. */
static void all_products_are_computed(void **state)
{
    int n, n_run = 0;
    const sp_roof_loop *const *loops = sp_roof_loops(&n);
    for (int i = 0; i < n; i++) {
        if (loops[i]->kind != SP_ROOF_INT8 || !loops[i]->runs_here()) continue;
        for (int turns = 0; turns < 1000; turns = 3 * turns + 1)
            assert_int_equal(loops[i]->turns(turns), (uint32_t)(turns * loops[i]->ops / 2 * 15));
        n_run++;
    }
    assert_true(n_run > 0);
}

/* Sums of the same random products each turn: twice the turns give twice the sum, but for what the sums begin with. */
static void products_of_bf16_are_added_in_every_turn(void **state)
{
    int n, n_run = 0;
    const sp_roof_loop *const *loops = sp_roof_loops(&n);
    for (int i = 0; i < n; i++) {
        if (loops[i]->kind != SP_ROOF_BF16 || !loops[i]->runs_here()) continue;
        const double none = (int32_t)loops[i]->turns(0), some = (int32_t)loops[i]->turns(1000) - none,
                     more = (int32_t)loops[i]->turns(3000) - none;
        assert_true(fabs(some) > 1000);
        assert_true(fabs(more - 3 * some) < 0.001 * fabs(more) + 8);
        n_run++;
    }
    if (n_run == 0) skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_a_loop_here),
        cmocka_unit_test(readers_read_every_byte),
        cmocka_unit_test(all_products_are_computed),
        cmocka_unit_test(products_of_bf16_are_added_in_every_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
