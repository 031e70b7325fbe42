/* table.c -- CSV (RFC 4180, with commas, semicolons, tabs or bars) and TSV: a line of text for each row, which
 * says its columns' names, so that a row found alone can be understood:
 *
 *     name,height        ──>   name: Zugspitze; height: 2962
 *     Zugspitze,2962
 *
 * A column without a value in a row is said, too ("height: "): it is known to have none. Rows with more such columns
 * than values leave them out, so that they stay short.
 *
 * No input is malformed: an unclosed quote ends with the file. */
#include "retrieve/documents/readers_int.h"

#include <string.h>

#include "retrieve/text/text.h"

#define MAX_NAME_BYTES 64 /* of a column: it is repeated in every row */

typedef struct cell {
    size_t from, to; /* in table.cells */
} cell;

typedef struct table {
    const char *s;
    size_t n, at;
    int64_t line;
    char separator;
    sp_bytes cells;   /* the texts of the current row */
    SP_VEC(cell) row; /* the current row */
    sp_bytes names;   /* of the columns; name i is v[name.v[i].from, name.v[i].to) */
    SP_VEC(cell) name;
    sp_bytes out;
    sp_marks marks;
} table;

/* named_separator -- a first line sep=; is for spreadsheets. 0: there is none; else *skip is its length. */
static char named_separator(const char *s, size_t n, size_t *skip)
{
    const bool named = n > 6 && memcmp(s, "sep=", 4) == 0;
    const size_t end = named && s[5] == '\r' ? 6 : 5;
    if (!named || s[end] != '\n') return 0;
    *skip = end + 1;
    return s[4];
}

/* pick_separator -- what the first line has most of, outside of quotes; tabs and bars if it has no other. */
static char pick_separator(const char *s, size_t n)
{
    static const char separators[] = ",;\t|";
    size_t counts[4] = {0};
    bool quoted = false;
    for (size_t i = 0; i < n && s[i] != '\n'; i++) {
        const char *at = s[i] ? strchr(separators, s[i]) : NULL;
        quoted ^= s[i] == '"';
        if (at && !quoted) counts[at - separators]++;
    }
    if (counts[0] || counts[1]) return counts[1] > counts[0] ? ';' : ',';
    return counts[2] ? '\t' : counts[3] ? '|' : ',';
}

static sp_err put(table *t, char c)
{
    bool blank = sp_is_blank(c); /* a row stays one line */
    return sp_bytes_add(&t->cells, blank ? " " : &c, 1);
}

/* take_cell -- the text of the cell at t->at; *last when its row ends there. */
static sp_err take_cell(table *t, bool *last)
{
    bool quoted = false;
    size_t from = t->cells.n;
    while (t->at < t->n) {
        char c = t->s[t->at];
        bool quote = c == '"' && t->separator != '\t';
        if (!quoted && (c == t->separator || c == '\n')) break;
        t->at++;
        if (c == '\n') t->line++;
        if (c == '\r' && t->at < t->n && t->s[t->at] == '\n') continue; /* of Windows: one line end */
        if (quote && quoted && t->at < t->n && t->s[t->at] == '"')
            SP_TRY(put(t, t->s[t->at++]));
        else if (quote && (quoted || t->cells.n == from))
            quoted = !quoted;
        else
            SP_TRY(put(t, c));
    }
    *last = t->at == t->n || t->s[t->at] == '\n';
    if (t->at < t->n && t->s[t->at] == '\n') t->line++;
    t->at += t->at < t->n;
    size_t to = sp_trim_end(t->cells.v, from, t->cells.n);
    SP_TRY(sp_vec_reserve(&t->row, 1));
    t->row.v[t->row.n++] = (cell){sp_skip_blanks(t->cells.v, from, to), to};
    return SP_OK;
}

static sp_err take_row(table *t)
{
    t->cells.n = t->row.n = 0;
    for (bool last = false; !last;) SP_TRY(take_cell(t, &last));
    return SP_OK;
}

/* take_names -- the first row, cut to whole characters. */
static sp_err take_names(table *t)
{
    SP_TRY(take_row(t));
    for (size_t i = 0; i < t->row.n; i++) {
        cell c = t->row.v[i];
        size_t n = SP_MIN(c.to - c.from, (size_t)MAX_NAME_BYTES), from = t->names.n;
        while (n && n < c.to - c.from && ((unsigned char)t->cells.v[c.from + n] & 0xC0) == 0x80)
            n--;
        SP_TRY(sp_bytes_add(&t->names, t->cells.v + c.from, n));
        SP_TRY(sp_vec_reserve(&t->name, 1));
        t->name.v[t->name.n++] = (cell){from, t->names.n};
    }
    return SP_OK;
}

