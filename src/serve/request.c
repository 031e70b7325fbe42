/* request.c -- one request: planned and bound at admission, then fed with logits until it ends. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/guard.h"

/* -- plans ---------------------------------------------------------------------------------- */

/* wants_probe -- all or nothing needs no measuring. */
static bool wants_probe(const sp_request *r, const sp_reuse_input *in)
{
    bool any = false;
    for (int i = 0; i < r->n_segs; i++) any |= r->chunks[i] != NULL;
    return any && r->reuse.policy->n_probes && in->recompute > 0 && in->recompute < 1;
}

/* let_go_last -- the chunk to be fused is computed, whether a plain copy is there or not. */
static void let_go_last(sp_request *r)
{
    int last = r->n_segs - 1;
    if (r->chunks[last]) sp_chunks_unpin(r->ctx->cache.chunks, r->chunks[last]);
    r->chunks[last] = NULL;
}

static sp_err plan_stage(sp_request *r)
{
    if (r->fuse && r->stage == SP_STAGE_ANSWER) let_go_last(r);
    sp_reuse_input in = sp_request_input(r);
    sp_plan_init(&r->plan, r->ctx->pool);
    r->next_todo = 0;
    switch (r->stage) {
    case SP_STAGE_FILL:
        return sp_reuse_fill(&in, &r->plan);
    case SP_STAGE_PROBE:
        return r->reuse.policy->probe(&in, &r->plan);
    default:
        if (r->fuse) return sp_reuse_fuse(&in, &r->plan);
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
    sp_reuse_input in = sp_request_input(r);
    return wants_probe(r, &in) ? SP_STAGE_PROBE : SP_STAGE_ANSWER;
}

/* warms -- the request is there to make copies known, and nothing else. */
static bool warms(const sp_request *r)
{
    return r->max_tokens == 0 && !r->fuse;
}

static sp_stage first_stage(const sp_request *r)
{
    sp_reuse_input in = sp_request_input(r);
    const sp_reuse_policy *p = r->reuse.policy;
    if (!p->uses_chunks || p->places) return SP_STAGE_ANSWER;
    return sp_reuse_needs_fill(&in) || warms(r) ? SP_STAGE_FILL : after_fill(r);
}

/* -- admission ------------------------------------------------------------------------------ */

/* blocks_needed -- for all plans of the request and its answer, at most; cached ones are pinned
 * already. */
static int64_t blocks_needed(const sp_request *r)
{
    int64_t answer = sp_blocks_for(r->max_tokens), n = 0;
    if (r->stage == SP_STAGE_ANSWER) return sp_plan_n_fresh(&r->plan) + answer;
    for (int i = 0; i < r->n_segs; i++)
        if (!r->chunks[i] && i >= r->match.n_path) n += sp_blocks_for(r->segs[i].n);
    if (r->fuse) n += sp_blocks_for(r->segs[r->n_segs - 1].n);
    return n + (r->reuse.policy->selects ? sp_blocks_for(r->n_prompt) : 0) + answer;
}

static sp_err prepare(sp_request *r)
{
    int64_t start = sp_clock_us();
    sp_err err = sp_request_look_up(r);
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

/* why_missed -- a chunk that memory knows nothing of may be in the store for another model. */
static sp_miss why_missed(const sp_request *r, int i)
{
    const sp_context *c = r->ctx;
    sp_miss why = sp_chunks_why(c->cache.chunks, &r->segs[i], r->ids, r->n_head);
    bool is_new = why == SP_MISS_NEVER_SEEN || why == SP_MISS_EDITED;
    if (is_new && c->disk &&
        sp_disk_has_elsewhere(c->disk, &r->segs[i], r->segs, r->n_head, c->salt))
        return SP_MISS_OTHER_MODEL;
    return why;
}

/* note_copies -- which copies the request uses, and why others are missing. */
static void note_copies(sp_request *r)
{
    sp_chunks *chunks = r->ctx->cache.chunks;
    if (!r->reuse.policy->uses_chunks) return;
    for (int i = r->n_head; i < r->n_segs; i++) {
        if (r->segs[i].kind != SP_SEG_CHUNK) continue;
        if (!r->chunks[i])
            r->misses[i] = (uint8_t)why_missed(r, i);
        else if (r->reuse.policy->choose)
            sp_chunks_use(chunks, r->chunks[i], r->cfo[i], r->ctx->now);
    }
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
        note_copies(r);
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

static void fill_stage_done(sp_request *r)
{
    sp_request_keep_fill(r);
    end_plan(r, &r->plan);
    r->stage = after_fill(r);
}

static void probe_stage_done(sp_request *r)
{
    r->probed = r->plan;
    r->plan = (sp_plan){0};
    if (++r->n_probed == r->reuse.policy->n_probes) r->stage = SP_STAGE_ANSWER;
}

sp_err sp_request_stage_done(sp_request *r, bool *ready)
{
    *ready = r->stage == SP_STAGE_ANSWER || (r->stage == SP_STAGE_FILL && warms(r));
    if (r->stage == SP_STAGE_ANSWER) return sp_request_keep_prompt(r);
    if (r->stage == SP_STAGE_FILL)
        fill_stage_done(r);
    else
        probe_stage_done(r);
    if (*ready) return SP_OK;
    SP_TRY(make_plan(r));
    end_plan(r, &r->probed); /* the next plan has been made from it */
    return bind_plan(r);
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
        sp_request_keep_answer(r);
        sp_request_report(r);
        reserve(r, -r->reserved);
        r->holds_kv = r->measure.keep_kv && err == SP_OK;
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
    if (n == 0 && r->guarded) sp_guard_note(r->ctx->guard, r, logits);
    int position = r->n_prompt - 1 + n;
    sp_err err = SP_OK;
    const sp_measure *m = &r->measure;
    if (m->on_logits)
        err = m->on_logits(position, logits, r->ctx->model->hp.n_vocab, m->user);
    if (err != SP_OK) return sp_fail(err, "on_logits ended the request at position %d", position);
    *id = n < m->n_forced ? m->forced[n] : sp_sampler_pick(&r->sampler, logits);
    return SP_OK;
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
