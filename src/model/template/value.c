/* value.c -- values of chat templates: from JSON, comparison, look-up, printing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/template/template_int.h"

const char *sp_tpl_kind_name(sp_tpl_val v)
{
    static const char *const names[] = {[SP_TPL_UNDEFINED] = "an undefined value",
                                        [SP_TPL_NONE] = "none",
                                        [SP_TPL_BOOL] = "a boolean",
                                        [SP_TPL_INT] = "an integer",
                                        [SP_TPL_FLOAT] = "a number",
                                        [SP_TPL_STRING] = "a string",
                                        [SP_TPL_LIST] = "a list",
                                        [SP_TPL_DICT] = "a mapping",
                                        [SP_TPL_MACRO] = "a macro",
                                        [SP_TPL_LOOP] = "a loop"};
    return names[v.kind];
}

bool sp_tpl_true(sp_tpl_val v)
{
    switch (v.kind) {
    case SP_TPL_UNDEFINED:
    case SP_TPL_NONE:
        return false;
    case SP_TPL_BOOL:
        return v.b;
    case SP_TPL_INT:
        return v.i != 0;
    case SP_TPL_FLOAT:
        return v.f != 0;
    case SP_TPL_STRING:
        return v.s->n > 0;
    case SP_TPL_LIST:
        return v.list->n > 0;
    case SP_TPL_DICT:
        return v.dict->is_namespace || v.dict->n > 0;
    default:
        return true;
    }
}

static double as_double(sp_tpl_val v)
{
    return v.kind == SP_TPL_FLOAT ? v.f : v.kind == SP_TPL_BOOL ? v.b : (double)v.i;
}

static int64_t as_int(sp_tpl_val v)
{
    return v.kind == SP_TPL_BOOL ? v.b : v.i;
}

static sp_err equal_items(sp_tpl_machine *m, sp_tpl_val a, sp_tpl_val b, bool *out)
{
    *out = a.kind == SP_TPL_LIST ? a.list->n == b.list->n && a.list->tuple == b.list->tuple
                                 : a.dict->n == b.dict->n;
    if (a.kind == SP_TPL_LIST) {
        for (size_t i = 0; *out && i < a.list->n; i++)
            SP_TRY(sp_tpl_equal(m, a.list->v[i], b.list->v[i], out));
        return SP_OK;
    }
    for (size_t i = 0; *out && i < a.dict->n; i++) {
        const sp_tpl_pair *p = &a.dict->v[i];
        const sp_tpl_val *other = sp_tpl_dict_get(b.dict, p->key);
        *out = other != NULL;
        if (other) SP_TRY(sp_tpl_equal(m, p->value, *other, out));
    }
    return SP_OK;
}

sp_err sp_tpl_equal(sp_tpl_machine *m, sp_tpl_val a, sp_tpl_val b, bool *out)
{
    if (sp_tpl_number(a) && sp_tpl_number(b)) {
        bool real = a.kind == SP_TPL_FLOAT || b.kind == SP_TPL_FLOAT;
        *out = real ? as_double(a) == as_double(b) : as_int(a) == as_int(b);
        return SP_OK;
    }
    *out = false;
    if (a.kind != b.kind) return SP_OK;
    switch (a.kind) {
    case SP_TPL_STRING:
        *out = a.s->n == b.s->n && memcmp(a.s->s, b.s->s, a.s->n) == 0;
        return SP_OK;
    case SP_TPL_LIST:
    case SP_TPL_DICT:
        if (a.kind == SP_TPL_DICT && (a.dict->is_namespace || b.dict->is_namespace)) {
            *out = a.dict == b.dict;
            return SP_OK;
        }
        SP_TRY(sp_tpl_deeper(m));
        SP_TRY(equal_items(m, a, b, out));
        m->depth--;
        return SP_OK;
    case SP_TPL_MACRO:
        *out = a.macro == b.macro;
        return SP_OK;
    case SP_TPL_LOOP:
        *out = a.loop == b.loop;
        return SP_OK;
    default:
        *out = true;
        return SP_OK;
    }
}

sp_err sp_tpl_compare(sp_tpl_machine *m, sp_tpl_val a, sp_tpl_val b, int *out)
{
    if (sp_tpl_number(a) && sp_tpl_number(b)) {
        bool real = a.kind == SP_TPL_FLOAT || b.kind == SP_TPL_FLOAT;
        *out = real ? (as_double(a) > as_double(b)) - (as_double(a) < as_double(b))
                    : (as_int(a) > as_int(b)) - (as_int(a) < as_int(b));
        return SP_OK;
    }
    if (a.kind == SP_TPL_STRING && b.kind == SP_TPL_STRING) {
        int c = memcmp(a.s->s, b.s->s, SP_MIN(a.s->n, b.s->n));
        *out = c ? c : (a.s->n > b.s->n) - (a.s->n < b.s->n);
        return SP_OK;
    }
    return sp_tpl_fail(m, SP_E_ARG, "%s and %s cannot be ordered", sp_tpl_kind_name(a),
                       sp_tpl_kind_name(b));
}

sp_err sp_tpl_contains(sp_tpl_machine *m, sp_tpl_val in, sp_tpl_val what, bool *out)
{
    *out = false;
    if (in.kind == SP_TPL_STRING && what.kind == SP_TPL_STRING) {
        *out = sp_tpl_search(in.s->s, in.s->n, what.s->s, what.s->n) != NULL;
        return SP_OK;
    }
    if (in.kind == SP_TPL_DICT) {
        *out = sp_tpl_dict_get(in.dict, what) != NULL;
        return SP_OK;
    }
    if (in.kind == SP_TPL_UNDEFINED) return SP_OK;
    if (in.kind != SP_TPL_LIST)
        return sp_tpl_fail(m, SP_E_ARG, "%s contains nothing", sp_tpl_kind_name(in));
    for (size_t i = 0; !*out && i < in.list->n; i++) {
        SP_TRY(sp_tpl_step(m));
        SP_TRY(sp_tpl_equal(m, in.list->v[i], what, out));
    }
    return SP_OK;
}

/* -- lists and mappings ---------------------------------------------------------------------------- */

