#include "server/body/tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(const json_t *tool)
{
    return json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
}

/* named -- the name in a choice; the Responses API has no "function" around it. */
static const char *named(const json_t *choice)
{
    const char *name = name_of(choice);
    return name ? name : json_string_value(json_object_get(choice, "name"));
}

static json_t *find_tool(const srv_tools *t, const char *name)
{
    for (size_t i = 0; i < json_array_size(t->list); i++)
        if (strcmp(name_of(json_array_get(t->list, i)), name) == 0) return json_array_get(t->list, i);
    return NULL;
}

static void refuse_name(srv_fields *f, const char *name)
{
    srv_fields_refuse(f, "tool_choice", "tool_choice names \"%.60s\", which is not in tools", name);
}

/* -- fields ----------------------------------------------------------------------------------- */

static void check_tool(srv_fields *f, const json_t *tool, size_t i)
{
    char param[40];
    const char *type = json_string_value(json_object_get(tool, "type"));
    snprintf(param, sizeof param, "tools[%zu].type", i);
    if (!type || strcmp(type, "function") != 0)
        srv_fields_refuse(f, param, "%s must be function", param);
    snprintf(param, sizeof param, "tools[%zu].function.name", i);
    const char *name = name_of(tool);
    if (!name || !*name || strlen(name) > 256)
        srv_fields_refuse(f, param, "%s must be a name", param);
    const json_t *parameters = json_object_get(json_object_get(tool, "function"), "parameters");
    snprintf(param, sizeof param, "tools[%zu].function.parameters", i);
    if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
        srv_fields_refuse(f, param, "%s must be a JSON Schema: an object", param);
}

static bool is(const char *word, const char *what)
{
    return word && strcmp(word, what) == 0;
}

/* read_allowed -- {"mode", "tools"}: the prompt has all tools, and these may be called. The list in the body gets the
 * functions that it names. */
static void read_allowed(srv_tools *t, srv_fields *f, const json_t *allowed)
{
    json_t *list = json_object_get(allowed, "tools");
    const size_t n = json_array_size(list);
    const char *mode = json_string_value(json_object_get(allowed, "mode"));
    if (!is(mode, "auto") && !is(mode, "required"))
        srv_fields_refuse(f, "tool_choice", "tool_choice: the mode of allowed_tools must be auto or required");
    if (n == 0 || n > SRV_MAX_TOOLS)
        srv_fields_refuse(f, "tool_choice", "tool_choice: the tools of allowed_tools must be 1 to %d functions",
                          SRV_MAX_TOOLS);
    for (size_t i = 0; i < n && !f->failed; i++) {
        const char *name = named(json_array_get(list, i));
        json_t *tool = name ? find_tool(t, name) : NULL;
        if (!name)
            srv_fields_refuse(f, "tool_choice", "tool_choice: item %zu of allowed_tools is no function", i);
        else if (!tool)
            refuse_name(f, name);
        else
            json_array_set(list, i, tool);
    }
    t->must = is(mode, "required");
    t->list = list;
}

/* read_choice -- "none", "auto", "required", {"type": "function", "function": {"name"}}, or {"type": "allowed_tools",
 * "allowed_tools": {...}}. */
static void read_choice(srv_tools *t, srv_fields *f)
{
    const json_t *choice = srv_field(f, "tool_choice"), *allowed = json_object_get(choice, "allowed_tools");
    const char *word = json_string_value(choice);
    if (is(json_string_value(json_object_get(choice, "type")), "allowed_tools")) {
        read_allowed(t, f, allowed ? allowed : choice);
        return;
    }
    t->only = named(choice);
    t->must = t->only || is(word, "required");
    if (t->only && !find_tool(t, t->only))
        refuse_name(f, t->only);
    else if (choice && !t->must && !is(word, "none") && !is(word, "auto"))
        srv_fields_refuse(f, "tool_choice", "tool_choice must be none, auto, required, a function or allowed_tools");
    else if (is(word, "none"))
        t->list = t->shown = NULL;
    if (!f->failed && t->must && !t->list)
        srv_fields_refuse(f, "tool_choice", "tool_choice requires a call, and there are no tools");
}

