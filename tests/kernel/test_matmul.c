/* test_matmul.c -- products with float weights: every variant against ref, odd sizes, and that a
 * row's result does not depend on other rows. */
#include "kernel/kernels.h"

enum { M_MAX = 272 }; /* two runs of rows, and a tail */

static const sp_dtype types[] = {SP_F32, SP_F16, SP_BF16};

/* Partial panels, fewer panels than one row takes at once, partial blocks. */
static const struct {
    int64_t rows, cols;
} sizes[] = {{1, 1},    {3, 7},    {16, 31},   {5, 256}, {17, 257}, {31, 100},
             {64, 545}, {65, 128}, {130, 129}, {200, 3}, {33, 1200}};
static const int m_counts[] = {1,  2,  3,   4,   5,   6,   7,   8,   11,  12,
                               13, 17, 121, 132, 133, 240, 241, 264, 265, M_MAX};

typedef struct problem {
    sp_mat w;
    uint8_t *memory; /* of the weights, which start at an odd address */
    void *packed;
    float *x_memory, *x; /* [M_MAX, n_cols], x unaligned */
    float *bias, *before;
    float *expected, *y; /* [M_MAX, n_rows] */
} problem;

static void pack(const sp_ops *ops, problem *p, int n_parts)
{
    p->w.packed = NULL;
    for (int part = 0; part < n_parts; part++)
        ops->pack(&(sp_pack_args){&p->w, p->packed}, part, n_parts);
    p->w.packed = p->packed;
}

static problem problem_make(const sp_ops *ops, uint64_t *seed, sp_dtype type, int64_t n_rows,
                            int64_t n_cols)
{
    problem p = {.w = {type, n_rows, n_cols, NULL, NULL}};
    p.memory = sp_alloc((size_t)n_rows * sp_row_bytes(type, n_cols) + 1, 1);
    assert_non_null(p.memory);
    random_groups(seed, type, p.memory + 1, n_rows * n_cols);
    p.w.data = p.memory + 1;
    p.x_memory = random_floats(seed, M_MAX * n_cols + 1, 1);
    p.x = p.x_memory + 1;
    p.bias = random_floats(seed, n_rows, 1);
    p.before = random_floats(seed, M_MAX * n_rows, 1);
    p.expected = random_floats(seed, M_MAX * n_rows, 1);
    p.y = random_floats(seed, M_MAX * n_rows, 1);
    p.packed = sp_alloc_aligned(ops->pack_bytes(&p.w));
    assert_non_null(p.packed);
    pack(ops, &p, 3);
    return p;
}

static void problem_free(problem *p)
{
    sp_free(p->memory);
    sp_free(p->packed);
    sp_free(p->x_memory);
    sp_free(p->bias);
    sp_free(p->before);
    sp_free(p->expected);
    sp_free(p->y);
}

typedef struct rows {
    int64_t first, m;
} rows;

enum { BIAS = 1, ADD = 2 }; /* flags of a product */

/* Multiplies some rows of x into the same rows of y. */
static void run(const sp_ops *ops, const problem *p, float *y, rows r, unsigned flags, int n_parts)
{
    const int64_t first = r.first, m = r.m;
    sp_matmul_args a = {.w = &p->w,
                        .x = p->x + first * p->w.n_cols,
                        .m = m,
                        .y = y + first * p->w.n_rows,
                        .bias = flags & BIAS ? p->bias : NULL,
                        .add = flags & ADD};
    if (flags & ADD)
        memcpy(a.y, p->before + first * p->w.n_rows, (size_t)(m * p->w.n_rows) * sizeof(float));
    for (int part = 0; part < n_parts; part++) ops->matmul(&a, part, n_parts);
}

static void equals_ref(void **state)
{
    const sp_ops *ops = variant(state), *ref = reference();
    uint64_t seed = 1;
    for (size_t t = 0; t < SP_COUNT(types); t++) {
        for (size_t i = 0; i < SP_COUNT(sizes); i++) {
            problem p = problem_make(ops, &seed, types[t], sizes[i].rows, sizes[i].cols);
            const unsigned flags = i & (BIAS | ADD);
            run(ref, &p, p.expected, (rows){0, M_MAX}, flags, 1);
            for (size_t k = 0; k < SP_COUNT(m_counts); k++) {
                run(ops, &p, p.y, (rows){0, m_counts[k]}, flags, 1);
                double d = nmse(p.y, p.expected, m_counts[k] * sizes[i].rows);
                if (!(d <= 1e-12)) /* 2^-24, squared, is 4e-15 */
                    fail_msg("%s %dx%d m=%d: NMSE %g", sp_dtype_of(types[t])->name,
                             (int)sizes[i].rows, (int)sizes[i].cols, m_counts[k], d);
            }
            problem_free(&p);
        }
    }
}