sp_err sp_tpl_list_new(sp_tpl_machine *m, size_t n, sp_tpl_list **out)
{
    sp_tpl_list *l;
    SP_TRY(sp_tpl_take(m, 1, sizeof *l, &l));
    SP_TRY(sp_tpl_take(m, n, sizeof *l->v, &l->v));
    l->n = n;
    *out = l;
    return SP_OK;
}

sp_err sp_tpl_dict_new(sp_tpl_machine *m, sp_tpl_dict **out)
{
    return sp_tpl_take(m, 1, sizeof **out, out);
}

/* pair_of -- the pair with this key, or NULL. */
static sp_tpl_pair *pair_of(const sp_tpl_dict *d, sp_tpl_val key)
{
    for (size_t i = 0; i < d->n; i++) {
        const sp_tpl_val *k = &d->v[i].key;
        if (k->kind != key.kind) continue;
        if (k->kind == SP_TPL_INT ? k->i == key.i : k->s->n == key.s->n && memcmp(k->s->s, key.s->s, key.s->n) == 0)
            return &d->v[i];
    }
    return NULL;
}

const sp_tpl_val *sp_tpl_dict_get(const sp_tpl_dict *d, sp_tpl_val key)
{
    const sp_tpl_pair *found = pair_of(d, key);
    return found ? &found->value : NULL;
}

sp_err sp_tpl_dict_put(sp_tpl_machine *m, sp_tpl_dict *d, sp_tpl_val key, sp_tpl_val v)
{
    sp_tpl_pair *old = pair_of(d, key);
    if (old) {
        old->value = v;
        return SP_OK;
    }
    if (d->n == d->cap) {
        size_t cap = SP_MAX(2 * d->cap, 8);
        sp_tpl_pair *bigger;
        SP_TRY(sp_tpl_take(m, cap, sizeof *bigger, &bigger));
        if (d->n) memcpy(bigger, d->v, d->n * sizeof *bigger);
        d->v = bigger;
        d->cap = cap;
    }
    d->v[d->n++] = (sp_tpl_pair){.key = key, .value = v};
    return SP_OK;
}

static bool is(const char *name, size_t n, const char *what)
{
    return n == strlen(what) && memcmp(name, what, n) == 0;
}

