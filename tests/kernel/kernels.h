/* kernels.h -- what the kernel tests share: random numbers, variants, distances. */
#ifndef TESTS_KERNEL_KERNELS_H
#define TESTS_KERNEL_KERNELS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "compute/kernels.h"

/* One test function as one test for each variant; the name of the variant is the test's state.
 * Where its instructions are emulated (Makefile), all but avx2 run on any CPU that has AVX2. */
#define ON_VARIANT(name, f)                                                                        \
    {                                                                                              \
        name ": " #f, f, NULL, NULL, name                                                          \
    }
#if SP_EMULATE
#define ON_EVERY_WIDTH(f)   ON_VARIANT("avx512", f)
#define ON_EVERY_VARIANT(f) ON_VARIANT("avxvnni", f), ON_EVERY_WIDTH(f), ON_VARIANT("vnni", f)
#else
#define ON_EVERY_WIDTH(f) ON_VARIANT("avx2", f), ON_VARIANT("avx512", f)
#define ON_EVERY_VARIANT(f)                                                                        \
    ON_VARIANT("avx2", f), ON_VARIANT("avxvnni", f), ON_VARIANT("avx512", f), ON_VARIANT("vnni", f)
#endif

/* The table that a test is about; the test is skipped where the CPU lacks it. */
static inline const sp_ops *variant(void **state)
{
    const sp_ops *ops = NULL;
    if (sp_ops_select(*state, &ops) != SP_OK) skip();
    return ops;
}

static inline const sp_ops *reference(void)
{
    const sp_ops *ops = NULL;
    assert_int_equal(sp_ops_select("ref", &ops), SP_OK);
    return ops;
}

/* -- random numbers (xorshift64*): the same on every machine ------------------------------------
 */

static inline uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    return *seed * 0x2545f4914f6cdd1d;
}

/* 0 .. n-1 */
static inline int below(uint64_t *seed, int n)
{
    return (int)((next_random(seed) >> 33) % (uint64_t)n);
}

static inline float uniform(uint64_t *seed, float low, float high)
{
    return low + (high - low) * (float)(next_random(seed) >> 40) / 0x1p24f;
}

static inline void fill(uint64_t *seed, float *x, int64_t n, float size)
{
    for (int64_t i = 0; i < n; i++) x[i] = uniform(seed, -size, size);
}

static inline float *random_floats(uint64_t *seed, int64_t n, float size)
{
    float *x = sp_alloc((size_t)n, sizeof(float));
    assert_non_null(x);
    fill(seed, x, n, size);
    return x;
}

/* Random bytes with the f16 scales of every group replaced by sensible ones. */
static inline void random_groups(uint64_t *seed, sp_dtype type, uint8_t *p, int64_t n)
{
    const sp_dtype_info *info = sp_dtype_of(type);
    const bool has_min = type == SP_Q4_1 || type == SP_Q5_1 || type == SP_Q4_K || type == SP_Q5_K;
    for (int64_t i = 0; i < n; i++, p += info->group_bytes) {
        if (type == SP_F32 || type == SP_F16 || type == SP_BF16) {
            float f = uniform(seed, -1, 1);
            sp_row_from_f32(type, &f, p, 1);
            continue;
        }
        for (int b = 0; b < info->group_bytes; b++) p[b] = (uint8_t)below(seed, 256);
        uint16_t d = sp_f32_to_f16(uniform(seed, 0.001f, 0.02f));
        uint16_t m = sp_f32_to_f16(uniform(seed, -0.1f, 0.1f));
        memcpy(p + (type == SP_Q6_K ? 208 : 0), &d, 2);
        if (has_min) memcpy(p + 2, &m, 2);
    }
}

/* -- distances -----------------------------------------------------------------------------------
 */

/* |a - b|^2 / |b|^2; infinite when anything is not a number */
static inline double nmse(const float *a, const float *b, int64_t n)
{
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    double ratio = size > 0 ? error / size : error;
    return ratio == ratio ? ratio : INFINITY;
}

#define assert_close(a, b, n)                                                                      \
    do {                                                                                           \
        double distance = nmse(a, b, n);                                                           \
        if (!(distance <= 1e-6)) fail_msg("NMSE %g", distance);                                    \
    } while (0)

#define assert_same_bits(a, b, n) assert_memory_equal(a, b, (size_t)(n) * sizeof(float))

#endif
