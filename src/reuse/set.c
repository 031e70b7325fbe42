/* set.c -- chunks that were read together before are reused together, in whatever order they come.
 *
 *   known path   system | B | C | A            computed in this order
 *   prompt       system | A | B | D | question
 *   spans        known  | A, shifted | B, shifted | D computed | question
 *
 * The tree is asked for the longest path that consists of the prompt's chunks; their KV is that of
 * the other order, set to the places of this one. Exact when the order is the same, an
 * approximation otherwise, and then nothing of it enters the tree.
 * Source: Set-Cache of Cache-Craft section 5.1.4 (row C11). */
#include "reuse/reuse_int.h"

/* node_of -- the node that serves segment i, or NULL. */
static const sp_node *node_of(const sp_reuse_input *in, int i)
{
    for (int k = 0; k < in->match->n_path; k++)
        if ((in->order ? in->order[k] : k) == i) return in->match->path[k];
    return NULL;
}

static sp_err add_segment(const sp_reuse_input *in, int i, int32_t place, sp_plan *plan)
{
    const sp_segment *seg = &in->segs[i];
    const sp_node *node = i < in->n_segs - 1 ? node_of(in, i) : NULL;
    int span, see;
    if (node)
        return sp_plan_add_span(plan,
                                &(sp_span_spec){.n = seg->n,
                                                .at = sp_node_at(node),
                                                .shift = place - sp_node_at(node),
                                                .known = sp_node_blocks(node),
                                                .n_known = seg->n},
                                &span);
    SP_TRY(sp_plan_add_span(plan, &(sp_span_spec){.n = seg->n, .at = place}, &span));
    SP_TRY(sp_plan_add_sight(plan, NULL, i + 1, &see));
    return sp_reuse_add_tokens(in, i, see, plan);
}

static sp_err plan_set(const sp_reuse_input *in, sp_plan *plan)
{
    int32_t place = 0;
    int span, see;
    for (int i = 0; i < in->n_segs; i++) {
        SP_TRY(add_segment(in, i, place, plan));
        place += in->segs[i].n;
    }
    SP_TRY(sp_plan_add_span(plan, &(sp_span_spec){.room = in->answer_room, .at = place}, &span));
    return sp_plan_add_sight(plan, NULL, in->n_segs + 1, &see);
}

const sp_reuse_policy sp_reuse_set = {.name = "set",
                                      .summary = "reuse chunks that were read together before",
                                      .uses_tree = true,
                                      .reorders = true,
                                      .plan = plan_set};
