/* xml.c -- the texts of any XML file.
 *
 *     <film year="1995"><title>Heat</title>     ──>   title: Heat
 *       <plot>A <b>thief</b> and ...</plot>           plot: A thief and ...
 *     </film>
 *
 * An element that has text of its own is a line, with what is inside it; other elements separate lines by
 * a blank one, so that a record stays together. Attributes count if they are names or descriptions. */
#include "retrieve/documents/archive_int.h"

#include <limits.h>
#include <string.h>

#include "retrieve/documents/libxml.h"
#include "retrieve/text/text.h"

typedef struct writer {
    xmlTextReader *x;
    sp_bytes out, name; /* name: of the last element that began, while nothing ended since */
    sp_marks marks;
    int inside; /* depth of the element whose line is being written, or -1 */
} writer;

/* begin_line -- for the texts of the element around the current node. */
static sp_err begin_line(writer *w, const char *name, size_t n)
{
    SP_TRY(sp_vec_reserve(&w->marks, 1));
    const int64_t least = w->marks.n ? w->marks.v[w->marks.n - 1].number : 1;
    const int64_t line = SP_MAX(sp_libxml_line(w->x), least); /* text after an inner element: at least that one's */
    w->marks.v[w->marks.n++] = (sp_mark){w->out.n, line};
    if (!n) return SP_OK;
    SP_TRY(sp_bytes_add(&w->out, name, n));
    return sp_bytes_add(&w->out, ": ", 2);
}

/* add_words -- with each run of blanks as one; NUL cannot be in XML. */
static sp_err add_words(writer *w, const char *s)
{
    size_t n = strlen(s);
    for (size_t at = 0; at < n;) {
        size_t from = at;
        bool blank = sp_is_blank(s[at]);
        while (at < n && sp_is_blank(s[at]) == blank) at++;
        bool wanted = w->out.n && !sp_is_blank(w->out.v[w->out.n - 1]);
        if (!blank)
            SP_TRY(sp_bytes_add(&w->out, s + from, at - from));
        else if (wanted)
            SP_TRY(sp_bytes_add(&w->out, " ", 1));
    }
    return w->out.n > SP_DOC_MAX_BYTES ? sp_fail(SP_E_LIMIT, "too much text") : SP_OK;
}

static bool is_blank(const char *s)
{
    return sp_skip_blanks(s, 0, strlen(s)) == strlen(s);
}

static sp_err take_text(writer *w, int depth)
{
    const char *text = sp_xml_text(w->x);
    if (w->inside < 0) {
        if (is_blank(text)) return SP_OK;
        w->inside = depth - 1;
        SP_TRY(begin_line(w, w->name.v, w->name.n));
    }
    return add_words(w, text);
}

/* take_attributes -- those that are useful to a reader, as lines of their own. */
static sp_err take_attributes(writer *w)
{
    static const char *const wanted[] = {"name",        "title",   "label", "value",
                                         "description", "summary", "text"};
    sp_bytes value = {0};
    sp_err err = SP_OK;
    for (size_t i = 0; i < SP_COUNT(wanted) && err == SP_OK; i++) {
        bool found;
        value.n = 0;
        err = sp_xml_attribute(w->x, wanted[i], &value, &found);
        if (err == SP_OK) err = sp_bytes_add(&value, "", 1);
        if (err != SP_OK || !found || is_blank(value.v)) continue;
        err = begin_line(w, wanted[i], strlen(wanted[i]));
        if (err == SP_OK) err = add_words(w, value.v);
        if (err == SP_OK) err = sp_bytes_add(&w->out, "\n", 1);
    }
    sp_vec_fini(&value);
    return err;
}

static sp_err open_element(writer *w)
{
    if (w->inside >= 0) return add_words(w, " ");
    SP_TRY(take_attributes(w));
    w->name.n = 0;
    return sp_bytes_add(&w->name, sp_xml_name(w->x), strlen(sp_xml_name(w->x)));
}

static sp_err close_element(writer *w, int depth)
{
    w->name.n = 0;
    if (w->inside >= 0 && depth > w->inside) return SP_OK;
    bool line = w->inside >= 0;
    w->inside = -1;
    if (line) return sp_bytes_add(&w->out, "\n", 1);
    bool parted = w->out.n < 2 || memcmp(w->out.v + w->out.n - 2, "\n\n", 2) == 0;
    return parted ? SP_OK : sp_bytes_add(&w->out, "\n", 1);
}

static sp_err walk(writer *w)
{
    for (bool more = true;;) {
        SP_TRY(sp_xml_next(w->x, &more));
        if (!more) return SP_OK;
        int depth = xmlTextReaderDepth(w->x);
        switch (xmlTextReaderNodeType(w->x)) {
        case XML_READER_TYPE_TEXT:
        case XML_READER_TYPE_CDATA:
        case XML_READER_TYPE_WHITESPACE:
        case XML_READER_TYPE_SIGNIFICANT_WHITESPACE:
            SP_TRY(take_text(w, depth));
            break;
        case XML_READER_TYPE_ELEMENT: {
            bool empty = xmlTextReaderIsEmptyElement(w->x);
            SP_TRY(open_element(w));
            if (empty) w->name.n = 0;
            break;
        }
        case XML_READER_TYPE_END_ELEMENT:
            SP_TRY(close_element(w, depth));
            break;
        default:
            break;
        }
    }
}

static void ignore_error(void *user, const char *text, xmlParserSeverities severity,
                         xmlTextReaderLocatorPtr at)
{
}

static sp_err emit(sp_reading *r, writer *w)
{
    if (!sp_utf8_valid(w->out.v, w->out.n)) return sp_fail(SP_E_UNSUPPORTED, "not UTF-8");
    sp_document d = {.text = w->out.n ? w->out.v : "",
                     .n = w->out.n,
                     .syntax = SP_SYNTAX_CODE,
                     .place = SP_PLACE_MARKED_LINES,
                     .marks = w->marks.v,
                     .n_marks = w->marks.n};
    return sp_document_emit(r, &d, NULL);
}

sp_err sp_xml_read(sp_reading *r, const char *s, size_t n)
{
    const int options = XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING |
                        XML_PARSE_COMPACT | XML_PARSE_NOCDATA;
    if (n == 0 || n > INT_MAX) return sp_fail(SP_E_UNSUPPORTED, "XML of %zu bytes", n);
    SP_TRY(sp_libxml_enter());
    writer w = {.inside = -1};
    w.x = xmlReaderForMemory(s, (int)n, NULL, NULL, options);
    if (!w.x) return sp_fail_nomem("an XML parser");
    xmlTextReaderSetErrorHandler(w.x, ignore_error, NULL);
    sp_err err = sp_vec_reserve(&w.out, 1);
    if (err == SP_OK) err = walk(&w);
    if (err == SP_OK) err = emit(r, &w);
    xmlFreeTextReader(w.x);
    sp_vec_fini(&w.out);
    sp_vec_fini(&w.name);
    sp_vec_fini(&w.marks);
    return err;
}
