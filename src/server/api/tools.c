#include "server/api/tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(const json_t *tool)
{
    return json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
}

static bool has_tool(const srv_tools *t, const char *name)
{
    for (size_t i = 0; i < json_array_size(t->list); i++)
        if (strcmp(name_of(json_array_get(t->list, i)), name) == 0) return true;
    return false;
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

/* read_choice -- "none", "auto", "required", or {"type": "function", "function": {"name"}}. */
static void read_choice(srv_tools *t, srv_fields *f)
{
    const json_t *choice = srv_field(f, "tool_choice");
    const char *word = json_string_value(choice);
    t->only = json_is_object(choice) ? name_of(choice) : NULL;
    if (json_is_object(choice) && !t->only)
        t->only = json_string_value(json_object_get(choice, "name"));
    t->must = t->only || (word && strcmp(word, "required") == 0);
    if (t->only && !has_tool(t, t->only))
        srv_fields_refuse(f, "tool_choice", "tool_choice names \"%.60s\", which is not in tools",
                          t->only);
    else if (choice && !t->must &&
             (!word || (strcmp(word, "none") != 0 && strcmp(word, "auto") != 0)))
        srv_fields_refuse(f, "tool_choice",
                          "tool_choice must be none, auto, required or a function");
    else if (word && strcmp(word, "none") == 0)
        t->list = NULL;
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
    t->list = n ? list : NULL;
    t->several = srv_field_bool(f, "parallel_tool_calls", true);
    read_choice(t, f);
}

/* How a required call is written. Marks that are control tokens are left out: they do not show in the text. */
static const struct {
    const char *mark; /* in a template that teaches the form; NULL: none does */
    const char *name, *arguments, *before, *after;
    bool list;
} forms[] = {
    [SRV_TOOLS_HERMES] = {NULL, "name", "arguments", "<tool_call>\n", "\n</tool_call>", false},
    [SRV_TOOLS_MISTRAL] = {"[TOOL_CALLS]", "name", "arguments", NULL, NULL, true},
    [SRV_TOOLS_LLAMA3] = {NULL, "name", "parameters", NULL, NULL, false},
    [SRV_TOOLS_GRANITE] = {"<|tool_call|>", "name", "arguments", NULL, NULL, true},
    [SRV_TOOLS_COMMAND_R] = {"<|START_ACTION|>", "tool_name", "parameters", NULL, NULL, true},
};

srv_tool_form srv_tools_form(const char *jinja, bool *shows)
{
    *shows = jinja && strstr(jinja, "tools");
    if (!*shows || strstr(jinja, "<tool_call>")) return SRV_TOOLS_HERMES;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].mark && strstr(jinja, forms[i].mark)) return (srv_tool_form)i;
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

/* call_schema -- {"name": the name, "arguments": the parameters}. */
static json_t *call_schema(const json_t *tool, srv_tool_form form, const char *at)
{
    const char *arguments = forms[form].arguments, *name = forms[form].name;
    char place[100];
    json_t *parameters =
        json_deep_copy(json_object_get(json_object_get(tool, "function"), "parameters"));
    snprintf(place, sizeof place, "%s/properties/%s", at, arguments);
    if (!json_is_object(parameters)) {
        json_decref(parameters);
        parameters = json_pack("{s:s}", "type", "object");
    }
    move_refs(parameters, place);
    return json_pack("{s:s, s:{s:{s:s}, s:o}, s:[s, s]}", "type", "object", "properties", name,
                     "const", name_of(tool), arguments, parameters, "required", name, arguments);
}

static json_t *any_call(const srv_tools *t, srv_tool_form form)
{
    json_t *calls = json_array();
    for (size_t i = 0; i < json_array_size(t->list); i++) {
        const json_t *tool = json_array_get(t->list, i);
        char at[60];
        if (t->only && strcmp(t->only, name_of(tool)) != 0) continue;
        snprintf(at, sizeof at, "#%s/anyOf/%zu", forms[form].list ? "/items" : "",
                 json_array_size(calls));
        json_array_append_new(calls, call_schema(tool, form, at));
    }
    json_t *any = json_pack("{s:o}", "anyOf", calls);
    if (!forms[form].list) return any;
    return json_pack("{s:s, s:o, s:i, s:i}", "type", "array", "items", any, "minItems", 1,
                     "maxItems", t->several && !t->only ? 16 : 1);
}

sp_grammar *srv_tools_grammar(const srv_tools *t, srv_tool_form form, srv_fields *f)
{
    sp_grammar *g = NULL;
    if (!t->list || !t->must) return NULL;
    json_t *schema = any_call(t, form);
    char *text = schema ? json_dumps(schema, JSON_COMPACT) : NULL;
    const bool tagged = form == SRV_TOOLS_HERMES;
    sp_grammar_opts o = {.schema = text,
                         .before = forms[form].before,
                         .after = forms[form].after,
                         .between = tagged && t->several && !t->only ? "\n" : NULL};
    sp_err err;
    if (!text)
        srv_fields_refuse(f, "tools", "out of memory for tools");
    else if ((err = sp_grammar_compile(&o, &g)) != SP_OK)
        srv_fields_fail(f, "tools", "tools", err);
    free(text);
    json_decref(schema);
    return g;
}
