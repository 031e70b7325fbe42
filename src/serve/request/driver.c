#include "serve/request/driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/need.h"
#include "serve/request/request.h"

enum { HAND_OVER_US = 10000 /* between two looks at what is left */ };

/* On the stack of the waiting caller. */
typedef struct command {
    struct command *next;
    sp_command_fn *fn;
    void *arg;
    bool done;
    sp_err err;
    char detail[512];
} command;

struct sp_driver {
    sp_context *c;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the following */
    pthread_cond_t work;  /* a command, a submission, a changed flag, a stop */
    pthread_cond_t done;  /* a command has run, or a request is finished */
    command *first, **last;
    sp_request *submitted, **last_submitted;
    atomic_bool runs; /* written under the lock, read by anybody */
    bool stop;
    int64_t since_us; /* when the step or command that runs began; 0: none runs */
};

sp_err sp_driver_create(sp_context *c, sp_driver **out)
{
    sp_driver *d = SP_NEW(sp_driver);
    if (!d) return sp_fail_nomem("the engine thread");
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->work, NULL);
    sp_cond_init(&d->done);
    d->c = c;
    d->last = &d->first;
    d->last_submitted = &d->submitted;
    *out = d;
    return SP_OK;
}

static bool is_engine_thread(const sp_driver *d)
{
    return pthread_equal(pthread_self(), d->thread) != 0;
}

bool sp_driver_runs(const sp_context *c)
{
    return c->driver->runs;
}

int64_t sp_context_step_us(sp_context *c)
{
    if (!c) return 0;
    sp_driver *d = c->driver;
    pthread_mutex_lock(&d->lock);
    int64_t since = d->since_us;
    pthread_mutex_unlock(&d->lock);
    return since ? SP_MAX(sp_clock_us() - since, 1) : 0;
}

/* -- handing over --------------------------------------------------------------------------- */

static sp_err share_rest(sp_context *c, void *arg)
{
    if (c->tiers) sp_tiers_poll(c->tiers);
    return sp_tiers_share_rest(c->tiers, arg);
}

sp_err sp_context_hand_over(sp_context *c, int64_t timeout_us, int64_t *n_left)
{
    SP_NEED(c);
    const int64_t end = sp_clock_us() + timeout_us;
    sp_tiers_rest rest = {0};
    sp_err err = sp_driver_call(c, share_rest, &rest);
    while (err == SP_OK && rest.n_left > 0 && sp_clock_us() < end) {
        usleep(HAND_OVER_US);
        err = sp_driver_call(c, share_rest, &rest);
    }
    if (n_left) *n_left = rest.n_left;
    return err;
}

/* -- commands and requests ------------------------------------------------------------------ */

/* rouse -- the engine thread, which sleeps or waits for the tiers. Called with the lock held. */
static void rouse(sp_driver *d)
{
    pthread_cond_signal(&d->work);
    sp_tiers_poke(d->c->tiers);
}

sp_err sp_driver_call(sp_context *c, sp_command_fn *fn, void *arg)
{
    sp_driver *d = c->driver;
    command cmd = {.fn = fn, .arg = arg};
    pthread_mutex_lock(&d->lock);
    if (!d->runs || is_engine_thread(d)) {
        pthread_mutex_unlock(&d->lock);
        return fn(c, arg);
    }
    *d->last = &cmd;
    d->last = &cmd.next;
    rouse(d);
    while (!cmd.done) pthread_cond_wait(&d->done, &d->lock);
    pthread_mutex_unlock(&d->lock);
    return cmd.err == SP_OK ? SP_OK : sp_fail(cmd.err, "%s", cmd.detail); /* I3 */
}

void sp_driver_submit(sp_context *c, sp_request *r)
{
    sp_driver *d = c->driver;
    pthread_mutex_lock(&d->lock);
    bool here = !d->runs || is_engine_thread(d);
    if (!here) {
        r->next = NULL;
        *d->last_submitted = r;
        d->last_submitted = &r->next;
        rouse(d);
    }
    pthread_mutex_unlock(&d->lock);
    if (here) sp_request_enter(r);
}

/* take_submitted -- into the queue. Called with the lock held. */
static void take_submitted(sp_driver *d)
{
    sp_request *r = d->submitted;
    d->submitted = NULL;
    d->last_submitted = &d->submitted;
    pthread_mutex_unlock(&d->lock);
    for (sp_request *next; r; r = next) {
        next = r->next;
        sp_request_enter(r);
    }
    pthread_mutex_lock(&d->lock);
}

