/* scheduler.c -- the queue, admission, and steps over all running requests (continuous batching).
 *
 * A step holds one token of each decoding request and fills the rest of n_batch with pieces of
 * prompts, oldest first; so a long prompt never stops the answers of others. While requests decode, these pieces are
 * as long as the step's target time allows (serve/queue/budget.h). Requests in the background get steps that have no
 * other rows, and a tenth of the time of other steps. A prompt whose copies are
 * still loading is left out of a step in which others decode. A request starts once the step has
 * room for its tokens, so that it finds the copies of earlier requests. A step with nothing
 * to compute waits for the tiers if a request does. */
#include "base/need.h"
#include "base/clock.h"
#include "serve/queue/budget.h"
#include "serve/request/queue.h"
#include "serve/request/request.h"

static void drop_canceled(sp_context *c)
{
    for (sp_request *r = c->running, *next; r; r = next) {
        next = r->next;
        if (r->cancel) sp_request_finish(r, SP_FINISH_CANCELED, SP_OK);
    }
}

static bool any_decodes(const sp_context *c)
{
    const sp_request *r = c->running;
    while (r && r->state != SP_REQ_DECODE) r = r->next;
    return r != NULL;
}

static bool is_early(const sp_request *r)
{
    return r->loads.state == SP_LOADS_EARLY;
}

/* n_rows -- tokens of a running request that the next step can compute. */
static int n_rows(sp_request *r, bool others_decode)
{
    if (r->state == SP_REQ_DECODE) return 1;
    if (r->state != SP_REQ_PREFILL || (others_decode && is_early(r) && !sp_request_is_there(r)))
        return 0;
    return r->plans.now.n_todo - r->plans.next_todo;
}

/* has_room -- the next step computes tokens of one more request; those in the background do not count. */
static bool has_room(const sp_context *c)
{
    const bool decodes = any_decodes(c);
    int n = 0;
    for (sp_request *r = c->running; r && n < c->limits.n_batch; r = r->next)
        n += r->o.background ? 0 : n_rows(r, decodes);
    return n < c->limits.n_batch && c->n_running < c->limits.max_requests;
}

enum { BACK_SLOTS = 4 }; /* at most 1 in this many running requests is in the background */

/* admit -- from the queue, in its order, as long as slots, room in the step, copies and KV memory are
 * there. */
static void admit(sp_context *c)
{
    while (c->waiting.first && has_room(c)) {
        bool started;
        if (!sp_queue_choose(c)) return;
        sp_request *r = c->waiting.first;
        if (r->o.background && c->step.n_back_running >= SP_MAX(1, c->limits.max_requests / BACK_SLOTS)) return;
        sp_context_look_ahead(c);
        sp_err err = sp_request_start(r, &started);
        if (err != SP_OK)
            sp_request_finish(r, SP_FINISH_ERROR, err);
        else if (!started)
            return;
    }
}

static int add_slice(sp_context *c, int n_slices, sp_request *r, int n_rows)
{
    bool last = r->plans.next_todo + n_rows == r->plans.now.n_todo && r->answer.max_tokens > 0 &&
                r->plans.role == SP_PLAN_ANSWER;
    const bool scores = r->answer.n_scored > 0;
    c->step.of[n_slices] = r;
    c->step.slices[n_slices] =
        (sp_slice){.plan = &r->plans.now,
                   .from = r->plans.next_todo,
                   .n = n_rows,
                   .want = scores ? SP_WANT_ALL : last ? SP_WANT_LAST : SP_WANT_NONE,
                   .await = r->state == SP_REQ_PREFILL ? sp_request_awaits(r) : (sp_await){0},
                   .logits = c->step.logits + (size_t)c->step.n_logits * (size_t)c->model->hp.n_vocab};
    c->step.n_logits += scores ? n_rows : last;
    c->step.n_scored += scores ? n_rows : 0;
    return n_slices + 1;
}

