/* print.c -- values as text: Python's str() and repr(), and tojson. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/template/template_int.h"

/* write_float -- the shortest text that reads back as the same number, in Python's layout. */
static sp_err write_float(sp_tpl_machine *m, sp_tpl_writer *w, double f)
{
    char digits[40], text[64];
    if (isnan(f) || isinf(f)) {
        const char *name = isnan(f) ? "nan" : f > 0 ? "inf" : "-inf";
        return sp_tpl_write_plain(m, w, name, strlen(name));
    }
    int precision = 0;
    do snprintf(digits, sizeof digits, "%.*e", precision, f);
    while (strtod(digits, NULL) != f && ++precision < 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16)
        snprintf(text, sizeof text, "%.*e", precision, f);
    else
        snprintf(text, sizeof text, "%.*f", SP_MAX(precision - exponent, 1), f);
    return sp_tpl_write_plain(m, w, text, strlen(text));
}

sp_err sp_tpl_write_number(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v)
{
    char text[32];
    if (v.kind == SP_TPL_FLOAT) return write_float(m, w, v.f);
    int n = snprintf(text, sizeof text, "%lld", (long long)v.i);
    return sp_tpl_write_plain(m, w, text, (size_t)n);
}

/* -- repr() ------------------------------------------------------------------------------------ */

static sp_err write_quoted(sp_tpl_machine *m, sp_tpl_writer *w, const sp_tpl_str *s)
{
    char quote = memchr(s->s, '\'', s->n) && !memchr(s->s, '"', s->n) ? '"' : '\'';
    SP_TRY(sp_tpl_write_plain(m, w, &quote, 1));
    for (size_t i = 0; i < s->n; i++) {
        unsigned char c = (unsigned char)s->s[i];
        char text[8] = {(char)c};
        if (c == '\\' || c == (unsigned char)quote)
            snprintf(text, sizeof text, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < 0x20 || c == 0x7F)
            snprintf(text, sizeof text, "\\x%02x", c);
        SP_TRY(sp_tpl_write_plain(m, w, text, c ? strlen(text) : 4));
    }
    return sp_tpl_write_plain(m, w, &quote, 1);
}

static sp_err write_repr(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v);

static sp_err repr_list(sp_tpl_machine *m, sp_tpl_writer *w, const sp_tpl_list *l)
{
    SP_TRY(sp_tpl_write_plain(m, w, l->tuple ? "(" : "[", 1));
    for (size_t i = 0; i < l->n; i++) {
        if (i) SP_TRY(sp_tpl_write_plain(m, w, ", ", 2));
        SP_TRY(write_repr(m, w, l->v[i]));
    }
    if (l->tuple && l->n == 1) SP_TRY(sp_tpl_write_plain(m, w, ",", 1));
    return sp_tpl_write_plain(m, w, l->tuple ? ")" : "]", 1);
}

static sp_err repr_dict(sp_tpl_machine *m, sp_tpl_writer *w, const sp_tpl_dict *d)
{
    SP_TRY(sp_tpl_write_plain(m, w, "{", 1));
    for (size_t i = 0; i < d->n; i++) {
        if (i) SP_TRY(sp_tpl_write_plain(m, w, ", ", 2));
        SP_TRY(write_repr(m, w, d->v[i].key));
        SP_TRY(sp_tpl_write_plain(m, w, ": ", 2));
        SP_TRY(write_repr(m, w, d->v[i].value));
    }
    return sp_tpl_write_plain(m, w, "}", 1);
}

/* mark -- records that w comes from the input, where s does; the caller smears it over all. */
static void mark(sp_tpl_writer *w, size_t from, const sp_tpl_str *s)
{
    if (!s->n_runs) return;
    int32_t source = s->runs[0].source;
    for (size_t i = 1; i < s->n_runs; i++)
        if (s->runs[i].source != source) source = -1;
    if (w->n_runs && w->runs[0].source != source) source = -1;
    w->runs[0] = (sp_tpl_run){.from = from, .n = w->n - from, .source = source, .at = -1};
    w->n_runs = 1;
}

/* write_scalar -- words: false, true and none in the language that is written. */
static sp_err write_scalar(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v,
                           const char *const words[3])
{
    if (v.kind != SP_TPL_NONE && v.kind != SP_TPL_BOOL) return sp_tpl_write_number(m, w, v);
    const char *word = words[v.kind == SP_TPL_NONE ? 2 : v.b];
    return sp_tpl_write_plain(m, w, word, strlen(word));
}

static sp_err write_repr(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v)
{
    static const char *const words[] = {"False", "True", "None"};
    size_t from = w->n;
    sp_err err = SP_OK;
    SP_TRY(sp_tpl_deeper(m));
    switch (v.kind) {
    case SP_TPL_NONE:
    case SP_TPL_BOOL:
    case SP_TPL_INT:
    case SP_TPL_FLOAT:
        err = write_scalar(m, w, v, words);
        break;
    case SP_TPL_STRING:
        err = write_quoted(m, w, v.s);
        mark(w, from, v.s);
        break;
    case SP_TPL_LIST:
        err = repr_list(m, w, v.list);
        break;
    case SP_TPL_DICT:
        if (!v.dict->is_namespace) {
            err = repr_dict(m, w, v.dict);
            break;
        }
        /* fallthrough */
    default:
        err = sp_tpl_fail(m, SP_E_UNSUPPORTED, "%s cannot be printed", sp_tpl_kind_name(v));
    }
    m->depth--;
    return err;
}

