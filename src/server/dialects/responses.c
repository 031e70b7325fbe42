#include "server/dialects/responses.h"

#include <stdio.h>
#include <string.h>

#include "server/api/answer.h"
#include "server/api/dialect.h"
#include "server/api/logprobs.h"
#include "server/api/stream.h"
#include "server/http/reply.h"

/* -- the object ------------------------------------------------------------------------------- */

/* count_thoughts -- as tokens of a text. */
static int count_thoughts(const srv_job *j, const srv_said *said)
{
    int32_t *ids = NULL;
    size_t n = 0;
    if (said->n_thought &&
        sp_vocab_encode(j->s->vocab, said->thought, said->n_thought, false, &ids, &n) != SP_OK)
        n = 0;
    sp_buffer_free(ids);
    return (int)n;
}

static json_t *usage_json(const sp_result *r, int n_thoughts)
{
    return json_pack("{s:i, s:{s:i, s:i}, s:i, s:{s:i}, s:i}", "input_tokens", r->n_prompt,
                     "input_tokens_details", "cached_tokens", r->n_reused, "recomputed_tokens",
                     r->n_recomputed, "output_tokens", r->n_generated, "output_tokens_details",
                     "reasoning_tokens", n_thoughts, "total_tokens", r->n_prompt + r->n_generated);
}

static json_t *given(const srv_job *j, const char *name, json_t *otherwise)
{
    json_t *v = json_object_get(j->asked, name);
    if (!v || json_is_null(v)) return otherwise;
    json_decref(otherwise);
    return json_incref(v);
}

/* frame -- the response without output and usage. */
static json_t *frame(const srv_job *j, const char *status)
{
    json_t *o =
        json_pack("{s:o, s:s, s:I, s:s, s:n, s:n, s:s, s:n, s:b, s:f, s:f}", "id",
                  json_sprintf("resp_%s", srv_job_key(j)), "object", "response", "created_at",
                  (json_int_t)j->created, "status", status, "error", "incomplete_details", "model",
                  j->s->o.alias, "previous_response_id", "store", 0, "temperature",
                  (double)j->task.sampling.temperature, "top_p", (double)j->task.sampling.top_p);
    json_object_set_new(o, "instructions", given(j, "instructions", json_null()));
    json_object_set_new(o, "max_output_tokens", given(j, "max_output_tokens", json_null()));
    json_object_set_new(o, "metadata", given(j, "metadata", json_object()));
    json_object_set_new(o, "parallel_tool_calls", json_boolean(j->task.tools.several));
    json_object_set_new(o, "tool_choice", given(j, "tool_choice", json_string("auto")));
    json_object_set_new(o, "tools", given(j, "tools", json_array()));
    json_object_set_new(o, "text",
                        given(j, "text", json_pack("{s:{s:s}}", "format", "type", "text")));
    json_object_set_new(o, "truncation", json_string("disabled"));
    json_object_set_new(o, "output", json_array());
    json_object_set_new(o, "usage", json_null());
    return o;
}

/* part_json -- a text; logprobs (consumed) may be NULL. */
static json_t *part_json(const char *text, size_t n, json_t *logprobs)
{
    return json_pack("{s:s, s:o, s:[], s:o}", "type", "output_text", "text", srv_text_json(text, n),
                     "annotations", "logprobs", logprobs ? logprobs : json_array());
}

/* message_item -- part (consumed) NULL: it begins. */
static json_t *message_item(const srv_job *j, const char *status, json_t *part)
{
    return json_pack("{s:o, s:s, s:s, s:s, s:o}", "id", json_sprintf("msg_%s", srv_job_key(j)),
                     "type", "message", "status", status, "role", "assistant", "content",
                     part ? json_pack("[o]", part) : json_array());
}

/* thought_item -- text (consumed) NULL: it begins. */
static json_t *thought_item(const srv_job *j, json_t *text)
{
    return json_pack("{s:o, s:s, s:s, s:[], s:o}", "id", json_sprintf("rs_%s", srv_job_key(j)), "type", "reasoning",
                     "status", text ? "completed" : "in_progress", "summary", "content",
                     text ? json_pack("[{s:s, s:o}]", "type", "reasoning_text", "text", text) : json_array());
}

