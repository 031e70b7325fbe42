/* craft.c -- Cache-Craft: chunks keep copies that were computed after other chunks, and a copy is
 * recomputed in part where it depended on what no longer precedes it.
 *
 *   which copy    the one with the least CFO = CCI (1 - beta') among a chunk's copies      eq. 12
 *   how much      ceil(alpha CFO n) tokens of it, or a share over all chunks               eq. 12
 *   which tokens  those that had looked most at the chunks before them                     eq. 14
 *   until when    chunks that the question does not focus on are recomputed in the first
 *                 layers only                                                              Alg. 1
 *                 where the tokens take several steps, a probe of the question comes first, and
 *                 these chunks are not recomputed
 *
 *   spans   head | chunk 1 | chunk 2 | new chunk | question | patch of 1 | recomputed 1, 2 | answer
 *   todo    recomputed 1, recomputed 2, new chunk, question: ascending positions
 *
 * Recomputed tokens have a span for each chunk, rotated like the copy below them: so they can
 * become the patch of a new copy, and the cached copy can replace a token that is dropped. A chunk
 * without a copy is computed in its position, after what precedes it, and becomes a placed copy.
 *
 * At a share of 0 every copy is used as it is (the paper's Full-Cache); where all were computed
 * after the head alone, that is Full Reuse. At 1 every token is recomputed.
 *
 * Source: Cache-Craft section 3. */
#include <stdlib.h>

#include "reuse/craft/gate.h"
#include "reuse/craft/overlap.h"
#include "reuse/parts.h"

/* -- which copy ----------------------------------------------------------------------------- */

/* cfo_of -- 1 for a copy in a lower tier of which only the name is known. */
static float cfo_of(const sp_reuse_input *in, int i, const sp_copy *c)
{
    if (!sp_copy_is_measured(&c->facts)) return 1;
    return c->facts.stats.cci *
           (1 - sp_overlap_beta(c, in->n_head, in->ids + in->n_head, i - in->n_head));
}

/* is_better -- of two copies of one CFO: it knows more of the chunks before it, or is nearer. */
static bool is_better(const sp_copy *a, const sp_copy *b)
{
    if (a->facts.n_before != b->facts.n_before) return a->facts.n_before > b->facts.n_before;
    if (a->state != b->state) return a->state > b->state;
    return (a->places & SP_AT_HOST) > (b->places & SP_AT_HOST);
}

/* find_best -- the measured copy of segment i with the least CFO in all tiers; of equal ones the better. */
static sp_err find_best(const sp_finder *f, int i)
{
    const sp_reuse_input *in = f->in;
    sp_content_query q = sp_reuse_query(f, i);
    const sp_copy **all, *best = NULL;
    int n;
    SP_TRY(sp_by_content_all(f->ledger, &q, f->arena, &all, &n));
    for (int k = 0; k < n; k++) {
        if (in->unfused && all[k]->facts.kind == SP_COPY_FUSED) continue;
        float cfo = cfo_of(in, i, all[k]);
        if (best && (cfo > in->found[i].cfo || (cfo >= in->found[i].cfo && !is_better(all[k], best)))) continue;
        best = all[k];
        in->found[i].cfo = cfo;
    }
    for (int k = 0; k < n; k++)
        if (all[k] != best) sp_ledger_unpin(f->ledger, all[k]);
    if (best)
        sp_reuse_serve(f, i, best, in->segs[i].n);
    else
        in->found[i].miss = (uint8_t)sp_by_content_why(f->ledger, &q);
    return SP_OK;
}

static sp_err find_craft(const sp_finder *f)
{
    SP_TRY(sp_reuse_find_start(f));
    for (int i = f->in->n_head; i < f->in->n_segs; i++)
        if (sp_reuse_wants_copy(f->in, i)) SP_TRY(find_best(f, i));
    return SP_OK;
}

/* -- how much, which tokens ----------------------------------------------------------------- */

