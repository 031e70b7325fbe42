/* request.c -- one request: planned and bound at admission, then fed with logits until it ends. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/context_int.h"

static int64_t blocks_for(int64_t tokens)
{
    return SP_DIV_UP(tokens, SP_BLOCK_TOKENS);
}

/* -- admission ------------------------------------------------------------------------------ */

static sp_err make_plan(sp_request *r)
{
    sp_context *c = r->ctx;
    r->match = (sp_match){0};
    if (c->reuse->uses_tree)
        SP_TRY(sp_tree_match(c->tree, r->segs, r->n_segs, ++c->now, &r->arena, &r->match));
    sp_reuse_input in = {
        .segs = r->segs, .n_segs = r->n_segs, .match = &r->match, .answer_room = r->max_tokens};
    SP_TRY(c->reuse->plan(&in, &r->plan));
    r->answer_span = r->plan.n_spans - 1;
    return SP_OK;
}

static void drop_plan(sp_request *r)
{
    sp_plan_fini(&r->plan);
    sp_tree_release(r->ctx->tree, &r->match);
}

sp_err sp_request_begin(sp_request *r, bool *fits)
{
    sp_context *c = r->ctx;
    sp_plan_init(&r->plan, c->pool);
    sp_err err = make_plan(r);
    int64_t fresh = sp_plan_n_fresh(&r->plan), answer = blocks_for(r->max_tokens);
    *fits = true;
    if (err == SP_OK && !sp_tree_evict(c->tree, c->reserved + fresh + answer)) {
        *fits = false;
        if (c->n_running == 0)
            err = sp_fail(SP_E_NOKV,
                          "prompt and answer need %lld blocks of KV memory, %lld of %lld can be had",
                          (long long)(fresh + answer), (long long)sp_kv_pool_n_free(c->pool),
                          (long long)sp_kv_pool_n_blocks(c->pool));
    }
    if (err == SP_OK && *fits) err = sp_plan_bind(&r->plan);
    if (err == SP_OK && *fits) err = sp_plan_check(&r->plan);
    if (err != SP_OK || !*fits) {
        drop_plan(r);
        return err;
    }
    r->reserved = answer;
    c->reserved += answer;
    r->next_todo = 0;
    r->start_us = sp_clock_us();
    return SP_OK;
}

/* -- the prompt is computed ----------------------------------------------------------------- */

void sp_request_prompt_done(sp_request *r)
{
    sp_context *c = r->ctx;
    for (int i = 0; i < r->n_segs; i++)
        sp_kv_seal(c->pool, r->plan.spans[i].blocks, blocks_for(r->plan.spans[i].n));
    if (!r->match.tip) return;
    bool added = true;
    for (int i = r->match.n_path; i < r->n_segs && added; i++) {
        sp_err err =
            sp_tree_extend(c->tree, &r->match, &r->segs[i], r->plan.spans[i].blocks, c->now, &added);
        if (err != SP_OK) {
            sp_log(SP_LOG_WARN, "prompt not cached: %s", sp_error_detail());
            return;
        }
    }
}

/* keep_answer -- the answer's KV becomes a node below the prompt: the next turn of a chat repeats it. */
static void keep_answer(sp_request *r)
{
    sp_context *c = r->ctx;
    const sp_span *span = &r->plan.spans[r->answer_span];
    /* the last generated token may be planned but not computed */
    int32_t n = r->next_todo == r->plan.n_todo ? span->n : span->n - 1;
    bool added = false;
    if (r->state != SP_REQ_DECODE || r->match.tip == NULL || n < SP_BLOCK_TOKENS) return;
    sp_segment seg = {.kind = SP_SEG_TEXT, .tokens = r->tokens.v, .n = n};
    sp_err err = sp_segment_id(&c->prompts.space, c->salt, seg.tokens, n, &seg.id);
    if (err == SP_OK) {
        sp_kv_seal(c->pool, span->blocks, blocks_for(n));
        err = sp_tree_extend(c->tree, &r->match, &seg, span->blocks, c->now, &added);
    }
    if (err != SP_OK) sp_log(SP_LOG_WARN, "answer not cached: %s", sp_error_detail());
}

/* -- the end -------------------------------------------------------------------------------- */

