/* slow_store.h -- a store that does not answer for a while: its readers, or its writer. */
#ifndef SP_TESTS_SLOW_STORE_H
#define SP_TESTS_SLOW_STORE_H

#include <pthread.h>

#include "support/check.h"

#include "serve/request/context.h"

/* Keeps all threads that read the store busy until it is opened: every later load takes as long. */
enum { READERS = 2 };

typedef struct barrier {
    sp_tier_op *ops[READERS];
    sp_record record; /* barrier_close_writer */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
} barrier;

static inline sp_err hold_up(void *user, const sp_tier_info *info)
{
    barrier *b = user;
    pthread_mutex_lock(&b->lock);
    while (!b->open) pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
    return SP_OK;
}

static inline void barrier_close(barrier *b, sp_context *c)
{
    *b = (barrier){0};
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    for (int i = 0; i < READERS; i++)
        assert_ok(sp_tier_submit(
            sp_tiers_tier(c->tiers),
            &(sp_tier_job){.verb = SP_TIER_LIST, .urgent = true, .each = hold_up, .user = b},
            &b->ops[i]));
}

static inline sp_err hold_up_source(void *user, int layer, void *to)
{
    SP_UNUSED(layer);
    SP_UNUSED(to);
    hold_up(user, NULL);
    return sp_fail(SP_E_CANCELED, "nothing is written");
}

/* barrier_close_writer -- the same for the thread that writes: it is in the middle of a copy. */
static inline void barrier_close_writer(barrier *b, sp_context *c)
{
    static const int32_t token = 1;
    const sp_record record = {.facts.kind = SP_COPY_PLAIN,
                              .space = c->texts.prompts.space,
                              .tokens = &token,
                              .n = 1,
                              .n_layers = 1,
                              .layer_bytes = SP_PAGE};
    *b = (barrier){0};
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    b->record = record;
    assert_ok(sp_tier_submit(
        sp_tiers_tier(c->tiers),
        &(sp_tier_job){
            .verb = SP_TIER_PUT, .record = &b->record, .source = hold_up_source, .user = b},
        &b->ops[0]));
}

/* barrier_end -- b may go. */
static inline void barrier_end(barrier *b)
{
    for (int i = 0; i < READERS && b->ops[i]; i++) {
        assert_true(sp_tier_op_wait(b->ops[i], -1));
        sp_tier_op_release(b->ops[i]);
    }
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->changed);
}

static inline void barrier_open(barrier *b)
{
    pthread_mutex_lock(&b->lock);
    b->open = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

#endif
