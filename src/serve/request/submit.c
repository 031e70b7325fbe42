/* submit.c -- creates a request: checks its options, copies the prompt, chooses the policy and the sampler. */
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/need.h"
#include "serve/guard/guard.h"
#include "serve/request/queue.h"
#include "serve/request/request.h"

static sp_err check_submit(const sp_context *c, const sp_prompt *p, const sp_request_opts *o)
{
    if (!c->model->tokenizer)
        return sp_fail(SP_E_ARG, "%s: has no tokenizer, which answers need", c->model->path);
    if (p->n_tokens < 1) return sp_fail(SP_E_ARG, "the prompt is empty");
    if (memcmp(&p->space->space, &sp_context_prompts(c)->space, sizeof(sp_digest)) != 0)
        return sp_fail(SP_E_ARG, "the prompt was made for another model, or another type of its keys and values");
    if (o->max_tokens < 0) return sp_fail(SP_E_ARG, "max_tokens: %d is negative", o->max_tokens);
    if (o->n_stop < 0 || (o->n_stop && !o->stop))
        return sp_fail(SP_E_ARG, "stop: a list of %d strings", o->n_stop);
    if (o->n_stop_tokens < 0 || (o->n_stop_tokens && !o->stop_tokens))
        return sp_fail(SP_E_ARG, "stop_tokens: a list of %d tokens", o->n_stop_tokens);
    if (o->min_tokens < 0) return sp_fail(SP_E_ARG, "min_tokens: %d is negative", o->min_tokens);
    if (o->top_logprobs < 0 || o->top_logprobs > SP_MAX_TOP_LOGPROBS)
        return sp_fail(SP_E_ARG, "top_logprobs: %d is not in 0..%d", o->top_logprobs,
                       SP_MAX_TOP_LOGPROBS);
    if (o->n_scored < 0 || (o->n_scored && !o->scored))
        return sp_fail(SP_E_ARG, "scored: a list of %d tokens", o->n_scored);
    if (o->n_scored > c->limits.n_ctx - p->n_tokens && p->n_tokens <= c->limits.n_ctx)
        return sp_fail(SP_E_CONTEXT, "%d tokens to score after a prompt of %d do not fit the context of %d",
                       o->n_scored, p->n_tokens, c->limits.n_ctx);
    for (int i = 0; i < o->n_scored; i++)
        if (o->scored[i] < 0 || o->scored[i] >= c->model->hp.n_vocab)
            return sp_fail(SP_E_ARG, "scored: token %d, id %d, is not in the vocabulary of %d", i, o->scored[i],
                           c->model->hp.n_vocab);
    if (o->max_wait_ms < 0 || o->max_wait_ms > INT64_MAX / 1000)
        return sp_fail(SP_E_ARG, "max_wait_ms: %lld is out of range", (long long)o->max_wait_ms);
    if (p->n_tokens > c->limits.n_ctx)
        return sp_fail(
            SP_E_CONTEXT, "prompt of %d tokens, the context holds %d%s", p->n_tokens,
            c->limits.n_ctx,
            c->limits.n_ctx == c->model->hp.n_ctx ? ", all that the model was trained for" : "");
    if (o->max_tokens && p->n_tokens == c->limits.n_ctx)
        return sp_fail(SP_E_CONTEXT,
                       "prompt of %d tokens fills the context and leaves no room for an answer",
                       p->n_tokens);
    return SP_OK;
}

/* complete_sampling -- zeroed options mean what sp_sampling_default does. */
static void complete_sampling(sp_sampling *s)
{
    if (s->top_p == 0) s->top_p = 1;
    if (s->repeat_penalty == 0) s->repeat_penalty = 1;
}

