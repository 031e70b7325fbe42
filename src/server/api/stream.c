#include "server/api/stream.h"

#include <stdlib.h>
#include <string.h>

#include "server/api/answer.h"
#include "server/api/citations.h"
#include "server/api/logprobs.h"
#include "server/api/dialect.h"
#include "server/http/memory.h"
#include "server/http/reply.h"

#define PING_SECONDS 5
#define PROGRESS_MS  100

/* write_bytes -- false: out of memory. */
static bool write_bytes(srv_job *j, const char *s, size_t n)
{
    char *more = realloc(j->stream.out, j->stream.n_out + n);
    if (!more) return false;
    memcpy(more + j->stream.n_out, s, n);
    j->stream.out = more;
    j->stream.n_out += n;
    return true;
}

bool srv_stream_text(srv_job *j, const char *s)
{
    return write_bytes(j, s, strlen(s));
}

bool srv_stream_event(srv_job *j, const char *name, json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    bool good = text && !srv_memory_failed(); /* a part of it may be missing */
    if (name)
        good = good && srv_stream_text(j, "event: ") && srv_stream_text(j, name) &&
               srv_stream_text(j, "\n");
    good = good && srv_stream_text(j, "data: ") && srv_stream_text(j, text) &&
           srv_stream_text(j, "\n\n");
    free(text);
    json_decref(o);
    return good;
}

static bool write_event(srv_job *j, json_t *o)
{
    return srv_stream_event(j, NULL, o);
}

/* event -- the frame around one choice (consumed). */
static json_t *event(const srv_job *j, json_t *choice)
{
    return srv_answer_frame(j, j->task.chat ? "chat.completion.chunk" : "text_completion",
                            choice ? json_pack("[o]", choice) : json_array());
}

/* piece -- a choice with new text; `finish` NULL: it continues. */
static json_t *piece(srv_job *j, srv_choice *from, json_t *text, const char *finish)
{
    json_t *c;
    int index = from->index;
    if (!j->task.chat)
        c = json_pack("{s:i, s:o}", "index", index, "text", text ? text : json_string(""));
    else
        c = json_pack("{s:i, s:{s:o*}}", "index", index, "delta", "content", text);
    json_object_set_new(c, "logprobs", srv_logprobs_new(from));
    json_object_set_new(c, "finish_reason", finish ? json_string(finish) : json_null());
    return event(j, c);
}

/* write_role -- of a chat's choice, with what its text begins with. */
static bool write_role(srv_job *j, int index)
{
    const char *echo = srv_job_echo(j, index);
    return write_event(
        j, event(j, json_pack("{s:i, s:{s:s, s:s}, s:n, s:n}", "index", index, "delta", "role",
                              "assistant", "content", echo ? echo : "", "logprobs", "finish_reason")));
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
    for (int i = 0; i < j->run.n_started; i++) n += !j->choices[i].ended;
    return n;
}

static bool write_end(srv_job *j, srv_choice *c)
{
    const sp_result *r = sp_request_result(c->request);
    c->ended = true;
    if (r->finish == SP_FINISH_ERROR) return write_error(j, r);
    json_t *o = piece(j, c, NULL, srv_answer_finish(r->finish, c->n_calls && !c->call_open));
    srv_citations_add(j, c->index, json_array_get(json_object_get(o, "choices"), 0));
    if (n_open(j) == 0) {
        json_object_set_new(o, "timings", srv_answer_timings(r));
        json_object_set_new(o, "spolia", srv_answer_account(j));
    }
    return write_event(j, o);
}

static bool write_delta(srv_job *j, const srv_choice *c, json_t *call)
{
    json_t *choice = json_pack("{s:i, s:{s:[o]}, s:n, s:n}", "index", c->index, "delta",
                               "tool_calls", call, "logprobs", "finish_reason");
    return write_event(j, event(j, choice));
}

