#include "server/api/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/api/answer.h"
#include "server/api/dialect.h"
#include "server/api/explain.h"
#include "server/api/jobs.h"
#include "server/http/exchange.h"
#include "server/http/memory.h"

srv_job *srv_job_create(const srv_call *call, const srv_task *t, json_t *body, srv_documents *d)
{
    srv_job *j = calloc(1, sizeof *j);
    if (!j) return NULL;
    *j = (srv_job){.s = call->s,
                   .record = call->record,
                   .account = call->place->account,
                   .task = *t,
                   .documents = *d,
                   .body = body,
                   .created = time(NULL),
                   .began_us = srv_now_us(),
                   .stream.progress_at = -1};
    snprintf(j->tenant, sizeof j->tenant, "%s", call->salt ? call->salt : "");
    j->number = atomic_fetch_add(&call->s->next_id, 1);
    snprintf(j->id, sizeof j->id, "%s-%016llx%08llx",
             t->dialect->id ? t->dialect->id
             : t->chat      ? "chatcmpl"
                            : "cmpl",
             (unsigned long long)call->s->run, j->number);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&j->run.lock, NULL);
    pthread_cond_init(&j->run.changed, &clock);
    pthread_condattr_destroy(&clock);
    srv_jobs_enter(j);
    return j;
}

/* -- on the engine thread ----------------------------------------------------------------------- */

static bool append(srv_choice *c, const char *text, size_t n)
{
    if (c->cap - c->n < n) {
        size_t cap = 2 * c->cap + n + 64;
        char *more = realloc(c->text, cap);
        if (!more) return false;
        c->text = more;
        c->cap = cap;
    }
    memcpy(c->text + c->n, text, n);
    c->n += n;
    return true;
}

/* note_begun -- its prompt is computed. */
static void note_begun(srv_choice *c)
{
    if (!c->has_begun) atomic_fetch_sub(&c->job->s->counts.n_prefilling, 1);
    c->has_begun = true;
}

/* on_begun -- of an answer that nobody streams. */
static bool on_begun(const char *text, size_t n, void *user)
{
    note_begun(user);
    return true;
}

static bool on_text(const char *text, size_t n, void *user)
{
    srv_choice *c = user;
    srv_job *j = c->job;
    note_begun(c);
    pthread_mutex_lock(&j->run.lock);
    const bool wanted = !j->run.gone && append(c, text, n);
    if (!wanted) j->run.gone = true; /* out of memory: the stream breaks off */
    pthread_cond_signal(&j->run.changed);
    pthread_mutex_unlock(&j->run.lock);
    return wanted;
}

static void on_token(const sp_token_logprob *v, int n, void *user)
{
    srv_choice *c = user;
    srv_job *j = c->job;
    size_t n_each = (size_t)n;
    pthread_mutex_lock(&j->run.lock);
    if (c->n_tokens == c->cap_tokens) {
        size_t cap = 2 * c->cap_tokens + 64;
        void *more = reallocarray(c->tokens, cap, n_each * sizeof *v);
        if (more) {
            c->tokens = more;
            c->cap_tokens = cap;
        }
    }
    if (c->n_tokens < c->cap_tokens)
        memcpy(c->tokens + n_each * c->n_tokens++, v, n_each * sizeof *v);
    else
        j->run.gone = true; /* out of memory: on_text ends it */
    pthread_mutex_unlock(&j->run.lock);
}

static void on_done(void *user)
{
    srv_choice *c = user;
    srv_job *j = c->job;
    note_begun(c);
    pthread_mutex_lock(&j->run.lock);
    c->done = true;
    j->run.n_done++;
    pthread_cond_signal(&j->run.changed);
    pthread_mutex_unlock(&j->run.lock);
}

/* -- on the thread of the connection ------------------------------------------------------------ */