/* counts_of -- tokens to recompute of each segment: out [n_segs]. */
static sp_err counts_of(const sp_reuse_input *in, sp_plan *plan, int32_t *out)
{
    size_t n = (size_t)in->n_segs;
    float *weight = sp_arena_take(&plan->arena, n, sizeof *weight);
    int32_t *size = sp_arena_take(&plan->arena, n, sizeof *size);
    if (!weight || !size) return sp_fail_nomem("a plan");
    for (int i = 0; i < in->n_segs; i++)
        if (sp_reuse_is_chunk(in, i)) {
            in->found[i].cfo = cfo_of(in, i, in->found[i].copy); /* it may have been loaded since */
            weight[i] = in->found[i].cfo;
            size[i] = in->segs[i].n;
        }
    sp_overlap_share(weight, size, in->n_segs, (float)in->params[SP_CRAFT_ALPHA], in->recompute,
                     out);
    return SP_OK;
}

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* -- spans ---------------------------------------------------------------------------------- */

/* The spans of a plan besides those of the segments. */
typedef struct layout {
    int32_t *count;      /* [n_segs] tokens to recompute */
    int32_t *patch;      /* [n_segs] span of the copy's patch; -1: none */
    int32_t *recomputed; /* [n_segs] span of the recomputed tokens; -1: none */
    int32_t *seg_of;     /* [at most 3 n_segs + 1] */
} layout;

static sp_err new_layout(const sp_reuse_input *in, sp_plan *plan, layout *l)
{
    size_t n = (size_t)in->n_segs;
    int32_t *v = sp_arena_take(&plan->arena, 6 * n + 1, sizeof *v);
    if (!v) return sp_fail_nomem("a plan");
    *l = (layout){v, v + n, v + 2 * n, v + 3 * n};
    for (int i = 0; i < in->n_segs; i++) {
        l->patch[i] = l->recomputed[i] = -1;
        l->seg_of[i] = i;
    }
    return SP_OK;
}

/* patch_index -- which token of a copy's patch this is; -1: none. */
static int32_t patch_index(const sp_copy *c, int32_t token)
{
    const int32_t *hit =
        c->patch.n ? bsearch(&token, c->patch.tokens, (size_t)c->patch.n, sizeof token, ascending) : NULL;
    return hit ? (int32_t)(hit - c->patch.tokens) : -1;
}

/* Some tokens of a chunk as a span of their own, rotated like its copy. */
typedef struct scattered {
    int seg;
    const int32_t *tokens; /* [n] ascending */
    int32_t n;
    const uint32_t *known; /* their blocks; NULL: they are to be computed */
} scattered;

/* add_scattered -- these tokens become stale in the span of the chunk. */
static sp_err add_scattered(const sp_reuse_input *in, const scattered *s, sp_plan *plan,
                            int32_t *seg_of, int *span)
{
    int32_t *pos = sp_arena_take(&plan->arena, (size_t)s->n, sizeof *pos);
    if (!pos) return sp_fail_nomem("a plan");
    for (int32_t k = 0; k < s->n; k++) {
        pos[k] = in->found[s->seg].at + s->tokens[k];
        SP_TRY(sp_plan_mark_stale(plan, s->seg, s->tokens[k]));
    }
    SP_TRY(sp_plan_add_span(plan,
                            &(sp_span_spec){.n = s->n,
                                            .pos = pos,
                                            .shift = plan->spans[s->seg].shift,
                                            .known = s->known,
                                            .n_known = s->known ? s->n : 0},
                            span));
    seg_of[*span] = s->seg;
    return SP_OK;
}

static sp_err add_patch(const sp_reuse_input *in, int i, sp_plan *plan, layout *l)
{
    const sp_copy *c = in->found[i].copy;
    int span;
    if (!sp_reuse_is_chunk(in, i) || !c->base) return SP_OK;
    scattered s = {.seg = i, .tokens = c->patch.tokens, .n = c->patch.n, .known = c->patch.blocks};
    SP_TRY(add_scattered(in, &s, plan, l->seg_of, &span));
    l->patch[i] = span;
    return SP_OK;
}

