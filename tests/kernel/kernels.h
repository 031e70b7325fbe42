/* kernels.h -- shared by the kernel tests: variants, random numbers, rotation tables, distances. */
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

/* Runs a test function once for each variant, whose name is the test's state. Where instructions
 * are emulated (Makefile), all variants but avx2 run on any CPU with AVX2. PRODUCT, ATTEND: with
 * those that differ in products, or in attention, alone. */
#define ON_VARIANT(name, f)                                                                        \
    {                                                                                              \
        name ": " #f, f, NULL, NULL, name                                                          \
    }
#if SP_EMULATE
#define ON_EVERY_WIDTH(f)   ON_VARIANT("avx512", f)
#define ON_EVERY_VARIANT(f) ON_VARIANT("avxvnni", f), ON_EVERY_WIDTH(f), ON_VARIANT("vnni", f)
#define ON_EVERY_PRODUCT(f) ON_EVERY_VARIANT(f), ON_VARIANT("amx", f)
#define ON_EVERY_ATTEND(f)  ON_EVERY_VARIANT(f), ON_VARIANT("amx-attend", f)
#elif defined(__aarch64__)
#define ON_EVERY_WIDTH(f)   ON_VARIANT("neon", f)
#define ON_EVERY_VARIANT(f) ON_EVERY_WIDTH(f), ON_VARIANT("i8mm", f)
#define ON_EVERY_PRODUCT(f) ON_EVERY_VARIANT(f)
#define ON_EVERY_ATTEND(f)  ON_EVERY_VARIANT(f)
#else
#define ON_EVERY_WIDTH(f) ON_VARIANT("avx2", f), ON_VARIANT("avx512", f)
#define ON_EVERY_VARIANT(f)                                                                        \
    ON_VARIANT("avx2", f), ON_VARIANT("avxvnni", f), ON_VARIANT("avx512", f), ON_VARIANT("vnni", f)
#define ON_EVERY_PRODUCT(f) ON_EVERY_VARIANT(f), ON_VARIANT("amx", f)
#define ON_EVERY_ATTEND(f)  ON_EVERY_VARIANT(f), ON_VARIANT("amx-attend", f)
#endif

/* The table under test; skips the test if the CPU cannot run it. */
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

/* is_left_out -- of the cases of a long test: with SPOLIA_EVERY=N, an emulator runs each N-th. */
static inline bool is_left_out(int *n)
{
    const char *every = getenv("SPOLIA_EVERY");
    return every && atoi(every) > 0 && (*n)++ % atoi(every) != 0;
}

/* -- random numbers (xorshift64*): the same on every machine ----------------------------------- */

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

/* Random bytes, in which every group has reasonable f16 scales. */
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
        const int at = type == SP_Q6_K ? 208 : type == SP_Q3_K ? 108 : type == SP_Q2_K ? 80 : 0;
        if (type != SP_MXFP4) memcpy(p + at, &d, 2);
        if (type == SP_MXFP4) p[0] = (uint8_t)(116 + below(seed, 8));
        if (type == SP_Q2_K) memcpy(p + 82, &m, 2);
        if (has_min) memcpy(p + 2, &m, 2);
    }
}

/* -- rotation tables
 * ---------------------------------------------------------------------------- */

/* The tables of plain RoPE, base 10000, times a magnitude. The caller frees *memory. */
static inline sp_rope make_rope(int n_rot, bool adjacent, int n_pos, float magnitude,
                                float **memory)
{
    const int half = n_rot / 2;
    float *c = sp_alloc((size_t)n_pos * (size_t)SP_MAX(half, 1), 2 * sizeof(float));
    assert_non_null(c);
    float *s = c + n_pos * half;
    for (int i = 0; i < half; i++) {
        const double turn = pow(10000, -2.0 * i / n_rot);
        for (int p = 0; p < n_pos; p++) {
            c[p * half + i] = (float)cos(p * turn) * magnitude;
            s[p * half + i] = (float)sin(p * turn) * magnitude;
        }
    }
    *memory = c;
    return (sp_rope){n_rot, adjacent, n_pos, c, s};
}

/* -- distances --------------------------------------------------------------------------------- */

/* |a - b|^2 / |b|^2; infinite if anything is NaN */
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

#define assert_within(bound, a, b, n)                                                              \
    do {                                                                                           \
        double distance = nmse(a, b, n);                                                           \
        if (!(distance <= (bound))) fail_msg("NMSE %g", distance);                                 \
    } while (0)
#define assert_close(a, b, n) assert_within(1e-6, a, b, n)

#define assert_same_bits(a, b, n) assert_memory_equal(a, b, (size_t)(n) * sizeof(float))

#endif
