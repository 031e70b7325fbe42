/* serve_stream.c -- lines of a stream of server-sent events: "data: {...}", "data: [DONE]", other
 * fields and comments. Bytes arrive in pieces of any length. */
#include "lab/bench/serve_stream.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc.h"

#define MAX_LINE (1 << 20) /* of a stream */
#define MAX_BODY 4096      /* of a reply that is no stream: enough for an error's message */

void load_times_add(load_times *t, double seconds)
{
    t->v = cli_grow(t->v, t->n, &t->cap, sizeof *t->v);
    t->v[t->n++] = seconds;
}

void load_times_fini(load_times *t)
{
    free(t->v);
    *t = (load_times){0};
}

void load_answer_reset(load_answer *a)
{
    *a = (load_answer){.n_generated = -1,
                       .n_prompt = -1,
                       .n_cached = -1,
                       .line = a->line,
                       .room = a->room,
                       .gaps = {.v = a->gaps.v, .cap = a->gaps.cap}};
    if (a->line) a->line[0] = '\0';
}

void load_answer_fini(load_answer *a)
{
    load_times_fini(&a->gaps);
    free(a->line);
    *a = (load_answer){0};
}

static bool is_text(const json_t *v)
{
    return json_string_length(v) > 0; /* 0 for anything but a string */
}

/* has_token -- whether an event carries a token. The one with the reason of the end counts only if no
 * text came before: an answer may be without text. */
static bool has_token(const load_answer *a, const json_t *event)
{
    const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
    const json_t *delta = json_object_get(choice, "delta");
    return is_text(json_object_get(choice, "text")) || is_text(json_object_get(delta, "content")) ||
           is_text(json_object_get(delta, "reasoning_content")) ||
           json_array_size(json_object_get(delta, "tool_calls")) > 0 ||
           (!a->n_events && is_text(json_object_get(choice, "finish_reason")));
}

static void take_count(const json_t *object, const char *field, int *out)
{
    const json_t *v = json_object_get(object, field);
    if (json_is_integer(v)) *out = (int)json_integer_value(v);
}

static void take_event(load_answer *a, const json_t *event, int64_t now_us)
{
    const json_t *usage = json_object_get(event, "usage");
    take_count(usage, "completion_tokens", &a->n_generated);
    take_count(usage, "prompt_tokens", &a->n_prompt);
    take_count(json_object_get(usage, "prompt_tokens_details"), "cached_tokens", &a->n_cached);
    if (!has_token(a, event)) return;
    if (a->n_events++)
        load_times_add(&a->gaps, (double)(now_us - a->last_us) / 1e6);
    else
        a->first_us = now_us;
    a->last_us = now_us;
}

static bool take_line(load_answer *a, int64_t now_us)
{
    if (a->n_line && a->line[a->n_line - 1] == '\r') a->line[--a->n_line] = '\0';
    if (strncmp(a->line, "data:", 5) != 0) return true;
    const char *data = a->line + 5 + (a->line[5] == ' ');
    if (strcmp(data, "[DONE]") == 0) return a->done = true;
    json_error_t at;
    json_t *event = json_loads(data, 0, &at);
    const json_t *error = json_object_get(event, "error");
    const json_t *said = json_is_string(error) ? error : json_object_get(error, "message");
    if (!event)
        snprintf(a->wrong, sizeof a->wrong, "an event that is not JSON: %.100s", data);
    else if (error && !json_is_null(error))
        snprintf(a->wrong, sizeof a->wrong, "an error event: %.150s",
                 json_is_string(said) ? json_string_value(said) : "without a message");
    else
        take_event(a, event, now_us);
    json_decref(event);
    return !a->wrong[0];
}

static bool add_byte(load_answer *a, char byte)
{
    size_t most = a->is_stream ? MAX_LINE : MAX_BODY;
    if (a->n_line + 2 > most) return !a->is_stream; /* the beginning is enough */
    if (a->n_line + 2 > a->room) {
        a->room = a->room ? 2 * a->room : 1024;
        a->line = cli_checked(realloc(a->line, a->room));
    }
    a->line[a->n_line++] = byte;
    a->line[a->n_line] = '\0';
    return true;
}

bool load_answer_feed(load_answer *a, const char *data, size_t n, int64_t now_us)
{
    for (size_t i = 0; i < n; i++) {
        bool ends = a->is_stream && data[i] == '\n';
        if (!ends && !add_byte(a, data[i]))
            return snprintf(a->wrong, sizeof a->wrong, "an event that is too long"), false;
        if (ends && a->n_line && !take_line(a, now_us)) return false;
        if (ends) a->n_line = 0;
    }
    return true;
}
