/* documents_int.h -- the documents in a file: which formats there are, and their readers. */
#ifndef SP_RETRIEVE_DOCUMENTS_INT_H
#define SP_RETRIEVE_DOCUMENTS_INT_H

#include "base/mem.h"
#include "retrieve/chunker.h"

typedef enum sp_doc_format {
    SP_DOC_NONE, /* not a document */
    SP_DOC_TEXT,
    SP_DOC_MARKDOWN,
    SP_DOC_RST,
    SP_DOC_CODE,
    SP_DOC_JSONL,
    SP_DOC_HTML,
    SP_DOC_CSV,
    SP_DOC_TSV,
    SP_DOC_PDF,
    SP_DOC_DOCX,
    SP_DOC_ODT,
    SP_DOC_EPUB,
    SP_DOC_JSON,
    SP_DOC_NOTEBOOK,
    SP_DOC_XML,
    SP_DOC_XLSX,
    SP_DOC_PPTX,
    SP_DOC_ODS,
    SP_DOC_ODP,
    SP_DOC_MAIL,
    SP_DOC_RTF,
    SP_DOC_GZIP, /* of a text in one of these formats */
} sp_doc_format;

/* No reader makes more text than this of a file, and no archive unpacks to more. */
#define SP_DOC_MAX_BYTES ((size_t)256 << 20)

/* Where in its file a document's text comes from: from `offset` of the text on, line (or page)
 * `number`, until the next mark. */
typedef struct sp_mark {
    size_t offset;
    int64_t number;
} sp_mark;

typedef SP_VEC(sp_mark) sp_marks;

typedef enum sp_chunk_place {
    SP_PLACE_NONE,  /* the format has neither lines nor pages */
    SP_PLACE_LINES, /* the text is the file's own: count its line ends */
    SP_PLACE_MARKED_LINES,
    SP_PLACE_MARKED_PAGES,
} sp_chunk_place;

/* One document; everything is valid during the call only, and well-formed UTF-8 without NUL. */
typedef struct sp_document {
    const char *title; /* not NUL-terminated; may be empty */
    size_t n_title;
    const char *text;
    size_t n;
    sp_syntax syntax;
    int64_t line; /* of a document in a JSONL file, 0 in others */
    sp_chunk_place place;
    const sp_mark *marks; /* [n_marks] by offset */
    size_t n_marks;
} sp_document;

typedef sp_err sp_document_fn(const sp_document *d, void *user);

/* A file being read. `path` names it in errors, and its base name is the title of last resort. */
typedef struct sp_reading {
    const char *path;
    sp_document_fn *fn;
    void *user;
    bool strict;         /* a bad line of JSONL is an error */
    int64_t n_bad_lines; /* else it is counted here, and the first ones are named in the log */
} sp_reading;

/* sp_document_format -- by the suffix of a file name, ignoring case; some names without a suffix (README, Makefile)
 * have a format, too. */
sp_doc_format sp_document_format(const char *path);

/* sp_documents_read -- passes the documents in a file's content to r->fn, one after another.
 *
 *   format    documents  title                                            syntax     place
 *   text      one        the file's name                                  plain      lines
 *   Markdown  one        first heading, or the file's name                Markdown   lines
 *   RST       one        the same                                         RST        lines
 *   code      one        the file's name                                  code       lines
 *   JSONL     one a line its field title, or none                         plain      the line
 *   HTML      one        first heading, <title>, or the file's name       Markdown   marked lines
 *   CSV, TSV  one        the file's name; each row as "column: value; "   code       marked lines
 *   PDF       one        the file's name                                  plain      marked pages
 *   DOCX, ODT one        first heading, title property, or file's name    Markdown   none
 *   EPUB      one        the book's title, or as with DOCX                Markdown   none
 *
 *   JSON      one        the file's name; each value as "path: value"             code       none
 *             or one an object of an array that has text, as in JSONL
 *   notebook  one        first heading, or the file's name                 Markdown   none
 *   XML       one        the file's name; each text as "element: text"     code       marked lines
 *   XLSX, ODS one a sheet "file > sheet"; rows as in CSV                    code       marked lines
 *   PPTX, ODP one        first heading, title property, or file's name    Markdown   marked pages
 *   mail      one        the subject, or the file's name                  plain      none
 *   RTF       one        the file's name                                  plain      none
 *   gzip      those of the packed file; the name without .gz gives the format
 *
 * Text that is not UTF-8 is converted if its encoding can be detected (encoding.c).
 * Errors: SP_E_UNSUPPORTED (damaged, or no text) and SP_E_LIMIT (more than SP_DOC_MAX_BYTES): a
 * caller may skip the file; fn has not been called. SP_E_FORMAT: a bad line of JSONL, if strict.
 * SP_E_NOMEM, and what fn returns. */
sp_err sp_documents_read(sp_reading *r, sp_doc_format format, const char *data,
                         size_t n) SP_MUST_CHECK;

/* -- for the readers -------------------------------------------------------------------------- */

