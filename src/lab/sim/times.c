/* times.c -- quantiles of what calls took. */
#include <stdlib.h>
#include <time.h>

#include "cli/alloc.h"
#include "lab/numbers.h"
#include "lab/sim/sim.h"

typedef struct list {
    double *us;
    size_t n, cap;
} list;

struct sim_samples {
    list of[SIM_N_OPS];
};

int64_t sim_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void sim_note(sim_samples **s, sim_op op, int64_t ns)
{
    if (!*s) *s = cli_alloc(1, sizeof **s);
    list *l = &(*s)->of[op];
    l->us = cli_grow(l->us, l->n, &l->cap, sizeof *l->us);
    l->us[l->n++] = (double)ns / 1000;
}

sim_times sim_times_of(sim_samples *s, sim_op op)
{
    if (!s || !s->of[op].n) return (sim_times){0};
    const list *l = &s->of[op];
    lab_sort(l->us, l->n);
    return (sim_times){
        .p50 = l->us[l->n / 2], .p99 = l->us[l->n * 99 / 100], .most = l->us[l->n - 1], .n = (int64_t)l->n};
}

size_t sim_samples_bytes(const sim_samples *s)
{
    size_t n = 0;
    for (int op = 0; s && op < SIM_N_OPS; op++) n += s->of[op].cap * sizeof *s->of[op].us;
    return n;
}

void sim_samples_free(sim_samples *s)
{
    for (int op = 0; s && op < SIM_N_OPS; op++) free(s->of[op].us);
    free(s);
}
