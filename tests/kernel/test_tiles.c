/* test_tiles.c -- products of "amx", and those of its attention, against their definition in plain C
 * (compute/x86/tiles.h), bit for bit: emulated, and on CPUs that have AMX. */
#include <float.h>

#include "compute/device.h"
#include "compute/kernel/kv.h"
#include "compute/kernel/ops.h"
#include "kernel/kernels.h"
#if SP_HAVE_X86
#include "compute/x86/attend_tiles.h"
#endif

/* Rows of x for both ways to compute, ends of tiles, of runs of 512 rows, of stretches of 1280 columns and, where the
 * type has groups of 32, of blocks of 256. */
static const struct {
    int rows, cols, m;
} sizes[] = {{40, 256, 1},  {33, 512, 2},   {32, 768, 3}, {70, 256, 16},
             {9, 3072, 17}, {32, 2816, 33}, {5, 512, 47}, {40, 256, 515},
             {34, 896, 19}, {33, 1312, 5}};

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
    if (cols % sp_dtype_of(type)->n_group != 0) return;
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

#if SP_HAVE_X86

/* -- attention --------------------------------------------------------------------------------- */

enum { KEYS = 64, ROWS = SP_STEP_ROWS, WIDEST = 256 };

/* A step of random keys and values in Q16, and 16 rows of queries, probabilities and outputs. */
typedef struct step_world {
    sp_tile_step step;
    float query[ROWS][WIDEST], prob[ROWS][KEYS], scale[KEYS], out[ROWS][WIDEST]; /* query, out: rows of `width` */
    uint64_t mask[ROWS];
    float *keys[KEYS], *values[KEYS]; /* words, as floats */
    uint8_t *blocks;
} step_world;

static int16_t word_at(const uint8_t *p, size_t at)
{
    int16_t word;
    memcpy(&word, p + at, sizeof word);
    return word;
}

static void read_words(step_world *w, int key, const uint8_t *block, size_t head_bytes)
{
    w->keys[key] = sp_alloc(WIDEST, sizeof(float));
    w->values[key] = sp_alloc(WIDEST, sizeof(float));
    assert_true(w->keys[key] && w->values[key]);
    for (int d = 0; d < w->step.width; d++) {
        w->keys[key][d] = block ? word_at(block, sp_q16_key_at(d, key % 16)) : 0;
        w->values[key][d] = block ? word_at(block + head_bytes, sp_q16_value_at(d, key % 16)) : 0;
    }
}

/* A row of keys or values; tiny: all words but the first are small, so that sums can cancel to denormals. */
static void fill_row(uint64_t *seed, float *x, int width, bool tiny)
{
    fill(seed, x, width, tiny ? 1e-4f : 1);
    if (tiny) x[0] = 1;
}

static void step_open(step_world *w, uint64_t *seed, int width, int n_blocks, bool tiny)
{
    const size_t head_bytes = sp_kv_head_bytes(SP_Q16, width);
    memset(w, 0, sizeof *w);
    w->step = (sp_tile_step){.n_blocks = n_blocks, .width = width};
    w->blocks = sp_alloc(SP_STEP_BLOCKS, 2 * head_bytes);
    w->step.keys = sp_alloc_aligned(256 * (size_t)width);
    w->step.values = sp_alloc_aligned(256 * (size_t)width);
    assert_true(w->blocks && w->step.keys && w->step.values);
    memset(w->step.keys, 0xff, 256 * (size_t)width);
    memset(w->step.values, 0xff, 256 * (size_t)width);
    for (int k = 0; k < KEYS; k++) {
        uint8_t *block = w->blocks + (size_t)(k / 16) * 2 * head_bytes;
        float x[WIDEST];
        const bool is_there = k / 16 < n_blocks;
        fill_row(seed, x, width, tiny);
        if (is_there) sp_kv_put_key(SP_Q16, width, x, block, k % 16);
        fill_row(seed, x, width, tiny);
        if (is_there) sp_kv_put_value(SP_Q16, width, x, block + head_bytes, k % 16);
        read_words(w, k, is_there ? block : NULL, head_bytes);
        if (is_there) memcpy(&w->scale[k], block + head_bytes + (size_t)(k % 16) * 4, 4);
        w->step.key_block[k / 16] = w->step.next[k / 16] = is_there ? block : NULL;
        w->step.value_block[k / 16] = is_there ? block + head_bytes : NULL;
    }
    for (int r = 0; r < ROWS; r++) w->mask[r] = r == 3 ? 0 : r == 4 ? ~(uint64_t)0 : next_random(seed);
    float *const queries = w->query[0];
    fill(seed, queries, ROWS * WIDEST, tiny ? 6e-38f : 1);
    for (int r = 0; r < ROWS && tiny; r++) queries[r * width] = 0;
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < KEYS; k++) w->prob[r][k] = uniform(seed, 0, tiny ? 2e-33f : 256);
    fill(seed, w->out[0], ROWS * WIDEST, 1);
}

static void step_close(step_world *w)
{
    for (int k = 0; k < KEYS; k++) {
        sp_free(w->keys[k]);
        sp_free(w->values[k]);
    }
    sp_free(w->blocks);
    sp_free(w->step.keys);
    sp_free(w->step.values);
}

