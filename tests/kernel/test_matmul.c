/* test_matmul.c -- matrix product: every variant against ref, every type, odd sizes, and the
 * promise that a row's result does not depend on what is computed beside it. */
#include "kernel/kernels.h"

enum { M_MAX = 133 }; /* more than one run of the panel path, and a tail */

static const int row_counts[] = {1, 3, 4, 5, 8, 17, 50};
static const int m_counts[] = {1, 2, 3, 4, 5, 6, 7, 17, 64, 129};

/* Column counts: tails for types without groups, blocks that end within 512 columns for the others.
 */
static int64_t columns(sp_dtype type, int i)
{
    static const int plain[] = {1, 7, 31, 32, 100, 512, 545, 1200};
    static const int groups[] = {1, 2, 3, 8, 15, 16, 17, 37};
    int n_group = sp_dtype_of(type)->n_group;
    if (n_group == 1) return plain[i];
    return n_group == 32 ? 32 * groups[i] : 256 * (int64_t)(1 + i % 5);
}

typedef struct problem {
    sp_mat w;
    uint8_t *memory; /* of the weights, which start at an odd address */
    float *x, *bias, *before;
    float *expected, *y; /* [M_MAX, n_rows] */
} problem;

static problem problem_make(uint64_t *seed, sp_dtype type, int64_t n_rows, int64_t n_cols)
{
    const int64_t n_groups = n_rows * n_cols / sp_dtype_of(type)->n_group;
    problem p = {.w = {type, n_rows, n_cols, NULL}};
    p.memory = sp_alloc((size_t)n_rows, sp_row_bytes(type, n_cols) + 1);
    assert_non_null(p.memory);
    random_groups(seed, type, p.memory + 1, n_groups);
    p.w.data = p.memory + 1;
    p.x = random_floats(seed, M_MAX * n_cols, 1);
    p.bias = random_floats(seed, n_rows, 1);
    p.before = random_floats(seed, M_MAX * n_rows, 1);
    p.expected = random_floats(seed, M_MAX * n_rows, 1);
    p.y = random_floats(seed, M_MAX * n_rows, 1);
    return p;
}

static void problem_free(problem *p)
{
    sp_free(p->memory);
    sp_free(p->x);
    sp_free(p->bias);
    sp_free(p->before);
    sp_free(p->expected);
    sp_free(p->y);
}

/* Rows first .. first+m-1 of x into the same rows of y. */
static void run(const sp_ops *ops, const problem *p, float *y, int64_t first, int64_t m, bool bias,
                bool add, int n_parts)
{
    sp_matmul_args a = {.w = &p->w,
                        .x = p->x + first * p->w.n_cols,
                        .m = m,
                        .y = y + first * p->w.n_rows,
                        .bias = bias ? p->bias : NULL,
                        .add = add};
    if (add)
        memcpy(a.y, p->before + first * p->w.n_rows, (size_t)(m * p->w.n_rows) * sizeof(float));
    for (int part = 0; part < n_parts; part++) ops->matmul(&a, part, n_parts);
}

static void equals_ref(void **state)
{
    const sp_ops *ops = variant(state), *ref = reference();
    uint64_t seed = 1;
    for (int type = 0; type < SP_DTYPE_N; type++) {
        for (int i = 0; i < 8; i++) {
            int64_t n_rows = row_counts[i % (int)SP_COUNT(row_counts)];
            problem p = problem_make(&seed, (sp_dtype)type, n_rows, columns((sp_dtype)type, i));
            bool bias = i & 1, add = i & 2;
            run(ref, &p, p.expected, 0, M_MAX, bias, add, 1);
            for (size_t k = 0; k < SP_COUNT(m_counts); k++) {
                run(ops, &p, p.y, 0, m_counts[k], bias, add, 1);
                assert_close(p.y, p.expected, m_counts[k] * n_rows);
            }
            problem_free(&p);
        }
    }
}

/* Alone, in a small group at any place, in the whole: the same bits. */
static void row_does_not_depend_on_others(void **state)
{
    const sp_ops *ops = variant(state);
    uint64_t seed = 2;
    for (int type = 0; type < SP_DTYPE_N; type++) {
        problem p = problem_make(&seed, (sp_dtype)type, 21, columns((sp_dtype)type, 7));
        run(ops, &p, p.expected, 0, M_MAX, true, true, 1);
        for (int64_t m = 0; m < M_MAX; m++) run(ops, &p, p.y, m, 1, true, true, 1);
        assert_same_bits(p.y, p.expected, M_MAX * 21);
        for (int64_t m = 0, n; m < M_MAX; m += n) {
            n = 1 + below(&seed, 9);
            n = SP_MIN(n, M_MAX - m);
            run(ops, &p, p.y, m, n, true, true, 1);
        }
        assert_same_bits(p.y, p.expected, M_MAX * 21);
        problem_free(&p);
    }
}

static void parts_make_the_whole(void **state)
{
    const sp_ops *ops = variant(state);
    uint64_t seed = 3;
    for (int type = 0; type < SP_DTYPE_N; type++) {
        problem p = problem_make(&seed, (sp_dtype)type, 77, columns((sp_dtype)type, 4));
        for (int m = 1; m <= 5; m += 4) {
            run(ops, &p, p.expected, 0, m, true, false, 1);
            for (int n_parts = 2; n_parts <= 7; n_parts++) {
                memset(p.y, 0xff, (size_t)(m * 77) * sizeof(float));
                run(ops, &p, p.y, 0, m, true, false, n_parts);
                assert_same_bits(p.y, p.expected, m * 77);
            }
        }
        problem_free(&p);
    }
}

/* Nothing beyond the output is written, and nothing before it. */
static void writes_stay_inside(void **state)
{
    const sp_ops *ops = variant(state);
    uint64_t seed = 4;
    problem p = problem_make(&seed, SP_Q8_0, 6, 64);
    for (int m = 1; m <= 4; m++) {
        fill(&seed, p.y, M_MAX * 6, 1);
        memcpy(p.expected, p.y, M_MAX * 6 * sizeof(float));
        run(ops, &p, p.y, 1, m, false, false, 1);
        assert_same_bits(p.y, p.expected, 6);
        assert_same_bits(p.y + (m + 1) * 6, p.expected + (m + 1) * 6, (M_MAX - m - 1) * 6);
    }
    problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_WIDTH(equals_ref),
        ON_EVERY_WIDTH(row_does_not_depend_on_others),
        ON_EVERY_WIDTH(parts_make_the_whole),
        ON_EVERY_WIDTH(writes_stay_inside),
    };
    return cmocka_run_group_tests_name("matmul", tests, NULL, NULL);
}