/* write_call -- writes the new part of call number k: first its name, then its arguments. */
static bool write_call(srv_job *j, srv_choice *c, size_t k, const json_t *call, bool complete)
{
    const json_t *text = json_object_get(call, "arguments");
    if (k == c->n_calls) {
        json_t *begun =
            json_pack("{s:O, s:s}", "name", json_object_get(call, "name"), "arguments", "");
        json_t *first = begun ? srv_answer_call(j, c->index, k, begun, true) : NULL;
        json_decref(begun);
        c->n_calls++;
        c->n_sent = 0;
        if (!write_delta(j, c, first)) return false;
    }
    c->call_open = !complete;
    const char *s = json_string_value(text);
    size_t n = json_string_length(text), at = c->n_sent;
    if (n <= at) return true;
    c->n_sent = n;
    return write_delta(j, c,
                       json_pack("{s:I, s:{s:s%}}", "index", (json_int_t)k, "function", "arguments",
                                 s + at, n - at));
}

static bool write_thought(srv_job *j, srv_choice *c, const srv_said *said)
{
    const size_t at = c->thought_taken;
    if (said->n_thought <= at) return true;
    c->thought_taken = said->n_thought;
    return write_event(j, event(j, json_pack("{s:i, s:{s:o}, s:n, s:n}", "index", c->index, "delta",
                                             "reasoning_content",
                                             srv_text_json(said->thought + at, said->n_thought - at),
                                             "logprobs", "finish_reason")));
}

/* write_said -- of a chat with tools or thoughts: thoughts, text, and what is known of calls. */
static bool write_said(srv_job *j, srv_choice *c)
{
    srv_said said;
    srv_said_of(j, c->index, &said);
    const srv_calls *found = &said.calls;
    const size_t n = json_array_size(found->v);
    bool good = write_thought(j, c, &said);
    if (good && said.n_text > c->taken && c->n_calls == 0) { /* what a broken call leaves is no text */
        json_t *text = srv_text_json(said.text + c->taken, said.n_text - c->taken);
        c->taken = said.n_text;
        good = write_event(j, piece(j, c, text, NULL));
    }
    for (size_t k = c->n_calls - c->call_open; good && k < n; k++)
        good = write_call(j, c, k, json_array_get(found->v, k), true);
    if (good && found->open && n + 1 >= c->n_calls) good = write_call(j, c, n, found->open, false);
    srv_said_fini(&said);
    c->seen = c->n;
    return good;
}

/* write_choice -- writes its new part. Called with the lock held. */
static bool write_choice(srv_job *j, srv_choice *c)
{
    if (!c->begun && j->task.chat && !write_role(j, c->index)) return false;
    const char *echo = j->task.chat ? NULL : srv_job_echo(j, c->index);
    if (!c->begun && echo && !write_event(j, piece(j, c, srv_text_json(echo, strlen(echo)), NULL)))
        return false;
    c->begun = true;
    const bool parts = j->task.tools.list || j->task.thoughts;
    if (parts && !c->ended && (c->seen < c->n || c->done) && !write_said(j, c)) return false;
    if (!parts && c->taken < c->n) {
        json_t *text = json_stringn(c->text + c->taken, c->n - c->taken);
        if (!text) text = json_string("\xef\xbf\xbd");
        c->taken = c->seen = c->n;
        if (!write_event(j, piece(j, c, text, NULL))) return false;
    }
    return !c->done || c->ended || write_end(j, c);
}

static bool write_close(srv_job *j)
{
    srv_job_settle(j);
    j->stream.closed = true;
    if (j->task.dialect != &srv_openai) return true; /* its last event is its end */
    if (j->task.reply.include_usage && !srv_answer_failure(j)) {
        json_t *o = event(j, NULL);
        json_object_set_new(o, "usage", srv_answer_usage(j));
        if (!write_event(j, o)) return false;
    }
    return srv_stream_text(j, "data: [DONE]\n\n");
}

/* -- progress --------------------------------------------------------------------------------- */

/* write_progress -- as llama.cpp has it: of the prompt's `total` tokens, `cache` are reused, and
 * `processed` are reused or computed. */
