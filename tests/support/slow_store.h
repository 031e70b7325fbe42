/* slow_store.h -- a store that does not answer for a while. */
#ifndef SP_TESTS_SLOW_STORE_H
#define SP_TESTS_SLOW_STORE_H

#include <pthread.h>

#include "support/check.h"

#include "serve/context_int.h"

/* Keeps all threads that read the store busy until it is opened: every later load takes as long. */
enum { READERS = 2 };

typedef struct barrier {
    sp_tier_op *ops[READERS];
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

/* barrier_end -- b may go. */
static inline void barrier_end(barrier *b)
{
    for (int i = 0; i < READERS; i++) {
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