static sp_err add_recomputed(const sp_reuse_input *in, int i, sp_plan *plan, layout *l)
{
    const sp_copy *c = in->found[i].copy;
    int32_t n = l->count[i];
    int span;
    if (n == 0) return SP_OK;
    int32_t *tokens = sp_arena_take(&plan->arena, (size_t)n, sizeof *tokens);
    if (!tokens) return sp_fail_nomem("a plan");
    for (int32_t k = 0; k < n; k++) tokens[k] = c->facts.stats.order[k];
    qsort(tokens, (size_t)n, sizeof *tokens, ascending);
    for (int32_t k = 0; k < n && l->patch[i] >= 0; k++) {
        int32_t patched = patch_index(c, tokens[k]);
        if (patched >= 0) SP_TRY(sp_plan_mark_stale(plan, l->patch[i], patched));
    }
    SP_TRY(add_scattered(in, &(scattered){.seg = i, .tokens = tokens, .n = n}, plan, l->seg_of,
                         &span));
    l->recomputed[i] = span;
    return SP_OK;
}

/* -- todo ----------------------------------------------------------------------------------- */

/* twin_of -- the cached copy of a token: in the patch, or else in the copy below. */
static sp_twin twin_of(const sp_reuse_input *in, int i, int32_t token, const layout *l)
{
    int32_t patched = l->patch[i] >= 0 ? patch_index(in->found[i].copy, token) : -1;
    return patched >= 0 ? (sp_twin){l->patch[i], patched} : (sp_twin){i, token};
}

static sp_err add_todo(const sp_reuse_input *in, int see, sp_plan *plan, const layout *l)
{
    size_t n = 0;
    for (int i = 0; i < in->n_segs; i++) n += (size_t)in->segs[i].n;
    plan->twins = sp_arena_take(&plan->arena, n, sizeof *plan->twins);
    if (!plan->twins) return sp_fail_nomem("a plan");
    for (int i = 0; i < in->n_segs; i++) {
        if (plan->slots[i].n_known == 0) SP_TRY(sp_reuse_add_tokens(in, i, see, plan));
        while (plan->n_twins < plan->n_todo) plan->twins[plan->n_twins++] = (sp_twin){-1, 0};
        for (int32_t k = 0; k < l->count[i]; k++) {
            const sp_span *s = &plan->spans[l->recomputed[i]];
            int32_t token = s->pos[k] - in->found[i].copy->facts.at;
            SP_TRY(sp_plan_add_todo(plan, (sp_todo){.token = in->segs[i].tokens[token],
                                                    .pos = s->pos[k] + s->shift,
                                                    .span = (uint16_t)l->recomputed[i],
                                                    .see = (uint16_t)see,
                                                    .index = k}));
            plan->twins[plan->n_twins++] = twin_of(in, i, token, l);
        }
    }
    return SP_OK;
}

/* -- the question first --------------------------------------------------------------------- */

/* probe_of -- the probe that has run; or NULL. */
static const sp_plan *probe_of(const sp_reuse_input *in)
{
    const sp_plan *probe = sp_reuse_probed(in);
    return probe && sp_craft_gate_of(probe) ? probe : NULL;
}

static int focus_of(const sp_reuse_input *in)
{
    const bool all = in->recompute >= 1 && in->params[SP_CRAFT_ALPHA] == 0;
    return all || probe_of(in) ? 0 : (int)in->params[SP_CRAFT_FOCUS];
}

/* wants_probe -- the tokens take several steps, and only the last has the question. */
static bool wants_probe(const sp_reuse_input *in, const int32_t *count)
{
    int64_t again = 0, all = 0;
    int n_chunks = 0;
    for (int i = 0; i < in->n_segs; i++) {
        n_chunks += sp_reuse_is_chunk(in, i);
        again += count[i];
        all += in->found[i].n_known == in->segs[i].n ? count[i] : in->segs[i].n;
    }
    const bool asks = in->segs[in->n_segs - 1].kind != SP_SEG_CHUNK;
    return asks && focus_of(in) > 0 && n_chunks > 2 && again > 0 && in->max_rows && all > in->max_rows;
}

