#include "lab/bench/machine.h"

#include <stdio.h>

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
    if (best.read > now.read) m->best.read = best.read, m->best.read_by = best.read_by;
}

void bench_machine_print(const bench_machine *m)
{
    const sp_peaks *p = &m->best;
    printf("machine, %d threads: fp32 %.1f GFLOP/s (%s), int8 %.1f Gop/s (%s), read %.1f GB/s; "
           "kernels: %s\n",
           p->n_threads, p->fp32 / 1e9, p->fp32_by, p->int8 / 1e9, p->int8_by, p->read / 1e9,
           p->kernels);
    fflush(stdout);
}

void bench_work_add(bench_work *to, const bench_work *w, double times)
{
    to->fp32 += w->fp32 * times;
    to->int8 += w->int8 * times;
    to->bytes += w->bytes * times;
}

double bench_machine_bound(const bench_machine *m, const bench_work *w, const char **by)
{
    double fp32 = w->fp32 / m->best.fp32, int8 = w->int8 / m->best.int8;
    double reading = w->bytes / m->best.read;
    bool reads = reading > fp32 + int8;
    if (by) *by = reads ? "read" : int8 > fp32 ? "int8" : "fp32";
    return reads ? reading : fp32 + int8;
}
