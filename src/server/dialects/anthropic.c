/* anthropic.c -- answers of /v1/messages: a message of blocks, and its events:
 *
 *   message_start
 *   content_block_start, content_block_delta ..., content_block_stop      a text, then each call
 *   message_delta                                                         why it stopped, usage
 *   message_stop
 */
#include "server/dialects/anthropic.h"

#include <string.h>

#include "server/api/answer.h"
#include "server/api/stream.h"
#include "server/http/reply.h"

/* -- parts -------------------------------------------------------------------------------------------- */

static json_t *usage_json(const sp_result *r)
{
    return json_pack("{s:i, s:i, s:i, s:i}", "input_tokens", r->n_prompt - r->n_reused,
                     "cache_read_input_tokens", r->n_reused, "cache_creation_input_tokens", 0,
                     "output_tokens", r->n_generated);
}

/* message_json -- content is consumed; r NULL: the message begins. */
static json_t *message_json(const srv_job *j, json_t *content, const char *reason,
                            const sp_result *r)
{
    json_t *usage = r ? usage_json(r)
                      : json_pack("{s:i, s:i}", "input_tokens", j->n_prompt, "output_tokens", 0);
    return json_pack("{s:o, s:s, s:s, s:s, s:o, s:s?, s:s?, s:o}", "id",
                     json_sprintf("msg_%s", srv_job_key(j)), "type", "message", "role", "assistant",
                     "model", j->s->o.alias, "content", content, "stop_reason", reason,
                     "stop_sequence", r ? r->stop : NULL, "usage", usage);
}

static json_t *use_json(const srv_job *j, size_t k, const json_t *call, json_t *input)
{
    return json_pack("{s:s, s:o, s:O, s:o}", "type", "tool_use", "id",
                     json_sprintf("toolu_%s_%zu", srv_job_key(j), k), "name",
                     json_object_get(call, "name"), "input", input);
}

static const char *reason_of(const sp_result *r, bool calls)
{
    if (r->finish == SP_FINISH_LENGTH) return "max_tokens";
    return calls ? "tool_use" : r->stop ? "stop_sequence" : "end_turn";
}

static json_t *whole(const srv_job *j)
{
    srv_said said;
    const sp_result *r = srv_job_result(j, 0);
    json_t *content = json_array();
    srv_said_of(j, 0, &said);
    size_t n = json_array_size(said.calls.v);
    if (said.n_thought)
        json_array_append_new(content, json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking",
                                                 srv_text_json(said.thought, said.n_thought), "signature", ""));
    if (said.n_text) /* as with Anthropic: no text is empty, and content may be */
        json_array_append_new(content, json_pack("{s:s, s:o}", "type", "text", "text",
                                                 srv_text_json(said.text, said.n_text)));
    for (size_t k = 0; k < n; k++) {
        const json_t *call = json_array_get(said.calls.v, k);
        json_array_append_new(content, use_json(j, k, call, srv_arguments_json(call)));
    }
    const json_t *open = said.calls.open; /* cut: the last block, without its input */
    if (open) json_array_append_new(content, use_json(j, n, open, json_object()));
    json_t *o = message_json(j, content, reason_of(r, n > 0 && !open), r);
    srv_said_fini(&said);
    json_object_set_new(o, "timings", srv_answer_timings(r));
    json_object_set_new(o, "spolia", srv_answer_account(j));
    return o;
}

static json_t *error(int status, const char *code, const char *why)
{
    const char *type = status == 401   ? "authentication_error"
                       : status == 403 ? "permission_error"
                       : status == 404 ? "not_found_error"
                       : status == 413 ? "request_too_large"
                       : status == 429 ? "rate_limit_error"
                       : status == 503 ? "overloaded_error"
                       : status < 500  ? "invalid_request_error"
                                       : "api_error";
    return json_pack("{s:s, s:{s:s, s:o, s:s*}}", "type", "error", "error", "type", type, "message",
                     srv_text_json(why, strlen(why)), "code", code);
}

/* -- events --------------------------------------------------------------------------------------------- */

/* send -- sends o with its type, and consumes it. */
static bool send_event(srv_job *j, const char *type, json_t *o)
{
    if (o) json_object_set_new(o, "type", json_string(type));
    return srv_stream_event(j, type, o);
}

/* n_items is the index of the block that is open or comes next; in_message: a block is open. */
static bool open_block(srv_job *j, json_t *block)
{
    j->stream.in_message = true;
    return send_event(j, "content_block_start",
                json_pack("{s:i, s:o}", "index", j->stream.n_items, "content_block", block));
}

static bool close_block(srv_job *j)
{
    if (!j->stream.in_message) return true;
    j->stream.in_message = false;
    return send_event(j, "content_block_stop", json_pack("{s:i}", "index", j->stream.n_items++));
}

static bool send_delta(srv_job *j, const char *type, const char *name, const char *s, size_t n)
{
    return send_event(j, "content_block_delta",
                json_pack("{s:i, s:{s:s, s:o}}", "index", j->stream.n_items, "delta", "type", type, name,
                          srv_text_json(s, n)));
}

