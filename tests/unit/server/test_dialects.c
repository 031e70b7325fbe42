/* Answers in other APIs' forms: whole ones, and streams that are read as a client reads them. A stream's parts must
 * make the whole answer, whatever the pieces in which its text arrives. */
#include <stdio.h>
#include <string.h>

#include "serve/request/request.h"
#include "server/dialects/anthropic.h"
#include "server/dialects/ollama.h"
#include "server/dialects/responses.h"
#include "server/api/stream.h"
#include "server/http/memory.h"
#include "support/check.h"

#define BOATS "{\"day\": \"monday\"}"
#define TIDES "{\"port\": \"south\", \"n\": 2}"
#define CALL(name, arguments) "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"
#define CUT_CALL "<tool_call>\n{\"name\": \"boats\", \"arguments\": {\"day\": \"mo"
#define TOOLS                                                              \
    "[{\"type\": \"function\", \"function\": {\"name\": \"boats\"}}, "           \
    "{\"type\": \"function\", \"function\": {\"name\": \"tides\"}}]"

/* An answer and the job that it is of. */
typedef struct answer {
    srv_server server;
    sp_request request;
    srv_job job;
    char text[512];
} answer;

/* answer_of -- tools: the functions may be called. Owned: answer_free. */
static answer *answer_of(const srv_dialect *d, const char *text, sp_finish finish, bool tools)
{
    answer *a = calloc(1, sizeof *a);
    assert_non_null(a);
    snprintf(a->text, sizeof a->text, "%s", text);
    a->server.o.alias = "tiny";
    a->request.account.result = (sp_result){.finish = finish,
                                            .err = finish == SP_FINISH_ERROR ? SP_E_NOKV : SP_OK,
                                            .detail = finish == SP_FINISH_ERROR ? "no room" : "",
                                            .text = a->text,
                                            .n_prompt = 100,
                                            .n_reused = 60,
                                            .n_recomputed = 7,
                                            .n_computed = 40,
                                            .n_generated = 9,
                                            .queue_us = 1000,
                                            .ttft_us = 5000,
                                            .decode_us = 2000};
    srv_job *j = &a->job;
    j->s = &a->server;
    j->n_prompt = 100;
    snprintf(j->id, sizeof j->id, "x-1");
    j->task.dialect = d;
    j->task.chat = true;
    j->task.n = j->task.n_prompts = 1;
    j->task.thoughts = THOUGHTS_TAGS;
    j->task.tools.list = tools ? json_loads(TOOLS, 0, NULL) : NULL;
    j->task.tools.several = true;
    j->run.n_started = 1;
    j->choices[0] = (srv_choice){.job = j, .request = &a->request, .done = true};
    return a;
}

static void answer_free(answer *a)
{
    json_decref((json_t *)a->job.task.tools.list);
    json_decref(a->job.choices[0].call);
    free(a->job.stream.out);
    free(a);
}

static json_t *whole_of(const srv_dialect *d, const char *text, sp_finish finish, bool tools)
{
    answer *a = answer_of(d, text, finish, tools);
    json_t *o = d->whole(&a->job);
    assert_non_null(o);
    answer_free(a);
    return o;
}

/* add_lines -- the objects that a stream has sent: of events their data, whose type is the event's name. */
static void add_lines(srv_stream *s, json_t *to)
{
    char *next = s->out ? strndup(s->out, s->n_out) : strdup(""), *all = next, *name = NULL;
    for (char *line; (line = strsep(&next, "\n"));) {
        if (strncmp(line, "event: ", 7) == 0) name = line + 7;
        json_t *o = json_loads(strncmp(line, "data: ", 6) == 0 ? line + 6 : line, 0, NULL);
        if (!o) continue;
        if (name) assert_string_equal(json_string_value(json_object_get(o, "type")), name);
        json_array_append_new(to, o);
        name = NULL;
    }
    free(all);
    s->n_out = 0;
}

/* play -- the objects of a stream of the answer, whose text arrives `piece` bytes at a time. Owned. */
static json_t *play(answer *a, size_t piece)
{
    const srv_dialect *d = a->job.task.dialect;
    srv_choice *c = &a->job.choices[0];
    json_t *sent = json_array();
    a->job.task.reply.stream = true;
    c->text = a->text;
    c->done = false;
    for (size_t n = strlen(a->text); c->n < n;) {
        c->n = SP_MIN(n, c->n + piece);
        assert_true(d->write(&a->job));
        add_lines(&a->job.stream, sent);
    }
    c->done = true;
    assert_true(d->write(&a->job));
    add_lines(&a->job.stream, sent);
    assert_true(c->ended);
    return sent;
}

