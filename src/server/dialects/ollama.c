/* ollama.c -- answers of /api/chat and /api/generate: one object, or an object for each piece of text and one with
 * "done": true at the end. */
#include "server/dialects/ollama.h"

#include <string.h>
#include <time.h>

#include "server/api/answer.h"
#include "server/api/stream.h"
#include "server/http/reply.h"

json_t *srv_ollama_time(long long seconds)
{
    char text[40] = "";
    time_t t = (time_t)seconds;
    struct tm tm;
    if (gmtime_r(&t, &tm)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return json_string(text);
}

static bool is_chat(const srv_job *j)
{
    return j->task.dialect == &srv_ollama_chat;
}

/* frame -- text, thoughts and calls (consumed; the last two NULL: none) of the answer. */
static json_t *frame(const srv_job *j, json_t *text, json_t *thought, json_t *calls, bool done)
{
    json_t *o =
        json_pack("{s:s, s:o}", "model", j->s->o.alias, "created_at", srv_ollama_time(time(NULL)));
    if (is_chat(j))
        json_object_set_new(o, "message",
                            json_pack("{s:s, s:o, s:o*, s:o*}", "role", "assistant", "content", text,
                                      "thinking", thought, "tool_calls", calls));
    else
        json_object_set_new(o, "response", text);
    if (!is_chat(j) && thought) json_object_set_new(o, "thinking", thought);
    json_object_set_new(o, "done", json_boolean(done));
    return o;
}

/* add_end -- why it ended, counts, and times in nanoseconds. */
static void add_end(const srv_job *j, json_t *o)
{
    const sp_result *r = srv_job_result(j, 0);
    int64_t total = (r->ttft_us + r->decode_us) * 1000, prompt = (r->ttft_us - r->queue_us) * 1000;
    json_object_set_new(o, "done_reason", json_string(srv_answer_finish(r->finish, false)));
    json_object_set_new(o, "total_duration", json_integer(total));
    json_object_set_new(o, "load_duration", json_integer(0));
    json_object_set_new(o, "prompt_eval_count", json_integer(r->n_prompt));
    json_object_set_new(o, "prompt_eval_duration", json_integer(prompt > 0 ? prompt : 0));
    json_object_set_new(o, "eval_count", json_integer(r->n_generated));
    json_object_set_new(o, "eval_duration", json_integer(r->decode_us * 1000));
    json_object_set_new(o, "spolia", srv_answer_account(j));
}

static json_t *call_json(const json_t *call)
{
    return json_pack("{s:{s:O, s:o}}", "function", "name", json_object_get(call, "name"),
                     "arguments", srv_arguments_json(call));
}

/* thought_json -- from byte `at`; NULL: nothing new. */
static json_t *thought_json(const srv_said *said, size_t at)
{
    return said->n_thought > at ? srv_text_json(said->thought + at, said->n_thought - at) : NULL;
}

static json_t *whole(const srv_job *j)
{
    srv_said said;
    json_t *calls = json_array();
    srv_said_of(j, 0, &said);
    for (size_t k = 0; k < json_array_size(said.calls.v); k++)
        json_array_append_new(calls, call_json(json_array_get(said.calls.v, k)));
    bool any = json_array_size(calls) > 0;
    json_t *o = frame(j, srv_text_json(said.text, said.n_text), thought_json(&said, 0),
                      any ? json_incref(calls) : NULL, true);
    add_end(j, o);
    json_decref(calls);
    srv_said_fini(&said);
    return o;
}

static json_t *error(int status, const char *code, const char *why)
{
    (void)status, (void)code;
    return json_pack("{s:o}", "error", srv_text_json(why, strlen(why)));
}

static bool send_end(srv_job *j, srv_choice *c)
{
    const sp_result *r = sp_request_result(c->request);
    c->ended = true;
    if (r->finish == SP_FINISH_ERROR) return srv_stream_line(j, error(0, NULL, r->detail));
    json_t *o = frame(j, json_string(""), NULL, NULL, true);
    add_end(j, o);
    return srv_stream_line(j, o);
}

/* write -- calls are sent whole. */
static bool write_new(srv_job *j)
{
    srv_choice *c = &j->choices[0];
    srv_said said;
    bool good = true;
    if (c->ended) return true;
    srv_said_of(j, 0, &said);
    json_t *thought = thought_json(&said, c->thought_taken);
    c->thought_taken = said.n_thought;
    if (thought) good = srv_stream_line(j, frame(j, json_string(""), thought, NULL, false));
    if (good && said.n_text > c->taken && c->n_calls == 0) {
        json_t *text = srv_text_json(said.text + c->taken, said.n_text - c->taken);
        good = srv_stream_line(j, frame(j, text, NULL, NULL, false));
        c->taken = said.n_text;
    }
    for (; good && c->n_calls < json_array_size(said.calls.v); c->n_calls++) {
        json_t *call = call_json(json_array_get(said.calls.v, c->n_calls));
        good = srv_stream_line(j, frame(j, json_string(""), NULL, json_pack("[o]", call), false));
    }
    srv_said_fini(&said);
    c->seen = c->n;
    return good && (!c->done || send_end(j, c));
}

#define RENAMED                                                                                    \
    {                                                                                              \
        {"max_tokens", "options.num_predict"}, {"response_format", "format"},                      \
        {                                                                                          \
            "temperature", "options.temperature"                                                   \
        }                                                                                          \
    }

const srv_dialect srv_ollama_chat = {.lines = true,
                                     .renamed = RENAMED,
                                     .body = srv_ollama_chat_body,
                                     .whole = whole,
                                     .write = write_new,
                                     .error = error};
const srv_dialect srv_ollama_generate = {.lines = true,
                                         .renamed = RENAMED,
                                         .body = srv_ollama_generate_body,
                                         .whole = whole,
                                         .write = write_new,
                                         .error = error};

/* -- handlers ---------------------------------------------------------------------------------------------- */

/* is_load -- a body with nothing to answer asks whether the model is loaded: it is. */
static bool is_load(const srv_call *call, const char *name)
{
    srv_fields f;
    json_t *body = srv_fields_parse(&f, call->body, call->n),
           *v = body ? srv_field(&f, name) : NULL;
    bool empty = body && (!v || (json_is_string(v) && !*json_string_value(v)) ||
                          (json_is_array(v) && json_array_size(v) == 0));
    json_decref(body);
    return empty;
}

static srv_sent reply_loaded(const srv_call *call, bool chat)
{
    json_t *o = json_pack("{s:s, s:o, s:b, s:s}", "model", call->s->o.alias, "created_at",
                          srv_ollama_time(time(NULL)), "done", 1, "done_reason", "load");
    if (chat)
        json_object_set_new(o, "message",
                            json_pack("{s:s, s:s}", "role", "assistant", "content", ""));
    else
        json_object_set_new(o, "response", json_string(""));
    return srv_reply_json(call->connection, 200, o);
}

srv_sent srv_ollama_chat_call(srv_call *call)
{
    return is_load(call, "messages") ? reply_loaded(call, true)
                                     : srv_generate(call, &srv_ollama_chat, true);
}

srv_sent srv_ollama_generate_call(srv_call *call)
{
    return is_load(call, "prompt") ? reply_loaded(call, false)
                                   : srv_generate(call, &srv_ollama_generate, true);
}
