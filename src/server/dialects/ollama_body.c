/* ollama_body.c -- the bodies of /api/chat and /api/generate as those of a chat or of completions.
 *
 *   options.num_predict, options.*   max_tokens, and sampling under the same names
 *   format                           response_format
 *   messages                         the same, with ids for calls and their results
 *   prompt, system                   a chat of two messages; with raw or suffix: completions
 */
#include <stdio.h>
#include <string.h>

#include "server/dialects/ollama.h"

/* set_passages_apart -- beside the name of a collection, top_k would be the number of passages; here it is that of
 * sampling, and a top_k beside "options" is of passages. */
static void set_passages_apart(const srv_fields *f, json_t *out)
{
    json_t *name = srv_field(f, "collection"), *n = srv_field(f, "top_k");
    if (!json_is_string(name)) return;
    json_object_set_new(out, "collection", json_pack("{s:O, s:O*}", "name", name, "top_k", n));
}

/* read_options -- sampling is in an object of its own. */
static void read_options(srv_fields *f, json_t *out)
{
    static const char *const same[] = {"temperature",
                                       "top_k",
                                       "top_p",
                                       "min_p",
                                       "seed",
                                       "stop",
                                       "repeat_penalty",
                                       "repeat_last_n",
                                       "presence_penalty",
                                       "frequency_penalty",
                                       "mirostat",
                                       "typical_p",
                                       "tfs_z"};
    const json_t *options = srv_field(f, "options"), *n = json_object_get(options, "num_predict");
    if (options && !json_is_object(options))
        srv_fields_refuse(f, "options", "options must be an object");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        json_t *v = json_object_get(options, same[i]);
        if (v) json_object_set(out, same[i], v);
    }
    if (json_object_get(options, "top_k")) set_passages_apart(f, out);
    if (json_is_integer(n) && json_integer_value(n) >= 0)
        json_object_set(out, "max_tokens", (json_t *)n);
    else if (json_is_integer(n))
        json_object_set_new(out, "n_predict", json_integer(-1)); /* no limit */
    else if (n && !json_is_null(n))
        srv_fields_refuse(f, "options", "options.num_predict must be an integer");
    if (!srv_field(f, "stream")) json_object_set_new(out, "stream", json_true());
}

static void read_format(srv_fields *f, json_t *out)
{
    const json_t *format = srv_field(f, "format");
    const char *name = json_string_value(format);
    if (json_is_object(format))
        json_object_set_new(
            out, "response_format",
            json_pack("{s:s, s:{s:O}}", "type", "json_schema", "json_schema", "schema", format));
    else if (name && strcmp(name, "json") == 0)
        json_object_set_new(out, "response_format", json_pack("{s:s}", "type", "json_object"));
    else if (format && (!name || *name))
        srv_fields_refuse(f, "format", "format must be json or a JSON schema");
}

/* read_think -- false, true, or how much: "low", "medium", "high". */
static void read_think(srv_fields *f, json_t *out)
{
    const json_t *think = srv_field(f, "think");
    const bool off = json_is_false(think);
    if (!think || json_is_null(think)) return;
    if (!json_is_boolean(think) && !json_is_string(think))
        srv_fields_refuse(f, "think", "think must be true, false, low, medium or high");
    json_t *given = json_object_get(out, "chat_template_kwargs");
    json_t *more = json_is_object(given) ? json_copy(given) : json_object();
    json_object_set_new(out, "think", json_boolean(!off));
    json_object_set_new(more, "enable_thinking", json_boolean(!off));
    if (json_is_string(think)) json_object_set(more, "reasoning_effort", (json_t *)think);
    json_object_set_new(out, "chat_template_kwargs", more);
}

/* refuse_others -- fields of Ollama that ask for what this server does not do. */
static void refuse_others(srv_fields *f)
{
    static const char *const names[] = {"logprobs", "top_logprobs", "context"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *v = srv_field(f, names[i]);
        const bool empty = json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0) ||
                           (json_is_integer(v) && json_integer_value(v) == 0);
        if (v && !empty) srv_fields_refuse(f, names[i], "%s is not supported", names[i]);
    }
}

