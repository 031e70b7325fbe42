#include "store/tier_type.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "kv/segment.h"

sp_tier_key sp_tier_key_of(const sp_record *r)
{
    sp_copy_facts f = r->facts;
    f.head = sp_head_key(f.before, f.n_head);
    return (sp_tier_key){.id = f.id, .head = sp_copy_key_head(&f), .kind = f.kind};
}

unsigned sp_tier_facts_of(const sp_record *r)
{
    return (r->facts.exact ? SP_FACT_EXACT : 0u) | (r->facts.stats.inter ? SP_FACT_STATS : 0u) |
           (r->facts.heavy ? SP_FACT_HEAVY : 0u);
}

/* -- queues --------------------------------------------------------------------------------- */

sp_err sp_op_queue_init(sp_op_queue *q)
{
    *q = (sp_op_queue){0};
    if (pthread_mutex_init(&q->lock, NULL) != 0) return sp_fail(SP_E_NOMEM, "cannot make a lock");
    if (pthread_cond_init(&q->some, NULL) == 0) return SP_OK;
    pthread_mutex_destroy(&q->lock);
    return sp_fail(SP_E_NOMEM, "cannot make a condition");
}

void sp_op_queue_fini(sp_op_queue *q)
{
    pthread_cond_destroy(&q->some);
    pthread_mutex_destroy(&q->lock);
}

static void list_add(sp_op_list *l, sp_tier_op *op)
{
    op->next = NULL;
    if (l->last)
        l->last->next = op;
    else
        l->first = op;
    l->last = op;
}

static sp_tier_op *list_take(sp_op_list *l)
{
    sp_tier_op *op = l->first;
    if (!op) return NULL;
    l->first = op->next;
    if (!l->first) l->last = NULL;
    return op;
}

static bool list_remove(sp_op_list *l, const sp_tier_op *op)
{
    sp_tier_op *before = NULL, *x = l->first;
    while (x && x != op) before = x, x = x->next;
    if (!x) return false;
    *(before ? &before->next : &l->first) = x->next;
    if (l->last == x) l->last = before;
    return true;
}

void sp_op_queue_push(sp_op_queue *q, sp_tier_op *const *ops, size_t n)
{
    pthread_mutex_lock(&q->lock);
    for (size_t i = 0; i < n; i++) {
        ops[i]->queue = q;
        list_add(ops[i]->job.urgent ? &q->urgent : &q->others, ops[i]);
        pthread_cond_signal(&q->some);
    }
    pthread_mutex_unlock(&q->lock);
}

bool sp_op_queue_remove(sp_op_queue *q, sp_tier_op *op)
{
    pthread_mutex_lock(&q->lock);
    bool waited = list_remove(&q->urgent, op) || list_remove(&q->others, op);
    pthread_mutex_unlock(&q->lock);
    return waited;
}

sp_tier_op *sp_op_queue_pop(sp_op_queue *q, bool wait)
{
    pthread_mutex_lock(&q->lock);
    while (wait && !q->closing && !q->urgent.first && !q->others.first)
        pthread_cond_wait(&q->some, &q->lock);
    sp_tier_op *op = list_take(&q->urgent);
    if (!op) op = list_take(&q->others);
    pthread_mutex_unlock(&q->lock);
    return op;
}

void sp_op_queue_close(sp_op_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closing = true;
    pthread_cond_broadcast(&q->some);
    pthread_mutex_unlock(&q->lock);
}

/* -- one operation -------------------------------------------------------------------------- */

static sp_tier_op *new_op(const sp_tier_job *job)
{
    sp_tier_op *op = SP_NEW(sp_tier_op);
    if (!op) return NULL;
    op->job = *job;
    atomic_init(&op->refs, 2);
    atomic_init(&op->cancelled, false);
    pthread_mutex_init(&op->lock, NULL);
    sp_cond_init(&op->done);
    return op;
}

void sp_tier_op_release(sp_tier_op *op)
{
    if (!op || atomic_fetch_sub(&op->refs, 1) > 1) return;
    pthread_cond_destroy(&op->done);
    pthread_mutex_destroy(&op->lock);
    sp_free(op);
}

/* make_op -- checked; with two holders. */
static sp_err make_op(const sp_tier_job *job, sp_tier_op **out)
{
    if (job->verb == SP_TIER_PUT) SP_TRY(sp_record_check(job->record));
    sp_tier_op *op = new_op(job);
    if (!op) return sp_fail_nomem("an operation of a tier");
    if (job->verb == SP_TIER_PUT) op->job.key = sp_tier_key_of(job->record);
    *out = op;
    return SP_OK;
}

sp_err sp_tier_submit(sp_tier *t, const sp_tier_job *job, sp_tier_op **out)
{
    sp_tier_op *op;
    SP_TRY(make_op(job, &op));
    if (out)
        *out = op;
    else
        atomic_store(&op->refs, 1);
    sp_op_queue_push(t->type->queue_of(t, job->verb), &op, 1);
    return SP_OK;
}

static void free_ops(sp_tier_op **ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        atomic_store(&ops[i]->refs, 1);
        sp_tier_op_release(ops[i]);
        ops[i] = NULL;
    }
}

