/* step.c -- what a request does when it starts, when a plan is computed, and when logits arrive. */
#include "base/clock.h"
#include "serve/request/request.h"

/* note_use -- updates the ledger's order of use and the worth of copies. */
static void note_use(sp_request *r)
{
    sp_context *c = r->ctx;
    for (int i = 0; i < r->prompt.n_segs; i++) {
        const sp_copy *copy = r->look.found[i].copy;
        if (copy && c->tiers) sp_tiers_replicate(c->tiers, copy);
        if (!copy || copy->facts.kind == SP_COPY_PATH) continue;
        sp_ledger_use(c->ledger, copy, r->look.found[i].cfo, c->now);
        sp_tiers_use(c->tiers, copy);
    }
    sp_ledger_tick(c->ledger, sp_clock_us());
    for (int i = 0; i < r->prompt.n_segs; i++) sp_request_retain(r, i, r->look.found[i].copy);
    for (int i = r->prompt.n_segs - 1; i >= 0; i--) { /* the root becomes the newest */
        const sp_copy *copy = r->look.found[i].copy;
        if (copy && copy->facts.kind == SP_COPY_PATH) sp_tiers_use(c->tiers, copy);
    }
}

/* find_and_load -- looks up and loads; *ready: everything that was found can be read. */
static sp_err find_and_load(sp_request *r, bool *ready)
{
    if (r->state == SP_REQ_QUEUED) SP_TRY(sp_request_find(r));
    SP_TRY(sp_request_load(r, ready));
    if (*ready && r->state == SP_REQ_LOADING)
        r->look.at = sp_ledger_stats_of(r->ctx->ledger).n_added;
    r->state = *ready ? SP_REQ_QUEUED : SP_REQ_LOADING;
    return SP_OK;
}

sp_err sp_request_start(sp_request *r, bool *started)
{
    sp_context *c = r->ctx;
    bool ready, fits;
    *started = false;
    SP_TRY(find_and_load(r, &ready));
    if (!ready) return SP_OK;
    SP_TRY(sp_request_plan_first(r));
    SP_TRY(sp_request_reserve(r, &fits));
    if (!fits) return SP_OK;
    *started = true;
    note_use(r);
    r->account.start_us = sp_clock_us();
    c->waiting.first = r->next;
    sp_request_append(&c->running, r);
    c->n_running++;
    c->step.n_back_running += r->o.background;
    r->state = SP_REQ_PREFILL;
    c->loads.n_early += r->loads.state == SP_LOADS_EARLY;
    if (r->plans.role == SP_PLAN_DONE) sp_request_finish(r, SP_FINISH_LENGTH, SP_OK);
    return SP_OK;
}

/* next_plan -- keeps the copies of the plan and binds the next one; *done: it was the
 * last. */
static sp_err next_plan(sp_request *r, bool *done)
{
    r->plans.n_done[r->plans.role]++;
    SP_TRY(sp_request_keep(r));
    *done = r->plans.role == SP_PLAN_ANSWER;
    if (*done) {
        r->plans.now.gate = (sp_gate){0}; /* decoding has nothing to measure */
        return SP_OK;
    }
    if (r->plans.role == SP_PLAN_FILL) SP_TRY(sp_request_find_again(r, true, true));
    SP_TRY(sp_request_plan_next(r));
    *done = r->plans.role == SP_PLAN_DONE;
    return SP_OK;
}

static void begin_decoding(sp_request *r, const float *logits)
{
    r->state = SP_REQ_DECODE;
    atomic_fetch_add(&r->ctx->n_answering, 1);
    r->answer.replays = false;
    if (r->ctx->offload) r->answer.offload_then = sp_offload_stats_of(r->ctx->offload);
    r->plans.now.sparse = r->answer.sparse;
    r->plans.now.observer = r->measure.observer;
    sp_request_cite(r);
    sp_request_take_token(r, logits);
}

