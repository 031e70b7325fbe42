/* test_packed.c -- integer products: every variant and type against weights and x in double. */
#include "kernel/kernels.h"

typedef struct size {
    int64_t rows, cols, m;
} size;

/* Sizes with partial panels, blocks and tiles, and rows of x around the ends of runs of 120 and
 * 256, and around 16 and 64: more than these are not multiplied straight from memory. */
static const size sizes[] = {{1, 256, 1},    {16, 256, 1},   {33, 512, 2},   {37, 256, 7},
                             {64, 1280, 13}, {5, 2304, 6},   {40, 768, 29},  {96, 256, 131},
                             {31, 512, 12},  {32, 4352, 3},  {24, 256, 119}, {24, 256, 120},
                             {33, 512, 121}, {17, 256, 240}, {24, 512, 241}, {8, 2304, 361},
                             {33, 512, 16},  {33, 512, 17},  {40, 768, 64},   {40, 768, 65},  {17, 512, 256}, {17, 512, 257}};

static const sp_dtype types[] = {SP_Q8_0, SP_Q4_0, SP_Q4_1, SP_Q5_0,   SP_Q5_1,   SP_Q4_K, SP_Q5_K,
                                 SP_Q6_K, SP_Q2_K, SP_Q3_K, SP_IQ4_NL, SP_IQ4_XS, SP_MXFP4};

typedef struct product {
    sp_mat w;
    uint8_t *data; /* of w */
    int64_t m;
    float *x, *y, *bias;
    void *q, *rest, *packed;
} product;

static void make(const sp_ops *ops, product *p, sp_dtype type, size s, uint64_t *seed)
{
    const int64_t rows = s.rows, cols = s.cols, m = s.m;
    const size_t row_bytes = sp_row_bytes(type, cols);
    uint8_t *data = sp_alloc((size_t)rows, row_bytes);
    assert_non_null(data);
    for (int64_t r = 0; r < rows; r++)
        random_groups(seed, type, data + (size_t)r * row_bytes, cols / sp_dtype_of(type)->n_group);
    *p = (product){
        .w = {.type = type, .n_rows = rows, .n_cols = cols, .data = data}, .data = data, .m = m};
    p->x = random_floats(seed, m * cols, 2);
    p->y = random_floats(seed, m * rows, 1);
    p->bias = random_floats(seed, rows, 1);
    p->packed = sp_alloc_aligned(ops->pack_bytes(&p->w));
    p->q = sp_alloc_aligned((size_t)m * ops->quantized_bytes(cols));
    p->rest = sp_alloc_aligned((size_t)m * ops->quantized_bytes(cols));
    assert_true(p->packed && p->q && p->rest);
    for (int part = 0; part < 3; part++) ops->pack(&(sp_pack_args){&p->w, p->packed}, part, 3);
    p->w.packed = p->packed;
}

static void quantize(const sp_ops *ops, product *p)
{
    for (int part = 0; part < 2; part++)
        ops->quantize(&(sp_quantize_args){p->x, p->m, p->w.n_cols, p->q}, part, 2);
}

static void multiply(const sp_ops *ops, const product *p, bool add, int n_parts)
{
    sp_matmul_packed_args a = {
        .w = &p->w, .q = p->q, .m = p->m, .y = p->y, .bias = p->bias, .add = add};
    for (int part = 0; part < n_parts; part++) ops->matmul_packed(&a, part, n_parts);
}

/* As the device does with exact products: the rest of x goes into the same sums. */
static void multiply_exactly(const sp_ops *ops, product *p, bool add)
{
    ops->quantize(&(sp_quantize_args){p->x, p->m, p->w.n_cols, p->q, p->rest}, 0, 1);
    multiply(ops, p, add, 1);
    sp_matmul_packed_args a = {.w = &p->w, .q = p->rest, .m = p->m, .y = p->y, .add = true};
    ops->matmul_packed(&a, 0, 1);
}

static void drop(product *p)
{
    sp_free(p->data);
    sp_free(p->x);
    sp_free(p->y);
    sp_free(p->bias);
    sp_free(p->q);
    sp_free(p->rest);
    sp_free(p->packed);
}

/* y in double, from decoded weights and x without rounding; y0 is added if `add`. */
static void exact(const product *p, const float *y0, bool add, double *y)
{
    float *row = sp_alloc((size_t)p->w.n_cols, sizeof *row);
    assert_non_null(row);
    for (int64_t r = 0; r < p->w.n_rows; r++) {
        sp_row_to_f32(p->w.type,
                      (const uint8_t *)p->w.data + (size_t)r * sp_row_bytes(p->w.type, p->w.n_cols),
                      row, p->w.n_cols);
        for (int64_t m = 0; m < p->m; m++) {
            double s = p->bias[r] + (add ? y0[m * p->w.n_rows + r] : 0);
            for (int64_t c = 0; c < p->w.n_cols; c++)
                s += (double)row[c] * p->x[m * p->w.n_cols + c];
            y[m * p->w.n_rows + r] = s;
        }
    }
    sp_free(row);
}

