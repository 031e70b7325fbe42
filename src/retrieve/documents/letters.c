/* letters.c -- what a file writes for its layout and no reader types. A word with a soft hyphen, which HTML and books
 * have at every place where a line may end, would be two words for the index; a ligature, which PDFs have for "fi",
 * a word that no question has.
 *
 *     U+00AD           soft hyphen      left out; of a PDF with the line end after it
 *     U+FB00..U+FB06   ligatures        ff, fi, fl, ffi, ffl, st, st
 *     CR LF, CR CR LF  line end         LF
 *
 * Of source code only line ends are changed, and nothing of JSON lines, whose texts are what another program has
 * chosen. */
#include <string.h>

#include "retrieve/documents/readers_int.h"

static bool is_code(const sp_document *d)
{
    return d->syntax == SP_SYNTAX_CODE && d->place == SP_PLACE_LINES; /* else it is a table */
}

/* match -- the length of such a letter at s, which has n > 0 bytes, and what is read for it; 0: it is another one. */
static size_t match(const char *s, size_t n, bool code, const char **as)
{
    static const char *const ligatures[] = {"ff", "fi", "fl", "ffi", "ffl", "st", "st"};
    const unsigned char *u = (const unsigned char *)s;
    *as = "";
    if (n >= 2 && s[0] == '\r' && (s[1] == '\n' || (n >= 3 && s[1] == '\r' && s[2] == '\n'))) return 1;
    if (code) return 0;
    if (n >= 2 && u[0] == 0xC2 && u[1] == 0xAD) return 2;
    if (n < 3 || u[0] != 0xEF || u[1] != 0xAC || u[2] < 0x80 || u[2] > 0x86) return 0;
    *as = ligatures[u[2] - 0x80];
    return 3;
}

/* next -- the next such letter from `at`; n: there is none. */
static size_t next(const char *s, size_t at, size_t n, bool code, size_t *length, const char **as)
{
    for (; at < n; at++)
        if (((unsigned char)s[at] >= 0xC2 || s[at] == '\r') && (*length = match(s + at, n - at, code, as))) return at;
    return n;
}

/* write -- s[0, n) as it is read, of a document like `d`; marks: moved with the text, or NULL. */
static sp_err write(const char *s, size_t n, const sp_document *d, sp_bytes *out, sp_marks *marks)
{
    const bool joins_lines = marks && d->place == SP_PLACE_MARKED_PAGES, code = is_code(d);
    size_t i_mark = 0, length = 0;
    const char *as = "";
    for (size_t at = 0; at < n; at += length) {
        const size_t to = next(s, at, n, code, &length, &as), from = out->n;
        SP_TRY(sp_bytes_add(out, s + at, to - at));
        for (; marks && i_mark < marks->n && marks->v[i_mark].offset <= to; i_mark++)
            marks->v[i_mark].offset = from + marks->v[i_mark].offset - at;
        if (to == n) return SP_OK;
        SP_TRY(sp_bytes_add(out, as, strlen(as)));
        if (length == 2 && joins_lines && to + 2 < n && s[to + 2] == '\n') length++;
        at = to;
    }
    return SP_OK;
}

sp_err sp_document_give(sp_reading *r, sp_document *d)
{
    size_t length;
    const char *as;
    const bool code = is_code(d), plain = next(d->text, 0, d->n, code, &length, &as) == d->n &&
                                          next(d->title, 0, d->n_title, code, &length, &as) == d->n_title;
    if (plain) return r->fn(d, r->user);
    sp_bytes text = {0}, title = {0};
    sp_marks marks = {0};
    sp_document own = *d;
    sp_err err = sp_vec_reserve(&marks, d->n_marks + 1);
    if (err == SP_OK && d->n_marks) memcpy(marks.v, d->marks, d->n_marks * sizeof *marks.v);
    if (err == SP_OK) marks.n = d->n_marks;
    if (err == SP_OK) err = write(d->text, d->n, d, &text, &marks);
    if (err == SP_OK) err = write(d->title, d->n_title, d, &title, NULL);
    own.text = text.n ? text.v : "";
    own.n = text.n;
    own.title = title.n ? title.v : "";
    own.n_title = title.n;
    own.marks = marks.v;
    if (err == SP_OK) err = r->fn(&own, r->user);
    sp_vec_fini(&text);
    sp_vec_fini(&title);
    sp_vec_fini(&marks);
    return err;
}
