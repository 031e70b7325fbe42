#include "server/body/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "cli/text.h"
#include "server/http/memory.h"

#define SYSTEM "system"

/* -- reading ---------------------------------------------------------------------------------- */

/* role_of -- one of the four roles; NULL: unknown. */
static const char *role_of(const char *name)
{
    static const struct {
        const char *name, *role;
    } roles[] = {{SYSTEM, SYSTEM},           {"developer", SYSTEM}, {"user", "user"},
                 {"assistant", "assistant"}, {"tool", "tool"},      {"function", "tool"}};
    for (size_t i = 0; name && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(name, roles[i].name) == 0) return roles[i].role;
    return NULL;
}

/* write_parts -- the texts of a list of content parts, joined by line ends. */
static bool write_parts(FILE *to, const json_t *parts)
{
    static const char *const types[] = {"text", "input_text", "output_text", "refusal"};
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        const char *text = json_string_value(json_object_get(part, "text"));
        bool is_text = type == NULL;
        for (size_t k = 0; type && k < sizeof types / sizeof *types; k++)
            is_text |= strcmp(type, types[k]) == 0;
        if (json_is_string(part)) text = json_string_value(part);
        if (type && strcmp(type, "refusal") == 0)
            text = json_string_value(json_object_get(part, "refusal"));
        if (!text || !is_text) return false;
        fprintf(to, "%s%s", i ? "\n" : "", text);
    }
    return true;
}

/* content_of -- a string, or a list of text parts; of an assistant it may be null. NULL: neither, or
 * out of memory. */
static json_t *content_of(const json_t *content, bool may_be_null)
{
    if (json_is_string(content)) return json_string(json_string_value(content));
    if (!content || json_is_null(content)) return may_be_null ? json_string("") : NULL;
    if (!json_is_array(content)) return NULL;
    char *text = NULL;
    size_t n;
    FILE *f = cli_text_open(&text, &n);
    bool good = f && write_parts(f, content);
    if (!f || fclose(f) != 0) srv_memory_lost();
    json_t *s = good && text ? json_string(text) : NULL;
    free(text);
    return s;
}

/* call_of -- a tool call whose arguments are an object: templates write them as JSON. NULL: not a
 * call. */
static json_t *call_of(const json_t *call)
{
    json_t *function = json_object_get(call, "function"),
           *given = json_object_get(function, "arguments");
    if (!json_is_string(json_object_get(function, "name"))) return NULL;
    json_t *arguments = json_is_string(given) && *json_string_value(given)
                            ? cli_load_json(json_string_value(given), json_string_length(given), JSON_DECODE_ANY, NULL)
                        : json_is_object(given) ? json_incref(given)
                                                : json_object();
    if (!arguments) arguments = json_incref(given); /* what a model wrote need not be JSON */
    json_t *copy = json_deep_copy(call);
    json_object_set_new(json_object_get(copy, "function"), "arguments", arguments);
    return copy;
}

static json_t *calls_of(srv_fields *f, const json_t *calls, size_t i)
{
    char name[96];
    json_t *out = json_array();
    for (size_t k = 0; k < json_array_size(calls); k++) {
        json_t *call = call_of(json_array_get(calls, k));
        if (!call) {
            snprintf(name, sizeof name, "messages[%zu].tool_calls[%zu].function.name", i, k);
            srv_fields_refuse(f, name, "%s must be a string", name);
        }
        json_array_append_new(out, call);
    }
    return out;
}

static json_t *read_message(srv_fields *f, const json_t *o, size_t i)
{
    char name[64];
    const char *role = role_of(json_string_value(json_object_get(o, "role")));
    if (!role) {
        snprintf(name, sizeof name, "messages[%zu].role", i);
        srv_fields_refuse(f, name, "%s must be system, developer, user, assistant or tool", name);
        return NULL;
    }
    json_t *content = content_of(json_object_get(o, "content"), strcmp(role, "assistant") == 0);
    if (!content) {
        snprintf(name, sizeof name, "messages[%zu].content", i);
        srv_fields_refuse(f, name, "%s must be a string or a list of text parts", name);
        return NULL;
    }
    json_t *calls = json_object_get(o, "tool_calls"),
           *m = json_copy((json_t *)o); /* shares the members */
    json_object_set_new(m, "role", json_string(role));
    json_object_set_new(m, "content", content);
    json_t *thoughts = json_object_get(o, "reasoning_content"); /* gpt-oss's template has another name */
    if (json_is_string(thoughts) && !json_object_get(m, "thinking")) json_object_set(m, "thinking", thoughts);
    if (calls && !json_is_array(calls) && !json_is_null(calls)) {
        snprintf(name, sizeof name, "messages[%zu].tool_calls", i);
        srv_fields_refuse(f, name, "%s must be a list", name);
    }
    if (json_array_size(calls))
        json_object_set_new(m, "tool_calls", calls_of(f, calls, i));
    else
        json_object_del(m, "tool_calls");
    return m;
}

