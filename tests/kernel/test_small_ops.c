/* test_small_ops.c -- normalisation, activation, embedding, rotation and the KV layout. */
#include "kernel/kernels.h"

enum { B = SP_BLOCK_TOKENS };

/* -- rmsnorm ----------------------------------------------------------------------------------- */

static void rmsnorm_equals_ref(void **state)
{
    static const int widths[] = {1, 7, 8, 31, 32, 33, 100, 896, 4099};
    const sp_ops *ops = variant(state), *ref = reference();
    uint64_t seed = 1;
    for (size_t i = 0; i < SP_COUNT(widths); i++) {
        const int64_t n = widths[i], m = 5;
        float *x = random_floats(&seed, m * n, 3), *w = random_floats(&seed, n, 1);
        float *y = random_floats(&seed, m * n, 1), *expected = random_floats(&seed, m * n, 1);
        sp_rmsnorm_args a = {x, w, expected, m, n, 1e-5f};
        ref->rmsnorm(&a, 0, 1);
        a.y = y;
        for (int part = 0; part < 3; part++) ops->rmsnorm(&a, part, 3);
        assert_close(y, expected, m * n);
        memcpy(expected, y, (size_t)(m * n) * sizeof(float));
        for (int64_t r = 0; r < m; r++) { /* each row alone, in place */
            sp_rmsnorm_args one = {x + r * n, w, x + r * n, 1, n, 1e-5f};
            ops->rmsnorm(&one, 0, 1);
        }
        assert_same_bits(x, expected, m * n);
        sp_free(x);
        sp_free(w);
        sp_free(y);
        sp_free(expected);
    }
}

static void rmsnorm_of_zeros_is_zero(void **state)
{
    const sp_ops *ops = variant(state);
    float x[40] = {0}, w[40], y[40];
    for (int i = 0; i < 40; i++) w[i] = 1;
    sp_rmsnorm_args a = {x, w, y, 1, 40, 1e-6f};
    ops->rmsnorm(&a, 0, 1);
    assert_same_bits(y, x, 40);
}

/* -- layernorm --------------------------------------------------------------------------------- */

static void layernorm_equals_ref(void **state)
{
    static const int widths[] = {1, 7, 8, 31, 32, 33, 100, 384, 4099};
    const sp_ops *ops = variant(state), *ref = reference();
    uint64_t seed = 7;
    for (size_t i = 0; i < SP_COUNT(widths); i++) {
        const int64_t n = widths[i], m = 5;
        float *x = random_floats(&seed, m * n, 3), *w = random_floats(&seed, n, 1), *b = random_floats(&seed, n, 1);
        float *y = random_floats(&seed, m * n, 1), *expected = random_floats(&seed, m * n, 1);
        for (int64_t k = 0; k < m * n; k++) x[k] += 5; /* a mean that does not vanish */
        sp_layernorm_args a = {x, w, b, expected, m, n, 1e-5f};
        ref->layernorm(&a, 0, 1);
        a.y = y;
        for (int part = 0; part < 3; part++) ops->layernorm(&a, part, 3);
        assert_close(y, expected, m * n);
        memcpy(expected, y, (size_t)(m * n) * sizeof(float));
        for (int64_t r = 0; r < m; r++) { /* each row alone, in place */
            sp_layernorm_args one = {x + r * n, w, b, x + r * n, 1, n, 1e-5f};
            ops->layernorm(&one, 0, 1);
        }
        assert_same_bits(x, expected, m * n);
        sp_free(x);
        sp_free(w);
        sp_free(b);
        sp_free(y);
        sp_free(expected);
    }
}

/* What the mean and the variance are, in numbers that anyone can check. */
static void layernorm_of_four_numbers(void **state)
{
    const sp_ops *ops = variant(state);
    const float x[] = {1, 2, 3, 6}, w[] = {2, 2, 2, 2}, b[] = {10, 10, 10, 10};
    float y[4];
    sp_layernorm_args a = {x, w, b, y, 1, 4, 0.5f}; /* mean 3, variance 3.5 */
    ops->layernorm(&a, 0, 1);
    const float expected[] = {8, 9, 10, 13};
    for (int i = 0; i < 4; i++) assert_true(fabsf(y[i] - expected[i]) <= 1e-6f);
    a.b = NULL;
    ops->layernorm(&a, 0, 1);
    for (int i = 0; i < 4; i++) assert_true(fabsf(y[i] + 10 - expected[i]) <= 1e-6f);
}

