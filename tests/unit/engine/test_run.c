/* test_run.c -- operations that go as one job: the same bits as each by itself, however many
 * threads there are and however the work is cut. */
#include "kernel/kernels.h"

#include "engine/run_int.h"

static const int team_sizes[] = {1, 2, 3, 5};

/* An engine without a model: what jobs look at. */
static void open_engine(void **state, sp_engine *e, int n_threads, size_t int_bytes)
{
    *e = (sp_engine){.o.ops = variant(state)};
    assert_int_equal(sp_team_create(&e->o.team, n_threads), SP_OK);
    if (e->o.ops->pack_bytes) e->ints = sp_alloc_aligned(int_bytes);
}

static void close_engine(sp_engine *e)
{
    sp_team_destroy(e->o.team);
    sp_free(e->ints);
}

/* -- rows ----------------------------------------------------------------------------------- */

/* rounded -- what quantize makes of all rows at once; bytes that it does not write are 0. */
static void *rounded(const sp_ops *ops, const float *x, int64_t m, int64_t n)
{
    void *q = sp_alloc_aligned((size_t)m * ops->quantized_bytes(n));
    assert_non_null(q);
    ops->quantize(&(sp_quantize_args){.x = x, .m = m, .n = n, .q = q}, 0, 1);
    return q;
}

static void assert_rounded(const sp_engine *e, const float *y, int64_t m, int64_t n)
{
    if (!e->ints || n % 32) return;
    void *q = rounded(e->o.ops, y, m, n);
    assert_memory_equal(e->ints, q, (size_t)m * e->o.ops->quantized_bytes(n));
    sp_free(q);
}

static void rows_at_once(void **state)
{
    static const int64_t sizes[][2] = {{1, 96}, {1, 100}, {7, 896}, {300, 320}, {700, 33}};
    uint64_t seed = 1;
    for (size_t i = 0; i < SP_COUNT(sizes) * SP_COUNT(team_sizes); i++) {
        const int64_t m = sizes[i / SP_COUNT(team_sizes)][0],
                      n = sizes[i / SP_COUNT(team_sizes)][1];
        sp_engine e;
        open_engine(state, &e, team_sizes[i % SP_COUNT(team_sizes)], 4096 * 1024);
        const sp_ops *ops = e.o.ops;
        float *x = random_floats(&seed, m * n, 3), *w = random_floats(&seed, n, 1);
        float *y = random_floats(&seed, m * n, 1), *expected = random_floats(&seed, m * n, 1);
        sp_rmsnorm_args norm = {x, w, expected, m, n, 1e-5f};
        ops->rmsnorm(&norm, 0, 1);
        norm.y = y;
        sp_run_rmsnorm(&e, &norm, true);
        assert_same_bits(y, expected, m * n);
        assert_rounded(&e, y, m, n);
        sp_silu_mul_args gated = {x, y, expected, m * n};
        ops->silu_mul(&gated, 0, 1);
        gated.y = x; /* in place */
        sp_run_silu_mul(&e, &gated, m);
        assert_same_bits(x, expected, m * n);
        assert_rounded(&e, x, m, n);
        sp_free(x);
        sp_free(w);
        sp_free(y);
        sp_free(expected);
        close_engine(&e);
    }
}

/* -- products ------------------------------------------------------------------------------- */

enum { COLS = 96, MOST_ROWS = 3000, MOST_M = 40 };

/* Matrix i of a job: every second one is packed, where the variant packs. */
static sp_mat make_matrix(const sp_ops *ops, int i, int64_t rows, uint64_t *seed)
{
    const sp_dtype type = i % 2 ? SP_Q8_0 : SP_F32;
    const size_t row_bytes = sp_row_bytes(type, COLS);
    uint8_t *data = sp_alloc((size_t)rows, row_bytes);
    assert_non_null(data);
    random_groups(seed, type, data, rows * COLS / sp_dtype_of(type)->n_group);
    sp_mat w = {.type = type, .n_rows = rows, .n_cols = COLS, .data = data};
    const size_t bytes = i % 2 && ops->pack_bytes ? ops->pack_bytes(&w) : 0;
    if (!bytes) return w;
    void *packed = sp_alloc_aligned(bytes);
    assert_non_null(packed);
    ops->pack(&(sp_pack_args){&w, packed}, 0, 1);
    w.packed = packed;
    return w;
}

static void drop_matrix(sp_mat *w)
{
    sp_free((void *)w->data);
    sp_free((void *)w->packed);
}

/* expect -- the product by itself, in one piece. */
static void expect(const sp_engine *e, const sp_matmul_args *a)
{
    const sp_ops *ops = e->o.ops;
    if (!a->w->packed) {
        ops->matmul(a, 0, 1);
        return;
    }
    ops->matmul_packed(
        &(sp_matmul_packed_args){
            .w = a->w, .q = e->ints, .m = a->m, .y = a->y, .bias = a->bias, .add = a->add},
        0, 1);
}

static void products_at_once(void **state)
{
    static const int64_t rows[][3] = {
        {5, 1, 1}, {333, 64, 65}, {900, 130, 130}, {1, 2999, 17}, {3000, 3000, 3}};
    static const int64_t ms[] = {1, 6, MOST_M};
    uint64_t seed = 2;
    for (size_t i = 0; i < SP_COUNT(rows) * SP_COUNT(ms) * SP_COUNT(team_sizes); i++) {
        const int64_t m = ms[i / SP_COUNT(team_sizes) % SP_COUNT(ms)];
        sp_mat w[RUN_PRODUCTS];
        sp_matmul_args a[RUN_PRODUCTS], one[RUN_PRODUCTS];
        sp_engine e;
        open_engine(state, &e, team_sizes[i % SP_COUNT(team_sizes)], 4096 * 1024);
        float *x = random_floats(&seed, m * COLS, 2);
        if (e.ints)
            e.o.ops->quantize(&(sp_quantize_args){.x = x, .m = m, .n = COLS, .q = e.ints}, 0, 1);
        const int n = 1 + (int)(i % RUN_PRODUCTS);
        for (int k = 0; k < n; k++) {
            w[k] = make_matrix(e.o.ops, k, rows[i / SP_COUNT(team_sizes) / SP_COUNT(ms)][k], &seed);
            float *bias = random_floats(&seed, w[k].n_rows, 1);
            float *y = random_floats(&seed, m * w[k].n_rows, 1);
            float *same = sp_alloc((size_t)(m * w[k].n_rows), sizeof *same);
            assert_non_null(same);
            memcpy(same, y, (size_t)(m * w[k].n_rows) * sizeof *same);
            a[k] = (sp_matmul_args){&w[k], x, m, y, bias, k == 1};
            one[k] = a[k];
            one[k].y = same;
            expect(&e, &one[k]);
        }
        sp_run_products(&e, a, n, 0);
        for (int k = 0; k < n; k++) {
            assert_same_bits(a[k].y, one[k].y, m * w[k].n_rows);
            sp_free(a[k].y);
            sp_free(one[k].y);
            sp_free((void *)a[k].bias);
            drop_matrix(&w[k]);
        }
        sp_free(x);
        close_engine(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_VARIANT(rows_at_once),
        ON_EVERY_VARIANT(products_at_once),
    };
    return cmocka_run_group_tests_name("jobs of several operations", tests, NULL, NULL);
}