sp_err sp_tier_submit_all(sp_tier *t, const sp_tier_job *jobs, size_t n, sp_tier_op **ops)
{
    for (size_t i = 0; i < n; i++) {
        sp_err err = make_op(&jobs[i], &ops[i]);
        if (err == SP_OK) continue;
        free_ops(ops, i);
        return err;
    }
    for (size_t i = 0, end; i < n; i = end) { /* as many at a time as one queue takes */
        sp_op_queue *q = t->type->queue_of(t, jobs[i].verb);
        for (end = i + 1; end < n && t->type->queue_of(t, jobs[end].verb) == q;) end++;
        sp_op_queue_push(q, &ops[i], end - i);
    }
    return SP_OK;
}

sp_err sp_tier_run(sp_tier *t, const sp_tier_job *job)
{
    sp_tier_op *op;
    SP_TRY(make_op(job, &op));
    if (t->type->run) {
        sp_tier_op_finish(op, t->type->run(t, op));
    } else {
        sp_op_queue_push(t->type->queue_of(t, job->verb), &op, 1);
        sp_tier_op_wait(op, -1);
    }
    sp_err err = sp_tier_op_result(op);
    sp_tier_op_release(op);
    return err;
}

void sp_tier_op_finish(sp_tier_op *op, sp_err err)
{
    pthread_mutex_lock(&op->lock);
    op->err = err;
    if (err != SP_OK) snprintf(op->detail, sizeof op->detail, "%s", sp_error_detail());
    pthread_mutex_unlock(&op->lock);
    if (op->job.done) op->job.done(op->job.user, op);
    pthread_mutex_lock(&op->lock);
    op->is_done = true;
    pthread_cond_broadcast(&op->done);
    pthread_mutex_unlock(&op->lock);
    sp_tier_op_release(op);
}

bool sp_tier_op_is_done(sp_tier_op *op)
{
    pthread_mutex_lock(&op->lock);
    bool done = op->is_done;
    pthread_mutex_unlock(&op->lock);
    return done;
}

bool sp_tier_op_wait(sp_tier_op *op, int64_t timeout_us)
{
    const struct timespec end = sp_clock_after(timeout_us);
    int rc = 0;
    pthread_mutex_lock(&op->lock);
    while (!op->is_done && rc != ETIMEDOUT)
        rc = timeout_us < 0 ? pthread_cond_wait(&op->done, &op->lock)
                            : pthread_cond_timedwait(&op->done, &op->lock, &end);
    bool done = op->is_done;
    pthread_mutex_unlock(&op->lock);
    return done;
}

void sp_tier_op_cancel(sp_tier_op *op)
{
    atomic_store(&op->cancelled, true);
}

void sp_tier_op_withdraw(sp_tier_op *op)
{
    atomic_store(&op->withdrawn, true);
    sp_tier_op_cancel(op);
    if (op->queue && sp_op_queue_remove(op->queue, op))
        sp_tier_op_finish(op, sp_fail(SP_E_CANCELED, "an operation was cancelled"));
}

bool sp_tier_op_is_cancelled(const sp_tier_op *op)
{
    return atomic_load(&op->cancelled);
}

bool sp_tier_op_is_withdrawn(const sp_tier_op *op)
{
    return atomic_load(&op->withdrawn);
}

sp_err sp_tier_op_begin(const sp_tier_op *op)
{
    const int64_t deadline = op->job.deadline_us;
    if (sp_tier_op_is_cancelled(op)) return sp_fail(SP_E_CANCELED, "an operation was cancelled");
    if (deadline && sp_clock_us() > deadline)
        return sp_fail(SP_E_IO, "an operation waited too long for its tier");
    return SP_OK;
}

sp_err sp_tier_op_list(const sp_tier_op *op, const sp_tier_info *v, size_t n)
{
    sp_err err = SP_OK;
    for (size_t i = 0; err == SP_OK && i < n; i++)
        err = sp_tier_op_is_cancelled(op) ? sp_fail(SP_E_CANCELED, "a list was cancelled")
                                          : op->job.each(op->job.user, &v[i]);
    return err;
}

sp_err sp_tier_op_result(sp_tier_op *op)
{
    pthread_mutex_lock(&op->lock);
    sp_err err = op->err;
    if (err != SP_OK) err = sp_fail(err, "%s", op->detail);
    pthread_mutex_unlock(&op->lock);
    return err;
}

/* -- any tier ------------------------------------------------------------------------------- */

bool sp_tier_knows(sp_tier *t, const sp_tier_key *key)
{
    return t->type->knows(t, key);
}

bool sp_tier_answers(sp_tier *t)
{
    return !t->type->answers || t->type->answers(t);
}

bool sp_tier_takes(sp_tier *t)
{
    return t->type->takes && t->type->takes(t);
}

bool sp_tier_is_writer(sp_tier *t)
{
    return !t->type->is_writer || t->type->is_writer(t);
}

bool sp_tier_has_news(const sp_tier *t)
{
    return t->type->news != NULL;
}

sp_err sp_tier_news(sp_tier *t, sp_err (*each)(void *user, const sp_tier_info *info), void *user)
{
    return sp_tier_has_news(t) ? t->type->news(t, each, user) : SP_OK;
}

void sp_tier_use(sp_tier *t, const sp_tier_key *key)
{
    if (t->type->use) t->type->use(t, key, true);
}

void sp_tier_touch(sp_tier *t, const sp_tier_key *key)
{
    if (t->type->use) t->type->use(t, key, false);
}

sp_tier_stats sp_tier_stats_of(sp_tier *t)
{
    return t->type->stats(t);
}

const char *sp_tier_name(const sp_tier *t)
{
    return t->type->name;
}

void sp_tier_close(sp_tier *t)
{
    if (t) t->type->close(t);
}