/* -- silu -------------------------------------------------------------------------------------- */

static void act_mul_equals_ref(void **state)
{
    const sp_ops *ops = variant(state), *ref = reference();
    uint64_t seed = 2;
    for (int64_t n = 1; n < 700; n += 1 + n / 3) {
        float *gate = random_floats(&seed, n, 20), *up = random_floats(&seed, n, 1);
        float *y = random_floats(&seed, n, 1), *expected = random_floats(&seed, n, 1);
        const sp_act act = (sp_act)(n % SP_ACT_N);
        sp_act_mul_args a = {gate, up, expected, n, .act = act};
        ref->act_mul(&a, 0, 1);
        a.y = y;
        for (int part = 0; part < 4; part++) ops->act_mul(&a, part, 4);
        assert_close(y, expected, n);
        for (int64_t i = 0; i < n; i++) { /* each element alone has the same bits, in place too */
            sp_act_mul_args one = {gate + i, up + i, gate + i, 1, .act = act};
            ops->act_mul(&one, 0, 1);
        }
        assert_same_bits(gate, y, n);
        sp_free(gate);
        sp_free(up);
        sp_free(y);
        sp_free(expected);
    }
}

/* Relative accuracy over the whole range, and the results beyond it. */
static void silu_is_accurate_everywhere(void **state)
{
    const sp_ops *ops = variant(state);
    for (float x = -86; x < 90; x += 0.37f) {
        float up = 1, y;
        sp_act_mul_args a = {&x, &up, &y, 1};
        ops->act_mul(&a, 0, 1);
        double expected = (double)x / (1 + exp(-(double)x));
        assert_true(fabs((double)y - expected) <= 4e-7 * fabs(expected));
    }
    const float far[] = {-1e30f, -1000, -89, 1000, 1e30f};
    for (size_t i = 0; i < SP_COUNT(far); i++) {
        float up = 1, y;
        sp_act_mul_args a = {&far[i], &up, &y, 1};
        ops->act_mul(&a, 0, 1);
        assert_true(far[i] > 0 ? y == far[i] : fabsf(y) <= 1e-7f * fabsf(far[i]));
    }
}

static void gelu_is_accurate_everywhere(void **state)
{
    const sp_ops *ops = variant(state);
    for (float x = -20; x < 20; x += 0.037f) {
        float up = 1, y;
        sp_act_mul_args a = {&x, &up, &y, 1, .act = SP_ACT_GELU};
        ops->act_mul(&a, 0, 1);
        const double z = (double)x, inner = sqrt(2 / M_PI) * (z + 0.044715 * z * z * z);
        assert_true(fabs((double)y - 0.5 * z * (1 + tanh(inner))) <= 1e-6 * fmax(1, fabs(z)));
    }
}

/* Relative accuracy down to where GELU has vanished, without `up`. */
static void gelu_erf_is_accurate_everywhere(void **state)
{
    const sp_ops *ops = variant(state);
    for (float x = -20; x < 20; x += 0.037f) {
        float y;
        sp_act_mul_args a = {&x, NULL, &y, 1, .act = SP_ACT_GELU_ERF};
        ops->act_mul(&a, 0, 1);
        const double expected = 0.5 * (double)x * erfc(-(double)x / sqrt(2));
        assert_true(fabs((double)y - expected) <= 6e-7 * fmax(1e-3, fabs(expected)));
    }
}

/* Limits included, by the formula of gpt-oss. */
static void swiglu_oai_is_accurate_everywhere(void **state)
{
    const sp_ops *ops = variant(state);
    for (float x = -20; x < 20; x += 0.037f) {
        const float up = 1.3f * x;
        float y;
        sp_act_mul_args a = {&x, &up, &y, 1, .act = SP_ACT_SWIGLU_OAI};
        ops->act_mul(&a, 0, 1);
        const double g = fmin((double)x, 7), factor = 1 + fmax(-7, fmin((double)up, 7));
        const double expected = factor * g / (1 + exp(-1.702 * g));
        assert_true(fabs((double)y - expected) <= 6e-7 * fmax(1, fabs(expected)));
    }
}

/* -- embedding --------------------------------------------------------------------------------- */

