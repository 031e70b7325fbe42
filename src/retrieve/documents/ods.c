/* ods.c -- ODS (OASIS OpenDocument): each sheet becomes a table of tab-separated cells, which the reader of tables
 * then reads, as in sheets.c.
 *
 *   content.xml   table > table-row > table-cell > p     rows and cells may stand for several equal ones
 *
 * A cell has the text that it shows, but dates are as in ISO 8601. Comments and deleted cells are left out. */
#include "retrieve/documents/archive_int.h"

#include <stdlib.h>
#include <string.h>

#include "retrieve/text/text.h"

enum {
    MAX_COLUMN = 16384,
    MAX_ROWS = 1000 /* that one element stands for */
};

typedef struct ods_reader {
    sp_reading *r;
    sp_archive a;
    xmlTextReader *x;
    sp_bytes own, value, name; /* name: of the sheet */
    sp_bytes out, cell;        /* the table; the text of the current cell */
    int n_sheets, n_tables, n_texts; /* n_tables, n_texts: elements around the current node */
    int n_rows, n_cells;       /* that the current row and cell stand for */
    int column, written;       /* cells of this row so far; those in `out` */
    size_t row_at;             /* where it begins in `out` */
    bool dated;                /* the cell's text is its date */
} ods_reader;

/* attribute -- in o->value, NUL-terminated; "" when it is not there. */
static sp_err attribute(ods_reader *o, const char *name)
{
    bool found;
    o->value.n = 0;
    SP_TRY(sp_xml_attribute(o->x, name, &o->value, &found));
    return sp_bytes_add(&o->value, "", 1);
}

/* count_of -- how many an element stands for. */
static sp_err count_of(ods_reader *o, const char *name, int most, int *out)
{
    SP_TRY(attribute(o, name));
    const long n = strtol(o->value.v, NULL, 10);
    *out = n < 1 ? 1 : n > most ? most : (int)n;
    return SP_OK;
}

/* -- cells ------------------------------------------------------------------------------------ */

/* take_date -- "2024-05-01T00:00:00" is a day, "2024-05-01T07:05:00" a day and a time. */
static sp_err take_date(ods_reader *o)
{
    SP_TRY(attribute(o, "date-value"));
    char *day = o->value.v, *time = strchr(day, 'T');
    o->dated = *day != 0;
    if (time) *time++ = '\0';
    SP_TRY(sp_bytes_add(&o->cell, day, strlen(day)));
    if (!time || strncmp(time, "00:00:00", 8) == 0) return SP_OK;
    const size_t n = strlen(time), n_minutes = n >= 8 && strncmp(time + 5, ":00", 3) == 0 ? 5 : n;
    SP_TRY(sp_bytes_add(&o->cell, " ", 1));
    return sp_bytes_add(&o->cell, time, n_minutes);
}

static sp_err begin_cell(ods_reader *o)
{
    SP_TRY(count_of(o, "number-columns-repeated", MAX_COLUMN, &o->n_cells));
    o->cell.n = 0;
    o->dated = false;
    SP_TRY(attribute(o, "value-type"));
    return strcmp(o->value.v, "date") == 0 ? take_date(o) : SP_OK;
}

static sp_err check_size(const ods_reader *o)
{
    return o->out.n > SP_DOC_MAX_BYTES ? sp_fail(SP_E_LIMIT, "a sheet with too much text") : SP_OK;
}

/* end_cell -- empty cells at the end of a row are not written. */
static sp_err end_cell(ods_reader *o)
{
    const size_t n = sp_trim_end(o->cell.v ? o->cell.v : "", 0, o->cell.n);
    const int end = SP_MIN(o->column + o->n_cells, MAX_COLUMN);
    while (n && o->column < end) {
        for (o->column++; o->written + 1 < o->column; o->written++) SP_TRY(sp_bytes_add(&o->out, "\t", 1));
        if (o->written) SP_TRY(sp_bytes_add(&o->out, "\t", 1));
        o->written++;
        SP_TRY(sp_bytes_add(&o->out, o->cell.v, n));
        SP_TRY(check_size(o));
    }
    o->column = end;
    o->cell.n = 0;
    return SP_OK;
}

static sp_err add_text(ods_reader *o, const char *text)
{
    if (o->dated) return SP_OK;
    const size_t from = o->cell.n;
    SP_TRY(sp_bytes_add(&o->cell, text, strlen(text)));
    for (size_t i = from; i < o->cell.n; i++)
        if (sp_is_blank(o->cell.v[i])) o->cell.v[i] = ' ';
    return SP_OK;
}

/* -- rows and sheets -------------------------------------------------------------------------- */

static sp_err begin_row(ods_reader *o)
{
    o->column = o->written = 0;
    o->row_at = o->out.n;
    return count_of(o, "number-rows-repeated", MAX_ROWS, &o->n_rows);
}

