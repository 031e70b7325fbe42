/* bench_ops.h -- single operations of the kernel table as settings of a speed_bench. */
#ifndef SP_CMD_BENCH_OPS_H
#define SP_CMD_BENCH_OPS_H

#include "cmd/bench_speed.h"

typedef struct bench_ops {
    speed_bench s;
    sp_meter_op *v; /* [s.n_rows] */
} bench_ops;

/* bench_ops_add -- a row, after one run of the operation: that says whether there is such a one, and
 * what it takes. One that there cannot be is skipped. int8: its products count as int8. False after
 * explaining. */
bool bench_ops_add(bench_ops *b, const sp_meter_op *op, const char *const *values, bool int8);
bool bench_ops_measure(bench_ops *b);
/* bench_ops_close -- and the exit code. */
int bench_ops_close(bench_ops *b, bool good);

#endif
