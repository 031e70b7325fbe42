/* set.c -- chunks that were computed together before are reused together, in any order.
 *
 *   known path   system | B | C | A            computed in this order
 *   prompt       system | A | B | D | question
 *   spans        known  | A, shifted | B, shifted | D computed | question
 *
 * The path index is asked for the longest path that consists of the prompt's chunks; their KV is
 * that of the other order, shifted to the positions of this one. Exact when the order is the same;
 * otherwise an approximation, of which nothing is kept.
 * Source: Set-Cache of Cache-Craft section 5.1.4. */
#include "reuse/parts.h"

/* is_prompt_order -- the first n of `order` are the prompt's own. */
static bool is_prompt_order(const int32_t *order, int n)
{
    for (int k = 0; k < n; k++)
        if (order[k] != k) return false;
    return true;
}

static sp_err find_set(const sp_finder *f)
{
    const sp_reuse_input *in = f->in;
    size_t n = (size_t)in->n_segs;
    int32_t *order = sp_arena_take(f->arena, n, sizeof *order);
    sp_segment *segs = sp_arena_take(f->arena, n, sizeof *segs);
    const sp_copy **path = sp_arena_take(f->arena, n, sizeof *path);
    if (!order || !segs || !path) return sp_fail_nomem("an order of chunks");
    SP_TRY(sp_by_path_order(f->ledger, in->segs, in->n_segs, in->n_head, order));
    for (int k = 0; k < in->n_segs; k++) segs[k] = in->segs[order[k]];
    const sp_path_query q = {.segs = segs, .n_segs = in->n_segs, .ready_only = f->ready_only};
    sp_path_match m = sp_by_path_match(f->ledger, &q, f->now, path);
    if (m.partial) sp_ledger_unpin(f->ledger, m.partial);
    bool exact = is_prompt_order(order, in->n_segs);
    for (int k = 0; k < m.n; k++) {
        int i = order[k];
        sp_reuse_serve(f, i, path[k], in->segs[i].n);
        in->found[i].exact = exact;
        if (i == in->n_segs - 1) in->found[i].n_known = 0; /* its last token must be computed */
    }
    return SP_OK;
}

static sp_err plan_set(const sp_reuse_input *in, sp_plan *plan, sp_plan_role *role)
{
    int32_t place = 0;
    int span, see;
    SP_TRY(sp_reuse_spans(in, plan));
    for (int i = 0; i < in->n_segs; i++) {
        place += in->segs[i].n;
        if (in->found[i].n_known) continue;
        SP_TRY(sp_plan_add_sight(plan, NULL, i + 1, &see));
        SP_TRY(sp_reuse_add_tokens(in, i, see, plan));
    }
    SP_TRY(sp_plan_add_span(plan, &(sp_span_spec){.room = in->answer_room, .at = place}, &span));
    *role = SP_PLAN_ANSWER;
    return sp_plan_add_sight(plan, NULL, in->n_segs + 1, &see);
}

const sp_reuse_policy sp_reuse_set = {
    .name = "set",
    .help = "reuse chunks that were read together before",
    .by_path = true,
    .find = find_set,
    .next_plan = plan_set,
    .keep = sp_reuse_keep_prompt,
};