/* begin_tokens -- those of an echoed prompt come first. False: out of memory. */
static bool begin_tokens(srv_choice *c, const srv_job *j)
{
    const srv_echo *e = &j->echoes[c->index / j->task.n];
    size_t size = ((size_t)j->task.reply.top_logprobs + 1) * sizeof *c->tokens;
    if (e->n == 0) return true;
    c->tokens = reallocarray(NULL, e->n, size);
    if (!c->tokens) return false;
    memcpy(c->tokens, e->tokens, e->n * size);
    c->n_tokens = c->cap_tokens = c->n_echoed = e->n;
    c->n_added = e->n_added;
    return true;
}

/* start_choice -- the library may call on_text and on_done before this returns. */
static sp_err start_choice(srv_job *j, int i, const sp_prompt *p)
{
    srv_choice *c = &j->choices[i];
    sp_request *request;
    /* a grammar does not allow thoughts */
    *c = (srv_choice){.job = j, .index = i, .in_thought = sp_prompt_thinks(p) && !j->task.grammar};
    if (!begin_tokens(c, j)) return SP_E_NOMEM;
    sp_request_opts o = {.sampling = j->task.sampling,
                         .max_tokens = j->task.max_tokens,
                         .stop = j->task.stop.texts,
                         .n_stop = j->task.stop.n,
                         .stop_tokens = j->task.stop.tokens,
                         .n_stop_tokens = j->task.stop.n_tokens,
                         .reuse = j->task.own_reuse ? &j->task.reuse : NULL,
                         .ignore_end = j->task.ignore_end,
                         .min_tokens = j->task.min_tokens,
                         .priority = j->task.queue.ranks ? j->task.queue.priority : 0,
                         .own_priority = j->task.queue.priority,
                         .max_wait_ms = j->task.queue.max_wait_ms,
                         .retain_ms = j->task.retain.ms,
                         .n_retain = j->task.retain.n,
                         .tenant = j->task.queue.tenant,
                         .grammar = j->task.grammar,
                         .decode = j->task.decode,
                         .citations = j->task.reply.citations,
                         .on_token = j->task.reply.logprobs ? on_token : NULL,
                         .top_logprobs = j->task.reply.top_logprobs,
                         .on_text = j->task.reply.stream ? on_text : on_begun,
                         .on_done = on_done,
                         .user = c};
    o.sampling.seed += (uint64_t)(i % j->task.n);
    atomic_fetch_add(&j->s->counts.n_prefilling, 1);
    sp_err err = sp_request_submit(j->s->ctx, p, &o, &request);
    if (err != SP_OK) {
        atomic_fetch_sub(&j->s->counts.n_prefilling, 1);
        free(c->tokens);
        return err;
    }
    atomic_fetch_add(&j->s->counts.n_active, 1);
    c->n_prompt = sp_prompt_n_tokens(p);
    srv_pace_begin(&j->s->pace, c->n_prompt, srv_now_us());
    pthread_mutex_lock(&j->run.lock);
    c->request = request;
    j->run.n_started++;
    pthread_mutex_unlock(&j->run.lock);
    return SP_OK;
}

sp_err srv_job_start(srv_job *j, sp_prompt *const *prompts)
{
    sp_err err = SP_OK;
    j->n_prompt = sp_prompt_n_tokens(prompts[0]);
    for (int i = 0; i < j->task.n * j->task.n_prompts && err == SP_OK; i++)
        err = start_choice(j, i, prompts[i / j->task.n]);
    return err;
}

const char *srv_job_echo(const srv_job *j, int choice)
{
    return j->echoes[choice / j->task.n].text;
}

bool srv_job_wait(srv_job *j)
{
    pthread_mutex_lock(&j->run.lock);
    while (j->run.n_done < j->run.n_started) pthread_cond_wait(&j->run.changed, &j->run.lock);
    bool wanted = !j->run.gone;
    pthread_mutex_unlock(&j->run.lock);
    return wanted;
}

static bool has_change(const srv_job *j)
{
    if (j->run.gone) return true;
    for (int i = 0; i < j->run.n_started; i++) {
        const srv_choice *c = &j->choices[i];
        if (c->seen < c->n || (c->done && !c->ended)) return true;
    }
    return false;
}

