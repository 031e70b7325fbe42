/* office.c -- DOCX and PPTX (ECMA-376), ODT and ODP (OASIS OpenDocument) as Markdown.
 *
 * All are XML in a zip archive, and much alike: paragraphs, some of them headings or list items,
 * and tables of cells of paragraphs. One walk serves all; a table for each format says which role
 * an element has. A paragraph is collected in `para` and written when it ends: with the marks of a
 * heading or an item, or into the row of the table around it. Headers, footers and notes follow the text.
 * Deleted text, comments and the second rendering of alternative content are left out.
 */
#include "retrieve/documents/archive_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "retrieve/text/text.h"

typedef enum role {
    ROLE_NONE,
    ROLE_PARAGRAPH,
    ROLE_STYLE,       /* DOCX: the paragraph's style, which may make it a heading */
    ROLE_LEVEL,       /* DOCX: the paragraph's own outline level */
    ROLE_PLACEHOLDER, /* PPTX, ODP: what the shape is for; that of a title makes its paragraph a heading */
    ROLE_SHAPE,       /* PPTX: another shape begins */
    ROLE_PAGE,        /* ODP: a slide, with its notes */
    ROLE_LIST,        /* DOCX: the paragraph is an item */
    ROLE_ITEM,        /* ODT: what is inside is an item */
    ROLE_TEXT,        /* DOCX: only text in here counts */
    ROLE_BLANK,
    ROLE_HYPHEN,
    ROLE_TABLE,
    ROLE_ROW,
    ROLE_CELL,
    ROLE_NOTE, /* ODT: a footnote or an endnote, inside of a paragraph */
    ROLE_HIDDEN,
} role;

typedef struct element {
    const char *name;
    role role;
} element;

static const element docx_elements[] = {
    {"p", ROLE_PARAGRAPH},     {"pStyle", ROLE_STYLE},    {"outlineLvl", ROLE_LEVEL},
    {"numPr", ROLE_LIST},      {"t", ROLE_TEXT},          {"tab", ROLE_BLANK},
    {"br", ROLE_BLANK},        {"cr", ROLE_BLANK},        {"noBreakHyphen", ROLE_HYPHEN},
    {"tbl", ROLE_TABLE},       {"tr", ROLE_ROW},          {"tc", ROLE_CELL},
    {"Fallback", ROLE_HIDDEN}, {"moveFrom", ROLE_HIDDEN}, {"del", ROLE_HIDDEN},
    {NULL, ROLE_NONE},
};

static const element pptx_elements[] = {
    {"p", ROLE_PARAGRAPH}, {"ph", ROLE_PLACEHOLDER},  {"t", ROLE_TEXT},  {"sp", ROLE_SHAPE},
    {"br", ROLE_BLANK},    {"tbl", ROLE_TABLE},       {"tr", ROLE_ROW},
    {"tc", ROLE_CELL},     {"Fallback", ROLE_HIDDEN}, {NULL, ROLE_NONE},
};

static const element odt_elements[] = {
    {"p", ROLE_PARAGRAPH},
    {"h", ROLE_PARAGRAPH},
    {"list-item", ROLE_ITEM},
    {"s", ROLE_BLANK},
    {"tab", ROLE_BLANK},
    {"line-break", ROLE_BLANK},
    {"table", ROLE_TABLE},
    {"table-row", ROLE_ROW},
    {"table-cell", ROLE_CELL},
    {"annotation", ROLE_HIDDEN},
    {"tracked-changes", ROLE_HIDDEN},
    {"note", ROLE_NOTE},
    {"note-citation", ROLE_HIDDEN},
    {NULL, ROLE_NONE},
};