static double distance(const float *a, const double *b, int64_t n)
{
    double error = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        squares += b[i] * b[i];
    }
    return error / squares;
}

/* The largest NMSE of n products. Rounding x, uniform in each group, to X steps on either side of
 * zero leaves a squared error of 1 / (4 X^2); rounding x and weights to bf16 leaves less than X = 127
 * does. A row of 24 products may exceed this (three times was seen), and a few products may exceed it
 * by far when the exact result nearly cancels out. */
static double tolerance(const sp_ops *ops, sp_dtype type, int64_t n)
{
    const double steps = ops->rounds_weights ? 127 : (1 << (ops->x_bits(type) - 1)) - 1;
    const double scale = type == SP_IQ4_XS ? 0x1p-22 : 0; /* rounded to f16 */
    return (n < 24 ? 128 : 6) / (4 * steps * steps) + scale;
}

static const sp_ops *integers(void **state)
{
    const sp_ops *ops = variant(state);
    if (!ops->pack_bytes) skip();
    return ops;
}

static void products_are_those_of_the_weights(void **state)
{
    const sp_ops *ops = integers(state);
    uint64_t seed = 5;
    for (size_t t = 0; t < SP_COUNT(types); t++)
        for (size_t i = 0; i < SP_COUNT(sizes); i++) {
            product p;
            const int64_t n = sizes[i].m * sizes[i].rows;
            if (ops->rounds_weights && n == 1) continue; /* may cancel out; test_tiles.c has its bits */
            make(ops, &p, types[t], sizes[i], &seed);
            float *y0 = random_floats(&seed, n, 1);
            double *want = sp_alloc((size_t)n, sizeof *want);
            assert_non_null(want);
            memcpy(p.y, y0, (size_t)n * sizeof *y0);
            quantize(ops, &p);
            for (int add = 0; add < 2; add++) {
                memcpy(p.y, y0, (size_t)n * sizeof *y0);
                multiply(ops, &p, add, 1 + (int)i % 4);
                exact(&p, y0, add, want);
                double d = distance(p.y, want, n);
                if (!(d <= tolerance(ops, types[t], n)))
                    fail_msg("%s %dx%d m=%d: NMSE %g", sp_dtype_of(types[t])->name,
                             (int)sizes[i].rows, (int)sizes[i].cols, (int)sizes[i].m, d);
            }
            sp_free(y0);
            sp_free(want);
            drop(&p);
        }
}

/* A row's products have the same bits alone and among other rows, in one part or in many. The rows
 * of x reach into a third run. */
static void a_row_does_not_depend_on_its_company(void **state)
{
    enum { N = 243 };
    const sp_ops *ops = integers(state);
    uint64_t seed = 6;
    for (size_t t = 0; t < SP_COUNT(types); t++) {
        product p;
        make(ops, &p, types[t], (size){75, 2304, N}, &seed);
        quantize(ops, &p);
        multiply(ops, &p, false, 1);
        float *all = sp_alloc(N * 75, sizeof *all), *x = p.x;
        assert_non_null(all);
        memcpy(all, p.y, N * 75 * sizeof *all);
        for (int64_t first = 0, n = 1; first < N; first += n, n = n % 9 + 1) {
            p.m = SP_MIN(n, N - first);
            p.x = x + first * 2304;
            quantize(ops, &p);
            multiply(ops, &p, false, 1 + (int)n % 4);
            assert_same_bits(p.y, all + first * 75, p.m * 75);
        }
        p.x = x;
        sp_free(all);
        drop(&p);
    }
}

static void what_is_not_finite_is_not_hidden(void **state)
{
    const sp_ops *ops = integers(state);
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    uint64_t seed = 7;
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        product p;
        make(ops, &p, SP_Q8_0, (size){20, 512, 9}, &seed);
        p.x[3 * 512 + 77 * (int)i] = bad[i];
        quantize(ops, &p);
        multiply(ops, &p, false, 1);
        for (int m = 0; m < 9; m++)
            for (int r = 0; r < 20; r++) assert_int_equal(isnan(p.y[m * 20 + r]) != 0, m == 3);
        drop(&p);
    }
}