static json_t *stream_of(const srv_dialect *d, const char *text, sp_finish finish, bool tools, size_t piece)
{
    answer *a = answer_of(d, text, finish, tools);
    json_t *sent = play(a, piece);
    answer_free(a);
    return sent;
}

/* -- paths in objects ---------------------------------------------------------------------------------- */

/* at -- "a.0.b" of an object; NULL: there is none. */
static json_t *at(const json_t *o, const char *path)
{
    char part[64];
    for (size_t n; o && *path; path += n + (path[n] == '.')) {
        n = strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        o = json_is_array(o) ? json_array_get(o, (size_t)atoi(part)) : json_object_get(o, part);
    }
    return (json_t *)o;
}

static const char *text_at(const json_t *o, const char *path)
{
    const char *s = json_string_value(at(o, path));
    return s ? s : "(none)";
}

static int number_at(const json_t *o, const char *path)
{
    const json_t *v = at(o, path);
    if (!json_is_integer(v)) fail_msg("%s is no number", path);
    return (int)json_integer_value(v);
}

static bool is(const json_t *o, const char *path, const char *text)
{
    return strcmp(text_at(o, path), text) == 0;
}

/* append -- to the text of a field. */
static void append(json_t *o, const char *name, const char *more)
{
    const char *old = json_string_value(json_object_get(o, name));
    json_object_set_new(o, name, json_sprintf("%s%s", old ? old : "", more));
}

/* -- the answers ----------------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    sp_finish finish;
    bool tools;
} answers[] = {
    {"The keeper is Anna.", SP_FINISH_STOP, false},
    {"The keeper is An", SP_FINISH_LENGTH, false},
    {"", SP_FINISH_STOP, false},
    {"<think>Who?</think>Anna.", SP_FINISH_STOP, false},
    {"<think>Who was it", SP_FINISH_LENGTH, false},
    {"<think>Who?</think>I look." CALL("boats", BOATS), SP_FINISH_STOP, true},
    {CALL("boats", BOATS), SP_FINISH_STOP, true},
    {CALL("boats", BOATS) "\n" CALL("tides", TIDES), SP_FINISH_STOP, true},
    {"I look." CALL("tides", TIDES) "\n" CALL("boats", BOATS) "\n" CALL("tides", TIDES), SP_FINISH_STOP, true},
    {"I look." CALL("boats", BOATS), SP_FINISH_LENGTH, true},
    {"I look." CALL("boats", BOATS) "\nThen I say.", SP_FINISH_STOP, true},
    {CALL("boats", BOATS) "Then" CALL("tides", TIDES), SP_FINISH_STOP, true},
    {"<think>Two.</think>" CALL("boats", BOATS) "\n" CALL("tides", TIDES), SP_FINISH_STOP, true},
    {CUT_CALL, SP_FINISH_LENGTH, true},
    {"I look." CUT_CALL, SP_FINISH_LENGTH, true},
    {"<think>Who?</think>" CALL("tides", TIDES) "\n" CUT_CALL, SP_FINISH_LENGTH, true},
};

enum { N_ANSWERS = sizeof answers / sizeof *answers };

static const size_t pieces[] = {1, 2, 7, 1000};

/* each -- runs check(whole, objects of a stream) for every answer and size of pieces. */
static void each(const srv_dialect *d, void (*check)(const json_t *whole, const json_t *sent))
{
    for (int i = 0; i < N_ANSWERS; i++)
        for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
            json_t *whole = whole_of(d, answers[i].text, answers[i].finish, answers[i].tools);
            json_t *sent = stream_of(d, answers[i].text, answers[i].finish, answers[i].tools, pieces[k]);
            check(whole, sent);
            json_decref(whole);
            json_decref(sent);
        }
}

/* -- Anthropic --------------------------------------------------------------------------------------------- */

/* take_delta -- adds a delta to the open block. */
static void take_delta(json_t *block, const json_t *delta)
{
    const char *type = text_at(delta, "type");
    if (strcmp(type, "input_json_delta") == 0) {
        assert_string_equal(text_at(block, "type"), "tool_use");
        append(block, "partial", text_at(delta, "partial_json"));
    } else {
        const char *name = strcmp(type, "thinking_delta") == 0 ? "thinking" : "text";
        assert_string_equal(text_at(block, "type"), name);
        append(block, name, text_at(delta, name));
    }
}

/* close_block -- the input of a call is the object that its pieces make. */
static void close_block(json_t *block)
{
    const char *partial = json_string_value(json_object_get(block, "partial"));
    if (!partial) return;
    json_object_set_new(block, "input", json_loads(partial, 0, NULL));
    json_object_del(block, "partial");
}

