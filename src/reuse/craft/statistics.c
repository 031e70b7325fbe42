/* statistics.c -- what a measured plan leaves: copies of chunks with their statistics.
 *
 *   computed as a whole   a copy: CCI, attention to each chunk before, tokens by that attention
 *   in part               a patch over the copy that was used; CCI and the order of tokens are
 *                         those of that copy, as properties of the chunk
 *
 * Source: Cache-Craft sections 3.1 and 3.3. */
#include "reuse/craft/gate.h"
#include "reuse/craft/overlap.h"
#include "reuse/parts.h"

/* stats_of -- of a copy computed as a whole; of a patch: its own attention, the rest its base's. Without memory:
 * not measured. */
static sp_copy_stats stats_of(const sp_reuse_input *in, int i, const sp_craft_measured *m,
                              sp_arena *arena)
{
    const sp_copy *used = in->found[i].copy;
    sp_copy_stats s = {.inter = m->inter};
    if (used) {
        s.cci = used->facts.stats.cci;
        s.order = used->facts.stats.order;
        return s;
    }
    int32_t *n_of = sp_arena_take(arena, (size_t)i + 1, sizeof *n_of);
    if (!n_of) return (sp_copy_stats){0};
    for (int j = in->n_head; j < i; j++)
        n_of[j] = in->segs[j].kind == SP_SEG_CHUNK ? in->segs[j].n : 0;
    s.cci = sp_overlap_cci(m->inter, n_of, i, m->intra, in->segs[i].n);
    s.order = sp_reuse_falling(m->to_prior, in->segs[i].n, arena);
    return s.order ? s : (sp_copy_stats){0};
}

/* recomputed_span -- the span of recomputed tokens of chunk i; -1: none. */
static int recomputed_span(const sp_plan *plan, const sp_craft_gate *g, int i)
{
    for (int s = plan->n_spans - 1; s >= g->n_segs; s--)
        if (g->seg_of[s] == i && plan->slots[s].n_known == 0) return s;
    return -1;
}

/* as_patch -- the recomputed tokens over the copy that was used. */
static bool as_patch(const sp_craft_gate *g, sp_plan *plan, int i, const sp_copy *used,
                     sp_copy_spec *out)
{
    int span = recomputed_span(plan, g, i);
    if (span < 0) return false;
    int32_t n = plan->spans[span].n;
    int32_t *patch = sp_arena_take(&plan->arena, (size_t)n, sizeof *patch);
    if (!patch) return false;
    for (int32_t k = 0; k < n; k++) patch[k] = plan->spans[span].pos[k] - used->facts.at;
    out->facts.kind = SP_COPY_PLACED;
    out->base = used;
    out->patch = (sp_copy_patch){.n = n, .tokens = patch, .blocks = plan->spans[span].blocks};
    return true;
}

bool sp_craft_keep_chunk(const sp_reuse_input *in, sp_plan *plan, int i, sp_copy_spec *out)
{
    const sp_craft_gate *g = sp_craft_gate_of(plan);
    const sp_copy *used = in->found[i].copy;
    if (!g || !g->chunks[i].on || g->chunks[i].dropped) return false;
    if (used && (used->base || !sp_copy_is_measured(&used->facts)))
        return false; /* a patch is not patched */
    *out = (sp_copy_spec){.seg = &in->segs[i],
                          .facts.kind = i == in->n_head ? SP_COPY_PLAIN : SP_COPY_PLACED,
                          .facts.before = in->ids,
                          .facts.n_before = i,
                          .facts.n_head = in->n_head,
                          .facts.at = plan->spans[i].at,
                          .blocks = plan->spans[i].blocks,
                          .facts.stats = stats_of(in, i, &g->chunks[i], &plan->arena)};
    if (sp_reuse_list_below(in, i, &plan->arena, &out->facts) != SP_OK) return false;
    return sp_copy_is_measured(&out->facts) && (!used || as_patch(g, plan, i, used, out));
}
