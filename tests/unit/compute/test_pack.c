/* Packed weights, byte by byte: what pads the last panel, and scales of MXFP4 that f16 does not have. */
#include <math.h>

#include "compute/kernel/pack.h"
#include "compute/kernel/quant.h"
#include "support/check.h"

static const sp_pack_form forms[] = {{16, 4}, {16, 2}, {32, 4}, {32, 8}};

/* Whatever was in the memory before: a panel of fewer rows has zeros in place of the others. */
static void the_last_panel_is_padded_with_zeros(void **state)
{
    static const sp_dtype types[] = {SP_Q8_0, SP_Q4_0, SP_Q4_1, SP_Q5_0, SP_Q5_1,   SP_Q4_K,
                                     SP_Q5_K, SP_Q6_K, SP_Q2_K, SP_Q3_K, SP_IQ4_NL, SP_MXFP4};
    enum { COLS = 256, ROWS = 37 };
    for (size_t t = 0; t < SP_COUNT(types); t++)
        for (size_t f = 0; f < SP_COUNT(forms); f++) {
            const size_t row = sp_row_bytes(types[t], COLS);
            uint8_t *data = sp_alloc(ROWS, row);
            assert_non_null(data);
            for (size_t i = 0; i < ROWS * row; i++) data[i] = (uint8_t)(i * 31 + 7);
            const sp_mat w = {.type = types[t], .n_rows = ROWS, .n_cols = COLS, .data = data};
            const size_t n = sp_pack_bytes(&w, forms[f]);
            uint8_t *clean = sp_alloc(n, 1), *dirty = sp_alloc(n, 1);
            assert_true(clean && dirty);
            memset(clean, 0, n);
            memset(dirty, 0xa5, n);
            sp_pack(&(sp_pack_args){&w, clean}, forms[f], 0, 1);
            sp_pack(&(sp_pack_args){&w, dirty}, forms[f], 0, 1);
            assert_memory_equal(clean, dirty, n);
            sp_free(clean);
            sp_free(dirty);
            sp_free(data);
        }
}

/* unpacked -- the first group of one row of MXFP4 with this exponent, as it was packed. */
static void unpacked(int exponent, float given[32], float out[32])
{
    uint8_t row[17] = {(uint8_t)(exponent + 128)}, *packed;
    for (int i = 1; i < 17; i++) row[i] = (uint8_t)(i * 16 + 15 - i);
    const sp_mat w = {.type = SP_MXFP4, .n_rows = 1, .n_cols = 32, .data = row};
    assert_non_null(packed = sp_alloc(sp_pack_bytes(&w, forms[0]), 1));
    sp_pack(&(sp_pack_args){&w, packed}, forms[0], 0, 1);
    sp_row_to_f32(SP_MXFP4, row, given, 32);
    const float d = sp_f16_to_f32(sp_load_u16(packed));
    const int8_t *code = (const int8_t *)packed + 2 * 16;
    for (int i = 0; i < 32; i++) out[i] = d * (float)code[i / 4 * 4 * 16 + i % 4];
    sp_free(packed);
}

static void mxfp4_is_exact_where_f16_has_its_scale(void **state)
{
    for (int e = -24; e <= 15; e++) {
        float given[32], out[32];
        unpacked(e, given, out);
        for (int i = 0; i < 32; i++) assert_true(out[i] == given[i]);
    }
}

/* 2^-24 is the least step; above 2^15 a scale is the largest that f16 has. */
static void mxfp4_is_near_where_f16_has_not(void **state)
{
    for (int e = -40; e < -24; e++) {
        float given[32], out[32];
        unpacked(e, given, out);
        for (int i = 0; i < 32; i++) assert_true(fabsf(out[i] - given[i]) < 0x1p-24f);
    }
    for (int e = 16; e < 30; e++) {
        float given[32], out[32], largest[32];
        unpacked(e, given, out);
        unpacked(15, largest, largest);
        assert_memory_equal(out, largest, sizeof out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_panel_is_padded_with_zeros),
        cmocka_unit_test(mxfp4_is_exact_where_f16_has_its_scale),
        cmocka_unit_test(mxfp4_is_near_where_f16_has_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