/* blocks_of -- those that the events [1, n - 2) make. Owned. */
static json_t *blocks_of(const json_t *sent)
{
    json_t *content = json_array(), *open = NULL;
    for (size_t i = 1; i + 2 < json_array_size(sent); i++) {
        const json_t *e = json_array_get(sent, i);
        assert_int_equal(number_at(e, "index"), json_array_size(content) - (open ? 1 : 0));
        if (is(e, "type", "content_block_start")) {
            assert_null(open);
            json_array_append_new(content, open = json_deep_copy(at(e, "content_block")));
        } else if (is(e, "type", "content_block_delta")) {
            assert_non_null(open);
            take_delta(open, at(e, "delta"));
        } else {
            assert_true(is(e, "type", "content_block_stop"));
            assert_non_null(open);
            close_block(open);
            open = NULL;
        }
    }
    assert_null(open);
    return content;
}

static void message_is_its_events(const json_t *whole, const json_t *sent)
{
    const size_t n = json_array_size(sent);
    json_t *content = blocks_of(sent);
    assert_true(is(sent, "0.type", "message_start"));
    assert_int_equal(number_at(sent, "0.message.usage.input_tokens"), 100);
    if (!json_equal(content, at(whole, "content")))
        fail_msg("%s, not %s", json_dumps(content, 0), json_dumps(at(whole, "content"), 0));
    const json_t *end = json_array_get(sent, n - 2);
    assert_true(is(end, "type", "message_delta") && is(json_array_get(sent, n - 1), "type", "message_stop"));
    assert_string_equal(text_at(end, "delta.stop_reason"), text_at(whole, "stop_reason"));
    assert_true(json_equal(at(end, "usage"), at(whole, "usage")));
    json_decref(content);
}

static void a_message_of_anthropic_is_what_its_events_say(void **state)
{
    each(&srv_anthropic, message_is_its_events);
}

static void a_message_says_why_it_ended_and_what_was_cached(void **state)
{
    static const struct {
        const char *text;
        sp_finish finish;
        bool tools;
        const char *reason;
    } ends[] = {{"Anna.", SP_FINISH_STOP, false, "end_turn"},
                {"Anna.", SP_FINISH_LENGTH, false, "max_tokens"},
                {CALL("boats", BOATS), SP_FINISH_STOP, true, "tool_use"},
                {CALL("boats", BOATS), SP_FINISH_LENGTH, true, "max_tokens"}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        json_t *m = whole_of(&srv_anthropic, ends[i].text, ends[i].finish, ends[i].tools);
        assert_string_equal(text_at(m, "stop_reason"), ends[i].reason);
        assert_int_equal(number_at(m, "usage.input_tokens"), 40);
        assert_int_equal(number_at(m, "usage.cache_read_input_tokens"), 60);
        assert_int_equal(number_at(m, "usage.output_tokens"), 9);
        json_decref(m);
    }
    answer *a = answer_of(&srv_anthropic, CALL("boats", BOATS), SP_FINISH_STOP, true);
    a->request.account.result.stop = "END"; /* after a call */
    json_t *m = srv_anthropic.whole(&a->job);
    assert_true(is(m, "stop_reason", "tool_use") && is(m, "stop_sequence", "END"));
    json_decref(m);
    answer_free(a);
}

static void a_call_that_is_cut_is_a_block_that_ends(void **state)
{
    json_t *sent = stream_of(&srv_anthropic, CUT_CALL, SP_FINISH_LENGTH, true, 3);
    const size_t n = json_array_size(sent);
    assert_true(is(json_array_get(sent, n - 3), "type", "content_block_stop"));
    assert_true(is(json_array_get(sent, n - 2), "delta.stop_reason", "max_tokens"));
    json_decref(sent);
}

static void assert_no_empty_text(const json_t *content)
{
    for (size_t i = 0; i < json_array_size(content); i++) assert_false(is(json_array_get(content, i), "text", ""));
}

/* Nor does a message begin one that stays empty, as before a call whose arguments have not begun. */
static void no_text_block_is_empty(void **state)
{
    static const char *const texts[] = {"", "<think>Who?</think>", CUT_CALL, "<tool_call>\n{\"na",
                                        "<think>Who?</think><tool_call>\n{\"name\": \"boats\"", CALL("boats", BOATS)};
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        answer *a = answer_of(&srv_anthropic, texts[i], SP_FINISH_LENGTH, true);
        a->job.task.tools.must = true;
        json_t *whole = srv_anthropic.whole(&a->job), *sent = play(a, 3), *blocks = blocks_of(sent);
        assert_no_empty_text(at(whole, "content"));
        assert_no_empty_text(blocks);
        assert_int_equal(json_array_size(blocks), json_array_size(at(whole, "content")));
        assert_int_equal(json_array_size(blocks), (size_t)(strstr(texts[i], "think>") != NULL) +
                                                      (strstr(texts[i], "day") != NULL));
        json_decref(blocks);
        json_decref(sent);
        json_decref(whole);
        answer_free(a);
    }
}

