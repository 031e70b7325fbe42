/* calls_named.c -- calls that name the function outside of an object (tools.h has the forms). */
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "server/body/calls_int.h"

/* -- name {...} ------------------------------------------------------------------------------- */

static const char *const before[] = {
    "[TOOL_CALLS]", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", ">>>", "\n", "\r",
    "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|start|>assistant", "<|channel|>commentary",
    "commentary to=", " to=", "functions."};
static const char *const between[] = {"<｜tool▁sep｜>", "[ARGS]", "```json", "\n", "\r",
                                      "<|tool_call_argument_begin|>", "<|constrain|>json", " json", "json", " ",
                                      "<|message|>"};
static const char *const after[] = {"```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "\n",
                                    "\r", "<|tool_call_end|>", "<|tool_calls_section_end|>", "<|call|>"};

#define TAKE_ALL(v, list) take_all(v, list, sizeof(list) / sizeof *(list))

static void take_all(cli_view *v, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (cli_view_take(v, list[i])) i = (size_t)-1;
}

/* take_tool -- the longest name of a function that v begins with, or NULL. */
static const char *take_tool(const srv_tools *t, cli_view *v)
{
    const char *longest = NULL;
    for (size_t i = 0; i < json_array_size(t->list); i++) {
        const json_t *function = json_object_get(json_array_get(t->list, i), "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        cli_view at = *v;
        if (cli_view_take(&at, name) && (!longest || strlen(name) > strlen(longest)))
            longest = name;
    }
    if (longest) cli_view_skip(v, strlen(longest));
    return longest;
}

/* take_id -- [CALL_ID] and the id after it, or ":" and a number. */
static void take_id(cli_view *v)
{
    cli_view at = *v;
    if (cli_view_take(&at, ":") && at.n && *at.s >= '0' && *at.s <= '9') {
        while (at.n && *at.s >= '0' && *at.s <= '9') cli_view_skip(&at, 1);
        *v = at;
        return;
    }
    at = *v;
    if (!cli_view_take(&at, "[CALL_ID]")) return;
    while (at.n && *at.s != '[' && *at.s != '{') cli_view_skip(&at, 1);
    *v = at;
}

/* take_head -- up to the arguments; NULL: no name of a function is here. */
static const char *take_head(const srv_tools *t, cli_view *v)
{
    cli_view at = *v;
    TAKE_ALL(&at, before);
    const char *name = take_tool(t, &at);
    if (!name && cli_view_take(&at, "function")) { /* DeepSeek writes the type first */
        cli_view_take(&at, "<｜tool▁sep｜>");
        name = take_tool(t, &at);
    }
    if (!name) return NULL;
    take_id(&at);
    TAKE_ALL(&at, between);
    *v = at;
    return name;
}

bool srv_calls_take_named(const srv_tools *t, cli_view *v, json_t *calls)
{
    cli_view at = *v;
    const char *name = take_head(t, &at);
    if (!name || at.n == 0 || *at.s != '{') return false;
    cli_view raw = at;
    json_t *arguments = srv_calls_take_json(&at);
    raw.n -= at.n;
    json_t *text = json_is_object(arguments) ? json_stringn(raw.s, raw.n) : NULL;
    const bool good = text && srv_calls_add(calls, name, text);
    json_decref(arguments);
    json_decref(text);
    if (!good) return false;
    TAKE_ALL(&at, after);
    *v = at;
    return true;
}

json_t *srv_calls_open_named(const srv_tools *t, cli_view v)
{
    const char *name = take_head(t, &v);
    cli_view rest = v;
    if (!name || v.n == 0 || *v.s != '{' || srv_calls_scan(&rest)) return NULL;
    return srv_calls_begun(name, &v);
}

/* may_be_any -- whether v is empty, or may begin with one of the list. */
static bool may_be_any(const cli_view *v, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (cli_view_may_begin(v, list[i])) return true;
    return false;
}

/* may_follow -- whether v may be what follows a name. */
static bool may_follow(cli_view v)
{
    take_id(&v);
    TAKE_ALL(&v, between);
    return v.n == 0 || *v.s == '{' || cli_view_may_begin(&v, "[CALL_ID]") ||
           may_be_any(&v, between, sizeof between / sizeof *between);
}

static bool may_be_tool(const srv_tools *t, cli_view v)
{
    for (size_t i = 0; i < json_array_size(t->list); i++) {
        const json_t *function = json_object_get(json_array_get(t->list, i), "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        cli_view at = v;
        if (cli_view_take(&at, name) ? may_follow(at) : cli_view_may_begin(&v, name)) return true;
    }
    return false;
}

bool srv_calls_may_be_named(const srv_tools *t, cli_view v)
{
    cli_view_skip_space(&v);
    if (may_be_tool(t, v)) return true;
    if (!cli_view_take(&v, "function")) return cli_view_may_begin(&v, "function");
    return cli_view_may_begin(&v, "<｜tool▁sep｜>") || may_be_tool(t, v);
}

/* -- keys and values as marks ----------------------------------------------------------------- */

/* take_until -- the text up to `end`, and `end` itself; false: `end` has not come yet. */
static bool take_until(cli_view *v, const char *end, cli_view *out)
{
    const char *at = v->n ? memmem(v->s, v->n, end, strlen(end)) : NULL;
    if (!at) return false;
    *out = (cli_view){v->s, (size_t)(at - v->s)};
    cli_view_skip(v, out->n + strlen(end));
    return true;
}

static bool is_text(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

/* allows -- whether a value of this type may have the schema; one without types has them all. */
static bool allows(const json_t *schema, const char *type)
{
    const json_t *types = json_object_get(schema, "type"), *one;
    const json_t *any[] = {json_object_get(schema, "anyOf"), json_object_get(schema, "oneOf")};
    size_t i;
    if (json_is_string(types)) return is_text(types, type);
    json_array_foreach(types, i, one) if (is_text(one, type)) return true;
    for (int k = 0; k < 2 && !types; k++)
        json_array_foreach(any[k], i, one) if (allows(one, type)) return true;
    return !types && !any[0] && !any[1];
}

static bool fits(const json_t *schema, const json_t *value)
{
    static const char *const types[] = {
        [JSON_OBJECT] = "object", [JSON_ARRAY] = "array",  [JSON_STRING] = "string", [JSON_INTEGER] = "integer",
        [JSON_REAL] = "number",   [JSON_TRUE] = "boolean", [JSON_FALSE] = "boolean", [JSON_NULL] = "null"};
    return allows(schema, types[json_typeof(value)]) || (json_is_integer(value) && allows(schema, "number"));
}

/* value_of -- JSON; a text if it is none, or if the function's schema has a text and not such a value: 90210 for
 * {"type": ["string", "null"]} is "90210", and null is null. */
static json_t *value_of(const json_t *function, const char *key, cli_view text)
{
    const json_t *properties = json_object_get(json_object_get(function, "parameters"), "properties");
    const json_t *schema = json_object_get(properties, key);
    json_t *value = NULL;
    if (text.n && *text.s == '\n') cli_view_skip(&text, 1);
    if (text.n && text.s[text.n - 1] == '\n') text.n--;
    if (!is_text(json_object_get(schema, "type"), "string"))
        value = cli_load_json(text.s, text.n, JSON_DECODE_ANY, NULL);
    if (value && (fits(schema, value) || !allows(schema, "string"))) return value;
    json_decref(value);
    return json_stringn(text.s, text.n);
}

static bool set_value(json_t *arguments, const json_t *function, cli_view key, cli_view value)
{
    char name[257];
    while (key.n && key.s[key.n - 1] == '\n') key.n--;
    if (key.n == 0 || key.n >= sizeof name) return false;
    memcpy(name, key.s, key.n);
    name[key.n] = '\0';
    return json_object_set_new(arguments, name, value_of(function, name, value)) == 0;
}

bool srv_calls_take_pairs(const srv_tools *t, cli_view *v, json_t *calls)
{
    cli_view at = *v, key, value;
    const char *name = take_tool(t, &at);
    json_t *arguments = json_object();
    bool good = name != NULL;
    cli_view_skip_space(&at);
    while (good && !cli_view_take(&at, "</tool_call>")) {
        good = cli_view_take(&at, "<arg_key>") && take_until(&at, "</arg_key>", &key);
        cli_view_skip_space(&at);
        good = good && cli_view_take(&at, "<arg_value>") &&
               take_until(&at, "</arg_value>", &value) &&
               set_value(arguments, srv_calls_tool(t, name), key, value);
        cli_view_skip_space(&at);
    }
    good = good && srv_calls_add(calls, name, arguments);
    json_decref(arguments);
    if (good) *v = at;
    return good;
}

/* How a function and its values are marked; both end with </function>. */
typedef struct marking {
    const char *name, *name_end, *key, *key_end, *value_end;
    bool has_cdata; /* a value may be in <![CDATA[...]]> */
} marking;

static const marking markings[] = {
    {"<function=", ">", "<parameter=", ">", "</parameter>", false},              /* Qwen3-Coder */
    {"<function name=\"", "\">", "<param name=\"", "\">", "</param>", true}, /* MiniCPM5 */
};

#define N_MARKINGS (sizeof markings / sizeof *markings)

/* take_value -- up to its end. */
static bool take_value(cli_view *v, const marking *m, cli_view *out)
{
    if (!m->has_cdata || !cli_view_take(v, "<![CDATA[")) return take_until(v, m->value_end, out);
    return take_until(v, "]]>", out) && cli_view_take(v, m->value_end);
}

/* take_parameters -- <parameter=key>value</parameter> ... </function> */
static json_t *take_parameters(const json_t *function, const marking *m, cli_view *v)
{
    cli_view key, value;
    json_t *arguments = json_object();
    bool good = arguments != NULL;
    cli_view_skip_space(v);
    while (good && !cli_view_take(v, "</function>")) {
        good = cli_view_take(v, m->key) && take_until(v, m->key_end, &key) && take_value(v, m, &value) &&
               set_value(arguments, function, key, value);
        cli_view_skip_space(v);
    }
    if (good) return arguments;
    json_decref(arguments);
    return NULL;
}

/* take_function_head -- <function=name>; NULL: not of a known function. */
static const json_t *take_function_head(const srv_tools *t, cli_view *v, char name[257], const marking **out)
{
    size_t i = 0;
    cli_view part;
    while (i < N_MARKINGS && !cli_view_take(v, markings[i].name)) i++;
    if (i == N_MARKINGS || !take_until(v, markings[i].name_end, &part) || part.n > 256) return NULL;
    memcpy(name, part.s, part.n);
    name[part.n] = '\0';
    *out = &markings[i];
    cli_view_skip_space(v);
    return srv_calls_tool(t, name);
}

bool srv_calls_take_function(const srv_tools *t, cli_view *v, json_t *calls)
{
    cli_view at = *v;
    char name[257];
    const marking *m;
    const json_t *function = take_function_head(t, &at, name, &m);
    json_t *arguments = NULL, *text = NULL;
    if (!function) return false;
    cli_view raw = at;
    if (at.n && *at.s == '{') {
        arguments = srv_calls_take_json(&at);
        text = json_is_object(arguments) ? json_stringn(raw.s, raw.n - at.n) : NULL;
        cli_view_take(&at, "</function>");
    } else {
        arguments = take_parameters(function, m, &at);
    }
    cli_view_skip_space(&at);
    const bool good =
        json_is_object(arguments) && srv_calls_add(calls, name, text ? text : arguments);
    json_decref(text);
    json_decref(arguments);
    if (good) *v = at;
    return good;
}

json_t *srv_calls_open_function(const srv_tools *t, cli_view v)
{
    char name[257];
    const marking *m;
    if (!take_function_head(t, &v, name, &m)) return NULL;
    cli_view rest = v;
    return v.n && *v.s == '{' && !srv_calls_scan(&rest) ? srv_calls_begun(name, &v) : NULL;
}
