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
 * Source: FusionRAG sections 2.2.2 and 4.3 (rows F2, F7), Cache-Craft section 3.2.1. */
#include <math.h>
#include <string.h>

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
    return SP_MIN(n, (int32_t)ceilf(in->recompute * (float)n));
}

sp_err sp_reuse_known_spans(const sp_reuse_input *in, sp_plan *plan)
{
    int32_t place = 0;
    int span;
    for (int i = 0; i < in->n_segs; i++) {
        const sp_segment *seg = &in->segs[i];
        const sp_variant *v = in->chunks[i];
        if (v)
            SP_TRY(sp_plan_add_span(plan,
                                    &(sp_span_spec){.n = seg->n,
                                                    .at = v->at,
                                                    .shift = place - v->at,
                                                    .known = v->blocks,
                                                    .n_known = seg->n},
                                    &span));
        else if (i < in->match->n_path)
            SP_TRY(sp_plan_add_span(plan,
                                    &(sp_span_spec){.n = seg->n,
                                                    .at = place,
                                                    .known = sp_node_blocks(in->match->path[i]),
                                                    .n_known = seg->n},
                                    &span));
        else
            SP_TRY(sp_plan_add_span(plan, &(sp_span_spec){.n = seg->n, .at = place}, &span));
        place += seg->n;
    }
    return SP_OK;
}

sp_err sp_reuse_add_tokens(const sp_reuse_input *in, int i, int see, sp_plan *plan)
{
    const sp_span *s = &plan->spans[i];
    sp_todo first = {.pos = s->at + s->shift, .span = (uint16_t)i, .see = (uint16_t)see};
    return sp_plan_add_run(plan, first, in->segs[i].tokens, in->segs[i].n);
}

/* -- choosing ------------------------------------------------------------------------------- */

/* A token to compute again. */
typedef struct choice {
    int32_t seg, index;
} choice;

sp_err sp_reuse_scores(const sp_reuse_input *in, sp_plan *plan, float **score)
{
    size_t n = (size_t)sp_reuse_n_chunk_tokens(in);
    *score = sp_arena_take(&plan->arena, n, sizeof **score);
    return *score ? SP_OK : sp_fail_nomem(n * sizeof **score, "scores of tokens");
}

/* key_of -- an integer for each score that is in order as they are; NaN before all. */
static uint32_t key_of(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 is 0 */
    memcpy(&bits, &score, sizeof bits);
    uint32_t key = bits ^ (bits >> 31 ? UINT32_MAX : UINT32_C(1) << 31);
    return isnan(score) ? 0 : key;
}

/* kth_largest -- of key[n], k from 1, digit by digit from the highest: it is that in which the
 * keys above run out. *equal: how many of its equals belong to the k. No branch depends on a key:
 * scores come in no order that a CPU could foresee. */
static uint32_t kth_largest(const uint32_t *key, int32_t n, int32_t k, int32_t *equal)
{
    uint32_t found = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        int32_t count[256] = {0}, digit = 255;
        uint64_t front = found >> shift;
        for (int32_t i = 0; i < n; i++)
            count[key[i] >> shift & 255] += (uint64_t)key[i] >> (shift + 8) == front >> 8;
        for (; count[digit] < k; digit--) k -= count[digit];
        found |= (uint32_t)digit << shift;
    }
    *equal = k;
    return found;
}

/* choose -- the `want` chunk tokens with the highest scores, in prompt order; of equal ones the
 * earlier. */
static sp_err choose(const sp_reuse_input *in, const float *score, int32_t n, int32_t want,
                     sp_arena *arena, choice **out)
{
    uint32_t *key = sp_arena_take(arena, (size_t)n, sizeof *key);
    choice *c = *out = sp_arena_take(arena, (size_t)want + 1, sizeof *c); /* one is overwritten */
    if (!key || !c) return sp_fail_nomem((size_t)n * sizeof *c, "a choice of tokens");
    for (int32_t i = 0; i < n; i++) key[i] = key_of(score[i]);
    int32_t equal, taken = 0;
    uint32_t least = kth_largest(key, n, want, &equal);
    for (int i = 0; i < in->n_segs; i++)
        for (int32_t t = 0; in->chunks[i] && t < in->segs[i].n; t++, key++) {
            int32_t as_least = *key == least && equal > 0;
            c[taken] = (choice){i, t};
            taken += *key > least || as_least;
            equal -= as_least;
        }
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

sp_err sp_reuse_score_columns(const sp_reuse_input *in, sp_plan *plan, float **score)
{
    SP_TRY(sp_reuse_scores(in, plan, score));
    float *out = *score;
    for (int i = 0; in->probed && i < in->n_segs; i++) {
        if (!in->chunks[i]) continue;
        size_t n = (size_t)in->segs[i].n;
        if (n) memcpy(out, in->probed->probe.columns[i], n * sizeof *out);
        out += n;
    }
    return SP_OK;
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
static sp_err add_again(const choice *chosen, int32_t n, sp_plan *plan, int *span)
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
    return sp_plan_add_span(plan, &(sp_span_spec){.n = n, .pos = pos}, span);
}

/* add_todo -- chosen tokens and whatever is in no cache, by position; and memory for the answer. */
static sp_err add_todo(const sp_reuse_input *in, const choice *chosen, int32_t n, int again,
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

sp_err sp_reuse_answer(const sp_reuse_input *in, const float *score, sp_plan *plan)
{
    int32_t n = score ? sp_reuse_n_chunk_tokens(in) : 0;
    int32_t n_chosen = sp_reuse_n_again(in, n);
    int again, see, answer, end = 0;
    choice *chosen = NULL;
    SP_TRY(sp_reuse_known_spans(in, plan));
    for (int i = 0; i < in->n_segs; i++) end += in->segs[i].n;
    if (n_chosen) SP_TRY(choose(in, score, n, n_chosen, &plan->arena, &chosen));
    SP_TRY(add_again(chosen, n_chosen, plan, &again));
    SP_TRY(sp_plan_add_span(plan, &(sp_span_spec){.room = in->answer_room, .at = end}, &answer));
    SP_TRY(sp_plan_add_sight(plan, NULL, plan->n_spans, &see));
    return add_todo(in, chosen, n_chosen, again, see, plan);
}
