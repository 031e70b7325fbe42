/* documents.c -- formats by suffix, and the readers of plain formats. */
#include "retrieve/documents/documents.h"

#include <string.h>
#include <strings.h>

#include "retrieve/documents/readers_int.h"
#include "retrieve/text/text.h"

/* -- formats ---------------------------------------------------------------------------------- */

static const struct suffix {
    const char *name;
    sp_doc_format format;
} suffixes[] = {
    {".txt", SP_DOC_TEXT},    {".text", SP_DOC_TEXT},         {".log", SP_DOC_TEXT},
    {".org", SP_DOC_TEXT},    {".tex", SP_DOC_TEXT},          {".adoc", SP_DOC_TEXT},
    {".md", SP_DOC_MARKDOWN}, {".markdown", SP_DOC_MARKDOWN}, {".rst", SP_DOC_RST},
    {".jsonl", SP_DOC_JSONL}, {".ndjson", SP_DOC_JSONL},      {".html", SP_DOC_HTML},
    {".htm", SP_DOC_HTML},    {".xhtml", SP_DOC_HTML},        {".csv", SP_DOC_CSV},
    {".tsv", SP_DOC_TSV},     {".tab", SP_DOC_TSV},           {".pdf", SP_DOC_PDF},
    {".docx", SP_DOC_DOCX},   {".odt", SP_DOC_ODT},           {".epub", SP_DOC_EPUB},
    {".json", SP_DOC_JSON},   {".ipynb", SP_DOC_NOTEBOOK},    {".xml", SP_DOC_XML},
    {".xlsx", SP_DOC_XLSX},   {".pptx", SP_DOC_PPTX},         {".eml", SP_DOC_MAIL},
    {".rtf", SP_DOC_RTF},     {".ods", SP_DOC_ODS},           {".odp", SP_DOC_ODP},
};

/* Source code and configuration, without their periods. */
static const char *const code_suffixes[] = {
    "c",     "h",      "cc",   "cpp", "cxx",  "hh",    "hpp",    "hxx",   "cu",   "cuh",
    "m",     "mm",     "py",   "pyi", "pyx",  "rs",    "go",     "java",  "kt",   "kts",
    "scala", "groovy", "js",   "mjs", "cjs",  "jsx",   "ts",     "tsx",   "vue",  "css",
    "scss",  "sh",     "bash", "zsh", "fish", "ps1",   "pl",     "pm",    "rb",   "php",
    "lua",   "swift",  "cs",   "fs",  "vb",   "r",     "jl",     "hs",    "ml",   "mli",
    "ex",    "exs",    "erl",  "clj", "lisp", "el",    "scm",    "d",     "zig",  "nim",
    "dart",  "f90",    "f",    "pas", "ada",  "v",     "sv",     "vhd",   "vhdl", "asm",
    "s",     "sql",    "awk",  "sed", "tcl",  "proto", "thrift", "cmake", "mk",   "gradle",
    "nix",   "tf",     "yaml", "yml", "toml", "ini",   "cfg",    "conf",  "diff", "patch",
};

