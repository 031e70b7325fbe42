#include "lab/bench/ops.h"

#include <stdlib.h>

#include "cli/cli.h"

bool bench_ops_add(bench_ops *b, const sp_meter_op *op, const char *const *values, bool int8)
{
    sp_meter_sample sample;
    sp_err err = sp_meter_run(b->s.machine.meter, op, &sample);
    if (err == SP_E_ARG || err == SP_E_LIMIT)
        return speed_skip(&b->s, values, "%s", sp_error_detail()), true;
    if (err != SP_OK) return cli_fail(err), false;
    sp_meter_op *v = realloc(b->v, (size_t)(b->s.n_rows + 1) * sizeof *v);
    if (!v) return cli_fail_with("out of memory"), false;
    b->v = v;
    b->v[b->s.n_rows] = *op;
    bench_work work = {.bytes = sample.bytes};
    *(int8 ? &work.int8 : &work.fp32) = sample.ops;
    return speed_add(&b->s, values, sample.ops / 1e9, &work);
}

static bool run(void *user, int index, double *seconds)
{
    bench_ops *b = user;
    sp_meter_sample sample;
    sp_err err = sp_meter_run(b->s.machine.meter, &b->v[index], &sample);
    if (err != SP_OK) return cli_fail(err), false;
    *seconds = sample.seconds;
    return true;
}

bool bench_ops_measure(bench_ops *b)
{
    return speed_measure(&b->s, run, b);
}

int bench_ops_close(bench_ops *b, bool good)
{
    free(b->v);
    return speed_close(&b->s, good);
}