static void prompt_done(sp_request *r, const float *logits)
{
    if (r->must)
        r->state = SP_REQ_STORING;
    else if (r->o.n_scored)
        sp_request_score_begin(r, logits);
    else if (r->answer.max_tokens == 0)
        sp_request_finish(r, SP_FINISH_LENGTH, SP_OK);
    else if (!r->answer.tokens.n)
        begin_decoding(r, logits);
    else { /* it was restarted */
        sp_err err = sp_request_replay(r);
        if (err != SP_OK) sp_request_finish(r, SP_FINISH_ERROR, err);
    }
}

void sp_request_computed(sp_request *r, int n, const float *logits)
{
    bool decodes = r->state == SP_REQ_DECODE;
    sp_share_serve(r->place.share, decodes ? 0 : n, decodes ? n : 0);
    r->plans.next_todo += n;
    if (r->ctx->offload) /* so that they can leave memory while the prompt grows */
        sp_plan_seal_done(&r->plans.now, r->plans.next_todo - n, r->plans.next_todo);
    if (r->answer.n_scored) {
        sp_request_score(r, n, logits);
        return;
    }
    if (r->plans.next_todo < r->plans.now.n_todo) return; /* more of this plan to come */
    if (r->state == SP_REQ_DECODE) {
        sp_request_take_token(r, logits);
        return;
    }
    if (r->loads.state == SP_LOADS_EARLY && !sp_request_load_end(r)) {
        sp_request_start_over(r);
        return;
    }
    if (r->answer.replays) {
        begin_decoding(r, logits);
        return;
    }
    bool done = false;
    r->plans.n_computed = r->plans.now.n_todo;
    sp_err err = next_plan(r, &done);
    if (err != SP_OK)
        sp_request_finish(r, SP_FINISH_ERROR, err);
    else if (done)
        prompt_done(r, logits);
}

typedef struct views {
    sp_request *const *requests;
    int n;
    sp_request_view *out;
} views;

static sp_request_view view_of(const sp_request *r)
{
    static const sp_phase phases[] = {
        [SP_REQ_QUEUED] = SP_PHASE_WAITING, [SP_REQ_LOADING] = SP_PHASE_LOADING, [SP_REQ_PREFILL] = SP_PHASE_PROMPT,
        [SP_REQ_DECODE] = SP_PHASE_ANSWER,  [SP_REQ_STORING] = SP_PHASE_ANSWER,  [SP_REQ_FINISHED] = SP_PHASE_DONE,
    };
    const bool reads = r->state == SP_REQ_PREFILL, has_read = r->state > SP_REQ_PREFILL;
    return (sp_request_view){.phase = phases[r->state],
                             .n_done = reads ? r->plans.next_todo : has_read ? r->plans.n_computed : 0,
                             .n_todo = reads ? r->plans.now.n_todo : has_read ? r->plans.n_computed : 0,
                             .n_generated = (int)r->answer.tokens.n};
}

static sp_err look(sp_context *c, void *arg)
{
    const views *v = arg;
    SP_UNUSED(c);
    for (int i = 0; i < v->n; i++) v->out[i] = view_of(v->requests[i]);
    return SP_OK;
}

void sp_requests_look(sp_request *const *requests, int n, sp_request_view *out)
{
    views v = {requests, n, out};
    if (n < 1 || !requests || !requests[0] || !out) return;
    if (sp_driver_call(requests[0]->ctx, look, &v) != SP_OK) assert(false); /* it has no error */
}

void sp_request_progress(sp_request *r, int *done, int *total)
{
    sp_request_view v = {0};
    sp_requests_look(&r, 1, &v);
    if (done) *done = v.n_done;
    if (total) *total = v.n_todo;
}

void sp_request_settle(sp_request *r)
{
    const sp_tiers *t = r->ctx->tiers;
    if (r->state != SP_REQ_STORING || sp_tiers_is_storing(t, r->must) || sp_tiers_is_sharing(t, r->must)) return;
    sp_err err = sp_tiers_stored(t, r->must);
    sp_request_finish(r, err == SP_OK ? SP_FINISH_LENGTH : SP_FINISH_ERROR, err);
}
