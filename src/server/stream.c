#include "server/stream.h"

#include <stdlib.h>
#include <string.h>

#include "server/answer.h"

#define PING_SECONDS 5

/* write_bytes -- false: out of memory. */
static bool write_bytes(srv_job *j, const char *s, size_t n)
{
    char *more = realloc(j->out, j->n_out + n);
    if (!more) return false;
    memcpy(more + j->n_out, s, n);
    j->out = more;
    j->n_out += n;
    return true;
}

static bool write_text(srv_job *j, const char *s)
{
    return write_bytes(j, s, strlen(s));
}

/* write_event -- consumes o. */
static bool write_event(srv_job *j, json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    bool good = text && write_text(j, "data: ") && write_text(j, text) && write_text(j, "\n\n");
    free(text);
    json_decref(o);
    return good;
}

/* event -- the frame around one choice (consumed). */
static json_t *event(const srv_job *j, json_t *choice)
{
    return srv_answer_frame(j, j->task.chat ? "chat.completion.chunk" : "text_completion",
                            choice ? json_pack("[o]", choice) : json_array());
}

/* piece -- a choice with new text; `finish` NULL: it continues. */
static json_t *piece(const srv_job *j, int index, json_t *text, const char *finish)
{
    json_t *c;
    if (!j->task.chat)
        c = json_pack("{s:i, s:o}", "index", index, "text", text ? text : json_string(""));
    else
        c = json_pack("{s:i, s:{s:o*}}", "index", index, "delta", "content", text);
    json_object_set_new(c, "logprobs", json_null());
    json_object_set_new(c, "finish_reason", finish ? json_string(finish) : json_null());
    return event(j, c);
}

static bool write_role(srv_job *j, int index)
{
    return write_event(j, event(j, json_pack("{s:i, s:{s:s, s:s}, s:n, s:n}", "index", index,
                                             "delta", "role", "assistant", "content", "",
                                             "logprobs", "finish_reason")));
}

static bool write_error(srv_job *j, const sp_result *r)
{
    const char *code;
    int status = srv_error_status(r->err, &code);
    return write_event(j, srv_error_json(status, NULL, code, r->detail));
}

/* n_open -- choices without their last event. */
static int n_open(const srv_job *j)
{
    int n = 0;
    for (int i = 0; i < j->n_started; i++) n += !j->choices[i].ended;
    return n;
}

static bool write_end(srv_job *j, srv_choice *c)
{
    const sp_result *r = sp_request_result(c->request);
    c->ended = true;
    if (r->finish == SP_FINISH_ERROR) return write_error(j, r);
    json_t *o = piece(j, c->index, NULL, srv_answer_finish(r->finish));
    if (n_open(j) == 0) {
        json_object_set_new(o, "timings", srv_answer_timings(r));
        json_object_set_new(o, "spolia", srv_answer_account(j));
    }
    return write_event(j, o);
}

/* write_choice -- what is new of one. Called with the lock held. */
static bool write_choice(srv_job *j, srv_choice *c)
{
    if (!c->begun && j->task.chat && !write_role(j, c->index)) return false;
    c->begun = true;
    if (c->taken < c->n) {
        json_t *text = json_stringn(c->text + c->taken, c->n - c->taken);
        if (!text) text = json_string("\xef\xbf\xbd");
        c->taken = c->n;
        if (!write_event(j, piece(j, c->index, text, NULL))) return false;
    }
    return !c->done || c->ended || write_end(j, c);
}

static bool write_close(srv_job *j)
{
    j->closed = true;
    if (j->task.include_usage && !srv_answer_failure(j)) {
        json_t *o = event(j, NULL);
        json_object_set_new(o, "usage", srv_answer_usage(j));
        if (!write_event(j, o)) return false;
    }
    return write_text(j, "data: [DONE]\n\n");
}

/* fill -- waits, and writes what is new; false: the stream breaks off. */
static bool fill(srv_job *j)
{
    j->n_out = j->out_at = 0;
    pthread_mutex_lock(&j->lock);
    bool news = srv_job_wait_change(j, PING_SECONDS), good = !j->gone;
    if (!news && good) good = write_text(j, ": ping\n\n");
    for (int i = 0; i < j->n_started && good && news; i++) good = write_choice(j, &j->choices[i]);
    if (good && n_open(j) == 0) good = write_close(j);
    pthread_mutex_unlock(&j->lock);
    return good;
}

ssize_t srv_stream_read(void *job, uint64_t at, char *out, size_t size)
{
    srv_job *j = job;
    (void)at;
    if (j->out_at == j->n_out) {
        if (j->closed) return MHD_CONTENT_READER_END_OF_STREAM;
        if (!fill(j)) return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t n = j->n_out - j->out_at;
    if (n > size) n = size;
    memcpy(out, j->out + j->out_at, n);
    j->out_at += n;
    return (ssize_t)n;
}
