/* prefix.c -- exact reuse of the longest known prefix, and none at all.
 *
 *   segments   system | chunk 1 | chunk 2      | question
 *   match      path   | path    | partial 32   |
 *   spans      known  | known   | known + todo | todo       | answer (room)
 *
 * Known KV was computed behind exactly these tokens at exactly these positions: shift 0, nothing
 * stale, and the logits are those of a plain forward pass, bit for bit. Source: RAGCache, section
 * 5.1. */
#include "reuse/reuse_int.h"

/* known_of -- how many tokens of segment i the match covers, and in which blocks. */
static int32_t known_of(const sp_reuse_input *in, int i, const uint32_t **blocks)
{
    const sp_match *m = in->match;
    const sp_node *node = i < m->n_path ? m->path[i] : i == m->n_path ? m->partial : NULL;
    if (!node) return 0;
    *blocks = sp_node_blocks(node);
    int32_t known = i < m->n_path ? in->segs[i].n : m->n_partial;
    if (i < in->n_segs - 1) return known;
    /* the last token must be computed: keep the whole blocks before it */
    return SP_MIN(known, (in->segs[i].n - 1) / SP_BLOCK_TOKENS * SP_BLOCK_TOKENS);
}

static sp_err add_segment(const sp_reuse_input *in, int i, int32_t at, int32_t known,
                          const uint32_t *blocks, sp_plan *plan)
{
    const sp_segment *seg = &in->segs[i];
    int span, see;
    SP_TRY(sp_plan_add_span(
        plan, &(sp_span_spec){.n = seg->n, .at = at, .known = blocks, .n_known = known}, &span));
    SP_TRY(sp_plan_add_sight(plan, NULL, i + 1, &see));
    sp_todo first = {
        .pos = at + known, .span = (uint16_t)span, .see = (uint16_t)see, .index = known};
    return sp_plan_add_run(plan, first, seg->tokens + known, seg->n - known);
}

static sp_err plan_prefix(const sp_reuse_input *in, sp_plan *plan)
{
    int32_t at = 0;
    for (int i = 0; i < in->n_segs; i++) {
        const uint32_t *blocks = NULL;
        int32_t known = known_of(in, i, &blocks);
        SP_TRY(add_segment(in, i, at, known, blocks, plan));
        at += in->segs[i].n;
    }
    int span, see;
    SP_TRY(sp_plan_add_span(plan, &(sp_span_spec){.room = in->answer_room, .at = at}, &span));
    return sp_plan_add_sight(plan, NULL, in->n_segs + 1, &see);
}

static sp_err plan_off(const sp_reuse_input *in, sp_plan *plan)
{
    sp_match nothing = {0};
    sp_reuse_input blind = *in;
    blind.match = &nothing;
    return plan_prefix(&blind, plan);
}

const sp_reuse_policy sp_reuse_off = {
    .name = "off", .summary = "compute every token of every prompt", .plan = plan_off};

const sp_reuse_policy sp_reuse_prefix = {.name = "prefix",
                                         .summary = "reuse the longest known prefix; exact",
                                         .uses_tree = true,
                                         .plan = plan_prefix};