static const element odp_elements[] = {
    {"page", ROLE_PAGE},          {"frame", ROLE_PLACEHOLDER}, {"p", ROLE_PARAGRAPH},
    {"h", ROLE_PARAGRAPH},        {"list-item", ROLE_ITEM},    {"s", ROLE_BLANK},
    {"tab", ROLE_BLANK},          {"line-break", ROLE_BLANK},  {"table", ROLE_TABLE},
    {"table-row", ROLE_ROW},      {"table-cell", ROLE_CELL},   {"annotation", ROLE_HIDDEN},
    {"header-decl", ROLE_HIDDEN}, {"footer-decl", ROLE_HIDDEN}, {"date-time-decl", ROLE_HIDDEN},
    {NULL, ROLE_NONE},
};

typedef struct style {
    char *id;
    int level;
} style;

/* What goes on after a note. */
typedef struct around {
    sp_bytes para;
    int heading, n_items, n_tables;
    bool item;
} around;

typedef struct writer {
    const element *elements;
    xmlTextReader *x;
    sp_bytes out, para, value;
    sp_bytes aside; /* ODT: the notes, which follow the text; inside of one it is `out`, and this the text */
    around around;
    SP_VEC(style) styles; /* DOCX: the paragraph styles that are headings */
    int heading;          /* level of this paragraph, 0: none */
    bool item, odt;
    bool notes, silent;   /* PPTX: reading the notes of a slide; this shape is not their text */
    sp_marks marks;       /* of slides */
    int n_items, n_tables, n_texts, n_paragraphs, n_notes; /* elements around the current node */
} writer;

static role role_of(const writer *w, const char *name)
{
    for (const element *e = w->elements; e->name; e++)
        if (strcmp(e->name, name) == 0) return e->role;
    return ROLE_NONE;
}

/* -- DOCX styles ------------------------------------------------------------------------------ */

/* heading_level -- of a style's name: "heading 2" is 2, "Title" 1, in any language of the program
 * that wrote it. */
static int heading_level(const char *name)
{
    if (strcasecmp(name, "title") == 0) return 1;
    if (strncasecmp(name, "heading ", 8) != 0) return 0;
    int level = atoi(name + 8);
    return level >= 1 && level <= 9 ? level : 0;
}

static sp_err attribute(writer *w, const char *name, bool *found)
{
    w->value.n = 0;
    SP_TRY(sp_xml_attribute(w->x, name, &w->value, found));
    return sp_bytes_add(&w->value, "", 1);
}

static sp_err add_style(writer *w, const char *id, int level)
{
    SP_TRY(sp_vec_reserve(&w->styles, 1));
    char *copy = sp_strdup_n(id, strlen(id));
    if (!copy) return sp_fail_nomem("a style");
    w->styles.v[w->styles.n++] = (style){copy, level};
    return SP_OK;
}

/* take_style -- a <w:style> begins: its id is kept in *id; its <w:name> says what it is. */
static sp_err take_style(writer *w, sp_bytes *id)
{
    bool found;
    if (sp_xml_is(w->x, XML_READER_TYPE_ELEMENT, "style")) {
        id->n = 0;
        SP_TRY(sp_xml_attribute(w->x, "styleId", id, &found));
        return sp_bytes_add(id, "", 1);
    }
    if (!sp_xml_is(w->x, XML_READER_TYPE_ELEMENT, "name") || !id->n) return SP_OK;
    SP_TRY(attribute(w, "val", &found));
    int level = heading_level(w->value.v);
    return level && w->styles.n < 64 ? add_style(w, id->v, level) : SP_OK;
}

/* read_styles -- a file without styles has no headings. */
static sp_err read_styles(writer *w, sp_archive *a, const char *file)
{
    sp_bytes own = {0}, id = {0};
    bool more = true;
    sp_err err = sp_archive_xml(a, file, &own, &w->x);
    while (err == SP_OK && more && (err = sp_xml_next(w->x, &more)) == SP_OK && more)
        err = take_style(w, &id);
    if (w->x) xmlFreeTextReader(w->x);
    w->x = NULL;
    sp_vec_fini(&own);
    sp_vec_fini(&id);
    return err == SP_E_NOTFOUND || err == SP_E_UNSUPPORTED ? SP_OK : err;
}

