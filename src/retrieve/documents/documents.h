/* documents.h -- the documents in a file: which formats there are, and what reads them. */
#ifndef SP_RETRIEVE_DOCUMENTS_DOCUMENTS_H
#define SP_RETRIEVE_DOCUMENTS_DOCUMENTS_H

#include "base/mem.h"
#include "retrieve/text/chunker.h"

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

#endif