/* copy_prompt -- the request's own copy of segments, tokens, stop strings and stop tokens. */
static sp_err copy_prompt(sp_request *r, const sp_prompt *p)
{
    r->prompt.n_segs = (int)p->segs.n;
    r->prompt.segs = sp_arena_take(&r->arena, p->segs.n, sizeof *r->prompt.segs);
    const char **stop = sp_arena_take(&r->arena, (size_t)r->o.n_stop, sizeof *stop);
    if (!r->prompt.segs || !stop)
        return sp_fail_nomem("a request");
    for (size_t i = 0; i < p->segs.n; i++) {
        r->prompt.segs[i] = p->segs.v[i];
        size_t n = (size_t)r->prompt.segs[i].n;
        int32_t *tokens = sp_arena_take(&r->arena, n, sizeof *tokens);
        if (!tokens) return sp_fail_nomem("a request");
        memcpy(tokens, p->segs.v[i].tokens, n * sizeof *tokens);
        r->prompt.segs[i].tokens = tokens;
    }
    for (int i = 0; i < r->o.n_stop; i++) {
        size_t n = strlen(r->o.stop[i]);
        char *copy = sp_arena_take(&r->arena, n + 1, 1);
        if (!copy) return sp_fail_nomem("a stop string");
        memcpy(copy, r->o.stop[i], n);
        stop[i] = copy;
    }
    r->o.stop = stop;
    if (r->o.n_scored) {
        int32_t *scored = sp_arena_take(&r->arena, (size_t)r->o.n_scored, sizeof *scored);
        if (!scored) return sp_fail_nomem("tokens to score");
        r->o.scored = memcpy(scored, r->o.scored, (size_t)r->o.n_scored * sizeof *scored);
        r->o.max_tokens = r->o.n_scored;
        r->o.grammar = NULL;
    }
    if (r->o.n_stop_tokens == 0) return SP_OK;
    int32_t *tokens = sp_arena_take(&r->arena, (size_t)r->o.n_stop_tokens, sizeof *tokens);
    if (!tokens) return sp_fail_nomem("stop tokens");
    memcpy(tokens, r->o.stop_tokens, (size_t)r->o.n_stop_tokens * sizeof *tokens);
    r->o.stop_tokens = tokens;
    return SP_OK;
}

/* copy_text -- into the request's arena; NULL stays NULL. */
static sp_err copy_text(sp_request *r, const char *text, const char *what, const char **out)
{
    *out = NULL;
    if (!text) return SP_OK;
    size_t n = strlen(text) + 1;
    char *copy = sp_arena_take(&r->arena, n, 1);
    if (!copy) return sp_fail_nomem(what);
    memcpy(copy, text, n);
    *out = copy;
    return SP_OK;
}

/* follow_context -- uses the context's settings, limited by what its guard allows now. */
static void follow_context(sp_request *r)
{
    sp_guard *g = r->ctx->guard;
    r->reuse = r->ctx->defaults.reuse;
    if (!g) return;
    sp_guard_steer(g, &r->reuse);
    r->check.first =
        r->answer.max_tokens > 0 && !r->o.n_scored && !r->measure.on_logits && sp_guard_samples(g, &r->reuse);
}

/* follow_decode -- the same for sparse decoding. */
static void follow_decode(sp_request *r)
{
    if (!r->answer.sparse || !r->ctx->guard || !r->follow.reuse || !r->follow.decode) return;
    if (sp_guard_steer_decode(r->ctx->guard, &r->check.sparse)) return;
    sp_sparse_destroy(r->answer.sparse);
    r->answer.sparse = NULL;
    r->account.result.decode = (sp_decode_report){.full = "guard", .keys_read = 1};
}

/* choose_policy -- as the options say. A chunk at the very end is followed by nothing whose logits
 * could begin the answer: it is computed like a question. */
static sp_err choose_policy(sp_request *r, const sp_reuse_policy *policy)
{
    sp_segment *last = &r->prompt.segs[r->prompt.n_segs - 1];
    if (last->kind == SP_SEG_CHUNK && r->answer.max_tokens > 0) last->kind = SP_SEG_TEXT;
    r->prompt.n_head = sp_reuse_n_head(r->prompt.segs, r->prompt.n_segs);
    r->follow.reuse = !policy && !r->o.reuse;
    if (policy)
        r->reuse = (sp_reuse_choice){.policy = policy};
    else if (r->o.reuse)
        SP_TRY(sp_reuse_choose(r->o.reuse, &r->reuse));
    r->o.reuse = NULL; /* the caller's */
    return SP_OK;
}

/* choose_decode -- as the options say; internal policies and requests without an answer have full attention. */
static sp_err choose_decode(sp_request *r, bool internal)
{
    sp_decode_choice choice = r->ctx->defaults.decode;
    if (r->o.decode) SP_TRY(sp_decode_parse(r->o.decode, &choice));
    r->follow.decode = !r->o.decode;
    r->o.decode = NULL; /* the caller's */
    choice.o.heads = r->ctx->heads;
    if (internal) choice.sparse = false;
    r->answer.window = internal || r->answer.max_tokens == 0 ? 0 : choice.window;
    return choice.sparse && r->answer.max_tokens > 1
               ? sp_sparse_create(&choice.o, &r->answer.sparse)
               : SP_OK;
}

