/* blend.c -- CacheBlend: the tokens whose KV deviates most at the second layer are recomputed.
 *
 * Probe: all chunk tokens through the first two layers, seeing everything before them, in a private
 * span; the distance of their second-layer KV from the cached copy is the score. The question is
 * not part of it. `layer` names another layer: a later one costs more and tells more, above all where
 * the first layers see a window only.
 * Source: FusionRAG section 2.2.2, eq. 7 to 9. */
#include "reuse/parts.h"

static const sp_reuse_param params[] = {
    {"layer", "", "compares keys and values at this layer", 1, 1000, 2, .whole = true}};

/* add_fresh -- the private span: all chunk tokens at their positions; their cached copies become
 * stale. */
static sp_err add_fresh(const sp_reuse_input *in, sp_plan *plan, int *span)
{
    int32_t n = sp_reuse_n_chunk_tokens(in), k = 0;
    int32_t *pos = sp_arena_take(&plan->arena, (size_t)n, sizeof *pos);
    if (!pos) return sp_fail_nomem("a probe");
    for (int i = 0; i < plan->n_spans; i++) {
        int32_t at = plan->spans[i].at + plan->spans[i].shift;
        if (!sp_reuse_is_chunk(in, i)) continue;
        for (int32_t t = 0; t < in->segs[i].n; t++) pos[k++] = at + t;
        SP_TRY(sp_plan_mark_all_stale(plan, i));
    }
    return sp_plan_add_span(plan, &(sp_span_spec){.n = n, .pos = pos}, span);
}

/* add_todo -- chunk tokens into the private span, each with its cached copy as twin; text between
 * chunks into spans of its own, without twins. */
static sp_err add_todo(const sp_reuse_input *in, int n_segs, int fresh, int see, sp_plan *plan)
{
    int32_t k = 0;
    sp_twin *twins = plan->twins;
    for (int i = 0; i < n_segs; i++) {
        const sp_segment *seg = &in->segs[i];
        if (plan->slots[i].n_known == 0) {
            for (int32_t t = 0; t < seg->n; t++) *twins++ = (sp_twin){-1, 0};
            SP_TRY(sp_reuse_add_tokens(in, i, see, plan));
        } else if (sp_reuse_is_chunk(in, i)) {
            for (int32_t t = 0; t < seg->n; t++) *twins++ = (sp_twin){i, t};
            sp_todo first = {.pos = plan->spans[i].at + plan->spans[i].shift,
                             .span = (uint16_t)fresh,
                             .see = (uint16_t)see,
                             .index = k};
            SP_TRY(sp_plan_add_run(plan, first, seg->tokens, seg->n));
            k += seg->n;
        }
    }
    return SP_OK;
}

static sp_err probe_blend(const sp_reuse_input *in, sp_plan *plan)
{
    sp_reuse_input front = *in;
    front.n_segs = sp_reuse_n_to_last_chunk(in);
    size_t n = 0;
    for (int i = 0; i < front.n_segs; i++) n += (size_t)in->segs[i].n;
    plan->probe = (sp_probe){.kind = SP_PROBE_DEVIATION, .layer = SP_MIN((int)in->params[0], in->n_layers) - 1};
    plan->twins = sp_arena_take(&plan->arena, n, sizeof *plan->twins);
    plan->n_twins = (int)n;
    plan->probe.deviation = sp_arena_take(&plan->arena, n, sizeof *plan->probe.deviation);
    if (!plan->twins || !plan->probe.deviation)
        return sp_fail_nomem("a probe");
    int fresh, see;
    SP_TRY(sp_plan_reserve_todo(plan, (int)n));
    SP_TRY(sp_reuse_spans(&front, plan));
    SP_TRY(add_fresh(in, plan, &fresh));
    SP_TRY(sp_plan_add_sight(plan, NULL, plan->n_spans, &see));
    return add_todo(in, front.n_segs, fresh, see, plan);
}

static sp_err answer_blend(const sp_reuse_input *in, sp_plan *plan)
{
    float *score;
    SP_TRY(sp_reuse_scores(in, plan, &score));
    const sp_plan *p = sp_reuse_probed(in);
    for (int t = 0, k = 0; p && t < p->n_todo; t++) /* both lists are in prompt order */
        if (p->twins[t].span >= 0) score[k++] = p->probe.deviation[t];
    return sp_reuse_answer(in, score, plan);
}

static sp_err next_blend(const sp_reuse_input *in, sp_plan *plan, sp_plan_role *role)
{
    static const sp_reuse_makers makers = {
        .n_probes = 1, .probe = probe_blend, .answer = answer_blend};
    return sp_reuse_next(in, &makers, plan, role);
}

const sp_reuse_policy sp_reuse_blend = {
    .name = "blend",
    .help = "CacheBlend: recompute where KV deviates most",
    .params = params,
    .n_params = SP_COUNT(params),
    .recomputes = true,
    .anywhere = true,
    .find = sp_reuse_find_chunks,
    .peek = sp_reuse_peek_chunk,
    .next_plan = next_blend,
    .keep = sp_reuse_keep_fill,
};