/* The block ends with the call, not when the next one begins: a client may run the function at once. */
static void a_complete_call_is_a_block_that_has_ended(void **state)
{
    answer *a = answer_of(&srv_anthropic, CALL("boats", BOATS) "\n" CALL("tides", TIDES), SP_FINISH_STOP, true);
    srv_choice *c = &a->job.choices[0];
    json_t *sent = json_array(), *whole = srv_anthropic.whole(&a->job);
    assert_string_not_equal(text_at(whole, "content.0.id"), text_at(whole, "content.1.id"));
    a->job.task.reply.stream = true;
    c->text = a->text;
    c->n = strlen(CALL("boats", BOATS) "\n");
    c->done = false;
    assert_true(srv_anthropic.write(&a->job));
    add_lines(&a->job.stream, sent);
    assert_true(is(json_array_get(sent, json_array_size(sent) - 1), "type", "content_block_stop"));
    json_decref(sent);
    json_decref(whole);
    answer_free(a);
}

/* gpt-oss may think again after it has said something. */
static void thoughts_after_a_text_are_a_block_of_their_own(void **state)
{
    static const char text[] = "<|channel|>final<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|>"
                               "Hm.<|end|><|start|>assistant<|channel|>final<|message|>Two.<|return|>";
    for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
        answer *a = answer_of(&srv_anthropic, text, SP_FINISH_STOP, false);
        a->job.task.thoughts = THOUGHTS_CHANNELS;
        json_t *sent = play(a, pieces[k]), *blocks = blocks_of(sent);
        for (size_t i = 0; i + 1 < json_array_size(blocks); i++)
            assert_string_not_equal(text_at(json_array_get(blocks, i), "type"),
                                    text_at(json_array_get(blocks, i + 1), "type"));
        json_decref(blocks);
        json_decref(sent);
        answer_free(a);
    }
}

static void errors_of_anthropic_have_a_type_by_their_status(void **state)
{
    static const struct {
        int status;
        const char *type;
    } types[] = {{400, "invalid_request_error"}, {401, "authentication_error"}, {403, "permission_error"},
                 {404, "not_found_error"},       {413, "request_too_large"},    {422, "invalid_request_error"},
                 {429, "rate_limit_error"},      {500, "api_error"},            {503, "overloaded_error"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        json_t *o = srv_anthropic.error(types[i].status, NULL, "why");
        assert_string_equal(text_at(o, "error.type"), types[i].type);
        assert_true(is(o, "type", "error") && is(o, "error.message", "why"));
        json_decref(o);
    }
    json_t *sent = stream_of(&srv_anthropic, "The ke", SP_FINISH_ERROR, false, 3);
    const json_t *last = json_array_get(sent, json_array_size(sent) - 1);
    assert_true(is(last, "type", "error") && is(last, "error.message", "no room"));
    json_decref(sent);
}

/* -- OpenAI's responses ------------------------------------------------------------------------------------ */

/* take_event -- an event between the first two and the last; items: those that are done; *open: one that is not. */
static void take_event(const json_t *e, json_t *items, json_t **open)
{
    const char *type = text_at(e, "type");
    assert_int_equal(number_at(e, "output_index"), json_array_size(items));
    if (strcmp(type, "response.output_item.added") == 0) {
        assert_null(*open);
        assert_true(is(e, "item.status", "in_progress"));
        if (is(e, "item.type", "function_call")) assert_true(is(e, "item.arguments", ""));
        *open = json_deep_copy(at(e, "item"));
        return;
    }
    assert_non_null(*open);
    if (strcmp(type, "response.output_item.done") == 0) {
        assert_string_equal(text_at(e, "item.id"), text_at(*open, "id"));
        json_array_append(items, at(e, "item"));
        json_decref(*open);
        *open = NULL;
        return;
    }
    assert_string_equal(text_at(e, "item_id"), text_at(*open, "id"));
    if (strstr(type, ".delta")) append(*open, "deltas", text_at(e, "delta"));
    const char *said = text_at(*open, "deltas");
    if (strcmp(said, "(none)") == 0) said = "";
    if (strcmp(type, "response.function_call_arguments.done") == 0) assert_string_equal(text_at(e, "arguments"), said);
    if (strstr(type, "_text.done")) assert_string_equal(text_at(e, "text"), said);
    if (strcmp(type, "response.content_part.done") == 0) assert_string_equal(text_at(e, "part.text"), said);
}

static void response_is_its_events(const json_t *whole, const json_t *sent)
{
    const size_t n = json_array_size(sent);
    json_t *items = json_array(), *open = NULL;
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_array_get(sent, i);
        assert_int_equal(number_at(e, "sequence_number"), i);
        if (i > 1 && i + 1 < n) take_event(e, items, &open);
    }
    assert_null(open);
    assert_true(is(sent, "0.type", "response.created") && is(sent, "1.type", "response.in_progress"));
    const json_t *last = json_array_get(sent, n - 1);
    char type[64];
    snprintf(type, sizeof type, "response.%s", text_at(whole, "status"));
    assert_string_equal(text_at(last, "type"), type);
    assert_true(json_equal(at(last, "response"), whole));
    if (!json_equal(items, at(whole, "output")))
        fail_msg("%s, not %s", json_dumps(items, 0), json_dumps(at(whole, "output"), 0));
    json_decref(items);
}