/* add_slices -- of the running requests in a state, oldest first, as *room allows. */
static int add_slices(sp_context *c, int n_slices, sp_request_state state, bool background, int *room)
{
    const bool decodes = any_decodes(c);
    for (sp_request *r = c->running; r && *room > 0; r = r->next) {
        const bool is_one = r->state == state && r->o.background == background;
        int n = is_one ? SP_MIN(*room, n_rows(r, decodes)) : 0;
        if (r->answer.n_scored) n = SP_MIN(n, SP_SCORED_ROWS - c->step.n_scored);
        if (n > 0 && c->offload && !sp_offload_add_slice(c->offload, &r->plans.now, &n)) n = 0;
        if (n > 0) n_slices = add_slice(c, n_slices, r, n);
        *room -= n;
    }
    return n_slices;
}

enum { BACK_LEAST = 16 /* rows: fewer make bad use of a pass over the weights */ };

/* rows_in_back -- what requests in the background may compute beside n_front others. */
static int rows_in_back(const sp_context *c, int n_front, int room)
{
    if (n_front == 0) return room;
    const double rows = c->loads.token_us > 0 ? c->step.back_us / c->loads.token_us : 0;
    return rows >= BACK_LEAST ? (rows < room ? (int)rows : room) : 0;
}

static int compose(sp_context *c)
{
    int room = c->limits.n_batch;
    c->step.n_logits = c->step.n_scored = 0;
    if (c->offload) sp_offload_begin_step(c->offload);
    int n_slices = add_slices(c, 0, SP_REQ_DECODE, false, &room);
    c->step.n_decoding = n_slices; /* a token each */
    if (room > 0) room = sp_budget_rows(&c->step.budget, n_slices, room, c->loads.token_us);
    n_slices = add_slices(c, n_slices, SP_REQ_PREFILL, false, &room);
    c->step.n_front = n_slices;
    room = SP_MIN(room, rows_in_back(c, n_slices, room));
    c->step.n_back = room;
    n_slices = add_slices(c, n_slices, SP_REQ_DECODE, true, &room);
    n_slices = add_slices(c, n_slices, SP_REQ_PREFILL, true, &room);
    c->step.n_back -= room;
    return n_slices;
}

#define BACK_MOST_US 100000.0 /* time that can be saved up for requests in the background */

enum { MANY_TOKENS = 16 /* of a step whose time says what a token of a prompt costs */ };

/* share_time -- divides the time of a step among its requests by their tokens. It becomes the cost of the copies that
 * they keep. */
static void share_time(sp_context *c, int n_slices, int64_t us)
{
    int n = 0;
    for (int s = 0; s < n_slices; s++) n += c->step.slices[s].n;
    if (n > 0) sp_budget_learn(&c->step.budget, c->step.n_decoding, n - c->step.n_decoding, us);
    c->step.compute_us += us;
    c->step.n_tokens += n;
    if (c->step.n_front && !c->step.n_back)
        c->step.back_us = SP_MIN(c->step.back_us + (double)us / 10, BACK_MOST_US);
    else if (c->step.n_back)
        c->step.back_us = SP_MAX(c->step.back_us - c->step.n_back * c->loads.token_us, 0);
    if (n >= MANY_TOKENS)
        c->loads.token_us +=
            ((double)us / n - c->loads.token_us) * (c->loads.token_us > 0 ? 0.25 : 1);
    sp_context_learn_pace(c, n_slices, (double)us);
    for (int s = 0; s < n_slices; s++)
        c->step.of[s]->account.compute_us += (double)us * c->step.slices[s].n / n;
}

/* settle -- ends requests that waited for writes to the store. */
static void settle(sp_context *c)
{
    for (sp_request *r = c->running, *next; r; r = next) {
        next = r->next;
        sp_request_settle(r);
    }
}

/* wait_for_store -- nothing can be computed before a copy is loaded or written. */
static void wait_for_store(sp_context *c)
{
    if (!(c->waiting.first || c->running) || !sp_tiers_is_busy(c->tiers)) return;
    bool loads = c->waiting.first && c->waiting.first->state == SP_REQ_LOADING;
    int64_t us = loads ? sp_request_patience(c->waiting.first) : INT64_C(10000000);
    us = SP_MIN(us, sp_tiers_until_expiry(c->tiers));
    sp_tiers_wait_for(c->tiers, SP_MAX(us, 0) + 100);
    settle(c);
}

