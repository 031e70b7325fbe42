/* test_dtype.c -- element types: f16 and bf16 over all their values; blocks of each layout, packed
 * here bit by bit from known scales and numbers, must decode exactly. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compute/dtype.h"

/* -- 16-bit floats ----------------------------------------------------------------------------- */

/* The value of an f16, from its definition. */
static double f16_value(unsigned h)
{
    int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 0x3ff);
    double sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(mantissa, -24);
    return sign * ldexp(1024 + mantissa, exponent - 25);
}

static void every_f16_decodes_and_returns(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        double expected = f16_value(h);
        float f = sp_f16_to_f32((uint16_t)h);
        if (isnan(expected)) {
            assert_true(isnan(f) && isnan(sp_f16_to_f32(sp_f32_to_f16(f))));
            assert_int_equal(sp_f32_to_f16(f), h | 0x200); /* quiet, with the same payload */
            continue;
        }
        assert_true((double)f == expected && !signbit(f) == !signbit(expected));
        assert_int_equal(sp_f32_to_f16(f), h);
    }
}

/* Halfway between neighbours rounds to the even one, a little more rounds up, a little less
 * down. */
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x7bff; h++) {
        double low = f16_value(h), high = f16_value(h + 1);
        float middle = (float)((low + high) / 2);
        unsigned even = h & 1 ? h + 1 : h;
        for (unsigned sign = 0; sign <= 0x8000; sign += 0x8000) {
            float s = sign ? -1 : 1;
            assert_int_equal(sp_f32_to_f16(s * middle), sign | even);
            assert_int_equal(sp_f32_to_f16(s * nextafterf(middle, INFINITY)), sign | (h + 1));
            assert_int_equal(sp_f32_to_f16(s * nextafterf(middle, 0)), sign | h);
        }
    }
}