/* sp_document_emit -- hands over one document, its title from the first heading (Markdown and RST),
 * else `title` if it is not empty, else the file's name. */
sp_err sp_document_emit(sp_reading *r, sp_document *d, const sp_bytes *title) SP_MUST_CHECK;

/* sp_document_give -- the same with the title that it has. Its text is read without soft hyphens and ligatures
 * (letters.c). */
sp_err sp_document_give(sp_reading *r, sp_document *d) SP_MUST_CHECK;

/* sp_text_decode -- a file's bytes as UTF-8 in *text: data itself where it is UTF-8 (a byte order
 * mark left out), else a conversion in `own`. Errors: SP_E_UNSUPPORTED without the path. */
sp_err sp_text_decode(const char *data, size_t n, sp_bytes *own, const char **text,
                      size_t *n_text) SP_MUST_CHECK;

/* sp_text_is_escaped -- whether text in ASCII has an escape that ISO 2022 begins Chinese, Japanese and Korean with. */
bool sp_text_is_escaped(const char *s, size_t n);

/* sp_html_to_markdown -- the visible text of a page: headings, paragraphs, lists, tables, code. The
 * content of <title> goes to `title`. marks (may be NULL): lines of the page. A page without text
 * gives an empty `out`. */
sp_err sp_html_to_markdown(const char *html, size_t n, sp_bytes *out, sp_bytes *title,
                           sp_marks *marks) SP_MUST_CHECK;

/* Whole formats; errors as sp_documents_read. */
sp_err sp_jsonl_read(sp_reading *r, const char *s, size_t n) SP_MUST_CHECK;
sp_err sp_table_read(sp_reading *r, bool tabs, const char *s, size_t n) SP_MUST_CHECK;
/* sp_table_read_as -- a table of tab-separated cells with a title of its own; its lines are the marks. */
sp_err sp_table_read_as(sp_reading *r, const sp_bytes *title, const char *s,
                        size_t n) SP_MUST_CHECK;
sp_err sp_pdf_read(sp_reading *r, const char *data, size_t n) SP_MUST_CHECK;
/* sp_pdf_pages -- the second half of sp_pdf_read: text with a form feed after each page. */
sp_err sp_pdf_pages(sp_reading *r, const char *s, size_t n) SP_MUST_CHECK;
sp_err sp_docx_read(sp_reading *r, const char *data, size_t n) SP_MUST_CHECK;
sp_err sp_odt_read(sp_reading *r, const char *data, size_t n) SP_MUST_CHECK;
sp_err sp_epub_read(sp_reading *r, const char *data, size_t n) SP_MUST_CHECK;
sp_err sp_json_document_read(sp_reading *r, const char *s, size_t n) SP_MUST_CHECK;
sp_err sp_notebook_read(sp_reading *r, const char *s, size_t n) SP_MUST_CHECK;
sp_err sp_xml_read(sp_reading *r, const char *s, size_t n) SP_MUST_CHECK;
sp_err sp_xlsx_read(sp_reading *r, const char *data, size_t n) SP_MUST_CHECK;
sp_err sp_pptx_read(sp_reading *r, const char *data, size_t n) SP_MUST_CHECK;
sp_err sp_ods_read(sp_reading *r, const char *data, size_t n) SP_MUST_CHECK;
sp_err sp_odp_read(sp_reading *r, const char *data, size_t n) SP_MUST_CHECK;
sp_err sp_mail_read(sp_reading *r, const char *data, size_t n) SP_MUST_CHECK;
sp_err sp_rtf_read(sp_reading *r, const char *data, size_t n) SP_MUST_CHECK;
/* sp_document_read -- as sp_documents_read, without the path in errors. */
sp_err sp_document_read(sp_reading *r, sp_doc_format format, const char *data,
                        size_t n) SP_MUST_CHECK;
/* sp_gzip_read -- unpacks the file and calls the reader for its content. */
sp_err sp_gzip_read(sp_reading *r, const char *data, size_t n) SP_MUST_CHECK;

/* sp_text_convert -- converts bytes of a named encoding to UTF-8 in `own`; *done is false, and `own` empty, if iconv
 * does not know the encoding or more than most_bad bytes are invalid in it. Those become U+FFFD. */
sp_err sp_text_convert(const char *encoding, const char *data, size_t n, size_t most_bad, sp_bytes *own,
                       bool *done) SP_MUST_CHECK;

/* sp_text_repair -- text that is UTF-8 except for few bytes, which become U+FFFD: letters beyond ASCII are more than
 * `ratio` times as many. *done is false for other text. That it ends within a character does not count. */
sp_err sp_text_repair(const char *s, size_t n, size_t ratio, sp_bytes *own, bool *done) SP_MUST_CHECK;

/* sp_page_decode -- sp_text_decode for HTML, which may declare its encoding. */
sp_err sp_page_decode(const char *html, size_t n, sp_bytes *own, const char **text,
                      size_t *n_text) SP_MUST_CHECK;

#endif
