/* documents_int.h -- the documents in a file: readers for text, Markdown, JSON lines and HTML. */
#ifndef SP_RETRIEVE_DOCUMENTS_INT_H
#define SP_RETRIEVE_DOCUMENTS_INT_H

#include "base/mem.h"

typedef enum sp_doc_format {
    SP_DOC_NONE, /* not a document */
    SP_DOC_TEXT,
    SP_DOC_MARKDOWN,
    SP_DOC_JSONL,
    SP_DOC_HTML,
} sp_doc_format;

/* One document; everything is valid during the call only, and well-formed UTF-8 without NUL. */
typedef struct sp_document {
    const char *title; /* not NUL-terminated; may be empty */
    size_t n_title;
    const char *text;
    size_t n;
    bool markdown;
    int64_t line; /* where it stands in a JSONL file, 0 in others */
} sp_document;

typedef sp_err sp_document_fn(const sp_document *d, void *user);

/* sp_document_format -- by the suffix of a file name, in any case of letters. */
sp_doc_format sp_document_format(const char *path);

/* sp_documents_read -- calls fn for each document in the content of a file. `path` names the file in
 * errors and is the title of last resort.
 *
 *   text       one document; the title is the file's name
 *   Markdown   one document; the title is its first heading, or else the file's name
 *   HTML       one document, as Markdown; the title is the first heading, or <title>, or the file's
 *              name. Read as UTF-8 unless the file declares another encoding.
 *   JSONL      one document a line: a string in text, content or contents, and optionally a title;
 *              blank lines are skipped
 *
 * Errors: SP_E_UNSUPPORTED when the content is not text (not UTF-8, or with NUL bytes): a caller may
 * skip the file. SP_E_FORMAT: a bad line of JSONL. SP_E_NOMEM, SP_E_LIMIT, and what fn returns. */
sp_err sp_documents_read(const char *path, sp_doc_format format, const char *data, size_t n,
                         sp_document_fn *fn, void *user) SP_MUST_CHECK;

/* sp_html_to_markdown -- the visible text of a page: headings, paragraphs, lists, tables, code. The
 * content of <title> goes to `title`. A page without text gives an empty `out`. */
sp_err sp_html_to_markdown(const char *html, size_t n, sp_bytes *out,
                           sp_bytes *title) SP_MUST_CHECK;

#endif
