/* full.c -- Full Reuse and its random variant.
 *
 * full    chunks computed after the system prompt only, joined with consecutive positions; nothing
 *         is recomputed. Source: FusionRAG section 2.2.1, eq. 5 and 6.
 * random  the same, and a share of the tokens, drawn by a hash of seed, segment and index, is recomputed:
 *         the baseline that any selection must beat. Source: Cache-Craft section 5.1.4.
 */
#include "reuse/parts.h"

static sp_err answer_full(const sp_reuse_input *in, sp_plan *plan)
{
    return sp_reuse_answer(in, NULL, plan);
}

static sp_err next_full(const sp_reuse_input *in, sp_plan *plan, sp_plan_role *role)
{
    return sp_reuse_next(in, &(sp_reuse_makers){.answer = answer_full}, plan, role);
}

const sp_reuse_policy sp_reuse_full = {
    .name = "full",
    .help = "reuse chunks at any position as they are",
    .anywhere = true,
    .find = sp_reuse_find_chunks,
    .peek = sp_reuse_peek_chunk,
    .next_plan = next_full,
    .keep = sp_reuse_keep_fill,
};

static const sp_reuse_param seeds[] = {
    {"seed", "", "another seed draws other tokens", 0, 1e6, 0, .whole = true}};

static sp_err answer_random(const sp_reuse_input *in, sp_plan *plan)
{
    float *score;
    SP_TRY(sp_reuse_scores(in, plan, &score));
    for (int i = 0, k = 0; i < in->n_segs; i++) {
        bool chunk = sp_reuse_is_chunk(in, i);
        for (int32_t t = 0; chunk && t < in->segs[i].n; t++) {
            uint64_t key[] = {(uint64_t)i | (uint64_t)in->params[0] << 32, (uint64_t)t};
            score[k++] = (float)(sp_hash64(key, sizeof key) >> 40);
        }
    }
    return sp_reuse_answer(in, score, plan);
}

static sp_err next_random(const sp_reuse_input *in, sp_plan *plan, sp_plan_role *role)
{
    return sp_reuse_next(in, &(sp_reuse_makers){.answer = answer_random}, plan, role);
}

const sp_reuse_policy sp_reuse_random = {
    .name = "random",
    .help = "full, and recompute a random share of the tokens",
    .params = seeds,
    .n_params = SP_COUNT(seeds),
    .recomputes = true,
    .anywhere = true,
    .find = sp_reuse_find_chunks,
    .peek = sp_reuse_peek_chunk,
    .next_plan = next_random,
    .room = sp_reuse_room,
    .keep = sp_reuse_keep_fill,
};
