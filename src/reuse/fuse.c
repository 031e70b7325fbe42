/* fuse.c -- offline: a chunk is computed while it sees chunks that will often be near it.
 *
 *   spans   head | similar 1 | ... | similar n | chunk
 *           plain copies, shifted to their positions    todo: all of the chunk
 *
 * The last segment is the chunk; when nothing but the head precedes it, its plain copy is all. Its fused copy serves
 * online wherever a plain one would. The fill leaves plain copies of all chunks, this one included. With its
 * statistics, Cache-Craft can choose it as one of a chunk's copies. Source: FusionRAG section 3.1, eq. 10. */
#include <string.h>

#include "reuse/craft/gate.h"
#include "reuse/parts.h"

static sp_err find_similar(const sp_finder *f)
{
    sp_reuse_input plain = *f->in;
    plain.unfused = true;
    sp_finder finder = *f;
    finder.in = &plain;
    return sp_reuse_find_chunks(&finder);
}

/* without_last -- the chunk is computed, whether a plain copy serves it or not. */
static sp_err without_last(const sp_reuse_input *in, sp_plan *plan, sp_reuse_input *out)
{
    size_t n = (size_t)in->n_segs;
    sp_found *found = sp_arena_take(&plan->arena, n, sizeof *found);
    if (!found) return sp_fail_nomem("a plan");
    memcpy(found, in->found, n * sizeof *found);
    found[n - 1] = (sp_found){0};
    *out = *in;
    out->found = found;
    return SP_OK;
}

static sp_err plan_fused(const sp_reuse_input *in, sp_plan *plan)
{
    size_t n = (size_t)in->n_segs;
    int32_t *seg_of = sp_arena_take(&plan->arena, n, sizeof *seg_of);
    int32_t *recomputed = sp_arena_take(&plan->arena, n, sizeof *recomputed);
    sp_reuse_input rest;
    int see;
    if (!seg_of || !recomputed) return sp_fail_nomem("a plan");
    for (int i = 0; i < in->n_segs; i++) {
        seg_of[i] = i;
        recomputed[i] = -1;
    }
    SP_TRY(without_last(in, plan, &rest));
    SP_TRY(sp_reuse_spans(&rest, plan));
    SP_TRY(sp_plan_add_sight(plan, NULL, in->n_segs, &see));
    for (int i = 0; i < in->n_segs; i++)
        if (plan->slots[i].n_known == 0) SP_TRY(sp_reuse_add_tokens(&rest, i, see, plan));
    return sp_craft_gate_begin(&rest, plan, seg_of, recomputed, 0);
}

/* is_alone -- there are no similar chunks. */
static bool is_alone(const sp_reuse_input *in)
{
    return in->n_segs == in->n_head + 1;
}

static sp_err next_fuse(const sp_reuse_input *in, sp_plan *plan, sp_plan_role *role)
{
    sp_reuse_input all = *in;
    all.warm = is_alone(in); /* no answer, but more than a fill */
    return sp_reuse_next(&all, &(sp_reuse_makers){.answer = plan_fused}, plan, role);
}

static sp_err keep_fused(const sp_reuse_input *in, sp_plan *plan, sp_plan_role role,
                         sp_kept_list *out)
{
    if (role == SP_PLAN_FILL) {
        SP_TRY(sp_reuse_keep_fill(in, plan, role, out));
        for (int i = 0; is_alone(in) && i < out->n; i++) out->v[i].must |= out->v[i].seg == in->n_segs - 1;
        return SP_OK;
    }
    sp_reuse_input rest;
    sp_kept kept = {.seg = in->n_segs - 1, .must = true};
    SP_TRY(without_last(in, plan, &rest));
    if (!sp_craft_keep_chunk(&rest, plan, kept.seg, &kept.spec))
        return sp_fail_nomem("a fused copy");
    kept.spec.facts.kind = SP_COPY_FUSED;
    out->v[out->n++] = kept;
    return SP_OK;
}

/* room_of_fuse -- the last chunk is computed twice: its plain copy, and the fused one. */
static int64_t room_of_fuse(const sp_reuse_input *in)
{
    return sp_blocks_for(in->segs[in->n_segs - 1].n) + sp_reuse_n_missing(in);
}

const sp_reuse_policy sp_reuse_fuse = {
    .name = "fuse",
    .help = "compute a chunk among similar ones, offline",
    .find = find_similar,
    .next_plan = next_fuse,
    .keep = keep_fused,
    .room = room_of_fuse,
};
