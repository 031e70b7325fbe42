/* job.h -- a task while it runs: one request of the library for each choice.
 *
 *   thread of the connection            engine thread             watcher
 *   srv_job_start ------------------->  on_text, on_done          srv_job_leave (hang-up)
 *   srv_job_wait  <-------------------- `changed`
 *   srv_job_destroy
 *
 * Invariant: a job is freed after on_done of every request that was submitted (the library calls it
 * even when the request was canceled).
 */
#ifndef SP_SERVER_API_JOB_H
#define SP_SERVER_API_JOB_H

#include "server/api/chars.h"
#include "server/api/retrieval.h"
#include "server/api/echo.h"
#include "server/api/messages.h"
#include "server/body/task.h"
#include "server/http/call.h"

typedef struct srv_choice {
    struct srv_job *job;
    int index;
    sp_request *request;
    char *text; /* [n] of a stream; `taken` bytes of what it says have been sent, [0, seen) was looked at */
    bool in_thought; /* the prompt ends with the mark that opens thoughts, or within thoughts */
    size_t n, cap, taken, seen;
    size_t thought_taken; /* bytes of its thoughts that have been sent; then `taken` counts only its text */
    sp_token_logprob *tokens; /* [n_tokens, 1 + top_logprobs], where the task asks for them */
    size_t n_tokens, cap_tokens, taken_tokens;
    size_t n_echoed, n_added; /* of an echo: its tokens, and characters of theirs before its text */
    size_t n_calls; /* calls whose name has been sent */
    size_t n_sent;  /* bytes of the last call's arguments that have been sent */
    bool call_open; /* the last call is incomplete */
    json_t *call;   /* /v1/responses: the last call as it was sent; or NULL. Owned */
    _Atomic bool has_begun; /* its prompt is computed, or it is done: no longer counted in n_prefilling */
    srv_chars text_at; /* of the sent tokens, with the prompt and n_added if it is echoed */
    int n_prompt;   /* tokens */
    bool begun, done, ended; /* ended: the stream has its last event */
} srv_choice;

/* How far a job is. */
typedef struct srv_run {
    pthread_mutex_t lock; /* guards n_done, gone, and text, n, tokens, done of choices */
    pthread_cond_t changed;
    int n_started, n_done;
    bool gone; /* nobody reads the answer */
} srv_run;

/* What was sent of a stream. */
typedef struct srv_stream {
    char *out; /* [n_out] bytes ready to be sent, from out_at on */
    size_t n_out, out_at;
    bool closed; /* `out` has the end of the stream */
    int progress_at,
        to_compute; /* prompt tokens computed as last reported (-1: nothing was), of how many */
    int n_events, n_items; /* of a response: sent */
    bool in_message;       /* of a response: its message is being sent */
    bool in_thought;       /* thoughts are being sent */
    bool in_answer;        /* the prompt's progress has been reported to its end */
} srv_stream;

typedef struct srv_job {
    srv_server *s;
    srv_record *record; /* of the request, for the log */
    srv_account *account; /* whose tokens it uses */
    srv_task task;
    srv_documents documents;
    srv_retrieval retrieval;    /* from a collection */
    struct srv_job *wrong;      /* canceled answers of the same request that began from other passages; owned */
    json_t *body;
    json_t *asked;              /* the original body, if `body` is derived from it; or NULL */
    srv_echo echoes[SRV_MAX_N]; /* [n_prompts] */
    _Atomic int n_prompt;       /* tokens of the first prompt */
    char id[48];
    unsigned long long number;
    char tenant[SRV_SALT_SIZE]; /* "": none */
    bool settled;
    _Atomic bool is_wrong; /* given up */
    struct {
        struct srv_job *older, *newer;
    } all; /* jobs.h */
    long long created;    /* seconds since 1970 */
    srv_run run;
    srv_choice choices[SRV_MAX_N];
    srv_stream stream;
    int64_t began_us;
} srv_job;

/* srv_job_create -- takes ownership of the body, the documents and the task's data. NULL: out of memory, and nothing
 * is taken. */
srv_job *srv_job_create(const srv_call *call, const srv_task *t, json_t *body, srv_documents *d);
/* srv_job_watch -- passes ownership of the job to the exchange, which cancels it when the client hangs up
 * (http/exchange.h). */
void srv_job_watch(const srv_call *call, srv_job *j);
/* srv_job_start -- submits each prompt n times. On an error, submitted requests are canceled. */
sp_err srv_job_start(srv_job *j, sp_prompt *const *prompts);
/* srv_job_give_up -- ends its requests at the next layer; they are neither reported nor counted. srv_job_follow -- j
 * takes ownership of a job that was given up, and its task. */
void srv_job_give_up(srv_job *wrong);
void srv_job_follow(srv_job *j, srv_job *wrong);
/* srv_job_n_prefilling -- its requests whose prompt is not computed yet, given-up ones included. */
int srv_job_n_prefilling(const srv_job *j);
/* srv_job_is_gone -- nobody reads the answer. */
bool srv_job_is_gone(srv_job *j);
/* srv_job_echo -- what the text of a choice begins with; NULL: nothing. */
const char *srv_job_echo(const srv_job *j, int choice);
/* srv_job_wait -- until all choices are done; false: nobody reads the answer any more. */
bool srv_job_wait(srv_job *j);
/* srv_job_wait_change -- with the lock held, waits at most `ms` until a choice has new text or is done; false: neither
 * happened. */
bool srv_job_wait_change(srv_job *j, int ms);
/* srv_job_leave -- the client has gone: cancels. Thread: any, while the job exists. */
void srv_job_leave(srv_job *j);
/* srv_job_settle -- before the end of the answer is sent: charges its tokens and publishes its account (explain.h).
 * Pre: all choices are done. */
void srv_job_settle(srv_job *j);
/* srv_job_destroy -- cancels its requests, waits until they have finished, and counts them. NULL is allowed. */
void srv_job_destroy(srv_job *j);

const sp_result *srv_job_result(const srv_job *j, int i); /* of a choice that is done */

#endif
