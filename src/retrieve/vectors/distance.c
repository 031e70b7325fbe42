/* distance.c -- inner products of f32 vectors. Sixteen partial sums on every CPU, and no contraction, so that all
 * variants give the same bits. */
#include <string.h>

#include "retrieve/vectors/vectors_int.h"

typedef float lanes __attribute__((vector_size(64)));
enum { N_LANES = 16 };

static inline __attribute__((always_inline)) float product(const float *a, const float *b, size_t n)
{
    lanes sum = {0}, x, y;
    size_t i = 0;
    for (; i + N_LANES <= n; i += N_LANES) {
        memcpy(&x, a + i, sizeof x);
        memcpy(&y, b + i, sizeof y);
        sum += x * y;
    }
    for (size_t k = 0; i < n; i++, k++) sum[k] += a[i] * b[i];
    for (int half = N_LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++) sum[k] += sum[k + half];
    return sum[0];
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