static void f16_has_ends(void **state)
{
    (void)state;
    assert_int_equal(sp_f32_to_f16(65504), 0x7bff);
    assert_int_equal(sp_f32_to_f16(nextafterf(65520, 0)), 0x7bff);
    assert_int_equal(sp_f32_to_f16(65520), 0x7c00);
    assert_int_equal(sp_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(sp_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(sp_f32_to_f16(-3e38f), 0xfc00);
    assert_int_equal(sp_f32_to_f16(1e-45f), 0);
    assert_int_equal(sp_f32_to_f16(-1e-45f), 0x8000);
    assert_int_equal(sp_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(sp_f32_to_f16(0x1.000002p-25f), 1);
}

static void bf16_is_the_upper_half(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float f = sp_bf16_to_f32((uint16_t)h);
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        assert_int_equal(bits, (uint32_t)h << 16);
        assert_int_equal(sp_f32_to_bf16(f), isnan(f) ? h | 0x40 : h);
    }
    assert_int_equal(sp_f32_to_bf16(0x1.01p0f), 0x3f80);       /* halfway, down to even */
    assert_int_equal(sp_f32_to_bf16(0x1.03p0f), 0x3f82);       /* halfway, up to even */
    assert_int_equal(sp_f32_to_bf16(0x1.010002p0f), 0x3f81);   /* above halfway */
    assert_int_equal(sp_f32_to_bf16(0x1.fffffep127f), 0x7f80); /* to infinity */
}

/* -- blocks ------------------------------------------------------------------------------------ */

/* 0.5, -0.25 and 3 as f16: exact, so that products below are exact, too */
static const uint16_t half = 0x3800, minus_quarter = 0xb400, three = 0x4200;

static void put_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

/* Element i of a test block with n_bits bits: every number occurs, neighbours differ. */
static int number(int i, int n_bits)
{
    return (i * 7 + i / 16 * 3 + 5) & ((1 << n_bits) - 1);
}

/* Groups of 32 with 4 or 5 bits: bytes of scale and minimum, then the fifth bits, then nibbles. */
static void check_group32(sp_dtype type, int n_bits, bool has_min)
{
    uint8_t block[2 * 24] = {0};
    float y[64];
    const int size = sp_dtype_of(type)->group_bytes, head = has_min ? 4 : 2;
    const int nibbles = head + (n_bits == 5 ? 4 : 0);
    for (int g = 0; g < 2; g++) {
        uint8_t *p = block + g * size;
        put_u16(p, g ? three : half);
        if (has_min) put_u16(p + 2, minus_quarter);
        for (int i = 0; i < 32; i++) {
            int q = number(i + g, n_bits);
            p[nibbles + i % 16] |= (uint8_t)((q & 15) << (i < 16 ? 0 : 4));
            if (n_bits == 5) p[head + i / 8] |= (uint8_t)((q >> 4) << (i % 8));
        }
    }
    sp_row_to_f32(type, block, y, 64);
    for (int i = 0; i < 64; i++) {
        float d = i < 32 ? 0.5f : 3;
        int q = number(i % 32 + i / 32, n_bits);
        float expected = has_min ? d * (float)q - 0.25f : d * (float)(q - (1 << (n_bits - 1)));
        assert_true(y[i] == expected);
    }
}

static void groups_of_32_decode(void **state)
{
    (void)state;
    check_group32(SP_Q4_0, 4, false);
    check_group32(SP_Q4_1, 4, true);
    check_group32(SP_Q5_0, 5, false);
    check_group32(SP_Q5_1, 5, true);
}

static void q8_0_decodes(void **state)
{
    uint8_t block[2 * 34];
    float y[64];
    (void)state;
    for (int g = 0; g < 2; g++) {
        put_u16(block + 34 * g, g ? minus_quarter : three);
        for (int i = 0; i < 32; i++) block[34 * g + 2 + i] = (uint8_t)(int8_t)(i * 8 - 128 + g);
    }
    sp_row_to_f32(SP_Q8_0, block, y, 64);
    for (int i = 0; i < 64; i++) {
        int q = i % 32 * 8 - 128 + i / 32;
        assert_true(y[i] == (i < 32 ? 3.0f : -0.25f) * (float)q);
    }
}

/* Packs scale and minimum j of a Q4_K or Q5_K block, 6 bits each, into its 12 bytes. */
static void put_k_scale(uint8_t *p, int j, int scale, int min)
{
    if (j < 4) {
        p[j] |= (uint8_t)scale;
        p[j + 4] |= (uint8_t)min;
    } else {
        p[j + 4] |= (uint8_t)((scale & 15) | (min & 15) << 4);
        p[j - 4] |= (uint8_t)(scale >> 4 << 6);
        p[j] |= (uint8_t)(min >> 4 << 6);
    }
}

static void check_k(sp_dtype type, int n_bits)
{
    static const int scale[8] = {1, 63, 32, 17, 48, 5, 63, 42},
                     min[8] = {63, 0, 21, 7, 16, 62, 33, 9};
    uint8_t block[176] = {0};
    float y[256];
    const int nibbles = n_bits == 5 ? 48 : 16;
    put_u16(block, half);
    put_u16(block + 2, three);
    for (int j = 0; j < 8; j++) put_k_scale(block + 4, j, scale[j], min[j]);
    for (int i = 0; i < 256; i++) {
        int q = number(i, n_bits), run = i / 64, in_run = i % 64;
        block[nibbles + run * 32 + in_run % 32] |= (uint8_t)((q & 15) << (in_run < 32 ? 0 : 4));
        if (n_bits == 5) block[16 + i % 32] |= (uint8_t)((q >> 4) << (i / 32));
    }
    sp_row_to_f32(type, block, y, 256);
    for (int i = 0; i < 256; i++) {
        int j = i / 32;
        assert_true(y[i] == 0.5f * (float)(scale[j] * number(i, n_bits)) - 3 * (float)min[j]);
    }
}

static void q4_k_and_q5_k_decode(void **state)
{
    (void)state;
    check_k(SP_Q4_K, 4);
    check_k(SP_Q5_K, 5);
}

/* Q6_K: runs of 128; in a run, quarter k of 32 has its low bits in half k % 2 of 64 bytes, in the
 * low nibbles for quarters 0 and 1, and its high bits at bit 2k of 32 bytes. */
static void q6_k_decodes(void **state)
{
    uint8_t block[210] = {0};
    float y[256];
    (void)state;
    put_u16(block + 208, minus_quarter);
    for (int j = 0; j < 16; j++) block[192 + j] = (uint8_t)(int8_t)(j * 17 - 128);
    for (int i = 0; i < 256; i++) {
        int q = number(i, 6), run = i / 128, k = i % 128 / 32, l = i % 32;
        block[run * 64 + (k & 1) * 32 + l] |= (uint8_t)((q & 15) << (k < 2 ? 0 : 4));
        block[128 + run * 32 + l] |= (uint8_t)((q >> 4) << (2 * k));
    }
    sp_row_to_f32(SP_Q6_K, block, y, 256);
    for (int i = 0; i < 256; i++) {
        assert_true(y[i] == -0.25f * (float)(i / 16 * 17 - 128) * (float)(number(i, 6) - 32));
    }
}

/* Q2_K and Q3_K: bits 2k, 2k + 1 of byte l of a run of 128 belong to its element 32 k + l. */
static void put_two_bits(uint8_t *q, int i, int code)
{
    q[i / 128 * 32 + i % 32] |= (uint8_t)(code << i % 128 / 32 * 2);
}

static void q2_k_decodes(void **state)
{
    uint8_t block[84] = {0};
    float y[256];
    put_u16(block + 80, half);
    put_u16(block + 82, three);
    for (int j = 0; j < 16; j++) block[j] = (uint8_t)(j | (15 - j) << 4);
    for (int i = 0; i < 256; i++) put_two_bits(block + 16, i, number(i, 2));
    sp_row_to_f32(SP_Q2_K, block, y, 256);
    for (int i = 0; i < 256; i++)
        assert_true(y[i] == 0.5f * (float)(i / 16 * number(i, 2)) - 3 * (float)(15 - i / 16));
}

static void q3_k_decodes(void **state)
{
    uint8_t block[110] = {0};
    float y[256];
    put_u16(block + 108, minus_quarter);
    for (int j = 0; j < 16; j++) { /* scales 1, 5, 9 ... 61 */
        block[96 + j % 8] |= (uint8_t)(((4 * j + 1) & 15) << j / 8 * 4);
        block[104 + j % 4] |= (uint8_t)((4 * j + 1) >> 4 << j / 4 * 2);
    }
    for (int i = 0; i < 256; i++) {
        put_two_bits(block + 32, i, number(i, 3) & 3);
        block[i % 32] |= (uint8_t)((number(i, 3) >> 2) << i / 32);
    }
    sp_row_to_f32(SP_Q3_K, block, y, 256);
    for (int i = 0; i < 256; i++)
        assert_true(y[i] == -0.25f * (float)(i / 16 * 4 + 1 - 32) * (float)(number(i, 3) - 4));
}

static void types_of_levels_decode(void **state)
{
    static const int level[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
    static const float step[16] = {0, 0.5f,  1,  1.5f,  2,  3,  4,  6,
                                   0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    uint8_t nl[18], mx[17], xs[136] = {0};
    float y[256];
    put_u16(nl, half);
    mx[0] = 130; /* 2^3 */
    put_u16(xs, half);
    put_u16(xs + 2, 0xe41b); /* top bits of scales 0 .. 7: 3 2 1 0 0 1 2 3 */
    for (int j = 0; j < 4; j++) xs[4 + j] = (uint8_t)(2 * j | (2 * j + 1) << 4);
    for (int i = 0; i < 16; i++) nl[2 + i] = mx[1 + i] = (uint8_t)(i | (15 - i) << 4);
    for (int i = 0; i < 128; i++) xs[8 + i] = nl[2 + i % 16];
    sp_row_to_f32(SP_IQ4_NL, nl, y, 32);
    for (int i = 0; i < 32; i++) assert_true(y[i] == 0.5f * (float)level[i < 16 ? i : 31 - i]);
    sp_row_to_f32(SP_MXFP4, mx, y, 32);
    for (int i = 0; i < 32; i++) assert_true(y[i] == 8 * step[i < 16 ? i : 31 - i]);
    sp_row_to_f32(SP_IQ4_XS, xs, y, 256);
    for (int i = 0; i < 256; i++) {
        static const int top[8] = {3, 2, 1, 0, 0, 1, 2, 3};
        const int s = i / 32, at = i % 32;
        assert_true(y[i] ==
                    0.5f * (float)(top[s] * 16 + s - 32) * (float)level[at < 16 ? at : 31 - at]);
    }
}

/* -- rows -------------------------------------------------------------------------------------- */

static void float_rows_keep_their_values(void **state)
{
    static const sp_dtype types[] = {SP_F32, SP_F16, SP_BF16};
    (void)state;
    for (int k = 0; k < 3; k++) {
        const float x[7] = {3, -0.0f, 1, -2.5f, 0x1p-14f, 100, -0.125f};
        for (int64_t n = 0; n <= 7; n++) {
            uint8_t bytes[1 + 7 * 4] = {0};
            float y[7];
            sp_row_from_f32(types[k], x, bytes + 1, n); /* unaligned on purpose */
            sp_row_to_f32(types[k], bytes + 1, y, n);
            if (n) assert_memory_equal(y, x, (size_t)n * sizeof *x);
        }
    }
}

static void q8_0_rows_round_trip(void **state)
{
    uint8_t bytes[3 * 34];
    float x[96], y[96];
    (void)state;
    for (int i = 0; i < 96; i++) x[i] = i < 64 ? sinf((float)i) * (i < 32 ? 1 : 300) : 0;
    sp_row_from_f32(SP_Q8_0, x, bytes, 96);
    sp_row_to_f32(SP_Q8_0, bytes, y, 96);
    for (int g = 0; g < 3; g++) {
        float max = 0;
        for (int i = 0; i < 32; i++) max = fmaxf(max, fabsf(x[g * 32 + i]));
        for (int i = g * 32; i < g * 32 + 32; i++) {
            assert_true(fabsf(y[i] - x[i]) <= max / 127 * 0.5f * 1.01f + max * 0x1p-11f);
        }
    }
    float scale = 0; /* the definition: f16(max / 127), rounded to nearest */
    for (int i = 0; i < 32; i++) scale = fmaxf(scale, fabsf(x[i]) / 127);
    assert_int_equal(bytes[0] | bytes[1] << 8, sp_f32_to_f16(scale));
    for (int i = 0; i < 32; i++) assert_int_equal((int8_t)bytes[2 + i], lroundf(x[i] / scale));
    sp_row_from_f32(SP_Q8_0, y, bytes, 96); /* NaN and infinity: no trap, no overflow */
    x[3] = INFINITY;
    x[40] = NAN;
    sp_row_from_f32(SP_Q8_0, x, bytes, 96);
}

static void the_table_is_that_of_gguf(void **state)
{
    static const struct {
        sp_dtype type;
        const char *name;
        int id, group, bytes;
    } rows[] = {
        {SP_F32, "f32", 0, 1, 4},
        {SP_F16, "f16", 1, 1, 2},
        {SP_BF16, "bf16", 30, 1, 2},
        {SP_Q4_0, "q4_0", 2, 32, 18},
        {SP_Q4_1, "q4_1", 3, 32, 20},
        {SP_Q5_0, "q5_0", 6, 32, 22},
        {SP_Q5_1, "q5_1", 7, 32, 24},
        {SP_Q8_0, "q8_0", 8, 32, 34},
        {SP_Q4_K, "q4_k", 12, 256, 144},
        {SP_Q5_K, "q5_k", 13, 256, 176},
        {SP_Q6_K, "q6_k", 14, 256, 210},
        {SP_Q2_K, "q2_k", 10, 256, 84},
        {SP_Q3_K, "q3_k", 11, 256, 110},
        {SP_IQ4_NL, "iq4_nl", 20, 32, 18},
        {SP_IQ4_XS, "iq4_xs", 23, 256, 136},
        {SP_MXFP4, "mxfp4", 39, 32, 17},
    };
    (void)state;
    assert_int_equal(SP_COUNT(rows), SP_DTYPE_N);
    for (size_t i = 0; i < SP_COUNT(rows); i++) {
        const sp_dtype_info *info = sp_dtype_of(rows[i].type);
        assert_string_equal(info->name, rows[i].name);
        assert_int_equal(info->gguf_id, rows[i].id);
        assert_int_equal(info->n_group, rows[i].group);
        assert_int_equal(info->group_bytes, rows[i].bytes);
        assert_int_equal(sp_row_bytes(rows[i].type, 512), 512 / rows[i].group * rows[i].bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_f16_decodes_and_returns),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(f16_has_ends),
        cmocka_unit_test(bf16_is_the_upper_half),
        cmocka_unit_test(groups_of_32_decode),
        cmocka_unit_test(q8_0_decodes),
        cmocka_unit_test(q4_k_and_q5_k_decode),
        cmocka_unit_test(q6_k_decodes),
        cmocka_unit_test(q2_k_decodes),
        cmocka_unit_test(q3_k_decodes),
        cmocka_unit_test(types_of_levels_decode),
        cmocka_unit_test(float_rows_keep_their_values),
        cmocka_unit_test(q8_0_rows_round_trip),
        cmocka_unit_test(the_table_is_that_of_gguf),
    };
    return cmocka_run_group_tests_name("dtype", tests, NULL, NULL);
}