/* take_lists -- allocates the arrays with an entry a segment. */
static sp_err take_lists(sp_request *r)
{
    size_t n = (size_t)r->prompt.n_segs;
    r->prompt.ids = sp_arena_take(&r->arena, n, sizeof *r->prompt.ids);
    r->look.found = sp_arena_take(&r->arena, n, sizeof *r->look.found);
    if (!r->prompt.ids || !r->look.found)
        return sp_fail_nomem("a request");
    for (int i = 0; i < r->prompt.n_segs; i++) r->prompt.ids[i] = r->prompt.segs[i].id;
    return SP_OK;
}

/* take_answer_lists -- allocates what decoding needs besides the sampler. */
static sp_err take_answer_lists(sp_request *r)
{
    const sp_tokenizer *t = r->ctx->model->tokenizer;
    int n_vocab = SP_MIN(sp_tokenizer_size(t), r->ctx->model->hp.n_vocab);
    r->o.top_logprobs = SP_MIN(r->o.top_logprobs, r->ctx->model->hp.n_vocab);
    if (r->o.on_token)
        r->answer.logprobs =
            sp_arena_take(&r->arena, (size_t)r->o.top_logprobs + 1, sizeof *r->answer.logprobs);
    if (r->o.on_token && !r->answer.logprobs)
        return sp_fail_nomem("a request's probabilities");
    for (int id = 0; r->o.min_tokens > 0 && id < n_vocab; id++)
        r->answer.n_ends += sp_tokenizer_is_end(t, id) || sp_request_stops_at(r, id);
    if (r->answer.n_ends == 0) return SP_OK;
    r->answer.ends = sp_arena_take(&r->arena, (size_t)r->answer.n_ends, sizeof *r->answer.ends);
    if (!r->answer.ends)
        return sp_fail_nomem("a request's end tokens");
    for (int id = 0, n = 0; id < n_vocab; id++)
        if (sp_tokenizer_is_end(t, id) || sp_request_stops_at(r, id)) r->answer.ends[n++] = id;
    return SP_OK;
}

static sp_err prepare(sp_request *r, const sp_prompt *p, const sp_reuse_policy *policy)
{
    sp_context *c = r->ctx;
    SP_TRY(copy_prompt(r, p));
    SP_TRY(copy_text(r, p->salt, "a request's salt", &r->prompt.salt));
    SP_TRY(copy_text(r, r->o.tenant ? r->o.tenant : p->salt, "a request's tenant", &r->o.tenant));
    r->prompt.n_tokens = p->n_tokens;
    r->place.waiting = (sp_waiting){.n_computed = p->n_tokens};
    r->prompt.end = sp_segments_end(r->prompt.segs, r->prompt.n_segs);
    r->answer.max_tokens = SP_MIN(r->o.max_tokens, c->limits.n_ctx - p->n_tokens);
    SP_TRY(take_lists(r));
    SP_TRY(take_answer_lists(r));
    SP_TRY(choose_policy(r, policy));
    SP_TRY(choose_decode(r, policy != NULL || r->o.n_scored > 0));
    SP_TRY(sp_vec_reserve(&r->answer.tokens, (size_t)r->answer.max_tokens));
    complete_sampling(&r->o.sampling);
    SP_TRY(sp_sampler_init(&r->answer.sampler, &r->o.sampling, c->model->hp.n_vocab));
    for (int i = 0; i < r->prompt.n_segs; i++)
        for (int32_t t = 0; t < r->prompt.segs[i].n; t++)
            sp_sampler_accept(&r->answer.sampler, r->prompt.segs[i].tokens[t]);
    sp_text_stream_init(&r->answer.stream, c->model->tokenizer);
    /* a continued text keeps its first blank; an answer, or a text from nothing, begins without */
    const sp_segment *last = &r->prompt.segs[r->prompt.n_segs - 1];
    r->answer.stream.started = (p->continues || last->kind == SP_SEG_TEXT) &&
                               last->tokens[last->n - 1] != sp_tokenizer_bos(c->model->tokenizer);
    return SP_OK;
}

enum { MOST_COMPARED = 2048 };

