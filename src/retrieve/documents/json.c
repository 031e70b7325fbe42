/* json.c -- JSON files, and Jupyter notebooks.
 *
 *     {"name": "Otter", "eats": ["fish"],   ──>   name: Otter
 *      "size": {"cm": 90}}                        eats: fish
 *                                                 size.cm: 90
 *     [{"title": ..., "text": ...}, ...]    ──>   a document an object, as in JSON lines
 *     a notebook                            ──>   Markdown: its texts, code and what it printed
 */
#include "retrieve/documents/readers_int.h"

#include <string.h>

#include "base/json.h"
#include "retrieve/text/text.h"

#define MAX_OUTPUT 4096 /* bytes of what one cell of a notebook printed */

static sp_err parse(const char *s, size_t n, json_t **out)
{
    json_error_t why;
    const size_t flags = JSON_ALLOW_NUL | JSON_DECODE_ANY;
    *out = sp_json_load(s, n, flags, &why);
    if (!*out && sp_json_code(&why, SP_OK) == SP_OK)
        *out = sp_json_load(s, n, flags | JSON_DECODE_INT_AS_REAL, &why); /* numbers of 20 digits */
    return *out ? SP_OK : sp_fail(sp_json_code(&why, SP_E_UNSUPPORTED), "line %d: %s", why.line, why.text);
}

/* add_string -- texts are C strings later: no NUL. */
static sp_err add_string(sp_bytes *out, const json_t *string)
{
    size_t from = out->n;
    SP_TRY(sp_bytes_add(out, json_string_value(string), json_string_length(string)));
    for (size_t i = from; i < out->n; i++)
        if (!out->v[i]) out->v[i] = ' ';
    return out->n > SP_DOC_MAX_BYTES ? sp_fail(SP_E_LIMIT, "too much text") : SP_OK;
}

/* -- values as lines -------------------------------------------------------------------------- */

typedef struct lines {
    sp_bytes out, path;
} lines;

static sp_err add_scalar(lines *l, const json_t *v)
{
    if (json_is_null(v) || (json_is_string(v) && json_string_length(v) == 0)) return SP_OK;
    if (l->path.n) {
        SP_TRY(sp_bytes_add(&l->out, l->path.v, l->path.n));
        SP_TRY(sp_bytes_add(&l->out, ": ", 2));
    }
    if (json_is_string(v))
        SP_TRY(add_string(&l->out, v));
    else if (json_is_integer(v))
        SP_TRY(sp_bytes_addf(&l->out, "%lld", (long long)json_integer_value(v)));
    else if (json_is_real(v))
        SP_TRY(sp_bytes_addf(&l->out, "%.15g", json_real_value(v)));
    else
        SP_TRY(sp_bytes_addf(&l->out, "%s", json_is_true(v) ? "true" : "false"));
    return sp_bytes_add(&l->out, "\n", 1);
}

/* add_value -- jansson's own limit of nesting bounds the recursion. */
static sp_err add_value(lines *l, json_t *v)
{
    size_t at = l->path.n, i;
    const char *key;
    json_t *item;
    if (json_is_array(v)) {
        json_array_foreach(v, i, item)
        {
            bool parted = json_is_object(item) && l->out.n;
            if (parted) SP_TRY(sp_bytes_add(&l->out, "\n", 1));
            SP_TRY(add_value(l, item));
        }
        return SP_OK;
    }
    if (!json_is_object(v)) return add_scalar(l, v);
    json_object_foreach(v, key, item)
    {
        SP_TRY(sp_bytes_addf(&l->path, "%s%s", at ? "." : "", key));
        SP_TRY(add_value(l, item));
        l->path.n = at;
    }
    return SP_OK;
}

static sp_err read_values(sp_reading *r, json_t *all)
{
    lines l = {0};
    sp_err err = add_value(&l, all);
    if (err == SP_OK) {
        sp_document d = {.text = l.out.n ? l.out.v : "", .n = l.out.n, .syntax = SP_SYNTAX_CODE};
        err = sp_document_emit(r, &d, NULL);
    }
    sp_vec_fini(&l.out);
    sp_vec_fini(&l.path);
    return err;
}

/* -- an array of documents -------------------------------------------------------------------- */

static const json_t *text_of(const json_t *object)
{
    static const char *const fields[] = {"text", "content", "contents"};
    for (size_t i = 0; i < SP_COUNT(fields); i++) {
        const json_t *v = json_object_get(object, fields[i]);
        if (json_is_string(v)) return v;
    }
    return NULL;
}

