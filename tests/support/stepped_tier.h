/* stepped_tier.h -- a tier in front of the host tier that gives one layer at a time, as a test allows; contexts whose
 * copies are loaded from it. */
#ifndef SP_TESTS_STEPPED_TIER_H
#define SP_TESTS_STEPPED_TIER_H

#include <pthread.h>
#include <unistd.h>

#include "store/tier_type.h"
#include "support/requests.h"
#include "support/tiers.h"

static const policy full = {"full", 0}, prefix = {"prefix", 0};

/* -- a tier that gives one layer at a time -------------------------------------------------- */

/* In front of the host tier: a get waits before each layer until it may have so many in all. */
typedef struct stepped {
    sp_tier base; /* first */
    sp_tier *host;
    sp_op_queue queue;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int n_allowed, n_given; /* layers, of all gets */
    int damaged_from;       /* these and later ones are damaged; -1: none */
    int n_failing, n_failed; /* gets that fail from now on; that failed */
    sp_err fails_with;       /* SP_OK: SP_E_IO */
    bool inexact;            /* headers say that copies are not exact */
} stepped;

typedef struct forwarded {
    stepped *s;
    const sp_tier_op *op;
} forwarded;

static inline sp_err give_head(void *user, const sp_record *r)
{
    const forwarded *f = user;
    sp_record said = *r;
    said.facts.exact &= !f->s->inexact;
    return f->op->job.head(f->op->job.user, &said);
}

static inline sp_err give_layer(void *user, int layer, const void *from)
{
    const forwarded *f = user;
    stepped *s = f->s;
    pthread_mutex_lock(&s->lock);
    while (s->n_given >= s->n_allowed && !sp_tier_op_is_cancelled(f->op))
        pthread_cond_wait(&s->changed, &s->lock);
    bool damaged = s->damaged_from >= 0 && s->n_given >= s->damaged_from;
    s->n_given++;
    pthread_mutex_unlock(&s->lock);
    if (sp_tier_op_is_cancelled(f->op)) return sp_fail(SP_E_CANCELED, "cancelled");
    if (damaged) return sp_fail(SP_E_FORMAT, "damaged, for the test");
    return f->op->job.sink(f->op->job.user, layer, from);
}

static inline sp_err stepped_run(sp_tier *t, const sp_tier_op *op)
{
    stepped *s = (stepped *)t;
    sp_tier_job job = op->job;
    forwarded f = {.s = s, .op = op};
    if (job.verb == SP_TIER_GET && s->n_failed < s->n_failing) {
        s->n_failed++;
        return sp_fail(s->fails_with != SP_OK ? s->fails_with : SP_E_IO, "it fails, for the test");
    }
    if (job.verb == SP_TIER_GET) {
        job.head = give_head;
        job.sink = give_layer;
        job.user = &f;
    }
    job.done = NULL;
    return sp_tier_run(s->host, &job);
}

static inline void *stepped_work(void *arg)
{
    stepped *s = arg;
    for (sp_tier_op *op; (op = sp_op_queue_pop(&s->queue, true));)
        sp_tier_op_finish(op, stepped_run(&s->base, op));
    return NULL;
}

static inline sp_op_queue *stepped_queue(sp_tier *t, sp_tier_verb verb)
{
    return &((stepped *)t)->queue;
}

static inline bool stepped_knows(sp_tier *t, const sp_tier_key *key)
{
    return sp_tier_knows(((stepped *)t)->host, key);
}

static inline sp_tier_stats stepped_stats(sp_tier *t)
{
    return sp_tier_stats_of(((stepped *)t)->host);
}

static const sp_tier_type stepped_type = {.name = "stepped",
                                          .queue_of = stepped_queue,
                                          .run = stepped_run,
                                          .knows = stepped_knows,
                                          .stats = stepped_stats};

static inline void stepped_begin(stepped *s, sp_context *c)
{
    *s = (stepped){.base.type = &stepped_type, .host = sp_tiers_host(c->tiers), .damaged_from = -1};
    assert_ok(sp_op_queue_init(&s->queue));
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    assert_int_equal(pthread_create(&s->thread, NULL, stepped_work, s), 0);
    sp_tiers_level(c->tiers, SP_AT_HOST)->tier = &s->base;
}

static inline void allow(stepped *s, int n)
{
    pthread_mutex_lock(&s->lock);
    s->n_allowed += n;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static inline void stepped_end(stepped *s, sp_context *c)
{
    allow(s, 1 << 20);
    tiers_rest(c->tiers);
    sp_tiers_level(c->tiers, SP_AT_HOST)->tier = s->host;
    sp_op_queue_close(&s->queue);
    pthread_join(s->thread, NULL);
    sp_op_queue_fini(&s->queue);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
}

/* wait_given -- until the tier has given so many layers. */
static inline void wait_given(stepped *s, int n)
{
    for (bool enough = false; !enough; usleep(200)) {
        pthread_mutex_lock(&s->lock);
        enough = s->n_given >= n;
        pthread_mutex_unlock(&s->lock);
    }
}

/* -- contexts ------------------------------------------------------------------------------- */

/* begin -- copies of chunks 0 and 1 (or the path of both) are on the host alone. */
static inline sp_context *begin(stepped *s, const policy *p, sp_context_opts o)
{
    o.reuse.policy = p->name;
    o.reuse.recompute = p->recompute;
    o.n_batch = 40;
    o.tiers.host_bytes = 16 << 20;
    sp_context *c = open_with(o);
    sp_request_destroy(ask(c, "01", "Which?", 2));
    tiers_rest(c->tiers); /* with a store: what is written stays on the device */
    while (sp_ledger_free_up(c->ledger, sp_kv_pool_n_free(c->pool) + 1)) {
    }
    stepped_begin(s, c);
    c->loads.patience_us = 20000000;
    return c;
}

/* hurry -- reading seems fast, and computing slow: one layer is enough to begin. */
static inline void hurry(sp_context *c)
{
    c->loads.token_us = 1000;
    sp_tiers_level(c->tiers, SP_AT_HOST)->byte_us = 1e-6;
}

static inline int n_copies_in(const sp_context *c, sp_copy_state state)
{
    int n = 0;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));) n += v->state == state;
    return n;
}

#endif