static sp_err set_heading(writer *w, role r)
{
    bool found;
    if (r == ROLE_PLACEHOLDER) {
        SP_TRY(attribute(w, w->odt ? "class" : "type", &found));
        w->silent = w->notes && strcmp(w->value.v, "body") != 0; /* slide number, date, picture of the slide */
        bool title = strcmp(w->value.v, "title") == 0 || strcmp(w->value.v, "ctrTitle") == 0;
        w->heading = found && title;
        return SP_OK;
    }
    SP_TRY(attribute(w, "val", &found));
    if (!found) return SP_OK;
    if (r == ROLE_LEVEL) {
        int level = atoi(w->value.v) + 1;
        w->heading = level >= 1 && level <= 9 ? level : 0;
        return SP_OK;
    }
    for (size_t i = 0; i < w->styles.n; i++)
        if (strcmp(w->styles.v[i].id, w->value.v) == 0) w->heading = w->styles.v[i].level;
    return SP_OK;
}

/* -- writing ---------------------------------------------------------------------------------- */

static sp_err add(sp_bytes *b, const char *s)
{
    return sp_bytes_add(b, s, strlen(s));
}

/* add_text -- with each run of blanks as one. */
static sp_err add_text(writer *w, const char *s)
{
    size_t n = strlen(s);
    for (size_t at = 0; at < n;) {
        bool blank = sp_is_blank(s[at]);
        size_t from = at;
        while (at < n && sp_is_blank(s[at]) == blank) at++;
        bool wanted = w->para.n && w->para.v[w->para.n - 1] != ' ';
        if (!blank)
            SP_TRY(sp_bytes_add(&w->para, s + from, at - from));
        else if (wanted)
            SP_TRY(add(&w->para, " "));
    }
    return SP_OK;
}

/* end_paragraph -- writes what was collected. Items and the paragraphs of a cell are one line. */
static sp_err end_paragraph(writer *w)
{
    static const char marks[] = "######";
    size_t n = sp_trim_end(w->para.v, 0, w->para.n);
    bool item = w->item || w->n_items;
    int heading = w->heading;
    w->para.n = 0;
    w->heading = 0;
    w->item = false;
    if (!n) return SP_OK;
    if (w->n_tables) {
        SP_TRY(sp_bytes_add(&w->out, w->para.v, n));
        return add(&w->out, " ");
    }
    if (heading)
        SP_TRY(sp_bytes_addf(&w->out, "%.*s ", SP_MIN(heading, 6), marks));
    else if (item)
        SP_TRY(add(&w->out, "- "));
    SP_TRY(sp_bytes_add(&w->out, w->para.v, n));
    return add(&w->out, item && !heading ? "\n" : "\n\n");
}

static sp_err mark_slide(writer *w)
{
    SP_TRY(sp_vec_reserve(&w->marks, 1));
    const int64_t number = (int64_t)w->marks.n + 1;
    w->marks.v[w->marks.n++] = (sp_mark){w->out.n, number};
    w->heading = 0;
    return SP_OK;
}

static void swap_notes(writer *w)
{
    const sp_bytes out = w->out;
    w->out = w->aside;
    w->aside = out;
}

/* open_note -- a note in a note is part of it. */
static sp_err open_note(writer *w)
{
    if (w->n_notes++) return SP_OK;
    w->around = (around){w->para, w->heading, w->n_items, w->n_tables, w->item};
    w->para = (sp_bytes){0};
    w->heading = w->n_items = w->n_tables = w->item = 0;
    swap_notes(w);
    return SP_OK;
}

static sp_err close_note(writer *w)
{
    if (--w->n_notes) return SP_OK;
    sp_vec_fini(&w->para);
    w->para = w->around.para;
    w->heading = w->around.heading;
    w->n_items = w->around.n_items;
    w->n_tables = w->around.n_tables;
    w->item = w->around.item;
    w->around = (around){0};
    swap_notes(w);
    return SP_OK;
}

