/* machine.h -- the peaks of this machine, measured in the same run, and the bound that they set. */
#ifndef SP_LAB_BENCH_MACHINE_H
#define SP_LAB_BENCH_MACHINE_H

#include "compute/meter.h"

typedef struct bench_machine {
    sp_meter *meter;
    sp_peaks best; /* of all probes so far */
} bench_machine;

/* bench_machine_open -- starts the threads and probes. False after an error message. */
bool bench_machine_open(bench_machine *m, int n_threads, const char *cpu);
void bench_machine_close(bench_machine *m);
/* bench_machine_probe -- measures the peaks again and keeps the best, so that a slow moment does not
 * become the bound. */
void bench_machine_probe(bench_machine *m);
void bench_machine_print(const bench_machine *m);

/* The least work of an operation; a multiply-add counts as two. */
typedef struct bench_work {
    double fp32;    /* operations */
    double rounded; /* operations whose inputs kernels round: products of bytes, or of bf16 */
    double bytes;   /* read from memory */
} bench_work;

void bench_work_add(bench_work *to, const bench_work *w, double times);

/* bench_machine_bound -- the least seconds of this work: computing or reading, whichever is longer.
 * *by (may be NULL): "fp32", "int8", "bf16" or "read". */
double bench_machine_bound(const bench_machine *m, const bench_work *w, const char **by);

#endif
