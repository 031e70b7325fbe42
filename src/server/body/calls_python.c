/* calls_python.c -- calls as Python writes them: [f(a="x", b=[1, True]), g()]. Arguments become JSON; values are
 * literals, and names of functions are those of tools. */
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "server/body/calls_int.h"

enum { DEPTH = 32, NAME_BYTES = 257 };

static json_t *take_literal(cli_view *v, int depth);

/* -- literals --------------------------------------------------------------------------------- */

static bool put(char **to, char c)
{
    *(*to)++ = c;
    return true;
}

/* put_escape -- what follows a backslash. \x and \u are copied as they are: models write them in JSON only. */
static bool put_escape(cli_view *v, char **to)
{
    static const char from[] = "ntr\\'\"", is[] = "\n\t\r\\'\"";
    if (v->n == 0) return false;
    const char *at = strchr(from, *v->s);
    if (!*v->s || !at) put(to, '\\');
    put(to, *v->s && at ? is[at - from] : *v->s);
    cli_view_skip(v, 1);
    return true;
}

/* take_text -- between quotes of either kind; NULL: it is not complete. */
static json_t *take_text(cli_view *v)
{
    const char quote = *v->s;
    char *text = malloc(2 * v->n + 1), *to = text;
    bool good = text != NULL;
    cli_view_skip(v, 1);
    while (good && v->n && *v->s != quote) {
        const char c = *v->s;
        cli_view_skip(v, 1);
        good = c == '\\' ? put_escape(v, &to) : put(&to, c);
    }
    good = good && v->n;
    json_t *out = good ? json_stringn(text, (size_t)(to - text)) : NULL;
    if (good) cli_view_skip(v, 1);
    free(text);
    return out;
}

static json_t *take_list(cli_view *v, char end, int depth)
{
    json_t *list = json_array();
    cli_view_skip(v, 1);
    cli_view_skip_space(v);
    while (list && v->n && *v->s != end) {
        json_t *item = take_literal(v, depth);
        if (!item) break;
        json_array_append_new(list, item);
        cli_view_skip_space(v);
        if (!cli_view_take(v, ",")) break;
        cli_view_skip_space(v);
    }
    if (list && v->n && *v->s == end) {
        cli_view_skip(v, 1);
        return list;
    }
    json_decref(list);
    return NULL;
}

/* take_entry -- "key": value */
static bool take_entry(cli_view *v, json_t *dict, int depth)
{
    json_t *key = v->n && (*v->s == '"' || *v->s == '\'') ? take_text(v) : NULL, *value = NULL;
    cli_view_skip_space(v);
    if (key && cli_view_take(v, ":")) {
        cli_view_skip_space(v);
        value = take_literal(v, depth);
    }
    const bool good = value && json_object_set_new(dict, json_string_value(key), value) == 0;
    json_decref(key);
    cli_view_skip_space(v);
    return good;
}

static json_t *take_dict(cli_view *v, int depth)
{
    json_t *dict = json_object();
    bool more = dict != NULL;
    cli_view_skip(v, 1);
    cli_view_skip_space(v);
    while (more && v->n && *v->s != '}') {
        if (!take_entry(v, dict, depth)) break;
        more = cli_view_take(v, ",");
        cli_view_skip_space(v);
    }
    if (dict && v->n && *v->s == '}') {
        cli_view_skip(v, 1);
        return dict;
    }
    json_decref(dict);
    return NULL;
}

/* take_word -- True, False, None, or a number; NULL: none of them, or it may be incomplete. */
static json_t *take_word(cli_view *v)
{
    static const struct {
        const char *python, *json;
    } words[] = {{"True", "true"}, {"False", "false"}, {"None", "null"}, {"true", "true"}, {"false", "false"},
                 {"null", "null"}};
    size_t n = 0;
    while (n < v->n && !strchr(",)]}: \n\t\r", v->s[n])) n++;
    json_t *out = n < v->n ? cli_load_json(v->s, n, JSON_DECODE_ANY, NULL) : NULL;
    for (size_t i = 0; !out && n < v->n && i < sizeof words / sizeof *words; i++)
        if (n == strlen(words[i].python) && memcmp(v->s, words[i].python, n) == 0)
            out = cli_load_json(words[i].json, strlen(words[i].json), JSON_DECODE_ANY, NULL);
    if (out) cli_view_skip(v, n);
    return out;
}

static json_t *take_literal(cli_view *v, int depth)
{
    if (v->n == 0 || depth == 0) return NULL;
    if (*v->s == '"' || *v->s == '\'') return take_text(v);
    if (*v->s == '[') return take_list(v, ']', depth - 1);
    if (*v->s == '(') return take_list(v, ')', depth - 1);
    if (*v->s == '{') return take_dict(v, depth - 1);
    return take_word(v);
}

/* -- calls ------------------------------------------------------------------------------------ */

/* take_name -- a name and `end` after it; false: there is none. */
static bool take_name(cli_view *v, char end, char name[NAME_BYTES])
{
    size_t n = 0;
    while (n < v->n && v->s[n] != end && !strchr(" \n'\"()[]{},", v->s[n])) n++;
    if (n == 0 || n >= NAME_BYTES || n == v->n) return false;
    memcpy(name, v->s, n);
    name[n] = '\0';
    cli_view_skip(v, n);
    cli_view_skip_space(v);
    return cli_view_take(v, (char[]){end, '\0'});
}

/* take_call -- f(key=value, ...) */
static bool take_call(const srv_tools *t, cli_view *v, json_t *calls)
{
    char name[NAME_BYTES], key[NAME_BYTES];
    cli_view at = *v;
    if (!take_name(&at, '(', name) || !srv_calls_tool(t, name)) return false;
    json_t *arguments = json_object();
    bool more = true, good = arguments != NULL;
    cli_view_skip_space(&at);
    while (good && more && at.n && *at.s != ')') {
        json_t *value = NULL;
        if (take_name(&at, '=', key)) {
            cli_view_skip_space(&at);
            value = take_literal(&at, DEPTH);
        }
        good = value && json_object_set_new(arguments, key, value) == 0;
        cli_view_skip_space(&at);
        more = cli_view_take(&at, ",");
        cli_view_skip_space(&at);
    }
    good = good && cli_view_take(&at, ")") && srv_calls_add(calls, name, arguments);
    json_decref(arguments);
    if (good) *v = at;
    return good;
}

/* Marks around a list; OLMo's has a call in each line and no brackets. */
static const char *const heads[] = {"<|python_start|>", "<|tool_call_start|>", "<function_calls>"};
static const char *const ends[] = {"<|python_end|>", "<|tool_call_end|>", "</function_calls>"};

bool srv_calls_take_python(const srv_tools *t, cli_view *v, json_t *calls)
{
    cli_view at = *v;
    bool any = false, lines = false;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (cli_view_take(&at, heads[i])) lines = i == 2;
    cli_view_skip_space(&at);
    if (!cli_view_take(&at, "[") && !lines) return false;
    for (cli_view next = at;; any = true, at = next) {
        cli_view_skip_space(&next);
        if (any && !cli_view_take(&next, ",") && !lines) break;
        cli_view_skip_space(&next);
        if (!take_call(t, &next, calls)) break;
    }
    if (!any) return false;
    *v = at;
    cli_view_skip_space(&at);
    if (!cli_view_take(&at, "]") && !lines) return true;
    cli_view_skip_space(&at);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) cli_view_take(&at, ends[i]);
    cli_view_skip_space(&at);
    *v = at;
    return true;
}