static cell cell_at(const table *t, size_t i)
{
    return i < t->row.n ? t->row.v[i] : (cell){0};
}

static cell name_at(const table *t, size_t i)
{
    return i < t->name.n ? t->name.v[i] : (cell){0};
}

/* says_empty -- whether the row has at least as many values in named columns as it lacks. */
static bool says_empty(const table *t)
{
    size_t n_values = 0, n_empty = 0;
    for (size_t i = 0; i < t->name.n; i++) {
        const cell c = cell_at(t, i), name = name_at(t, i);
        n_values += name.to > name.from && c.to > c.from;
        n_empty += name.to > name.from && c.to == c.from;
    }
    return n_values >= n_empty && n_values;
}

static sp_err write_cell(table *t, cell c, cell name, bool first)
{
    if (!first) SP_TRY(sp_bytes_add(&t->out, "; ", 2));
    if (name.to > name.from) {
        SP_TRY(sp_bytes_add(&t->out, t->names.v + name.from, name.to - name.from));
        SP_TRY(sp_bytes_add(&t->out, ": ", 2));
    }
    return sp_bytes_add(&t->out, t->cells.v + c.from, c.to - c.from);
}

static sp_err write_row(table *t, int64_t line)
{
    bool first = true;
    const bool empty = says_empty(t);
    const size_t n = empty ? SP_MAX(t->row.n, t->name.n) : t->row.n;
    for (size_t i = 0; i < n; i++) {
        const cell c = cell_at(t, i), name = name_at(t, i);
        if (c.from == c.to && !(empty && name.to > name.from)) continue;
        if (first) {
            SP_TRY(sp_vec_reserve(&t->marks, 1));
            t->marks.v[t->marks.n++] = (sp_mark){t->out.n, line};
        }
        SP_TRY(write_cell(t, c, name, first));
        first = false;
    }
    if (t->out.n > SP_DOC_MAX_BYTES) return sp_fail(SP_E_LIMIT, "a table with too much text");
    if (first) return SP_OK;
    t->out.n = sp_trim_end(t->out.v, 0, t->out.n); /* after a last column without a value */
    return sp_bytes_add(&t->out, "\n", 1);
}

static sp_err read_rows(table *t)
{
    const int64_t first = t->line;
    SP_TRY(sp_vec_reserve(&t->cells, 1)); /* so that an empty cell has an address, too */
    SP_TRY(sp_vec_reserve(&t->names, 1));
    SP_TRY(take_names(t));
    if (t->at == t->n || t->name.n < 2) { /* nothing but names, or a list: the first row is data */
        t->name.n = 0;
        SP_TRY(write_row(t, first));
    }
    while (t->at < t->n) {
        int64_t line = t->line;
        SP_TRY(take_row(t));
        SP_TRY(write_row(t, line));
    }
    return SP_OK;
}

static sp_err read_table(sp_reading *r, char separator, const sp_bytes *title, const char *s, size_t n, int64_t line)
{
    table t = {.s = s, .n = n, .line = line, .separator = separator};
    sp_err err = n ? read_rows(&t) : SP_OK;
    if (err == SP_OK) {
        sp_document d = {.text = t.out.n ? t.out.v : "",
                         .n = t.out.n,
                         .syntax = SP_SYNTAX_CODE,
                         .place = SP_PLACE_MARKED_LINES,
                         .marks = t.marks.v,
                         .n_marks = t.marks.n};
        err = sp_document_emit(r, &d, title);
    }
    sp_vec_fini(&t.cells);
    sp_vec_fini(&t.row);
    sp_vec_fini(&t.names);
    sp_vec_fini(&t.name);
    sp_vec_fini(&t.out);
    sp_vec_fini(&t.marks);
    return err;
}

sp_err sp_table_read(sp_reading *r, bool tabs, const char *s, size_t n)
{
    size_t skip = 0;
    char separator = tabs ? '\t' : named_separator(s, n, &skip);
    if (!separator) separator = pick_separator(s, n);
    return read_table(r, separator, NULL, s + skip, n - skip, skip ? 2 : 1);
}

sp_err sp_table_read_as(sp_reading *r, const sp_bytes *title, const char *s, size_t n)
{
    return read_table(r, '\t', title, s, n, 1);
}
