/* sheets.c -- XLSX (ECMA-376): each sheet becomes a table of tab-separated cells, which the reader of tables
 * then reads, so that a row says the names of its columns.
 *
 *   xl/workbook.xml              names of sheets, in order  --r:id-->  its relations (relations.c)  -->  files
 *   xl/sharedStrings.xml         texts, by number
 *   xl/styles.xml                which cell formats are dates, and which are times, the fraction of a day. Dates are
 *                                days; day 1 is 1900-01-01, or 1904-01-02 if the workbook says so. From 1900 on,
 *                                day 60 is 1900-02-29, which never was.
 *
 * These names are the usual ones; the relations may say others.
 */
#include "retrieve/documents/archive_int.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "retrieve/text/text.h"

#define MAX_COLUMN    16384
#define MAX_EMPTY     1000 /* consecutive empty rows that are written, so that rows keep their numbers */
#define CUSTOM_FORMAT 164  /* the first number of a format that the file defines */

/* Of dates. Days count from 1899-12-30, because spreadsheets have a 29th of February in 1900. */
#define DAYS_TO_1904 1462
#define DAYS_TO_1970 25569
#define LEAP_DAY     60      /* the 29th of February, 1900 */
#define LAST_DAY     2958466 /* after 9999-12-31 */
#define DAY_S        86400LL

/* What a number format shows of a number of days. */
typedef enum shown {
    SHOWN_NUMBER, /* the number */
    SHOWN_DATE,   /* the day, and its time if there is one */
    SHOWN_TIME,   /* the time of day */
    SHOWN_SPAN    /* hours, more than 24 of them, too */
} shown;

typedef struct named {
    char *id, *value;
} named;

typedef SP_VEC(named) names;

typedef struct sheet_reader {
    sp_archive a;
    xmlTextReader *x;
    sp_bytes own, value;
    sp_bytes strings;    /* all shared texts, one after another */
    SP_VEC(size_t) ends; /* of each */
    names formats;       /* custom number formats */
    sp_dict by_number;   /* of formats */
    SP_VEC(shown) shown; /* of each cell format */
    names sheets;        /* id of the relation -> name */
    sp_relations files;  /* of the workbook */
    sp_bytes out, cell;  /* the table; the text of the current cell */
    int n_readings;      /* is_reading: open elements rPh */
    size_t size;         /* of the text before them */
    size_t left;         /* bytes that the sheets to come may have */
    int64_t row;         /* lines written */
    int column;          /* of the last cell written in this row, from 1 */
    int at;              /* column of the current cell */
    bool from_1904;      /* days count from then */
    char type[12];       /* of the current cell: "s", "inlineStr", "b", ... */
    int style;
} sheet_reader;

/* -- XML ---------------------------------------------------------------------------------------- */

typedef sp_err node_fn(sheet_reader *s, bool begins, const char *name);

/* each_element -- calls fn when an element begins and ends; a file that is not there has none. texts: where
 * text goes, or NULL. */
static sp_err each_element(sheet_reader *s, const char *file, node_fn *fn, sp_bytes *texts)
{
    bool more = true;
    sp_err err = sp_archive_xml(&s->a, file, &s->own, &s->x);
    if (err == SP_E_NOTFOUND) return SP_OK;
    while (err == SP_OK && (err = sp_xml_next(s->x, &more)) == SP_OK && more) {
        int kind = xmlTextReaderNodeType(s->x);
        bool begins = kind == XML_READER_TYPE_ELEMENT;
        bool empty = begins && xmlTextReaderIsEmptyElement(s->x);
        bool text = kind == XML_READER_TYPE_TEXT || kind == XML_READER_TYPE_SIGNIFICANT_WHITESPACE;
        if (text && texts) err = sp_bytes_add(texts, sp_xml_text(s->x), strlen(sp_xml_text(s->x)));
        if (begins) err = fn(s, true, sp_xml_name(s->x));
        bool ends = empty || kind == XML_READER_TYPE_END_ELEMENT;
        if (err == SP_OK && ends) err = fn(s, false, sp_xml_name(s->x));
        if (texts && texts->n > SP_DOC_MAX_BYTES) err = sp_fail(SP_E_LIMIT, "too much text");
    }
    if (s->x) xmlFreeTextReader(s->x);
    s->x = NULL;
    return err;
}

