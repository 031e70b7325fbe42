/* test_ffn.c -- the scratch of feed-forwards and of mixtures of experts is given back, without memory, too. */
#include "engine/ffn.h"

#include <malloc.h>

#include "support/check.h"

enum { ROWS = 512, MOST_ALLOCATIONS = 100 };

/* n_bytes -- that this process has allocated. AddressSanitizer's allocator says 0, and finds leaks itself. */
static size_t n_bytes(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void all_scratch_is_given_back(void **state)
{
    sp_device *d;
    sp_layer layer = {0};
    assert_ok(sp_device_open("cpu", &(sp_device_opts){.kernels = "ref", .n_threads = 1}, &d));
    for (int kind = 0; kind < 4; kind++) {
        const bool mixes = kind & 1, scales = kind & 2;
        const sp_model m = {.hp = {.n_layers = 1,
                                   .n_embd = 64,
                                   .n_ff = 128,
                                   .residual_scale = scales ? 0.5f : 0,
                                   .moe = {.n = mixes ? 8 : 0, .n_used = mixes ? 2 : 0, .n_ff = 128}},
                            .layers = &layer};
        const size_t before = n_bytes();
        bool done = false;
        for (int n = 0; n < MOST_ALLOCATIONS && !done; n++) {
            sp_ffn f = {0};
            sp_fault_after(n);
            const sp_err err = sp_ffn_create(&m, d, ROWS, &f);
            sp_fault_after(-1);
            done = err == SP_OK;
            if (!done) assert_int_equal(err, SP_E_NOMEM);
            assert_int_equal(sp_ffn_out(&f) != NULL, done && scales);
            assert_int_equal(f.experts.weight != NULL, done && mixes);
            if (done) sp_ffn_destroy(&f);
        }
        assert_true(done);
        assert_true(n_bytes() < before + 4096);
    }
    sp_device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_scratch_is_given_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
