/* times.c -- quantiles of what calls took. */
#include <stdlib.h>
#include <time.h>

#include "cli/alloc.h"
#include "lab/sim/sim.h"

typedef struct list {
    float *ns;
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
    l->ns = cli_grow(l->ns, l->n, &l->cap, sizeof *l->ns);
    l->ns[l->n++] = (float)ns;
}

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

sim_times sim_times_of(sim_samples *s, sim_op op)
{
    if (!s || !s->of[op].n) return (sim_times){0};
    const list *l = &s->of[op];
    qsort(l->ns, l->n, sizeof *l->ns, ascending);
    return (sim_times){.p50 = (double)l->ns[l->n / 2] / 1000,
                       .p99 = (double)l->ns[l->n * 99 / 100] / 1000,
                       .most = (double)l->ns[l->n - 1] / 1000,
                       .n = (int64_t)l->n};
}

size_t sim_samples_bytes(const sim_samples *s)
{
    size_t n = 0;
    for (int op = 0; s && op < SIM_N_OPS; op++) n += s->of[op].cap * sizeof *s->of[op].ns;
    return n;
}

void sim_samples_free(sim_samples *s)
{
    for (int op = 0; s && op < SIM_N_OPS; op++) free(s->of[op].ns);
    free(s);
}