/* attribute -- in s->value, NUL-terminated; "" when it is not there. */
static sp_err attribute(sheet_reader *s, const char *name)
{
    bool found;
    s->value.n = 0;
    SP_TRY(sp_xml_attribute(s->x, name, &s->value, &found));
    return sp_bytes_add(&s->value, "", 1);
}

static sp_err add_named(sheet_reader *s, names *to, const char *id, const char *value)
{
    SP_TRY(sp_vec_reserve(to, 1));
    named *n = &to->v[to->n];
    SP_TRY(attribute(s, id));
    n->id = sp_strdup_n(s->value.v, s->value.n);
    if (!n->id) return sp_fail_nomem("a sheet");
    sp_err err = attribute(s, value);
    n->value = err == SP_OK ? sp_strdup_n(s->value.v, s->value.n) : NULL;
    if (n->value) return to->n++, SP_OK;
    sp_free(n->id);
    return err == SP_OK ? sp_fail_nomem("a sheet") : err;
}

static void free_names(names *n)
{
    for (size_t i = 0; i < n->n; i++) {
        sp_free(n->v[i].id);
        sp_free(n->v[i].value);
    }
    sp_vec_fini(n);
}

/* -- the workbook ------------------------------------------------------------------------------- */

static sp_err take_sheet(sheet_reader *s, bool begins, const char *name)
{
    if (begins && strcmp(name, "workbookPr") == 0) {
        SP_TRY(attribute(s, "date1904"));
        s->from_1904 = strcmp(s->value.v, "1") == 0 || strcmp(s->value.v, "true") == 0;
    }
    return begins && strcmp(name, "sheet") == 0 ? add_named(s, &s->sheets, "id", "name") : SP_OK;
}

/* is_reading -- how Japanese is read aloud (rPh, with all inside) is no part of a text. */
static bool is_reading(sheet_reader *s, bool begins, const char *name, sp_bytes *text)
{
    const bool reading = strcmp(name, "rPh") == 0;
    if (reading && begins && s->n_readings++ == 0) s->size = text->n;
    if (reading && !begins && --s->n_readings == 0) text->n = s->size;
    return reading || s->n_readings;
}

static sp_err take_string(sheet_reader *s, bool begins, const char *name)
{
    if (is_reading(s, begins, name, &s->strings)) return SP_OK;
    if (begins || strcmp(name, "si") != 0) return SP_OK;
    SP_TRY(sp_vec_reserve(&s->ends, 1));
    s->ends.v[s->ends.n++] = s->strings.n;
    return SP_OK;
}

/* shown_by -- of a number format, outside of quotes: y, d and mmm are of days, h and s of times, and in brackets
 * they count on after 24 hours. */
static shown shown_by(const char *format)
{
    bool quoted = false, bracket = false, time = false, span = false;
    for (const char *c = format; *c; c++) {
        if (!quoted && !bracket && strchr("\\_*", *c) && c[1]) { /* a character: as it is, its width, a filling */
            c++;
            continue;
        }
        quoted ^= *c == '"';
        if (quoted) continue;
        if (*c == '[') span |= c[1 + strspn(c + 1, "hHmMsS")] == ']' && c[1] != ']';
        bracket = *c == '[' || (bracket && *c != ']');
        if (bracket) continue;
        if (strchr("yYdD", *c) || strncasecmp(c, "mmm", 3) == 0) return SHOWN_DATE;
        time |= strchr("hHsS", *c) != NULL;
    }
    return span ? SHOWN_SPAN : time ? SHOWN_TIME : SHOWN_NUMBER;
}

