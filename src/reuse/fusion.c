/* fusion.c -- FusionRAG: the tokens that the question attends to most are computed again.
 *
 * Probe: the question over the reused chunks; the attention of its tokens at the last layer,
 * summed by key over heads and question tokens, is the score; the best over all chunks together
 * are chosen.
 * Source: FusionRAG section 3.2 (row F4). */
#include "reuse/reuse_int.h"

static sp_err plan_fusion(const sp_reuse_input *in, sp_plan *plan)
{
    float *score;
    SP_TRY(sp_reuse_score_columns(in, plan, &score));
    return sp_reuse_answer(in, score, plan);
}

const sp_reuse_policy sp_reuse_fusion = {.name = "fusion",
                                         .summary =
                                             "FusionRAG: compute again what the question looks at",
                                         .uses_tree = true,
                                         .uses_chunks = true,
                                         .selects = true,
                                         .n_probes = 1,
                                         .probe = sp_reuse_probe_question,
                                         .plan = plan_fusion};
