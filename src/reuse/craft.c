/* craft.c -- Cache-Craft: chunks keep copies computed behind other chunks, and a copy is mended
 * where it depended on what no longer stands before it.
 *
 *   which copy    the one with the least CFO = CCI (1 - beta') among a chunk's variants    eq. 12
 *   how much      ceil(alpha CFO n) tokens of it, or a share over all chunks               eq. 12
 *   which tokens  those that had looked most at the chunks before them                     eq. 14
 *   until when    chunks that the question does not focus on are mended in the first
 *                 layers only                                                              Alg. 1
 *
 *   spans   head | chunk 1 | chunk 2 | new chunk | question | patch of 1 | again 1, 2 | answer
 *   todo    again 1, again 2, new chunk, question: ascending positions
 *
 * Tokens computed again lie in a span for each chunk, rotated like the copy below them: so they can
 * become the patch of a new variant, and the copy can stand in for a token that is dropped. A chunk
 * without a copy is computed where it stands, behind what is there, and becomes a variant.
 *
 * At a share of 0 every copy is used as it is (the paper's Full-Cache); where all were computed
 * behind the head alone, that is Full Reuse. At 1 every token is computed again.
 *
 * Source: Cache-Craft section 3 (rows C2 to C7). */
#include <stdlib.h>

#include "reuse/overlap.h"
#include "reuse/reuse_int.h"
#include "reuse/watch.h"

/* -- which copy ----------------------------------------------------------------------------- */

static float need_of(const sp_reuse_input *in, int i, const sp_variant *v)
{
    return v->stats->cci *
           (1 - sp_overlap_beta(v, in->n_head, in->ids + in->n_head, i - in->n_head));
}

static int choose_craft(const sp_reuse_input *in, int i, float *cfo)
{
    int best = -1;
    for (int k = 0; k < in->known[i].n; k++) {
        const sp_variant *v = in->known[i].v[k];
        if (in->unfused && v->kind == SP_COPY_FUSED) continue;
        float need = need_of(in, i, v);
        if (best < 0 || need < *cfo) {
            best = k;
            *cfo = need;
        }
    }
    return best;
}

/* -- how much, which tokens ----------------------------------------------------------------- */

/* counts_of -- tokens to compute again of each segment: out [n_segs]. */
static sp_err counts_of(const sp_reuse_input *in, sp_plan *plan, int32_t *out)
{
    size_t n = (size_t)in->n_segs;
    float *weight = sp_arena_take(&plan->arena, n, sizeof *weight);
    int32_t *size = sp_arena_take(&plan->arena, n, sizeof *size);
    if (!weight || !size) return sp_fail_nomem(n * sizeof *size, "a plan");
    for (int i = 0; i < in->n_segs; i++)
        if (in->chunks[i]) {
            weight[i] = need_of(in, i, in->chunks[i]);
            size[i] = in->segs[i].n;
        }
    sp_overlap_share(weight, size, in->n_segs, in->alpha, in->recompute, out);
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
    int32_t *count;  /* [n_segs] tokens to compute again */
    int32_t *patch;  /* [n_segs] span of the copy's patch; -1: none */
    int32_t *again;  /* [n_segs] span of the tokens computed again; -1: none */
    int32_t *seg_of; /* [at most 3 n_segs + 1] */
} layout;

static sp_err new_layout(const sp_reuse_input *in, sp_plan *plan, layout *l)
{
    size_t n = (size_t)in->n_segs;
    int32_t *v = sp_arena_take(&plan->arena, 6 * n + 1, sizeof *v);
    if (!v) return sp_fail_nomem(6 * n * sizeof *v, "a plan");
    *l = (layout){v, v + n, v + 2 * n, v + 3 * n};
    for (int i = 0; i < in->n_segs; i++) {
        l->patch[i] = l->again[i] = -1;
        l->seg_of[i] = i;
    }
    return SP_OK;
}

/* patch_index -- which token of a variant's patch this is; -1: none. */
static int32_t patch_index(const sp_variant *v, int32_t token)
{
    const int32_t *hit =
        v->n_patch ? bsearch(&token, v->patch, (size_t)v->n_patch, sizeof token, ascending) : NULL;
    return hit ? (int32_t)(hit - v->patch) : -1;
}

/* add_scattered -- a span of tokens (ascending) of chunk i, rotated like its copy; known: their
 * blocks, or NULL for tokens to compute. */
static sp_err add_scattered(const sp_reuse_input *in, int i, const int32_t *tokens, int32_t n,
                            const uint32_t *known, sp_plan *plan, layout *l, int *span)
{
    const sp_variant *v = in->chunks[i];
    int32_t *pos = sp_arena_take(&plan->arena, (size_t)n, sizeof *pos);
    if (!pos) return sp_fail_nomem((size_t)n * sizeof *pos, "a plan");
    for (int32_t k = 0; k < n; k++) {
        pos[k] = v->at + tokens[k];
        SP_TRY(sp_plan_mark_stale(plan, i, tokens[k]));
    }
    SP_TRY(sp_plan_add_span(plan,
                            &(sp_span_spec){.n = n,
                                            .pos = pos,
                                            .shift = plan->spans[i].shift,
                                            .known = known,
                                            .n_known = known ? n : 0},
                            span));
    l->seg_of[*span] = i;
    return SP_OK;
}

