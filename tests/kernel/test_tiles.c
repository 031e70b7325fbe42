/* test_tiles.c -- products of "amx" against their definition in plain C (compute/x86/tiles.h), bit for bit:
 * emulated, and on CPUs that have AMX. */
#include <float.h>

#include "compute/device.h"
#include "kernel/kernels.h"

/* Rows of x for both ways to compute, ends of tiles, of runs of 256 rows and of stretches of 2560 columns. */
static const struct {
    int rows, cols, m;
} sizes[] = {{40, 256, 1},  {33, 512, 2},   {32, 768, 3}, {70, 256, 16},
             {9, 3072, 17}, {32, 2816, 33}, {5, 512, 47}, {40, 256, 259}};

static const sp_dtype types[] = {SP_Q8_0, SP_Q4_0, SP_Q4_1, SP_Q5_0,   SP_Q5_1,   SP_Q4_K, SP_Q5_K,
                                 SP_Q6_K, SP_Q2_K, SP_Q3_K, SP_IQ4_NL, SP_MXFP4, SP_BF16};

static float no_denormal(float x)
{
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

/* To nearest, halves to even. */
static float to_bf16(float x)
{
    uint32_t bits;
    x = no_denormal(x);
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* y + the products of n columns, in groups of 32. */
static float two_chains(const float *w, const float *x, int n, float y)
{
    y = no_denormal(y);
    for (int c = 0; c < n; c += 32) {
        float chain[2] = {0, 0};
        for (int i = 0; i < 32; i++)
            chain[i % 2] = no_denormal(fmaf(to_bf16(x[c + i]), to_bf16(w[c + i]), chain[i % 2]));
        y = no_denormal(y + no_denormal(chain[0] + chain[1]));
    }
    return y;
}

static void assert_two_chains(const sp_ops *ops, sp_dtype type, int rows, int cols, int m, float size,
                              uint64_t *seed)
{
    const size_t row_bytes = sp_row_bytes(type, cols);
    uint8_t *data = sp_alloc((size_t)rows, row_bytes);
    float *x = random_floats(seed, (int64_t)m * cols, size);
    float *y = random_floats(seed, (int64_t)m * rows, size);
    float *y0 = sp_alloc((size_t)m * (size_t)rows, sizeof *y0), *w = sp_alloc((size_t)cols, sizeof *w);
    assert_true(data && y0 && w);
    for (int r = 0; r < rows; r++)
        random_groups(seed, type, data + (size_t)r * row_bytes, cols / sp_dtype_of(type)->n_group);
    memcpy(y0, y, (size_t)m * (size_t)rows * sizeof *y);
    sp_mat mat = {.type = type, .n_rows = rows, .n_cols = cols, .data = data};
    void *packed = sp_alloc_aligned(ops->pack_bytes(&mat));
    void *q = sp_alloc_aligned((size_t)m * ops->quantized_bytes(cols));
    assert_true(packed && q);
    for (int part = 0; part < 3; part++) ops->pack(&(sp_pack_args){&mat, packed}, part, 3);
    mat.packed = packed;
    ops->quantize(&(sp_quantize_args){.x = x, .m = m, .n = cols, .q = q}, 0, 1);
    sp_matmul_packed_args a = {.w = &mat, .q = q, .m = m, .y = y, .add = true};
    for (int part = 0; part < 2; part++) ops->matmul_packed(&a, part, 2);
    for (int r = 0; r < rows; r++) {
        sp_row_to_f32(type, data + (size_t)r * row_bytes, w, cols);
        for (int i = 0; i < m; i++) {
            const float want = two_chains(w, x + i * cols, cols, y0[i * rows + r]), got = y[i * rows + r];
            if (memcmp(&want, &got, sizeof want) != 0)
                fail_msg("%s %dx%d m=%d, row %d, output %d: %a, not %a", sp_dtype_of(type)->name, rows, cols, m, i,
                         r, (double)got, (double)want);
        }
    }
    sp_free(data);
    sp_free(x);
    sp_free(y);
    sp_free(y0);
    sp_free(w);
    sp_free(packed);
    sp_free(q);
}

static void products_have_the_bits_of_two_chains(void **state)
{
    const sp_ops *ops = variant(state);
    uint64_t seed = 21;
    for (size_t t = 0; t < SP_COUNT(types); t++)
        for (size_t i = 0; i < SP_COUNT(sizes); i++)
            assert_two_chains(ops, types[t], sizes[i].rows, sizes[i].cols, sizes[i].m, 2, &seed);
}

/* F16 is rounded as it is packed; all else is as without. */
static void f16_is_multiplied_in_tiles_where_that_is_asked_for(void **state)
{
    const sp_ops *ops = variant(state), *plain;
    uint64_t seed = 23;
    for (size_t i = 0; i < SP_COUNT(sizes); i++) {
        assert_two_chains(ops, SP_F16, sizes[i].rows, sizes[i].cols, sizes[i].m, 2, &seed);
        assert_two_chains(ops, SP_BF16, sizes[i].rows, sizes[i].cols, sizes[i].m, 2, &seed);
        assert_two_chains(ops, SP_Q4_K, sizes[i].rows, sizes[i].cols, sizes[i].m, 2, &seed);
    }
    assert_int_equal(sp_ops_select("amx", &plain), SP_OK);
    assert_int_equal(plain->x_bits(SP_F16), 0);
    assert_int_equal(ops->x_bits(SP_F16), 9);
}

/* Rows that are no whole groups stay in the layout of floats, and are exact to f32. */
static void odd_rows_are_multiplied_as_floats(void **state)
{
    enum { ROWS = 35, COLS = 72, M = 3 };
    const sp_ops *ops = variant(state);
    uint64_t seed = 24;
    uint8_t *data = sp_alloc(ROWS, 2 * COLS);
    float *x = random_floats(&seed, M * COLS, 1), y[M * ROWS], want[M * ROWS];
    assert_non_null(data);
    random_groups(&seed, SP_BF16, data, ROWS * COLS);
    sp_mat w = {.type = SP_BF16, .n_rows = ROWS, .n_cols = COLS, .data = data};
    reference()->matmul(&(sp_matmul_args){.w = &w, .x = x, .m = M, .y = want}, 0, 1);
    void *packed = sp_alloc_aligned(ops->pack_bytes(&w));
    assert_non_null(packed);
    ops->pack(&(sp_pack_args){&w, packed}, 0, 1);
    w.packed = packed;
    assert_false(sp_in_integers(ops, &w));
    ops->matmul(&(sp_matmul_args){.w = &w, .x = x, .m = M, .y = y}, 0, 1);
    assert_true(nmse(y, want, M * ROWS) < 1e-11);
    sp_free(data);
    sp_free(x);
    sp_free(packed);
}

/* Products, chains and sums that are denormals, for one row as in tiles. */
static void denormals_count_as_zero(void **state)
{
    const sp_ops *ops = variant(state);
    uint64_t seed = 22;
    for (int m = 1; m < 20; m += 9)
        for (int i = 0; i < 8; i++) assert_two_chains(ops, SP_Q8_0, 40, 512, m, 1e-35f / (float)(1 << 2 * i), &seed);
}

/* Answers from 4-bit weights would be slower. */
static void amx_is_chosen_by_name_only(void **state)
{
    const sp_ops *ops = variant(state);
    unsetenv("SPOLIA_CPU");
    assert_int_equal(sp_ops_select(NULL, &ops), SP_OK);
    assert_string_not_equal(ops->name, "amx");
}

static void exact_products_are_refused(void **state)
{
    sp_device *d = NULL;
    (void)variant(state);
    assert_int_equal(sp_device_open("cpu", &(sp_device_opts){.kernels = "amx", .n_threads = 1}, &d), SP_OK);
    assert_string_equal(d->kernels, "amx");
    sp_device_close(d);
    d = NULL;
    const sp_device_opts exact = {.kernels = "amx", .n_threads = 1, .exact_products = true};
    assert_int_equal(sp_device_open("cpu", &exact, &d), SP_E_UNSUPPORTED);
    assert_non_null(strstr(sp_error_detail(), "rounds weights"));
    assert_null(d);
    const sp_device_opts both = {.amx_f16 = true, .n_threads = 1, .exact_products = true};
    assert_int_equal(sp_device_open("cpu", &both, &d), SP_E_UNSUPPORTED);
    assert_null(d);
}

static void f16_in_tiles_is_a_set_of_kernels(void **state)
{
    sp_device *d = NULL;
    (void)variant(state);
    const sp_device_opts f16 = {.kernels = "amx", .n_threads = 1, .amx_f16 = true};
    assert_int_equal(sp_device_open("cpu", &f16, &d), SP_OK);
    assert_string_equal(d->kernels, "amx-f16");
    sp_device_close(d);
    d = NULL;
    const sp_device_opts other = {.kernels = "avx2", .n_threads = 1, .amx_f16 = true};
    assert_int_equal(sp_device_open("cpu", &other, &d), SP_E_UNSUPPORTED);
    assert_non_null(strstr(sp_error_detail(), "no tiles"));
    assert_null(d);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        ON_VARIANT("amx", products_have_the_bits_of_two_chains),
        ON_VARIANT("amx-f16", f16_is_multiplied_in_tiles_where_that_is_asked_for),
        ON_VARIANT("amx", odd_rows_are_multiplied_as_floats),
        ON_VARIANT("amx", denormals_count_as_zero),
        ON_VARIANT("amx", amx_is_chosen_by_name_only),
        ON_VARIANT("amx", exact_products_are_refused),
        ON_VARIANT("amx", f16_in_tiles_is_a_set_of_kernels),
    };
    return cmocka_run_group_tests_name("tiles", tests, NULL, NULL);
}
