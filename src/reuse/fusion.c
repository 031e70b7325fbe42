/* fusion.c -- FusionRAG: the tokens that the question attends to most are recomputed.
 *
 * Probe: the question over the reused chunks; the attention of its tokens at the last layer, summed
 * by key over heads and question tokens, is the score; the best over all chunks together are
 * chosen. Source: FusionRAG section 3.2. */
#include "reuse/parts.h"

static sp_err answer_fusion(const sp_reuse_input *in, sp_plan *plan)
{
    float *score;
    SP_TRY(sp_reuse_score_columns(in, plan, &score));
    return sp_reuse_answer(in, score, plan);
}

static sp_err next_fusion(const sp_reuse_input *in, sp_plan *plan, sp_plan_role *role)
{
    static const sp_reuse_makers makers = {
        .n_probes = 1, .probe = sp_reuse_probe_question, .answer = answer_fusion};
    return sp_reuse_next(in, &makers, plan, role);
}

const sp_reuse_policy sp_reuse_fusion = {
    .name = "fusion",
    .help = "FusionRAG: recompute what the question looks at",
    .recomputes = true,
    .anywhere = true,
    .find = sp_reuse_find_chunks,
    .peek = sp_reuse_peek_chunk,
    .next_plan = next_fusion,
    .room = sp_reuse_room,
    .keep = sp_reuse_keep_fill,
};