static sp_err open_element(writer *w, role r)
{
    bool found, title;
    switch (r) {
    case ROLE_PARAGRAPH:
        title = w->heading && (w->elements == pptx_elements || w->elements == odp_elements); /* the shape said so */
        SP_TRY(end_paragraph(w));                           /* of a text box inside a paragraph */
        w->heading = title;
        w->n_paragraphs++;
        if (!w->odt || !sp_xml_is(w->x, XML_READER_TYPE_ELEMENT, "h")) return SP_OK;
        SP_TRY(attribute(w, "outline-level", &found));
        w->heading = found ? SP_MAX(1, atoi(w->value.v)) : 1;
        return SP_OK;
    case ROLE_STYLE:
    case ROLE_LEVEL:
    case ROLE_PLACEHOLDER:
        return set_heading(w, r);
    case ROLE_SHAPE:
        w->silent = false;
        return SP_OK;
    case ROLE_PAGE:
        return mark_slide(w);
    case ROLE_NOTE:
        return open_note(w);
    case ROLE_LIST:
        w->item = true;
        return SP_OK;
    case ROLE_BLANK:
        return add_text(w, " ");
    case ROLE_HYPHEN:
        return add_text(w, "-");
    case ROLE_ROW:
        return w->n_tables == 1 ? add(&w->out, "| ") : SP_OK;
    default:
        w->n_items += r == ROLE_ITEM;
        w->n_tables += r == ROLE_TABLE;
        w->n_texts += r == ROLE_TEXT;
        return r == ROLE_TABLE && w->n_tables == 1 ? add(&w->out, "\n") : SP_OK;
    }
}

static sp_err close_element(writer *w, role r)
{
    switch (r) {
    case ROLE_PARAGRAPH:
        w->n_paragraphs--;
        return end_paragraph(w);
    case ROLE_CELL:
        return w->n_tables == 1 ? add(&w->out, "| ") : SP_OK;
    case ROLE_ROW:
        return w->n_tables == 1 ? add(&w->out, "\n") : SP_OK;
    case ROLE_TABLE:
        w->n_tables--;
        return w->n_tables ? SP_OK : add(&w->out, "\n");
    case ROLE_NOTE:
        return close_note(w);
    default:
        w->n_items -= r == ROLE_ITEM;
        w->n_texts -= r == ROLE_TEXT;
        return SP_OK;
    }
}

static bool counts_as_text(const writer *w, int kind)
{
    bool text = kind == XML_READER_TYPE_TEXT || kind == XML_READER_TYPE_SIGNIFICANT_WHITESPACE ||
                kind == XML_READER_TYPE_WHITESPACE;
    return text && !w->silent && (w->odt ? w->n_paragraphs > 0 : w->n_texts > 0);
}

/* walk -- the nodes of the body; what is hidden is skipped with all inside. */
static sp_err walk(writer *w)
{
    bool more = true;
    int hidden = -1; /* depth of the hidden element around, or -1 */
    while (more) {
        SP_TRY(sp_xml_next(w->x, &more));
        if (!more) break;
        int kind = xmlTextReaderNodeType(w->x), depth = xmlTextReaderDepth(w->x);
        if (hidden >= 0 && depth > hidden) continue;
        role r = role_of(w, sp_xml_name(w->x));
        bool opens = kind == XML_READER_TYPE_ELEMENT, empty = xmlTextReaderIsEmptyElement(w->x);
        hidden = opens && r == ROLE_HIDDEN && !empty ? depth : -1;
        if (counts_as_text(w, kind)) SP_TRY(add_text(w, sp_xml_text(w->x)));
        if (opens) SP_TRY(open_element(w, r));
        bool closes = kind == XML_READER_TYPE_END_ELEMENT || (opens && empty);
        if (closes) SP_TRY(close_element(w, r));
    }
    return SP_OK;
}

