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
    return sp_reuse_answer(in, NULL, 0, plan);
}

static sp_err plan_random(const sp_reuse_input *in, sp_plan *plan)
{
    sp_choice *c;
    int32_t n;
    SP_TRY(sp_reuse_candidates(in, plan, &c, &n));
    for (int32_t k = 0; k < n; k++) {
        uint64_t key[] = {(uint64_t)c[k].seg, (uint64_t)c[k].index};
        c[k].score = (float)(sp_hash64(key, sizeof key) >> 40);
    }
    return sp_reuse_answer(in, c, n, plan);
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