static sp_err add_patch(const sp_reuse_input *in, int i, sp_plan *plan, layout *l)
{
    const sp_variant *v = in->chunks[i];
    int span;
    if (!v || !v->base) return SP_OK;
    SP_TRY(add_scattered(in, i, v->patch, v->n_patch, v->patch_blocks, plan, l, &span));
    l->patch[i] = span;
    return SP_OK;
}

static sp_err add_again(const sp_reuse_input *in, int i, sp_plan *plan, layout *l)
{
    const sp_variant *v = in->chunks[i];
    int32_t n = l->count[i];
    int span;
    if (n == 0) return SP_OK;
    int32_t *tokens = sp_arena_take(&plan->arena, (size_t)n, sizeof *tokens);
    if (!tokens) return sp_fail_nomem((size_t)n * sizeof *tokens, "a plan");
    for (int32_t k = 0; k < n; k++) tokens[k] = v->stats->order[k];
    qsort(tokens, (size_t)n, sizeof *tokens, ascending);
    for (int32_t k = 0; k < n && l->patch[i] >= 0; k++) {
        int32_t patched = patch_index(v, tokens[k]);
        if (patched >= 0) SP_TRY(sp_plan_mark_stale(plan, l->patch[i], patched));
    }
    SP_TRY(add_scattered(in, i, tokens, n, NULL, plan, l, &span));
    l->again[i] = span;
    return SP_OK;
}

/* -- todo ----------------------------------------------------------------------------------- */

/* twin_of -- the cached copy of a token: in the patch, or else in the copy below. */
static sp_twin twin_of(const sp_reuse_input *in, int i, int32_t token, const layout *l)
{
    int32_t patched = l->patch[i] >= 0 ? patch_index(in->chunks[i], token) : -1;
    return patched >= 0 ? (sp_twin){l->patch[i], patched} : (sp_twin){i, token};
}

static sp_err add_todo(const sp_reuse_input *in, int see, sp_plan *plan, const layout *l)
{
    size_t n = 0;
    for (int i = 0; i < in->n_segs; i++) n += (size_t)in->segs[i].n;
    plan->twins = sp_arena_take(&plan->arena, n, sizeof *plan->twins);
    if (!plan->twins) return sp_fail_nomem(n * sizeof *plan->twins, "a plan");
    for (int i = 0; i < in->n_segs; i++) {
        if (plan->slots[i].n_known == 0) SP_TRY(sp_reuse_add_tokens(in, i, see, plan));
        while (plan->n_twins < plan->n_todo) plan->twins[plan->n_twins++] = (sp_twin){-1, 0};
        for (int32_t k = 0; k < l->count[i]; k++) {
            const sp_span *s = &plan->spans[l->again[i]];
            int32_t token = s->pos[k] - in->chunks[i]->at;
            SP_TRY(sp_plan_add_todo(plan, (sp_todo){.token = in->segs[i].tokens[token],
                                                    .pos = s->pos[k] + s->shift,
                                                    .span = (uint16_t)l->again[i],
                                                    .see = (uint16_t)see,
                                                    .index = k}));
            plan->twins[plan->n_twins++] = twin_of(in, i, token, l);
        }
    }
    return SP_OK;
}

static sp_err plan_craft(const sp_reuse_input *in, sp_plan *plan)
{
    layout l;
    int32_t end = 0;
    int answer, see;
    SP_TRY(new_layout(in, plan, &l));
    SP_TRY(counts_of(in, plan, l.count));
    SP_TRY(sp_reuse_known_spans(in, plan));
    for (int i = 0; i < in->n_segs; i++) {
        SP_TRY(add_patch(in, i, plan, &l));
        SP_TRY(add_again(in, i, plan, &l));
        end += in->segs[i].n;
    }
    SP_TRY(sp_plan_add_span(plan, &(sp_span_spec){.room = in->answer_room, .at = end}, &answer));
    l.seg_of[answer] = -1;
    SP_TRY(sp_plan_add_sight(plan, NULL, plan->n_spans, &see));
    SP_TRY(add_todo(in, see, plan, &l));
    sp_reuse_input watched = *in;
    if (in->recompute >= 1 && in->alpha == 0) watched.focus = 0; /* all means all */
    return sp_watch_begin(&watched, plan, l.seg_of, l.again);
}

const sp_reuse_policy sp_reuse_craft = {.name = "craft",
                                        .summary = "Cache-Craft: mend the variant of a chunk that "
                                                   "fits best what stands before it",
                                        .uses_tree = true,
                                        .uses_chunks = true,
                                        .selects = true,
                                        .places = true,
                                        .choose = choose_craft,
                                        .plan = plan_craft};
