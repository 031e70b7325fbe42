/* bench_machine.h -- what the machine can do at most, measured in the same sitting, and how much of
 * it a measured time is (docs/performance.md). */
#ifndef SP_CMD_BENCH_MACHINE_H
#define SP_CMD_BENCH_MACHINE_H

#include "spolia.h"

typedef struct bench_machine {
    sp_meter *meter;
    sp_peaks best; /* of all probes until now */
} bench_machine;

/* bench_machine_open -- starts the threads and probes. False after explaining. */
bool bench_machine_open(bench_machine *m, int n_threads, const char *cpu);
void bench_machine_close(bench_machine *m);
/* bench_machine_probe -- once more: what was slow for a while must not become the bound. */
void bench_machine_probe(bench_machine *m);
void bench_machine_print(const bench_machine *m);

/* What has to be done at least: multiply-adds count as two. */
typedef struct bench_work {
    double fp32, int8; /* operations: products with quantized weights can be products of bytes */
    double bytes;      /* read from memory */
} bench_work;

void bench_work_add(bench_work *to, const bench_work *w, double times);

/* bench_machine_bound -- seconds that it takes at least: computing, or reading, whichever is
 * longer. *by (may be NULL): "fp32", "int8" or "read". */
double bench_machine_bound(const bench_machine *m, const bench_work *w, const char **by);

/* bench_weight_is_int8 -- whether the products of a weight type count as int8. */
bool bench_weight_is_int8(const char *type);

#endif
