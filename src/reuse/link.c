/* link.c -- the first tokens of each chunk are recomputed.
 *
 * A chunk that was computed alone gives its first tokens the attention that a prompt's very first tokens get
 * (attention sinks); in the middle of a prompt these tokens are ordinary. So the budget is spent on them, equally in
 * all chunks, and no probe is needed. A baseline: on real questions it recovers nothing of what `full` loses.
 * Source: EPIC (LegoLink), arXiv 2410.15332. */
#include "reuse/parts.h"

static sp_err answer_link(const sp_reuse_input *in, sp_plan *plan)
{
    float *score;
    SP_TRY(sp_reuse_scores(in, plan, &score));
    for (int i = 0, k = 0; i < in->n_segs; i++) {
        const bool chunk = sp_reuse_is_chunk(in, i);
        for (int32_t t = 0; chunk && t < in->segs[i].n; t++) score[k++] = -(float)t;
    }
    return sp_reuse_answer(in, score, plan);
}

static sp_err next_link(const sp_reuse_input *in, sp_plan *plan, sp_plan_role *role)
{
    return sp_reuse_next(in, &(sp_reuse_makers){.answer = answer_link}, plan, role);
}

const sp_reuse_policy sp_reuse_link = {
    .name = "link",
    .help = "recompute the first tokens of each chunk",
    .recomputes = true,
    .anywhere = true,
    .find = sp_reuse_find_chunks,
    .peek = sp_reuse_peek_chunk,
    .next_plan = next_link,
    .room = sp_reuse_room,
    .keep = sp_reuse_keep_fill,
};
