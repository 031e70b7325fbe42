/* attention.c -- attention as a score: plans that measure how much tokens look at the chunks. */
#include <string.h>

#include "reuse/parts.h"

const sp_plan *sp_reuse_probed(const sp_reuse_input *in)
{
    return in->n_done[SP_PLAN_PROBE] ? in->last : NULL;
}

bool sp_reuse_wants_probe(const sp_reuse_input *in, int n_probes)
{
    bool any = false;
    for (int i = 0; i < in->n_segs; i++) any |= sp_reuse_is_chunk(in, i);
    return any && in->n_done[SP_PLAN_PROBE] < n_probes && in->recompute > 0 && in->recompute < 1;
}

sp_err sp_reuse_want_columns(const sp_reuse_input *in, int layer, sp_plan *plan)
{
    float **columns = sp_arena_take(&plan->arena, (size_t)plan->n_spans, sizeof *columns);
    if (!columns) return sp_fail_nomem("a probe");
    for (int i = 0; i < in->n_segs; i++) {
        if (!sp_reuse_is_chunk(in, i)) continue;
        columns[i] = sp_arena_take(&plan->arena, (size_t)in->segs[i].n, sizeof **columns);
        if (!columns[i]) return sp_fail_nomem("a probe");
    }
    plan->probe = (sp_probe){.kind = SP_PROBE_COLUMNS, .layer = layer, .columns = columns};
    return SP_OK;
}

sp_err sp_reuse_score_columns(const sp_reuse_input *in, sp_plan *plan, float **score)
{
    const sp_plan *probed = sp_reuse_probed(in);
    SP_TRY(sp_reuse_scores(in, plan, score));
    float *out = *score;
    for (int i = 0; probed && i < in->n_segs; i++) {
        if (!sp_reuse_is_chunk(in, i)) continue;
        size_t n = (size_t)in->segs[i].n;
        if (n) memcpy(out, probed->probe.columns[i], n * sizeof *out);
        out += n;
    }
    return SP_OK;
}

sp_err sp_reuse_probe_question(const sp_reuse_input *in, sp_plan *plan)
{
    int see;
    SP_TRY(sp_reuse_spans(in, plan));
    SP_TRY(sp_plan_add_sight(plan, NULL, in->n_segs, &see));
    for (int i = 0; i < in->n_segs; i++)
        if (plan->slots[i].n_known == 0) SP_TRY(sp_reuse_add_tokens(in, i, see, plan));
    return sp_reuse_want_columns(in, in->n_layers - 1, plan);
}