/* run_commands -- runs all waiting commands and takes submissions first: a request enters the queue before a command
 * can destroy it. Called with the lock held, which is released while a command runs. True when there was any. */
static bool run_commands(sp_driver *d)
{
    bool any = false;
    for (; d->first || d->submitted; any = true) {
        if (d->submitted) {
            take_submitted(d);
            continue;
        }
        command *cmd = d->first;
        d->first = cmd->next;
        if (!d->first) d->last = &d->first;
        d->since_us = sp_clock_us();
        pthread_mutex_unlock(&d->lock);
        cmd->err = cmd->fn(d->c, cmd->arg);
        if (cmd->err != SP_OK) snprintf(cmd->detail, sizeof cmd->detail, "%s", sp_error_detail());
        pthread_mutex_lock(&d->lock);
        d->since_us = 0;
        cmd->done = true;
        pthread_cond_broadcast(&d->done);
    }
    return any;
}

void sp_driver_wake(sp_context *c)
{
    sp_driver *d = c->driver;
    pthread_mutex_lock(&d->lock);
    rouse(d);
    pthread_mutex_unlock(&d->lock);
}

void sp_driver_finished(sp_context *c, sp_request *r)
{
    sp_driver *d = c->driver;
    sp_done_fn *on_done = r->o.on_done;
    void *user = r->o.user;
    pthread_mutex_lock(&d->lock);
    r->done = true; /* I2: from here on its owner may destroy it */
    pthread_cond_broadcast(&d->done);
    pthread_mutex_unlock(&d->lock);
    if (on_done) on_done(user);
}

bool sp_driver_is_done(sp_context *c, const sp_request *r)
{
    sp_driver *d = c->driver;
    pthread_mutex_lock(&d->lock);
    bool done = r->done;
    pthread_mutex_unlock(&d->lock);
    return done;
}

bool sp_request_wait(sp_request *r, int64_t timeout_us)
{
    if (!r) return false;
    sp_driver *d = r->ctx->driver;
    const struct timespec end = sp_clock_after(timeout_us);
    pthread_mutex_lock(&d->lock);
    while (!r->done && d->runs && !is_engine_thread(d)) {
        if (timeout_us < 0)
            pthread_cond_wait(&d->done, &d->lock);
        else if (pthread_cond_timedwait(&d->done, &d->lock, &end) != 0)
            break;
    }
    bool done = r->done;
    pthread_mutex_unlock(&d->lock);
    return done;
}

/* -- the thread ----------------------------------------------------------------------------- */

/* step -- an error ends the requests of the step; the others continue. */
static bool step(sp_context *c)
{
    bool busy = false;
    if (sp_context_step_here(c, &busy) != SP_OK)
        sp_log(SP_LOG_ERROR, "a step failed: %s", sp_error_detail());
    return busy;
}

static void *run(void *arg)
{
    sp_driver *d = arg;
    bool busy = true;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        busy |= run_commands(d);
        if (busy) {
            d->since_us = sp_clock_us();
            pthread_mutex_unlock(&d->lock);
            busy = step(d->c);
            pthread_mutex_lock(&d->lock);
            d->since_us = 0;
        } else if (d->stop) {
            break;
        } else if (!d->first && !d->submitted) {
            pthread_cond_wait(&d->work, &d->lock);
        }
    }
    d->runs = false;
    pthread_cond_broadcast(&d->done);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

sp_err sp_context_start(sp_context *c)
{
    SP_NEED(c);
    sp_driver *d = c->driver;
    pthread_mutex_lock(&d->lock);
    int failed = d->runs ? 0 : pthread_create(&d->thread, NULL, run, d);
    if (!failed) {
        d->runs = true; /* the thread waits for the lock */
        d->stop = false;
    }
    pthread_mutex_unlock(&d->lock);
    return failed ? sp_fail(SP_E_NOMEM, "cannot start the engine thread") : SP_OK;
}

void sp_context_stop(sp_context *c)
{
    if (!c) return;
    sp_driver *d = c->driver;
    pthread_mutex_lock(&d->lock);
    bool runs = d->runs;
    d->stop = true;
    pthread_cond_signal(&d->work);
    pthread_mutex_unlock(&d->lock);
    if (runs) pthread_join(d->thread, NULL);
}

void sp_driver_destroy(sp_driver *d)
{
    if (!d) return;
    sp_context_stop(d->c);
    assert(!d->first && !d->submitted);
    pthread_cond_destroy(&d->done);
    pthread_cond_destroy(&d->work);
    pthread_mutex_destroy(&d->lock);
    sp_free(d);
}