/* A row alone, in a small group at any place, and among all: the same bits. */
static void row_does_not_depend_on_others(void **state)
{
    const sp_ops *ops = variant(state);
    uint64_t seed = 2;
    for (size_t t = 0; t < SP_COUNT(types); t++) {
        problem p = problem_make(ops, &seed, types[t], 149, 555);
        run(ops, &p, p.expected, (rows){0, M_MAX}, BIAS | ADD, 1);
        for (int64_t m = 0; m < M_MAX; m++) run(ops, &p, p.y, (rows){m, 1}, BIAS | ADD, 1);
        assert_same_bits(p.y, p.expected, M_MAX * 149);
        for (int64_t m = 0, n; m < M_MAX; m += n) {
            n = SP_MIN(1 + below(&seed, 15), M_MAX - m);
            run(ops, &p, p.y, (rows){m, n}, BIAS | ADD, 1 + below(&seed, 4));
        }
        assert_same_bits(p.y, p.expected, M_MAX * 149);
        problem_free(&p);
    }
}

static void parts_make_the_whole(void **state)
{
    const sp_ops *ops = variant(state);
    uint64_t seed = 3;
    for (size_t t = 0; t < SP_COUNT(types); t++) {
        problem p = problem_make(ops, &seed, types[t], 213, 300);
        for (int m = 1; m <= 17; m += 4) {
            run(ops, &p, p.expected, (rows){0, m}, BIAS, 1);
            for (int n_parts = 2; n_parts <= 16; n_parts++) {
                memset(p.y, 0xff, (size_t)(m * 213) * sizeof(float));
                run(ops, &p, p.y, (rows){0, m}, BIAS, n_parts);
                assert_same_bits(p.y, p.expected, m * 213);
            }
        }
        problem_free(&p);
    }
}

/* Nothing is written before or after the output. */
static void writes_stay_inside(void **state)
{
    const sp_ops *ops = variant(state);
    uint64_t seed = 4;
    problem p = problem_make(ops, &seed, SP_F16, 70, 64);
    for (int m = 1; m <= 14; m++) {
        fill(&seed, p.y, M_MAX * 70, 1);
        memcpy(p.expected, p.y, M_MAX * 70 * sizeof(float));
        run(ops, &p, p.y, (rows){1, m}, 0, 1);
        assert_same_bits(p.y, p.expected, 70);
        assert_same_bits(p.y + (m + 1) * 70, p.expected + (m + 1) * 70, (M_MAX - m - 1) * 70);
    }
    problem_free(&p);
}

/* A NaN in x makes its row NaN, one in the weights its output, and nothing else. */
static void what_is_not_finite_is_not_hidden(void **state)
{
    const sp_ops *ops = variant(state);
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static const int counts[] = {1, 2, 6, 9, 20};
    uint64_t seed = 5;
    for (size_t t = 0; t < SP_COUNT(types); t++)
        for (size_t i = 0; i < SP_COUNT(bad); i++) {
            problem p = problem_make(ops, &seed, types[t], 70, 300);
            const size_t at = sp_row_bytes(types[t], 37 * 300 + 299); /* output 37 */
            sp_row_from_f32(types[t], &bad[i], p.memory + 1 + at, 1);
            pack(ops, &p, 2);
            p.x[8 * 300 + 149 * (int)i] = bad[i];
            for (size_t k = 0; k < SP_COUNT(counts); k++) {
                const int m_first = 8 - SP_MIN(8, counts[k] - 1);
                run(ops, &p, p.y, (rows){m_first, counts[k]}, BIAS, 2);
                for (int m = m_first; m < m_first + counts[k]; m++)
                    for (int r = 0; r < 70; r++)
                        assert_int_equal(isfinite(p.y[m * 70 + r]) != 0, m != 8 && r != 37);
            }
            problem_free(&p);
        }
}

/* Sums near the limits of f32 keep their precision; sums that exceed f32 are infinite. */
static void large_and_small_values(void **state)
{
    const sp_ops *ops = variant(state), *ref = reference();
    static const float sizes_of_x[] = {0, 1e-42f, 1e-36f, 1e20f, 1e35f, 3e38f};
    uint64_t seed = 6;
    for (size_t t = 0; t < SP_COUNT(types); t++) {
        problem p = problem_make(ops, &seed, types[t], 40, 300);
        memset(p.bias, 0, 40 * sizeof *p.bias);
        for (size_t i = 0; i < SP_COUNT(sizes_of_x); i++) {
            const float size = sizes_of_x[i];
            for (int64_t c = 0; c < 8 * 300; c++) p.x[c] = size;
            run(ref, &p, p.expected, (rows){0, 8}, BIAS, 1);
            run(ops, &p, p.y, (rows){0, 8}, BIAS, 1);
            for (int64_t k = 0; k < 8 * 40; k++) {
                /* 300 roundings, of sums of up to 300 products */
                const double slack = 300 * (300 * (double)size * 0x1p-24 + 0x1p-149);
                if (isfinite(p.expected[k]) && size < 1e36f)
                    assert_true(fabs((double)p.y[k] - p.expected[k]) <= slack);
                else if (isfinite(p.expected[k])) /* a partial sum may overflow */
                    assert_true(!isfinite(p.y[k]) || fabs((double)p.y[k] - p.expected[k]) <= slack);
                else
                    assert_false(isfinite(p.y[k]));
            }
        }
        problem_free(&p);
    }
}