/* n_different -- tokens of the prompt without segments that it has already; 0: too many to compare. */
static int64_t n_different(const sp_request *r)
{
    int64_t n = 0;
    if (r->prompt.n_segs > MOST_COMPARED) return 0;
    for (int i = 0, k; i < r->prompt.n_segs; i++) {
        for (k = 0; k < i && !sp_digest_eq(&r->prompt.ids[k], &r->prompt.ids[i]); k++) continue;
        if (k == i) n += r->prompt.segs[i].n;
    }
    return n;
}

/* check_context_memory -- the question reads all of the prompt, a layer at a time: if that can never fit, nothing is
 * computed first. Errors: SP_E_LIMIT. */
static sp_err check_context_memory(const sp_request *r)
{
    const sp_offload *o = r->ctx->offload;
    if (!o || r->answer.window) return SP_OK;
    const int64_t most = sp_offload_max_context(o);
    if (sp_blocks_for(r->prompt.n_tokens) <= most || n_different(r) <= most * SP_BLOCK_TOKENS) return SP_OK;
    return sp_fail(SP_E_LIMIT, "prompt of %d tokens: a layer of its keys and values exceeds the context memory, which "
                   "can hold one of %lld tokens", r->prompt.n_tokens, (long long)most * SP_BLOCK_TOKENS);
}

/* check_kv_memory -- a lower bound on what the request needs; sp_request_reserve knows the rest. */
static sp_err check_kv_memory(const sp_request *r)
{
    const int64_t all = sp_kv_pool_n_blocks(r->ctx->pool);
    if (sp_blocks_for(r->prompt.n_tokens + r->answer.max_tokens) <= all) return SP_OK;
    const int64_t n_blocks = sp_blocks_for((int32_t)n_different(r) + r->answer.max_tokens);
    return n_blocks > all ? sp_request_fail_to_fit(r, n_blocks) : SP_OK;
}

void sp_request_discard(sp_request *r)
{
    r->state = SP_REQ_FINISHED;
    r->done = true;
    sp_request_destroy(r);
}

sp_err sp_request_create(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                         const sp_reuse_policy *policy, sp_request **out)
{
    SP_TRY(check_submit(c, p, o));
    sp_request *r = SP_NEW(sp_request);
    if (!r) return sp_fail_nomem("a request");
    *r = (sp_request){.ctx = c,
                      .o = *o,
                      .look.at = -1,
                      .place.counted_at = -1,
                      .loads.fetched_at = -1,
                      .account.submit_us = sp_clock_us()};
    if (o->background) r->o.priority = INT_MAX;
    sp_arena_init(&r->arena);
    sp_arena_init(&r->look.arena);
    sp_err err = prepare(r, p, policy);
    if (err == SP_OK) err = check_context_memory(r);
    if (err == SP_OK) err = check_kv_memory(r);
    if (err != SP_OK) {
        sp_request_discard(r);
        return err;
    }
    *out = r;
    return SP_OK;
}

static bool has_tree(const sp_request *r)
{
    for (int i = 0; i < r->prompt.n_segs; i++)
        if (r->prompt.segs[i].kind == SP_SEG_NODE) return true;
    return false;
}

/* A prompt without chunks has prefixes only. Policies that use chunks at any position know lists
 * only; the nodes of trees are found exactly. */
void sp_request_enter(sp_request *r)
{
    if (r->follow.reuse) follow_context(r);
    follow_decode(r);
    bool has_chunk = r->prompt.n_head < r->prompt.n_segs;
    bool exact_only = !has_chunk || has_tree(r);
    if (exact_only && !r->reuse.policy->exact) r->reuse.policy = sp_reuse_policy_default();
    if (r->answer.window) {
        r->reuse.policy = &sp_reuse_window;
        r->check.first = false;
    }
    if (sp_shares_join(&r->ctx->waiting.shares, r->o.tenant, &r->place.share) != SP_OK)
        r->place.share =
            NULL; /* without memory for its counter, a tenant counts as one that had nothing */
    sp_queue_enter(r);
}

sp_err sp_request_submit(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                         sp_request **out)
{
    SP_NEED(c);
    SP_NEED(p);
    SP_NEED(out);
    const sp_request_opts defaults = {0};
    SP_TRY(sp_request_create(c, p, o ? o : &defaults, NULL, out));
    sp_driver_submit(c, *out);
    return SP_OK;
}

sp_sampling sp_sampling_default(void)
{
    return (sp_sampling){.top_p = 1, .repeat_penalty = 1, .repeat_last = 64};
}
