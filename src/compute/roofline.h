/* roofline.h -- loops that do nothing but what a CPU is bound by: multiply-adds in registers, and
 * reading. What the best of them reaches is the roof that kernels are held against.
 *
 * A loop keeps so many sums in flight that the latency of its instruction is hidden, and takes its
 * operands from registers. Which one is the fastest is for the clock to say, not for this table: a
 * CPU may run wide instructions at a lower frequency, or in two halves. */
#ifndef SP_COMPUTE_ROOFLINE_H
#define SP_COMPUTE_ROOFLINE_H

#include "base/err.h"

typedef enum sp_roof_kind {
    SP_ROOF_FP32, /* multiply-adds of floats */
    SP_ROOF_INT8, /* products of bytes, summed in 32 bits */
    SP_ROOF_READ,
    SP_ROOF_KINDS,
} sp_roof_kind;

typedef struct sp_roof_loop {
    sp_roof_kind kind;
    const char *name;                                /* its instructions */
    double ops;                                      /* of one turn; a multiply-add counts as two */
    uint32_t (*turns)(int64_t n);                    /* FP32, INT8: n turns */
    uint32_t (*read)(const void *p, size_t n_bytes); /* READ: 64-byte aligned, whole kilobytes */
    bool (*runs_here)(void);
} sp_roof_loop;

/* What they return depends on all that they did, so that no compiler leaves any of it out. INT8: the
 * sum of all products, each 15, modulo 2^32. */

/* sp_roof_loops -- every loop that was compiled, whether this CPU runs it or not. */
const sp_roof_loop *const *sp_roof_loops(int *n);

#endif
