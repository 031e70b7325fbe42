#include "serve/queue/pace.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

double sp_pace_sight(const sp_model *m)
{
    const sp_hparams *hp = &m->hp;
    const double queries = (double)hp->n_heads * hp->head, keys = (double)hp->n_kv_heads * hp->head;
    const double ff = hp->moe.n ? (double)hp->moe.n_used * hp->moe.n_ff + hp->moe.n_shared : hp->n_ff;
    const double weights = hp->n_embd * (2 * queries + 2 * keys + 3 * ff);
    int n_full = 0; /* layers that see everything */
    for (int l = 0; l < hp->n_layers; l++) n_full += m->layers[l].window == 0;
    return n_full ? weights * hp->n_layers / (2 * queries * n_full) : 0;
}

/* cost -- in tokens that look at nothing. */
static double cost(const sp_pace *p, int n, double positions)
{
    return n + (p->sight > 0 ? positions / p->sight : 0);
}

static double sum_below(int n)
{
    return 0.5 * n * (n - 1.0);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sp_pace_guess(sp_pace *p, int n, double us)
{
    if (!p->measured && n > 0) p->token_us = us / cost(p, n, sum_below(n));
}

void sp_pace_learn(sp_pace *p, int n, double positions, double us)
{
    if (n <= 0 || us <= 0) return;
    p->each_us[p->n++ % SP_PACE_STEPS] = us / cost(p, n, positions);
    double sorted[SP_PACE_STEPS];
    const size_t n_steps = (size_t)SP_MIN(p->n, SP_PACE_STEPS);
    memcpy(sorted, p->each_us, n_steps * sizeof *sorted);
    qsort(sorted, n_steps, sizeof *sorted, by_value);
    p->token_us = sorted[(n_steps - 1) / 4];
    p->measured = true;
}

double sp_pace_us(const sp_pace *p, int n)
{
    return n > 0 ? p->token_us * cost(p, n, sum_below(n)) : 0;
}