/* has_lost_device -- whether this error of a step means that device memory is lost. With contexts in a file, the file
 * may have failed instead: then the device still works. */
static bool has_lost_device(const sp_context *c, sp_err err)
{
    return err == SP_E_IO && (!c->offload || sp_device_synchronise(c->device) == SP_E_IO);
}

sp_err sp_context_step_here(sp_context *c, bool *busy)
{
    int64_t begin = sp_clock_us();
    drop_canceled(c);
    sp_queue_expire(c);
    if (c->tiers) sp_tiers_poll(c->tiers);
    settle(c);
    if (!c->waiting.first && !c->running) c->idle.step(c);
    admit(c);
    sp_context_prefetch(c);
    int n_slices = compose(c);
    int64_t start = sp_clock_us();
    sp_err err = n_slices ? sp_engine_step(c->engine, c->step.slices, n_slices) : SP_OK;
    share_time(c, n_slices, sp_clock_us() - start);
    if (n_slices == 0) wait_for_store(c);
    bool lost = has_lost_device(c, err);
    if (lost)
        sp_context_lose_device(c, err);
    else if ((lost = sp_context_lose_block(c, err)))
        err = SP_OK;
    for (int s = 0; s < n_slices && !lost; s++)
        if (err == SP_OK && c->step.of[s]->cut)
            sp_request_finish(c->step.of[s], SP_FINISH_CANCELED, SP_OK);
        else if (err == SP_OK && c->step.of[s]->loads.state == SP_LOADS_LATE)
            sp_request_start_over(c->step.of[s]);
        else if (err == SP_OK)
            sp_request_computed(c->step.of[s], c->step.slices[s].n, c->step.slices[s].logits);
        else
            sp_request_finish(c->step.of[s], SP_FINISH_ERROR, err);
    sp_request_announce(c); /* a callback may submit a request */
    *busy = c->running || c->waiting.first || c->idle.is_left(c);
    c->step.step_us += sp_clock_us() - begin;
    return err;
}

sp_err sp_context_step(sp_context *c, bool *busy)
{
    SP_NEED(c);
    bool work = false;
    if (sp_driver_runs(c))
        return sp_fail(SP_E_ARG, "the context has an engine thread, which runs the steps");
    sp_err err = sp_context_step_here(c, &work);
    if (busy) *busy = work;
    return err;
}

sp_err sp_request_run(sp_context *c, sp_request **r)
{
    bool busy = true;
    sp_err err = SP_OK;
    const sp_result *res = &(*r)->account.result;
    if (!sp_request_wait(*r, -1))
        while (err == SP_OK && (*r)->state != SP_REQ_FINISHED) err = sp_context_step_here(c, &busy);
    if (err == SP_OK && res->finish == SP_FINISH_ERROR) err = sp_fail(res->err, "%s", res->detail);
    if (err == SP_OK) return SP_OK;
    sp_request_destroy(*r);
    *r = NULL;
    return err;
}

sp_err sp_generate(sp_context *c, const sp_prompt *p, const sp_request_opts *o, sp_request **out)
{
    SP_NEED(c);
    SP_NEED(p);
    SP_NEED(out);
    sp_request *r;
    SP_TRY(sp_request_submit(c, p, o, &r));
    SP_TRY(sp_request_run(c, &r));
    *out = r;
    return SP_OK;
}

sp_err sp_compute_depkv(sp_context *c, const sp_prompt *p, int *n_computed)
{
    sp_request *r = NULL;
    SP_NEED(c);
    SP_NEED(p);
    SP_TRY(sp_generate(c, p, &(sp_request_opts){.sampling = sp_sampling_default()}, &r));
    if (n_computed) *n_computed = sp_request_result(r)->n_computed;
    sp_request_destroy(r);
    return SP_OK;
}
