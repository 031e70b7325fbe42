/* select.c -- what chunk policies share: spans of cached chunks at their places, and the answer
 * plan with some of their tokens computed again.
 *
 *   spans   head | chunk 1 | chunk 2 | question | again        | answer (room)
 *                   ..x..     x....               x at 1, x at 2
 *   stale           --x--     x----
 *   todo    x of chunk 1, x of chunk 2, all of the question: ascending positions
 *
 * Every token may look at every span: causality by position hides what stands behind it, stale
 * bitmaps hide the old copies. So a token computed again sees old and new copies alike of what
 * stands before it.
 * Source: FusionRAG sections 2.2.2 and 4.3 (rows F2, F7), Cache-Craft section 3.2.1. / */
#include <math.h>

#include "reuse/reuse_int.h"

int32_t sp_reuse_n_chunk_tokens(const sp_reuse_input *in)
{
    int32_t n = 0;
    for (int i = 0; i < in->n_segs; i++)
        if (in->chunks[i]) n += in->segs[i].n;
    return n;
}

int sp_reuse_n_to_last_chunk(const sp_reuse_input *in)
{
    int n = in->n_segs;
    while (n && !in->chunks[n - 1]) n--;
    return n;
}

int32_t sp_reuse_n_again(const sp_reuse_input *in, int32_t n)
{
    return (int32_t)ceilf(in->recompute * (float)n);
}

sp_err sp_reuse_known_spans(const sp_reuse_input *in, sp_plan *plan)
{
    int32_t place = 0;
    int span;
    for (int i = 0; i < in->n_segs; i++) {
        const sp_segment *seg = &in->segs[i];
        const sp_variant *v = in->chunks[i];
        if (v)
            SP_TRY(sp_plan_add_span(plan, seg->n, seg->n, v->at, NULL, place - v->at, v->blocks,
                                    seg->n, &span));
        else if (i < in->match->n_path)
            SP_TRY(sp_plan_add_span(plan, seg->n, seg->n, place, NULL, 0,
                                    sp_node_blocks(in->match->path[i]), seg->n, &span));
        else
            SP_TRY(sp_plan_add_span(plan, seg->n, seg->n, place, NULL, 0, NULL, 0, &span));
        place += seg->n;
    }
    return SP_OK;
}

sp_err sp_reuse_add_tokens(const sp_reuse_input *in, int i, int see, sp_plan *plan)
{
    const sp_span *s = &plan->spans[i];
    for (int32_t t = 0; t < in->segs[i].n; t++)
        SP_TRY(sp_plan_add_todo(plan, (sp_todo){.token = in->segs[i].tokens[t],
                                                .pos = s->at + s->shift + t,
                                                .span = (uint16_t)i,
                                                .see = (uint16_t)see,
                                                .index = t}));
    return SP_OK;
}

/* -- choosing ------------------------------------------------------------------------------- */

sp_err sp_reuse_candidates(const sp_reuse_input *in, sp_plan *plan, sp_choice **out, int32_t *n)
{
    *n = sp_reuse_n_chunk_tokens(in);
    sp_choice *c = *out = sp_arena_take(&plan->arena, (size_t)*n, sizeof *c);
    if (!c) return sp_fail_nomem((size_t)*n * sizeof *c, "a choice of tokens");
    for (int i = 0; i < in->n_segs; i++)
        for (int32_t t = 0; in->chunks[i] && t < in->segs[i].n; t++) *c++ = (sp_choice){0, i, t};
    return SP_OK;
}

static void swap(float *a, float *b)
{
    float t = *a;
    *a = *b;
    *b = t;
}

/* kth_largest -- of v[n], k from 1; reorders v. Quickselect with the median of three as pivot:
 * O(n) but for orders that nobody has reason to make. Pre: no NaN. */
static float kth_largest(float *v, int32_t n, int32_t k)
{
    int32_t from = 0, to = n - 1, want = k - 1;
    while (from < to) {
        int32_t mid = from + (to - from) / 2, i = from, j = to;
        if (v[mid] > v[from]) swap(&v[mid], &v[from]);
        if (v[to] > v[from]) swap(&v[to], &v[from]);
        if (v[to] > v[mid]) swap(&v[to], &v[mid]);
        float pivot = v[mid];
        while (i <= j) {
            while (v[i] > pivot) i++;
            while (v[j] < pivot) j--;
            if (i <= j) swap(&v[i++], &v[j--]);
        }
        if (want <= j)
            to = j;
        else if (want >= i)
            from = i;
        else
            break;
    }
    return v[want];
}

/* choose -- moves the `want` candidates with the highest scores to the front, in prompt order; of
 * equal ones the earlier. NaN counts as lowest. */
