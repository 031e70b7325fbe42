#include "retrieve/documents_int.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "retrieve/text_int.h"

sp_doc_format sp_document_format(const char *path)
{
    static const struct {
        const char *suffix;
        sp_doc_format format;
    } table[] = {
        {".txt", SP_DOC_TEXT},    {".md", SP_DOC_MARKDOWN}, {".markdown", SP_DOC_MARKDOWN},
        {".jsonl", SP_DOC_JSONL}, {".html", SP_DOC_HTML},   {".htm", SP_DOC_HTML},
    };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < SP_COUNT(table); i++)
        if (strcasecmp(dot, table[i].suffix) == 0) return table[i].format;
    return SP_DOC_NONE;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* first_heading -- of a Markdown text; false when there is none with words in it. */
static bool first_heading(const char *s, size_t n, sp_document *d)
{
    sp_block b = {0};
    while (sp_block_next(s, n, b.to, true, &b)) {
        if (b.kind != SP_BLOCK_HEADING || b.heading_from == b.heading_to) continue;
        d->title = s + b.heading_from;
        d->n_title = b.heading_to - b.heading_from;
        return true;
    }
    return false;
}

/* -- JSON lines ----------------------------------------------------------------------------- */

/* json_text -- a string that may be NULL in `d`; "\u0000" in it becomes a blank, as texts are C
 * strings further on. The json value is ours alone, so it may be changed in place. */
static const char *json_text(json_t *string, size_t *n)
{
    char *s = (char *)json_string_value(string);
    *n = s ? json_string_length(string) : 0;
    for (char *nul = s; nul && (nul = memchr(nul, '\0', (size_t)(s + *n - nul)));) *nul = ' ';
    return s ? s : "";
}

static sp_err json_document(const char *path, int64_t line, json_t *object, sp_document *out)
{
    static const char *const fields[] = {"text", "content", "contents"};
    if (!json_is_object(object))
        return sp_fail(SP_E_FORMAT, "%s: line %lld: not a JSON object", path, (long long)line);
    json_t *text = NULL;
    size_t i = 0;
    while (i < SP_COUNT(fields) && !(text = json_object_get(object, fields[i]))) i++;
    if (!text)
        return sp_fail(SP_E_FORMAT, "%s: line %lld: no field text, content or contents", path,
                       (long long)line);
    if (!json_is_string(text))
        return sp_fail(SP_E_FORMAT, "%s: line %lld: field %s is not a string", path,
                       (long long)line, fields[i]);
    sp_document d = {.line = line};
    d.text = json_text(text, &d.n);
    d.title = json_text(json_object_get(object, "title"), &d.n_title);
    *out = d;
    return SP_OK;
}

static sp_err read_json_line(const char *path, int64_t line, const char *s, size_t n,
                             sp_document_fn *fn, void *user)
{
    json_error_t why;
    /* Integers as reals: a 20-digit id is no reason to refuse a document. */
    json_t *object = json_loadb(s, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
    if (!object) return sp_fail(SP_E_FORMAT, "%s: line %lld: %s", path, (long long)line, why.text);
    sp_document d;
    sp_err err = json_document(path, line, object, &d);
    if (err == SP_OK) err = fn(&d, user);
    json_decref(object);
    return err;
}

static sp_err read_jsonl(const char *path, const char *s, size_t n, sp_document_fn *fn, void *user)
{
    int64_t line = 1;
    for (size_t at = 0; at < n; line++) {
        const char *newline = memchr(s + at, '\n', n - at);
        size_t end = newline ? (size_t)(newline - s) : n;
        if (sp_skip_blanks(s, at, end) < end)
            SP_TRY(read_json_line(path, line, s + at, end - at, fn, user));
        at = end + 1;
    }
    return SP_OK;
}

/* -- the others ----------------------------------------------------------------------------- */

static sp_err read_html(const char *path, const char *s, size_t n, sp_document_fn *fn, void *user)
{
    sp_bytes text = {0}, title = {0};
    sp_err err = sp_html_to_markdown(s, n, &text, &title);
    if (err != SP_OK) err = sp_fail_in(err, "%s", path);
    if (err == SP_OK && !(sp_utf8_valid(text.v, text.n) && sp_utf8_valid(title.v, title.n)))
        err = sp_fail(SP_E_UNSUPPORTED, "%s: neither UTF-8 nor of a declared encoding", path);
    if (err == SP_OK) {
        sp_document d = {.text = text.v, .n = text.n, .markdown = true};
        if (!first_heading(text.v, text.n, &d)) {
            d.title = title.n ? title.v : base_name(path);
            d.n_title = title.n ? title.n : strlen(d.title);
        }
        err = fn(&d, user);
    }
    sp_vec_fini(&text);
    sp_vec_fini(&title);
    return err;
}

sp_err sp_documents_read(const char *path, sp_doc_format format, const char *data, size_t n,
                         sp_document_fn *fn, void *user)
{
    if (n >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0) { /* byte order mark */
        data += 3;
        n -= 3;
    }
    if (n && memchr(data, '\0', n))
        return sp_fail(SP_E_UNSUPPORTED, "%s: not a text file (it has NUL bytes)", path);
    if (format == SP_DOC_HTML) return read_html(path, data, n, fn, user);
    if (!sp_utf8_valid(data, n)) return sp_fail(SP_E_UNSUPPORTED, "%s: not UTF-8", path);
    if (format == SP_DOC_JSONL) return read_jsonl(path, data, n, fn, user);

    sp_document d = {.text = data, .n = n, .markdown = format == SP_DOC_MARKDOWN};
    if (!d.markdown || !first_heading(data, n, &d)) {
        d.title = base_name(path);
        d.n_title = strlen(d.title);
    }
    return fn(&d, user);
}