static void a_response_is_what_its_events_say(void **state)
{
    each(&srv_responses, response_is_its_events);
}

static void a_response_counts_its_tokens(void **state)
{
    json_t *o = whole_of(&srv_responses, "The keeper is An", SP_FINISH_LENGTH, false);
    assert_int_equal(number_at(o, "usage.input_tokens"), 100);
    assert_int_equal(number_at(o, "usage.input_tokens_details.cached_tokens"), 60);
    assert_int_equal(number_at(o, "usage.input_tokens_details.recomputed_tokens"), 7);
    assert_int_equal(number_at(o, "usage.output_tokens"), 9);
    assert_int_equal(number_at(o, "usage.total_tokens"), 109);
    assert_true(is(o, "status", "incomplete") && is(o, "incomplete_details.reason", "max_output_tokens"));
    assert_true(is(o, "output.0.status", "incomplete") && is(o, "output.0.content.0.text", "The keeper is An"));
    json_decref(o);
}

static void a_response_that_fails_says_so(void **state)
{
    json_t *sent = stream_of(&srv_responses, "The ke", SP_FINISH_ERROR, false, 3);
    const json_t *last = json_array_get(sent, json_array_size(sent) - 1);
    assert_true(is(last, "type", "response.failed") && is(last, "response.status", "failed"));
    assert_true(is(last, "response.error.message", "no room"));
    json_decref(sent);
}

static void a_response_has_its_calls_in_order(void **state)
{
    json_t *o = whole_of(&srv_responses, CALL("boats", BOATS) "\n" CALL("tides", TIDES), SP_FINISH_STOP, true);
    assert_int_equal(json_array_size(at(o, "output")), 2);
    assert_true(is(o, "output.0.name", "boats") && is(o, "output.1.name", "tides"));
    assert_true(is(o, "output.0.arguments", BOATS) && is(o, "output.1.arguments", TIDES));
    assert_string_not_equal(text_at(o, "output.0.call_id"), text_at(o, "output.1.call_id"));
    assert_string_not_equal(text_at(o, "output.0.id"), text_at(o, "output.1.id"));
    json_decref(o);
    o = whole_of(&srv_responses, "<tool_call>\n{\"name\": \"boats\", \"arguments\": {\"day\": \"mo", SP_FINISH_LENGTH,
                 true);
    assert_int_equal(json_array_size(at(o, "output")), 1);
    assert_true(is(o, "output.0.type", "function_call") && is(o, "output.0.status", "incomplete"));
    json_t *sent = stream_of(&srv_responses, "<tool_call>\n{\"name\": \"boats\", \"arguments\": {\"day\": \"mo",
                             SP_FINISH_LENGTH, true, 5);
    response_is_its_events(o, sent);
    json_decref(sent);
    json_decref(o);
}

/* -- OpenAI ------------------------------------------------------------------------------------------------- */

/* take_call -- adds what a chunk has of a call: its first one has the name. */
static void take_call(json_t *calls, const json_t *part)
{
    const size_t k = (size_t)number_at(part, "index");
    const char *more = text_at(part, "function.arguments");
    if (k < json_array_size(calls)) {
        append(at(json_array_get(calls, k), "function"), "arguments", more);
        return;
    }
    assert_int_equal(k, json_array_size(calls));
    assert_string_equal(more, "");
    json_t *call = json_deep_copy(part);
    json_object_del(call, "index");
    json_array_append_new(calls, call);
}

