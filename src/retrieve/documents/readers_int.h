/* readers_int.h -- the readers of the formats, and what they share. */
#ifndef SP_RETRIEVE_DOCUMENTS_READERS_INT_H
#define SP_RETRIEVE_DOCUMENTS_READERS_INT_H

#include "retrieve/documents/documents.h"

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

/* sp_style_hides -- whether the declarations of a style attribute leave the element without a box, or not visible. */
bool sp_style_hides(const char *style);

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
