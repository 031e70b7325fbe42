/* anthropic_body.c -- the body of /v1/messages as that of a chat.
 *
 *   system, text blocks              messages with text parts, which keep cache_control (retain.h)
 *   tool_use, tool_result            tool_calls of an assistant, messages of tools
 *   document, search_result          of the last user message: documents; of others: text
 *   tools, tool_choice               functions
 *   output_config.format             response_format
 */
#include <stdio.h>
#include <string.h>

#include "server/dialects/anthropic.h"

/* A message being read. */
typedef struct reading {
    srv_fields *f;
    json_t *messages, *documents;
    json_t *parts, *calls; /* of the present message */
    json_t *thought;       /* of it; borrowed, or NULL */
    char where[64];        /* messages[i].content[k] */
    bool user, last;
    json_t *mark; /* cache_control of a block that is no text; borrowed */
} reading;

static const char *type_of(const json_t *block)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    return type ? type : "";
}

/* text_part -- with the block's cache_control. */
static json_t *text_part(const json_t *text, const json_t *block)
{
    return json_pack("{s:s, s:O, s:O*}", "type", "text", "text", text, "cache_control",
                     json_object_get(block, "cache_control"));
}

static bool is_text(const json_t *block)
{
    return strcmp(type_of(block), "text") == 0 && json_is_string(json_object_get(block, "text"));
}

/* text_of -- a string, or the texts of a list of blocks. NULL: it has a block of another type. Owns: json_decref. */
static json_t *text_of(const json_t *content)
{
    if (!content || json_is_null(content)) return json_string("");
    if (json_is_string(content)) return json_incref((json_t *)content);
    json_t *all = json_string("");
    for (size_t i = 0; i < json_array_size(content) && all; i++) {
        const json_t *block = json_array_get(content, i);
        json_t *more = !is_text(block)
                           ? NULL
                           : json_sprintf("%s%s%s", json_string_value(all), i ? "\n" : "",
                                          json_string_value(json_object_get(block, "text")));
        json_decref(all);
        all = more;
    }
    return json_is_array(content) ? all : (json_decref(all), NULL);
}

static void refuse_block(reading *r, const json_t *block)
{
    srv_fields_refuse(r->f, r->where, "%s: a block of type %.40s is not supported here", r->where,
                      type_of(block));
}

/* add_document -- a document block, or a search result: its text is what the model reads. */
static void add_document(reading *r, const json_t *block)
{
    const json_t *source = json_object_get(block, "source");
    bool is_result = strcmp(type_of(block), "search_result") == 0,
         plain = strcmp(type_of(source), "text") == 0;
    json_t *text = is_result || strcmp(type_of(source), "content") == 0
                       ? text_of(json_object_get(is_result ? block : source, "content"))
                   : plain ? json_incref(json_object_get(source, "data"))
                           : NULL;
    if (!json_is_string(text))
        srv_fields_refuse(r->f, r->where,
                          "%s: a document must have a source of type text or content", r->where);
    else if (r->last)
        json_array_append_new(r->documents, json_pack("{s:O, s:O*}", "text", text, "title",
                                                      json_object_get(block, "title")));
    else
        json_array_append_new(r->parts, text_part(text, block));
    json_decref(text);
}

static void add_result(reading *r, const json_t *block)
{
    json_t *text = text_of(json_object_get(block, "content"));
    if (!text)
        srv_fields_refuse(r->f, r->where, "%s.content must be a string or a list of text blocks",
                          r->where);
    if (text)
        json_array_append_new(r->messages,
                              json_pack("{s:s, s:O*, s:O}", "role", "tool", "tool_call_id",
                                        json_object_get(block, "tool_use_id"), "content", text));
    json_decref(text);
}

static void add_use(reading *r, const json_t *block)
{
    json_t *input = json_object_get(block, "input"), *name = json_object_get(block, "name");
    if (!json_is_string(name)) srv_fields_refuse(r->f, r->where, "%s.name must be a string", r->where);
    json_array_append_new(
        r->calls, json_pack("{s:O*, s:s, s:{s:O*, s:o}}", "id", json_object_get(block, "id"),
                            "type", "function", "function", "name", name, "arguments",
                            input ? json_incref(input) : json_object()));
}

