/* test_meter.c -- a meter: what it counts, what it refuses, and that it gives everything back. */
#include "lab/meter.h"

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

static sp_meter_op gemm(const char *type)
{
    return (sp_meter_op){.kind = "gemm", .type = type, .rows = 3, .n_out = 24, .n_in = 512};
}

static sp_meter_op attend(const char *type)
{
    return (sp_meter_op){.kind = "attend",
                         .type = type,
                         .rows = 4,
                         .n_heads = 6,
                         .n_kv_heads = 2,
                         .head = 32,
                         .n_keys = 50};
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

static void products_of_every_type(void **state)
{
    static const struct {
        const char *type;
        double row_bytes; /* of 512 weights */
    } types[] = {
        {"f32", 2048}, {"f16", 1024}, {"bf16", 1024}, {"q8_0", 544}, {"q4_0", 288}, {"q4_1", 320},
        {"q5_0", 352}, {"q5_1", 384}, {"q4_k", 288},  {"q5_k", 352}, {"q6_k", 420},
    };
    for (size_t i = 0; i < SP_COUNT(types); i++) {
        sp_meter_op op = gemm(types[i].type);
        sp_meter_sample s = {0};
        assert_ok(sp_meter_run(meter, &op, &s));
        assert_true(s.seconds > 0);
        assert_true(s.ops == 2.0 * 3 * 24 * 512);
        assert_true(s.bytes == 24 * types[i].row_bytes);
    }
}

static void attention_of_every_type(void **state)
{
    static const struct {
        const char *type;
        double token_bytes; /* of a head's key */
    } types[] = {{"f32", 128}, {"f16", 64}, {"bf16", 64}, {"q8_0", 34}};
    for (size_t i = 0; i < SP_COUNT(types); i++) {
        sp_meter_op op = attend(types[i].type);
        sp_meter_sample s = {0};
        assert_ok(sp_meter_run(meter, &op, &s));
        assert_true(s.seconds > 0);
        assert_true(s.ops == 4.0 * 6 * 32 * (47 + 48 + 49 + 50));
        /* 50 tokens are in 4 blocks */
        assert_true(s.bytes >= 4 * 16 * 2 * 2 * types[i].token_bytes);
    }
}

/* A later operation must not meet what an earlier one left in the field. */
static void operations_may_come_in_any_order(void **state)
{
    sp_meter_op ops[] = {gemm("q4_k"), attend("f16"), gemm("q4_k"), gemm("f32"), attend("f16")};
    for (size_t i = 0; i < SP_COUNT(ops); i++) {
        sp_meter_sample s;
        ops[i].rows = 1 + (int)i;
        assert_ok(sp_meter_run(meter, &ops[i], &s));
    }
}

static void refuse(sp_meter_op op, sp_err code, const char *part)
{
    sp_meter_sample s = {.seconds = -1};
    assert_fails(sp_meter_run(meter, &op, &s), code, part);
    assert_true(s.seconds == -1);
}

#define REFUSE(base, field, value, code, part)                                                     \
    do {                                                                                           \
        sp_meter_op refused = base;                                                                \
        refused.field = value;                                                                     \
        refuse(refused, code, part);                                                               \
    } while (0)

static void what_cannot_be_measured_is_refused(void **state)
{
    REFUSE(gemm("q8_0"), kind, "sort", SP_E_ARG, "sort");
    REFUSE(gemm("q8_0"), kind, NULL, SP_E_ARG, "kind");
    REFUSE(gemm("q8_0"), type, "q9_9", SP_E_ARG, "q9_9");
    REFUSE(gemm("q8_0"), type, NULL, SP_E_ARG, "type");
    REFUSE(gemm("q8_0"), rows, 0, SP_E_ARG, "rows");
    REFUSE(gemm("q8_0"), rows, 1 << 30, SP_E_ARG, "rows");
    REFUSE(gemm("q8_0"), n_out, 0, SP_E_ARG, "0 x 512");
    REFUSE(gemm("q8_0"), n_in, -32, SP_E_ARG, "-32");
    REFUSE(gemm("q8_0"), n_in, 500, SP_E_ARG, "groups of 32");
    REFUSE(gemm("q6_k"), n_in, 128, SP_E_ARG, "groups of 256");
    sp_meter_op huge = gemm("f32");
    huge.n_out = huge.n_in = 1 << 20;
    refuse(huge, SP_E_LIMIT, "MiB");
    REFUSE(attend("f16"), type, "q4_0", SP_E_ARG, "q4_0");
    REFUSE(attend("q8_0"), head, 48, SP_E_ARG, "32");
    REFUSE(attend("f16"), head, 1 << 20, SP_E_ARG, "1048576");
    REFUSE(attend("f16"), head, 33, SP_E_ARG, "33");
    REFUSE(attend("f16"), n_kv_heads, 0, SP_E_ARG, "heads");
    REFUSE(attend("f16"), n_kv_heads, 4, SP_E_ARG, "6 heads over 4");
    REFUSE(attend("f16"), n_keys, 3, SP_E_ARG, "3 keys");
    REFUSE(attend("f16"), n_keys, 1 << 30, SP_E_ARG, "keys");
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
    sp_meter_op ops[] = {gemm("q4_0"), attend("q8_0")};
    for (size_t i = 0; i < SP_COUNT(ops); i++) {
        sp_meter_sample s = {.seconds = -1};
        assert_survives_faults(sp_meter_run(meter, &ops[i], &s), s.seconds == -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peaks_are_measured),
        cmocka_unit_test(products_of_every_type),
        cmocka_unit_test(attention_of_every_type),
        cmocka_unit_test(operations_may_come_in_any_order),
        cmocka_unit_test(what_cannot_be_measured_is_refused),
        cmocka_unit_test(meters_that_cannot_be_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, open_meter, close_meter);
}