/* call_item -- call number k; one in progress has no arguments yet. */
static json_t *call_item(const srv_job *j, size_t k, const json_t *call, const char *status)
{
    bool begins = strcmp(status, "in_progress") == 0;
    json_t *named = srv_answer_call(j, 0, k, call, false);
    json_t *o = json_pack(
        "{s:o, s:s, s:s, s:O, s:O, s:o}", "id", json_sprintf("fc_%s_%zu", srv_job_key(j), k),
        "type", "function_call", "status", status, "call_id", json_object_get(named, "id"), "name",
        json_object_get(call, "name"), "arguments",
        begins ? json_string("") : json_incref(json_object_get(call, "arguments")));
    json_decref(named);
    return o;
}

static json_t *content_logprobs(const srv_choice *c)
{
    json_t *all = srv_logprobs(c, 0, c->n_tokens, (srv_chars){0}),
           *list = json_incref(json_object_get(all, "content"));
    json_decref(all);
    return list;
}

/* finish -- the response of a request that is done; `output` is consumed. */
static json_t *finish(const srv_job *j, json_t *output, int n_thoughts)
{
    const sp_result *r = srv_job_result(j, 0);
    bool cut = r->finish == SP_FINISH_LENGTH;
    json_t *o = frame(j, r->finish == SP_FINISH_ERROR ? "failed"
                         : cut                        ? "incomplete"
                                                      : "completed");
    if (cut)
        json_object_set_new(o, "incomplete_details",
                            json_pack("{s:s}", "reason", "max_output_tokens"));
    if (r->finish == SP_FINISH_ERROR)
        json_object_set_new(o, "error",
                            json_pack("{s:s, s:o}", "code", "server_error", "message",
                                      srv_text_json(r->detail, strlen(r->detail))));
    json_object_set_new(o, "output", output);
    json_object_set_new(o, "usage", usage_json(r, n_thoughts));
    json_object_set_new(o, "timings", srv_answer_timings(r));
    json_object_set_new(o, "spolia", srv_answer_account(j));
    return o;
}

/* message_status -- of the message of an answer that is done: a call after it shows that it is complete. */
static const char *message_status(const sp_result *r, bool calls)
{
    return r->finish == SP_FINISH_LENGTH && !calls ? "incomplete" : "completed";
}

static json_t *whole(const srv_job *j)
{
    srv_said said;
    const srv_choice *c = &j->choices[0];
    json_t *output = json_array();
    srv_said_of(j, 0, &said);
    const srv_calls *found = &said.calls;
    const size_t n = json_array_size(found->v);
    if (said.n_thought) json_array_append_new(output, thought_item(j, srv_text_json(said.thought, said.n_thought)));
    if (said.n_text || (n == 0 && !found->open))
        json_array_append_new(
            output, message_item(j, message_status(srv_job_result(j, 0), n || found->open),
                                 part_json(said.text, said.n_text, content_logprobs(c))));
    for (size_t k = 0; k < n; k++)
        json_array_append_new(output, call_item(j, k, json_array_get(found->v, k), "completed"));
    if (found->open) json_array_append_new(output, call_item(j, n, found->open, "incomplete"));
    const int n_thoughts = count_thoughts(j, &said);
    srv_said_fini(&said);
    return finish(j, output, n_thoughts);
}

/* -- events ----------------------------------------------------------------------------------- */

/* send_event -- an event with its type and number; o is consumed. */
static bool send_event(srv_job *j, const char *type, json_t *o)
{
    json_object_set_new(o, "type", json_string(type));
    json_object_set_new(o, "sequence_number", json_integer(j->stream.n_events++));
    return srv_stream_event(j, type, o);
}

static bool send_frame(srv_job *j, const char *type)
{
    return send_event(j, type, json_pack("{s:o}", "response", frame(j, "in_progress")));
}

