/* h2o.c -- the most-attended tokens of each chunk are computed again: a baseline.
 *
 * What counts is the attention that tokens receive within their chunk while its plain copy is
 * computed, over all layers and heads; chunks take part by their size.
 * Source: Prefill-H2O of Cache-Craft section 5.1.4 (row C11). */
#include <stdlib.h>

#include "reuse/reuse_int.h"

typedef struct received {
    float mass;
    int32_t token;
} received;

static int by_mass(const void *a, const void *b)
{
    const received *x = a, *y = b;
    if (x->mass != y->mass) return x->mass < y->mass ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

const int32_t *sp_reuse_heavy(const sp_plan *plan, int i)
{
    if (plan->probe.kind != SP_PROBE_COLUMNS || !plan->probe.columns[i]) return NULL;
    sp_arena *arena = &((sp_plan *)plan)->arena;
    int32_t n = plan->spans[i].n;
    received *all = sp_arena_take(arena, (size_t)n, sizeof *all);
    int32_t *out = sp_arena_take(arena, (size_t)n, sizeof *out);
    if (!all || !out) return NULL;
    for (int32_t t = 0; t < n; t++) all[t] = (received){plan->probe.columns[i][t], t};
    qsort(all, (size_t)n, sizeof *all, by_mass);
    for (int32_t t = 0; t < n; t++) out[t] = all[t].token;
    return out;
}

static sp_err plan_h2o(const sp_reuse_input *in, sp_plan *plan)
{
    float *score;
    int32_t first = 0;
    SP_TRY(sp_reuse_scores(in, plan, &score));
    for (int i = 0; i < in->n_segs; i++) {
        const sp_variant *v = in->chunks[i];
        for (int32_t rank = 0; v && v->heavy && rank < v->n; rank++)
            score[first + v->heavy[rank]] = -(float)rank / (float)v->n;
        if (v) first += v->n;
    }
    return sp_reuse_answer(in, score, plan);
}

const sp_reuse_policy sp_reuse_h2o = {.name = "h2o",
                                      .summary =
                                          "compute again what receives most attention in a chunk",
                                      .uses_tree = true,
                                      .uses_chunks = true,
                                      .selects = true,
                                      .wants_heavy = true,
                                      .plan = plan_h2o};