static sp_err choose(sp_choice *c, int32_t n, int32_t want, sp_arena *arena)
{
    if (want >= n) return SP_OK;
    float *score = sp_arena_take(arena, (size_t)n, sizeof *score);
    if (!score) return sp_fail_nomem((size_t)n * sizeof *score, "a choice of tokens");
    for (int32_t i = 0; i < n; i++) {
        if (isnan(c[i].score)) c[i].score = -INFINITY;
        score[i] = c[i].score;
    }
    float least = kth_largest(score, n, want);
    int32_t above = 0, taken = 0;
    for (int32_t i = 0; i < n; i++) above += c[i].score > least;
    for (int32_t i = 0, equal = want - above; i < n; i++)
        if (c[i].score > least || (c[i].score == least && equal-- > 0)) c[taken++] = c[i];
    return SP_OK;
}

/* -- attention as a measure ----------------------------------------------------------------- */

sp_err sp_reuse_want_columns(const sp_reuse_input *in, int layer, sp_plan *plan)
{
    float **columns = sp_arena_take(&plan->arena, (size_t)plan->n_spans, sizeof *columns);
    if (!columns) return sp_fail_nomem((size_t)plan->n_spans * sizeof *columns, "a probe");
    for (int i = 0; i < in->n_segs; i++) {
        if (!in->chunks[i]) continue;
        columns[i] = sp_arena_take(&plan->arena, (size_t)in->segs[i].n, sizeof **columns);
        if (!columns[i]) return sp_fail_nomem((size_t)in->segs[i].n * sizeof **columns, "a probe");
    }
    plan->probe = (sp_probe){.kind = SP_PROBE_COLUMNS, .layer = layer, .columns = columns};
    return SP_OK;
}

void sp_reuse_score_columns(const sp_plan *probed, sp_choice *c, int32_t n)
{
    for (int32_t k = 0; k < n; k++) c[k].score = probed->probe.columns[c[k].seg][c[k].index];
}

sp_err sp_reuse_probe_question(const sp_reuse_input *in, sp_plan *plan)
{
    int see;
    SP_TRY(sp_reuse_known_spans(in, plan));
    SP_TRY(sp_plan_add_sight(plan, NULL, in->n_segs, &see));
    for (int i = 0; i < in->n_segs; i++)
        if (plan->slots[i].n_known == 0) SP_TRY(sp_reuse_add_tokens(in, i, see, plan));
    return sp_reuse_want_columns(in, in->n_layers - 1, plan);
}

/* -- the answer plan ------------------------------------------------------------------------ */

/* add_again -- the private span of the chosen tokens; their old copies become stale. Returns its
 * index, or -1 when nothing is chosen. */
static sp_err add_again(const sp_choice *chosen, int32_t n, sp_plan *plan, int *span)
{
    *span = -1;
    if (n == 0) return SP_OK;
    int32_t *pos = sp_arena_take(&plan->arena, (size_t)n, sizeof *pos);
    if (!pos) return sp_fail_nomem((size_t)n * sizeof *pos, "a plan");
    for (int32_t k = 0; k < n; k++) {
        const sp_span *s = &plan->spans[chosen[k].seg];
        pos[k] = s->at + s->shift + chosen[k].index;
        SP_TRY(sp_plan_mark_stale(plan, chosen[k].seg, chosen[k].index));
    }
    return sp_plan_add_span(plan, n, n, 0, pos, 0, NULL, 0, span);
}

/* add_todo -- chosen tokens and whatever is in no cache, by position; with memory for the answer. */
static sp_err add_todo(const sp_reuse_input *in, const sp_choice *chosen, int32_t n, int again,
                       int see, sp_plan *plan)
{
    int32_t k = 0, n_todo = n + in->answer_room;
    for (int i = 0; i < in->n_segs; i++) n_todo += plan->slots[i].n_known ? 0 : in->segs[i].n;
    SP_TRY(sp_plan_reserve_todo(plan, n_todo));
    for (int i = 0; i < in->n_segs; i++) {
        if (plan->slots[i].n_known == 0) SP_TRY(sp_reuse_add_tokens(in, i, see, plan));
        for (; k < n && chosen[k].seg == i; k++)
            SP_TRY(sp_plan_add_todo(plan, (sp_todo){.token = in->segs[i].tokens[chosen[k].index],
                                                    .pos = plan->spans[again].pos[k],
                                                    .span = (uint16_t)again,
                                                    .see = (uint16_t)see,
                                                    .index = k}));
    }
    return SP_OK;
}

sp_err sp_reuse_answer(const sp_reuse_input *in, sp_choice *candidates, int32_t n, sp_plan *plan)
{
    int32_t n_chosen = sp_reuse_n_again(in, n);
    int again, see, answer, end = 0;
    SP_TRY(sp_reuse_known_spans(in, plan));
    for (int i = 0; i < in->n_segs; i++) end += in->segs[i].n;
    if (n_chosen) SP_TRY(choose(candidates, n, n_chosen, &plan->arena));
    SP_TRY(add_again(candidates, n_chosen, plan, &again));
    SP_TRY(sp_plan_add_span(plan, 0, in->answer_room, end, NULL, 0, NULL, 0, &answer));
    SP_TRY(sp_plan_add_sight(plan, NULL, plan->n_spans, &see));
    return add_todo(in, candidates, n_chosen, again, see, plan);
}
