/* roofline.h -- loops that do only what limits a CPU: multiply-adds in registers, and reads. The
 * rate of the fastest loop is the roof that kernels are compared with.
 *
 * A loop keeps enough sums in flight to hide the latency of its instruction and takes its operands
 * from registers. Measure to find the fastest one: a CPU may run wide instructions at a lower
 * frequency, or in two halves. */
#ifndef SP_COMPUTE_ROOFLINE_H
#define SP_COMPUTE_ROOFLINE_H

#include "base/err.h"

typedef enum sp_roof_kind {
    SP_ROOF_FP32, /* multiply-adds of floats */
    SP_ROOF_INT8, /* products of bytes, summed in 32 bits */
    SP_ROOF_BF16, /* multiply-adds of bf16, summed in f32: where a CPU has instructions for them */
    SP_ROOF_READ,
    SP_ROOF_KINDS,
} sp_roof_kind;

typedef struct sp_roof_loop {
    sp_roof_kind kind;
    const char *name;                                /* its instructions */
    double ops;                                      /* in one turn; a multiply-add counts as two */
    uint32_t (*turns)(int64_t n);                    /* all but READ: n turns */
    uint32_t (*read)(const void *p, size_t n_bytes); /* READ: 64-byte aligned, whole kilobytes */
    bool (*runs_here)(void);
} sp_roof_loop;

/* The return value depends on all of a loop's work, so that no compiler can drop any of it. INT8:
 * the sum of all products, each 15, modulo 2^32. */

/* sp_roof_loops -- every loop in this build, including those that this CPU cannot run. */
const sp_roof_loop *const *sp_roof_loops(int *n);

#endif
