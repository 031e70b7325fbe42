/* answer.c -- decoding: the next token, the text it adds, and the reasons to stop. */
#include <string.h>

#include "base/clock.h"
#include "serve/guard/guard.h"
#include "serve/request/request.h"

/* stop_at -- where the first stop string, *which, begins in the text, searching only what is new; or
 * SIZE_MAX. */
static size_t stop_at(const sp_request *r, size_t new_from, const char **which)
{
    size_t best = SIZE_MAX;
    for (int i = 0; i < r->o.n_stop; i++) {
        size_t len = strlen(r->o.stop[i]);
        size_t from = new_from > len ? new_from - len : 0;
        for (size_t at = from; len && at + len <= r->answer.text.n && at < best; at++)
            if (memcmp(r->answer.text.v + at, r->o.stop[i], len) == 0)
                best = at, *which = r->o.stop[i];
    }
    return best;
}

/* held_back -- bytes at the end of the text that may be the beginning of a stop string. */
static size_t held_back(const sp_request *r)
{
    size_t held = 0;
    for (int i = 0; i < r->o.n_stop; i++)
        for (size_t n = SP_MIN(strlen(r->o.stop[i]), r->answer.text.n); n > held; n--)
            if (memcmp(r->answer.text.v + r->answer.text.n - n, r->o.stop[i], n) == 0) held = n;
    return held;
}

/* add_text -- appends the text of a token; true when a stop string has ended the answer. */
static sp_err add_text(sp_request *r, int32_t id, bool *stopped)
{
    size_t before = r->answer.text.n;
    SP_TRY(sp_text_stream_push(&r->answer.stream, id, &r->answer.text));
    const char *which = NULL;
    size_t stop = stop_at(r, before, &which);
    *stopped = stop != SIZE_MAX && (int)r->answer.tokens.n >= r->o.min_tokens;
    if (*stopped) {
        r->account.result.stop = which;
        r->answer.text.n = SP_MAX(stop, r->answer.n_shown);
        sp_text_stream_init(&r->answer.stream,
                            r->answer.stream.tok); /* bytes held back belong after the stop */
    }
    sp_request_show(r, *stopped ? r->answer.text.n : r->answer.text.n - held_back(r));
    return SP_OK;
}

/* plan_token -- makes the answer's token n the next one to compute. */
static sp_err plan_token(sp_request *r, int32_t n)
{
    int32_t held = r->plans.now.spans[r->plans.answer_span].n;
    SP_TRY(sp_plan_grow(&r->plans.now, r->plans.answer_span, r->answer.tokens.v[n], r->prompt.end + n,
                        (uint16_t)(r->plans.now.n_sights - 1)));
    if (held % SP_BLOCK_TOKENS == 0) sp_request_took_block(r); /* I1 */
    return SP_OK;
}

sp_err sp_request_replay(sp_request *r)
{
    for (int32_t n = 0; n < (int32_t)r->answer.tokens.n; n++) SP_TRY(plan_token(r, n));
    r->answer.replays = true;
    return SP_OK;
}

/* -- scoring ------------------------------------------------------------------------------------- */

/* add_score -- of the next token, from the logits before it. */
static void add_score(sp_request *r, const float *logits)
{
    sp_token_logprob one;
    sp_sampler_logprobs(&r->answer.sampler, logits, r->o.scored[r->answer.n_scored++], 0, &one);
    r->account.result.logprob += (double)one.logprob;
}

/* The last token need not be computed: nothing comes after it. */
void sp_request_score_begin(sp_request *r, const float *logits)
{
    r->account.first_us = sp_clock_us();
    r->account.result.logprob = 0;
    r->answer.n_scored = 0;
    add_score(r, logits);
    r->answer.tokens.n = (size_t)r->o.n_scored - 1;
    if (r->answer.tokens.n) memcpy(r->answer.tokens.v, r->o.scored, r->answer.tokens.n * sizeof *r->o.scored);
    sp_err err = sp_request_replay(r);
    r->answer.tokens.n = 0;
    r->answer.replays = false;
    if (err != SP_OK || r->o.n_scored == 1)
        sp_request_finish(r, err == SP_OK ? SP_FINISH_LENGTH : SP_FINISH_ERROR, err);
}

void sp_request_score(sp_request *r, int n, const float *logits)
{
    const int n_vocab = r->ctx->model->hp.n_vocab;
    for (int i = 0; i < n; i++) add_score(r, logits + (size_t)i * (size_t)n_vocab);
    if (r->plans.next_todo == r->plans.now.n_todo) sp_request_finish(r, SP_FINISH_LENGTH, SP_OK);
}

/* -- the next token ------------------------------------------------------------------------------ */

/* start_grammar -- before the first token. */
static sp_err start_grammar(sp_request *r)
{
    sp_context *c = r->ctx;
    if (!r->o.grammar || r->answer.grammar) return SP_OK;
    if (!c->texts.grammar_tokens)
        SP_TRY(sp_token_set_of(c->model->tokenizer, &c->texts.grammar_tokens));
    SP_TRY(sp_grammar_start(r->o.grammar, c->texts.grammar_tokens, &r->answer.grammar));
    r->answer.sampler.grammar = r->answer.grammar;
    return SP_OK;
}

static sp_guarded guarded(const sp_request *r)
{
    return (sp_guarded){.space = &r->ctx->texts.prompts,
                        .policy = r->reuse.policy,
                        .segs = r->prompt.segs,
                        .n_segs = r->prompt.n_segs,
                        .n_tokens = r->prompt.n_tokens,
                        .n_vocab = r->ctx->model->hp.n_vocab};
}

