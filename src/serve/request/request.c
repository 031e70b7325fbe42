/* request.c -- how a request ends: its result, and what it gives back. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "serve/request/request.h"

void sp_request_append(sp_request **list, sp_request *r)
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

static bool is_running(const sp_request *r)
{
    return r->state == SP_REQ_PREFILL || r->state == SP_REQ_DECODE || r->state == SP_REQ_STORING;
}

void sp_request_show(sp_request *r, size_t upto)
{
    if (upto <= r->answer.n_shown) return;
    size_t from = r->answer.n_shown;
    r->answer.n_shown = upto;
    if (r->o.on_text && !r->o.on_text(r->answer.text.v + from, upto - from, r->o.user))
        r->cancel = true;
}

/* end_sparse -- before its plan is given up. */
static void end_sparse(sp_request *r)
{
    r->plans.now.sparse = NULL;
    sp_sparse_destroy(r->answer.sparse);
    r->answer.sparse = NULL;
}

/* cold_us -- Pre: the rest of the result is there. */
static int64_t cold_us(const sp_request *r)
{
    const sp_result *res = &r->account.result;
    if (!res->ttft_us) return 0;
    if (!res->n_reused && !res->n_recomputed) return res->ttft_us - res->queue_us;
    return (int64_t)sp_pace_us(&r->ctx->pace, res->n_prompt);
}

/* fill_result -- text and times. */
static void fill_result(sp_request *r, sp_finish why, sp_err err)
{
    int64_t now = sp_clock_us();
    sp_result *res = &r->account.result;
    sp_request_report_decode(r);
    end_sparse(r);
    if (sp_vec_reserve(&r->answer.text, 1) == SP_OK) r->answer.text.v[r->answer.text.n] = '\0';
    res->finish = why;
    res->err = err;
    res->detail = r->account.detail;
    res->text = r->answer.text.v ? r->answer.text.v : "";
    res->tokens = r->answer.tokens.v;
    res->n_prompt = r->prompt.n_tokens;
    res->n_generated = (int)r->answer.tokens.n;
    res->queue_us = (r->account.start_us ? r->account.start_us : now) - r->account.submit_us;
    res->ttft_us = r->account.first_us ? r->account.first_us - r->account.submit_us : 0;
    res->decode_us = r->account.first_us ? now - r->account.first_us : 0;
    res->cold_us = cold_us(r);
    res->plan_us = r->plans.us;
    sp_request_report_citing(r);
}

/* stop_running -- removes the request from the list; it is in none afterwards. */
static void stop_running(sp_request *r)
{
    sp_context *c = r->ctx;
    sp_request_unreserve(r);
    unlink_request(&c->running, r);
    c->n_running--;
    c->step.n_back_running -= r->o.background;
    if (r->state == SP_REQ_DECODE) atomic_fetch_sub(&c->n_answering, 1);
}

void sp_request_finish(sp_request *r, sp_finish why, sp_err err)
{
    sp_context *c = r->ctx;
    if (err != SP_OK)
        snprintf(r->account.detail, sizeof r->account.detail, "%s", sp_error_detail());
    if (is_running(r)) {
        if (why == SP_FINISH_CANCELED) sp_request_keep_begun(r);
        sp_request_keep_answer(r);
        sp_request_report(r);
        stop_running(r);
        r->holds_kv = r->measure.keep_kv && err == SP_OK;
    } else {
        unlink_request(&c->waiting.first, r);
    }
    sp_shares_leave(&c->waiting.shares, r->place.share);
    r->place.share = NULL;
    if (!r->holds_kv) sp_request_let_go(r);
    if (err == SP_OK && sp_text_stream_flush(&r->answer.stream, &r->answer.text) == SP_OK)
        sp_request_show(r, r->answer.text.n);
    r->state = SP_REQ_FINISHED;
    fill_result(r, why, err);
    sp_request_append(&c->finished, r);
}

/* requeue -- puts the request at the front of the queue and discards what it has computed. */
static void requeue(sp_request *r)
{
    sp_context *c = r->ctx;
    stop_running(r);
    sp_request_let_go(r);
    memset(r->plans.n_done, 0, sizeof r->plans.n_done);
    r->plans.next_todo = 0;
    r->answer.n_scored = 0;
    r->account.compute_us = 0;
    r->loads.since_us = 0;
    r->state = SP_REQ_QUEUED;
    r->next = c->waiting.first;
    c->waiting.first = r;
}

void sp_request_start_over(sp_request *r)
{
    r->loads.state = SP_LOADS_READY_ONLY;
    r->ctx->loads.n_late++;
    requeue(r);
}

enum { MOST_RESTARTS = 3 };

void sp_request_restart(sp_request *r, sp_err err)
{
    const bool may = (r->state == SP_REQ_PREFILL || r->state == SP_REQ_DECODE) && r->n_restarts < MOST_RESTARTS &&
                     !r->measure.observer.look && !r->measure.on_logits;
    if (!may || (r->answer.sparse && sp_sparse_renew(&r->answer.sparse) != SP_OK)) {
        sp_request_finish(r, SP_FINISH_ERROR, err);
        return;
    }
    r->n_restarts++;
    r->answer.replays = r->check.sparse = false;
    if (r->loads.state == SP_LOADS_EARLY) r->loads.state = SP_LOADS_ANY;
    requeue(r);
}

void sp_request_announce(sp_context *c)
{
    for (sp_request *r; (r = c->finished);) {
        c->finished = r->next;
        sp_driver_finished(c, r); /* its owner may destroy it now */
    }
}

static void free_request(sp_request *r)
{
    end_sparse(r);
    sp_sampler_fini(&r->answer.sampler);
    sp_grammar_stop(r->answer.grammar);
    sp_vec_fini(&r->answer.text);
    sp_vec_fini(&r->answer.tokens);
    sp_arena_fini(&r->look.arena);
    sp_arena_fini(&r->arena);
    sp_free(r);
}

static sp_err destroy(sp_context *c, void *arg)
{
    sp_request *r = arg;
    if (r->state != SP_REQ_FINISHED) sp_request_finish(r, SP_FINISH_CANCELED, SP_OK);
    unlink_request(&c->finished, r);
    if (r->holds_kv) sp_request_let_go(r);
    free_request(r);
    return SP_OK;
}

void sp_request_destroy(sp_request *r)
{
    if (!r) return;
    if (sp_driver_is_done(r->ctx, r) && !r->holds_kv)
        free_request(r);
    else if (sp_driver_call(r->ctx, destroy, r) != SP_OK)
        assert(false); /* it has no error */
}

void sp_request_cancel(sp_request *r)
{
    if (!r) return;
    r->cancel = true;
    r->ctx->waiting.has_canceled = true;
    sp_driver_wake(r->ctx);
}

int sp_context_n_decoding(const sp_context *c)
{
    return c ? atomic_load(&c->n_answering) : 0;
}

const sp_result *sp_request_result(const sp_request *r)
{
    return r ? &r->account.result : NULL;
}