/* -- the formats ------------------------------------------------------------------------------ */

static sp_err read_body(writer *w, sp_archive *a, const char *name, sp_bytes *own)
{
    SP_TRY(sp_archive_xml(a, name, own, &w->x));
    w->n_items = w->n_tables = w->n_texts = w->n_paragraphs = w->n_notes = 0;
    sp_err err = walk(w);
    xmlFreeTextReader(w->x);
    w->x = NULL;
    return err;
}

/* is_margin -- DOCX: whether an entry has headers, footers or notes. */
static bool is_margin(const char *name)
{
    static const char *const begins[] = {"word/footnotes", "word/endnotes", "word/header", "word/footer"};
    for (size_t i = 0; name && i < SP_COUNT(begins); i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0) return true;
    return false;
}

/* read_margins -- DOCX: headers, footers and notes, after the body, each text once. */
static sp_err read_margins(writer *w, sp_archive *a)
{
    sp_bytes own = {0};
    sp_err err = SP_OK;
    zip_int64_t n = w->odt ? 0 : zip_get_num_entries(a->zip, 0);
    size_t all = w->out.n;
    for (zip_int64_t i = 0; i < n && err == SP_OK; i++) {
        const char *name = zip_get_name(a->zip, (zip_uint64_t)i, 0);
        if (!is_margin(name)) continue;
        size_t from = w->out.n;
        err = read_body(w, a, name, &own);
        if (err == SP_E_UNSUPPORTED) { /* a damaged one costs no document */
            err = SP_OK;
            w->out.n = from;
        }
        size_t length = w->out.n - from;
        if (length && memmem(w->out.v + all, from - all, w->out.v + from, length)) w->out.n = from;
    }
    w->para.n = 0;
    sp_vec_fini(&own);
    return err;
}

/* add_notes -- ODT: after the text, which may end with an item. */
static sp_err add_notes(writer *w)
{
    if (!w->aside.n) return SP_OK;
    SP_TRY(add(&w->out, "\n"));
    return sp_bytes_add(&w->out, w->aside.v, w->aside.n);
}

static sp_err read_office(sp_reading *r, writer *w, sp_archive *a, const char *const names[2])
{
    sp_bytes own = {0}, title = {0};
    sp_err err = read_body(w, a, names[0], &own);
    if (err == SP_E_NOTFOUND) err = sp_fail_in(SP_E_UNSUPPORTED, "not a document of this format");
    if (err == SP_OK) err = read_margins(w, a);
    if (err == SP_OK) err = add_notes(w);
    if (err == SP_OK) err = sp_archive_title(a, names[1], &title);
    if (err == SP_OK) {
        sp_document d = {
            .text = w->out.n ? w->out.v : "", .n = w->out.n, .syntax = SP_SYNTAX_MARKDOWN};
        err = sp_document_emit(r, &d, &title);
    }
    sp_vec_fini(&own);
    sp_vec_fini(&title);
    return err;
}

static void fini(writer *w, sp_archive *a)
{
    for (size_t i = 0; i < w->styles.n; i++) sp_free(w->styles.v[i].id);
    sp_vec_fini(&w->styles);
    sp_vec_fini(&w->out);
    sp_vec_fini(&w->aside);
    sp_vec_fini(&w->para);
    sp_vec_fini(&w->around.para);
    sp_vec_fini(&w->value);
    sp_vec_fini(&w->marks);
    sp_archive_close(a);
}