static void assert_bits(float got, float want, const step_world *w, int row, int at)
{
    if (memcmp(&got, &want, sizeof got) != 0)
        fail_msg("width %d, %d blocks, row %d, %d: %a, not %a", w->step.width, w->step.n_blocks, row, at, (double)got,
                 (double)want);
}

/* The definition: chains over words and operands that are rounded to bf16, 32 channels a group. */
static void check_scores(step_world *w)
{
    const int width = w->step.width, whole = SP_ROUND_UP(width, 32);
    float *rows = w->query[0], score[ROWS][KEYS], query[ROWS][WIDEST] = {{0}};
    for (int r = 0; r < ROWS; r++) memcpy(query[r], rows + r * width, (size_t)width * sizeof(float));
    for (int r = 0; r < ROWS; r++) sp_bf16_of_query(rows + r * width, width);
    sp_tile_scores(&w->step, rows, score[0]);
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < w->step.n_blocks * 16; k++) {
            float key[WIDEST] = {0}, scale;
            memcpy(key, w->keys[k], (size_t)width * sizeof(float));
            memcpy(&scale, w->step.key_block[k / 16] + (size_t)(k % 16) * 4, sizeof scale);
            assert_bits(score[r][k], two_chains(key, query[r], whole, 0) * scale, w, r, k);
        }
}

/* The same over 64 keys, and weights that a row does not see are 0. */
static void check_outputs(step_world *w, int from, int to)
{
    const int width = w->step.width;
    float *out = w->out[0], weight[ROWS][KEYS], factor[ROWS], was[ROWS * WIDEST];
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < KEYS; k++) weight[r][k] = w->mask[r] >> k & 1 ? w->prob[r][k] * w->scale[k] : 0;
    for (int r = 0; r < ROWS; r++) factor[r] = sp_bf16_of_probs(w->prob[r], w->scale, w->mask[r]);
    memcpy(was, out, sizeof was);
    sp_tile_outputs(&w->step, w->prob[0], factor, from, to, out);
    for (int r = 0; r < ROWS; r++)
        for (int d = 0; d < width; d++) {
            float value[KEYS];
            for (int k = 0; k < KEYS; k++) value[k] = w->values[k][d];
            const float old = was[r * width + d];
            const float want = fmaf(two_chains(value, weight[r], KEYS, 0), factor[r], old);
            assert_bits(out[r * width + d], r < from || r >= to ? old : want, w, r, d);
        }
}

/* A factor makes up for what rounding did to the sum of a row's weights. */
static void check_factors(const step_world *w)
{
    for (int r = 0; r < ROWS; r++) {
        float prob[KEYS];
        double all = 0, rounded = 0;
        memcpy(prob, w->prob[r], sizeof prob);
        const float factor = sp_bf16_of_probs(prob, w->scale, w->mask[r]);
        for (int k = 0; k < KEYS; k++) {
            const float weight = w->mask[r] >> k & 1 ? w->prob[r][k] * w->scale[k] : 0;
            all += (double)weight;
            rounded += (double)to_bf16(weight);
        }
        if (rounded == 0)
            assert_true(factor == 0);
        else
            assert_true(fabs((double)factor - all / rounded) < 1e-6);
    }
}

static void attention_has_the_bits_of_two_chains(void **state)
{
    static const int widths[] = {16, 32, 64, 80, 112, 256};
    uint64_t seed = 25;
    step_world *w = SP_NEW(step_world);
    assert_non_null(w);
    (void)variant(state);
    for (size_t i = 0; i < SP_COUNT(widths); i++)
        for (int n = 1; n <= SP_STEP_BLOCKS; n++) {
            step_open(w, &seed, widths[i], n, n == 3);
            sp_tiles_open();
            sp_tile_step_open(&w->step);
            check_factors(w);
            check_scores(w);
            check_outputs(w, n - 1, n == 4 ? 9 : ROWS);
            sp_tiles_close();
            step_close(w);
        }
    sp_free(w);
}

static void attention_in_tiles_is_a_set_of_kernels(void **state)
{
    sp_device *d = NULL;
    (void)variant(state);
    const sp_device_opts attend = {.n_threads = 1, .amx_attend = true};
    assert_int_equal(sp_device_open("cpu", &attend, &d), SP_OK);
    assert_string_equal(d->kernels, "amx-attend");
    sp_device_close(d);
    const sp_device_opts both = {.kernels = "amx", .n_threads = 1, .amx_attend = true, .amx_f16 = true};
    assert_int_equal(sp_device_open("cpu", &both, &d), SP_OK);
    assert_string_equal(d->kernels, "amx-f16-attend");
    sp_device_close(d);
    d = NULL;
    const sp_device_opts other = {.kernels = "avx2", .n_threads = 1, .amx_attend = true};
    assert_int_equal(sp_device_open("cpu", &other, &d), SP_E_UNSUPPORTED);
    assert_non_null(strstr(sp_error_detail(), "attention in bf16"));
    const sp_device_opts exact = {.n_threads = 1, .amx_attend = true, .exact_products = true};
    assert_int_equal(sp_device_open("cpu", &exact, &d), SP_E_UNSUPPORTED);
    assert_null(d);
}

#endif

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
#if SP_HAVE_X86
        ON_VARIANT("amx-attend", attention_has_the_bits_of_two_chains),
        ON_VARIANT("amx-attend", attention_in_tiles_is_a_set_of_kernels),
#endif
    };
    return cmocka_run_group_tests_name("tiles", tests, NULL, NULL);
}
