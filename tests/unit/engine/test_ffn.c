/* test_ffn.c -- the scratch of feed-forwards and of mixtures of experts is given back, without memory, too. */
#include "engine/ffn.h"

#include <malloc.h>

#include "engine/state.h"
#include "support/check.h"
#include "support/tiny_model.h"

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

/* Of experts with equal scores the first are chosen. */
static void equal_experts_are_chosen_in_order(void **state)
{
    enum { N_TOKENS = 5, N_EXPERTS = 8 };
    tiny t;
    sp_plan p;
    tiny_spec spec = TINY_SPEC_DEFAULT;
    int span, see;
    spec.n_experts = N_EXPERTS;
    spec.n_layers = 1;
    assert_ok(tiny_open(&t, &spec, 3));
    const sp_mat *router = &t.model.layers[0].router;
    for (int64_t i = 0; i < router->n_rows * router->n_cols; i++) ((float *)router->data)[i] = 0;
    sp_plan_init(&p, t.pool);
    assert_ok(sp_plan_add_span(&p, &(sp_span_spec){.n = N_TOKENS}, &span));
    assert_ok(sp_plan_add_sight(&p, NULL, 1, &see));
    for (int i = 0; i < N_TOKENS; i++) assert_ok(sp_plan_add_todo(&p, (sp_todo){.token = i, .pos = i, .index = i}));
    assert_ok(sp_plan_bind(&p));
    static float logits[N_TOKENS * 101];
    assert_ok(sp_engine_step(t.engine, &(sp_slice){&p, 0, N_TOKENS, SP_WANT_ALL, logits}, 1));
    const sp_ffn_experts *x = &t.engine->ffn.experts;
    for (int i = 0; i < 2 * N_TOKENS; i++) assert_int_equal(x->chosen[i], i % 2);
    for (int i = 0; i < 2 * N_TOKENS; i++) assert_float_equal(x->weight[i], 1.0f / N_EXPERTS, 1e-6f);
    sp_plan_fini(&p);
    tiny_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_scratch_is_given_back),
                                       cmocka_unit_test(equal_experts_are_chosen_in_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
