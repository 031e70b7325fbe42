/* calls.c -- finds tool calls in an answer (tools.h has the forms). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/tools.h"

static const char *const marks[] = {"<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<function="};
enum { HERMES, MISTRAL, PYTHON, FUNCTION, N_MARKS };

typedef struct view {
    const char *s;
    size_t n;
} view;

static void skip(view *v, size_t n)
{
    v->s += n;
    v->n -= n;
}

static void skip_space(view *v)
{
    while (v->n && isspace((unsigned char)*v->s)) skip(v, 1);
}

static bool take(view *v, const char *text)
{
    size_t n = strlen(text);
    if (v->n < n || memcmp(v->s, text, n) != 0) return false;
    skip(v, n);
    return true;
}

/* may_begin -- whether v is `text`, or may become it. */
static bool may_begin(const view *v, const char *text)
{
    size_t n = strlen(text);
    return memcmp(v->s, text, v->n < n ? v->n : n) == 0;
}

static bool has_tool(const srv_tools *t, const char *name)
{
    for (size_t i = 0; name && i < json_array_size(t->list); i++) {
        const json_t *function = json_object_get(json_array_get(t->list, i), "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0) return true;
    }
    return false;
}

static json_t *take_json(view *v)
{
    json_error_t e;
    json_t *j = json_loadb(v->s, v->n, JSON_DISABLE_EOF_CHECK, &e);
    if (j) skip(v, (size_t)e.position);
    return j;
}

/* -- calls that have begun ---------------------------------------------------------------------- */

/* scan_string -- past a JSON string; false: it is not complete. */
static bool scan_string(view *v)
{
    skip(v, 1);
    while (v->n && *v->s != '"') skip(v, *v->s == '\\' && v->n > 1 ? 2 : 1);
    if (v->n == 0) return false;
    skip(v, 1);
    return true;
}

/* scan_value -- past a JSON value, which is not checked; false: it is not complete. */
static bool scan_value(view *v)
{
    int depth = 0;
    while (v->n) {
        if (*v->s == '"') {
            if (!scan_string(v)) return false;
        } else if (*v->s == '{' || *v->s == '[') {
            depth++;
            skip(v, 1);
        } else if (*v->s == '}' || *v->s == ']') {
            if (depth-- == 0) return true;
            skip(v, 1);
        } else if (depth == 0 && (*v->s == ',' || isspace((unsigned char)*v->s))) {
            return true;
        } else {
            skip(v, 1);
            continue;
        }
        if (depth == 0) return true;
    }
    return false;
}

static bool is_text(const view *v, const char *text)
{
    return v->n == strlen(text) && memcmp(v->s, text, v->n) == 0;
}

/* scan_call -- name (with its quotes) and arguments of the object at v, as they are written; *open: the
 * arguments are not complete. false: one of them is not there yet, or it is no such object. */
static bool scan_call(view v, view *name, view *arguments, bool *open)
{
    *name = *arguments = (view){0};
    if (!take(&v, "{")) return false;
    for (;;) {
        skip_space(&v);
        view key = v;
        if (v.n == 0 || *v.s != '"' || !scan_string(&v)) break;
        key.n -= v.n;
        skip_space(&v);
        if (!take(&v, ":")) break;
        skip_space(&v);
        view value = v;
        bool complete = v.n && scan_value(&v);
        value.n -= v.n;
        bool is_arguments = is_text(&key, "\"arguments\"") || is_text(&key, "\"parameters\"");
        if (is_arguments) *arguments = value, *open = !complete;
        if (complete && is_text(&key, "\"name\"")) *name = value;
        if (!complete) break;
        skip_space(&v);
        if (!take(&v, ",")) break;
    }
    return name->n > 2 && arguments->n && *arguments->s == '{';
}

static json_t *begun(const char *name, const view *arguments)
{
    return json_pack("{s:s, s:s%}", "name", name, "arguments", arguments->s, arguments->n);
}

/* open_object -- a call whose arguments have begun; NULL: there is none. */
static json_t *open_object(const srv_tools *t, view v)
{
    view name, arguments;
    bool open = false;
    if (!scan_call(v, &name, &arguments, &open) || !open) return NULL;
    json_t *text = json_loadb(name.s, name.n, JSON_DECODE_ANY, NULL), *call = NULL;
    if (has_tool(t, json_string_value(text))) call = begun(json_string_value(text), &arguments);
    json_decref(text);
    return call;
}

/* open_function -- <function=name>{... */
static json_t *open_function(const srv_tools *t, view v)
{
    char name[257];
    size_t n = 0;
    for (; v.n && *v.s != '>' && n + 1 < sizeof name; skip(&v, 1)) name[n++] = *v.s;
    name[n] = '\0';
    if (!take(&v, ">") || !has_tool(t, name)) return NULL;
    skip_space(&v);
    view rest = v;
    return v.n && *v.s == '{' && !scan_value(&rest) ? begun(name, &v) : NULL;
}

/* -- one call --------------------------------------------------------------------------------- */

static bool add_call(json_t *calls, const char *name, const json_t *arguments)
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
    if (!arguments) arguments = json_object_get(o, "parameters");
    return has_tool(t, name) && add_call(calls, name, arguments);
}

