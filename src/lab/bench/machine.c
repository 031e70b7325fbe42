#include "lab/bench/machine.h"

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

bool bench_machine_open(bench_machine *m, int n_threads, const char *cpu)
{
    *m = (bench_machine){0};
    sp_err err = sp_meter_open(n_threads, cpu, &m->meter);
    if (err != SP_OK) return cli_fail(err), false;
    bench_machine_probe(m);
    return true;
}

void bench_machine_close(bench_machine *m)
{
    sp_meter_close(m->meter);
    m->meter = NULL;
}

void bench_machine_probe(bench_machine *m)
{
    sp_peaks now = sp_meter_peaks(m->meter), best = m->best;
    m->best = now;
    if (best.fp32 > now.fp32) m->best.fp32 = best.fp32, m->best.fp32_by = best.fp32_by;
    if (best.int8 > now.int8) m->best.int8 = best.int8, m->best.int8_by = best.int8_by;
    if (best.bf16 > now.bf16) m->best.bf16 = best.bf16, m->best.bf16_by = best.bf16_by;
    if (best.read > now.read) m->best.read = best.read, m->best.read_by = best.read_by;
}

void bench_machine_print(const bench_machine *m)
{
    const sp_peaks *p = &m->best;
    printf("machine, %d threads: fp32 %.1f GFLOP/s (%s), int8 %.1f Gop/s (%s), ", p->n_threads, p->fp32 / 1e9,
           p->fp32_by, p->int8 / 1e9, p->int8_by);
    if (p->bf16_by) printf("bf16 %.1f GFLOP/s (%s), ", p->bf16 / 1e9, p->bf16_by);
    printf("read %.1f GB/s; kernels: %s\n", p->read / 1e9, p->kernels);
    fflush(stdout);
}

void bench_work_add(bench_work *to, const bench_work *w, double times)
{
    to->fp32 += w->fp32 * times;
    to->rounded += w->rounded * times;
    to->bytes += w->bytes * times;
}

double bench_machine_bound(const bench_machine *m, const bench_work *w, const char **by)
{
    const bool bf16 = strncmp(m->best.kernels, "amx", 3) == 0;
    const double fp32 = w->fp32 / m->best.fp32, rounded = w->rounded / (bf16 ? m->best.bf16 : m->best.int8);
    const double reading = w->bytes / m->best.read;
    const bool reads = reading > fp32 + rounded;
    if (by) *by = reads ? "read" : rounded <= fp32 ? "fp32" : bf16 ? "bf16" : "int8";
    return reads ? reading : fp32 + rounded;
}
