/* flow.c -- attention flow: recomputes the tokens that the question attends to, and those that they attend to.
 *
 *   chunk 1                    chunk 2                        question
 *   .. the Owner means ARLO    .. the Owner .. [ 1907 ]       When did ARLO found it?
 *                                    ^---------  ^-----------------------'
 *                                     probe 2      probe 1
 *
 * The question attends to the value that answers it (probe 1: fusion's). Where a chunk calls its
 * subject by a word that an earlier chunk explains, the cached copy lacks that link in two tokens,
 * the word and the value, and the question points at the value alone. So one half of the budget
 * goes as in fusion; these tokens are computed over the reused copies, and what they attend to in
 * the middle layer, where tokens are bound to their properties, takes the other half. Probe 2
 * costs half of the budget in half of the layers.
 *
 * Source: our own; two steps of attention flow (Abnar and Zuidema 2020) over FusionRAG section 3.2.
 * Evidence and the choice of half and middle: docs/benchmarks.md. */
#include <math.h>

#include "reuse/parts.h"

/* probe_chosen -- the half that the question has chosen, over the reused copies. Columns are added
 * to, so these tokens begin at infinity: they stay chosen. */
static sp_err probe_chosen(const sp_reuse_input *in, sp_plan *plan)
{
    sp_reuse_input front = *in;
    float *score;
    front.n_segs = sp_reuse_n_to_last_chunk(in);
    front.recompute = in->recompute / 2;
    front.answer_room = 0;
    SP_TRY(sp_reuse_score_columns(&front, plan, &score));
    SP_TRY(sp_reuse_answer(&front, score, plan));
    SP_TRY(sp_reuse_want_columns(&front, in->n_layers / 2, plan));
    for (int i = 0; i < front.n_segs; i++) {
        const uint64_t *stale = plan->spans[i].stale;
        for (int32_t t = 0; stale && t < in->segs[i].n; t++)
            if (stale[t / 64] >> (t % 64) & 1) plan->probe.columns[i][t] = INFINITY;
    }
    return SP_OK;
}

static sp_err probe_flow(const sp_reuse_input *in, sp_plan *plan)
{
    return sp_reuse_probed(in) ? probe_chosen(in, plan) : sp_reuse_probe_question(in, plan);
}

static sp_err answer_flow(const sp_reuse_input *in, sp_plan *plan)
{
    float *score;
    SP_TRY(sp_reuse_score_columns(in, plan, &score));
    return sp_reuse_answer(in, score, plan);
}

static sp_err next_flow(const sp_reuse_input *in, sp_plan *plan, sp_plan_role *role)
{
    static const sp_reuse_makers makers = {
        .n_probes = 2, .probe = probe_flow, .answer = answer_flow};
    return sp_reuse_next(in, &makers, plan, role);
}

const sp_reuse_policy sp_reuse_flow = {
    .name = "flow",
    .help = "fusion, and recompute what those tokens look at",
    .recomputes = true,
    .anywhere = true,
    .find = sp_reuse_find_chunks,
    .peek = sp_reuse_peek_chunk,
    .next_plan = next_flow,
    .room = sp_reuse_room,
    .keep = sp_reuse_keep_fill,
};