static void refuse_images(srv_fields *f, const json_t *o, const char *where)
{
    const json_t *images = json_object_get(o, "images");
    if (images && !json_is_null(images) && !(json_is_array(images) && json_array_size(images) == 0))
        srv_fields_refuse(f, where, "%s: images are not supported", where);
}

/* read_message -- calls get ids, and results those of the calls before them. */
static json_t *read_message(srv_fields *f, const json_t *given, size_t i, size_t *n_calls,
                            size_t *n_results)
{
    char where[48], id[32];
    json_t *m = json_is_object(given) ? json_deep_copy(given) : json_object();
    json_t *calls = json_object_get(m, "tool_calls");
    const char *role = json_string_value(json_object_get(m, "role"));
    snprintf(where, sizeof where, "messages[%zu]", i);
    refuse_images(f, m, where);
    json_object_del(m, "images");
    if (json_object_get(m, "thinking")) json_object_set(m, "reasoning_content", json_object_get(m, "thinking"));
    json_object_del(m, "thinking");
    for (size_t k = 0; k < json_array_size(calls); k++) {
        json_t *call = json_array_get(calls, k);
        snprintf(id, sizeof id, "call_%zu", (*n_calls)++);
        if (!json_object_get(call, "id")) json_object_set_new(call, "id", json_string(id));
        json_object_set_new(call, "type", json_string("function"));
    }
    if (role && strcmp(role, "tool") == 0 && !json_object_get(m, "tool_call_id")) {
        snprintf(id, sizeof id, "call_%zu", (*n_results)++);
        json_object_set_new(m, "tool_call_id", json_string(id));
    }
    return m;
}

json_t *srv_ollama_chat_body(srv_fields *f, bool *chat)
{
    static const char *const replaced[] = {"options", "format",   "keep_alive", "think",
                                           "prompt",  "truncate", "shift"};
    json_t *out = srv_body_copy(f, replaced, sizeof replaced / sizeof *replaced),
           *messages = json_array();
    const json_t *list = srv_field_list(f, "messages");
    size_t n_calls = 0, n_results = 0;
    *chat = true;
    for (size_t i = 0; i < json_array_size(list); i++)
        json_array_append_new(messages,
                              read_message(f, json_array_get(list, i), i, &n_calls, &n_results));
    json_object_set_new(out, "messages", messages);
    srv_body_continue(f, out, "messages: the last one has tool_calls, and their results must follow");
    if (json_array_size(srv_field_list(f, "tools")) == 0) json_object_del(out, "tools");
    refuse_others(f);
    read_options(f, out);
    read_format(f, out);
    read_think(f, out);
    if (!f->failed) return out;
    json_decref(out);
    return NULL;
}

json_t *srv_ollama_generate_body(srv_fields *f, bool *chat)
{
    static const char *const replaced[] = {"options",  "format",  "keep_alive", "think",
                                           "template", "context", "raw",        "system",
                                           "images",   "suffix",  "prompt"};
    json_t *out = srv_body_copy(f, replaced, sizeof replaced / sizeof *replaced),
           *messages = json_array();
    const char *prompt = srv_field_string(f, "prompt"), *suffix = srv_field_string(f, "suffix"),
               *system = srv_field_string(f, "system"), *template = srv_field_string(f, "template");
    *chat = !srv_field_bool(f, "raw", false) && !(suffix && *suffix);
    refuse_images(f, f->object, "images");
    refuse_others(f);
    if (!*chat && system && *system)
        srv_fields_refuse(f, "system", "system is not supported with raw or suffix: put it into prompt");
    if (template && *template)
        srv_fields_refuse(f, "template", "template is not supported: the model's own is used");
    if (system && *system)
        json_array_append_new(messages,
                              json_pack("{s:s, s:s}", "role", "system", "content", system));
    json_array_append_new(messages,
                          json_pack("{s:s, s:s}", "role", "user", "content", prompt ? prompt : ""));
    if (*chat) {
        json_object_set(out, "messages", messages);
    } else {
        json_object_set_new(out, "prompt", json_string(prompt ? prompt : ""));
        if (suffix && *suffix) json_object_set_new(out, "suffix", json_string(suffix));
    }
    json_decref(messages);
    read_options(f, out);
    read_format(f, out);
    read_think(f, out);
    if (!f->failed) return out;
    json_decref(out);
    return NULL;
}