static void chat_is_its_chunks(const json_t *whole, const json_t *sent)
{
    json_t *all = json_object(), *calls = json_array();
    const size_t n = json_array_size(sent);
    append(all, "content", "");
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(sent, i), *delta = at(o, "choices.0.delta");
        assert_true(is(o, "id", "x-1") && is(o, "object", "chat.completion.chunk") && is(o, "model", "tiny"));
        assert_int_equal(number_at(o, "choices.0.index"), 0);
        if (i == 0) assert_true(is(delta, "role", "assistant"));
        if (at(delta, "content")) append(all, "content", text_at(delta, "content"));
        if (at(delta, "reasoning_content")) append(all, "reasoning_content", text_at(delta, "reasoning_content"));
        for (size_t k = 0; k < json_array_size(at(delta, "tool_calls")); k++)
            take_call(calls, json_array_get(at(delta, "tool_calls"), k));
        if (i + 1 < n) assert_true(json_is_null(at(o, "choices.0.finish_reason")));
    }
    const json_t *last = json_array_get(sent, n - 1), *message = at(whole, "choices.0.message");
    assert_string_equal(text_at(last, "choices.0.finish_reason"), text_at(whole, "choices.0.finish_reason"));
    assert_true(json_equal(at(last, "spolia"), at(whole, "spolia")));
    assert_true(json_equal(at(last, "timings"), at(whole, "timings")));
    if (json_is_null(at(message, "content")) && is(all, "content", ""))
        json_object_set_new(all, "content", json_null());
    if (json_array_size(calls)) json_object_set(all, "tool_calls", calls);
    json_object_set_new(all, "role", json_string("assistant"));
    if (!json_equal(all, message)) fail_msg("%s, not %s", json_dumps(all, 0), json_dumps(message, 0));
    json_decref(calls);
    json_decref(all);
}

static void a_chat_of_openai_is_what_its_chunks_say(void **state)
{
    each(&srv_openai, chat_is_its_chunks);
}

/* What a client has begun to take as a call is not sent once more as a text. */
static void a_call_that_breaks_leaves_no_text(void **state)
{
    static const char text[] = "I look." CUT_CALL;
    json_t *sent = stream_of(&srv_openai, text, SP_FINISH_STOP, true, 3), *said = json_object();
    size_t n_parts = 0;
    for (size_t i = 0; i < json_array_size(sent); i++) {
        const json_t *choice = at(json_array_get(sent, i), "choices.0");
        if (at(choice, "delta.content")) append(said, "content", text_at(choice, "delta.content"));
        n_parts += json_array_size(at(choice, "delta.tool_calls"));
    }
    assert_true(is(said, "content", "I look.") && n_parts > 1);
    assert_true(is(json_array_get(sent, json_array_size(sent) - 1), "choices.0.finish_reason", "stop"));
    json_decref(said);
    json_decref(sent);
    json_t *whole = whole_of(&srv_openai, text, SP_FINISH_STOP, true); /* of which nothing was sent before */
    assert_true(is(whole, "choices.0.message.content", text));
    json_decref(whole);
}

/* Of a name that begins like another one, of its parts, and of the others. */
static void an_error_names_the_field_that_the_client_sent(void **state)
{
    const srv_dialect d = {.renamed = {{"stop", "stop_sequences"}}};
    assert_string_equal(srv_dialect_param(&d, "stop"), "stop_sequences");
    assert_string_equal(srv_dialect_param(&d, "stop[0]"), "stop_sequences");
    assert_string_equal(srv_dialect_param(&d, "stop_token_ids"), "stop_token_ids");
    assert_string_equal(srv_dialect_param(&d, "top_k"), "top_k");
}

static void an_answer_says_why_it_ended(void **state)
{
    static const struct {
        sp_finish finish;
        const char *why;
    } cases[] = {{SP_FINISH_STOP, "stop"}, {SP_FINISH_LENGTH, "length"}, {SP_FINISH_CANCELED, "stop"}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        json_t *o = whole_of(&srv_openai, "Anna", cases[i].finish, false);
        assert_string_equal(text_at(o, "choices.0.finish_reason"), cases[i].why);
        json_decref(o);
    }
    json_t *o = whole_of(&srv_openai, CALL("boats", BOATS) "\n" CUT_CALL, SP_FINISH_LENGTH, true);
    assert_string_equal(text_at(o, "choices.0.finish_reason"), "length"); /* its last call cannot be run */
    json_decref(o);
    o = whole_of(&srv_openai, CALL("boats", BOATS), SP_FINISH_LENGTH, true);
    assert_string_equal(text_at(o, "choices.0.finish_reason"), "length"); /* another call may have followed */
    json_decref(o);
    o = stream_of(&srv_openai, CALL("boats", BOATS), SP_FINISH_LENGTH, true, 3);
    assert_string_equal(text_at(json_array_get(o, json_array_size(o) - 1), "choices.0.finish_reason"), "length");
    json_decref(o);
}

/* -- Ollama ------------------------------------------------------------------------------------------------- */

