/* cpu_int.h -- what the CPU device owns: threads, a table of kernels, and their scratch. */
#ifndef SP_COMPUTE_CPU_INT_H
#define SP_COMPUTE_CPU_INT_H

#include <stdatomic.h>

#include "compute/cpu.h"
#include "compute/kernels.h"
#include "compute/kernel/summary.h"

/* Products with quantized weights read rows of x as integers. Rows are rounded once for all the
 * products that share them: by the operation that makes them where it `feeds` products (they are
 * still in L1 then), else by the first product. */
typedef struct sp_rounded {
    const float *x; /* rows [m, n] that `ints` holds, or NULL: none */
    int64_t m, n;
    uint64_t n_copies; /* sp_cpu.n_copies then: a copy since may have changed x */
    sp_mem ints;       /* [m] of ops->quantized_bytes(n); with exact products [m] of the rest after them */
} sp_rounded;

typedef struct sp_cpu {
    sp_device base;
    sp_team *team;
    const sp_ops *ops;
    bool in_integers;          /* some matrix is multiplied in integers */
    _Atomic uint64_t n_copies; /* into device memory */
    sp_rounded rounded;
    sp_mem attend; /* scratch of attention: [n_threads] of attend_bytes */
    size_t attend_bytes;
    sp_mem columns;
    sp_mem pick;
    const sp_summary_ops *summaries;
} sp_cpu;

static inline sp_cpu *sp_cpu_of(sp_device *d)
{
    return (sp_cpu *)d;
}

/* -- cpu_run.c ------------------------------------------------------------------------------ */

void sp_cpu_run(sp_device *d, sp_op op, const void *args);

#endif