static void embed_takes_rows(void **state)
{
    const sp_ops *ops = variant(state);
    uint64_t seed = 3;
    for (int type = 0; type < SP_DTYPE_N; type++) {
        enum { N = 512, ROWS = 9 };
        static const int32_t ids[] = {8, 0, 3, 3, 7};
        const sp_dtype_info *info = sp_dtype_of((sp_dtype)type);
        const size_t row_bytes = sp_row_bytes((sp_dtype)type, N);
        uint8_t *bytes = sp_alloc(ROWS, row_bytes);
        float *x = random_floats(&seed, 5 * N, 1), row[N];
        assert_non_null(bytes);
        random_groups(&seed, (sp_dtype)type, bytes, ROWS * N / info->n_group);
        sp_mat w = {(sp_dtype)type, ROWS, N, bytes};
        sp_embed_args a = {&w, ids, 5, x};
        for (int part = 0; part < 3; part++) ops->embed(&a, part, 3);
        for (int i = 0; i < 5; i++) {
            sp_row_to_f32((sp_dtype)type, bytes + (size_t)ids[i] * row_bytes, row, N);
            assert_same_bits(x + i * N, row, N);
        }
        sp_free(bytes);
        sp_free(x);
    }
}

/* -- rotation ---------------------------------------------------------------------------------- */

static void fill_rope(float *c, float *s, int n_pos, int half)
{
    for (int p = 0; p < n_pos; p++) {
        for (int i = 0; i < half; i++) {
            c[p * half + i] = (float)cos(p * pow(100, -(double)i / half));
            s[p * half + i] = (float)sin(p * pow(100, -(double)i / half));
        }
    }
}

/* Pair i of a head is the complex number whose product with e^(i * angle) is the rotated pair. */
static void rope_turns_pairs(void **state)
{
    enum { D = 10, HALF = 4, N_POS = 50 };
    float c[N_POS * HALF], s[N_POS * HALF], x[D], y[D];
    uint64_t seed = 4;
    SP_UNUSED(state);
    fill_rope(c, s, N_POS, HALF);
    for (int adjacent = 0; adjacent < 2; adjacent++) {
        sp_rope rope = {2 * HALF, adjacent, N_POS, c, s};
        for (int p = 0; p < N_POS; p++) {
            fill(&seed, x, D, 1);
            memcpy(y, x, sizeof x);
            sp_rope_rotate(&rope, y, p);
            for (int i = 0; i < HALF; i++) {
                int a = adjacent ? 2 * i : i, b = adjacent ? 2 * i + 1 : i + HALF;
                double angle = p * pow(100, -(double)i / HALF);
                assert_true(fabs(y[a] - (x[a] * cos(angle) - x[b] * sin(angle))) < 1e-6);
                assert_true(fabs(y[b] - (x[a] * sin(angle) + x[b] * cos(angle))) < 1e-6);
            }
            assert_same_bits(y + 2 * HALF, x + 2 * HALF, D - 2 * HALF);
        }
    }
}

/* -- KV layout --------------------------------------------------------------------------------- */

/* Element (slot, d) of a head's keys or values, by the layout in ops.h. */
static float kv_element(sp_dtype type, const uint8_t *head, bool keys, int D, int slot, int d)
{
    uint16_t scale;
    float f;
    if (type == SP_Q16) {
        int16_t q;
        const int key_at = (d / 2 * B + slot) * 2 + d % 2,
                  value_at = ((d / 16 * (B / 2) + slot / 2) * 16 + d % 16) * 2 + slot % 2;
        memcpy(&f, head + 4 * slot, 4);
        memcpy(&q, head + 4 * B + 2 * (keys ? key_at : value_at), 2);
        return f * q;
    }
    if (type == SP_Q8_0) {
        const uint8_t *group = head + (keys ? d / 32 * (34 * B) : (slot * (D / 32) + d / 32) * 34);
        memcpy(&scale, group + (keys ? 2 * slot : 0), 2);
        int8_t q = (int8_t)(keys ? group[2 * B + d % 32 * B + slot] : group[2 + d % 32]);
        return sp_f16_to_f32(scale) * q;
    }
    size_t size = sp_row_bytes(type, 1);
    sp_row_to_f32(type, head + (size_t)(keys ? d * B + slot : slot * D + d) * size, &f, 1);
    return f;
}