static sp_err read_docx(sp_reading *r, writer *w, sp_archive *a)
{
    sp_bytes body = {0};
    sp_relations parts = {0};
    sp_err err = sp_main_part(a, "word/document.xml", &body);
    const bool other = err == SP_OK && (strncmp(body.v, "xl/", 3) == 0 || strncmp(body.v, "ppt/", 4) == 0);
    if (err == SP_OK) err = sp_relations_read(a, body.v, &parts);
    if (err == SP_E_UNSUPPORTED) err = SP_OK; /* damaged relations count as none */
    if (other) err = sp_fail(SP_E_UNSUPPORTED, "not a text of Word: its main part is %.40s", body.v);
    const char *styles = sp_relation_by_type(&parts, "styles");
    if (err == SP_OK) err = read_styles(w, a, styles ? styles : "word/styles.xml");
    if (err == SP_OK) err = read_office(r, w, a, (const char *const[]){body.v, "docProps/core.xml"});
    sp_relations_fini(&parts);
    sp_vec_fini(&body);
    return err;
}

sp_err sp_docx_read(sp_reading *r, const char *data, size_t n)
{
    sp_archive a = {0};
    writer w = {.elements = docx_elements};
    SP_TRY(sp_archive_open(data, n, &a));
    sp_err err = read_docx(r, &w, &a);
    fini(&w, &a);
    return err;
}

/* -- slides ----------------------------------------------------------------------------------- */

/* The files of the slides, in order. */
typedef struct slide_list {
    sp_relations relations; /* of the presentation, which own the names */
    SP_VEC(const char *) files;
} slide_list;

static sp_err add_slide(slide_list *l, sp_archive *a, const char *file)
{
    if (!file || zip_name_locate(a->zip, file, 0) < 0) return SP_OK;
    SP_TRY(sp_vec_reserve(&l->files, 1));
    l->files.v[l->files.n++] = file;
    return SP_OK;
}

/* list_presented -- the slides that the presentation names: <p:sldId id="256" r:id="rId2"/>. */
static sp_err list_presented(slide_list *l, sp_archive *a, const char *presentation)
{
    sp_bytes own = {0}, id = {0};
    xmlTextReader *x = NULL;
    bool more = true, found = false;
    sp_err err = sp_relations_read(a, presentation, &l->relations);
    if (err == SP_OK) err = sp_archive_xml(a, presentation, &own, &x);
    while (err == SP_OK && (err = sp_xml_next(x, &more)) == SP_OK && more) {
        if (!sp_xml_is(x, XML_READER_TYPE_ELEMENT, "sldId")) continue;
        id.n = 0;
        err = sp_xml_reference(x, &id, &found);
        if (err == SP_OK) err = sp_bytes_add(&id, "", 1);
        if (err == SP_OK) err = add_slide(l, a, sp_relation_by_id(&l->relations, id.v));
    }
    if (x) xmlFreeTextReader(x);
    sp_vec_fini(&own);
    sp_vec_fini(&id);
    return err == SP_E_NOTFOUND || err == SP_E_UNSUPPORTED ? SP_OK : err;
}

static int number_of(const char *name)
{
    char rest[8] = "";
    int number;
    const int n = name ? sscanf(name, "ppt/slides/slide%9d%7s", &number, rest) : 0;
    return n == 2 && strcmp(rest, ".xml") == 0 ? number : -1;
}

static int by_number(const void *a, const void *b)
{
    const int x = number_of(*(const char *const *)a), y = number_of(*(const char *const *)b);
    return (x > y) - (x < y);
}

/* list_numbered -- without a list: all ppt/slides/slideN.xml, by number. */
static sp_err list_numbered(slide_list *l, sp_archive *a)
{
    zip_int64_t n = zip_get_num_entries(a->zip, 0);
    for (zip_int64_t i = 0; i < n; i++) {
        const char *name = zip_get_name(a->zip, (zip_uint64_t)i, 0);
        if (number_of(name) >= 0) SP_TRY(add_slide(l, a, name));
    }
    if (l->files.n) qsort(l->files.v, l->files.n, sizeof *l->files.v, by_number);
    return SP_OK;
}

static sp_err list_slides(slide_list *l, sp_archive *a)
{
    sp_bytes presentation = {0};
    sp_err err = sp_main_part(a, "ppt/presentation.xml", &presentation);
    if (err == SP_OK) err = list_presented(l, a, presentation.v);
    if (err == SP_OK && !l->files.n) err = list_numbered(l, a);
    sp_vec_fini(&presentation);
    if (err == SP_OK && !l->files.n) err = sp_fail(SP_E_UNSUPPORTED, "it has no slides");
    return err;
}