/* about -- the fields that say which item, and of a message which part, an event is about. */
static json_t *about(const srv_job *j, json_t *id, bool part)
{
    json_t *o = json_pack("{s:o, s:i}", "item_id", id, "output_index", j->stream.n_items);
    if (part) json_object_set_new(o, "content_index", json_integer(0));
    return o;
}

/* send_item -- an item (consumed) is added or done. */
static bool send_item(srv_job *j, const char *type, json_t *item)
{
    return send_event(j, type, json_pack("{s:i, s:o}", "output_index", j->stream.n_items, "item", item));
}

static json_t *about_message(const srv_job *j)
{
    return about(j, json_sprintf("msg_%s", srv_job_key(j)), true);
}

/* about_thought -- with its new part as `name`. */
static json_t *about_thought(const srv_job *j, const char *name, const char *text, size_t n)
{
    json_t *o = about(j, json_sprintf("rs_%s", srv_job_key(j)), true);
    json_object_set_new(o, name, srv_text_json(text, n));
    return o;
}

/* send_thought -- sends its new part; thoughts after the message has begun are only in the whole response. */
static bool send_thought(srv_job *j, srv_choice *c, const srv_said *said)
{
    const size_t from = c->thought_taken, n = said->n_thought;
    if (n <= from || (!j->stream.in_thought && (j->stream.n_items || j->stream.in_message))) return true;
    if (!j->stream.in_thought && !send_item(j, "response.output_item.added", thought_item(j, NULL))) return false;
    j->stream.in_thought = true;
    c->thought_taken = n;
    return send_event(j, "response.reasoning_text.delta", about_thought(j, "delta", said->thought + from, n - from));
}

/* close_thought -- a thought is complete when something else begins. */
static bool close_thought(srv_job *j, const srv_choice *c, const srv_said *said)
{
    if (!j->stream.in_thought) return true;
    j->stream.in_thought = false;
    const bool good =
        send_event(j, "response.reasoning_text.done", about_thought(j, "text", said->thought, c->thought_taken)) &&
        send_item(j, "response.output_item.done", thought_item(j, srv_text_json(said->thought, c->thought_taken)));
    j->stream.n_items++;
    return good;
}

static bool open_message(srv_job *j)
{
    if (j->stream.in_message) return true;
    j->stream.in_message = true;
    json_t *part = about_message(j);
    json_object_set_new(part, "part", part_json("", 0, NULL));
    return send_item(j, "response.output_item.added", message_item(j, "in_progress", NULL)) &&
           send_event(j, "response.content_part.added", part);
}

static bool send_text(srv_job *j, srv_choice *c, const srv_said *said)
{
    const size_t upto = said->n_text;
    if (upto <= c->taken) return true;
    if (!open_message(j)) return false;
    json_t *o = about_message(j), *told = srv_logprobs_new(c),
           *list = json_object_get(told, "content");
    json_object_set_new(o, "delta", srv_text_json(said->text + c->taken, upto - c->taken));
    json_object_set_new(o, "logprobs", list ? json_incref(list) : json_array());
    json_decref(told);
    c->taken = upto;
    return send_event(j, "response.output_text.delta", o);
}

/* close_message -- its text is complete. */
static bool close_message(srv_job *j, const srv_choice *c, const char *text, const char *status)
{
    if (!j->stream.in_message) return true;
    j->stream.in_message = false;
    json_t *list = content_logprobs(c), *whole = about_message(j), *part = about_message(j);
    json_object_set_new(whole, "text", srv_text_json(text, c->taken));
    json_object_set_new(whole, "logprobs", list ? json_incref(list) : json_array());
    json_object_set_new(part, "part", part_json(text, c->taken, list ? json_incref(list) : NULL));
    json_t *item = message_item(j, status, part_json(text, c->taken, list));
    bool good = send_event(j, "response.output_text.done", whole) &&
                send_event(j, "response.content_part.done", part) &&
                send_item(j, "response.output_item.done", json_incref(item));
    j->stream.n_items++;
    json_decref(item);
    return good;
}

