/* methods.c -- methods of strings and mappings, and the global functions of chat templates. */
#include <string.h>
#include <time.h>

#include "model/template/template_int.h"

#define METHOD static sp_err
#define PARAMS (sp_tpl_machine * m, const sp_tpl_call *c, sp_tpl_val *out)
#define OF_STR .self = 1u << SP_TPL_STRING
#define OF_MAP .self = 1u << SP_TPL_DICT

static int64_t count_of(const sp_tpl_call *c, int i)
{
    return c->given[i] && c->args[i].kind == SP_TPL_INT ? c->args[i].i : -1;
}

static sp_err strip_sides(sp_tpl_machine *m, const sp_tpl_call *c, int sides, sp_tpl_val *out)
{
    const sp_tpl_str *chars;
    SP_TRY(sp_tpl_text_argument(m, c, 0, &chars));
    return sp_tpl_strip(m, c->self.s, chars, sides, out);
}

METHOD strip PARAMS
{
    return strip_sides(m, c, 3, out);
}

METHOD lstrip PARAMS
{
    return strip_sides(m, c, 1, out);
}

METHOD rstrip PARAMS
{
    return strip_sides(m, c, 2, out);
}

METHOD upper PARAMS
{
    return sp_tpl_case(m, c->self.s, 'u', out);
}

METHOD lower PARAMS
{
    return sp_tpl_case(m, c->self.s, 'l', out);
}

METHOD title PARAMS
{
    return sp_tpl_case(m, c->self.s, 't', out);
}

METHOD capitalize PARAMS
{
    return sp_tpl_case(m, c->self.s, 'c', out);
}

METHOD split PARAMS
{
    const sp_tpl_str *sep;
    SP_TRY(sp_tpl_text_argument(m, c, 0, &sep));
    return sp_tpl_split(m, c->self.s, sep, count_of(c, 1), out);
}

METHOD splitlines PARAMS
{
    const sp_tpl_str newline = {.s = "\n", .n = 1};
    SP_TRY(sp_tpl_split(m, c->self.s, &newline, -1, out));
    size_t n = out->list->n;
    if (n && out->list->v[n - 1].s->n == 0) {
        sp_tpl_list *shorter;
        SP_TRY(sp_tpl_list_new(m, n - 1, &shorter));
        memcpy(shorter->v, out->list->v, (n - 1) * sizeof *shorter->v);
        *out = sp_tpl_of_list(shorter);
    }
    return SP_OK;
}

METHOD replace PARAMS
{
    const sp_tpl_str *old, *with;
    SP_TRY(sp_tpl_text_argument(m, c, 0, &old));
    SP_TRY(sp_tpl_text_argument(m, c, 1, &with));
    if (!old || !with) return sp_tpl_fail(m, SP_E_ARG, "replace takes two strings");
    return sp_tpl_replace(m, c->self.s, old, with, count_of(c, 2), out);
}

static bool has_end(const sp_tpl_str *s, const sp_tpl_str *part, bool at_end)
{
    return part->n <= s->n && memcmp(at_end ? s->s + s->n - part->n : s->s, part->s, part->n) == 0;
}

/* has_one -- whether the string begins or ends with the argument, or one of the strings in it. */
static sp_err has_one(sp_tpl_machine *m, const sp_tpl_call *c, bool at_end, sp_tpl_val *out)
{
    const sp_tpl_str *part;
    *out = sp_tpl_bool(false);
    if (c->args[0].kind == SP_TPL_LIST) {
        const sp_tpl_list *l = c->args[0].list;
        for (size_t i = 0; i < l->n && !out->b; i++)
            out->b = l->v[i].kind == SP_TPL_STRING && has_end(c->self.s, l->v[i].s, at_end);
        return SP_OK;
    }
    SP_TRY(sp_tpl_text_argument(m, c, 0, &part));
    if (!part) return sp_tpl_fail(m, SP_E_ARG, "a string is expected");
    out->b = has_end(c->self.s, part, at_end);
    return SP_OK;
}

METHOD startswith PARAMS
{
    return has_one(m, c, false, out);
}

METHOD endswith PARAMS
{
    return has_one(m, c, true, out);
}

METHOD removeprefix PARAMS
{
    sp_tpl_val has;
    SP_TRY(has_one(m, c, false, &has));
    return sp_tpl_slice(m, c->self.s,
                        has.b && c->args[0].kind == SP_TPL_STRING ? c->args[0].s->n : 0,
                        c->self.s->n, out);
}

METHOD removesuffix PARAMS
{
    sp_tpl_val has;
    SP_TRY(has_one(m, c, true, &has));
    size_t cut = has.b && c->args[0].kind == SP_TPL_STRING ? c->args[0].s->n : 0;
    return sp_tpl_slice(m, c->self.s, 0, c->self.s->n - cut, out);
}

