#include <stdio.h>
#include <string.h>

#include "server/dialects/responses.h"

/* refuse_stateful -- what needs responses that are kept. */
static void refuse_stateful(srv_fields *f)
{
    static const char *const names[] = {"previous_response_id", "conversation", "prompt",
                                        "background"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *v = srv_field(f, names[i]);
        if (v && !json_is_false(v))
            srv_fields_refuse(
                f, names[i],
                "%s is not supported: this server keeps no responses; send the whole input",
                names[i]);
    }
}

/* -- input ------------------------------------------------------------------------------------ */

static json_t *call_message(const json_t *item)
{
    return json_pack("{s:s, s:n, s:[{s:O*, s:s, s:{s:O*, s:O*}}]}", "role", "assistant", "content",
                     "tool_calls", "id", json_object_get(item, "call_id"), "type", "function",
                     "function", "name", json_object_get(item, "name"), "arguments",
                     json_object_get(item, "arguments"));
}

static bool is_call(const json_t *m)
{
    return json_array_size(json_object_get(m, "tool_calls")) > 0;
}

/* thought_of -- the text of a reasoning item; NULL: it has none. Owned. */
static json_t *thought_of(const json_t *item)
{
    const json_t *parts = json_object_get(item, "content");
    json_t *all = NULL;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const char *text = json_string_value(json_object_get(json_array_get(parts, i), "text"));
        json_t *more = text ? json_sprintf("%s%s%s", all ? json_string_value(all) : "", all ? "\n" : "", text) : NULL;
        if (!more) continue;
        json_decref(all);
        all = more;
    }
    return all;
}

/* add_item -- calls in a row are calls of one message; thoughts belong to what follows them. */
static void add_item(srv_fields *f, json_t *messages, json_t **thought, json_t *item, size_t i)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    char param[40];
    json_t *m = NULL;
    if (type && strcmp(type, "reasoning") == 0) {
        json_decref(*thought);
        *thought = thought_of(item);
        return;
    }
    if (!type || strcmp(type, "message") == 0)
        m = json_copy(item);
    else if (strcmp(type, "function_call") == 0)
        m = call_message(item);
    else if (strcmp(type, "function_call_output") == 0)
        m = json_pack("{s:s, s:O*, s:O*}", "role", "tool", "tool_call_id",
                      json_object_get(item, "call_id"), "content", json_object_get(item, "output"));
    if (!m) {
        snprintf(param, sizeof param, "input[%zu].type", i);
        srv_fields_refuse(f, param,
                          "%s must be message, function_call, function_call_output or reasoning",
                          param);
        return;
    }
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    if (is_call(m) && is_call(last) && type)
        json_array_extend(json_object_get(last, "tool_calls"), json_object_get(m, "tool_calls"));
    else
        json_array_append(messages, m);
    const char *role = json_string_value(json_object_get(m, "role"));
    if (*thought && role && strcmp(role, "assistant") == 0) {
        json_object_set_new(m, "reasoning_content", *thought);
        *thought = NULL;
    }
    json_decref(m);
}

static json_t *messages_of(srv_fields *f)
{
    json_t *messages = json_array(), *input = srv_field(f, "input"), *thought = NULL;
    const char *instructions = srv_field_string(f, "instructions");
    if (instructions)
        json_array_append_new(messages,
                              json_pack("{s:s, s:s}", "role", "system", "content", instructions));
    if (json_is_string(input))
        json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "user", "content", input));
    else if (json_array_size(input) == 0)
        srv_fields_refuse(f, "input", "input must be a text or a list of items");
    for (size_t i = 0; i < json_array_size(input) && !f->failed; i++)
        add_item(f, messages, &thought, json_array_get(input, i), i);
    json_decref(thought);
    return messages;
}

/* -- tools and format ------------------------------------------------------------------------- */

/* tools_of -- {"type": "function", "name", ...} becomes {"type": "function", "function": {...}}. */
static json_t *tools_of(srv_fields *f, const json_t *list)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *tool = json_array_get(list, i);
        const char *type = json_string_value(json_object_get(tool, "type"));
        char param[40];
        snprintf(param, sizeof param, "tools[%zu].type", i);
        if (!type || strcmp(type, "function") != 0) {
            srv_fields_refuse(f, param, "%s must be function", param);
            break;
        }
        json_t *function = json_copy((json_t *)tool);
        json_object_del(function, "type");
        json_array_append_new(out,
                              json_pack("{s:s, s:o}", "type", "function", "function", function));
    }
    return out;
}

/* format_of -- text.format as a response_format. */
static json_t *format_of(const json_t *format)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!type || strcmp(type, "json_schema") != 0) return json_deep_copy(format);
    return json_pack("{s:s, s:{s:O*}}", "type", type, "json_schema", "schema",
                     json_object_get(format, "schema"));
}

static bool wants_logprobs(srv_fields *f)
{
    const json_t *include = srv_field_list(f, "include");
    for (size_t i = 0; i < json_array_size(include); i++) {
        const char *s = json_string_value(json_array_get(include, i));
        if (s && strcmp(s, "message.output_text.logprobs") == 0) return true;
    }
    return false;
}

json_t *srv_responses_body(srv_fields *f, bool *chat)
{
    static const char *const replaced[] = {"input",
                                           "instructions",
                                           "max_output_tokens",
                                           "tools",
                                           "text",
                                           "n",
                                           "messages",
                                           "response_format",
                                           "max_tokens",
                                           "prompt",
                                           "top_logprobs",
                                           "return_progress"};
    *chat = true;
    refuse_stateful(f);
    json_t *o = json_copy((json_t *)f->object), *messages = messages_of(f);
    for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++) json_object_del(o, replaced[i]);
    json_object_set_new(o, "messages", messages);
    const json_t *tools = srv_field_list(f, "tools"),
                 *format = json_object_get(srv_field_object(f, "text"), "format");
    if (srv_field_bool(f, "echo", false)) srv_fields_refuse(f, "echo", "echo is not supported in a response");
    srv_field_int(f, "max_output_tokens", 0, 0, INT32_MAX); /* -1, which chats may have, is refused */
    if (srv_field(f, "max_output_tokens"))
        json_object_set(o, "max_tokens", srv_field(f, "max_output_tokens"));
    if (tools) json_object_set_new(o, "tools", tools_of(f, tools));
    if (json_is_object(srv_field(f, "tool_choice"))) /* the response has it as it was */
        json_object_set_new(o, "tool_choice", json_deep_copy(srv_field(f, "tool_choice")));
    if (format) json_object_set_new(o, "response_format", format_of(format));
    if (wants_logprobs(f)) {
        json_object_set_new(o, "logprobs", json_true());
        if (srv_field(f, "top_logprobs"))
            json_object_set(o, "top_logprobs", srv_field(f, "top_logprobs"));
    }
    if (!f->failed) return o;
    json_decref(o);
    return NULL;
}
