/* answer.c -- the answer plan of chunk policies: reused chunks at their positions, and some of
 * their tokens recomputed.
 *
 *   spans   head | chunk 1 | chunk 2 | question | recomputed   | answer (room)
 *                   ..x..     x....               x at 1, x at 2
 *   stale           --x--     x----
 *   todo    x of chunk 1, x of chunk 2, all of the question: ascending positions
 *
 * Every token may look at every span: causality by position hides what follows it, stale bitmaps
 * hide the old copies. So a recomputed token sees both recomputed and cached tokens that precede
 * it.
 * Source: FusionRAG sections 2.2.2 and 4.3, Cache-Craft section 3.2.1. */
#include <math.h>

#include "reuse/parts.h"

bool sp_reuse_is_chunk(const sp_reuse_input *in, int i)
{
    return in->segs[i].kind == SP_SEG_CHUNK && in->found[i].copy && !in->found[i].exact;
}

int32_t sp_reuse_n_chunk_tokens(const sp_reuse_input *in)
{
    int32_t n = 0;
    for (int i = 0; i < in->n_segs; i++)
        if (sp_reuse_is_chunk(in, i)) n += in->segs[i].n;
    return n;
}

int sp_reuse_n_to_last_chunk(const sp_reuse_input *in)
{
    int n = in->n_segs;
    while (n && !sp_reuse_is_chunk(in, n - 1)) n--;
    return n;
}

sp_err sp_reuse_spans(const sp_reuse_input *in, sp_plan *plan)
{
    int32_t place = 0;
    int span;
    for (int i = 0; i < in->n_segs; i++) {
        const sp_found *found = &in->found[i];
        int32_t n = in->segs[i].n;
        bool known = found->n_known == n;
        SP_TRY(sp_plan_add_span(plan,
                                &(sp_span_spec){.n = n,
                                                .at = known ? found->at : place,
                                                .shift = known ? place - found->at : 0,
                                                .known = known ? found->copy->blocks : NULL,
                                                .n_known = known ? n : 0},
                                &span));
        place += n;
    }
    return SP_OK;
}

sp_err sp_reuse_add_tokens(const sp_reuse_input *in, int i, int see, sp_plan *plan)
{
    const sp_span *s = &plan->spans[i];
    sp_todo first = {.pos = s->at + s->shift, .span = (uint16_t)i, .see = (uint16_t)see};
    return sp_plan_add_run(plan, first, in->segs[i].tokens, in->segs[i].n);
}

sp_err sp_reuse_scores(const sp_reuse_input *in, sp_plan *plan, float **score)
{
    size_t n = (size_t)sp_reuse_n_chunk_tokens(in);
    *score = sp_arena_take(&plan->arena, n, sizeof **score);
    return *score ? SP_OK : sp_fail_nomem("scores of tokens");
}

/* Tokens to recompute, and where they go. */
typedef struct recomputed {
    const sp_token_ref *tokens; /* [n] in prompt order */
    int32_t n;
    int32_t *pos;         /* [n] */
    sp_token_ref *places; /* [n] span and index */
} recomputed;

/* add_span -- the private span of the tokens from .. to; their cached copies become stale. */
static sp_err add_span(const recomputed *r, int32_t from, int32_t to, sp_plan *plan)
{
    int span;
    for (int32_t k = from; k < to; k++) {
        const sp_span *s = &plan->spans[r->tokens[k].seg];
        r->pos[k] = s->at + s->shift + r->tokens[k].index;
        SP_TRY(sp_plan_mark_stale(plan, r->tokens[k].seg, r->tokens[k].index));
    }
    SP_TRY(sp_plan_add_span(plan, &(sp_span_spec){.n = to - from, .pos = r->pos + from}, &span));
    for (int32_t k = from; k < to; k++) r->places[k] = (sp_token_ref){.seg = span, .index = k - from};
    return SP_OK;
}

/* add_recomputed -- one span for all, or one for those of each segment. */
static sp_err add_recomputed(const sp_reuse_input *in, recomputed *r, sp_plan *plan)
{
    r->pos = sp_arena_take(&plan->arena, (size_t)r->n, sizeof *r->pos);
    r->places = sp_arena_take(&plan->arena, (size_t)r->n, sizeof *r->places);
    if (!r->pos || !r->places) return sp_fail_nomem("a plan");
    for (int32_t from = 0, to; from < r->n; from = to) {
        to = in->by_segment ? from : r->n;
        while (to < r->n && r->tokens[to].seg == r->tokens[from].seg) to++;
        SP_TRY(add_span(r, from, to, plan));
    }
    return SP_OK;
}

/* add_todo -- chosen tokens and those without a copy, by position; and memory for the answer. */
static sp_err add_todo(const sp_reuse_input *in, const recomputed *r, int see, sp_plan *plan)
{
    int32_t k = 0, n_todo = r->n + in->answer_room;
    for (int i = 0; i < in->n_segs; i++) n_todo += plan->slots[i].n_known ? 0 : in->segs[i].n;
    SP_TRY(sp_plan_reserve_todo(plan, n_todo));
    for (int i = 0; i < in->n_segs; i++) {
        if (plan->slots[i].n_known == 0) SP_TRY(sp_reuse_add_tokens(in, i, see, plan));
        for (; k < r->n && r->tokens[k].seg == i; k++)
            SP_TRY(sp_plan_add_todo(plan, (sp_todo){.token = in->segs[i].tokens[r->tokens[k].index],
                                                    .pos = r->pos[k],
                                                    .span = (uint16_t)r->places[k].seg,
                                                    .see = (uint16_t)see,
                                                    .index = r->places[k].index}));
    }
    return SP_OK;
}

sp_err sp_reuse_answer(const sp_reuse_input *in, const float *score, sp_plan *plan)
{
    int32_t n_all = score ? sp_reuse_n_chunk_tokens(in) : 0, end = 0;
    int32_t n = SP_MIN(n_all, (int32_t)ceilf(in->recompute * (float)n_all));
    int see, answer;
    sp_token_ref *chosen = NULL;
    SP_TRY(sp_reuse_spans(in, plan));
    for (int i = 0; i < in->n_segs; i++) end += in->segs[i].n;
    if (n) SP_TRY(sp_reuse_highest(in, score, n, &plan->arena, &chosen));
    recomputed r = {.tokens = chosen, .n = n};
    if (n) SP_TRY(add_recomputed(in, &r, plan));
    SP_TRY(sp_plan_add_span(plan, &(sp_span_spec){.room = in->answer_room, .at = end}, &answer));
    SP_TRY(sp_plan_add_sight(plan, NULL, plan->n_spans, &see));
    return add_todo(in, &r, see, plan);
}

int64_t sp_reuse_room_for(const sp_reuse_input *in, int32_t n_chunk)
{
    const int32_t n_recomputed = in->warm ? 0 : SP_MIN(n_chunk, (int32_t)ceilf(in->recompute * (float)n_chunk));
    int64_t n = sp_blocks_for(n_recomputed) + (n_recomputed && in->by_segment ? in->n_segs : 0); /* a span each */
    return n + sp_reuse_n_missing(in);
}

int64_t sp_reuse_room(const sp_reuse_input *in)
{
    int32_t n = 0;
    for (int i = 0; i < in->n_segs; i++) n += in->segs[i].kind == SP_SEG_CHUNK ? in->segs[i].n : 0;
    return sp_reuse_room_for(in, n);
}