static bool take_object(const srv_tools *t, view *v, json_t *calls)
{
    view at = *v, name, arguments;
    bool open;
    json_t *o = take_json(&at);
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

/* take_tagged -- <tool_call> object </tool_call>; the closing mark is missing where it is an end token. */
static bool take_tagged(const srv_tools *t, view *v, json_t *calls)
{
    view at = *v;
    if (!take(&at, marks[HERMES])) return false;
    skip_space(&at);
    if (!take_object(t, &at, calls)) return false;
    skip_space(&at);
    take(&at, "</tool_call>");
    skip_space(&at);
    *v = at;
    return true;
}

/* take_function -- <function=name>{...}</function> */
static bool take_function(const srv_tools *t, view *v, json_t *calls)
{
    view at = *v;
    char name[257];
    size_t n = 0;
    if (!take(&at, marks[FUNCTION])) return false;
    for (; at.n && *at.s != '>' && n + 1 < sizeof name; skip(&at, 1)) name[n++] = *at.s;
    name[n] = '\0';
    if (!take(&at, ">")) return false;
    skip_space(&at);
    view raw = at;
    json_t *arguments = take_json(&at);
    raw.n -= at.n;
    json_t *text = json_stringn(raw.s, raw.n);
    bool good = json_is_object(arguments) && has_tool(t, name) && add_call(calls, name, text);
    json_decref(text);
    json_decref(arguments);
    take(&at, "</function>");
    skip_space(&at);
    if (good) *v = at;
    return good;
}

/* take_items -- objects with commas between, as many as there are; false: none. */
static bool take_items(const srv_tools *t, view *v, json_t *calls)
{
    bool any = false;
    for (;;) {
        view at = *v;
        skip_space(&at);
        if (any && !take(&at, ",")) return true;
        skip_space(&at);
        if (at.n == 0 || *at.s != '{' || !take_object(t, &at, calls)) return any;
        *v = at;
        any = true;
    }
}

/* take_list -- [object, ...], with or without its mark. A stream has sent each call when it was complete,
 * so it remains one if something else follows it. */
static bool take_list(const srv_tools *t, view *v, json_t *calls)
{
    view at = *v;
    take(&at, marks[MISTRAL]);
    skip_space(&at);
    if (!take(&at, "[") || !take_items(t, &at, calls)) return false;
    *v = at;
    skip_space(&at);
    if (take(&at, "]")) *v = at;
    return true;
}

/* take_bare -- an object, perhaps after <|python_tag|>; another one after ";" or a line end. */
static bool take_bare(const srv_tools *t, view *v, json_t *calls)
{
    view at = *v;
    take(&at, marks[PYTHON]);
    skip_space(&at);
    take(&at, ";");
    skip_space(&at);
    if (at.n == 0 || *at.s != '{' || !take_object(t, &at, calls)) return false;
    skip_space(&at);
    *v = at;
    return true;
}

static bool take_any(const srv_tools *t, view *v, json_t *calls)
{
    return take_tagged(t, v, calls) || take_function(t, v, calls) || take_list(t, v, calls) ||
           take_bare(t, v, calls);
}

/* open_any -- what has begun at v: a call, or the next one of a list. */
static json_t *open_any(const srv_tools *t, view v)
{
    skip_space(&v);
    if (take(&v, marks[HERMES])) {
        skip_space(&v);
        return open_object(t, v);
    }
    if (take(&v, marks[FUNCTION])) return open_function(t, v);
    static const char *const before[] = {"<|python_tag|>", ";", "[TOOL_CALLS]", "[", ","};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (take(&v, before[i])) skip_space(&v);
    return open_object(t, v);
}

/* -- an answer -------------------------------------------------------------------------------- */

/* first_mark -- where a mark is, or may begin at the end; n: nowhere. */
static size_t first_mark(const char *text, size_t n, bool done)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] != '<' && text[i] != '[') continue;
        view v = {text + i, n - i};
        for (int m = 0; m < N_MARKS; m++)
            if (may_begin(&v, marks[m]) && (!done || v.n >= strlen(marks[m]))) return i;
    }
    return n;
}

/* may_be_bare -- the answer begins as a call without a mark does. */
static bool may_be_bare(const char *text, size_t n)
{
    view v = {text, n};
    skip_space(&v);
    return v.n == 0 || *v.s == '{' || *v.s == '[';
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

/* find_calls -- from `at`, where a call may begin; where the first one does, or n. */
static size_t find_calls(const srv_tools *t, view text, size_t at, srv_end end, srv_calls *out)
{
    const bool whole = end == SRV_WHOLE || (end == SRV_CUT && !t->must);
    for (; at < text.n; at += 1 + first_mark(text.s + at + 1, text.n - at - 1, whole)) {
        view v = {text.s + at, text.n - at};
        skip_space(&v);
        if (!whole && v.n == 0) return at;
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
    size_t at = may_be_bare(text, n) ? 0 : first_mark(text, n, whole);
    at = find_calls(t, (view){text, n}, at, end, out);
    if (at < n || !whole) out->n_text = without_space(text, at);
}