static sp_err loop_attribute(sp_tpl_machine *m, const sp_tpl_loop *l, const char *name, size_t n,
                             sp_tpl_val *out)
{
    int64_t i = (int64_t)l->i, len = (int64_t)l->items->n;
    if (is(name, n, "index0"))
        *out = sp_tpl_int(i);
    else if (is(name, n, "index"))
        *out = sp_tpl_int(i + 1);
    else if (is(name, n, "first"))
        *out = sp_tpl_bool(i == 0);
    else if (is(name, n, "last"))
        *out = sp_tpl_bool(i + 1 == len);
    else if (is(name, n, "length"))
        *out = sp_tpl_int(len);
    else if (is(name, n, "revindex"))
        *out = sp_tpl_int(len - i);
    else if (is(name, n, "revindex0"))
        *out = sp_tpl_int(len - i - 1);
    else if (is(name, n, "previtem"))
        *out = i ? l->items->v[i - 1] : SP_TPL_UNDEF;
    else if (is(name, n, "nextitem"))
        *out = i + 1 < len ? l->items->v[i + 1] : SP_TPL_UNDEF;
    else if (is(name, n, "depth"))
        *out = sp_tpl_int(1);
    else if (is(name, n, "depth0"))
        *out = sp_tpl_int(0);
    else
        return sp_tpl_fail(m, SP_E_UNSUPPORTED, "loop.%.*s is not supported", (int)SP_MIN(n, 40),
                           name);
    return SP_OK;
}

sp_err sp_tpl_attribute(sp_tpl_machine *m, sp_tpl_val v, const char *name, size_t n,
                        sp_tpl_val *out)
{
    if (v.kind == SP_TPL_UNDEFINED)
        return sp_tpl_fail(m, SP_E_ARG, "'%.*s' of an undefined value", (int)SP_MIN(n, 60), name);
    *out = SP_TPL_UNDEF;
    if (v.kind == SP_TPL_LOOP) return loop_attribute(m, v.loop, name, n, out);
    if (v.kind != SP_TPL_DICT) return SP_OK;
    const sp_tpl_val *found = sp_tpl_dict_get(v.dict, sp_tpl_of_str(&(sp_tpl_str){.s = name, .n = n}));
    if (found) *out = *found;
    return SP_OK;
}

static sp_err characters(sp_tpl_machine *m, const sp_tpl_str *s, sp_tpl_list **out)
{
    size_t n = sp_tpl_length(s), at = 0;
    SP_TRY(sp_tpl_list_new(m, n, out));
    for (size_t i = 0; i < n; i++) {
        size_t end = at + 1;
        while (end < s->n && ((unsigned char)s->s[end] & 0xC0) == 0x80) end++;
        SP_TRY(sp_tpl_step(m));
        SP_TRY(sp_tpl_slice(m, s, at, end, &(*out)->v[i]));
        at = end;
    }
    return SP_OK;
}

sp_err sp_tpl_items(sp_tpl_machine *m, sp_tpl_val v, const sp_tpl_list **out)
{
    sp_tpl_list *list;
    if (v.kind == SP_TPL_LIST) {
        *out = v.list;
        return SP_OK;
    }
    if (v.kind == SP_TPL_UNDEFINED) {
        SP_TRY(sp_tpl_list_new(m, 0, &list));
    } else if (v.kind == SP_TPL_STRING) {
        SP_TRY(characters(m, v.s, &list));
    } else if (v.kind == SP_TPL_DICT && !v.dict->is_namespace) {
        SP_TRY(sp_tpl_list_new(m, v.dict->n, &list));
        for (size_t i = 0; i < v.dict->n; i++)
            list->v[i] = v.dict->v[i].key;
    } else {
        return sp_tpl_fail(m, SP_E_ARG, "%s has no items", sp_tpl_kind_name(v));
    }
    *out = list;
    return SP_OK;
}

/* -- from JSON ------------------------------------------------------------------------------------- */

/* is_content -- whether a path is messages[i].content, or a part of it. */
static bool is_content(const char *path)
{
    static const char messages[] = "messages[", content[] = "].content";
    const char *end = strncmp(path, messages, sizeof messages - 1) == 0 ? strchr(path, ']') : NULL;
    if (!end || strncmp(end, content, sizeof content - 1) != 0) return false;
    end += sizeof content - 1;
    return *end == '\0' || *end == '[' || *end == '.';
}

/* source_of -- the source of a string at this path, a new entry of the machine's table. */
static sp_err source_of(sp_tpl_machine *m, const char *path, int32_t *out)
{
    static const char documents[] = "documents[";
    sp_tpl_source s = {.origin = SP_TEMPLATE_OTHER, .index = -1};
    char *copy;
    size_t n = strlen(path);
    if (is_content(path)) {
        s.origin = SP_TEMPLATE_MESSAGE;
        s.index = atoi(path + strlen("messages["));
    } else if (strncmp(path, documents, sizeof documents - 1) == 0) {
        s.origin = SP_TEMPLATE_DOCUMENT;
        s.index = atoi(path + sizeof documents - 1);
    }
    SP_TRY(sp_tpl_take(m, n + 1, 1, &copy));
    memcpy(copy, path, n);
    s.path = copy;
    if (m->n_sources == m->cap_sources) {
        size_t cap = SP_MAX(2 * m->cap_sources, 16);
        sp_tpl_source *bigger;
        SP_TRY(sp_tpl_take(m, cap, sizeof *bigger, &bigger));
        if (m->n_sources) memcpy(bigger, m->sources, m->n_sources * sizeof *bigger);
        m->sources = bigger;
        m->cap_sources = cap;
    }
    *out = (int32_t)m->n_sources;
    m->sources[m->n_sources++] = s;
    return SP_OK;
}