/* shown_by_number -- of the formats that no file defines; from 27 on those of East Asia (ECMA-376, 18.8.30). */
static shown shown_by_number(int number)
{
    static const int ranges[][3] = {{14, 17, SHOWN_DATE}, {18, 21, SHOWN_TIME}, {22, 22, SHOWN_DATE},
                                    {27, 31, SHOWN_DATE}, {32, 35, SHOWN_TIME}, {36, 36, SHOWN_DATE},
                                    {45, 45, SHOWN_TIME}, {46, 46, SHOWN_SPAN}, {47, 47, SHOWN_TIME},
                                    {50, 54, SHOWN_DATE}, {55, 56, SHOWN_TIME}, {57, 58, SHOWN_DATE}};
    for (size_t i = 0; i < SP_COUNT(ranges); i++)
        if (number >= ranges[i][0] && number <= ranges[i][1]) return (shown)ranges[i][2];
    return SHOWN_NUMBER;
}

/* take_format -- of formats with one number the first counts. */
static sp_err take_format(sheet_reader *s)
{
    SP_TRY(add_named(s, &s->formats, "numFmtId", "formatCode"));
    const char *id = s->formats.v[s->formats.n - 1].id;
    if (sp_dict_get(&s->by_number, id, strlen(id)) != SP_DICT_NONE) return SP_OK;
    return sp_dict_put(&s->by_number, id, strlen(id), (uint32_t)(s->formats.n - 1));
}

/* take_style -- the cell formats are the elements xf inside cellXfs; s->at counts whether inside. */
static sp_err take_style(sheet_reader *s, bool begins, const char *name)
{
    if (strcmp(name, "cellXfs") == 0) s->at = begins;
    if (!begins) return SP_OK;
    if (strcmp(name, "numFmt") == 0) return take_format(s);
    if (strcmp(name, "xf") != 0 || !s->at) return SP_OK;
    SP_TRY(attribute(s, "numFmtId"));
    int number = atoi(s->value.v);
    const uint32_t i = sp_dict_get(&s->by_number, s->value.v, strlen(s->value.v));
    const bool own = number >= CUSTOM_FORMAT && i != SP_DICT_NONE;
    SP_TRY(sp_vec_reserve(&s->shown, 1));
    s->shown.v[s->shown.n++] = own ? shown_by(s->formats.v[i].value) : shown_by_number(number);
    return SP_OK;
}

/* part_of -- the workbook's part of a type. */
static const char *part_of(const sheet_reader *s, const char *type, const char *usual)
{
    const char *part = sp_relation_by_type(&s->files, type);
    return part ? part : usual;
}

static sp_err read_workbook(sheet_reader *s)
{
    sp_bytes book = {0};
    sp_err err = sp_main_part(&s->a, "xl/workbook.xml", &book);
    if (err == SP_OK) err = each_element(s, book.v, take_sheet, NULL);
    if (err == SP_OK) err = sp_relations_read(&s->a, book.v, &s->files);
    sp_vec_fini(&book);
    SP_TRY(err);
    SP_TRY(each_element(s, part_of(s, "sharedStrings", "xl/sharedStrings.xml"), take_string, &s->strings));
    SP_TRY(sp_dict_init(&s->by_number, 64));
    SP_TRY(each_element(s, part_of(s, "styles", "xl/styles.xml"), take_style, NULL));
    return s->sheets.n ? SP_OK : sp_fail(SP_E_UNSUPPORTED, "not a workbook: it has no sheets");
}

/* -- cells -------------------------------------------------------------------------------------- */

/* column_of -- "BC12" is 54; 0 when there is no letter. */
static int column_of(const char *reference)
{
    int n = 0;
    for (; isalpha((unsigned char)*reference) && n <= MAX_COLUMN; reference++)
        n = n * 26 + (*reference | 32) - 'a' + 1;
    return SP_MIN(n, MAX_COLUMN);
}

/* add_text -- a cell is one line without tabs. */
static sp_err add_text(sheet_reader *s, const char *text, size_t n)
{
    size_t from = s->out.n;
    SP_TRY(sp_bytes_add(&s->out, text, n));
    for (size_t i = from; i < s->out.n; i++)
        if (sp_is_blank(s->out.v[i])) s->out.v[i] = ' ';
    return SP_OK;
}