void srv_tools_read(srv_tools *t, srv_fields *f)
{
    json_t *list = srv_field(f, "tools");
    size_t n = json_array_size(list);
    if ((list && !json_is_array(list)) || n > SRV_MAX_TOOLS) {
        srv_fields_refuse(f, "tools", "tools must be a list of at most %d functions",
                          SRV_MAX_TOOLS);
        return;
    }
    for (size_t i = 0; i < n; i++) check_tool(f, json_array_get(list, i), i);
    if (f->failed) return;
    t->list = t->shown = n ? list : NULL;
    t->several = srv_field_bool(f, "parallel_tool_calls", true);
    read_choice(t, f);
}

/* How a required call is written. Marks that are control tokens and do not show in the text are left out. Forms with
 * a name in JSON have `name`; in the others `head` comes before the function's name, `tail` after it. */
typedef struct form {
    const char *marks[2]; /* in a template that teaches the form; NULL: none does, or one mark is enough */
    const char *name, *arguments, *before, *after;
    bool list;
    const char *open, *close, *between; /* of all calls; between NULL: an answer has one call */
    const char *head, *tail, *after_number;
    const char *const *keys;
} form;

static const char *const glm_keys[] = {"<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n"};
static const char *const qwen_keys[] = {"<parameter=", ">\n", "\n</parameter>\n"};

static const form forms[] = {
    [SRV_TOOLS_HERMES] = {.name = "name", .arguments = "arguments", .before = "<tool_call>\n",
                          .after = "\n</tool_call>", .between = "\n"},
    [SRV_TOOLS_MISTRAL] = {.marks = {"[TOOL_CALLS]"}, .name = "name", .arguments = "arguments", .list = true},
    [SRV_TOOLS_LLAMA3] = {.name = "name", .arguments = "parameters"},
    [SRV_TOOLS_GRANITE] = {.marks = {"<|tool_call|>"}, .name = "name", .arguments = "arguments", .list = true},
    [SRV_TOOLS_COMMAND_R] = {.marks = {"<|START_ACTION|>"}, .name = "tool_name", .arguments = "parameters",
                             .list = true},
    [SRV_TOOLS_HARMONY] = {.marks = {"<|channel|>"}, .head = "<|channel|>commentary to=functions.",
                           .tail = " <|constrain|>json<|message|>"},
    [SRV_TOOLS_KIMI] = {.marks = {"<|tool_calls_section_begin|>"}, .open = "<|tool_calls_section_begin|>",
                        .head = "<|tool_call_begin|>functions.", .tail = ":",
                        .after_number = "<|tool_call_argument_begin|>", .after = "<|tool_call_end|>", .between = "",
                        .close = "<|tool_calls_section_end|>"},
    [SRV_TOOLS_DEEPSEEK] = {.marks = {"<｜tool▁sep｜>", "```json"}, .open = "<｜tool▁calls▁begin｜>",
                            .head = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", .tail = "\n```json\n",
                            .after = "\n```<｜tool▁call▁end｜>", .between = "\n", .close = "<｜tool▁calls▁end｜>"},
    [SRV_TOOLS_DEEPSEEK_31] = {.marks = {"<｜tool▁sep｜>"}, .open = "<｜tool▁calls▁begin｜>",
                               .head = "<｜tool▁call▁begin｜>", .tail = "<｜tool▁sep｜>",
                               .after = "<｜tool▁call▁end｜>", .between = "", .close = "<｜tool▁calls▁end｜>"},
    [SRV_TOOLS_GLM_45] = {.marks = {"<arg_key>"}, .head = "<tool_call>", .tail = "\n", .after = "</tool_call>",
                          .between = "\n", .keys = glm_keys},
    [SRV_TOOLS_GLM_4] = {.marks = {"<|observation|>"}, .head = "", .tail = "\n"},
    [SRV_TOOLS_QWEN_CODER] = {.marks = {"<parameter=", "<tool_call>"}, .head = "<tool_call>\n<function=",
                              .tail = ">\n", .after = "</function>\n</tool_call>", .between = "\n",
                              .keys = qwen_keys},
};

srv_tool_form srv_tools_form(const char *jinja, bool *shows)
{
    *shows = jinja && strstr(jinja, "tools");
    if (!*shows) return SRV_TOOLS_HERMES;
    if (strstr(jinja, "<arg_key>")) return SRV_TOOLS_GLM_45;
    if (strstr(jinja, "<tool_call>"))
        return strstr(jinja, "<parameter=") ? SRV_TOOLS_QWEN_CODER : SRV_TOOLS_HERMES;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const char *const *marks = forms[i].marks;
        if (marks[0] && strstr(jinja, marks[0]) && (!marks[1] || strstr(jinja, marks[1]))) return (srv_tool_form)i;
    }
    return strstr(jinja, "parameters") ? SRV_TOOLS_LLAMA3 : SRV_TOOLS_HERMES;
}

