/* print.c -- values as text: Python's str() and repr(), and tojson. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
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

/* append_smeared -- what was written to `part` as one run, if any of it is input: mark has left one then. */
static sp_err append_smeared(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_writer *part)
{
    if (part->n_runs) part->runs[0].from = 0, part->runs[0].n = part->n;
    return sp_tpl_write(
        m, w,
        &(sp_tpl_str){
            .s = part->s ? part->s : "", .n = part->n, .runs = part->runs, .n_runs = part->n_runs});
}

sp_err sp_tpl_write_repr(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v)
{
    sp_tpl_run run;
    sp_tpl_writer part = {.runs = &run, .cap_runs = 1};
    SP_TRY(write_repr(m, &part, v));
    return append_smeared(m, w, &part);
}

sp_err sp_tpl_write_value(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v)
{
    if (v.kind == SP_TPL_UNDEFINED) return SP_OK;
    if (v.kind == SP_TPL_STRING) return sp_tpl_write(m, w, v.s);
    return sp_tpl_write_repr(m, w, v);
}

/* -- tojson --------------------------------------------------------------------------------------- */

/* decode -- the first character of a text; returns its bytes. */
static size_t decode(const char *s, size_t n, uint32_t *code)
{
    const int k = sp_utf8_step((const uint8_t *)s, n);
    *code = 0xFFFD;
    if (k <= 1) return k < 0 ? (size_t)-k : 1;
    *code = (uint8_t)s[0] & (0xFFu >> (k + 1));
    for (int i = 1; i < k; i++) *code = *code << 6 | ((uint8_t)s[i] & 0x3F);
    return (size_t)k;
}

/* escape_json -- the escape of the character at s, of *n bytes; false: it is written as it is. */
static bool escape_json(const char *s, size_t *n, bool ascii, char text[static 16])
{
    static const char named[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    const unsigned char c = (unsigned char)*s;
    const char *name = c ? strchr(named, c) : NULL;
    uint32_t code = c;
    if (name) {
        snprintf(text, 16, "\\%c", letters[name - named]);
        *n = 1;
        return true;
    }
    if (c >= 0x80 && ascii) {
        *n = decode(s, *n, &code);
    } else {
        *n = 1;
        if (c >= 0x20 && (!ascii || c < 0x7F)) return false;
    }
    if (code < 0x10000)
        snprintf(text, 16, "\\u%04x", code);
    else
        snprintf(text, 16, "\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF));
    return true;
}

static sp_err write_json_string(sp_tpl_machine *m, sp_tpl_writer *w, const sp_tpl_str *s, bool ascii)
{
    size_t from = w->n, done = 0, n;
    SP_TRY(sp_tpl_write_plain(m, w, "\"", 1));
    for (size_t i = 0; i < s->n; i += n) {
        char text[16];
        n = s->n - i;
        if (!escape_json(s->s + i, &n, ascii, text)) continue;
        SP_TRY(sp_tpl_write_plain(m, w, s->s + done, i - done));
        SP_TRY(sp_tpl_write_plain(m, w, text, strlen(text)));
        done = i + n;
    }
    SP_TRY(sp_tpl_write_plain(m, w, s->s + done, s->n - done));
    SP_TRY(sp_tpl_write_plain(m, w, "\"", 1));
    mark(w, from, s);
    return SP_OK;
}

/* add_layout -- a separator or an indent, which may come from the input. */
static sp_err add_layout(sp_tpl_machine *m, sp_tpl_writer *w, const sp_tpl_str *s)
{
    const size_t from = w->n;
    SP_TRY(sp_tpl_write_plain(m, w, s->s, s->n));
    mark(w, from, s);
    return SP_OK;
}

static sp_err json_line(sp_tpl_machine *m, sp_tpl_writer *w, const sp_tpl_json *how, int level, bool first)
{
    if (!first) SP_TRY(add_layout(m, w, &how->comma));
    if (!how->indent) return SP_OK;
    SP_TRY(sp_tpl_write_plain(m, w, "\n", 1));
    for (int i = 0; i < level; i++) SP_TRY(add_layout(m, w, how->indent));
    return SP_OK;
}

static sp_err json_write(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v, const sp_tpl_json *how, int level);

/* json_key -- an integer becomes a string, as in Python's json. */
static sp_err json_key(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val key, const sp_tpl_json *how)
{
    if (key.kind == SP_TPL_STRING) return write_json_string(m, w, key.s, how->ascii);
    SP_TRY(sp_tpl_write_plain(m, w, "\"", 1));
    SP_TRY(sp_tpl_write_number(m, w, key));
    return sp_tpl_write_plain(m, w, "\"", 1);
}

/* sort_pairs -- a copy of the pairs of d in the order of their keys. */
static sp_err sort_pairs(sp_tpl_machine *m, const sp_tpl_dict *d, sp_tpl_pair **out)
{
    SP_TRY(sp_tpl_take(m, d->n, sizeof **out, out));
    for (size_t i = 0; i < d->n; i++) {
        size_t at = i;
        for (int order; at > 0; at--) {
            SP_TRY(sp_tpl_step(m));
            SP_TRY(sp_tpl_compare(m, (*out)[at - 1].key, d->v[i].key, &order));
            if (order <= 0) break;
            (*out)[at] = (*out)[at - 1];
        }
        (*out)[at] = d->v[i];
    }
    return SP_OK;
}

static sp_err json_container(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v, const sp_tpl_json *how, int level)
{
    bool list = v.kind == SP_TPL_LIST;
    size_t n = list ? v.list->n : v.dict->n;
    sp_tpl_pair *pairs = list ? NULL : v.dict->v;
    if (!list && how->sorted) SP_TRY(sort_pairs(m, v.dict, &pairs));
    SP_TRY(sp_tpl_write_plain(m, w, list ? "[" : "{", 1));
    for (size_t i = 0; i < n; i++) {
        SP_TRY(json_line(m, w, how, level + 1, i == 0));
        if (!list) {
            SP_TRY(json_key(m, w, pairs[i].key, how));
            SP_TRY(add_layout(m, w, &how->colon));
        }
        SP_TRY(json_write(m, w, list ? v.list->v[i] : pairs[i].value, how, level + 1));
    }
    if (n) SP_TRY(json_line(m, w, how, level, true));
    return sp_tpl_write_plain(m, w, list ? "]" : "}", 1);
}

static sp_err json_write(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v, const sp_tpl_json *how, int level)
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
        err = write_json_string(m, w, v.s, how->ascii);
        break;
    case SP_TPL_LIST:
        err = json_container(m, w, v, how, level);
        break;
    case SP_TPL_DICT:
        if (!v.dict->is_namespace) {
            err = json_container(m, w, v, how, level);
            break;
        }
        /* fallthrough */
    default:
        err = sp_tpl_fail(m, SP_E_ARG, "%s is not JSON", sp_tpl_kind_name(v));
    }
    m->depth--;
    return err;
}

sp_err sp_tpl_write_json(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v, const sp_tpl_json *how)
{
    sp_tpl_run run;
    sp_tpl_writer part = {.runs = &run, .cap_runs = 1};
    SP_TRY(json_write(m, &part, v, how, 0));
    return append_smeared(m, w, &part);
}
