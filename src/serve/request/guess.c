/* guess.c -- estimates the time to compute prompts on this machine: from a few layers of an artificial prompt, later
 * from the steps of requests. */
#include "base/clock.h"
#include "base/need.h"
#include "serve/request/request.h"

enum {
    GUESS_TOKENS = 64,
    GUESS_US = 20000, /* of a run: the layer that is computed then is the last */
    GUESS_RUNS = 5,   /* while they take no more than two such times together; 2 at least */
    LEAST_TOKENS = 16, /* of a step whose time says what a token of a prompt costs */
    FEW_SPANS = 16     /* of a plan: their attention takes what that of one span would */
};

/* -- guessing ----------------------------------------------------------------------------------- */

/* A run through the first layers. */
typedef struct stopwatch {
    int64_t begin_us, last_us; /* the first layer began, the last one that was asked about would have */
    int n_layers;              /* between the two */
} stopwatch;

static bool go_on(void *user, int layer)
{
    stopwatch *w = user;
    w->last_us = sp_clock_us();
    w->n_layers = layer;
    if (layer == 0) w->begin_us = w->last_us;
    return w->last_us - w->begin_us < GUESS_US || layer == 0;
}

static sp_err make_plan(sp_context *c, sp_plan *p, int n)
{
    int span, see;
    SP_TRY(sp_plan_add_span(p, &(sp_span_spec){.n = n, .room = n}, &span));
    SP_TRY(sp_plan_add_sight(p, NULL, 1, &see));
    for (int i = 0; i < n; i++) {
        const uint32_t mixed = (uint32_t)i * 2654435761u; /* the experts of a layer take turns */
        SP_TRY(sp_plan_add_todo(p, (sp_todo){.token = (int32_t)(mixed % (uint32_t)c->model->hp.n_vocab),
                                             .pos = i,
                                             .index = i,
                                             .span = (uint16_t)span,
                                             .see = (uint16_t)see}));
    }
    return sp_plan_bind(p);
}

/* run -- *us: of all layers. The last layer computes keys and values only, so the step's end counts for it where there
 * is no other. */
static sp_err run(sp_context *c, sp_plan *p, double *us)
{
    stopwatch w = {0};
    int n = p->n_todo;
    const sp_slice slice = {.plan = p, .n = n, .want = SP_WANT_NONE, .await = {.there = go_on, .user = &w}};
    if (c->offload) {
        sp_offload_begin_step(c->offload);
        if (!sp_offload_add_slice(c->offload, p, &n) || n < p->n_todo) return sp_fail(SP_E_NOKV, "%d tokens fit", n);
    }
    SP_TRY(sp_engine_step(c->engine, &slice, 1));
    if (!w.n_layers) w = (stopwatch){w.begin_us, sp_clock_us(), 1};
    *us = (double)(w.last_us - w.begin_us) * c->model->hp.n_layers / w.n_layers;
    return SP_OK;
}

static sp_err guess(sp_context *c, void *arg)
{
    const int n = SP_MIN(GUESS_TOKENS, SP_MIN(c->limits.n_batch, c->limits.n_ctx));
    const int64_t begin = sp_clock_us();
    double us = 0, least = 0;
    sp_plan p;
    SP_UNUSED(arg);
    if (c->pace.token_us > 0 || c->running || c->waiting.first) return SP_OK;
    if (sp_kv_pool_n_free(c->pool) < sp_blocks_for(n)) return sp_fail(SP_E_NOKV, "no room for %d tokens", n);
    c->pace.sight = sp_pace_sight(c->model);
    sp_plan_init(&p, c->pool);
    sp_err err = make_plan(c, &p, n);
    /* in the first run weights may come from a disk; others are held up by what else the machine does */
    for (int i = 0; i < GUESS_RUNS && err == SP_OK && (i < 2 || sp_clock_us() - begin < 2 * GUESS_US); i++) {
        err = run(c, &p, &us);
        least = i ? SP_MIN(least, us) : us;
    }
    sp_plan_fini(&p);
    if (err == SP_OK) sp_pace_guess(&c->pace, n, least);
    return err;
}

sp_err sp_context_guess(sp_context *c)
{
    SP_NEED(c);
    return sp_driver_call(c, guess, NULL);
}

/* -- learning ----------------------------------------------------------------------------------- */

/* is_crowded -- many spans are shorter than a block: attention reads their blocks whole, which takes a multiple of the
 * same prompt's time without reuse. */
static bool is_crowded(const sp_plan *p, int n_tokens)
{
    return p->n_spans > FEW_SPANS && (int64_t)p->n_spans * SP_BLOCK_TOKENS > n_tokens;
}

/* is_plain -- all rows pass through all layers, none waits for a load, and attention is that of one piece. */
static bool is_plain(const sp_request *r)
{
    const sp_plan *p = &r->plans.now;
    return !r->cut && r->loads.state != SP_LOADS_EARLY && !p->gate.after_layer && p->probe.kind == SP_PROBE_NONE &&
           !is_crowded(p, r->prompt.n_tokens);
}

void sp_context_learn_pace(sp_context *c, int n_slices, double us)
{
    int n = 0;
    double positions = 0;
    for (int s = 0; s < n_slices; s++) {
        const sp_slice *slice = &c->step.slices[s];
        if (c->step.of[s]->state != SP_REQ_PREFILL) continue;
        if (!is_plain(c->step.of[s])) return;
        n += slice->n;
        for (int i = 0; i < slice->n; i++) positions += slice->plan->todo[slice->from + i].pos;
    }
    if (n < LEAST_TOKENS) return;
    if (c->step.n_decoding && 2 * c->step.budget.decode_us > us) return; /* what remains is noise */
    if (c->step.n_decoding) us -= c->step.budget.decode_us;
    if (c->pace.sight <= 0) c->pace.sight = sp_pace_sight(c->model);
    sp_pace_learn(&c->pace, n, positions, us);
}