static void kv_store_keeps_the_layout(void **state)
{
    enum { G = 3, D = 64, M = 7 };
    static const sp_dtype types[] = {SP_F32, SP_F16, SP_BF16, SP_Q16, SP_Q8_0};
    static const double bounds[] = {1e-14, 1e-7, 1e-5, 1e-8, 1e-4};
    static const uint32_t block[M] = {2, 2, 0, 0, 3, 3, 3};
    static const uint8_t slot[M] = {15, 0, 7, 8, 1, 2, 3};
    static const int32_t rot[M] = {0, 1, 2, 30, 31, 49, 5};
    const sp_ops *ops = variant(state);
    float c[50 * D / 2], s[50 * D / 2];
    uint64_t seed = 5;
    fill_rope(c, s, 50, D / 2);
    sp_rope rope = {D, false, 50, c, s};
    for (size_t k = 0; k < SP_COUNT(types); k++) {
        const size_t head_bytes = sp_kv_head_bytes(types[k], D), bytes = 2 * G * head_bytes;
        uint8_t *base = sp_alloc(4, bytes), *before = sp_alloc(4, bytes);
        float *key = random_floats(&seed, M * G * D, 1),
              *value = random_floats(&seed, M * G * D, 1);
        assert_true(base && before);
        memset(base, 0x5a, 4 * bytes);
        memcpy(before, base, 4 * bytes);
        sp_kv_view kv = {types[k], G, D, base, bytes};
        sp_kv_store_args a = {&kv, &rope, key, value, M, block, slot, rot};
        for (int part = 0; part < 5; part++) ops->kv_store(&a, part, 5);
        for (int t = 0; t < M; t++) {
            for (int g = 0; g < G; g++) {
                const uint8_t *keys = base + block[t] * bytes + 2 * (size_t)g * head_bytes;
                float *row = key + (t * G + g) * D, stored[D];
                sp_rope_rotate(&rope, row, rot[t]);
                for (int d = 0; d < D; d++) {
                    stored[d] = kv_element(types[k], keys, true, D, slot[t], d);
                }
                assert_true(nmse(stored, row, D) < bounds[k]);
                for (int d = 0; d < D; d++) {
                    stored[d] = kv_element(types[k], keys + head_bytes, false, D, slot[t], d);
                }
                assert_true(nmse(stored, value + (t * G + g) * D, D) < bounds[k]);
            }
        }
        /* Only bytes of the tokens changed: a token is 2 G rows of D elements. */
        size_t changed = 0, row = head_bytes / B;
        for (size_t i = 0; i < 4 * bytes; i++) changed += base[i] != before[i];
        assert_true(changed <= M * 2 * G * row);
        assert_true(changed >= M * 2 * G * row * 9 / 10);
        sp_free(base);
        sp_free(before);
        sp_free(key);
        sp_free(value);
    }
}

/* Every bit equals the definition: partial vectors, both kinds of pairs, values that f16 rounds,
 * that overflow it, and that are not finite. */
static void kv_store_equals_ref(void **state)
{
    enum { G = 2, M = 35, N_POS = 50, MOST = 96 };
    static const struct {
        int head, n_rot;
        bool adjacent;
    } heads[] = {{64, 64, false}, {64, 64, true}, {10, 8, false}, {24, 16, false},
                 {96, 32, false}, {32, 0, false}, {36, 36, true}};
    static const float far[] = {65519, 65520,    -1e30f, 0x1p-24f, 0x1.8p-25f,
                                -0.0f, INFINITY, NAN,    6.0e-5f,  1e-40f};
    static const sp_dtype types[] = {SP_F32, SP_F16, SP_BF16, SP_Q16, SP_Q8_0};
    const sp_ops *ops = variant(state), *ref = reference();
    float c[N_POS * MOST / 2], s[N_POS * MOST / 2];
    uint64_t seed = 6;
    for (size_t i = 0; i < SP_COUNT(heads) * SP_COUNT(types); i++) {
        const int D = heads[i / SP_COUNT(types)].head, n_rot = heads[i / SP_COUNT(types)].n_rot;
        const sp_dtype type = types[i % SP_COUNT(types)];
        if (D % sp_dtype_of(type)->n_group) continue;
        fill_rope(c, s, N_POS, n_rot / 2);
        const sp_rope rope = {n_rot, heads[i / SP_COUNT(types)].adjacent, N_POS, c, s};
        const size_t bytes = 2 * G * sp_kv_head_bytes(type, D);
        uint8_t *base = sp_alloc(4, bytes), *expected = sp_alloc(4, bytes);
        float *key = random_floats(&seed, M * G * D, 5),
              *value = random_floats(&seed, M * G * D, 5);
        uint32_t block[M];
        uint8_t slot[M];
        int32_t rot[M];
        assert_true(base && expected);
        memset(base, 0x5a, 4 * bytes);
        memset(expected, 0x5a, 4 * bytes);
        for (int t = 0; t < M; t++) {
            block[t] = (uint32_t)(t / B);
            slot[t] = (uint8_t)(t % B);
            rot[t] = below(&seed, N_POS);
        }
        for (size_t k = 0; k < SP_COUNT(far) && type != SP_Q8_0; k++) {
            value[below(&seed, M * G * D)] = far[k];
            key[below(&seed, M * G * D)] = far[k];
        }
        sp_kv_view kv = {type, G, D, expected, bytes};
        sp_kv_store_args a = {&kv, &rope, key, value, M, block, slot, rot};
        ref->kv_store(&a, 0, 1);
        kv.base = base;
        for (int part = 0; part < 3; part++) ops->kv_store(&a, part, 3);
        assert_memory_equal(base, expected, 4 * bytes);
        sp_free(base);
        sp_free(expected);
        sp_free(key);
        sp_free(value);
    }
}

