/* far_tier.h -- a tier that is far away: operations wait for each other's messages, each message takes time, and some
 * fail. It keeps copies in another tier. This is all that a new tier has to bring: its operations, and a type. */
#ifndef SP_TESTS_FAR_TIER_H
#define SP_TESTS_FAR_TIER_H

#include <stdlib.h>
#include <unistd.h>

#include "store/tier_type.h"

enum { FAR_BATCH = 64 /* operations in a message */ };

typedef struct far_tier {
    sp_tier base; /* first */
    sp_tier *there;
    sp_op_queue queue;
    pthread_t thread;
    unsigned latency_us;
    int fails_every; /* operations; 0: none fails */
    int n_ops;
    atomic_int n_messages;
} far_tier;

static inline sp_err far_run(far_tier *f, const sp_tier_op *op)
{
    sp_tier_job job = op->job;
    job.done = NULL;
    SP_TRY(sp_tier_op_begin(op));
    if (f->fails_every && ++f->n_ops % f->fails_every == 0)
        return sp_fail(SP_E_IO, "the other end does not answer");
    return sp_tier_run(f->there, &job);
}

static inline void *far_work(void *arg)
{
    far_tier *f = arg;
    sp_tier_op *ops[FAR_BATCH];
    while ((ops[0] = sp_op_queue_pop(&f->queue, true))) {
        int n = 1;
        while (n < FAR_BATCH && (ops[n] = sp_op_queue_pop(&f->queue, false))) n++;
        f->n_messages++;
        usleep(f->latency_us);
        for (int i = 0; i < n; i++) sp_tier_op_finish(ops[i], far_run(f, ops[i]));
    }
    return NULL;
}

static inline sp_op_queue *far_queue(sp_tier *t, sp_tier_verb verb)
{
    SP_UNUSED(verb);
    return &((far_tier *)t)->queue;
}

static inline bool far_knows(sp_tier *t, const sp_tier_key *key)
{
    return sp_tier_knows(((far_tier *)t)->there, key);
}

static inline sp_tier_stats far_stats(sp_tier *t)
{
    return sp_tier_stats_of(((far_tier *)t)->there);
}

static inline void far_close(sp_tier *t)
{
    far_tier *f = (far_tier *)t;
    sp_op_queue_close(&f->queue);
    pthread_join(f->thread, NULL);
    sp_op_queue_fini(&f->queue);
    sp_tier_close(f->there);
    free(f);
}

/* far_open -- over a tier, which is the far one's then. */
static inline far_tier *far_open(sp_tier *there, unsigned latency_us, int fails_every)
{
    static const sp_tier_type type = {.name = "far",
                                      .queue_of = far_queue,
                                      .knows = far_knows,
                                      .stats = far_stats,
                                      .close = far_close};
    far_tier *f = calloc(1, sizeof *f);
    *f = (far_tier){.base.type = &type,
                    .there = there,
                    .latency_us = latency_us,
                    .fails_every = fails_every};
    if (sp_op_queue_init(&f->queue) != SP_OK) abort();
    if (pthread_create(&f->thread, NULL, far_work, f) != 0) abort();
    return f;
}

#endif
