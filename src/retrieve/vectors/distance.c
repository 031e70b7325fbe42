/* distance.c -- inner products of f32 vectors: on every CPU 64 independent partial sums and no contraction, so that
 * all variants give the same bits.
 *
 * A variant has a vector type as wide as a register of its CPU: with a wider one the compiler keeps the sums in
 * memory, which took three times as long. */
#include <string.h>

#include "retrieve/vectors/vectors_int.h"

typedef float sixteen __attribute__((vector_size(64)));
typedef float eight __attribute__((vector_size(32)));
typedef float four __attribute__((vector_size(16)));
enum { N_SUMS = 64, N_STEP = 16 /* elements of the steps after those of N_SUMS */ };

/* total -- of 16 partial sums: each half onto the other. */
static inline __attribute__((always_inline)) float total(const float *sums)
{
    four a[4];
    memcpy(a, sums, sizeof a);
    const four c = (a[0] + a[2]) + (a[1] + a[3]);
    return (c[0] + c[2]) + (c[1] + c[3]);
}

/* Adds the products of `count` vectors of elements from i on. */
#define ADD_PRODUCTS(count)                                                                                           \
    _Pragma("GCC unroll 16") for (size_t k = 0; k < (count); k++)                                                     \
    {                                                                                                                 \
        memcpy(&x, a + i + k * WIDTH, sizeof x);                                                                      \
        memcpy(&y, b + i + k * WIDTH, sizeof y);                                                                      \
        sum[k] += x * y;                                                                                              \
    }

#define DEFINE_PRODUCT(name, type)                                                                                    \
    static float name(const float *a, const float *b, size_t n)                                                       \
    {                                                                                                                 \
        enum { WIDTH = sizeof(type) / sizeof(float), SUMS = N_SUMS / WIDTH, STEPS = N_STEP / WIDTH };                 \
        const type zero = {0};                                                                                        \
        type sum[SUMS], x, y;                                                                                         \
        float sums[N_STEP], rest = 0;                                                                                 \
        size_t i = 0;                                                                                                 \
        _Pragma("GCC unroll 16") for (size_t k = 0; k < SUMS; k++) sum[k] = zero;                                     \
        for (; i + N_SUMS <= n; i += N_SUMS) ADD_PRODUCTS(SUMS)                                                       \
        for (; i + N_STEP <= n; i += N_STEP) ADD_PRODUCTS(STEPS)                                                      \
        for (; i < n; i++) rest += a[i] * b[i];                                                                       \
        _Pragma("GCC unroll 4") for (size_t k = 0; k < STEPS; k++)                                                    \
        {                                                                                                             \
            x = (sum[k] + sum[STEPS + k]) + (sum[2 * STEPS + k] + sum[3 * STEPS + k]);                                \
            memcpy(sums + k * WIDTH, &x, sizeof x);                                                                   \
        }                                                                                                             \
        return total(sums) + rest;                                                                                    \
    }

DEFINE_PRODUCT(product_any, four)

#if defined(__x86_64__) && !defined(SP_PORTABLE)
__attribute__((target("avx2"))) DEFINE_PRODUCT(product_avx2, eight)
__attribute__((target("avx512f"))) DEFINE_PRODUCT(product_avx512, sixteen)
#endif

sp_product_fn *sp_product_best(void)
{
#if defined(__x86_64__) && !defined(SP_PORTABLE)
    if (__builtin_cpu_supports("avx512f")) return product_avx512;
    if (__builtin_cpu_supports("avx2")) return product_avx2;
#endif
    return product_any;
}
