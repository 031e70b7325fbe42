/* request.c -- one request: planned and bound at admission, then fed with logits until it ends. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/context_int.h"

/* -- what the caches know of the prompt ------------------------------------------------------ */

/* find_chunks -- pins the canonical copies that are there and not pinned yet. */
static void find_chunks(sp_request *r)
{
    sp_context *c = r->ctx;
    for (int i = r->n_head; i < r->n_segs; i++)
        if (r->segs[i].kind == SP_SEG_CHUNK && !r->chunks[i])
            r->chunks[i] = sp_chunks_find(c->cache.chunks, &r->segs[i], r->head, r->n_head, c->now);
}

/* look_up -- pins what is cached: a path of the tree, and canonical copies of chunks. */
static sp_err look_up(sp_request *r)
{
    sp_context *c = r->ctx;
    const sp_reuse_policy *p = r->reuse.policy;
    int n_path = p->uses_chunks ? r->n_head : r->n_segs;
    ++c->now;
    if (p->uses_tree)
        SP_TRY(sp_tree_match(c->cache.tree, r->segs, n_path, c->now, &r->arena, &r->match));
    if (p->uses_chunks) find_chunks(r);
    return SP_OK;
}

void sp_request_let_go(sp_request *r)
{
    sp_context *c = r->ctx;
    sp_plan_fini(&r->plan);
    sp_plan_fini(&r->probed);
    sp_tree_release(c->cache.tree, &r->match);
    for (int i = 0; i < r->n_segs; i++) {
        if (r->chunks[i]) sp_chunks_unpin(c->cache.chunks, r->chunks[i]);
        r->chunks[i] = NULL;
    }
}

/* -- plans ---------------------------------------------------------------------------------- */

static sp_reuse_input input_of(const sp_request *r)
{
    return (sp_reuse_input){.segs = r->segs,
                            .n_segs = r->n_segs,
                            .n_head = r->n_head,
                            .match = &r->match,
                            .chunks = r->chunks,
                            .answer_room = r->max_tokens,
                            .n_layers = r->ctx->model->hp.n_layers,
                            .recompute = r->reuse.policy->selects ? r->reuse.recompute : 0,
                            .probed = r->probed.n_todo ? &r->probed : NULL};
}

/* wants_probe -- all or nothing needs no measuring. */
static bool wants_probe(const sp_request *r, const sp_reuse_input *in)
{
    bool any = false;
    for (int i = 0; i < r->n_segs; i++) any |= r->chunks[i] != NULL;
    return any && r->reuse.policy->probe && in->recompute > 0 && in->recompute < 1;
}

static sp_err plan_stage(sp_request *r)
{
    sp_reuse_input in = input_of(r);
    sp_plan_init(&r->plan, r->ctx->pool);
    r->next_todo = 0;
    switch (r->stage) {
    case SP_STAGE_FILL:
        return sp_reuse_fill(&in, &r->plan);
    case SP_STAGE_PROBE:
        return r->reuse.policy->probe(&in, &r->plan);
    default:
        SP_TRY(r->reuse.policy->plan(&in, &r->plan));
        r->answer_span = r->plan.n_spans - 1;
        return SP_OK;
    }
}

static sp_err make_plan(sp_request *r)
{
    int64_t start = sp_clock_us();
    sp_err err = plan_stage(r);
    r->plan_us += sp_clock_us() - start;
    return err;
}

/* reserve -- sets n blocks (or -n back) aside for the request: I2. */
static void reserve(sp_request *r, int64_t n)
{
    r->reserved += n;
    r->ctx->reserved += n;
}

/* bind_plan -- takes its blocks out of what was reserved for the request. */
static sp_err bind_plan(sp_request *r)
{
    int64_t n = sp_plan_n_fresh(&r->plan);
    SP_TRY(sp_plan_bind(&r->plan));
    reserve(r, -n);
    return sp_plan_check(&r->plan);
}

/* end_plan -- what it took and no cache has kept is set aside for the request again. */
static void end_plan(sp_request *r, sp_plan *plan)
{
    int64_t n_free = sp_kv_pool_n_free(r->ctx->pool);
    sp_plan_fini(plan);
    reserve(r, sp_kv_pool_n_free(r->ctx->pool) - n_free);
}

static sp_stage after_fill(const sp_request *r)
{
    sp_reuse_input in = input_of(r);
    return wants_probe(r, &in) ? SP_STAGE_PROBE : SP_STAGE_ANSWER;
}