/* All 16-bit weights, times one. */
static void every_weight_is_what_its_type_says(void **state)
{
    enum { N = 1 << 13 };
    const sp_ops *ops = variant(state);
    uint64_t seed = 7;
    static const sp_dtype halves[] = {SP_F16, SP_BF16};
    for (size_t t = 0; t < SP_COUNT(halves); t++) {
        problem p = problem_make(ops, &seed, halves[t], N, 1);
        for (int m = 0; m < M_MAX; m++) p.x[m] = 1;
        for (int first = 0; first < 1 << 16; first += N) {
            for (int i = 0; i < N; i++) {
                const uint16_t bits = (uint16_t)(first + i);
                memcpy(p.memory + 1 + 2 * i, &bits, 2);
            }
            pack(ops, &p, 5);
            for (int m = 1; m <= 13; m += 6) {
                run(ops, &p, p.y, (rows){0, m}, 0, 1);
                for (int i = 0; i < N; i++) {
                    const uint16_t bits = (uint16_t)(first + i);
                    const bool f16 = halves[t] == SP_F16;
                    const float want = f16 ? sp_f16_to_f32(bits) : sp_bf16_to_f32(bits);
                    const float got = p.y[(m - 1) * N + i];
                    assert_true(got == want || (isnan(got) && isnan(want)));
                }
            }
        }
        problem_free(&p);
    }
}

/* The parts of packing write the whole result; the padding is zero. */
static void packing_fills_its_place(void **state)
{
    const sp_ops *ops = variant(state);
    uint64_t seed = 8;
    for (size_t t = 0; t < SP_COUNT(types); t++) {
        problem p = problem_make(ops, &seed, types[t], 83, 70);
        const size_t n = ops->pack_bytes(&p.w), size = sp_row_bytes(types[t], 1);
        uint8_t *whole = sp_alloc(n, 1);
        assert_non_null(whole);
        memcpy(whole, p.packed, n);
        for (int n_parts = 1; n_parts <= 8; n_parts++) {
            memset(p.packed, 0xa5, n);
            pack(ops, &p, n_parts);
            assert_memory_equal(p.packed, whole, n);
        }
        static const uint8_t zero[4];
        const size_t outputs = n / (70 * size); /* with the padding */
        size_t zeros = 0;
        for (size_t i = 0; i < n; i += size) zeros += memcmp(whole + i, zero, size) == 0;
        assert_true(outputs >= 83 && zeros >= (outputs - 83) * 70 && zeros < n / size / 2);
        sp_free(whole);
        problem_free(&p);
    }
}

/* Weights that are not packed, of any type, are multiplied by ref. */
static void what_is_not_packed_is_left_to_ref(void **state)
{
    const sp_ops *ops = variant(state), *ref = reference();
    uint64_t seed = 9;
    for (int type = 0; type < SP_DTYPE_N; type++) {
        const size_t bytes = 21 * sp_row_bytes((sp_dtype)type, 256);
        uint8_t *data = sp_alloc(bytes, 1);
        assert_non_null(data);
        random_groups(&seed, (sp_dtype)type, data, 21 * 256 / sp_dtype_of((sp_dtype)type)->n_group);
        const sp_mat w = {(sp_dtype)type, 21, 256, data, NULL};
        float *x = random_floats(&seed, 3 * 256, 1), want[3 * 21], y[3 * 21];
        ref->matmul(&(sp_matmul_args){.w = &w, .x = x, .m = 3, .y = want}, 0, 1);
        for (int part = 0; part < 2; part++)
            ops->matmul(&(sp_matmul_args){.w = &w, .x = x, .m = 3, .y = y}, part, 2);
        assert_same_bits(y, want, 3 * 21);
        sp_free(x);
        sp_free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_WIDTH(equals_ref),
        ON_EVERY_WIDTH(row_does_not_depend_on_others),
        ON_EVERY_WIDTH(parts_make_the_whole),
        ON_EVERY_WIDTH(writes_stay_inside),
        ON_EVERY_WIDTH(what_is_not_finite_is_not_hidden),
        ON_EVERY_WIDTH(large_and_small_values),
        ON_EVERY_WIDTH(every_weight_is_what_its_type_says),
        ON_EVERY_WIDTH(packing_fills_its_place),
        ON_EVERY_WIDTH(what_is_not_packed_is_left_to_ref),
    };
    return cmocka_run_group_tests_name("matmul", tests, NULL, NULL);
}
