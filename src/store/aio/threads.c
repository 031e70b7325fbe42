/* aio_threads.c -- a few threads that read and write: waiting -> a thread -> finished. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "store/aio/driver_int.h"

enum { N_THREADS = 4 };

/* A ring of pieces, large enough for all that can be in flight. */
typedef struct ring {
    sp_aio_piece *v[SP_AIO_MAX_FLIGHT];
    int64_t result[SP_AIO_MAX_FLIGHT];
    unsigned first, n;
} ring;

typedef struct pool {
    pthread_mutex_t lock;
    pthread_cond_t some_wait, some_finished;
    ring waiting, finished;
    bool closing;
    pthread_t threads[N_THREADS];
    int n_threads;
} pool;

static void ring_add(ring *r, sp_aio_piece *p, int64_t result)
{
    assert(r->n < SP_AIO_MAX_FLIGHT);
    unsigned i = (r->first + r->n++) % SP_AIO_MAX_FLIGHT;
    r->v[i] = p;
    r->result[i] = result;
}

static sp_aio_piece *ring_take(ring *r, int64_t *result)
{
    unsigned i = r->first;
    r->first = (i + 1) % SP_AIO_MAX_FLIGHT;
    r->n--;
    *result = r->result[i];
    return r->v[i];
}

static int64_t transfer(const sp_aio_piece *p)
{
    uint8_t *data = p->data + p->done;
    off_t at = (off_t)(p->offset + p->done);
    ssize_t n = p->write ? pwrite(p->fd, data, p->part, at) : pread(p->fd, data, p->part, at);
    return n < 0 ? -errno : n;
}

static void *work(void *arg)
{
    pool *t = arg;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        int64_t result;
        while (t->waiting.n == 0 && !t->closing) pthread_cond_wait(&t->some_wait, &t->lock);
        if (t->waiting.n == 0) break;
        sp_aio_piece *p = ring_take(&t->waiting, &result);
        pthread_mutex_unlock(&t->lock);
        result = transfer(p);
        pthread_mutex_lock(&t->lock);
        ring_add(&t->finished, p, result);
        pthread_cond_signal(&t->some_finished);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void close_pool(void *state)
{
    pool *t = state;
    pthread_mutex_lock(&t->lock);
    t->closing = true;
    pthread_cond_broadcast(&t->some_wait);
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < t->n_threads; i++) pthread_join(t->threads[i], NULL);
    pthread_cond_destroy(&t->some_finished);
    pthread_cond_destroy(&t->some_wait);
    pthread_mutex_destroy(&t->lock);
    sp_free(t);
}

static sp_err open_pool(void **state)
{
    pool *t = SP_NEW(pool);
    if (!t) return sp_fail_nomem("threads of I/O");
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->some_wait, NULL);
    pthread_cond_init(&t->some_finished, NULL);
    while (t->n_threads < N_THREADS &&
           pthread_create(&t->threads[t->n_threads], NULL, work, t) == 0)
        t->n_threads++;
    if (t->n_threads == 0) { /* fewer than wanted are enough */
        close_pool(t);
        return sp_fail(SP_E_NOMEM, "cannot start a thread of I/O");
    }
    *state = t;
    return SP_OK;
}

static void set_arena(void *state, uint8_t *data, size_t n)
{
    SP_UNUSED(state);
    SP_UNUSED(data);
    SP_UNUSED(n);
}

static void submit(void *state, sp_aio_piece *p)
{
    pool *t = state;
    pthread_mutex_lock(&t->lock);
    ring_add(&t->waiting, p, 0);
    pthread_cond_signal(&t->some_wait);
    pthread_mutex_unlock(&t->lock);
}

static sp_aio_piece *wait_one(void *state, int64_t *result)
{
    pool *t = state;
    pthread_mutex_lock(&t->lock);
    while (t->finished.n == 0) pthread_cond_wait(&t->some_finished, &t->lock);
    sp_aio_piece *p = ring_take(&t->finished, result);
    pthread_mutex_unlock(&t->lock);
    return p;
}

const sp_aio_driver sp_aio_threads = {
    .kind = "threads",
    .open = open_pool,
    .close = close_pool,
    .arena = set_arena,
    .submit = submit,
    .wait = wait_one,
};
