#include "serve/tiers/posts.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

struct sp_posts {
    pthread_mutex_t lock;   /* of the following */
    pthread_cond_t some;
    sp_post *first, **last; /* ended, in order; last: the link that the next one goes to */
    bool poked;
    int n_under_way;        /* the engine thread's */
};

sp_err sp_posts_create(sp_posts **out)
{
    sp_posts *p = SP_NEW(sp_posts);
    if (!p) return sp_fail_nomem("the tiers");
    p->last = &p->first;
    pthread_mutex_init(&p->lock, NULL);
    sp_cond_init(&p->some);
    *out = p;
    return SP_OK;
}

void sp_posts_destroy(sp_posts *p)
{
    if (!p) return;
    assert(!p->first && !p->n_under_way);
    pthread_cond_destroy(&p->some);
    pthread_mutex_destroy(&p->lock);
    sp_free(p);
}

void sp_posts_end(sp_posts *p, sp_post *post, sp_err err)
{
    post->err = err;
    if (err != SP_OK) snprintf(post->detail, sizeof post->detail, "%s", sp_error_detail());
    post->next = NULL;
    pthread_mutex_lock(&p->lock);
    *p->last = post;
    p->last = &post->next;
    pthread_cond_signal(&p->some);
    pthread_mutex_unlock(&p->lock);
}

void sp_posts_poke(sp_posts *p)
{
    pthread_mutex_lock(&p->lock);
    p->poked = true;
    pthread_cond_signal(&p->some);
    pthread_mutex_unlock(&p->lock);
}

void sp_posts_begin(sp_posts *p)
{
    p->n_under_way++;
}

void sp_posts_poll(sp_posts *p)
{
    if (!p->n_under_way) return;
    pthread_mutex_lock(&p->lock);
    sp_post *post = p->first;
    p->first = NULL;
    p->last = &p->first;
    pthread_mutex_unlock(&p->lock);
    for (sp_post *next; post; post = next) {
        next = post->next;
        p->n_under_way--;
        post->done(post);
    }
}

void sp_posts_wait_for(sp_posts *p, int64_t us)
{
    const struct timespec end = sp_clock_after(us);
    int rc = 0;
    pthread_mutex_lock(&p->lock);
    while (!p->first && !p->poked && rc == 0)
        rc = pthread_cond_timedwait(&p->some, &p->lock, &end);
    p->poked = false;
    pthread_mutex_unlock(&p->lock);
    sp_posts_poll(p);
}

bool sp_posts_busy(const sp_posts *p)
{
    return p->n_under_way > 0;
}
