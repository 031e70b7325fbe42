/* quantized.h -- a row of x rounded to integers: sp_quantize writes it, sp_matmul_packed reads it.
 *
 * Which form a product takes is its weights' affair (words_of): 16-bit words as wide as they can be
 * for weights of 8 bits where there is no VNNI, bytes for all others. So without VNNI a row has
 * both, one after the other. What belongs to a group of 32 lies together: one pointer a row serves
 * a kernel.
 *
 * The rounding leaves a relative error in the square of 1.5e-5 (bytes) or 2.5e-10 (words), since a
 * group's elements are about a third of its largest. */
#ifndef SP_COMPUTE_X86_QUANTIZED_H
#define SP_COMPUTE_X86_QUANTIZED_H

#include "base/mem.h"
#include "compute/dtype.h"
#include "compute/x86/ivec.h"

/* Do products with weights of this type take words of x? */
INLINE bool words_of(sp_dtype type)
{
    return type == SP_Q8_0 && !SP_VNNI;
}

typedef struct words_group {
    int16_t x[32]; /* x / scale, to the nearest */
    float scale;   /* largest |x| / 32767 */
} words_group;

typedef struct bytes_group {
    int8_t x[32];
    float scale;   /* largest |x| / 127 */
    float sum;     /* of x times scale: what a constant in the weights adds */
    float half[2]; /* the same of 16 columns */
    int32_t start; /* -128 times the sum of x: weights of 8 bits are taken as w + 128 (SP_VNNI) */
} bytes_group;

INLINE size_t qrow_bytes(int64_t n)
{
    const size_t group = sizeof(bytes_group) + (SP_VNNI ? 0 : sizeof(words_group));
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