static const struct suffix names[] = {
    {"README", SP_DOC_TEXT},   {"LICENSE", SP_DOC_TEXT},    {"COPYING", SP_DOC_TEXT},
    {"NEWS", SP_DOC_TEXT},     {"CHANGELOG", SP_DOC_TEXT},  {"TODO", SP_DOC_TEXT},
    {"Makefile", SP_DOC_CODE}, {"Dockerfile", SP_DOC_CODE},
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* packed_format -- of NAME.gz: gzip if NAME has a format of its own. */
static sp_doc_format packed_format(const char *name, const char *dot)
{
    char inner[256];
    size_t n = (size_t)(dot - name);
    if (n >= sizeof inner) return SP_DOC_NONE;
    memcpy(inner, name, n);
    inner[n] = '\0';
    sp_doc_format f = sp_document_format(inner);
    return f == SP_DOC_NONE || f == SP_DOC_GZIP ? SP_DOC_NONE : SP_DOC_GZIP;
}

sp_doc_format sp_document_format(const char *path)
{
    const char *name = base_name(path), *dot = strrchr(name, '.');
    if (dot && strcasecmp(dot, ".gz") == 0) return packed_format(name, dot);
    for (size_t i = 0; !dot && i < SP_COUNT(names); i++)
        if (strcmp(name, names[i].name) == 0) return names[i].format;
    for (size_t i = 0; dot && i < SP_COUNT(suffixes); i++)
        if (strcasecmp(dot, suffixes[i].name) == 0) return suffixes[i].format;
    for (size_t i = 0; dot && i < SP_COUNT(code_suffixes); i++)
        if (strcasecmp(dot + 1, code_suffixes[i]) == 0) return SP_DOC_CODE;
    return SP_DOC_NONE;
}

/* -- titles ----------------------------------------------------------------------------------- */

/* first_heading -- of a text with headings; false when there is none with words in it. */
static bool first_heading(sp_document *d)
{
    sp_block b = {0};
    if (d->syntax != SP_SYNTAX_MARKDOWN && d->syntax != SP_SYNTAX_RST) return false;
    while (sp_block_next(d->text, d->n, b.to, d->syntax, &b)) {
        if (b.kind != SP_BLOCK_HEADING || b.heading_from == b.heading_to) continue;
        d->title = d->text + b.heading_from;
        d->n_title = b.heading_to - b.heading_from;
        return true;
    }
    return false;
}

sp_err sp_document_emit(sp_reading *r, sp_document *d, const sp_bytes *title)
{
    if (!first_heading(d)) {
        bool own = title && title->n;
        d->title = own ? title->v : base_name(r->path);
        d->n_title = own ? title->n : strlen(d->title);
    }
    return sp_document_give(r, d);
}

/* -- text and HTML ---------------------------------------------------------------------------- */

static sp_err emit_text(sp_reading *r, sp_syntax syntax, const char *s, size_t n)
{
    sp_document d = {.text = s, .n = n, .syntax = syntax, .place = SP_PLACE_LINES};
    return sp_document_emit(r, &d, NULL);
}

static sp_err emit_html(sp_reading *r, const char *s, size_t n)
{
    sp_bytes text = {0}, title = {0};
    sp_marks marks = {0};
    sp_err err = sp_html_to_markdown(s, n, &text, &title, &marks);
    bool valid = sp_utf8_valid(text.v, text.n) && sp_utf8_valid(title.v, title.n);
    if (err == SP_OK && !valid) err = sp_fail(SP_E_UNSUPPORTED, "not a text file");
    if (err == SP_OK) {
        sp_document d = {.text = text.n ? text.v : "",
                         .n = text.n,
                         .syntax = SP_SYNTAX_MARKDOWN,
                         .place = SP_PLACE_MARKED_LINES,
                         .marks = marks.v,
                         .n_marks = marks.n};
        err = sp_document_emit(r, &d, &title);
    }
    sp_vec_fini(&text);
    sp_vec_fini(&title);
    sp_vec_fini(&marks);
    return err;
}

static sp_err read_html(sp_reading *r, const char *s, size_t n)
{
    if (n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0) s += 3, n -= 3;
    if (!n || (!memchr(s, '\0', n) && !sp_text_is_escaped(s, n))) return emit_html(r, s, n);
    sp_bytes own = {0};
    sp_err err = sp_text_decode(s, n, &own, &s, &n);
    if (err == SP_OK) err = emit_html(r, s, n);
    sp_vec_fini(&own);
    return err;
}

static sp_err read_text(sp_reading *r, sp_doc_format format, const char *s, size_t n)
{
    switch (format) {
    case SP_DOC_CSV:
    case SP_DOC_TSV:
        return sp_table_read(r, format == SP_DOC_TSV, s, n);
    case SP_DOC_JSON:
        return sp_json_document_read(r, s, n);
    case SP_DOC_NOTEBOOK:
        return sp_notebook_read(r, s, n);
    case SP_DOC_MARKDOWN:
        return emit_text(r, SP_SYNTAX_MARKDOWN, s, n);
    case SP_DOC_RST:
        return emit_text(r, SP_SYNTAX_RST, s, n);
    case SP_DOC_CODE:
        return emit_text(r, SP_SYNTAX_CODE, s, n);
    default:
        return emit_text(r, SP_SYNTAX_PLAIN, s, n);
    }
}

static sp_err decode_and_read(sp_reading *r, sp_doc_format format, const char *data, size_t n)
{
    sp_bytes own = {0};
    const char *s;
    size_t n_text;
    sp_err err = sp_text_decode(data, n, &own, &s, &n_text);
    if (err == SP_OK) err = read_text(r, format, s, n_text);
    sp_vec_fini(&own);
    return err;
}

/* by_content -- a file that is named as a text, and is something else. */
static sp_doc_format by_content(sp_doc_format format, const char *data, size_t n)
{
    const bool text = format == SP_DOC_TEXT || format == SP_DOC_MARKDOWN || format == SP_DOC_RST;
    if (text && n >= 5 && memcmp(data, "%PDF-", 5) == 0) return SP_DOC_PDF;
    return text && n >= 6 && memcmp(data, "{\\rtf1", 6) == 0 ? SP_DOC_RTF : format;
}

sp_err sp_document_read(sp_reading *r, sp_doc_format format, const char *data, size_t n)
{
    switch (by_content(format, data, n)) {
    case SP_DOC_HTML:
        return read_html(r, data, n);
    case SP_DOC_JSONL:
        return sp_jsonl_read(r, data, n);
    case SP_DOC_PDF:
        return sp_pdf_read(r, data, n);
    case SP_DOC_DOCX:
        return sp_docx_read(r, data, n);
    case SP_DOC_ODT:
        return sp_odt_read(r, data, n);
    case SP_DOC_EPUB:
        return sp_epub_read(r, data, n);
    case SP_DOC_XML:
        return sp_xml_read(r, data, n);
    case SP_DOC_XLSX:
        return sp_xlsx_read(r, data, n);
    case SP_DOC_PPTX:
        return sp_pptx_read(r, data, n);
    case SP_DOC_ODS:
        return sp_ods_read(r, data, n);
    case SP_DOC_ODP:
        return sp_odp_read(r, data, n);
    case SP_DOC_MAIL:
        return sp_mail_read(r, data, n);
    case SP_DOC_RTF:
        return sp_rtf_read(r, data, n);
    case SP_DOC_GZIP:
        return sp_gzip_read(r, data, n);
    default:
        return decode_and_read(r, format, data, n);
    }
}

sp_err sp_documents_read(sp_reading *r, sp_doc_format format, const char *data, size_t n)
{
    sp_err err = sp_document_read(r, format, data, n);
    bool names_no_file = err == SP_E_UNSUPPORTED || err == SP_E_LIMIT;
    return names_no_file ? sp_fail_in(err, "%s", r->path) : err;
}
