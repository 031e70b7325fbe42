/* fuse.c -- offline: a chunk is computed while it sees chunks that will often stand beside it.
 *
 *   spans   head | similar 1 | ... | similar n | chunk
 *           plain copies, shifted to their places    todo: all of it
 *
 * The copy goes into the chunk index as `fused`; online it serves wherever a plain one would.
 * Source: FusionRAG section 3.1, eq. 10 (row F3); with what the watch measures of it, Cache-Craft
 * can choose it as one of its variants (row F9). */
#include "reuse/reuse_int.h"
#include "reuse/watch.h"

sp_err sp_reuse_fuse(const sp_reuse_input *in, sp_plan *plan)
{
    size_t n = (size_t)in->n_segs;
    int32_t *seg_of = sp_arena_take(&plan->arena, n, sizeof *seg_of);
    int32_t *again = sp_arena_take(&plan->arena, n, sizeof *again);
    int see, last = in->n_segs - 1;
    if (!seg_of || !again) return sp_fail_nomem(n * sizeof *again, "a plan");
    for (int i = 0; i < in->n_segs; i++) {
        seg_of[i] = i;
        again[i] = -1;
    }
    SP_TRY(sp_reuse_known_spans(in, plan));
    SP_TRY(sp_plan_add_sight(plan, NULL, in->n_segs, &see));
    SP_TRY(sp_reuse_add_tokens(in, last, see, plan));
    sp_reuse_input measured = *in;
    measured.focus = 0;
    return sp_watch_begin(&measured, plan, seg_of, again);
}