static void add_block(reading *r, const json_t *block)
{
    const char *type = type_of(block);
    json_t *mark = json_object_get(block, "cache_control");
    if (mark && !is_text(block)) r->mark = mark;
    if (is_text(block))
        json_array_append_new(r->parts, text_part(json_object_get(block, "text"), block));
    else if (r->user && strcmp(type, "tool_result") == 0)
        add_result(r, block);
    else if (r->user && (strcmp(type, "document") == 0 || strcmp(type, "search_result") == 0))
        add_document(r, block);
    else if (!r->user && strcmp(type, "tool_use") == 0)
        add_use(r, block);
    else if (!r->user && strcmp(type, "thinking") == 0)
        r->thought = json_object_get(block, "thinking"); /* most templates drop those of earlier turns */
    else if (r->user || !strstr(type, "thinking"))
        refuse_block(r, block);
}

static void add_message(reading *r, const json_t *m, size_t i)
{
    const char *role = json_string_value(json_object_get(m, "role"));
    const json_t *content = json_object_get(m, "content");
    r->user = role && strcmp(role, "user") == 0;
    snprintf(r->where, sizeof r->where, "messages[%zu].role", i);
    if (!r->user && (!role || strcmp(role, "assistant") != 0))
        srv_fields_refuse(r->f, r->where,
                          "%s must be user or assistant; system is a field of its own", r->where);
    snprintf(r->where, sizeof r->where, "messages[%zu].content", i);
    if (!json_is_string(content) && !json_is_array(content))
        srv_fields_refuse(r->f, r->where, "%s must be a string or a list of blocks", r->where);
    r->parts = json_array();
    r->calls = json_array();
    r->thought = NULL;
    if (json_is_string(content)) json_array_append_new(r->parts, text_part(content, NULL));
    for (size_t k = 0; k < json_array_size(content) && !r->f->failed; k++) {
        snprintf(r->where, sizeof r->where, "messages[%zu].content[%zu]", i, k);
        add_block(r, json_array_get(content, k));
    }
    bool calls = json_array_size(r->calls) > 0,
         documents = r->last && json_array_size(r->documents) > 0;
    if (calls || documents || json_array_size(r->parts)) {
        if (!json_array_size(r->parts))
            json_array_append_new(r->parts, json_pack("{s:s, s:s}", "type", "text", "text", ""));
        json_t *out =
            json_pack("{s:s, s:O}", "role", r->user ? "user" : "assistant", "content", r->parts);
        if (calls) json_object_set(out, "tool_calls", r->calls);
        if (r->thought) json_object_set(out, "reasoning_content", r->thought);
        json_array_append_new(r->messages, out);
    }
    json_decref(r->parts);
    json_decref(r->calls);
}

static void read_messages(reading *r)
{
    json_t *system = srv_field(r->f, "system"), *list = srv_field(r->f, "messages");
    size_t n = json_array_size(list), last = n;
    if (system && !json_is_string(system) && !json_is_array(system))
        srv_fields_refuse(r->f, "system", "system must be a string or a list of text blocks");
    if (json_is_string(system))
        json_array_append_new(r->messages,
                              json_pack("{s:s, s:O}", "role", "system", "content", system));
    for (size_t i = 0; i < json_array_size(system); i++)
        if (!is_text(json_array_get(system, i)))
            srv_fields_refuse(r->f, "system", "system[%zu] must be a text block", i);
    if (json_array_size(system))
        json_array_append_new(r->messages,
                              json_pack("{s:s, s:O}", "role", "system", "content", system));
    if (n == 0)
        srv_fields_refuse(r->f, "messages", "messages must be a list of at least one message");
    for (size_t i = 0; i < n; i++) {
        const char *role = json_string_value(json_object_get(json_array_get(list, i), "role"));
        if (role && strcmp(role, "user") == 0) last = i;
    }
    for (size_t i = 0; i < n && !r->f->failed; i++) {
        r->last = i == last;
        add_message(r, json_array_get(list, i), i);
    }
}

/* -- tools and format ------------------------------------------------------------------------------- */

