#include "server/api/jobs.h"

#include <stdlib.h>
#include <string.h>

#include "server/api/handlers.h"

void srv_jobs_enter(srv_job *j)
{
    srv_server *s = j->s;
    pthread_mutex_lock(&s->jobs.lock);
    j->all.older = s->jobs.newest;
    if (j->all.older) j->all.older->all.newer = j;
    s->jobs.newest = j;
    pthread_mutex_unlock(&s->jobs.lock);
}

void srv_jobs_leave(srv_job *j)
{
    srv_server *s = j->s;
    pthread_mutex_lock(&s->jobs.lock);
    if (j->all.older) j->all.older->all.newer = j->all.newer;
    *(j->all.newer ? &j->all.newer->all.older : &s->jobs.newest) = j->all.older;
    pthread_mutex_unlock(&s->jobs.lock);
}

/* The requests of a tenant's jobs, oldest first, and where they are. */
typedef struct survey {
    srv_job **jobs; /* [n_jobs] */
    int *n_each, n_jobs;
    sp_request **requests; /* [n] */
    sp_request_view *views;
    int n;
} survey;

static bool is_listed(const srv_job *j, const srv_call *call)
{
    return !j->is_wrong && strcmp(j->tenant, call->salt ? call->salt : "") == 0;
}

/* take_job -- its requests so far. Pre: room. */
static void take_job(survey *v, srv_job *j)
{
    pthread_mutex_lock(&j->run.lock);
    const int n = j->run.n_started;
    for (int i = 0; i < n; i++) v->requests[v->n + i] = j->choices[i].request;
    pthread_mutex_unlock(&j->run.lock);
    v->jobs[v->n_jobs] = j;
    v->n_each[v->n_jobs++] = n;
    v->n += n;
}

/* take_all -- false: out of memory. */
static bool take_all(survey *v, const srv_call *call)
{
    size_t n = 0;
    srv_job *oldest = NULL;
    for (srv_job *j = call->s->jobs.newest; j; oldest = j, j = j->all.older) n++;
    v->jobs = calloc(n + 1, sizeof *v->jobs);
    v->n_each = calloc(n + 1, sizeof *v->n_each);
    v->requests = calloc(n * SRV_MAX_N + 1, sizeof *v->requests);
    v->views = calloc(n * SRV_MAX_N + 1, sizeof *v->views);
    if (!v->jobs || !v->n_each || !v->requests || !v->views) return false;
    for (srv_job *j = oldest; j; j = j->all.newer)
        if (is_listed(j, call)) take_job(v, j);
    sp_requests_look(v->requests, v->n, v->views);
    return true;
}

/* sum_of -- a job's choices: the tokens of all, the phase of the first that is not done. */
static sp_request_view sum_of(const sp_request_view *views, int n)
{
    sp_request_view sum = {.phase = n ? views[n - 1].phase : SP_PHASE_WAITING};
    for (int i = n; i-- > 0;) {
        if (views[i].phase != SP_PHASE_DONE) sum.phase = views[i].phase;
        sum.n_done += views[i].n_done;
        sum.n_todo += views[i].n_todo;
        sum.n_generated += views[i].n_generated;
    }
    return sum;
}

static json_t *job_json(const srv_job *j, sp_request_view v)
{
    static const char *const phases[] = {"waiting", "loading", "prompt", "answer", "done"};
    const double seconds = (double)(srv_now_us() - j->began_us) / 1e6;
    return json_pack("{s:s, s:s, s:I, s:s, s:f, s:s, s:i, s:i, s:i, s:i}", "id", j->id, "object", "request", "created",
                     (json_int_t)j->created, "path", j->record->path, "seconds", seconds, "state", phases[v.phase],
                     "prompt_tokens", (int)j->n_prompt, "to_compute", v.n_todo, "computed", v.n_done, "generated",
                     v.n_generated);
}

/* srv_requests -- those of the caller's tenant. Jobs that begin or end meanwhile wait for the list: at most a step. */
srv_sent srv_requests(srv_call *call)
{
    survey v = {0};
    pthread_mutex_lock(&call->s->jobs.lock);
    json_t *data = take_all(&v, call) ? json_array() : NULL;
    for (int i = 0, at = 0; data && i < v.n_jobs; at += v.n_each[i++])
        json_array_append_new(data, job_json(v.jobs[i], sum_of(v.views + at, v.n_each[i])));
    pthread_mutex_unlock(&call->s->jobs.lock);
    free(v.jobs);
    free(v.n_each);
    free(v.requests);
    free(v.views);
    json_t *o = data ? json_pack("{s:s, s:o}", "object", "list", "data", data) : NULL;
    return srv_reply_json(call->connection, 200, o);
}
