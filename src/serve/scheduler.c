/* scheduler.c -- the queue, admission, and steps over all running requests (continuous batching).
 *
 * A step holds one token of each decoding request and fills the rest of n_batch with pieces of
 * prompts, oldest first; so a long prompt never stops the answers of others. */
#include <string.h>

#include "base/clock.h"
#include "serve/guard.h"

/* -- submission ----------------------------------------------------------------------------- */

static sp_err check_submit(const sp_context *c, const sp_prompt *p, const sp_request_opts *o)
{
    if (!c->model->tokenizer)
        return sp_fail(SP_E_ARG, "%s: holds no tokenizer, and an answer needs one", c->model->path);
    if (p->n_tokens < 1) return sp_fail(SP_E_ARG, "the prompt is empty");
    if (o->max_tokens < 0) return sp_fail(SP_E_ARG, "max_tokens: %d", o->max_tokens);
    if (o->n_stop < 0 || (o->n_stop && !o->stop))
        return sp_fail(SP_E_ARG, "stop: %d strings", o->n_stop);
    if (p->n_tokens > c->n_ctx)
        return sp_fail(SP_E_CONTEXT, "prompt of %d tokens, the context holds %d", p->n_tokens,
                       c->n_ctx);
    if (o->max_tokens && p->n_tokens == c->n_ctx)
        return sp_fail(SP_E_CONTEXT,
                       "prompt of %d tokens fills the context and leaves no room for an answer",
                       p->n_tokens);
    return SP_OK;
}

/* copy_prompt -- the request's own copy of segments, tokens and stop strings. */
static sp_err copy_prompt(sp_request *r, const sp_prompt *p)
{
    r->n_segs = (int)p->segs.n;
    r->segs = sp_arena_take(&r->arena, p->segs.n, sizeof *r->segs);
    const char **stop = sp_arena_take(&r->arena, (size_t)r->o.n_stop, sizeof *stop);
    if (!r->segs || !stop) return sp_fail_nomem(p->segs.n * sizeof *r->segs, "a request");
    for (size_t i = 0; i < p->segs.n; i++) {
        r->segs[i] = p->segs.v[i];
        size_t n = (size_t)r->segs[i].n;
        int32_t *tokens = sp_arena_take(&r->arena, n, sizeof *tokens);
        if (!tokens) return sp_fail_nomem(n * sizeof *tokens, "a request");
        memcpy(tokens, p->segs.v[i].tokens, n * sizeof *tokens);
        r->segs[i].tokens = tokens;
    }
    for (int i = 0; i < r->o.n_stop; i++) {
        size_t n = strlen(r->o.stop[i]);
        char *copy = sp_arena_take(&r->arena, n + 1, 1);
        if (!copy) return sp_fail_nomem(n, "a stop string");
        memcpy(copy, r->o.stop[i], n);
        stop[i] = copy;
    }
    r->o.stop = stop;
    return SP_OK;
}

/* follow_context -- the context's settings, as far as its guard lets them. */
static void follow_context(sp_request *r)
{
    sp_guard *g = r->ctx->guard;
    r->reuse = r->ctx->reuse;
    if (!g) return;
    sp_guard_steer(g, &r->reuse);
    r->guarded = r->max_tokens > 0 && sp_guard_samples(g, &r->reuse);
}

/* choose_policy -- a prompt without chunks has prefixes only. A chunk at the very end has nothing
 * behind it that could begin the answer: it is computed like a question. */
static sp_err choose_policy(sp_request *r)
{
    sp_segment *last = &r->segs[r->n_segs - 1];
    if (last->kind == SP_SEG_CHUNK && r->max_tokens > 0) last->kind = SP_SEG_TEXT;
    r->n_head = sp_reuse_n_head(r->segs, r->n_segs);
    if (r->o.reuse)
        SP_TRY(sp_reuse_choose(r->o.reuse, &r->reuse));
    else
        follow_context(r);
    r->o.reuse = NULL; /* the caller's */
    if (r->n_head == r->n_segs && (r->reuse.policy->uses_chunks || r->reuse.policy->reorders))
        return sp_reuse_find("prefix", &r->reuse.policy);
    return SP_OK;
}