/* plan_probe -- the question over the copies. Chunks without one are computed later and not seen. */
static sp_err plan_probe(const sp_reuse_input *in, sp_plan *plan, layout *l)
{
    int see, n = 0;
    SP_TRY(sp_reuse_spans(in, plan));
    for (int i = 0; i < in->n_segs; i++) SP_TRY(add_patch(in, i, plan, l));
    uint16_t *seen = sp_arena_take(&plan->arena, (size_t)plan->n_spans, sizeof *seen);
    if (!seen) return sp_fail_nomem("a probe");
    for (int s = 0; s < plan->n_spans; s++)
        if (plan->slots[s].n_known || s == in->n_segs - 1) seen[n++] = (uint16_t)s;
    SP_TRY(sp_plan_add_sight(plan, seen, n, &see));
    SP_TRY(sp_reuse_add_tokens(in, in->n_segs - 1, see, plan));
    return sp_craft_gate_begin(in, plan, l->seg_of, NULL, focus_of(in));
}

static sp_err plan_answer(const sp_reuse_input *in, sp_plan *plan, layout *l)
{
    int32_t end = 0;
    int answer, see;
    SP_TRY(sp_reuse_spans(in, plan));
    for (int i = 0; i < in->n_segs; i++) {
        SP_TRY(add_patch(in, i, plan, l));
        SP_TRY(add_recomputed(in, i, plan, l));
        end += in->segs[i].n;
    }
    SP_TRY(sp_plan_add_span(plan, &(sp_span_spec){.room = in->answer_room, .at = end}, &answer));
    l->seg_of[answer] = -1;
    SP_TRY(sp_plan_add_sight(plan, NULL, plan->n_spans, &see));
    SP_TRY(add_todo(in, see, plan, l));
    return sp_craft_gate_begin(in, plan, l->seg_of, l->recomputed, focus_of(in));
}

static sp_err next_craft(const sp_reuse_input *in, sp_plan *plan, sp_plan_role *role)
{
    layout l = {0};
    SP_TRY(new_layout(in, plan, &l));
    SP_TRY(counts_of(in, plan, l.count));
    *role = wants_probe(in, l.count) ? SP_PLAN_PROBE : SP_PLAN_ANSWER;
    if (*role == SP_PLAN_PROBE) return plan_probe(in, plan, &l);
    const sp_plan *probe = probe_of(in);
    for (int i = 0; i < in->n_segs && probe; i++)
        if (sp_craft_is_unfocused(probe, i)) l.count[i] = 0;
    return plan_answer(in, plan, &l);
}

static sp_err keep_craft(const sp_reuse_input *in, sp_plan *plan, sp_plan_role role,
                         sp_kept_list *out)
{
    if (role != SP_PLAN_ANSWER) return SP_OK;
    sp_reuse_keep_path(in, plan, in->n_head, out);
    for (int i = in->n_head; i < in->n_segs; i++) {
        sp_kept kept = {.seg = i};
        if (in->segs[i].kind == SP_SEG_CHUNK && sp_craft_keep_chunk(in, plan, i, &kept.spec))
            out->v[out->n++] = kept;
    }
    return SP_OK;
}

static const sp_reuse_param params[SP_CRAFT_N_PARAMS] = {
    [SP_CRAFT_ALPHA] = {"alpha", "",
                        "recompute ceil(alpha CFO n) tokens of each chunk (Cache-Craft eq. 12); 0: the share of "
                        "--recompute. Without either: as spolia calibrate found, or 0.25",
                        0, 1e6, 0, .replaces_share = true, .usual = 0.25},
    [SP_CRAFT_FOCUS] = {"focus", "layers",
                        "once the chunks that the question looks at stay the same for this long, only these are "
                        "recomputed; 0: never",
                        0, 1000, 3, .whole = true},
};

const sp_reuse_policy sp_reuse_craft = {
    .name = "craft",
    .help = "Cache-Craft: use the copy that best fits what precedes the chunk, and recompute a part of it",
    .params = params,
    .n_params = SP_CRAFT_N_PARAMS,
    .recomputes = true,
    .anywhere = true,
    .own_statistics = true,
    .keeps_placed = true,
    .find = find_craft,
    .peek = sp_by_content_peek_measured,
    .next_plan = next_craft,
    .keep = keep_craft,
};