static bool is_array_of_documents(const json_t *all)
{
    size_t i;
    const json_t *item;
    json_array_foreach(all, i, item) if (!text_of(item)) return false;
    return json_array_size(all) > 0;
}

static sp_err read_document(sp_reading *r, const json_t *object)
{
    sp_bytes text = {0}, title = {0};
    const json_t *name = json_object_get(object, "title");
    sp_err err = add_string(&text, text_of(object));
    if (err == SP_OK && json_is_string(name)) err = add_string(&title, name);
    if (err == SP_OK) {
        sp_document d = {.text = text.n ? text.v : "", .n = text.n, .syntax = SP_SYNTAX_PLAIN};
        err = sp_document_emit(r, &d, &title);
    }
    sp_vec_fini(&text);
    sp_vec_fini(&title);
    return err;
}

sp_err sp_json_document_read(sp_reading *r, const char *s, size_t n)
{
    sp_err err = SP_OK;
    json_t *all;
    SP_TRY(parse(s, n, &all));
    if (is_array_of_documents(all))
        for (size_t i = 0; i < json_array_size(all) && err == SP_OK; i++)
            err = read_document(r, json_array_get(all, i));
    else
        err = read_values(r, all);
    json_decref(all);
    return err;
}

/* -- notebooks -------------------------------------------------------------------------------- */

/* add_text -- a string or an array of strings, at most `most` bytes (0: all). */
static sp_err add_text(sp_bytes *out, const json_t *v, size_t most)
{
    size_t i, from = out->n;
    const json_t *part;
    if (json_is_string(v)) SP_TRY(add_string(out, v));
    json_array_foreach(v, i, part) if (json_is_string(part)) SP_TRY(add_string(out, part));
    if (!most || out->n - from <= most) return SP_OK;
    size_t to = from + most;
    while (to > from && ((unsigned char)out->v[to] & 0xC0) == 0x80) to--;
    out->n = to;
    return sp_bytes_add(out, " ...", 4);
}

static sp_err add_fence(sp_bytes *out, const char *language, const json_t *text, size_t most)
{
    SP_TRY(sp_bytes_addf(out, "```%s\n", language));
    SP_TRY(add_text(out, text, most));
    return sp_bytes_add(out, "\n```\n\n", 6);
}

static sp_err add_outputs(sp_bytes *out, const json_t *outputs)
{
    size_t i;
    const json_t *o;
    json_array_foreach(outputs, i, o)
    {
        const json_t *text = json_object_get(o, "text");
        if (!text) text = json_object_get(json_object_get(o, "data"), "text/plain");
        if (text) SP_TRY(add_fence(out, "", text, MAX_OUTPUT));
    }
    return SP_OK;
}

static sp_err add_cell(sp_bytes *out, const json_t *cell, const char *language)
{
    const char *type = json_string_value(json_object_get(cell, "cell_type"));
    const json_t *source = json_object_get(cell, "source");
    if (!type || !source) return SP_OK;
    if (strcmp(type, "code") == 0) {
        SP_TRY(add_fence(out, language, source, 0));
        return add_outputs(out, json_object_get(cell, "outputs"));
    }
    SP_TRY(add_text(out, source, 0));
    return sp_bytes_add(out, "\n\n", 2);
}

static sp_err add_cells(sp_bytes *out, const json_t *all)
{
    const json_t *cells = json_object_get(all, "cells"), *about = json_object_get(all, "metadata");
    const char *language =
        json_string_value(json_object_get(json_object_get(about, "language_info"), "name"));
    if (!json_is_array(cells)) return sp_fail(SP_E_UNSUPPORTED, "not a notebook: it has no cells");
    bool plain =
        language && strspn(language, "abcdefghijklmnopqrstuvwxyz0123456789+#") == strlen(language);
    for (size_t i = 0; i < json_array_size(cells); i++)
        SP_TRY(add_cell(out, json_array_get(cells, i), plain ? language : ""));
    return SP_OK;
}

sp_err sp_notebook_read(sp_reading *r, const char *s, size_t n)
{
    sp_bytes out = {0};
    json_t *all;
    SP_TRY(parse(s, n, &all));
    sp_err err = add_cells(&out, all);
    if (err == SP_OK) {
        sp_document d = {.text = out.n ? out.v : "", .n = out.n, .syntax = SP_SYNTAX_MARKDOWN};
        err = sp_document_emit(r, &d, NULL);
    }
    sp_vec_fini(&out);
    json_decref(all);
    return err;
}