static json_t *tools_of(srv_fields *f, const json_t *list)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *tool = json_array_get(list, i);
        const char *type = json_string_value(json_object_get(tool, "type"));
        if (type && strcmp(type, "custom") != 0)
            srv_fields_refuse(
                f, "tools",
                "tools[%zu].type is %.40s; this server runs no tools, so it must be custom", i,
                type);
        json_array_append_new(out, json_pack("{s:s, s:{s:O*, s:O*, s:O*}}", "type", "function",
                                             "function", "name", json_object_get(tool, "name"),
                                             "description", json_object_get(tool, "description"),
                                             "parameters", json_object_get(tool, "input_schema")));
    }
    return out;
}

static void read_choice(srv_fields *f, json_t *out)
{
    static const char *const names[][2] = {{"auto", "auto"}, {"any", "required"}, {"none", "none"}};
    const json_t *choice = srv_field(f, "tool_choice");
    if (!choice) return;
    bool known = false;
    for (size_t i = 0; i < 3; i++)
        if (strcmp(type_of(choice), names[i][0]) == 0)
            known = true, json_object_set_new(out, "tool_choice", json_string(names[i][1]));
    if (strcmp(type_of(choice), "tool") == 0)
        json_object_set_new(out, "tool_choice",
                            json_pack("{s:s, s:{s:O*}}", "type", "function", "function", "name",
                                      json_object_get(choice, "name")));
    else if (!known)
        srv_fields_refuse(f, "tool_choice", "tool_choice.type must be auto, any, tool or none");
    if (json_is_true(json_object_get(choice, "disable_parallel_tool_use")))
        json_object_set_new(out, "parallel_tool_calls", json_false());
}

static void read_format(srv_fields *f, json_t *out)
{
    const json_t *format = json_object_get(srv_field_object(f, "output_config"), "format");
    if (!format) format = srv_field(f, "output_format");
    if (!format || json_is_null(format)) return;
    if (strcmp(type_of(format), "json_schema") != 0)
        srv_fields_refuse(f, "output_config", "output_config.format.type must be json_schema");
    json_object_set_new(out, "response_format",
                        json_pack("{s:s, s:{s:O*}}", "type", "json_schema", "json_schema", "schema",
                                  json_object_get(format, "schema")));
}

/* refuse_hosted -- what needs a server that runs tools. */
static void refuse_hosted(srv_fields *f)
{
    static const char *const names[] = {"mcp_servers", "container"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *v = srv_field(f, names[i]);
        if (v && !(json_is_array(v) && json_array_size(v) == 0))
            srv_fields_refuse(f, names[i], "%s is not supported: this server runs no tools", names[i]);
    }
}

json_t *srv_anthropic_body(srv_fields *f, bool *chat)
{
    static const char *const replaced[] = {
        "system",        "stop_sequences", "tools",    "tool_choice", "output_config",
        "output_format", "metadata",       "thinking", "documents",   "response_format"};
    reading r = {.f = f, .messages = json_array(), .documents = json_array()};
    json_t *out = srv_body_copy(f, replaced, sizeof replaced / sizeof *replaced);
    const char *thinking = type_of(srv_field_object(f, "thinking"));
    const json_t *tools = srv_field_list(f, "tools"), *documents = srv_field_list(f, "documents");
    *chat = true;
    refuse_hosted(f);
    read_messages(&r);
    if (!srv_field(f, "max_tokens")) srv_fields_refuse(f, "max_tokens", "max_tokens is missing");
    srv_field_int(f, "max_tokens", 0, 0, INT32_MAX); /* -1, which chats may have, is refused */
    if (strcmp(thinking, "enabled") == 0) json_object_set_new(out, "think", json_true());
    if (documents) json_array_extend(r.documents, (json_t *)documents);
    json_object_set_new(out, "messages", r.messages);
    srv_body_continue(f, out, "messages: the last one has a block of type tool_use, and its tool_result must follow");
    if (json_array_size(r.documents)) json_object_set(out, "documents", r.documents);
    if (srv_field(f, "stop_sequences"))
        json_object_set(out, "stop", srv_field(f, "stop_sequences"));
    if (json_array_size(tools)) json_object_set_new(out, "tools", tools_of(f, tools));
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_t *mark = json_object_get(json_array_get(tools, i), "cache_control");
        if (mark) r.mark = mark;
    }
    if (r.mark && !srv_field(f, "cache_control")) json_object_set(out, "cache_control", r.mark);
    read_choice(f, out);
    read_format(f, out);
    json_decref(r.documents);
    if (!f->failed) return out;
    json_decref(out);
    return NULL;
}