static sp_stage first_stage(const sp_request *r)
{
    sp_reuse_input in = input_of(r);
    if (!r->reuse.policy->uses_chunks) return SP_STAGE_ANSWER;
    return sp_reuse_needs_fill(&in) || r->max_tokens == 0 ? SP_STAGE_FILL : after_fill(r);
}

/* -- admission ------------------------------------------------------------------------------ */

/* blocks_needed -- for all plans of the request and its answer, at most; cached ones are pinned
 * already. */
static int64_t blocks_needed(const sp_request *r)
{
    int64_t answer = sp_blocks_for(r->max_tokens), n = 0;
    if (r->stage == SP_STAGE_ANSWER && !r->reuse.policy->selects)
        return sp_plan_n_fresh(&r->plan) + answer;
    for (int i = 0; i < r->n_segs; i++)
        if (!r->chunks[i] && i >= r->match.n_path) n += sp_blocks_for(r->segs[i].n);
    return n + (r->reuse.policy->selects ? sp_blocks_for(r->n_prompt) : 0) + answer;
}

static sp_err prepare(sp_request *r)
{
    int64_t start = sp_clock_us();
    sp_err err = look_up(r);
    r->plan_us = sp_clock_us() - start;
    if (err != SP_OK) return err;
    r->stage = first_stage(r);
    return make_plan(r);
}

/* n_cached -- tokens of segment i that were there before the request. */
static int32_t n_cached(const sp_request *r, int i)
{
    if (!r->reuse.policy->uses_chunks) return r->plan.slots[i].n_known;
    return r->chunks[i] || i < r->match.n_path ? r->segs[i].n : 0;
}

sp_err sp_request_begin(sp_request *r, bool *fits)
{
    sp_context *c = r->ctx;
    sp_err err = prepare(r);
    int64_t need = blocks_needed(r);
    *fits = true;
    if (err == SP_OK && !sp_cache_free_up(&c->cache, c->reserved + need)) {
        *fits = false;
        if (c->n_running == 0)
            err =
                sp_fail(SP_E_NOKV,
                        "prompt and answer need %lld blocks of KV memory, %lld of %lld can be had",
                        (long long)need, (long long)sp_kv_pool_n_free(c->pool),
                        (long long)sp_kv_pool_n_blocks(c->pool));
    }
    if (err == SP_OK && *fits) {
        reserve(r, need);
        for (int i = 0; i < r->n_segs; i++) r->had[i] = n_cached(r, i);
        r->start_us = sp_clock_us();
        err = bind_plan(r);
    }
    if (err != SP_OK || !*fits) {
        reserve(r, -r->reserved);
        sp_request_let_go(r);
    }
    return err;
}

/* -- a plan is computed --------------------------------------------------------------------- */

static void seal(sp_request *r, int span)
{
    const sp_span *s = &r->plan.spans[span];
    sp_kv_seal(r->ctx->pool, s->blocks, sp_blocks_for(s->n));
}

/* keep_path -- exact KV of segments from the end of the match on enters the tree. */
static sp_err keep_path(sp_request *r, int n_segs)
{
    sp_context *c = r->ctx;
    bool added = r->match.tip != NULL;
    for (int i = r->match.n_path; i < n_segs && added; i++) {
        SP_TRY(sp_tree_extend(c->cache.tree, &r->match, &r->segs[i], r->plan.spans[i].blocks,
                              c->now, &added));
        if (added) r->match.path[r->match.n_path++] = r->match.tip;
    }
    return SP_OK;
}

/* keep_chunks -- what fill computed behind the head enters the chunk index; what is there is
 * pinned. */
static sp_err keep_chunks(sp_request *r)
{
    sp_context *c = r->ctx;
    sp_err err = SP_OK;
    for (int i = r->n_head; i < r->n_segs && err == SP_OK; i++) {
        const sp_span *s = &r->plan.spans[i];
        bool added;
        if (r->segs[i].kind != SP_SEG_CHUNK || s->n == 0) continue;
        err = sp_chunks_insert(c->cache.chunks, &r->segs[i], r->head, r->n_head, s->at, s->blocks,
                               c->now, &added);
    }
    find_chunks(r);
    return err;
}

static void warn(const char *what, sp_err err)
{
    if (err != SP_OK) sp_log(SP_LOG_WARN, "%s not cached: %s", what, sp_error_detail());
}

static void answer_stage_done(sp_request *r)
{
    if (r->reuse.policy->uses_chunks) return; /* approximate KV never enters the tree */
    for (int i = 0; i < r->n_segs; i++) seal(r, i);
    warn("prompt", keep_path(r, r->n_segs));
}

