/* full.c -- Full Reuse and its random variant.
 *
 * full    chunks computed behind the system prompt only, joined with consecutive positions;
 *         nothing is computed again. Source: FusionRAG section 2.2.1, eq. 5 and 6 (row F1).
 * random  the same, with a share of the tokens drawn by a hash of where they stand: the baseline
 *         that a selection has to beat. Source: Cache-Craft section 5.1.4 (row C11).
 */
#include "reuse/reuse_int.h"

static sp_err plan_full(const sp_reuse_input *in, sp_plan *plan)
{
    return sp_reuse_answer(in, NULL, plan);
}

static sp_err plan_random(const sp_reuse_input *in, sp_plan *plan)
{
    float *score;
    SP_TRY(sp_reuse_scores(in, plan, &score));
    for (int i = 0, k = 0; i < in->n_segs; i++)
        for (int32_t t = 0; in->chunks[i] && t < in->segs[i].n; t++) {
            uint64_t key[] = {(uint64_t)i, (uint64_t)t};
            score[k++] = (float)(sp_hash64(key, sizeof key) >> 40);
        }
    return sp_reuse_answer(in, score, plan);
}

const sp_reuse_policy sp_reuse_full = {.name = "full",
                                       .summary = "reuse chunks at any position as they are",
                                       .uses_tree = true,
                                       .uses_chunks = true,
                                       .plan = plan_full};

const sp_reuse_policy sp_reuse_random = {.name = "random",
                                         .summary =
                                             "full, and a random share of tokens computed again",
                                         .uses_tree = true,
                                         .uses_chunks = true,
                                         .selects = true,
                                         .plan = plan_random};