static bool has_role(const json_t *m, const char *role)
{
    const char *own = json_string_value(json_object_get(m, "role"));
    return own && strcmp(own, role) == 0;
}

static const char *text_of(const json_t *m)
{
    const char *s = json_string_value(json_object_get(m, "content"));
    return s ? s : "";
}

/* add_text -- appends to the content of a message. */
static bool add_text(json_t *m, const char *separator, const char *text)
{
    const char *own = text_of(m);
    json_t *joined = json_sprintf("%s%s%s", own, *own ? separator : "", text);
    return joined && json_object_set_new(m, "content", joined) == 0;
}

json_t *srv_chat_read(srv_fields *f, const json_t *list)
{
    if (json_array_size(list) == 0) {
        srv_fields_refuse(f, "messages", "messages must be a list of at least one message");
        return NULL;
    }
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(list) && !f->failed; i++) {
        json_t *m = read_message(f, json_array_get(list, i), i), *first = json_array_get(out, 0);
        bool joins = json_array_size(out) == 1 && has_role(first, SYSTEM) && has_role(m, SYSTEM);
        bool good =
            !m || (joins ? add_text(first, "\n\n", text_of(m)) : json_array_append(out, m) == 0);
        if (!good) srv_fields_refuse(f, "messages", "out of memory for the messages");
        json_decref(m);
    }
    if (!f->failed) return out;
    json_decref(out);
    return NULL;
}

int srv_chat_last_user(const json_t *messages)
{
    int i = (int)json_array_size(messages) - 1;
    while (i >= 0 && !has_role(json_array_get(messages, (size_t)i), "user")) i--;
    return i;
}

/* -- tools as texts --------------------------------------------------------------------------- */

static char *tools_text(const json_t *tools)
{
    char *text = NULL;
    size_t n;
    FILE *f = cli_text_open(&text, &n);
    if (!f) return NULL;
    fputs("# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
          "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n",
          f);
    for (size_t i = 0; i < json_array_size(tools); i++) {
        char *one = json_dumps(json_array_get(tools, i), 0);
        if (one) fprintf(f, "%s\n", one);
        free(one);
    }
    fputs("</tools>\n\nFor each function call, return a json object with function name and "
          "arguments within "
          "<tool_call></tool_call> XML tags:\n<tool_call>\n"
          "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>",
          f);
    if (fclose(f) == 0) return text;
    free(text);
    return NULL;
}

static bool spell_calls(json_t *m)
{
    json_t *calls = json_object_get(m, "tool_calls");
    bool good = true;
    for (size_t i = 0; i < json_array_size(calls) && good; i++) {
        json_t *function = json_object_get(json_array_get(calls, i), "function");
        json_t *call = json_pack("{s:O, s:O}", "name", json_object_get(function, "name"),
                                 "arguments", json_object_get(function, "arguments"));
        char *text = call ? json_dumps(call, 0) : NULL, *tagged = NULL;
        good = text && asprintf(&tagged, "<tool_call>\n%s\n</tool_call>", text) >= 0 &&
               add_text(m, "\n", tagged);
        free(tagged);
        free(text);
        json_decref(call);
    }
    json_object_del(m, "tool_calls");
    return good;
}

static bool spell_result(json_t *m)
{
    json_t *text = json_sprintf("<tool_response>\n%s\n</tool_response>", text_of(m));
    json_object_set_new(m, "role", json_string("user"));
    return text && json_object_set_new(m, "content", text) == 0;
}

bool srv_chat_spell_tools(json_t *messages, const json_t *tools)
{
    bool good = true;
    for (size_t i = 0; i < json_array_size(messages) && good; i++) {
        json_t *m = json_array_get(messages, i);
        good = spell_calls(m);
        if (good && has_role(m, "tool")) good = spell_result(m);
    }
    if (!good || json_array_size(tools) == 0) return good;
    char *text = tools_text(tools);
    json_t *first = json_array_get(messages, 0);
    if (text && has_role(first, SYSTEM))
        good = add_text(first, "\n\n", text);
    else
        good = text &&
               json_array_insert_new(messages, 0,
                                     json_pack("{s:s, s:s}", "role", SYSTEM, "content", text)) == 0;
    free(text);
    return good;
}