/* take_lists -- what a request notes of each segment. */
static sp_err take_lists(sp_request *r)
{
    size_t n = (size_t)r->n_segs;
    r->ids = sp_arena_take(&r->arena, n, sizeof *r->ids);
    r->chunks = sp_arena_take(&r->arena, n, sizeof *r->chunks);
    r->known = sp_arena_take(&r->arena, n, sizeof *r->known);
    r->cfo = sp_arena_take(&r->arena, n, sizeof *r->cfo);
    r->had = sp_arena_take(&r->arena, n, sizeof *r->had);
    r->sources = sp_arena_take(&r->arena, n, sizeof *r->sources);
    r->misses = sp_arena_take(&r->arena, n, sizeof *r->misses);
    if (!r->ids || !r->chunks || !r->known || !r->cfo || !r->had || !r->sources || !r->misses)
        return sp_fail_nomem(n * sizeof *r->ids, "a request");
    for (int i = 0; i < r->n_segs; i++) r->ids[i] = r->segs[i].id;
    return SP_OK;
}

static sp_err prepare(sp_request *r, const sp_prompt *p)
{
    sp_context *c = r->ctx;
    SP_TRY(copy_prompt(r, p));
    r->n_prompt = p->n_tokens;
    r->max_tokens = SP_MIN(r->o.max_tokens, c->n_ctx - p->n_tokens);
    SP_TRY(take_lists(r));
    SP_TRY(choose_policy(r));
    SP_TRY(sp_vec_reserve(&r->tokens, (size_t)r->max_tokens));
    SP_TRY(sp_sampler_init(&r->sampler, &r->o.sampling, c->model->hp.n_vocab));
    for (int i = 0; i < r->n_segs; i++)
        for (int32_t t = 0; t < r->segs[i].n; t++)
            sp_sampler_accept(&r->sampler, r->segs[i].tokens[t]);
    sp_text_stream_init(&r->stream, c->model->tokenizer);
    /* a text that goes on keeps its first blank; an answer, or a text from nothing, begins without
     */
    const sp_segment *last = &r->segs[r->n_segs - 1];
    r->stream.started = last->kind == SP_SEG_TEXT &&
                        last->tokens[last->n - 1] != sp_tokenizer_bos(c->model->tokenizer);
    return SP_OK;
}

static void free_request(sp_request *r)
{
    sp_sampler_fini(&r->sampler);
    sp_vec_fini(&r->text);
    sp_vec_fini(&r->tokens);
    sp_arena_fini(&r->lookup);
    sp_arena_fini(&r->arena);
    sp_free(r);
}

static void append(sp_request **list, sp_request *r)
{
    while (*list) list = &(*list)->next;
    r->next = NULL;
    *list = r;
}

static void unlink_request(sp_request **list, const sp_request *r)
{
    while (*list && *list != r) list = &(*list)->next;
    if (*list) *list = r->next;
}

sp_err sp_request_submit_as(sp_context *c, const sp_prompt *p, const sp_request_opts *o, bool fuse,
                            sp_request **out)
{
    SP_TRY(check_submit(c, p, o));
    sp_request *r = SP_NEW(sp_request);
    if (!r) return sp_fail_nomem(sizeof *r, "a request");
    *r = (sp_request){.ctx = c, .o = *o, .fuse = fuse, .submit_us = sp_clock_us()};
    sp_arena_init(&r->arena);
    sp_arena_init(&r->lookup);
    sp_err err = prepare(r, p);
    if (err != SP_OK) {
        free_request(r);
        return err;
    }
    append(&c->queue, r);
    *out = r;
    return SP_OK;
}

sp_err sp_request_submit(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                         sp_request **out)
{
    return sp_request_submit_as(c, p, o, false, out);
}

void sp_request_cancel(sp_request *r)
{
    r->cancel = true;
}

static void leave(sp_request *r, sp_finish why, sp_err err)
{
    sp_context *c = r->ctx;
    if (r->state == SP_REQ_QUEUED) unlink_request(&c->queue, r);
    if (r->state == SP_REQ_PREFILL || r->state == SP_REQ_DECODE) {
        unlink_request(&c->running, r);
        c->n_running--;
    }
    sp_request_finish(r, why, err);
}

void sp_request_destroy(sp_request *r)
{
    if (!r) return;
    if (r->state != SP_REQ_FINISHED) leave(r, SP_FINISH_CANCELED, SP_OK);
    if (r->holds_kv) sp_request_let_go(r);
    free_request(r);
}

const sp_result *sp_request_result(const sp_request *r)
{
    return &r->result;
}

/* -- a step --------------------------------------------------------------------------------- */

static void drop_canceled(sp_request *list)
{
    for (sp_request *r = list, *next; r; r = next) {
        next = r->next;
        if (r->cancel) leave(r, SP_FINISH_CANCELED, SP_OK);
    }
}