/* read_notes -- what the speaker says to a slide, after it. Damaged notes cost no document. */
static sp_err read_notes(writer *w, sp_archive *a, const char *slide)
{
    sp_relations parts = {0};
    sp_bytes own = {0};
    const size_t from = w->out.n;
    sp_err err = sp_relations_read(a, slide, &parts);
    const char *file = err == SP_OK ? sp_relation_by_type(&parts, "notesSlide") : NULL;
    w->notes = true;
    if (file) err = read_body(w, a, file, &own);
    w->notes = w->silent = false;
    if (err == SP_E_UNSUPPORTED || err == SP_E_NOTFOUND) {
        err = SP_OK;
        w->out.n = from;
        w->para.n = 0;
    }
    sp_relations_fini(&parts);
    sp_vec_fini(&own);
    return err;
}

static sp_err read_slides(writer *w, sp_archive *a)
{
    slide_list l = {0};
    sp_bytes own = {0};
    sp_err err = list_slides(&l, a);
    for (size_t i = 0; i < l.files.n && err == SP_OK; i++) {
        err = mark_slide(w);
        if (err == SP_OK) err = read_body(w, a, l.files.v[i], &own);
        if (err == SP_OK) err = read_notes(w, a, l.files.v[i]);
        w->heading = 0;
    }
    sp_relations_fini(&l.relations);
    sp_vec_fini(&l.files);
    sp_vec_fini(&own);
    return err;
}

/* emit_slides -- meta: the file with the title. */
static sp_err emit_slides(sp_reading *r, writer *w, sp_archive *a, const char *meta)
{
    sp_bytes title = {0};
    sp_err err = sp_archive_title(a, meta, &title);
    sp_document d = {.text = w->out.n ? w->out.v : "",
                     .n = w->out.n,
                     .syntax = SP_SYNTAX_MARKDOWN,
                     .place = SP_PLACE_MARKED_PAGES,
                     .marks = w->marks.v,
                     .n_marks = w->marks.n};
    if (err == SP_OK) err = sp_document_emit(r, &d, &title);
    sp_vec_fini(&title);
    return err;
}

sp_err sp_pptx_read(sp_reading *r, const char *data, size_t n)
{
    sp_archive a = {0};
    writer w = {.elements = pptx_elements};
    SP_TRY(sp_archive_open(data, n, &a));
    sp_err err = read_slides(&w, &a);
    if (err == SP_OK) err = emit_slides(r, &w, &a, "docProps/core.xml");
    fini(&w, &a);
    return err;
}

sp_err sp_odp_read(sp_reading *r, const char *data, size_t n)
{
    sp_archive a = {0};
    writer w = {.elements = odp_elements, .odt = true};
    sp_bytes own = {0};
    SP_TRY(sp_archive_open(data, n, &a));
    sp_err err = read_body(&w, &a, "content.xml", &own);
    if (err == SP_E_NOTFOUND) err = sp_fail_in(SP_E_UNSUPPORTED, "not a document of this format");
    if (err == SP_OK && !w.marks.n) err = sp_fail(SP_E_UNSUPPORTED, "it has no slides");
    if (err == SP_OK) err = emit_slides(r, &w, &a, "meta.xml");
    sp_vec_fini(&own);
    fini(&w, &a);
    return err;
}

sp_err sp_odt_read(sp_reading *r, const char *data, size_t n)
{
    static const char *const names[] = {"content.xml", "meta.xml"};
    sp_archive a = {0};
    writer w = {.elements = odt_elements, .odt = true};
    SP_TRY(sp_archive_open(data, n, &a));
    sp_err err = read_office(r, &w, &a, names);
    fini(&w, &a);
    return err;
}