METHOD find PARAMS
{
    const sp_tpl_str *part;
    SP_TRY(sp_tpl_text_argument(m, c, 0, &part));
    if (!part) return sp_tpl_fail(m, SP_E_ARG, "find takes a string");
    const char *hit = sp_tpl_search(c->self.s->s, c->self.s->n, part->s, part->n);
    sp_tpl_str before = {.s = c->self.s->s, .n = hit ? (size_t)(hit - c->self.s->s) : 0};
    *out = sp_tpl_int(hit ? (int64_t)sp_tpl_length(&before) : -1);
    return SP_OK;
}

METHOD count PARAMS
{
    const sp_tpl_str *part, *s = c->self.s;
    int64_t n = 0;
    SP_TRY(sp_tpl_text_argument(m, c, 0, &part));
    if (!part || !part->n)
        return sp_tpl_fail(m, SP_E_ARG, "count takes a string that is not empty");
    for (const char *at = s->s;
         (at = sp_tpl_search(at, s->n - (size_t)(at - s->s), part->s, part->n)); at += part->n)
        n++;
    *out = sp_tpl_int(n);
    return SP_OK;
}

METHOD join PARAMS
{
    sp_tpl_writer w = {0};
    const sp_tpl_list *l;
    SP_TRY(sp_tpl_items(m, c->args[0], &l));
    for (size_t i = 0; i < l->n; i++) {
        SP_TRY(sp_tpl_step(m));
        if (l->v[i].kind != SP_TPL_STRING)
            return sp_tpl_fail(m, SP_E_ARG, "join: an item is %s", sp_tpl_kind_name(l->v[i]));
        if (i) SP_TRY(sp_tpl_write(m, &w, c->self.s));
        SP_TRY(sp_tpl_write(m, &w, l->v[i].s));
    }
    return sp_tpl_written(m, &w, out);
}

METHOD is_digit PARAMS
{
    const sp_tpl_str *s = c->self.s;
    bool all = s->n > 0;
    for (size_t i = 0; i < s->n && all; i++) all = s->s[i] >= '0' && s->s[i] <= '9';
    *out = sp_tpl_bool(all);
    return SP_OK;
}

/* -- mappings ---------------------------------------------------------------------------------- */

METHOD items PARAMS
{
    return sp_tpl_find_filter("items", 5)->run(m, c, out);
}

METHOD keys PARAMS
{
    const sp_tpl_list *l;
    SP_TRY(sp_tpl_items(m, c->self, &l));
    *out = sp_tpl_of_list(l);
    return SP_OK;
}

METHOD values PARAMS
{
    sp_tpl_list *l;
    const sp_tpl_dict *d = c->self.dict;
    SP_TRY(sp_tpl_list_new(m, d->n, &l));
    for (size_t i = 0; i < d->n; i++) l->v[i] = d->v[i].value;
    *out = sp_tpl_of_list(l);
    return SP_OK;
}

METHOD get PARAMS
{
    const sp_tpl_val *found = sp_tpl_dict_get(c->self.dict, c->args[0]);
    *out = found ? *found : c->given[1] ? c->args[1] : (sp_tpl_val){.kind = SP_TPL_NONE};
    return SP_OK;
}

static const sp_tpl_function methods[] = {
    {"strip", strip, {"chars"}, OF_STR},
    {"lstrip", lstrip, {"chars"}, OF_STR},
    {"rstrip", rstrip, {"chars"}, OF_STR},
    {"upper", upper, OF_STR},
    {"lower", lower, OF_STR},
    {"title", title, OF_STR},
    {"capitalize", capitalize, OF_STR},
    {"split", split, {"sep", "maxsplit"}, OF_STR},
    {"splitlines", splitlines, OF_STR},
    {"replace", replace, {"old", "new", "count"}, 2, OF_STR},
    {"startswith", startswith, {"prefix"}, 1, OF_STR},
    {"endswith", endswith, {"suffix"}, 1, OF_STR},
    {"removeprefix", removeprefix, {"prefix"}, 1, OF_STR},
    {"removesuffix", removesuffix, {"suffix"}, 1, OF_STR},
    {"find", find, {"sub"}, 1, OF_STR},
    {"count", count, {"sub"}, 1, OF_STR},
    {"join", join, {"iterable"}, 1, OF_STR},
    {"isdigit", is_digit, OF_STR},
    {"items", items, OF_MAP},
    {"keys", keys, OF_MAP},
    {"values", values, OF_MAP},
    {"get", get, {"key", "default"}, 1, OF_MAP},
    {NULL},
};

const sp_tpl_function *sp_tpl_find_method(const char *name, size_t n, sp_tpl_kind kind)
{
    const sp_tpl_function *f = sp_tpl_find_in(methods, name, n);
    return f && f->self >> kind & 1 ? f : NULL;
}