static void chat_is_its_lines(const json_t *whole, const json_t *sent)
{
    json_t *all = json_object(), *calls = json_array();
    const size_t n = json_array_size(sent);
    json_object_set_new(all, "content", json_string(""));
    for (size_t i = 0; i < n; i++) {
        const json_t *m = at(json_array_get(sent, i), "message");
        append(all, "content", text_at(m, "content"));
        if (at(m, "thinking")) append(all, "thinking", text_at(m, "thinking"));
        if (at(m, "tool_calls")) json_array_extend(calls, at(m, "tool_calls"));
        assert_int_equal(json_is_true(at(json_array_get(sent, i), "done")), i + 1 == n);
    }
    if (json_array_size(calls)) json_object_set(all, "tool_calls", calls);
    json_object_set_new(all, "role", json_string("assistant"));
    if (!json_equal(all, at(whole, "message")))
        fail_msg("%s, not %s", json_dumps(all, 0), json_dumps(at(whole, "message"), 0));
    json_decref(calls);
    json_decref(all);
}

static void a_chat_of_ollama_is_what_its_lines_say(void **state)
{
    each(&srv_ollama_chat, chat_is_its_lines);
}

static void a_stream_of_ollama_that_fails_ends_with_its_error(void **state)
{
    json_t *sent = stream_of(&srv_ollama_chat, "The ke", SP_FINISH_ERROR, false, 3);
    const json_t *last = json_array_get(sent, json_array_size(sent) - 1);
    assert_true(is(last, "error", "no room"));
    assert_null(at(last, "done"));
    json_decref(sent);
}

static void ollama_counts_in_nanoseconds(void **state)
{
    json_t *o = whole_of(&srv_ollama_generate, "<think>Who?</think>Anna", SP_FINISH_LENGTH, false);
    assert_true(is(o, "response", "Anna") && is(o, "thinking", "Who?") && is(o, "done_reason", "length"));
    assert_int_equal(number_at(o, "total_duration"), 7000000);
    assert_int_equal(number_at(o, "prompt_eval_duration"), 4000000);
    assert_int_equal(number_at(o, "eval_duration"), 2000000);
    assert_int_equal(number_at(o, "prompt_eval_count"), 100);
    assert_int_equal(number_at(o, "eval_count"), 9);
    json_decref(o);
    o = whole_of(&srv_ollama_chat, "Anna", SP_FINISH_STOP, true);
    assert_true(is(o, "done_reason", "stop"));
    assert_null(at(o, "message.tool_calls"));
    json_decref(o);
}

/* -- llama.cpp --------------------------------------------------------------------------------------------- */

static void a_completion_of_llama_is_what_its_events_say(void **state)
{
    static const char *const ends[] = {"eos", "word", "limit"};
    for (int i = 0; i < 3; i++) {
        const sp_finish finish = i < 2 ? SP_FINISH_STOP : SP_FINISH_LENGTH;
        answer *a = answer_of(&srv_llama_completion, i ? "Anna" : "Anna.\nBerg.", finish, false);
        a->request.account.result.stop = i == 1 ? "END" : NULL;
        a->job.task.sampling =
            (sp_sampling){.temperature = 0.5f, .top_k = 4, .top_p = 0.25f, .min_p = 0.125f, .seed = 6};
        a->job.task.max_tokens = 12;
        json_t *whole = srv_llama_completion.whole(&a->job), *sent = play(a, 2), *text = json_object();
        const size_t n = json_array_size(sent);
        for (size_t k = 0; k < n; k++) {
            const json_t *o = json_array_get(sent, k);
            append(text, "content", text_at(o, "content"));
            assert_int_equal(json_is_true(at(o, "stop")), k + 1 == n);
            assert_int_equal(number_at(o, "tokens_evaluated"), 100);
            assert_int_equal(number_at(o, "tokens_predicted"), k + 1 == n ? 9 : 0);
        }
        assert_true(n > 2 && is(text, "content", a->text) && is(whole, "content", a->text));
        json_t *last = json_incref(json_array_get(sent, n - 1));
        json_object_set(last, "content", at(whole, "content"));
        assert_true(json_equal(last, whole));
        assert_true(is(whole, "stop_type", ends[i]) && is(whole, "stopping_word", i == 1 ? "END" : ""));
        assert_true(is(whole, "model", "tiny") && json_is_false(at(whole, "truncated")));
        assert_int_equal(json_is_true(at(whole, "has_new_line")), i == 0);
        assert_int_equal(number_at(whole, "tokens_cached"), 109);
        json_t *settings = json_pack("{s:i, s:f, s:i, s:f, s:f, s:i}", "n_predict", 12, "temperature", 0.5, "top_k", 4,
                                     "top_p", 0.25, "min_p", 0.125, "seed", 6);
        assert_true(json_equal(at(whole, "generation_settings"), settings));
        json_decref(settings);
        json_decref(last);
        json_decref(text);
        json_decref(sent);
        json_decref(whole);
        answer_free(a);
    }
}

