/* test_cpu.c -- operations that the CPU device runs as one job: the same bits as each kernel by
 * itself, however many threads there are and however the work is cut; and rows that are rounded to
 * integers once are rounded again when they change. */
#include "kernel/kernels.h"

#include "compute/cpu_int.h"

static const int team_sizes[] = {1, 2, 3, 5};

enum { COLS = 96, MOST_ROWS = 3000, MOST_M = 700 };

/* open_device -- that multiplies in integers, if its kernels do. */
static sp_device *open_device(void **state, int n_threads, int64_t width)
{
    sp_device *d;
    variant(state); /* skips */
    assert_int_equal(
        sp_device_open("cpu", &(sp_device_opts){.kernels = *state, .n_threads = n_threads}, &d),
        SP_OK);
    sp_cpu_of(d)->in_integers = sp_cpu_of(d)->ops->pack_bytes != NULL;
    assert_int_equal(sp_device_reserve(d, &(sp_step_sizes){.rows = MOST_M, .width = width}), SP_OK);
    return d;
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

static void assert_rounded(sp_device *d, const float *y, int64_t m, int64_t n)
{
    const sp_cpu *c = sp_cpu_of(d);
    if (!c->in_integers || n % 32) return;
    void *q = rounded(c->ops, y, m, n);
    assert_ptr_equal(c->rounded.x, y);
    assert_memory_equal(c->rounded.ints.p, q, (size_t)m * c->ops->quantized_bytes(n));
    sp_free(q);
}

static void rows_at_once(void **state)
{
    static const int64_t sizes[][2] = {{1, 96}, {1, 100}, {7, 896}, {300, 320}, {700, 33}};
    uint64_t seed = 1;
    for (size_t i = 0; i < SP_COUNT(sizes) * SP_COUNT(team_sizes); i++) {
        const int64_t m = sizes[i / SP_COUNT(team_sizes)][0],
                      n = sizes[i / SP_COUNT(team_sizes)][1];
        sp_device *d = open_device(state, team_sizes[i % SP_COUNT(team_sizes)], n);
        const sp_ops *ops = sp_cpu_of(d)->ops;
        float *x = random_floats(&seed, m * n, 3), *w = random_floats(&seed, n, 1);
        float *y = random_floats(&seed, m * n, 1), *expected = random_floats(&seed, m * n, 1);
        sp_rmsnorm_args norm = {x, w, expected, m, n, 1e-5f, true};
        ops->rmsnorm(&norm, 0, 1);
        norm.y = y;
        sp_device_rmsnorm(d, &norm);
        assert_same_bits(y, expected, m * n);
        assert_rounded(d, y, m, n);
        sp_layernorm_args layer = {x, w, i % 2 ? w : NULL, expected, m, n, 1e-5f, true};
        ops->layernorm(&layer, 0, 1);
        layer.y = y;
        sp_device_layernorm(d, &layer);
        assert_same_bits(y, expected, m * n);
        assert_rounded(d, y, m, n);
        sp_act_mul_args gated = {x, y, expected, m * n, m};
        ops->act_mul(&gated, 0, 1);
        gated.y = x; /* in place */
        sp_device_act_mul(d, &gated);
        assert_same_bits(x, expected, m * n);
        assert_rounded(d, x, m, n);
        sp_free(x);
        sp_free(w);
        sp_free(y);
        sp_free(expected);
        sp_device_close(d);
    }
}

/* -- products ------------------------------------------------------------------------------- */

/* Matrix i of a job: every second one is packed, where the variant packs. */
static sp_mat make_matrix_of(const sp_ops *ops, int i, int64_t rows, int64_t cols, uint64_t *seed)
{
    const sp_dtype type = i % 2 ? SP_Q8_0 : SP_F32;
    const size_t row_bytes = sp_row_bytes(type, cols);
    uint8_t *data = sp_alloc((size_t)rows, row_bytes);
    assert_non_null(data);
    random_groups(seed, type, data, rows * cols / sp_dtype_of(type)->n_group);
    sp_mat w = {.type = type, .n_rows = rows, .n_cols = cols, .data = data};
    const size_t bytes = i % 2 && ops->pack_bytes ? ops->pack_bytes(&w) : 0;
    if (!bytes) return w;
    void *packed = sp_alloc_aligned(bytes);
    assert_non_null(packed);
    ops->pack(&(sp_pack_args){&w, packed}, 0, 1);
    w.packed = packed;
    return w;
}

static sp_mat make_matrix(const sp_ops *ops, int i, int64_t rows, uint64_t *seed)
{
    return make_matrix_of(ops, i, rows, COLS, seed);
}

static void drop_matrix(sp_mat *w)
{
    sp_free((void *)w->data);
    sp_free((void *)w->packed);
}

/* expect -- the product by itself, in one piece. */
static void expect(const sp_ops *ops, const sp_matmul_args *a)
{
    if (!sp_in_integers(ops, a->w)) {
        ops->matmul(a, 0, 1);
        return;
    }
    void *q = rounded(ops, a->x, a->m, a->w->n_cols);
    ops->matmul_packed(
        &(sp_matmul_packed_args){
            .w = a->w, .q = q, .m = a->m, .y = a->y, .bias = a->bias, .add = a->add},
        0, 1);
    sp_free(q);
}

typedef struct products {
    sp_mat w[SP_PRODUCTS_MAX];
    sp_matmul_args a[SP_PRODUCTS_MAX];
    int n;
} products;

static void make_products(products *p, const sp_ops *ops, const int64_t *rows, const float *x,
                          int64_t m, uint64_t *seed)
{
    for (int k = 0; k < p->n; k++) {
        p->w[k] = make_matrix(ops, k, rows[k], seed);
        p->a[k] = (sp_matmul_args){
            &p->w[k], x, m, random_floats(seed, m * rows[k], 1), random_floats(seed, rows[k], 1),
            k == 1};
    }
}

/* run_and_compare -- the products on the device, and one by one. */
static void run_and_compare(sp_device *d, const products *p)
{
    float *same[SP_PRODUCTS_MAX];
    for (int k = 0; k < p->n; k++) {
        const size_t n = (size_t)(p->a[k].m * p->w[k].n_rows);
        sp_matmul_args one = p->a[k];
        one.y = same[k] = sp_alloc(n, sizeof(float));
        assert_non_null(same[k]);
        memcpy(same[k], p->a[k].y, n * sizeof(float));
        expect(sp_cpu_of(d)->ops, &one);
    }
    sp_device_products(d, &(sp_products_args){p->a, p->n});
    for (int k = 0; k < p->n; k++) {
        assert_same_bits(p->a[k].y, same[k], p->a[k].m * p->w[k].n_rows);
        sp_free(same[k]);
    }
}

static void drop_products(products *p)
{
    for (int k = 0; k < p->n; k++) {
        sp_free(p->a[k].y);
        sp_free((void *)p->a[k].bias);
        drop_matrix(&p->w[k]);
    }
}

static void products_at_once(void **state)
{
    static const int64_t rows[][3] = {
        {5, 1, 1}, {333, 64, 65}, {900, 130, 130}, {1, 2999, 17}, {MOST_ROWS, MOST_ROWS, 3}};
    static const int64_t ms[] = {1, 6, 40};
    uint64_t seed = 2;
    for (size_t i = 0; i < SP_COUNT(rows) * SP_COUNT(ms) * SP_COUNT(team_sizes); i++) {
        const int64_t m = ms[i / SP_COUNT(team_sizes) % SP_COUNT(ms)];
        sp_device *d = open_device(state, team_sizes[i % SP_COUNT(team_sizes)], COLS);
        float *x = random_floats(&seed, m * COLS, 2);
        products p = {.n = 1 + (int)(i % SP_PRODUCTS_MAX)};
        make_products(&p, sp_cpu_of(d)->ops, rows[i / SP_COUNT(team_sizes) / SP_COUNT(ms)], x, m,
                      &seed);
        run_and_compare(d, &p);
        run_and_compare(d, &p); /* of x as it was rounded before */
        drop_products(&p);
        sp_free(x);
        sp_device_close(d);
    }
}

/* Rows are rounded again after whatever has written to them. */
static void changed_rows_are_rounded_again(void **state)
{
    enum { M = 40 };
    static const int64_t rows[] = {64, 65, 33};
    uint64_t seed = 3;
    sp_device *d = open_device(state, 2, COLS);
    float *x = random_floats(&seed, M * COLS, 2), *y = random_floats(&seed, M * COLS, 2);
    float *ones = random_floats(&seed, COLS, 1);
    int32_t from[M];
    products p = {.n = 3};
    make_products(&p, sp_cpu_of(d)->ops, rows, x, M, &seed);
    run_and_compare(d, &p);
    sp_device_rmsnorm(d, &(sp_rmsnorm_args){.x = y, .w = ones, .y = x, .m = M, .n = COLS});
    run_and_compare(d, &p);
    assert_int_equal(sp_device_wait(d, sp_device_copy_in(d, x, y, M * COLS * sizeof *x)), SP_OK);
    run_and_compare(d, &p);
    sp_device_act_mul(d, &(sp_act_mul_args){.gate = y, .up = x, .y = x, .n = M * COLS});
    run_and_compare(d, &p);
    for (int i = 0; i < M / 2; i++) from[i] = i < 3 ? i : 2 * i;
    sp_device_gather(d, &(sp_gather_args){.x = x, .from = from, .m = M / 2, .n = COLS});
    for (int k = 0; k < p.n; k++) p.a[k].m = M / 2;
    run_and_compare(d, &p);
    for (int k = 0; k < p.n; k++) p.a[k].x += 5 * COLS, p.a[k].m = 7; /* rows of those */
    run_and_compare(d, &p);
    sp_mat wide = make_matrix(sp_cpu_of(d)->ops, 1, COLS, &seed);
    sp_device_products(
        d, &(sp_products_args){&(sp_matmul_args){.w = &wide, .x = y, .m = M, .y = x}, 1});
    run_and_compare(d, &p);
    drop_matrix(&wide);
    drop_products(&p);
    sp_free(x);
    sp_free(y);
    sp_free(ones);
    sp_device_close(d);
}

/* write_rows -- operation `i` writes rows of x, which it reads from y. */
static void write_rows(sp_device *d, int i, float *x, float *y, int64_t m)
{
    static const int32_t rows[] = {3, 0, 5};
    static const float weight[] = {2, 3, 4};
    const sp_mat w = {.type = SP_F32, .n_rows = m, .n_cols = COLS, .data = y};
    switch (i) {
    case 0:
        sp_device_blend(d, &(sp_blend_args){.x = y, .y = x, .n = COLS, .keep = 0.5f, .scale = 2});
        break;
    case 1:
        sp_device_take(d, &(sp_take_args){.x = y, .y = x, .from = rows, .m = 3, .n = COLS});
        break;
    case 2:
        sp_device_spread(d, &(sp_spread_args){.x = y, .y = x, .to = rows, .weight = weight, .m = 3, .n = COLS});
        break;
    case 3:
        sp_device_embed(d, &(sp_embed_args){.w = &w, .ids = rows, .m = 3, .x = x});
        break;
    case 4: /* it ends with the first row of x */
        sp_device_take(d, &(sp_take_args){.x = y, .y = x - 2 * COLS, .from = rows, .m = 3, .n = COLS});
        break;
    }
}

/* One row of those that are held is enough. */
static void whatever_writes_rows_makes_them_new(void **state)
{
    enum { M = 40 };
    static const int64_t rows[] = {64, 65, 33};
    uint64_t seed = 6;
    sp_device *d = open_device(state, 2, COLS);
    float *memory = random_floats(&seed, (M + 2) * COLS, 2), *x = memory + 2 * COLS;
    float *y = random_floats(&seed, M * COLS, 2);
    products p = {.n = 3};
    make_products(&p, sp_cpu_of(d)->ops, rows, x, M, &seed);
    for (int i = 0; i < 5; i++) {
        run_and_compare(d, &p);
        write_rows(d, i, x, y, M);
        run_and_compare(d, &p);
    }
    sp_mat square = make_matrix(sp_cpu_of(d)->ops, 1, COLS, &seed); /* from rows that are held to others of them */
    sp_device_products(
        d, &(sp_products_args){&(sp_matmul_args){.w = &square, .x = x, .m = 7, .y = x + 20 * COLS}, 1});
    run_and_compare(d, &p);
    products narrow = {.n = 1, .w = {make_matrix_of(sp_cpu_of(d)->ops, 1, 20, 32, &seed)}};
    narrow.a[0] = (sp_matmul_args){&narrow.w[0], x, 3 * M, random_floats(&seed, 3 * M * 20, 1), NULL, false};
    run_and_compare(d, &narrow); /* the same memory in shorter rows: more than are held, and as many */
    run_and_compare(d, &p);
    narrow.a[0].m = M;
    run_and_compare(d, &narrow);
    drop_products(&narrow);
    run_and_compare(d, &p);
    for (int k = 0; k < p.n; k++) p.a[k].x += 32, p.a[k].m = 7; /* other rows of the memory that is held */
    run_and_compare(d, &p);
    drop_matrix(&square);
    drop_products(&p);
    sp_free(memory);
    sp_free(y);
    sp_device_close(d);
}

/* What attention writes, a product after it reads. */
static void what_attention_writes_is_new(void **state)
{
    enum { M = 2, HEAD = COLS / 2 };
    static const int64_t rows[] = {64, 65, 33};
    static const uint16_t see[M] = {0};
    static const int32_t pos[M] = {0, 1};
    uint64_t seed = 7;
    sp_device *d = open_device(state, 2, COLS);
    const size_t head_bytes = sp_kv_head_bytes(SP_F32, HEAD);
    float *x = random_floats(&seed, M * COLS, 2), *q = random_floats(&seed, M * COLS, 2);
    float *blocks = random_floats(&seed, (int64_t)(2 * head_bytes / sizeof(float)), 1);
    const uint32_t block = 0;
    const sp_kv_view kv = {.type = SP_F32, .n_heads = 1, .head = HEAD, .base = (uint8_t *)blocks,
                           .block_bytes = 2 * head_bytes};
    const sp_rope none = {0};
    const sp_span span = {.blocks = &block, .n = M};
    const sp_sight sight = {NULL, 1};
    const sp_attend_req req = {
        .q = q, .out = x, .pos = pos, .see = see, .m = M, .spans = &span, .n_spans = 1, .sights = &sight};
    products p = {.n = 3};
    make_products(&p, sp_cpu_of(d)->ops, rows, x, M, &seed);
    const sp_step_sizes sizes = {.n_heads = 2, .n_kv_heads = 1, .head = HEAD, .n_spans = 1};
    assert_int_equal(sp_device_reserve(d, &sizes), SP_OK);
    run_and_compare(d, &p);
    sp_device_attend(
        d, &(sp_attend_args){.kv = &kv, .rope = &none, .n_heads = 2, .scale = 1, .reqs = &req, .n_reqs = 1});
    run_and_compare(d, &p);
    drop_products(&p);
    sp_free(x);
    sp_free(q);
    sp_free(blocks);
    sp_device_close(d);
}

/* Scratch that grows: more rows lose what was rounded, and more spans get what they need. */
static void scratch_grows(void **state)
{
    enum { M = 40 };
    static const int64_t rows[] = {64, 65, 33};
    uint64_t seed = 8;
    sp_device *d = open_device(state, 2, COLS);
    float *x = random_floats(&seed, M * COLS, 2);
    products p = {.n = 3};
    make_products(&p, sp_cpu_of(d)->ops, rows, x, M, &seed);
    run_and_compare(d, &p);
    assert_int_equal(sp_device_reserve(d, &(sp_step_sizes){.rows = 20 * MOST_M, .width = COLS}), SP_OK);
    run_and_compare(d, &p);
    for (int n_spans = 10; n_spans <= 10000; n_spans *= 10) {
        const sp_step_sizes sizes = {.n_heads = 4, .n_kv_heads = 2, .head = 64, .n_spans = n_spans};
        assert_int_equal(sp_device_reserve(d, &sizes), SP_OK);
        assert_true(sp_cpu_of(d)->attend_bytes >= sp_attend_scratch_bytes(4, 2, 64, n_spans));
    }
    drop_products(&p);
    sp_free(x);
    sp_device_close(d);
}

/* -- exact products ------------------------------------------------------------------------- */

/* distance -- the largest difference from the product in floats, over its largest element. */
static double distance(const sp_matmul_args *a)
{
    const int64_t n = a->m * a->w->n_rows;
    float *exact = sp_alloc((size_t)n, sizeof *exact);
    double most = 0, far = 0;
    sp_mat plain = *a->w;
    sp_matmul_args one = *a;
    plain.packed = NULL;
    one.w = &plain;
    one.y = exact;
    reference()->matmul(&one, 0, 1);
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)exact[i]));
        far = fmax(far, fabs((double)exact[i] - (double)a->y[i]));
    }
    sp_free(exact);
    return far / most;
}

