/* fusion.c -- FusionRAG: the tokens that the question attends to most are computed again.
 *
 * Probe: the question over the reused chunks; the attention of its tokens at the last layer,
 * summed by key over heads and question tokens, is the score; the best over all chunks together
 * are chosen.
 * Source: FusionRAG section 3.2 (row F4). / */
#include "reuse/reuse_int.h"

static sp_err probe_fusion(const sp_reuse_input *in, sp_plan *plan)
{
    int see;
    SP_TRY(sp_reuse_known_spans(in, plan));
    SP_TRY(sp_plan_add_sight(plan, NULL, in->n_segs, &see));
    float **columns = sp_arena_take(&plan->arena, (size_t)in->n_segs, sizeof *columns);
    if (!columns) return sp_fail_nomem((size_t)in->n_segs * sizeof *columns, "a probe");
    for (int i = 0; i < in->n_segs; i++) {
        if (plan->slots[i].n_known == 0) SP_TRY(sp_reuse_add_tokens(in, i, see, plan));
        if (!in->chunks[i]) continue;
        columns[i] = sp_arena_take(&plan->arena, (size_t)in->segs[i].n, sizeof **columns);
        if (!columns[i]) return sp_fail_nomem((size_t)in->segs[i].n * sizeof **columns, "a probe");
    }
    plan->probe =
        (sp_probe){.kind = SP_PROBE_COLUMNS, .layer = in->n_layers - 1, .columns = columns};
    return SP_OK;
}

static sp_err plan_fusion(const sp_reuse_input *in, sp_plan *plan)
{
    sp_choice *c;
    int32_t n;
    SP_TRY(sp_reuse_candidates(in, plan, &c, &n));
    for (int32_t k = 0; in->probed && k < n; k++)
        c[k].score = in->probed->probe.columns[c[k].seg][c[k].index];
    return sp_reuse_answer(in, c, n, plan);
}

const sp_reuse_policy sp_reuse_fusion = {.name = "fusion",
                                         .summary =
                                             "FusionRAG: compute again what the question looks at",
                                         .uses_tree = true,
                                         .uses_chunks = true,
                                         .selects = true,
                                         .probe = probe_fusion,
                                         .plan = plan_fusion};
