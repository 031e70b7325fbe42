/* meter.h -- measures the machine's peaks, with which benches compare their results. */
#ifndef SP_COMPUTE_METER_H
#define SP_COMPUTE_METER_H

#include <stddef.h>

#include "base/err.h"

typedef struct sp_meter sp_meter; /* threads, kernels, and memory larger than the caches */

/* sp_meter_open -- n_threads and cpu as in sp_context_opts; more threads than cores would take turns, so the meter has
 * one for each core at most. Errors: SP_E_ARG, SP_E_UNSUPPORTED,
 * SP_E_NOMEM. */
sp_err sp_meter_open(int n_threads, const char *cpu, sp_meter **out) SP_MUST_CHECK;
void sp_meter_close(sp_meter *m);

/* Rates per second that all threads together reach in loops that do nothing else. */
typedef struct sp_peaks {
    double fp32, int8;                       /* operations: a multiply-add counts as two */
    double bf16;                             /* the same; 0: the CPU has no instructions for them */
    double read;                             /* bytes, from a buffer of read_bytes */
    const char *fp32_by, *int8_by, *read_by; /* instructions of the fastest loop */
    const char *bf16_by;                     /* or NULL */
    size_t read_bytes;                       /* more than the caches of most machines hold */
    int n_threads;
    const char *kernels; /* of operations: "avx2" */
} sp_peaks;

/* sp_meter_peaks -- one sample, which takes some tenths of a second. Other work on the machine lowers
 * it: take the best of several. */
sp_peaks sp_meter_peaks(sp_meter *m);

#endif
