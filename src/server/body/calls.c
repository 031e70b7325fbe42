/* calls.c -- finds tool calls in an answer (tools.h has the forms). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "server/body/calls_int.h"

/* Marks before which an answer is text. */
static const char *const marks[] = {
    "<tool_call>",   "[TOOL_CALLS]",     "<|python_tag|>",         "<function=",
    "<function name=\"", "<seed:tool_call>", "<TOOLCALL>",    "<tool_calls>",
    "<|tool_call|>", "<|START_ACTION|>", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
    "functools[",    "<|python_start|>", "<|tool_call_start|>",    "<function_calls>",
    "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|channel|>commentary to=",
    "commentary to=functions.", "functions.",
};

#define N_MARKS (sizeof marks / sizeof *marks)

const json_t *srv_calls_tool(const srv_tools *t, const char *name)
{
    for (size_t i = 0; name && i < json_array_size(t->list); i++) {
        const json_t *function = json_object_get(json_array_get(t->list, i), "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0)
            return function;
    }
    return NULL;
}

json_t *srv_calls_take_json(cli_view *v)
{
    json_error_t e;
    json_t *j = cli_load_json(v->s, v->n, JSON_DISABLE_EOF_CHECK, &e);
    if (j) cli_view_skip(v, (size_t)e.position);
    return j;
}

/* -- calls that have begun ---------------------------------------------------------------------- */

/* scan_string -- past a JSON string; false: it is not complete. */
static bool scan_string(cli_view *v)
{
    cli_view_skip(v, 1);
    while (v->n && *v->s != '"') cli_view_skip(v, *v->s == '\\' && v->n > 1 ? 2 : 1);
    if (v->n == 0) return false;
    cli_view_skip(v, 1);
    return true;
}

bool srv_calls_scan(cli_view *v)
{
    int depth = 0;
    while (v->n) {
        if (*v->s == '"') {
            if (!scan_string(v)) return false;
        } else if (*v->s == '{' || *v->s == '[') {
            depth++;
            cli_view_skip(v, 1);
        } else if (*v->s == '}' || *v->s == ']') {
            if (depth-- == 0) return true;
            cli_view_skip(v, 1);
        } else if (depth == 0 && (*v->s == ',' || isspace((unsigned char)*v->s))) {
            return true;
        } else {
            cli_view_skip(v, 1);
            continue;
        }
        if (depth == 0) return true;
    }
    return false;
}

static bool is_text(const cli_view *v, const char *text)
{
    return v->n == strlen(text) && memcmp(v->s, text, v->n) == 0;
}

/* scan_call -- name (with its quotes) and arguments of the object at v, as they are written; *open: the text
 * ends within the object. false: one of them is not there yet, or it is no such object. */
static bool scan_call(cli_view v, cli_view *name, cli_view *arguments, bool *open)
{
    *name = *arguments = (cli_view){0};
    *open = false;
    if (!cli_view_take(&v, "{")) return false;
    for (;;) {
        cli_view_skip_space(&v);
        cli_view key = v;
        if (v.n == 0 || *v.s != '"' || !scan_string(&v)) break;
        key.n -= v.n;
        cli_view_skip_space(&v);
        if (!cli_view_take(&v, ":")) break;
        cli_view_skip_space(&v);
        cli_view value = v;
        bool complete = v.n && srv_calls_scan(&v);
        value.n -= v.n;
        bool is_arguments = is_text(&key, "\"arguments\"") || is_text(&key, "\"parameters\"");
        if (is_arguments) *arguments = value;
        if (complete && (is_text(&key, "\"name\"") || is_text(&key, "\"tool_name\"")))
            *name = value;
        if (!complete) break;
        cli_view_skip_space(&v);
        if (!cli_view_take(&v, ",")) break;
    }
    *open = v.n == 0;
    return name->n > 2 && arguments->n && *arguments->s == '{';
}

json_t *srv_calls_begun(const char *name, const cli_view *arguments)
{
    return json_pack("{s:s, s:s%}", "name", name, "arguments", arguments->s, arguments->n);
}

/* open_object -- a call whose arguments have begun, and which is not complete; NULL: none. */
static json_t *open_object(const srv_tools *t, cli_view v)
{
    cli_view name, arguments;
    bool open = false;
    if (!scan_call(v, &name, &arguments, &open) || !open) return NULL;
    json_t *text = cli_load_json(name.s, name.n, JSON_DECODE_ANY, NULL), *call = NULL;
    if (srv_calls_tool(t, json_string_value(text)))
        call = srv_calls_begun(json_string_value(text), &arguments);
    json_decref(text);
    return call;
}

/* -- one call --------------------------------------------------------------------------------- */

bool srv_calls_add(json_t *calls, const char *name, const json_t *arguments)
{
    char *text = json_is_string(arguments) ? strdup(json_string_value(arguments))
                 : arguments               ? json_dumps(arguments, JSON_ENCODE_ANY)
                                           : strdup("{}");
    bool good = text && json_array_append_new(
                            calls, json_pack("{s:s, s:s}", "name", name, "arguments", text)) == 0;
    free(text);
    return good;
}

/* add_object -- {"name", "arguments" or "parameters"} of a known tool. */
static bool add_object(const srv_tools *t, json_t *calls, const json_t *o)
{
    const char *name = json_string_value(json_object_get(o, "name"));
    const json_t *arguments = json_object_get(o, "arguments");
    if (!name) name = json_string_value(json_object_get(o, "tool_name"));
    if (!arguments) arguments = json_object_get(o, "parameters");
    return srv_calls_tool(t, name) && srv_calls_add(calls, name, arguments);
}

static bool take_object(const srv_tools *t, cli_view *v, json_t *calls)
{
    cli_view at = *v, name, arguments;
    bool open;
    json_t *o = srv_calls_take_json(&at);
    bool good = json_is_object(o) && add_object(t, calls, o);
    /* a stream has sent the arguments as they are written */
    if (good && scan_call(*v, &name, &arguments, &open))
        json_object_set_new(json_array_get(calls, json_array_size(calls) - 1), "arguments",
                            json_stringn(arguments.s, arguments.n));
    json_decref(o);
    if (good) *v = at;
    return good;
}

/* -- the forms -------------------------------------------------------------------------------- */

/* take_items -- objects with commas between, as many as there are; false: none. */
static bool take_items(const srv_tools *t, cli_view *v, json_t *calls)
{
    bool any = false;
    for (;;) {
        cli_view at = *v;
        cli_view_skip_space(&at);
        if (any && !cli_view_take(&at, ",")) return true;
        cli_view_skip_space(&at);
        if (at.n == 0 || *at.s != '{' || !take_object(t, &at, calls)) return any;
        *v = at;
        any = true;
    }
}

/* take_ends -- the marks that end a call or a list. */
static void take_ends(cli_view *v)
{
    static const char *const ends[] = {"</tool_call>", "<|/tool_call|>", "<|END_ACTION|>", "</seed:tool_call>",
                                       "</TOOLCALL>",  "</tool_calls>"};
    cli_view_skip_space(v);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (cli_view_take(v, ends[i])) cli_view_skip_space(v);
}

/* take_list -- [object, ...], with or without a mark. A stream has sent each call when it was complete,
 * so it remains one if something else follows it. */
static bool take_list(const srv_tools *t, cli_view *v, json_t *calls)
{
    static const char *const heads[] = {"[TOOL_CALLS]", "<|START_ACTION|>", "functools", "<TOOLCALL>",
                                        "<tool_calls>"};
    cli_view at = *v;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) cli_view_take(&at, heads[i]);
    cli_view_skip_space(&at);
    if (!cli_view_take(&at, "[") || !take_items(t, &at, calls)) return false;
    *v = at;
    cli_view_skip_space(&at);
    if (!cli_view_take(&at, "]")) return true;
    take_ends(&at);
    *v = at;
    return true;
}

