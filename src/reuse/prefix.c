/* prefix.c -- exact reuse of the longest known prefix; and no reuse at all.
 *
 *   segments   system | chunk 1 | chunk 2      | question
 *   found      path   | path    | partial 32   |
 *   spans      known  | known   | known + todo | todo       | answer (room)
 *
 * Known KV was computed after exactly these tokens at exactly these positions: shift 0, nothing
 * stale, and the logits are those of a plain forward pass, bit for bit. Source: RAGCache, section
 * 5.1.
 *
 * A prompt may contain dependency trees (kv/segment.h):
 *
 *   segments   system | A     | B     | C     | D     | question
 *   parents             system  A       A       system  all
 *   found      path   | path  | path  |       | path  |
 *   sights              system  system  system  system  all
 *                       A       A B     A C     D
 *
 * A node sees its ancestors and itself. So its KV depends on its path alone, and a copy of it serves
 * every prompt that has the path, bit for bit. Nodes that move have spans with a shift; what they
 * saw may be at another distance here, so they are approximate. Source: DepCache sections 3.1 and
 * 4.1 (D2, D4). */
#include "reuse/parts.h"

/* find_prefix -- the last token must be computed: of the last segment only whole blocks before it
 * are reused. */
static sp_err find_prefix(const sp_finder *f)
{
    const sp_reuse_input *in = f->in;
    sp_path_match m;
    SP_TRY(sp_reuse_find_path(f, in->n_segs, &m));
    if (m.partial) {
        sp_reuse_serve(f, m.n, m.partial, m.n_partial);
        in->found[m.n].exact = true;
    }
    int last = in->n_segs - 1;
    int32_t most = (in->segs[last].n - 1) / SP_BLOCK_TOKENS * SP_BLOCK_TOKENS;
    const sp_copy *copy = in->found[last].copy;
    if ((copy && copy->first) || in->by_segment) most = 0; /* its blocks are shared; what it looks at is wanted */
    in->found[last].n_known = SP_MIN(in->found[last].n_known, most);
    return SP_OK;
}

/* continues_tree -- segment i is a node under another node: nodes of one tree share blocks. */
static bool continues_tree(const sp_segment *segs, int i)
{
    int parent = sp_segment_parent(segs, i);
    return parent >= 0 && segs[i].parent != SP_PARENT_ALL && segs[parent].kind == SP_SEG_NODE;
}

static sp_err add_segment(const sp_reuse_input *in, int i, int32_t at, sp_plan *plan)
{
    const sp_segment *seg = &in->segs[i];
    const sp_found *found = &in->found[i];
    int32_t known = found->n_known;
    bool in_tree = seg->parent > 0 || seg->kind == SP_SEG_NODE;
    int32_t rotated = at;
    if (seg->origin) rotated = known ? found->at : seg->origin - 1;
    int span, see;
    SP_TRY(sp_plan_add_span(plan,
                            &(sp_span_spec){.n = seg->n,
                                            .at = rotated,
                                            .shift = at - rotated,
                                            .known = known ? found->copy->blocks : NULL,
                                            .n_known = known,
                                            .first = known ? found->copy->first : 0,
                                            .joined = sp_segment_joins(seg),
                                            .packed = continues_tree(in->segs, i)},
                            &span));
    SP_TRY(in_tree ? sp_plan_add_sight_of(plan, in->segs, i, &see)
                   : sp_plan_add_sight(plan, NULL, i + 1, &see));
    sp_todo first = {
        .pos = at + known, .span = (uint16_t)span, .see = (uint16_t)see, .index = known};
    return sp_plan_add_run(plan, first, seg->tokens + known, seg->n - known);
}

static sp_err plan_answer(const sp_reuse_input *in, sp_plan *plan, sp_plan_role *role)
{
    int32_t at = 0;
    for (int i = 0; i < in->n_segs; i++) {
        const sp_segment *seg = &in->segs[i];
        if (seg->place || seg->parent) at = sp_segment_at(in->segs, i);
        SP_TRY(add_segment(in, i, at, plan));
        at += seg->n;
    }
    at = sp_segments_end(in->segs, in->n_segs);
    int span, see;
    SP_TRY(sp_plan_add_span(plan, &(sp_span_spec){.room = in->answer_room, .at = at}, &span));
    *role = SP_PLAN_ANSWER;
    return sp_plan_add_sight(plan, NULL, in->n_segs + 1, &see);
}

const sp_reuse_policy sp_reuse_prefix = {
    .name = "prefix",
    .help = "reuse the longest known prefix; exact",
    .exact = true,
    .by_path = true,
    .find = find_prefix,
    .next_plan = plan_answer,
    .keep = sp_reuse_keep_prompt,
};

static sp_err find_nothing(const sp_finder *f)
{
    SP_UNUSED(f);
    return SP_OK;
}

const sp_reuse_policy sp_reuse_off = {
    .name = "off",
    .help = "compute every token of every prompt",
    .exact = true,
    .find = find_nothing,
    .next_plan = plan_answer,
};
