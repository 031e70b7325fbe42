/* jsonl.c -- JSON lines: one document a line. A bad line costs that line only. */
#include "retrieve/documents/readers_int.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "retrieve/text/text.h"

#define NAMED_LINES 10 /* of a file; the others are only counted */

/* blank_nuls -- a copy in `own` of a string with "\u0000" in it, as texts are C strings later. */
static sp_err blank_nuls(sp_bytes *own, const char **s, size_t n)
{
    if (!n || !memchr(*s, '\0', n)) return SP_OK;
    own->n = 0;
    SP_TRY(sp_bytes_add(own, *s, n));
    for (size_t i = 0; i < n; i++)
        if (!own->v[i]) own->v[i] = ' ';
    *s = own->v;
    return SP_OK;
}

static void take_string(const json_t *string, const char **s, size_t *n)
{
    const char *value = json_string_value(string);
    *s = value ? value : "";
    *n = value ? json_string_length(string) : 0;
}

static sp_err take_document(const sp_reading *r, const json_t *object, sp_document *d)
{
    static const char *const fields[] = {"text", "content", "contents"};
    const char *path = r->path;
    long long line = (long long)d->line;
    if (!json_is_object(object))
        return sp_fail(SP_E_FORMAT, "%s:%lld: not a JSON object", path, line);
    const json_t *text = NULL;
    size_t i = 0;
    while (i < SP_COUNT(fields) && !(text = json_object_get(object, fields[i]))) i++;
    if (!text)
        return sp_fail(SP_E_FORMAT, "%s:%lld: no field text, content or contents", path, line);
    if (!json_is_string(text))
        return sp_fail(SP_E_FORMAT, "%s:%lld: field %s is not a string", path, line, fields[i]);
    take_string(text, &d->text, &d->n);
    take_string(json_object_get(object, "title"), &d->title, &d->n_title);
    return SP_OK;
}

/* bad_line -- the last sp_fail says what is wrong with it. */
static sp_err bad_line(sp_reading *r)
{
    if (r->strict) return SP_E_FORMAT;
    if (++r->n_bad_lines <= NAMED_LINES) sp_log(SP_LOG_WARN, "skipped: %s", sp_error_detail());
    return SP_OK;
}

static sp_err read_line(sp_reading *r, int64_t line, const char *s, size_t n)
{
    json_error_t why;
    sp_document d = {.line = line, .place = SP_PLACE_LINES};
    /* Integers as reals: a 20-digit id is no reason to refuse a document. */
    json_t *object = sp_json_load(s, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
    if (!object) {
        sp_err err = sp_fail(sp_json_code(&why, SP_E_FORMAT), "%s:%lld: %s", r->path, (long long)line, why.text);
        return err == SP_E_FORMAT ? bad_line(r) : err;
    }
    sp_bytes text = {0}, title = {0};
    bool good = take_document(r, object, &d) == SP_OK;
    sp_err err = good ? blank_nuls(&text, &d.text, d.n) : bad_line(r);
    if (good && err == SP_OK) err = blank_nuls(&title, &d.title, d.n_title);
    if (good && err == SP_OK) err = r->fn(&d, r->user);
    sp_vec_fini(&text);
    sp_vec_fini(&title);
    json_decref(object);
    return err;
}

static sp_err read_lines(sp_reading *r, const char *s, size_t n)
{
    int64_t line = 1;
    for (size_t at = 0; at < n; line++) {
        const char *newline = memchr(s + at, '\n', n - at);
        size_t end = newline ? (size_t)(newline - s) : n;
        if (sp_skip_blanks(s, at, end) < end) SP_TRY(read_line(r, line, s + at, end - at));
        at = end + 1;
    }
    if (r->n_bad_lines > NAMED_LINES)
        sp_log(SP_LOG_WARN, "skipped: %s: %lld more bad lines", r->path,
               (long long)(r->n_bad_lines - NAMED_LINES));
    return SP_OK;
}

/* Lines are checked one by one, so that one of another encoding costs no other. */
sp_err sp_jsonl_read(sp_reading *r, const char *s, size_t n)
{
    bool wide = n >= 2 && (memcmp(s, "\xFF\xFE", 2) == 0 || memcmp(s, "\xFE\xFF", 2) == 0);
    if (n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0) s += 3, n -= 3;
    sp_bytes own = {0};
    sp_err err = wide ? sp_text_decode(s, n, &own, &s, &n) : SP_OK;
    if (err == SP_OK) err = read_lines(r, s, n);
    sp_vec_fini(&own);
    return err;
}