/* note_for_guard -- the logits of the answer's token n, if a check of it is wanted. */
static void note_for_guard(sp_request *r, int n, const float *logits)
{
    sp_request_check *k = &r->check;
    const sp_guarded of = guarded(r);
    if (n == 0 && k->first) sp_guard_note(r->ctx->guard, &of, logits);
    if (n == 0 || !k->sparse) return;
    const bool is_sparse = r->answer.sparse && sp_sparse_account_of(r->answer.sparse).n_steps > 0;
    if (n == 1 && is_sparse) k->noted = sp_guard_begin_sparse(r->ctx->guard, &of);
    k->sparse = k->noted && sp_guard_add_sparse(k->noted, r->answer.tokens.v[n - 1], logits, of.n_vocab);
}

/* choose -- the next token of the answer. */
static sp_err choose(sp_request *r, const float *logits, int32_t *id)
{
    int n = (int)r->answer.tokens.n;
    note_for_guard(r, n, logits);
    int position = r->prompt.n_tokens - 1 + n;
    sp_err err = SP_OK;
    const sp_measure *m = &r->measure;
    if (m->on_logits) err = m->on_logits(position, logits, r->ctx->model->hp.n_vocab, m->user);
    if (err != SP_OK) return sp_fail(err, "on_logits ended the request at position %d", position);
    SP_TRY(start_grammar(r));
    r->answer.sampler.banned = r->answer.ends;
    r->answer.sampler.n_banned = n < r->o.min_tokens && !r->answer.grammar ? r->answer.n_ends : 0;
    *id = n < m->n_forced ? m->forced[n] : sp_sampler_pick(&r->answer.sampler, logits);
    return SP_OK;
}

bool sp_request_stops_at(const sp_request *r, int32_t id)
{
    for (int i = 0; i < r->o.n_stop_tokens; i++)
        if (r->o.stop_tokens[i] == id) return true;
    return false;
}

/* take -- handles a chosen token: it ends or continues the answer. */
static void take(sp_request *r, int32_t id, const float *logits)
{
    sp_sampler_answer(&r->answer.sampler, id);
    if (!r->account.first_us) r->account.first_us = sp_clock_us();
    bool ends = !r->o.ignore_end ||
                r->answer.grammar; /* where the text is complete, a grammar allows nothing else */
    if ((ends && sp_tokenizer_is_end(r->ctx->model->tokenizer, id)) || sp_request_stops_at(r, id)) {
        sp_request_finish(r, SP_FINISH_STOP, SP_OK);
        return;
    }
    sp_request_cite_token(r, (int)r->answer.tokens.n);
    r->answer.tokens.v[r->answer.tokens.n++] = id; /* room for max_tokens was made at submit */
    if (r->o.on_token) {
        sp_sampler_logprobs(&r->answer.sampler, logits, id, r->o.top_logprobs, r->answer.logprobs);
        r->o.on_token(r->answer.logprobs, 1 + r->o.top_logprobs, r->o.user);
    }
    bool stopped = false;
    sp_err err = add_text(r, id, &stopped);
    if (err != SP_OK)
        sp_request_finish(r, SP_FINISH_ERROR, err);
    else if (r->cancel)
        sp_request_finish(r, SP_FINISH_CANCELED, SP_OK);
    else if (stopped)
        sp_request_finish(r, SP_FINISH_STOP, SP_OK);
    else if ((int32_t)r->answer.tokens.n >= r->answer.max_tokens)
        sp_request_finish(r, SP_FINISH_LENGTH, SP_OK);
    else {
        sp_request_pack(r);
        err = plan_token(r, (int32_t)r->answer.tokens.n - 1);
        if (err != SP_OK) sp_request_finish(r, SP_FINISH_ERROR, err);
    }
}

/* rewind -- removes the forced tokens: the answer begins with the logits at the end of the prompt. */
static const float *rewind_answer(sp_request *r)
{
    const int span = r->plans.answer_span;
    sp_request_gave_blocks(r, sp_plan_shrink(&r->plans.now, span, 0));
    r->answer.tokens.n = 0;
    r->measure.rewinds = false;
    r->measure.n_forced = 0;
    r->measure.on_logits = NULL;
    return r->answer.first;
}

/* keep_first -- the logits at the end of the prompt, for rewind_answer. */
static sp_err keep_first(sp_request *r, const float *logits)
{
    const size_t n = (size_t)r->ctx->model->hp.n_vocab;
    if (!(r->answer.first = sp_arena_take(&r->arena, n, sizeof *r->answer.first)))
        return sp_fail_nomem("logits");
    memcpy(r->answer.first, logits, n * sizeof *logits);
    return SP_OK;
}

/* follow_forced -- the next of the forced tokens that are no part of the answer; *logits becomes NULL, or after the
 * last the first ones. */
static sp_err follow_forced(sp_request *r, const float **logits)
{
    int32_t id;
    SP_TRY(choose(r, *logits, &id));
    if (!r->account.first_us) r->account.first_us = sp_clock_us();
    if (!r->answer.tokens.n) SP_TRY(keep_first(r, *logits));
    r->answer.tokens.v[r->answer.tokens.n++] = id;
    const int n = (int)r->answer.tokens.n;
    *logits = n == r->measure.n_forced ? rewind_answer(r) : NULL;
    return *logits ? SP_OK : plan_token(r, n - 1);
}

void sp_request_take_token(sp_request *r, const float *logits)
{
    int32_t id = 0;
    sp_err err = r->measure.rewinds ? follow_forced(r, &logits) : SP_OK;
    if (err == SP_OK && !logits) return;
    if (err == SP_OK) err = choose(r, logits, &id);
    if (err != SP_OK) {
        sp_request_finish(r, SP_FINISH_ERROR, err);
        return;
    }
    take(r, id, logits);
}