/* end_row -- as often as it stands for. */
static sp_err end_row(ods_reader *o)
{
    const size_t from = o->row_at;
    SP_TRY(sp_bytes_add(&o->out, "\n", 1));
    const size_t n = o->out.n - from;
    for (int i = 1; i < o->n_rows; i++) {
        SP_TRY(sp_vec_reserve(&o->out, n));
        memcpy(o->out.v + o->out.n, o->out.v + from, n);
        o->out.n += n;
        SP_TRY(check_size(o));
    }
    return SP_OK;
}

static sp_err begin_sheet(ods_reader *o)
{
    o->out.n = o->name.n = 0;
    o->n_sheets++;
    SP_TRY(attribute(o, "name"));
    const char *slash = strrchr(o->r->path, '/');
    return sp_bytes_addf(&o->name, "%s > %s", slash ? slash + 1 : o->r->path, o->value.v);
}

static sp_err end_sheet(ods_reader *o)
{
    const size_t n = sp_trim_end(o->out.v ? o->out.v : "", 0, o->out.n); /* a sheet ends with rows that have nothing */
    if (!n) return SP_OK;
    if (!sp_utf8_valid(o->out.v, n)) return sp_fail(SP_E_UNSUPPORTED, "not UTF-8");
    return sp_table_read_as(o->r, &o->name, o->out.v, n);
}

static sp_err begins(ods_reader *o, const char *name)
{
    if (strcmp(name, "table") == 0) return o->n_tables++ ? SP_OK : begin_sheet(o);
    if (o->n_tables != 1) return SP_OK; /* a table in a cell */
    if (strcmp(name, "table-row") == 0) return begin_row(o);
    if (strcmp(name, "table-cell") == 0 || strcmp(name, "covered-table-cell") == 0) return begin_cell(o);
    const bool breaks = strcmp(name, "s") == 0 || strcmp(name, "tab") == 0 || strcmp(name, "line-break") == 0;
    const bool is_text = strcmp(name, "p") == 0;
    o->n_texts += is_text;
    return (is_text && o->cell.n) || (breaks && o->n_texts) ? add_text(o, " ") : SP_OK;
}

static sp_err ends(ods_reader *o, const char *name)
{
    if (strcmp(name, "table") == 0) return --o->n_tables ? SP_OK : end_sheet(o);
    if (o->n_tables != 1) return SP_OK;
    if (strcmp(name, "table-row") == 0) return end_row(o);
    if (strcmp(name, "table-cell") == 0 || strcmp(name, "covered-table-cell") == 0) return end_cell(o);
    o->n_texts -= strcmp(name, "p") == 0;
    return SP_OK;
}

static bool is_hidden(const char *name)
{
    return strcmp(name, "annotation") == 0 || strcmp(name, "tracked-changes") == 0 || strcmp(name, "shapes") == 0;
}

/* walk -- the nodes; what is hidden is skipped with all inside. */
static sp_err walk(ods_reader *o)
{
    bool more = true;
    int hidden = -1; /* depth of the hidden element around, or -1 */
    while (more) {
        SP_TRY(sp_xml_next(o->x, &more));
        if (!more) break;
        const int kind = xmlTextReaderNodeType(o->x), depth = xmlTextReaderDepth(o->x);
        if (hidden >= 0 && depth > hidden) continue;
        const char *name = sp_xml_name(o->x);
        const bool opens = kind == XML_READER_TYPE_ELEMENT, empty = xmlTextReaderIsEmptyElement(o->x);
        hidden = opens && !empty && is_hidden(name) ? depth : -1;
        if (hidden >= 0) continue;
        const bool text = kind == XML_READER_TYPE_TEXT || kind == XML_READER_TYPE_SIGNIFICANT_WHITESPACE ||
                          kind == XML_READER_TYPE_WHITESPACE;
        if (text && o->n_texts) SP_TRY(add_text(o, sp_xml_text(o->x)));
        if (opens) SP_TRY(begins(o, name));
        if (kind == XML_READER_TYPE_END_ELEMENT || (opens && empty)) SP_TRY(ends(o, name));
    }
    return o->n_sheets ? SP_OK : sp_fail(SP_E_UNSUPPORTED, "it has no sheets");
}

sp_err sp_ods_read(sp_reading *r, const char *data, size_t n)
{
    ods_reader o = {.r = r};
    SP_TRY(sp_archive_open(data, n, &o.a));
    sp_err err = sp_archive_xml(&o.a, "content.xml", &o.own, &o.x);
    if (err == SP_E_NOTFOUND) err = sp_fail_in(SP_E_UNSUPPORTED, "not a document of this format");
    if (err == SP_OK) err = walk(&o);
    if (o.x) xmlFreeTextReader(o.x);
    sp_vec_fini(&o.own);
    sp_vec_fini(&o.value);
    sp_vec_fini(&o.name);
    sp_vec_fini(&o.out);
    sp_vec_fini(&o.cell);
    sp_archive_close(&o.a);
    return err;
}
