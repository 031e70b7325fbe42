/* meter.c -- a meter, and the machine's peaks. Reading loops run over the field: memory larger than the caches. */
#include "compute/meter.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "compute/kernels.h"
#include "compute/roofline.h"

#define FIELD_BYTES ((size_t)256 << 20) /* several times the cache of a group of cores */
#define FIELD_GRAIN ((size_t)2 << 20)
#define PEAK_RUNS   3
#define PEAK_TURNS  100000 /* about a tenth of a millisecond: much longer than a barrier */
#define PEAK_US     2000   /* of one run */

struct sp_meter {
    sp_team *team;
    const sp_ops *ops;
    uint8_t *field; /* [FIELD_BYTES] pages */
};

/* -- the field ------------------------------------------------------------------------------ */

/* touch -- each thread writes its part, so that its pages are in memory near its core. */
static void touch(void *arg, int part, int n_parts)
{
    sp_meter *m = arg;
    int64_t from, to;
    sp_part((int64_t)FIELD_BYTES, (int64_t)FIELD_GRAIN, part, n_parts, &from, &to);
    memset(m->field + from, 1, (size_t)(to - from));
}

sp_err sp_meter_open(int n_threads, const char *cpu, sp_meter **out)
{
    sp_meter *m = SP_NEW(sp_meter);
    if (!m) return sp_fail_nomem("a meter");
    sp_err err = sp_ops_select(cpu, &m->ops);
    if (err == SP_OK) err = sp_team_create(&m->team, SP_MIN(n_threads, sp_cores_allowed()));
    if (err == SP_OK && !(m->field = sp_pages_alloc(FIELD_BYTES)))
        err = sp_fail_nomem("memory to measure with");
    if (err == SP_OK) sp_team_run(m->team, touch, m);
    if (err == SP_OK)
        *out = m;
    else
        sp_meter_close(m);
    return err;
}

void sp_meter_close(sp_meter *m)
{
    if (!m) return;
    sp_team_destroy(m->team);
    sp_pages_free(m->field, FIELD_BYTES);
    sp_free(m);
}

/* -- peaks ---------------------------------------------------------------------------------- */

typedef struct pass {
    const sp_meter *m;
    const sp_roof_loop *loop;
} pass;

static void run_pass(void *arg, int part, int n_parts)
{
    const pass *p = arg;
    int64_t from, to;
    if (p->loop->kind != SP_ROOF_READ) {
        p->loop->turns(PEAK_TURNS);
        return;
    }
    sp_part((int64_t)FIELD_BYTES, 4096, part, n_parts, &from, &to);
    p->loop->read(p->m->field + from, (size_t)(to - from));
}

/* rate_of -- operations or bytes per second of all threads in one run of some milliseconds. */
static double rate_of(sp_meter *m, const sp_roof_loop *loop)
{
    double amount = loop->kind == SP_ROOF_READ ? (double)FIELD_BYTES
                                               : loop->ops * PEAK_TURNS * sp_team_size(m->team);
    pass p = {m, loop};
    int64_t start = sp_clock_us(), us = 0;
    int n = 0;
    for (; us < PEAK_US; n++, us = sp_clock_us() - start) sp_team_run(m->team, run_pass, &p);
    return amount * n / ((double)us * 1e-6);
}

sp_peaks sp_meter_peaks(sp_meter *m)
{
    struct {
        double rate;
        const char *by;
    } best[SP_ROOF_KINDS] = {0};
    int n_loops;
    const sp_roof_loop *const *loops = sp_roof_loops(&n_loops);
    for (int run = 0; run < PEAK_RUNS; run++)
        for (int i = 0; i < n_loops; i++) {
            double rate = loops[i]->runs_here() ? rate_of(m, loops[i]) : 0;
            if (rate <= best[loops[i]->kind].rate) continue;
            best[loops[i]->kind].rate = rate;
            best[loops[i]->kind].by = loops[i]->name;
        }
    return (sp_peaks){.fp32 = best[SP_ROOF_FP32].rate,
                      .int8 = best[SP_ROOF_INT8].rate,
                      .bf16 = best[SP_ROOF_BF16].rate,
                      .read = best[SP_ROOF_READ].rate,
                      .fp32_by = best[SP_ROOF_FP32].by,
                      .int8_by = best[SP_ROOF_INT8].by,
                      .bf16_by = best[SP_ROOF_BF16].by,
                      .read_by = best[SP_ROOF_READ].by,
                      .read_bytes = FIELD_BYTES,
                      .n_threads = sp_team_size(m->team),
                      .kernels = m->ops->name};
}