/* send_call -- what is new of call number k: its item, then its arguments in pieces, then their end. */
static bool send_call(srv_job *j, srv_choice *c, size_t k, const srv_said *said, json_t *call, bool complete)
{
    const json_t *arguments = json_object_get(call, "arguments");
    json_t *id = json_sprintf("fc_%s_%zu", srv_job_key(j), k);
    bool good = true;
    if (k == c->n_calls) {
        c->n_calls++;
        c->n_sent = 0;
        good = close_message(j, c, said->text, "completed") &&
               send_item(j, "response.output_item.added", call_item(j, k, call, "in_progress"));
    }
    size_t at = c->n_sent, n = json_string_length(arguments);
    if (good && n > at) {
        json_t *delta = about(j, json_incref(id), false);
        json_object_set_new(delta, "delta",
                            json_stringn(json_string_value(arguments) + at, n - at));
        good = send_event(j, "response.function_call_arguments.delta", delta);
        c->n_sent = n;
    }
    c->call_open = !complete;
    json_decref(c->call);
    c->call = json_incref(call);
    if (good && complete) {
        json_t *whole = about(j, json_incref(id), false);
        json_object_set_new(whole, "arguments", json_string(json_string_value(arguments)));
        json_object_set(whole, "name", json_object_get(call, "name"));
        good = send_event(j, "response.function_call_arguments.done", whole) &&
               send_item(j, "response.output_item.done", call_item(j, k, call, "completed"));
        j->stream.n_items++;
    }
    json_decref(id);
    return good;
}

/* send_calls -- the calls that are complete, and what is known of the next one. An answer may end within a call:
 * then its item ends without the end of its arguments. */
static bool send_calls(srv_job *j, srv_choice *c, const srv_said *said)
{
    const srv_calls *found = &said->calls;
    bool good = true;
    size_t n = json_array_size(found->v);
    for (size_t k = c->n_calls - c->call_open; good && k < n; k++)
        good = send_call(j, c, k, said, json_array_get(found->v, k), true);
    if (good && found->open && n + 1 >= c->n_calls) good = send_call(j, c, n, said, found->open, false);
    if (!good || !c->done || !c->call_open) return good;
    good = send_item(j, "response.output_item.done",
                     call_item(j, c->n_calls - 1, c->call, "incomplete"));
    j->stream.n_items++;
    return good;
}

static bool send_end(srv_job *j, srv_choice *c, const srv_said *said)
{
    const sp_result *r = sp_request_result(c->request);
    c->ended = true;
    if (c->n_calls == 0 && !open_message(j)) return false;
    if (!close_message(j, c, said->text, message_status(r, c->n_calls))) return false;
    const char *type = r->finish == SP_FINISH_ERROR    ? "response.failed"
                       : r->finish == SP_FINISH_LENGTH ? "response.incomplete"
                                                       : "response.completed";
    return send_event(j, type, json_pack("{s:o}", "response", whole(j)));
}

static bool write_new(srv_job *j)
{
    srv_choice *c = &j->choices[0];
    srv_said said;
    if (c->ended) return true;
    if (!c->begun && !(send_frame(j, "response.created") && send_frame(j, "response.in_progress")))
        return false;
    c->begun = true;
    srv_said_of(j, 0, &said);
    const bool more = said.n_text > c->taken || json_array_size(said.calls.v) || said.calls.open || c->done;
    bool good = c->n_calls || (send_thought(j, c, &said) && (!more || close_thought(j, c, &said)));
    good = good && (c->n_calls || send_text(j, c, &said)) && send_calls(j, c, &said);
    c->seen = c->n;
    good = good && (!c->done || send_end(j, c, &said));
    srv_said_fini(&said);
    return good;
}

const srv_dialect srv_responses = {
    .id = "resp",
    .renamed = {{"messages", "input"},
                {"max_tokens", "max_output_tokens"},
                {"response_format", "text.format"}},
    .body = srv_responses_body,
    .whole = whole,
    .write = write_new,
};