/* -- rows -------------------------------------------------------------------------------------- */

enum { BLENDED = 200 };

/* What a blend keeps of y and adds of x; what is not kept is not read, NaN included. */
static void blends_keep_and_add(void **state)
{
    const sp_ops *ops = variant(state);
    float x[BLENDED], y[BLENDED];
    for (int i = 0; i < BLENDED; i++) x[i] = y[i] = (float)i;
    for (int part = 0; part < 3; part++)
        ops->blend(&(sp_blend_args){.x = x, .y = y, .n = BLENDED, .keep = 0.5f, .scale = 4}, part, 3);
    for (int i = 0; i < BLENDED; i++) assert_true(y[i] == 4.5f * (float)i);
    ops->blend(&(sp_blend_args){.y = y, .n = BLENDED, .keep = 2}, 0, 1);
    for (int i = 0; i < BLENDED; i++) assert_true(y[i] == 9 * (float)i);
    for (int i = 0; i < BLENDED; i++) y[i] = i % 3 ? NAN : INFINITY;
    ops->blend(&(sp_blend_args){.y = y, .n = BLENDED}, 0, 1);
    for (int i = 0; i < BLENDED; i++) assert_true(y[i] == 0);
}

/* Rows are taken from where the list says, and spread with their weights onto what is there. */
static void rows_are_taken_and_spread(void **state)
{
    enum { WIDE = 5, ROWS = 3, ALL = 6 };
    static const int32_t row[ROWS] = {4, 0, 2};
    static const float weight[ROWS] = {0.5f, 2, -1};
    const sp_ops *ops = variant(state);
    float all[ALL * WIDE], some[ROWS * WIDE];
    for (int i = 0; i < ALL * WIDE; i++) all[i] = (float)i;
    for (int part = 0; part < 2; part++)
        ops->take(&(sp_take_args){all, some, row, ROWS, WIDE}, part, 2);
    for (int i = 0; i < ROWS * WIDE; i++)
        assert_true(some[i] == (float)(row[i / WIDE] * WIDE + i % WIDE));
    for (int part = 0; part < 2; part++)
        ops->spread(&(sp_spread_args){some, all, row, weight, ROWS, WIDE}, part, 2);
    for (int i = 0; i < ALL * WIDE; i++) {
        float times = 1;
        for (int r = 0; r < ROWS; r++) times += i / WIDE == row[r] ? weight[r] : 0;
        assert_true(all[i] == times * (float)i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_WIDTH(rmsnorm_equals_ref),  ON_EVERY_WIDTH(rmsnorm_of_zeros_is_zero),
        ON_EVERY_WIDTH(layernorm_equals_ref),  ON_EVERY_WIDTH(layernorm_of_four_numbers),
        ON_EVERY_WIDTH(gelu_erf_is_accurate_everywhere),
        ON_EVERY_WIDTH(swiglu_oai_is_accurate_everywhere),
        ON_EVERY_WIDTH(act_mul_equals_ref), ON_EVERY_WIDTH(silu_is_accurate_everywhere),
        ON_EVERY_WIDTH(gelu_is_accurate_everywhere),
        ON_EVERY_WIDTH(embed_takes_rows),    ON_EVERY_WIDTH(kv_store_keeps_the_layout),
        ON_EVERY_WIDTH(kv_store_equals_ref), cmocka_unit_test(rope_turns_pairs),
        ON_EVERY_WIDTH(blends_keep_and_add), ON_EVERY_WIDTH(rows_are_taken_and_spread),
    };
    return cmocka_run_group_tests_name("small ops", tests, NULL, NULL);
}