/* append_smeared -- what was written to `part` as one run, if any of it is input. */
static sp_err append_smeared(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_writer *part)
{
    sp_tpl_smear(part);
    return sp_tpl_write(
        m, w,
        &(sp_tpl_str){
            .s = part->s ? part->s : "", .n = part->n, .runs = part->runs, .n_runs = part->n_runs});
}

sp_err sp_tpl_write_value(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v)
{
    sp_tpl_run run;
    sp_tpl_writer part = {.runs = &run, .cap_runs = 1};
    if (v.kind == SP_TPL_UNDEFINED) return SP_OK;
    if (v.kind == SP_TPL_STRING) return sp_tpl_write(m, w, v.s);
    SP_TRY(write_repr(m, &part, v));
    return append_smeared(m, w, &part);
}

/* -- tojson --------------------------------------------------------------------------------------- */

static sp_err write_json_string(sp_tpl_machine *m, sp_tpl_writer *w, const sp_tpl_str *s)
{
    static const char named[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    size_t from = w->n, done = 0;
    SP_TRY(sp_tpl_write_plain(m, w, "\"", 1));
    for (size_t i = 0; i < s->n; i++) {
        unsigned char c = (unsigned char)s->s[i];
        const char *name = c ? strchr(named, c) : NULL;
        char text[8];
        if (!name && c >= 0x20) continue;
        if (name)
            snprintf(text, sizeof text, "\\%c", letters[name - named]);
        else
            snprintf(text, sizeof text, "\\u%04x", c);
        SP_TRY(sp_tpl_write_plain(m, w, s->s + done, i - done));
        SP_TRY(sp_tpl_write_plain(m, w, text, strlen(text)));
        done = i + 1;
    }
    SP_TRY(sp_tpl_write_plain(m, w, s->s + done, s->n - done));
    SP_TRY(sp_tpl_write_plain(m, w, "\"", 1));
    mark(w, from, s);
    return SP_OK;
}

static sp_err json_line(sp_tpl_machine *m, sp_tpl_writer *w, int indent, int level, bool first)
{
    if (!first) SP_TRY(sp_tpl_write_plain(m, w, indent < 0 ? ", " : ",", indent < 0 ? 2 : 1));
    if (indent < 0) return SP_OK;
    SP_TRY(sp_tpl_write_plain(m, w, "\n", 1));
    for (int i = 0; i < indent * level; i++) SP_TRY(sp_tpl_write_plain(m, w, " ", 1));
    return SP_OK;
}

static sp_err json_write(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v, int indent, int level);

/* json_key -- an integer becomes a string, as in Python's json. */
static sp_err json_key(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val key)
{
    if (key.kind == SP_TPL_STRING) return write_json_string(m, w, key.s);
    SP_TRY(sp_tpl_write_plain(m, w, "\"", 1));
    SP_TRY(sp_tpl_write_number(m, w, key));
    return sp_tpl_write_plain(m, w, "\"", 1);
}

static sp_err json_container(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v, int indent,
                             int level)
{
    bool list = v.kind == SP_TPL_LIST;
    size_t n = list ? v.list->n : v.dict->n;
    SP_TRY(sp_tpl_write_plain(m, w, list ? "[" : "{", 1));
    for (size_t i = 0; i < n; i++) {
        SP_TRY(json_line(m, w, indent, level + 1, i == 0));
        if (!list) {
            SP_TRY(json_key(m, w, v.dict->v[i].key));
            SP_TRY(sp_tpl_write_plain(m, w, ": ", 2));
        }
        SP_TRY(json_write(m, w, list ? v.list->v[i] : v.dict->v[i].value, indent, level + 1));
    }
    if (n) SP_TRY(json_line(m, w, indent, level, true));
    return sp_tpl_write_plain(m, w, list ? "]" : "}", 1);
}

static sp_err json_write(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v, int indent, int level)
{
    static const char *const words[] = {"false", "true", "null"};
    sp_err err = SP_OK;
    SP_TRY(sp_tpl_deeper(m));
    switch (v.kind) {
    case SP_TPL_NONE:
    case SP_TPL_BOOL:
    case SP_TPL_INT:
    case SP_TPL_FLOAT:
        err = write_scalar(m, w, v, words);
        break;
    case SP_TPL_STRING:
        err = write_json_string(m, w, v.s);
        break;
    case SP_TPL_LIST:
        err = json_container(m, w, v, indent, level);
        break;
    case SP_TPL_DICT:
        if (!v.dict->is_namespace) {
            err = json_container(m, w, v, indent, level);
            break;
        }
        /* fallthrough */
    default:
        err = sp_tpl_fail(m, SP_E_ARG, "%s is not JSON", sp_tpl_kind_name(v));
    }
    m->depth--;
    return err;
}

sp_err sp_tpl_write_json(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v, int indent, int level)
{
    sp_tpl_run run;
    sp_tpl_writer part = {.runs = &run, .cap_runs = 1};
    SP_TRY(json_write(m, &part, v, indent, level));
    return append_smeared(m, w, &part);
}