static void large_small_and_zero_rows(void **state)
{
    const sp_ops *ops = integers(state);
    static const float sizes_of_x[] = {0, 1e-42f, 1e-33f, 1e-20f, 1e20f, 1e28f};
    uint64_t seed = 8;
    for (size_t t = 0; t < SP_COUNT(types); t++) {
        product p;
        double want[6 * 24];
        make(ops, &p, types[t], (size){24, 256, 6}, &seed);
        memset(p.bias, 0, 24 * sizeof *p.bias);
        for (int m = 0; m < 6; m++) fill(&seed, p.x + m * 256, 256, sizes_of_x[m]);
        quantize(ops, &p);
        multiply(ops, &p, false, 2);
        exact(&p, p.y, false, want);
        for (int m = 0; m < 6; m++) {
            if (sizes_of_x[m] < 1e-30f) { /* bf16 keeps what is not a denormal */
                const float most = ops->rounds_weights ? 1e3f * sizes_of_x[m] : 0;
                for (int r = 0; r < 24; r++) assert_true(fabsf(p.y[m * 24 + r]) <= most);
            } else {
                double d = distance(p.y + m * 24, want + m * 24, 24);
                if (!(d <= tolerance(ops, types[t], 24)))
                    fail_msg("%s, x of %g: NMSE %g", sp_dtype_of(types[t])->name,
                             (double)sizes_of_x[m], d);
            }
        }
        drop(&p);
    }
}

/* A large element reduces the precision of its own group only. */
static void an_outlier_stays_in_its_group(void **state)
{
    const sp_ops *ops = integers(state);
    uint64_t seed = 9;
    product p;
    double want[24], with[24];
    make(ops, &p, SP_Q8_0, (size){24, 512, 1}, &seed);
    memset(p.bias, 0, 24 * sizeof *p.bias);
    fill(&seed, p.x, 32, 0);
    p.x[7] = 5e4f;
    quantize(ops, &p);
    multiply(ops, &p, false, 1);
    float big[24];
    memcpy(big, p.y, sizeof big);
    exact(&p, p.y, false, with);
    assert_true(distance(big, with, 24) <= (ops->rounds_weights ? tolerance(ops, SP_Q8_0, 24) : 1e-9));
    p.x[7] = 0;
    quantize(ops, &p);
    multiply(ops, &p, false, 1);
    exact(&p, p.y, false, want);
    assert_true(distance(p.y, want, 24) <= tolerance(ops, SP_Q8_0, 24));
    drop(&p);
}

/* With their rest, 8 bits of x become 15: the error falls by 250 squared, to where that of 32-bit
 * sums is. */
static void the_rest_of_x_makes_products_exact(void **state)
{
    const sp_ops *ops = integers(state);
    uint64_t seed = 11;
    for (size_t t = 0; t < SP_COUNT(types); t++) {
        if (ops->x_bits(types[t]) > 8 || types[t] == SP_IQ4_XS) continue; /* its scales are rounded to f16 */
        product p;
        double want[17 * 48];
        make(ops, &p, types[t], (size){48, 1024, 17}, &seed);
        quantize(ops, &p);
        multiply(ops, &p, false, 1);
        exact(&p, p.y, false, want);
        const double without = distance(p.y, want, 17 * 48);
        multiply_exactly(ops, &p, false);
        const double with = distance(p.y, want, 17 * 48);
        if (!(with * 1e4 <= without && with <= 1e-9))
            fail_msg("%s: NMSE %g, with the rest %g", sp_dtype_of(types[t])->name, without, with);
        p.x[3 * 1024 + 70] = INFINITY;
        multiply_exactly(ops, &p, false);
        for (int i = 0; i < 17 * 48; i++) assert_int_equal(isnan(p.y[i]) != 0, i / 48 == 3);
        drop(&p);
    }
}

/* Float and integer products agree up to the rounding of x. */
static void both_products_agree(void **state)
{
    const sp_ops *ops = integers(state);
    uint64_t seed = 10;
    for (size_t t = 0; t < SP_COUNT(types); t++) {
        product p;
        make(ops, &p, types[t], (size){48, 1024, 17}, &seed);
        float *y = random_floats(&seed, 48 * 17, 1);
        ops->matmul(&(sp_matmul_args){.w = &p.w, .x = p.x, .m = 17, .y = y, .bias = p.bias}, 0, 1);
        quantize(ops, &p);
        multiply(ops, &p, false, 1);
        assert_true(nmse(p.y, y, 48 * 17) <= tolerance(ops, types[t], 48 * 17));
        sp_free(y);
        drop(&p);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        ON_EVERY_PRODUCT(products_are_those_of_the_weights),
        ON_EVERY_PRODUCT(a_row_does_not_depend_on_its_company),
        ON_EVERY_PRODUCT(what_is_not_finite_is_not_hidden),
        ON_EVERY_PRODUCT(large_small_and_zero_rows),
        ON_EVERY_PRODUCT(an_outlier_stays_in_its_group),
        ON_EVERY_VARIANT(the_rest_of_x_makes_products_exact),
        ON_EVERY_PRODUCT(both_products_agree),
    };
    return cmocka_run_group_tests_name("packed", tests, NULL, NULL);
}
