/* answer.c -- decoding: the next token, the text it adds, and the reasons to stop. */
#include <string.h>

#include "base/clock.h"
#include "serve/check/guard.h"
#include "serve/request_int.h"

/* stop_at -- where the first stop string begins in the text, searching only what is new; or
 * SIZE_MAX. */
static size_t stop_at(const sp_request *r, size_t new_from)
{
    size_t best = SIZE_MAX;
    for (int i = 0; i < r->o.n_stop; i++) {
        size_t len = strlen(r->o.stop[i]);
        size_t from = new_from > len ? new_from - len : 0;
        for (size_t at = from; len && at + len <= r->text.n && at < best; at++)
            if (memcmp(r->text.v + at, r->o.stop[i], len) == 0) best = at;
    }
    return best;
}

/* held_back -- bytes at the end of the text that may be the beginning of a stop string. */
static size_t held_back(const sp_request *r)
{
    size_t held = 0;
    for (int i = 0; i < r->o.n_stop; i++)
        for (size_t n = SP_MIN(strlen(r->o.stop[i]), r->text.n); n > held; n--)
            if (memcmp(r->text.v + r->text.n - n, r->o.stop[i], n) == 0) held = n;
    return held;
}

/* add_text -- appends what a token says; true when a stop string has ended the answer. */
static sp_err add_text(sp_request *r, int32_t id, bool *stopped)
{
    size_t before = r->text.n;
    SP_TRY(sp_text_stream_push(&r->stream, id, &r->text));
    size_t stop = stop_at(r, before);
    *stopped = stop != SIZE_MAX && (int)r->tokens.n >= r->o.min_tokens;
    if (*stopped) {
        r->text.n = SP_MAX(stop, r->n_shown);
        sp_text_stream_init(&r->stream, r->stream.tok); /* bytes held back belong after the stop */
    }
    sp_request_show(r, *stopped ? r->text.n : r->text.n - held_back(r));
    return SP_OK;
}

/* plan_token -- the token becomes the next one to compute. */
static sp_err plan_token(sp_request *r, int32_t id)
{
    sp_request_pack(r);
    int32_t held = r->plan.spans[r->answer_span].n;
    int32_t pos = r->end + (int32_t)r->tokens.n - 1;
    SP_TRY(sp_plan_grow(&r->plan, r->answer_span, id, pos, (uint16_t)(r->plan.n_sights - 1)));
    if (held % SP_BLOCK_TOKENS == 0) sp_request_took_block(r); /* I1 */
    return SP_OK;
}

/* start_grammar -- before the first token. */
static sp_err start_grammar(sp_request *r)
{
    sp_context *c = r->ctx;
    if (!r->o.grammar || r->grammar) return SP_OK;
    if (!c->tokens) SP_TRY(sp_token_set_of(c->model->tokenizer, &c->tokens));
    SP_TRY(sp_grammar_start(r->o.grammar, c->tokens, &r->grammar));
    r->sampler.grammar = r->grammar;
    return SP_OK;
}

/* choose -- the next token of the answer. */
static sp_err choose(sp_request *r, const float *logits, int32_t *id)
{
    int n = (int)r->tokens.n;
    if (n == 0 && r->guarded) sp_guard_note(r->ctx->guard, r, logits);
    if (n > 0 && r->sparse_guarded) sp_guard_note_sparse(r->ctx->guard, r, logits);
    int position = r->n_prompt - 1 + n;
    sp_err err = SP_OK;
    const sp_measure *m = &r->measure;
    if (m->on_logits) err = m->on_logits(position, logits, r->ctx->model->hp.n_vocab, m->user);
    if (err != SP_OK) return sp_fail(err, "on_logits ended the request at position %d", position);
    SP_TRY(start_grammar(r));
    r->sampler.banned = r->ends;
    r->sampler.n_banned = n < r->o.min_tokens && !r->grammar ? r->n_ends : 0;
    *id = n < m->n_forced ? m->forced[n] : sp_sampler_pick(&r->sampler, logits);
    return SP_OK;
}

bool sp_request_stops_at(const sp_request *r, int32_t id)
{
    for (int i = 0; i < r->o.n_stop_tokens; i++)
        if (r->o.stop_tokens[i] == id) return true;
    return false;
}

void sp_request_take_token(sp_request *r, const float *logits)
{
    int32_t id = 0;
    sp_err err = choose(r, logits, &id);
    if (err != SP_OK) {
        sp_request_finish(r, SP_FINISH_ERROR, err);
        return;
    }
    sp_sampler_answer(&r->sampler, id);
    if (!r->first_us) r->first_us = sp_clock_us();
    bool ends = !r->o.ignore_end ||
                r->grammar; /* where the text is complete, a grammar allows nothing else */
    if ((ends && sp_tokenizer_is_end(r->ctx->model->tokenizer, id)) || sp_request_stops_at(r, id)) {
        sp_request_finish(r, SP_FINISH_STOP, SP_OK);
        return;
    }
    r->tokens.v[r->tokens.n++] = id; /* room for max_tokens was made at submit */
    if (r->o.on_token) {
        sp_sampler_logprobs(&r->sampler, logits, id, r->o.top_logprobs, r->logprobs);
        r->o.on_token(r->logprobs, 1 + r->o.top_logprobs, r->o.user);
    }
    bool stopped = false;
    err = add_text(r, id, &stopped);
    if (err != SP_OK)
        sp_request_finish(r, SP_FINISH_ERROR, err);
    else if (r->cancel)
        sp_request_finish(r, SP_FINISH_CANCELED, SP_OK);
    else if (stopped)
        sp_request_finish(r, SP_FINISH_STOP, SP_OK);
    else if ((int32_t)r->tokens.n >= r->max_tokens)
        sp_request_finish(r, SP_FINISH_LENGTH, SP_OK);
    else if ((err = plan_token(r, id)) != SP_OK)
        sp_request_finish(r, SP_FINISH_ERROR, err);
}