/* known_role -- roles are one of a few words, not text that someone wrote. */
static bool known_role(const char *path, const char *s, size_t n)
{
    static const char *const roles[] = {"system",    "user",    "assistant", "tool",
                                        "developer", "ipython", "function"};
    size_t len = strlen(path);
    if (strncmp(path, "messages[", 9) != 0 || len < 6 || strcmp(path + len - 6, "].role") != 0)
        return false;
    for (size_t i = 0; i < SP_COUNT(roles); i++)
        if (is(s, n, roles[i])) return true;
    return false;
}

/* from_string -- s is a value at this path, or with `key` the name of a member. */
static sp_err from_string(sp_tpl_machine *m, const char *s, size_t n, bool key, const char *path,
                          sp_tpl_val *out)
{
    sp_tpl_str str = {.n = n};
    char *text;
    sp_tpl_run *run;
    SP_TRY(sp_tpl_take(m, n + 1, 1, &text));
    memcpy(text, s, n);
    str.s = text;
    if (n && !known_role(path, s, n)) {
        SP_TRY(sp_tpl_take(m, 1, sizeof *run, &run));
        *run = (sp_tpl_run){.n = n, .at = key ? -1 : 0};
        SP_TRY(source_of(m, path, &run->source));
        str.runs = run;
        str.n_runs = 1;
    }
    return sp_tpl_str_new(m, str, out);
}

static sp_err from_array(sp_tpl_machine *m, json_t *j, const char *path, sp_tpl_val *out)
{
    sp_tpl_list *list;
    char item[256];
    SP_TRY(sp_tpl_list_new(m, json_array_size(j), &list));
    for (size_t i = 0; i < list->n; i++) {
        snprintf(item, sizeof item, "%s[%zu]", path, i);
        SP_TRY(sp_tpl_from_json(m, json_array_get(j, i), item, &list->v[i]));
    }
    *out = sp_tpl_of_list(list);
    return SP_OK;
}

static sp_err from_object(sp_tpl_machine *m, json_t *j, const char *path, sp_tpl_val *out)
{
    sp_tpl_dict *d;
    char item[256];
    SP_TRY(sp_tpl_dict_new(m, &d));
    d->cap = json_object_size(j);
    SP_TRY(sp_tpl_take(m, d->cap, sizeof *d->v, &d->v));
    const char *key;
    json_t *value;
    json_object_foreach(j, key, value)
    {
        sp_tpl_val name;
        snprintf(item, sizeof item, "%s%s%s", path, *path ? "." : "", key);
        SP_TRY(from_string(m, key, strlen(key), true, item, &name));
        SP_TRY(sp_tpl_from_json(m, value, item, &d->v[d->n].value));
        d->v[d->n++].key = name;
    }
    *out = (sp_tpl_val){.kind = SP_TPL_DICT, .dict = d};
    return SP_OK;
}

sp_err sp_tpl_from_json(sp_tpl_machine *m, json_t *j, const char *path, sp_tpl_val *out)
{
    sp_err err = SP_OK;
    switch (j ? json_typeof(j) : JSON_NULL) {
    case JSON_STRING:
        return from_string(m, json_string_value(j), json_string_length(j), false, path, out);
    case JSON_INTEGER:
        *out = sp_tpl_int(json_integer_value(j));
        return SP_OK;
    case JSON_REAL:
        *out = (sp_tpl_val){.kind = SP_TPL_FLOAT, .f = json_real_value(j)};
        return SP_OK;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = sp_tpl_bool(json_is_true(j));
        return SP_OK;
    case JSON_NULL:
        *out = (sp_tpl_val){.kind = SP_TPL_NONE};
        return SP_OK;
    default:
        break;
    }
    SP_TRY(sp_tpl_deeper(m));
    err = json_is_array(j) ? from_array(m, j, path, out) : from_object(m, j, path, out);
    m->depth--;
    return err;
}
