/* quantized.h -- a row of x rounded to integers: sp_quantize writes it, sp_matmul_packed reads it.
 *
 * The weight type selects the form of x (words_of): 16-bit words for 8-bit weights without SP_DOT,
 * bytes for all others. So without it a row has both forms, one after the other. All data of a
 * group of 32 are together, so a kernel needs one pointer a row.
 *
 * Rounding leaves a squared relative error of 1.5e-5 (bytes) or 2.5e-10 (words), because a group's
 * elements are about a third of its largest (root mean square). */
#ifndef SP_COMPUTE_SIMD_QUANTIZED_H
#define SP_COMPUTE_SIMD_QUANTIZED_H

#include "base/mem.h"
#include "compute/dtype.h"
#include "compute/simd/ivec.h"

/* Whether products with weights of this type take words of x. */
INLINE bool words_of(sp_dtype type)
{
    return type == SP_Q8_0 && !SP_DOT;
}

typedef struct words_group {
    int16_t x[32]; /* x / scale, rounded */
    float scale;   /* largest |x| / 32767 */
} words_group;

typedef struct bytes_group {
    int8_t x[32];
    float scale;   /* largest |x| / 127 */
    float sum;     /* scale * sum of x: multiplies the constant of the weights */
    float half[2]; /* the same for each 16 columns */
    int32_t start; /* -DOT_OFFSET * sum of x */
} bytes_group;

INLINE size_t qrow_bytes(int64_t n)
{
    const size_t group = sizeof(bytes_group) + (SP_DOT ? 0 : sizeof(words_group));
    return SP_ROUND_UP((size_t)n / 32 * group, (size_t)SP_CACHE_LINE);
}

INLINE bytes_group *bytes_at(const void *q, int64_t row, int64_t n)
{
    return (bytes_group *)((uint8_t *)q + (size_t)row * qrow_bytes(n));
}

INLINE words_group *words_at(const void *q, int64_t row, int64_t n)
{
    return (words_group *)(bytes_at(q, row, n) + n / 32);
}

#endif
