/* ops.h -- single operations of the kernel table as settings of a speed_bench. */
#ifndef SP_LAB_BENCH_OPS_H
#define SP_LAB_BENCH_OPS_H

#include "lab/bench/speed.h"

typedef struct bench_ops {
    speed_bench s;
    sp_meter_op *v; /* [s.n_rows] */
} bench_ops;

/* bench_ops_add -- runs the operation once, which tells its work, and adds a row. Unsupported
 * operations are skipped. int8: its products count as int8. False after an error message. */
bool bench_ops_add(bench_ops *b, const sp_meter_op *op, const char *const *values, bool int8);
bool bench_ops_measure(bench_ops *b);
/* bench_ops_close -- returns the exit code. */
int bench_ops_close(bench_ops *b, bool good);

#endif