/* add_time -- hours and minutes, and seconds if there are any. */
static sp_err add_time(sheet_reader *s, double days, bool span)
{
    if (!(days >= 0 && days < LAST_DAY)) return sp_bytes_addf(&s->out, "%.15g", days);
    long long seconds = llround((span ? days : days - floor(days)) * DAY_S);
    if (!span) seconds %= DAY_S;
    SP_TRY(sp_bytes_addf(&s->out, "%02lld:%02lld", seconds / 3600, seconds / 60 % 60));
    return seconds % 60 ? sp_bytes_addf(&s->out, ":%02lld", seconds % 60) : SP_OK;
}

/* add_date -- of days, with the time of day if there is one. Before the first day there is only a time. */
static sp_err add_date(sheet_reader *s, double days)
{
    struct tm t;
    char text[32];
    const int first = s->from_1904 ? 0 : 1;
    if (!(days >= 0 && days < LAST_DAY - (s->from_1904 ? DAYS_TO_1904 : 0)) || (days == 0 && first))
        return sp_bytes_addf(&s->out, "%.15g", days);
    if (days < first) return add_time(s, days, false);
    time_t seconds = (time_t)llround(days * DAY_S);
    const bool leap = !s->from_1904 && seconds / DAY_S == LEAP_DAY;
    if (s->from_1904)
        seconds += DAYS_TO_1904 * DAY_S;
    else if (seconds / DAY_S < LEAP_DAY)
        seconds += DAY_S;
    seconds -= DAYS_TO_1970 * DAY_S;
    if (!gmtime_r(&seconds, &t)) return sp_bytes_addf(&s->out, "%.15g", days);
    bool whole = t.tm_hour == 0 && t.tm_min == 0 && t.tm_sec == 0;
    strftime(text, sizeof text, whole ? "%Y-%m-%d" : "%Y-%m-%d %H:%M", &t);
    if (leap) memcpy(text, "1900-02-29", 10);
    return sp_bytes_add(&s->out, text, strlen(text));
}

/* add_number -- in the 15 digits that spreadsheets have, not in the 17 of files: 1.1, not 1.1000000000000001. Longer
 * whole numbers, which other programs write, keep all digits. */
static sp_err add_number(sheet_reader *s, const char *text, size_t n)
{
    char *end;
    const double value = strtod(text, &end);
    const bool whole = strspn(text, "-0123456789") == n;
    if (n <= 15 || whole || *end || !isfinite(value)) return add_text(s, text, n);
    return sp_bytes_addf(&s->out, "%.15g", value);
}

static sp_err add_value(sheet_reader *s)
{
    const char *v = s->cell.v;
    if (s->cell.n == 1) return SP_OK;
    if (strcmp(s->type, "s") == 0) {
        size_t i = strtoul(v, NULL, 10);
        if (i >= s->ends.n) return SP_OK;
        size_t from = i ? s->ends.v[i - 1] : 0;
        return add_text(s, s->strings.v + from, s->ends.v[i] - from);
    }
    if (strcmp(s->type, "b") == 0)
        return add_text(s, *v == '1' ? "true" : "false", *v == '1' ? 4 : 5);
    bool number = !*s->type || strcmp(s->type, "n") == 0;
    const bool styled = number && s->style >= 0 && (size_t)s->style < s->shown.n;
    switch (styled ? s->shown.v[s->style] : SHOWN_NUMBER) {
    case SHOWN_DATE:
        return add_date(s, strtod(v, NULL));
    case SHOWN_TIME:
        return add_time(s, strtod(v, NULL), false);
    case SHOWN_SPAN:
        return add_time(s, strtod(v, NULL), true);
    default:
        return number ? add_number(s, v, s->cell.n - 1) : add_text(s, v, s->cell.n - 1);
    }
}