/* take_tagged -- <tool_call>, an object, a list of them or a form of calls_named.c, </tool_call>; the closing mark is
 * missing where it is an end token. */
static bool take_tagged(const srv_tools *t, cli_view *v, json_t *calls)
{
    cli_view at = *v;
    if (!cli_view_take(&at, "<tool_call>") && !cli_view_take(&at, "<|tool_call|>") &&
        !cli_view_take(&at, "<seed:tool_call>"))
        return false;
    cli_view_skip_space(&at);
    if (!take_object(t, &at, calls) && !take_list(t, &at, calls) &&
        !srv_calls_take_function(t, &at, calls) && !srv_calls_take_pairs(t, &at, calls) &&
        !srv_calls_take_named(t, &at, calls))
        return false;
    take_ends(&at);
    *v = at;
    return true;
}

/* take_bare -- an object, perhaps after <|python_tag|>; another one after ";" or a line end. */
static bool take_bare(const srv_tools *t, cli_view *v, json_t *calls)
{
    cli_view at = *v;
    cli_view_take(&at, "<|python_tag|>");
    cli_view_skip_space(&at);
    cli_view_take(&at, ";");
    cli_view_skip_space(&at);
    if (at.n == 0 || *at.s != '{' || !take_object(t, &at, calls)) return false;
    cli_view_skip_space(&at);
    *v = at;
    return true;
}