static void fill_stage_done(sp_request *r)
{
    for (int i = 0; i < r->n_segs; i++) seal(r, i);
    warn("system prompt", keep_path(r, r->n_head));
    warn("chunks", keep_chunks(r));
    end_plan(r, &r->plan);
    r->stage = after_fill(r);
}

static void probe_stage_done(sp_request *r)
{
    r->probed = r->plan;
    r->plan = (sp_plan){0};
    r->stage = SP_STAGE_ANSWER;
}

sp_err sp_request_stage_done(sp_request *r, bool *ready)
{
    *ready = r->stage == SP_STAGE_ANSWER || (r->stage == SP_STAGE_FILL && r->max_tokens == 0);
    if (r->stage == SP_STAGE_ANSWER)
        answer_stage_done(r);
    else if (r->stage == SP_STAGE_FILL)
        fill_stage_done(r);
    else
        probe_stage_done(r);
    if (*ready) return SP_OK;
    SP_TRY(make_plan(r));
    end_plan(r, &r->probed); /* the answer's plan has been made from it */
    return bind_plan(r);
}

/* keep_answer -- the answer's KV becomes a node below the prompt: the next turn of a chat repeats
 * it. */
static void keep_answer(sp_request *r)
{
    if (r->state != SP_REQ_DECODE || r->reuse.policy->uses_chunks)
        return; /* none, or an approximate one */
    sp_context *c = r->ctx;
    const sp_span *span = &r->plan.spans[r->answer_span];
    /* the last generated token may be planned but not computed */
    int32_t n = r->next_todo == r->plan.n_todo ? span->n : span->n - 1;
    bool added = false;
    if (n < SP_BLOCK_TOKENS) return;
    if (!r->match.tip || r->match.n_path < r->n_segs)
        return; /* its prompt is not whole in the tree */
    sp_segment seg = {.kind = SP_SEG_TEXT, .tokens = r->tokens.v, .n = n};
    sp_err err = sp_segment_id(&c->prompts.space, c->salt, seg.tokens, n, &seg.id);
    if (err == SP_OK) {
        sp_kv_seal(c->pool, span->blocks, sp_blocks_for(n));
        err = sp_tree_extend(c->cache.tree, &r->match, &seg, span->blocks, c->now, &added);
    }
    warn("answer", err);
}

/* -- the end -------------------------------------------------------------------------------- */

static void show(sp_request *r, size_t upto)
{
    if (upto <= r->n_shown) return;
    size_t from = r->n_shown;
    r->n_shown = upto;
    if (r->o.on_text && !r->o.on_text(r->text.v + from, upto - from, r->o.user)) r->cancel = true;
}

void sp_request_finish(sp_request *r, sp_finish why, sp_err err)
{
    int64_t now = sp_clock_us();
    if (r->state == SP_REQ_PREFILL || r->state == SP_REQ_DECODE) {
        keep_answer(r);
        sp_request_report(r);
        reserve(r, -r->reserved);
        r->holds_kv = r->o.keep_kv && err == SP_OK;
        if (!r->holds_kv) sp_request_let_go(r);
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
    r->result.plan_us = r->plan_us;
}

/* -- decoding ------------------------------------------------------------------------------- */

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
    if (held % SP_BLOCK_TOKENS == 0) reserve(r, -1); /* a reserved block became a held one: I1 */
    return SP_OK;
}

/* choose -- the next token of the answer. */
static sp_err choose(sp_request *r, const float *logits, int32_t *id)
{
    int n = (int)r->tokens.n;
    if (r->o.on_logits)
        SP_TRY(r->o.on_logits(r->n_prompt - 1 + n, logits, r->ctx->model->hp.n_vocab, r->o.user));
    *id = n < r->o.n_forced ? r->o.forced[n] : sp_sampler_pick(&r->sampler, logits);
    return SP_OK;
}

void sp_request_take_token(sp_request *r, const float *logits)
{
    int32_t id;
    sp_err err = choose(r, logits, &id);
    if (err != SP_OK) {
        sp_request_finish(r, SP_FINISH_ERROR, err);
        return;
    }
    sp_sampler_accept(&r->sampler, id);
    if (!r->first_us) r->first_us = sp_clock_us();
    if (!r->o.ignore_end && sp_tokenizer_is_end(r->ctx->model->tokenizer, id)) {
        sp_request_finish(r, SP_FINISH_STOP, SP_OK);
        return;
    }
    r->tokens.v[r->tokens.n++] = id; /* room for max_tokens was made at submit */
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
    else if ((err = go_on(r, id)) != SP_OK)
        sp_request_finish(r, SP_FINISH_ERROR, err);
}