/* -- the grammar of required calls ------------------------------------------------------------ */

/* move_refs -- "#/..." of a schema that becomes a part of another one, at `at`. */
static void move_refs(json_t *schema, const char *at)
{
    const char *key;
    json_t *value;
    size_t i;
    json_array_foreach(schema, i, value) move_refs(value, at);
    json_object_foreach(schema, key, value)
    {
        const char *ref = json_string_value(value);
        if (ref && strcmp(key, "$ref") == 0 && *ref == '#')
            json_object_set_new(schema, key, json_sprintf("%s%s", at, ref + 1));
        else
            move_refs(value, at);
    }
}

/* parameters_of -- the schema of a function's arguments. As with OpenAI, one without parameters has none: with a
 * plain {"type": "object"} the model would invent some. NULL: out of memory. */
static json_t *parameters_of(const json_t *tool)
{
    const json_t *given = json_object_get(json_object_get(tool, "function"), "parameters");
    if (json_is_object(given)) return json_deep_copy(given);
    return json_pack("{s:s, s:{}}", "type", "object", "properties");
}

/* call_schema -- {"name": the name, "arguments": the parameters}; where the name is no JSON, the parameters. */
static json_t *call_schema(const json_t *tool, const form *w, const char *at)
{
    char place[100];
    json_t *parameters = parameters_of(tool);
    snprintf(place, sizeof place, w->name ? "%s/properties/%s" : "%s", at, w->arguments);
    move_refs(parameters, place);
    if (!w->name) return parameters;
    return json_pack("{s:s, s:{s:{s:s}, s:o}, s:[s, s]}", "type", "object", "properties", w->name, "const",
                     name_of(tool), w->arguments, parameters, "required", w->name, w->arguments);
}

static json_t *any_call(const srv_tools *t, const form *w)
{
    json_t *calls = json_array();
    for (size_t i = 0; i < json_array_size(t->list); i++) {
        const json_t *tool = json_array_get(t->list, i);
        char at[60];
        if (t->only && strcmp(t->only, name_of(tool)) != 0) continue;
        snprintf(at, sizeof at, "#%s/anyOf/%zu", w->list ? "/items" : "", json_array_size(calls));
        json_array_append_new(calls, call_schema(tool, w, at));
    }
    json_t *any = json_pack("{s:o}", "anyOf", calls);
    if (!w->list) return any;
    return json_pack("{s:s, s:o, s:i, s:i}", "type", "array", "items", any, "minItems", 1, "maxItems",
                     t->several && !t->only ? 16 : 1);
}

/* heads_of -- of the functions of any_call. Owns: their texts. False: out of memory. */
static bool heads_of(const srv_tools *t, const form *w, sp_grammar_head *heads, int *n)
{
    bool good = true;
    for (size_t i = 0; w->head && i < json_array_size(t->list) && good; i++) {
        const char *name = name_of(json_array_get(t->list, i));
        char *text = NULL;
        if (t->only && strcmp(t->only, name) != 0) continue;
        good = asprintf(&text, "%s%s%s", w->head, name, w->tail) >= 0;
        heads[*n] = (sp_grammar_head){.before = good ? text : NULL, .after_number = w->after_number};
        *n += good;
    }
    return good;
}

sp_grammar *srv_tools_grammar(const srv_tools *t, srv_tool_form which, srv_fields *f)
{
    sp_grammar *g = NULL;
    sp_grammar_head heads[SRV_MAX_TOOLS];
    int n = 0;
    const form *w = &forms[which];
    json_t *schema = any_call(t, w);
    char *text = schema ? json_dumps(schema, JSON_COMPACT) : NULL;
    const bool good = text && heads_of(t, w, heads, &n);
    sp_grammar_opts o = {.schema = text,
                         .before = w->before,
                         .after = w->after,
                         .open = w->open,
                         .close = w->close,
                         .between = t->several && !t->only ? w->between : NULL,
                         .heads = heads,
                         .n_heads = n,
                         .keys = w->keys};
    sp_err err;
    if (!good)
        srv_fields_refuse(f, "tools", "out of memory for tools");
    else if ((err = sp_grammar_compile(&o, &g)) != SP_OK)
        srv_fields_fail(f, "tools", "tools", err);
    while (n > 0) free((char *)heads[--n].before);
    free(text);
    json_decref(schema);
    return g;
}
