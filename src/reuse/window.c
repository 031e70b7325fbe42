/* window.c -- a prompt whose tokens look at its beginning and at what directly precedes them.
 *
 *   spans     (one an entry of the prompt, empty) | sink | piece | piece | piece | piece | answer (room)
 *   sight of the third piece:                       sink           piece   piece
 *   sight of the answer:                            sink                   piece   piece   answer
 *
 * Tokens are cut into pieces of an eighth of the window, whatever segments they are of. A token looks at
 * the first SINK tokens, its own piece and the pieces before it, together at most `window` tokens and at
 * least 7/8 of that; an answer also at all of itself. Its time and the sights are linear in the prompt.
 * Positions stay those of the prompt: StreamingLLM counts them inside the window, which differs only
 * beyond the lengths that a model was trained for. Nothing is reused or kept: the KV is not that of full
 * attention. Source: StreamingLLM (attention sinks); the baseline of DepCache's figure 16. */
#include <string.h>

#include "reuse/parts.h"

enum { SINK = 4, PIECES = 8 /* in a window of at least PIECES blocks */ };

/* The prompt as one run of tokens. */
typedef struct run {
    const int32_t *tokens;
    int32_t n, piece; /* tokens; of a piece */
    int most;         /* pieces that a token looks at */
} run;

/* flatten -- Errors: SP_E_ARG for a prompt that is no list. */
static sp_err flatten(const sp_reuse_input *in, sp_plan *plan, run *out)
{
    int32_t n = 0, at = 0;
    for (int i = 0; i < in->n_segs; i++) {
        const sp_segment *seg = &in->segs[i];
        if (seg->kind == SP_SEG_NODE || seg->parent || seg->place)
            return sp_fail(SP_E_ARG,
                           "decode window: the prompt has trees or lists; only prompts of "
                           "texts in order can have a window");
        n += seg->n;
    }
    int32_t *tokens = sp_arena_take(&plan->arena, (size_t)n, sizeof *tokens);
    if (!tokens) return sp_fail_nomem("a plan");
    for (int i = 0; i < in->n_segs; at += in->segs[i++].n)
        memcpy(tokens + at, in->segs[i].tokens, (size_t)in->segs[i].n * sizeof *tokens);
    const int32_t piece = SP_MAX(in->window / PIECES / SP_BLOCK_TOKENS, 1) * SP_BLOCK_TOKENS;
    *out = (run){tokens, n, piece, SP_MAX(in->window / piece, 1)};
    return SP_OK;
}

/* add_sight -- the sink and the last pieces up to span `last`; `first` is the first piece. */
static sp_err add_sight(const run *r, int first, int last, int answer, sp_plan *plan, int *see)
{
    const int from = SP_MAX(first, last - r->most + 1);
    int n = 0;
    uint16_t *list = sp_arena_take(&plan->arena, (size_t)(last - from) + 3, sizeof *list);
    if (!list) return sp_fail_nomem("a plan");
    list[n++] = (uint16_t)(first - 1);
    for (int i = from; i <= last; i++) list[n++] = (uint16_t)i;
    if (answer >= 0) list[n++] = (uint16_t)answer;
    return sp_plan_add_sight(plan, list, n, see);
}

/* add_piece -- tokens [at, at + n). first < 0: it is the sink. */
static sp_err add_piece(const run *r, int32_t at, int32_t n, int first, sp_plan *plan)
{
    int span, see;
    SP_TRY(sp_plan_add_span(plan, &(sp_span_spec){.n = n, .at = at}, &span));
    SP_TRY(first < 0 ? add_sight(r, span + 1, span, -1, plan, &see)
                     : add_sight(r, first, span, -1, plan, &see));
    sp_todo todo = {.pos = at, .span = (uint16_t)span, .see = (uint16_t)see};
    return sp_plan_add_run(plan, todo, r->tokens + at, n);
}

static sp_err next_plan(const sp_reuse_input *in, sp_plan *plan, sp_plan_role *role)
{
    run r;
    int span, see;
    SP_TRY(flatten(in, plan, &r));
    for (int i = 0; i < in->n_segs; i++)
        SP_TRY(sp_plan_add_span(plan, &(sp_span_spec){.n = 0}, &span));
    const int first = in->n_segs + 1; /* piece */
    SP_TRY(add_piece(&r, 0, SP_MIN(r.n, SINK), -1, plan));
    for (int32_t at = SINK; at < r.n; at += r.piece)
        SP_TRY(add_piece(&r, at, SP_MIN(r.piece, r.n - at), first, plan));
    SP_TRY(sp_plan_add_span(plan, &(sp_span_spec){.room = in->answer_room, .at = r.n}, &span));
    *role = SP_PLAN_ANSWER;
    return add_sight(&r, first, span - 1, span, plan, &see);
}

static sp_err find_nothing(const sp_finder *f)
{
    SP_UNUSED(f);
    return SP_OK;
}

const sp_reuse_policy sp_reuse_window = {
    .name = "window",
    .help = "compute every token of every prompt, over a window",
    .find = find_nothing,
    .next_plan = next_plan,
};
