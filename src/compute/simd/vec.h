/* vec.h -- one vector of SP_VL floats, so that a kernel is written once.
 *
 *   8    AVX2, one register; ARM64, two (vec.lo, vec.hi), so tiles have the same shapes
 *   16   AVX-512
 *
 * The Makefile compiles each kernel once for every variant, into X_avx2.o, X_neon.o and so on:
 *
 *   SP_CPU    the variant's name, the suffix of its functions (SP_VARIANT)
 *   SP_VL     the width of a vector
 *   SP_DOT    1: an instruction adds products of four bytes to a sum (VNNI, ARM64's dot products: ivec.h).
 *             Kernels that multiply no integers have no such variant: a CPU with VNNI runs their avx2
 *             or avx512 one.
 *   SP_MMLA   1: an instruction multiplies matrices of bytes, 2 x 8 times 8 x 2 (ARM64's i8mm: ivec.h)
 *   SP_ARM64  1: operations are those of arm64/, else those of x86/
 *
 * Sums over lanes have one fixed order. NaN gets no special care: max and min may drop it.
 */
#ifndef SP_COMPUTE_SIMD_VEC_H
#define SP_COMPUTE_SIMD_VEC_H

#include <math.h>
#include <stdint.h>

#if SP_VL != 8 && SP_VL != 16
#error "SP_VL must be 8 or 16 (the Makefile sets it)"
#endif

#define SP_VARIANT(name)      SP_VARIANT_2(name, SP_CPU)
#define SP_VARIANT_2(name, v) SP_VARIANT_3(name, v)
#define SP_VARIANT_3(name, v) name##_##v

/* The function of the plainest variant of a width: code without integer products is compiled once per width. */
#if SP_ARM64
#define SP_WIDTH(name) name##_neon
#elif SP_VL == 8
#define SP_WIDTH(name) name##_avx2
#else
#define SP_WIDTH(name) name##_avx512
#endif

#if SP_EMULATE /* inlining everything would take the compiler minutes */
#define INLINE static inline __attribute__((unused))
#else
#define INLINE static inline __attribute__((always_inline, unused))
#endif

enum { VL = SP_VL, V16 = 16 / SP_VL }; /* V16: vectors in 16 floats */

#if SP_ARM64
#include "compute/arm64/vec.h"
#else
#include "compute/x86/vec.h"
#endif

INLINE void vec_prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}

INLINE float vec_sum(vec a)
{
    return quad_first(vec_sum4(a, a, a, a));
}

/* -- exp --------------------------------------------------------------------------------------- */

/* e^x = 2^n * e^r with |r| <= ln 2 / 2; e^r is its series up to r^7 (remainder 6e-9). Relative
 * error about 1e-7. 0 for x < -87, so also for -inf; e^88 for x > 88. Every lane and width
 * gives the same bits. */
INLINE vec vec_exp(vec x)
{
    const vec low = vec_all(-87.0f);
    vec z = vec_min(vec_max(x, low), vec_all(88.0f));
    vec n = vec_round(vec_mul(z, vec_all(0x1.715476p+0f))); /* 1 / ln 2 */
    vec r = vec_fma(n, vec_all(-0x1.62e4p-1f), z);          /* ln 2, top 15 bits: exact times n */
    r = vec_fma(n, vec_all(-0x1.7f7d1cp-20f), r);           /* the rest of ln 2 */
    vec p = vec_all(1.0f / 5040);
    p = vec_fma(p, r, vec_all(1.0f / 720));
    p = vec_fma(p, r, vec_all(1.0f / 120));
    p = vec_fma(p, r, vec_all(1.0f / 24));
    p = vec_fma(p, r, vec_all(1.0f / 6));
    p = vec_fma(p, r, vec_all(0.5f));
    p = vec_fma(p, r, vec_all(1.0f));
    p = vec_fma(p, r, vec_all(1.0f));
    return vec_zero_below(vec_scale2(p, n), x, low);
}

/* tanh: its series up to x^7 for |x| < 0.2, else 1 - 2 / (e^2x + 1). Relative error below 1e-6. */
INLINE vec vec_tanh(vec x)
{
    const vec square = vec_mul(x, x), size = vec_abs(x);
    vec p = vec_fma(square, vec_all(-17.0f / 315), vec_all(2.0f / 15));
    p = vec_fma(p, square, vec_all(-1.0f / 3));
    const vec near = vec_fma(vec_mul(p, square), x, x);
    const vec e = vec_exp(vec_add(x, x));
    const vec far = vec_sub(vec_all(1), vec_div(vec_all(2), vec_add(e, vec_all(1))));
    return vec_add(vec_zero_below(far, size, vec_all(0x1.99999ap-3f)),
                   vec_zero_below(near, vec_sub(vec_zero(), size), vec_all(-0x1.999998p-3f)));
}

#endif