/* -- the connection -------------------------------------------------------------------------------------------- */

/* What breaks off must not look like the end of an answer. */
static void a_stream_ends_or_breaks_off(void **state)
{
    for (int gone = 0; gone < 2; gone++) {
        answer *a = answer_of(&srv_openai, "", SP_FINISH_STOP, false);
        char out[4096], *end;
        size_t n = 0;
        ssize_t k;
        pthread_mutex_init(&a->job.run.lock, NULL);
        a->job.run.gone = gone;
        a->job.settled = true;
        while ((k = srv_stream_read(&a->job, n, out + n, 7)) > 0) n += (size_t)k;
        out[n] = '\0';
        assert_int_equal(k, gone ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM);
        assert_int_equal((end = strstr(out, "data: [DONE]\n\n")) != NULL, !gone);
        if (!gone) assert_string_equal(end, "data: [DONE]\n\n");
        pthread_mutex_destroy(&a->job.run.lock);
        answer_free(a);
    }
}

/* -- memory that lacks ----------------------------------------------------------------------------------------- */

static size_t n_calls, fails_at;

static void *allocate(size_t n)
{
    return ++n_calls == fails_at ? NULL : malloc(n);
}

/* plays -- whether all of a stream is written when this allocation fails (0: none). */
static bool plays(const srv_dialect *d, int i, size_t piece, size_t fails)
{
    answer *a = answer_of(d, answers[i].text, answers[i].finish, answers[i].tools);
    srv_choice *c = &a->job.choices[0];
    const size_t n = strlen(a->text);
    bool good = true;
    a->job.task.reply.stream = true;
    c->text = a->text;
    c->done = false;
    srv_memory_begin();
    n_calls = 0;
    fails_at = fails;
    while (good && !c->done) {
        c->done = c->n == n;
        c->n = SP_MIN(n, c->n + piece);
        good = d->write(&a->job);
    }
    fails_at = 0;
    if (fails && good != !srv_memory_failed())
        fail_msg("answer %d: a part is missing, and the stream does not end", i);
    srv_memory_end();
    answer_free(a);
    return good;
}

/* A client that is not told would take what it has for the whole answer. */
static void a_stream_that_lacks_a_part_is_broken_off(void **state)
{
    static const srv_dialect *const all[] = {&srv_openai,      &srv_responses,       &srv_anthropic,
                                             &srv_ollama_chat, &srv_ollama_generate, &srv_llama_completion};
    for (size_t k = 0; k < SP_COUNT(all); k++)
        for (int i = 0; i < N_ANSWERS; i++) {
            assert_true(plays(all[k], i, 25, 0));
            const size_t n = n_calls;
            assert_true(n > 10);
            for (size_t at = 1; at <= n; at++) plays(all[k], i, 25, at);
        }
}

int main(void)
{
    srv_memory_open(allocate);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_of_anthropic_is_what_its_events_say),
        cmocka_unit_test(a_message_says_why_it_ended_and_what_was_cached),
        cmocka_unit_test(a_call_that_is_cut_is_a_block_that_ends),
        cmocka_unit_test(no_text_block_is_empty),
        cmocka_unit_test(a_complete_call_is_a_block_that_has_ended),
        cmocka_unit_test(thoughts_after_a_text_are_a_block_of_their_own),
        cmocka_unit_test(errors_of_anthropic_have_a_type_by_their_status),
        cmocka_unit_test(a_response_is_what_its_events_say),
        cmocka_unit_test(a_response_counts_its_tokens),
        cmocka_unit_test(a_response_that_fails_says_so),
        cmocka_unit_test(a_response_has_its_calls_in_order),
        cmocka_unit_test(a_chat_of_openai_is_what_its_chunks_say),
        cmocka_unit_test(a_call_that_breaks_leaves_no_text),
        cmocka_unit_test(an_error_names_the_field_that_the_client_sent),
        cmocka_unit_test(an_answer_says_why_it_ended),
        cmocka_unit_test(a_chat_of_ollama_is_what_its_lines_say),
        cmocka_unit_test(a_stream_of_ollama_that_fails_ends_with_its_error),
        cmocka_unit_test(ollama_counts_in_nanoseconds),
        cmocka_unit_test(a_completion_of_llama_is_what_its_events_say),
        cmocka_unit_test(a_stream_ends_or_breaks_off),
        cmocka_unit_test(a_stream_that_lacks_a_part_is_broken_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