static bool take_any(const srv_tools *t, cli_view *v, json_t *calls)
{
    return take_tagged(t, v, calls) || srv_calls_take_function(t, v, calls) ||
           take_list(t, v, calls) || srv_calls_take_python(t, v, calls) || take_bare(t, v, calls) ||
           srv_calls_take_named(t, v, calls);
}

/* open_any -- what has begun at v: a call, or the next one of a list. */
static json_t *open_any(const srv_tools *t, cli_view v)
{
    static const char *const before[] = {"<tool_call>",
                                         "<|tool_call|>",
                                         "<seed:tool_call>",
                                         "<TOOLCALL>",
                                         "<tool_calls>",
                                         "<|python_tag|>",
                                         "<|START_ACTION|>",
                                         "functools",
                                         ";",
                                         "[TOOL_CALLS]",
                                         "[",
                                         ","};
    cli_view_skip_space(&v);
    json_t *open = srv_calls_open_named(t, v);
    if (open) return open;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (cli_view_take(&v, before[i])) cli_view_skip_space(&v);
    open = srv_calls_open_function(t, v);
    return open ? open : open_object(t, v);
}

/* -- an answer -------------------------------------------------------------------------------- */

/* first_mark -- the offset of a mark, or of what may become one at the end; n: none. */
static size_t first_mark(const char *text, size_t n, bool done)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] != '<' && text[i] != '[' && text[i] != 'f' && text[i] != 'c') continue;
        cli_view v = {text + i, n - i};
        for (size_t m = 0; m < N_MARKS; m++)
            if (cli_view_may_begin(&v, marks[m]) && (!done || v.n >= strlen(marks[m]))) return i;
    }
    return n;
}

/* may_be_bare -- whether the answer may begin with a call without a mark. */
static bool may_be_bare(const srv_tools *t, const char *text, size_t n)
{
    cli_view v = {text, n};
    cli_view_skip_space(&v);
    return v.n == 0 || *v.s == '{' || *v.s == '[' || srv_calls_may_be_named(t, v);
}

static size_t without_space(const char *text, size_t n)
{
    while (n && isspace((unsigned char)text[n - 1])) n--;
    return n;
}

srv_end srv_end_of(const sp_result *r)
{
    return r->finish == SP_FINISH_LENGTH ? SRV_CUT : SRV_WHOLE;
}

/* find_calls -- searches from `at`; returns where the first call begins, or n. */
static size_t find_calls(const srv_tools *t, cli_view text, size_t at, srv_end end, srv_calls *out)
{
    const bool whole = end == SRV_WHOLE || (end == SRV_CUT && !t->must);
    for (; at < text.n; at += 1 + first_mark(text.s + at + 1, text.n - at - 1, whole)) {
        cli_view v = {text.s + at, text.n - at};
        cli_view_skip_space(&v);
        while (take_any(t, &v, out->v)) {
        }
        if (end != SRV_WHOLE) out->open = open_any(t, v);
        if (json_array_size(out->v) || out->open || !whole) return at;
    }
    return text.n;
}

void srv_calls_read(const srv_tools *t, const char *text, size_t n, srv_end end, srv_calls *out)
{
    *out = (srv_calls){.n_text = n, .v = json_array()};
    if (!t->list || n == 0) return;
    const bool whole = end == SRV_WHOLE || (end == SRV_CUT && !t->must);
    size_t at = may_be_bare(t, text, n) ? 0 : first_mark(text, n, whole);
    at = find_calls(t, (cli_view){text, n}, at, end, out);
    if (at < n || !whole) out->n_text = without_space(text, at);
}