static void report_segments(sp_request *r)
{
    sp_segment_report *rep = sp_arena_take(&r->arena, (size_t)r->n_segs, sizeof *rep);
    if (!rep) return; /* the sums are still right */
    for (int i = 0; i < r->n_segs; i++)
        rep[i] = (sp_segment_report){.kind = sp_segment_kind_name(r->segs[i].kind),
                                     .n_tokens = r->segs[i].n,
                                     .n_reused = r->plan.slots[i].n_known};
    r->result.segments = rep;
    r->result.n_segments = r->n_segs;
}

static void show(sp_request *r, size_t upto)
{
    if (upto <= r->n_shown) return;
    size_t from = r->n_shown;
    r->n_shown = upto;
    if (r->o.on_text && !r->o.on_text(r->text.v + from, upto - from, r->o.user)) r->cancel = true;
}

void sp_request_finish(sp_request *r, sp_finish why, sp_err err)
{
    sp_context *c = r->ctx;
    int64_t now = sp_clock_us();
    if (r->state == SP_REQ_PREFILL || r->state == SP_REQ_DECODE) {
        keep_answer(r);
        report_segments(r);
        for (int i = 0; i < r->n_segs; i++) r->result.n_reused += r->plan.slots[i].n_known;
        r->result.n_computed = r->n_prompt - r->result.n_reused;
        c->reserved -= r->reserved;
        r->reserved = 0;
        drop_plan(r);
    }
    if (err == SP_OK && sp_text_stream_flush(&r->stream, &r->text) == SP_OK) show(r, r->text.n);
    if (sp_vec_reserve(&r->text, 1) == SP_OK) r->text.v[r->text.n] = '\0';
    if (err != SP_OK) snprintf(r->detail, sizeof r->detail, "%s", sp_error_detail());
    r->state = SP_REQ_FINISHED;
    r->result.finish = why;
    r->result.err = err;
    r->result.detail = r->detail;
    r->result.text = r->text.v ? r->text.v : "";
    r->result.tokens = r->tokens.v;
    r->result.n_prompt = r->n_prompt;
    r->result.n_generated = (int)r->tokens.n;
    r->result.queue_us = (r->start_us ? r->start_us : now) - r->submit_us;
    r->result.ttft_us = r->first_us ? r->first_us - r->submit_us : 0;
    r->result.decode_us = r->first_us ? now - r->first_us : 0;
}

/* -- decoding ------------------------------------------------------------------------------- */

/* stop_at -- where the first stop string begins in the text, searching only what is new; or SIZE_MAX. */
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
    *stopped = stop != SIZE_MAX;
    if (*stopped) {
        r->text.n = SP_MAX(stop, r->n_shown);
        sp_text_stream_init(&r->stream, r->stream.tok); /* bytes held back belong after the stop */
    }
    show(r, *stopped ? r->text.n : r->text.n - held_back(r));
    return SP_OK;
}

static sp_err go_on(sp_request *r, int32_t id)
{
    int32_t held = r->plan.spans[r->answer_span].n;
    int32_t pos = r->n_prompt + (int32_t)r->tokens.n - 1;
    SP_TRY(sp_plan_grow(&r->plan, r->answer_span, id, pos, (uint16_t)(r->plan.n_sights - 1)));
    if (held % SP_BLOCK_TOKENS == 0) { /* a reserved block became a held one: I1 */
        r->reserved--;
        r->ctx->reserved--;
    }
    return SP_OK;
}

void sp_request_take_token(sp_request *r, const float *logits)
{
    int32_t id = sp_sampler_pick(&r->sampler, logits);
    sp_sampler_accept(&r->sampler, id);
    if (!r->first_us) r->first_us = sp_clock_us();
    if (!r->o.ignore_end && sp_tokenizer_is_end(r->ctx->model->tokenizer, id)) {
        sp_request_finish(r, SP_FINISH_STOP, SP_OK);
        return;
    }
    r->tokens.v[r->tokens.n++] = id; /* room for max_tokens was made at submit */
    bool stopped = false;
    sp_err err = add_text(r, id, &stopped);
    if (err != SP_OK)
        sp_request_finish(r, SP_FINISH_ERROR, err);
    else if (r->cancel)
        sp_request_finish(r, SP_FINISH_CANCELED, SP_OK);
    else if (stopped)
        sp_request_finish(r, SP_FINISH_STOP, SP_OK);
    else if ((int32_t)r->tokens.n >= r->max_tokens)
        sp_request_finish(r, SP_FINISH_LENGTH, SP_OK);
    else if ((err = go_on(r, id)) != SP_OK)
        sp_request_finish(r, SP_FINISH_ERROR, err);
}
