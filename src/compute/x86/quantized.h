/* quantized.h -- a row of x rounded to integers: sp_quantize writes it, sp_matmul_packed reads it.
 *
 *   int16 or int8 [n]      x / scale of its group, to the nearest, |.| <= SP_X_MAX
 *   float scale[n / 32]    largest |x| of the group / SP_X_MAX
 *   float sum[n / 32]      scale times the sum of the integers: what a constant in the weights adds
 *   int32 start[n / 32]    SP_STEP 4: -128 times the sum of a group's integers, since the weights
 *   int32 half[n / 16]     are stored as w + 128; the same of 16 columns
 *
 * SP_X_MAX of int16: the weights of Q6_K, times their scale, are at most 4096, and 32 products must
 * not leave 32 bits: 32 * 4096 * 16383 < 2^31. The rounding leaves a relative error of 1e-9 in the
 * square (of int8: 1.5e-5), since a group's elements are about a third of its largest.
 */
#ifndef SP_COMPUTE_X86_QUANTIZED_H
#define SP_COMPUTE_X86_QUANTIZED_H

#include "base/mem.h"
#include "compute/x86/ivec.h"

#if SP_STEP == 2
#define SP_X_MAX 16383
#else
#define SP_X_MAX 127
#endif

typedef struct qrow {
    const uint8_t *x; /* groups of 128 / SP_STEP bytes */
    const float *scale, *sum;
    const int32_t *start, *half;
} qrow;

INLINE size_t qrow_bytes(int64_t n)
{
    const size_t ints = (size_t)n * (4 / SP_STEP), groups = (size_t)n / 32;
    return SP_ROUND_UP(ints + groups * (SP_STEP == 4 ? 20 : 8), (size_t)SP_CACHE_LINE);
}

INLINE qrow qrow_at(const void *q, int64_t row, int64_t n)
{
    const uint8_t *p = (const uint8_t *)q + (size_t)row * qrow_bytes(n);
    const float *scale = (const float *)(p + (size_t)n * (4 / SP_STEP));
    const int32_t *start = (const int32_t *)(scale + 2 * (n / 32));
    return (qrow){p, scale, scale + n / 32, start, start + n / 32};
}

#endif
