#include "serve/tiers/io.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

typedef struct list {
    sp_io_job *first, **end; /* end: the link that the next job goes to */
} list;

struct sp_io {
    sp_disk *disk;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t submitted, finished;
    list urgent, waiting, done; /* by lock */
    bool stop, poked;           /* by lock */
    int n_under_way;            /* the engine thread's */
};

static void append(list *l, sp_io_job *job)
{
    job->next = NULL;
    *l->end = job;
    l->end = &job->next;
}

static sp_io_job *take(list *l)
{
    sp_io_job *job = l->first;
    if (!job) return NULL;
    l->first = job->next;
    if (!l->first) l->end = &l->first;
    return job;
}

/* -- the I/O thread -------------------------------------------------------------------------- */

/* next_job -- waits for one; NULL when the thread is to stop. */
static sp_io_job *next_job(sp_io *io)
{
    while (!io->urgent.first && !io->waiting.first && !io->stop)
        pthread_cond_wait(&io->submitted, &io->lock);
    sp_io_job *job = take(&io->urgent);
    return job ? job : take(&io->waiting);
}

static void *work(void *arg)
{
    sp_io *io = arg;
    pthread_mutex_lock(&io->lock);
    for (sp_io_job *job; (job = next_job(io));) {
        pthread_mutex_unlock(&io->lock);
        atomic_store(&job->began_us, sp_clock_us());
        job->run(job, io->disk);
        if (job->err != SP_OK) snprintf(job->detail, sizeof job->detail, "%s", sp_error_detail());
        pthread_mutex_lock(&io->lock);
        append(&io->done, job);
        pthread_cond_signal(&io->finished);
    }
    pthread_mutex_unlock(&io->lock);
    return NULL;
}

/* -- the engine thread ------------------------------------------------------------------------ */

static void destroy(sp_io *io)
{
    pthread_cond_destroy(&io->finished);
    pthread_cond_destroy(&io->submitted);
    pthread_mutex_destroy(&io->lock);
    sp_free(io);
}

sp_err sp_io_open(sp_disk *disk, sp_io **out)
{
    sp_io *io = SP_NEW(sp_io);
    if (!io) return sp_fail_nomem(sizeof *io, "the I/O thread");
    io->disk = disk;
    io->urgent.end = &io->urgent.first;
    io->waiting.end = &io->waiting.first;
    io->done.end = &io->done.first;
    pthread_mutex_init(&io->lock, NULL);
    pthread_cond_init(&io->submitted, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&io->finished, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&io->thread, NULL, work, io) != 0) {
        destroy(io);
        return sp_fail(SP_E_NOMEM, "cannot start the I/O thread");
    }
    *out = io;
    return SP_OK;
}

void sp_io_close(sp_io *io)
{
    if (!io) return;
    sp_io_drain(io);
    pthread_mutex_lock(&io->lock);
    io->stop = true;
    pthread_cond_signal(&io->submitted);
    pthread_mutex_unlock(&io->lock);
    pthread_join(io->thread, NULL);
    sp_disk_close(io->disk);
    destroy(io);
}

void sp_io_submit(sp_io *io, sp_io_job *job)
{
    io->n_under_way++;
    pthread_mutex_lock(&io->lock);
    append(job->urgent ? &io->urgent : &io->waiting, job);
    pthread_cond_signal(&io->submitted);
    pthread_mutex_unlock(&io->lock);
}

void sp_io_begin(sp_io *io, sp_io_job *job)
{
    SP_UNUSED(job);
    io->n_under_way++;
}

void sp_io_end(sp_io *io, sp_io_job *job)
{
    pthread_mutex_lock(&io->lock);
    append(&io->done, job);
    pthread_cond_signal(&io->finished);
    pthread_mutex_unlock(&io->lock);
}

static bool remove_job(list *l, sp_io_job *job)
{
    sp_io_job **link = &l->first;
    while (*link && *link != job) link = &(*link)->next;
    if (!*link) return false;
    *link = job->next;
    if (l->end == &job->next) l->end = link;
    return true;
}

bool sp_io_withdraw(sp_io *io, sp_io_job *job)
{
    pthread_mutex_lock(&io->lock);
    bool waited = remove_job(&io->urgent, job) || remove_job(&io->waiting, job);
    pthread_mutex_unlock(&io->lock);
    io->n_under_way -= waited;
    return waited;
}

/* finish -- calls `done` of a chain of jobs. */
static void finish(sp_io *io, sp_io_job *job)
{
    for (sp_io_job *next; job; job = next) {
        next = job->next;
        io->n_under_way--;
        job->done(job);
    }
}

/* take_done -- the chain of jobs that have finished; waits for one if `wait`. */
static sp_io_job *take_done(sp_io *io, bool wait)
{
    pthread_mutex_lock(&io->lock);
    while (wait && !io->done.first) pthread_cond_wait(&io->finished, &io->lock);
    sp_io_job *job = io->done.first;
    io->done.first = NULL;
    io->done.end = &io->done.first;
    pthread_mutex_unlock(&io->lock);
    return job;
}

void sp_io_poll(sp_io *io)
{
    if (io->n_under_way) finish(io, take_done(io, false));
}

bool sp_io_wait(sp_io *io)
{
    if (io->n_under_way == 0) return false;
    finish(io, take_done(io, true));
    return true;
}

void sp_io_poke(sp_io *io)
{
    pthread_mutex_lock(&io->lock);
    io->poked = true;
    pthread_cond_signal(&io->finished);
    pthread_mutex_unlock(&io->lock);
}

void sp_io_wait_for(sp_io *io, int64_t us)
{
    struct timespec end;
    int rc = 0;
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t ns = end.tv_nsec + us % 1000000 * 1000;
    end.tv_sec += (time_t)(us / 1000000 + ns / 1000000000);
    end.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&io->lock);
    while (!io->done.first && !io->poked && rc == 0)
        rc = pthread_cond_timedwait(&io->finished, &io->lock, &end);
    io->poked = false;
    pthread_mutex_unlock(&io->lock);
    sp_io_poll(io);
}

bool sp_io_busy(const sp_io *io)
{
    return io->n_under_way > 0;
}

void sp_io_drain(sp_io *io)
{
    while (sp_io_wait(io)) {
    }
}

sp_err sp_io_fail_as(const sp_io_job *job)
{
    return job->err == SP_OK ? SP_OK : sp_fail(job->err, "%s", job->detail);
}

/* -- calls ----------------------------------------------------------------------------------- */

typedef struct call {
    sp_io_job job; /* first */
    sp_io_fn *fn;
    void *arg;
    bool finished;
} call;

static void run_call(sp_io_job *job, sp_disk *disk)
{
    call *c = (call *)job;
    job->err = c->fn(disk, c->arg);
}

static void call_done(sp_io_job *job)
{
    ((call *)job)->finished = true;
}

sp_err sp_io_call(sp_io *io, sp_io_fn *fn, void *arg, int64_t patience_us)
{
    call c = {.job = {.run = run_call, .done = call_done, .urgent = true}, .fn = fn, .arg = arg};
    const int64_t end = sp_clock_us() + patience_us;
    sp_io_submit(io, &c.job);
    while (!c.finished) {
        const int64_t left = end - sp_clock_us();
        if (left <= 0 && sp_io_withdraw(io, &c.job))
            return sp_fail(SP_E_IO, "the store does not answer");
        if (left > 0)
            sp_io_wait_for(io, left);
        else
            sp_io_wait(io);
    }
    return sp_io_fail_as(&c.job);
}