/* admit -- from the queue, oldest first, as long as slots and KV memory are there. */
static void admit(sp_context *c)
{
    while (c->queue && c->n_running < c->max_requests) {
        sp_request *r = c->queue;
        bool fits = false;
        sp_err err = sp_request_begin(r, &fits);
        if (err != SP_OK) {
            leave(r, SP_FINISH_ERROR, err);
            continue;
        }
        if (!fits) return;
        c->queue = r->next;
        append(&c->running, r);
        c->n_running++;
        r->state = SP_REQ_PREFILL;
        if (r->plan.n_todo == 0)
            leave(r, SP_FINISH_LENGTH, SP_OK); /* a warm-up that found all warm */
    }
}

static int add_slice(sp_context *c, int n_slices, sp_request *r, int n_rows)
{
    bool last =
        r->next_todo + n_rows == r->plan.n_todo && r->max_tokens > 0 && r->stage == SP_STAGE_ANSWER;
    c->sliced[n_slices] = r;
    c->slices[n_slices] =
        (sp_slice){.plan = &r->plan,
                   .from = r->next_todo,
                   .n = n_rows,
                   .want = last ? SP_WANT_LAST : SP_WANT_NONE,
                   .logits = c->logits + (size_t)n_slices * (size_t)c->model->hp.n_vocab};
    return n_slices + 1;
}

static int compose(sp_context *c)
{
    int n_slices = 0, room = c->n_batch;
    for (sp_request *r = c->running; r; r = r->next)
        if (r->state == SP_REQ_DECODE) {
            n_slices = add_slice(c, n_slices, r, 1);
            room--;
        }
    for (sp_request *r = c->running; r && room > 0; r = r->next)
        if (r->state == SP_REQ_PREFILL) {
            int n = SP_MIN(room, r->plan.n_todo - r->next_todo);
            n_slices = add_slice(c, n_slices, r, n);
            room -= n;
        }
    return n_slices;
}

/* advance -- the plan that was running is computed: another one, the first token, or the next. */
static void advance(sp_request *r, const float *logits)
{
    bool ready = true;
    sp_err err = r->state == SP_REQ_PREFILL ? sp_request_stage_done(r, &ready) : SP_OK;
    if (err != SP_OK) {
        sp_request_finish(r, SP_FINISH_ERROR, err);
    } else if (ready) {
        r->state = SP_REQ_DECODE;
        if (r->max_tokens > 0)
            sp_request_take_token(r, logits);
        else
            sp_request_finish(r, SP_FINISH_LENGTH, SP_OK);
    }
}

static void deliver(sp_context *c, int n_slices)
{
    for (int s = 0; s < n_slices; s++) {
        sp_request *r = c->sliced[s];
        r->next_todo += c->slices[s].n;
        if (r->next_todo < r->plan.n_todo) continue; /* more of this plan to come */
        advance(r, c->slices[s].logits);
        if (r->state == SP_REQ_FINISHED) {
            unlink_request(&c->running, r);
            c->n_running--;
        }
    }
}

sp_err sp_context_step(sp_context *c, bool *busy)
{
    drop_canceled(c->queue);
    drop_canceled(c->running);
    if (!c->queue && !c->running) sp_guard_step(c);
    admit(c);
    int n_slices = compose(c);
    sp_err err = n_slices ? sp_engine_step(c->engine, c->slices, n_slices) : SP_OK;
    if (err == SP_OK)
        deliver(c, n_slices);
    else
        for (int s = 0; s < n_slices; s++) leave(c->sliced[s], SP_FINISH_ERROR, err);
    *busy = c->running || c->queue || sp_guard_busy(c->guard);
    return err;
}

sp_err sp_request_run(sp_context *c, sp_request **r)
{
    bool busy = true;
    sp_err err = SP_OK;
    const sp_result *res = &(*r)->result;
    while (err == SP_OK && (*r)->state != SP_REQ_FINISHED) err = sp_context_step(c, &busy);
    if (err == SP_OK && res->finish == SP_FINISH_ERROR) err = sp_fail(res->err, "%s", res->detail);
    if (err == SP_OK) return SP_OK;
    sp_request_destroy(*r);
    *r = NULL;
    return err;
}

sp_err sp_generate(sp_context *c, const sp_prompt *p, const sp_request_opts *o, sp_request **out)
{
    sp_request *r;
    SP_TRY(sp_request_submit(c, p, o, &r));
    SP_TRY(sp_request_run(c, &r));
    *out = r;
    return SP_OK;
}

sp_sampling sp_sampling_default(void)
{
    return (sp_sampling){.top_p = 1, .repeat_penalty = 1, .repeat_last = 64};
}