static bool write_progress(srv_job *j, int done, int to_compute)
{
    int cache = j->n_prompt - to_compute;
    if (cache < 0) cache = 0;
    json_t *o = event(
        j, j->task.chat ? json_pack("{s:i, s:{}, s:n}", "index", 0, "delta", "finish_reason")
                        : json_pack("{s:i, s:s, s:n}", "index", 0, "text", "", "finish_reason"));
    json_object_set_new(o, "prompt_progress",
                        json_pack("{s:i, s:i, s:i, s:I}", "total", j->n_prompt, "cache", cache,
                                  "processed", cache + done, "time_ms",
                                  (json_int_t)(srv_now_us() - j->began_us) / 1000));
    return write_event(j, o);
}

/* ask_progress -- how many tokens of the prompt are computed, and into the stream of how many. Called with the lock
 * held, which it gives up meanwhile. */
static int ask_progress(srv_job *j)
{
    int done = 0, total = 0;
    sp_request *r = j->run.n_started ? j->choices[0].request : NULL;
    pthread_mutex_unlock(&j->run.lock);
    sp_request_progress(r, &done, &total);
    pthread_mutex_lock(&j->run.lock);
    if (total) j->stream.to_compute = total;
    return done;
}

/* wait_for_text -- the same as srv_job_wait_change, and prompt_progress until the first text: at its
 * start, whenever it has grown, and at its end. Called with the lock held, which it gives up while it
 * asks the engine. */
static bool wait_for_text(srv_job *j, bool *good)
{
    int64_t end = srv_now_us() + PING_SECONDS * 1000000;
    bool news;
    if (j->stream.progress_at < 0) {
        j->stream.progress_at = 0;
        *good = write_progress(j, 0, j->n_prompt);
        return false;
    }
    while (!(news = srv_job_wait_change(j, PROGRESS_MS)) && srv_now_us() < end) {
        const int done = ask_progress(j);
        if (j->stream.to_compute == 0 || done <= j->stream.progress_at) continue;
        j->stream.progress_at = done;
        *good = write_progress(j, done, j->stream.to_compute);
        return false;
    }
    if (news && !j->run.gone) {
        ask_progress(j); /* the text may have come before anybody asked */
        j->stream.in_answer = true;
        if (j->stream.to_compute) *good = write_progress(j, j->stream.to_compute, j->stream.to_compute);
    }
    return news;
}

/* write_choices -- writes the new parts of all choices. */
static bool write_choices(srv_job *j)
{
    bool good = true;
    for (int i = 0; i < j->run.n_started && good; i++) good = write_choice(j, &j->choices[i]);
    return good;
}

/* write_ping -- shows that the server is alive; streams of lines have no form for it. */
static bool write_ping(srv_job *j)
{
    const srv_dialect *d = j->task.dialect;
    return d->lines || srv_stream_text(j, d->ping ? d->ping : ": ping\n\n");
}

/* fill -- waits, and writes what is new; false: the stream breaks off. */
static bool fill(srv_job *j)
{
    bool good = true;
    j->stream.n_out = j->stream.out_at = 0;
    pthread_mutex_lock(&j->run.lock);
    bool asks = j->task.reply.progress && !j->stream.in_answer;
    bool news = asks ? wait_for_text(j, &good) : srv_job_wait_change(j, PING_SECONDS * 1000);
    good = good && !j->run.gone;
    if (!news && good && j->stream.n_out == 0) good = write_ping(j);
    if (good && news) good = j->task.dialect->write(j);
    if (good && n_open(j) == 0) good = write_close(j);
    pthread_mutex_unlock(&j->run.lock);
    return good && !srv_memory_failed();
}

ssize_t srv_stream_read(void *job, uint64_t at, char *out, size_t size)
{
    srv_job *j = job;
    (void)at;
    while (j->stream.out_at == j->stream.n_out) {
        if (j->stream.closed) return MHD_CONTENT_READER_END_OF_STREAM;
        if (!fill(j)) return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t n = j->stream.n_out - j->stream.out_at;
    if (n > size) n = size;
    memcpy(out, j->stream.out + j->stream.out_at, n);
    j->stream.out_at += n;
    return (ssize_t)n;
}

const srv_dialect srv_openai = {.whole = srv_answer, .write = write_choices};