/* -- global functions ------------------------------------------------------------------------------ */

static sp_err raise_exception PARAMS
{
    sp_tpl_val v;
    SP_TRY(sp_tpl_to_string(m, c->args[0], &v));
    return sp_fail(SP_E_ARG, "chat template: %.*s", (int)SP_MIN(v.s->n, 200), v.s->s);
}

static sp_err strftime_now PARAMS
{
    char format[64], made[256], *copy;
    time_t now = (time_t)m->now;
    struct tm tm;
    if (c->args[0].kind != SP_TPL_STRING || c->args[0].s->n >= sizeof format)
        return sp_tpl_fail(m, SP_E_ARG, "strftime_now takes a short string");
    memcpy(format, c->args[0].s->s, c->args[0].s->n);
    format[c->args[0].s->n] = 0;
    if (!gmtime_r(&now, &tm))
        return sp_tpl_fail(m, SP_E_ARG, "strftime_now: the time is out of range");
    size_t n = strftime(made, sizeof made, format, &tm);
    SP_TRY(sp_tpl_take(m, n + 1, 1, &copy));
    memcpy(copy, made, n);
    return sp_tpl_str_new(m, (sp_tpl_str){.s = copy, .n = n}, out);
}

static sp_err range PARAMS
{
    int64_t from = 0, to, step = c->given[2] ? c->args[2].i : 1, n = 0;
    sp_tpl_list *l;
    for (int i = 0; i < 3; i++)
        if (c->given[i] && c->args[i].kind != SP_TPL_INT)
            return sp_tpl_fail(m, SP_E_ARG, "range takes integers");
    to = c->args[c->given[1]].i;
    if (c->given[1]) from = c->args[0].i;
    const int64_t most = 100000; /* as in Jinja2's sandbox */
    if (!step) return sp_tpl_fail(m, SP_E_ARG, "range: the step is 0");
    if (from > most || from < -most || to > most || to < -most || step > most || step < -most)
        return sp_tpl_fail(m, SP_E_LIMIT, "range: a number over %lld", (long long)most);
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) n++;
    SP_TRY(sp_tpl_list_new(m, (size_t)n, &l));
    m->steps_left -= n;
    for (int64_t i = 0; i < n; i++) l->v[i] = sp_tpl_int(from + i * step);
    *out = sp_tpl_of_list(l);
    return SP_OK;
}

static const sp_tpl_function globals[] = {
    {"raise_exception", raise_exception, {"message"}, 1},
    {"strftime_now", strftime_now, {"format"}, 1},
    {"range", range, {"start", "stop", "step"}, 1},
    {NULL},
};

bool sp_tpl_is_global(const char *name, size_t n)
{
    return sp_tpl_find_in(globals, name, n) || (n == 9 && memcmp(name, "namespace", 9) == 0) ||
           (n == 4 && memcmp(name, "dict", 4) == 0);
}

/* mapping_of -- namespace(a=1) or dict(a=1). */
static sp_err mapping_of(sp_tpl_machine *m, const sp_tpl_node *call, bool is_namespace,
                         sp_tpl_val *out)
{
    sp_tpl_dict *d;
    SP_TRY(sp_tpl_dict_new(m, &d));
    d->is_namespace = is_namespace;
    for (const sp_tpl_node *a = call->list; a; a = a->next) {
        sp_tpl_str *key;
        sp_tpl_val v;
        if (!a->text.n)
            return sp_tpl_fail(m, SP_E_UNSUPPORTED,
                               "an argument without a name is not supported here");
        SP_TRY(sp_tpl_take(m, 1, sizeof *key, &key));
        *key = a->text;
        SP_TRY(sp_tpl_eval(m, a->a, &v));
        SP_TRY(sp_tpl_dict_put(m, d, sp_tpl_of_str(key), v));
    }
    *out = (sp_tpl_val){.kind = SP_TPL_DICT, .dict = d};
    return SP_OK;
}

sp_err sp_tpl_call_global(sp_tpl_machine *m, const sp_tpl_node *call, sp_tpl_val *out)
{
    const sp_tpl_str *name = &call->a->text;
    sp_tpl_call c = {0};
    bool space = name->n == 9 && memcmp(name->s, "namespace", 9) == 0;
    if (space || (name->n == 4 && memcmp(name->s, "dict", 4) == 0))
        return mapping_of(m, call, space, out);
    const sp_tpl_function *f = sp_tpl_find_in(globals, name->s, name->n);
    if (!f)
        return sp_tpl_fail(m, SP_E_UNSUPPORTED, "function '%.*s' is not supported",
                           (int)SP_MIN(name->n, 60), name->s);
    SP_TRY(sp_tpl_bind(m, f, call->list, &c));
    return f->run(m, &c, out);
}
