/* distance.c -- inner products of f32 vectors. 64 partial sums on every CPU, which do not wait for each other, and no
 * contraction, so that all variants give the same bits. */
#include <string.h>

#include "retrieve/vectors/vectors_int.h"

typedef float lanes __attribute__((vector_size(64)));
typedef float eight __attribute__((vector_size(32)));
typedef float four __attribute__((vector_size(16)));
enum { N_LANES = 16, N_SUMS = 4 };

/* total -- of 16 partial sums: each half onto the other. */
static inline __attribute__((always_inline)) float total(const lanes *sum)
{
    eight a, b;
    four c, d;
    memcpy(&a, sum, sizeof a);
    memcpy(&b, (const char *)sum + sizeof a, sizeof b);
    a += b;
    memcpy(&c, &a, sizeof c);
    memcpy(&d, (const char *)&a + sizeof c, sizeof d);
    c += d;
    return (c[0] + c[2]) + (c[1] + c[3]);
}

/* add_products -- of 16 elements. */
static inline __attribute__((always_inline)) void add_products(const float *a, const float *b, lanes *sum)
{
    lanes x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    *sum += x * y;
}

static inline __attribute__((always_inline)) float product(const float *a, const float *b, size_t n)
{
    lanes sum[N_SUMS] = {{0}};
    float rest = 0;
    size_t i = 0;
    for (; i + N_SUMS * N_LANES <= n; i += N_SUMS * N_LANES)
        for (size_t k = 0; k < N_SUMS; k++) add_products(a + i + k * N_LANES, b + i + k * N_LANES, &sum[k]);
    for (; i + N_LANES <= n; i += N_LANES) add_products(a + i, b + i, &sum[0]);
    for (; i < n; i++) rest += a[i] * b[i];
    sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return total(&sum[0]) + rest;
}

static float product_any(const float *a, const float *b, size_t n)
{
    return product(a, b, n);
}

#if defined(__x86_64__) && !defined(SP_PORTABLE)
static __attribute__((target("avx2"))) float product_avx2(const float *a, const float *b, size_t n)
{
    return product(a, b, n);
}

static __attribute__((target("avx512f"))) float product_avx512(const float *a, const float *b, size_t n)
{
    return product(a, b, n);
}
#endif

sp_product_fn *sp_product_best(void)
{
#if defined(__x86_64__) && !defined(SP_PORTABLE)
    if (__builtin_cpu_supports("avx512f")) return product_avx512;
    if (__builtin_cpu_supports("avx2")) return product_avx2;
#endif
    return product_any;
}