bool srv_job_wait_change(srv_job *j, int ms)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t ns = end.tv_nsec + (int64_t)ms * 1000000;
    end.tv_sec += ns / 1000000000;
    end.tv_nsec = ns % 1000000000;
    while (!has_change(j))
        if (pthread_cond_timedwait(&j->run.changed, &j->run.lock, &end) != 0) return has_change(j);
    return true;
}

void srv_job_leave(srv_job *j)
{
    pthread_mutex_lock(&j->run.lock);
    j->run.gone = true;
    for (int i = 0; i < j->run.n_started; i++)
        if (!j->choices[i].done) sp_request_cancel(j->choices[i].request);
    pthread_cond_signal(&j->run.changed);
    pthread_mutex_unlock(&j->run.lock);
}

const sp_result *srv_job_result(const srv_job *j, int i)
{
    return sp_request_result(j->choices[i].request);
}

void srv_job_settle(srv_job *j)
{
    int64_t n_generated = 0;
    if (j->settled || j->run.n_started == 0) return;
    j->settled = true;
    for (int i = 0; i < j->run.n_started; i++) n_generated += srv_job_result(j, i)->n_generated;
    srv_quotas_answer(j->s->quotas, j->account, n_generated, srv_now_us());
    json_t *explanation = srv_answer_explanation(j);
    if (srv_memory_failed())
        json_decref(explanation);
    else
        srv_explain_add(j->s->explain, j->tenant, j->id, j->record->id, explanation);
}

void srv_job_give_up(srv_job *wrong)
{
    for (int i = 0; i < wrong->run.n_started; i++) sp_request_cancel(wrong->choices[i].request);
    wrong->is_wrong = wrong->settled = true;
}

void srv_job_follow(srv_job *j, srv_job *wrong)
{
    wrong->task.grammar = NULL; /* j's, which outlives it */
    wrong->task.bias = NULL;
    j->wrong = wrong;
}

int srv_job_n_prefilling(const srv_job *j)
{
    int n = 0;
    for (; j; j = j->wrong)
        for (int i = 0; i < j->run.n_started; i++) n += !j->choices[i].has_begun;
    return n;
}

bool srv_job_is_gone(srv_job *j)
{
    pthread_mutex_lock(&j->run.lock);
    const bool gone = j->run.gone;
    pthread_mutex_unlock(&j->run.lock);
    return gone;
}

void srv_job_destroy(srv_job *j)
{
    if (!j) return;
    srv_jobs_leave(j);
    srv_job_leave(j);
    srv_job_wait(j);
    srv_job_settle(j);
    srv_job_destroy(j->wrong);
    for (int i = 0; i < j->run.n_started; i++) {
        const sp_result *r = srv_job_result(j, i);
        bool answered = r->finish == SP_FINISH_STOP || r->finish == SP_FINISH_LENGTH;
        srv_pace_end(&j->s->pace, j->choices[i].n_prompt, answered, srv_now_us());
        const bool first = i % j->task.n == 0; /* a prompt counts once */
        if (!j->is_wrong) srv_metrics_observe(&j->s->metrics, r, first);
        if (!j->is_wrong) srv_record_add(j->record, r, first);
        sp_request_destroy(j->choices[i].request);
        free(j->choices[i].text);
        free(j->choices[i].tokens);
        json_decref(j->choices[i].call);
        atomic_fetch_sub(&j->s->counts.n_active, 1);
    }
    pthread_cond_destroy(&j->run.changed);
    pthread_mutex_destroy(&j->run.lock);
    srv_documents_fini(&j->documents);
    free(j->stream.out);
    for (int i = 0; i < j->task.n_prompts; i++) srv_echo_fini(&j->echoes[i]);
    srv_task_fini(&j->task);
    json_decref(j->body);
    json_decref(j->asked);
    free(j);
}

static void leave(void *job)
{
    srv_job_leave(job);
}

static void end(void *job)
{
    srv_job_destroy(job);
}

void srv_job_watch(const srv_call *call, srv_job *j)
{
    srv_exchange_watch(call, (srv_running){.of = j, .leave = leave, .end = end});
}