static bool send_thought(srv_job *j, srv_choice *c, const srv_said *said)
{
    const size_t from = c->thought_taken;
    if (said->n_thought <= from) return true;
    if (!j->stream.in_thought && !close_block(j)) return false;
    if (!j->stream.in_message &&
        !open_block(j, json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", "")))
        return false;
    j->stream.in_thought = true;
    c->thought_taken = said->n_thought;
    return send_delta(j, "thinking_delta", "thinking", said->thought + from, said->n_thought - from);
}

static bool send_text(srv_job *j, srv_choice *c, const srv_said *said)
{
    const size_t from = c->taken;
    if (said->n_text <= from) return true;
    if (j->stream.in_thought && !close_block(j)) return false;
    j->stream.in_thought = false;
    if (!j->stream.in_message && !open_block(j, json_pack("{s:s, s:s}", "type", "text", "text", "")))
        return false;
    c->taken = said->n_text;
    return send_delta(j, "text_delta", "text", said->text + from, said->n_text - from);
}

/* send_call -- what is new of call number k: its block, then its arguments in pieces, then its end. */
static bool send_call(srv_job *j, srv_choice *c, size_t k, const json_t *call, bool complete)
{
    const json_t *arguments = json_object_get(call, "arguments");
    if (k == c->n_calls) {
        c->n_calls++;
        c->n_sent = 0;
        if (!close_block(j) || !open_block(j, use_json(j, k, call, json_object()))) return false;
    }
    size_t at = c->n_sent, n = json_string_length(arguments);
    if (n > at) {
        c->n_sent = n;
        if (!send_delta(j, "input_json_delta", "partial_json", json_string_value(arguments) + at,
                        n - at))
            return false;
    }
    c->call_open = !complete;
    return !complete || close_block(j);
}

static bool send_end(srv_job *j, srv_choice *c)
{
    const sp_result *r = sp_request_result(c->request);
    c->ended = true;
    if (r->finish == SP_FINISH_ERROR) {
        const char *code;
        int status = srv_error_status(r->err, &code);
        return srv_stream_event(j, "error", error(status, code, r->detail));
    }
    if (!close_block(j)) return false;
    json_t *delta = json_pack("{s:{s:s, s:s?}, s:o}", "delta", "stop_reason",
                              reason_of(r, c->n_calls > 0 && !c->call_open), "stop_sequence",
                              r->stop, "usage", usage_json(r));
    json_object_set_new(delta, "spolia", srv_answer_account(j));
    return send_event(j, "message_delta", delta) && send_event(j, "message_stop", json_object());
}

static bool write_new(srv_job *j)
{
    srv_choice *c = &j->choices[0];
    srv_said said;
    if (c->ended) return true;
    if (!c->begun &&
        !send_event(j, "message_start",
              json_pack("{s:o}", "message", message_json(j, json_array(), NULL, NULL))))
        return false;
    c->begun = true;
    srv_said_of(j, 0, &said);
    const srv_calls *found = &said.calls;
    size_t n = json_array_size(found->v);
    bool good = c->n_calls || (send_thought(j, c, &said) && send_text(j, c, &said));
    for (size_t k = c->n_calls - c->call_open; good && k < n; k++)
        good = send_call(j, c, k, json_array_get(found->v, k), true);
    if (good && found->open && n + 1 >= c->n_calls) good = send_call(j, c, n, found->open, false);
    srv_said_fini(&said);
    c->seen = c->n;
    return good && (!c->done || send_end(j, c));
}

const srv_dialect srv_anthropic = {
    .id = "msg",
    .ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    .renamed = {{"stop", "stop_sequences"}, {"response_format", "output_config"}},
    .body = srv_anthropic_body,
    .whole = whole,
    .write = write_new,
    .error = error,
};

/* -- handlers --------------------------------------------------------------------------------------------- */

srv_sent srv_anthropic_messages(srv_call *call)
{
    return srv_generate(call, &srv_anthropic, true);
}

/* count -- tokens of a body's prompt; -1 after an error in *f. */
static int count(const srv_call *call, srv_fields *f)
{
    srv_tools tools = {0};
    srv_documents documents = {0};
    sp_err err = SP_OK;
    srv_tools_read(&tools, f);
    sp_prompt *p = f->failed ? NULL : srv_prompt_chat(call, f, &tools, &documents, &err);
    if (err != SP_OK) f->err = err;
    int n = p ? sp_prompt_n_tokens(p) : -1;
    sp_prompt_destroy(p);
    srv_documents_fini(&documents);
    return n;
}

srv_sent srv_anthropic_count(srv_call *call)
{
    srv_fields f;
    bool chat;
    json_t *body = srv_fields_parse(&f, call->body, call->n), *same = NULL;
    int n = -1;
    if (body && !srv_field(&f, "max_tokens"))
        json_object_set_new(body, "max_tokens", json_integer(1));
    if (body) same = srv_anthropic_body(&f, &chat);
    f.object = same;
    if (same) n = count(call, &f);
    json_decref(same);
    json_decref(body);
    const char *code = NULL;
    const int status = f.err == SP_OK ? 400 : srv_error_status(f.err, &code);
    if (n < 0) return srv_dialect_error(call, &srv_anthropic, status, &f, code);
    return srv_reply_json(call->connection, 200, json_pack("{s:i}", "input_tokens", n));
}