static sp_err begin_cell(sheet_reader *s)
{
    SP_TRY(attribute(s, "r"));
    int column = column_of(s->value.v);
    s->at = column ? column : SP_MIN(s->column + 1, MAX_COLUMN);
    SP_TRY(attribute(s, "s"));
    s->style = atoi(s->value.v);
    SP_TRY(attribute(s, "t"));
    snprintf(s->type, sizeof s->type, "%s", s->value.v);
    s->cell.n = 0;
    return SP_OK;
}

static sp_err end_cell(sheet_reader *s)
{
    SP_TRY(sp_bytes_add(&s->cell, "", 1));
    if (s->at <= s->column) return SP_OK; /* twice */
    for (int i = SP_MAX(s->column, 1); i < s->at; i++) SP_TRY(sp_bytes_add(&s->out, "\t", 1));
    s->column = s->at;
    return add_value(s);
}

/* begin_row -- after as many empty ones as its number says. */
static sp_err begin_row(sheet_reader *s)
{
    SP_TRY(attribute(s, "r"));
    long long number = strtoll(s->value.v, NULL, 10);
    for (int i = 0; i < MAX_EMPTY && s->row + 1 < number && s->row > 0; i++, s->row++)
        SP_TRY(sp_bytes_add(&s->out, "\n", 1));
    s->column = 0;
    return SP_OK;
}

static sp_err take_table(sheet_reader *s, bool begins, const char *name)
{
    if (is_reading(s, begins, name, &s->cell)) return SP_OK;
    if (strcmp(name, "row") == 0) {
        if (begins) return begin_row(s);
        s->row++;
        return sp_bytes_add(&s->out, "\n", 1);
    }
    if (strcmp(name, "c") == 0) return begins ? begin_cell(s) : end_cell(s);
    if (strcmp(name, begins ? "v" : "f") == 0) s->cell.n = 0; /* a formula is no text, and comes before its value */
    return SP_OK;
}

/* take_cell -- cells far to the right, rows far below and shared texts are short in the file, but not in the table. */
static sp_err take_cell(sheet_reader *s, bool begins, const char *name)
{
    SP_TRY(take_table(s, begins, name));
    return s->out.n > s->left ? sp_fail(SP_E_LIMIT, "a workbook with too much text") : SP_OK;
}

/* -- sheets ------------------------------------------------------------------------------------- */

static sp_err read_sheet(sp_reading *r, sheet_reader *s, const named *sheet)
{
    const char *file = sp_relation_by_id(&s->files, sheet->id);
    if (!file) return SP_OK;
    s->out.n = s->row = s->column = s->at = 0;
    SP_TRY(each_element(s, file, take_cell, &s->cell));
    s->left -= s->out.n;
    if (!s->out.n || sp_skip_blanks(s->out.v, 0, s->out.n) == s->out.n) return SP_OK;
    if (!sp_utf8_valid(s->out.v, s->out.n)) return sp_fail(SP_E_UNSUPPORTED, "not UTF-8");
    const char *slash = strrchr(r->path, '/');
    s->value.n = 0;
    SP_TRY(sp_bytes_addf(&s->value, "%s > %s", slash ? slash + 1 : r->path, sheet->value));
    return sp_table_read_as(r, &s->value, s->out.v, s->out.n);
}

sp_err sp_xlsx_read(sp_reading *r, const char *data, size_t n)
{
    sheet_reader s = {.left = SP_DOC_MAX_BYTES};
    SP_TRY(sp_archive_open(data, n, &s.a));
    sp_err err = read_workbook(&s);
    for (size_t i = 0; i < s.sheets.n && err == SP_OK; i++) err = read_sheet(r, &s, &s.sheets.v[i]);
    free_names(&s.formats);
    sp_dict_fini(&s.by_number);
    free_names(&s.sheets);
    sp_relations_fini(&s.files);
    sp_vec_fini(&s.shown);
    sp_vec_fini(&s.ends);
    sp_vec_fini(&s.strings);
    sp_vec_fini(&s.own);
    sp_vec_fini(&s.value);
    sp_vec_fini(&s.out);
    sp_vec_fini(&s.cell);
    sp_archive_close(&s.a);
    return err;
}