/* Of weights in any type, with a bias, whether a product rounds the rows or the operation that made them. */
static void exact_products_are_exact(void **state)
{
    enum { M = 9, ROWS = 70 };
    static const sp_dtype types[] = {SP_Q4_0, SP_Q4_1, SP_Q5_0, SP_Q5_1, SP_Q8_0};
    uint64_t seed = 9;
    sp_device *d;
    variant(state);
    const sp_device_opts o = {.kernels = *state, .n_threads = 2, .exact_products = true};
    assert_int_equal(sp_device_open("cpu", &o, &d), SP_OK);
    float *x = random_floats(&seed, M * COLS, 2), *y = random_floats(&seed, M * ROWS, 1);
    float *ones = random_floats(&seed, COLS, 1), *bias = random_floats(&seed, ROWS, 20);
    for (size_t i = 0; i < SP_COUNT(types); i++) {
        uint8_t *data = sp_alloc(ROWS, sp_row_bytes(types[i], COLS));
        random_groups(&seed, types[i], data, ROWS * COLS / 32);
        sp_mat w = {.type = types[i], .n_rows = ROWS, .n_cols = COLS, .data = data};
        const size_t bytes = sp_device_weight_bytes(d, &w, SP_WEIGHT_PRODUCTS);
        void *packed = bytes ? sp_alloc_aligned(bytes) : NULL;
        if (bytes) sp_device_weight_load(d, &w, SP_WEIGHT_PRODUCTS, packed);
        assert_int_equal(sp_device_weight_bytes(d, &w, SP_WEIGHT_ROWS), 0); /* they are read where they are */
        assert_int_equal(sp_device_reserve(d, &(sp_step_sizes){.rows = M, .width = COLS}), SP_OK);
        const sp_matmul_args a = {.w = &w, .x = x, .m = M, .y = y, .bias = bias};
        for (int feeds = 0; feeds < 2; feeds++) {
            fill(&seed, x, M * COLS, 2);
            sp_device_rmsnorm(
                d, &(sp_rmsnorm_args){.x = x, .w = ones, .y = x, .m = M, .n = COLS, .eps = 1e-5f, .feeds = feeds});
            sp_device_products(d, &(sp_products_args){&a, 1});
            assert_true(distance(&a) < 1e-4);
        }
        sp_free(data);
        sp_free(packed);
    }
    sp_free(x);
    sp_free(y);
    sp_free(ones);
    sp_free(bias);
    sp_device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_VARIANT("ref", rows_at_once),
        ON_VARIANT("ref", products_at_once),
        ON_VARIANT("ref", changed_rows_are_rounded_again),
        ON_EVERY_VARIANT(rows_at_once),
        ON_EVERY_VARIANT(products_at_once),
        ON_EVERY_VARIANT(changed_rows_are_rounded_again),
        ON_EVERY_VARIANT(whatever_writes_rows_makes_them_new),
        ON_EVERY_VARIANT(what_attention_writes_is_new),
        ON_EVERY_VARIANT(scratch_grows),
        ON_EVERY_VARIANT(exact_products_are_exact),
    };
    return cmocka_run_group_tests_name("the CPU as a device", tests, NULL, NULL);
}
