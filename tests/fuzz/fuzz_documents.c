/* The document readers and the chunker on any bytes. The first byte chooses the format, the next
 * two the size of a chunk and the overlap; the rest is the file. Aborts when a document is not
 * well-formed text, when a chunk is too long or no slice of it, or when text is left out. */
#include <stdlib.h>
#include <string.h>

#include "retrieve/chunker.h"
#include "retrieve/documents_int.h"
#include "retrieve/grams_int.h"
#include "retrieve/text.h"

typedef struct target {
    sp_chunk_opts o;
    const sp_document *document;
    size_t covered; /* bytes of the document up to the end of the last chunk */
} target;

static void require(bool holds)
{
    if (!holds) abort();
}

static sp_err take_chunk(const sp_text_chunk *c, void *user)
{
    target *t = user;
    const sp_document *d = t->document;
    require(c->text >= d->text && c->text + c->n <= d->text + d->n && c->n > 0);
    require(c->n_words >= 1 && c->n_words <= t->o.size_words);
    require(sp_utf8_valid(c->text, c->n) && sp_utf8_valid(c->heading, c->n_heading));
    size_t from = (size_t)(c->text - d->text);
    require(sp_skip_blanks(d->text, t->covered, d->n) >= from && from + c->n > t->covered);
    t->covered = from + c->n;
    return SP_OK;
}

/* take_grams -- what the index and a question make of the text. */
static void take_grams(const char *text, size_t n)
{
    sp_bytes grams = {0};
    sp_query q;
    require(sp_grams(text, n, n & 1, &grams) == SP_OK);
    require(sp_utf8_valid(grams.v, grams.n));
    sp_vec_fini(&grams);
    char *question = sp_strdup_n(text, n);
    require(question && sp_query_make(question, &q) == SP_OK);
    require(sp_utf8_valid(q.words.v, q.words.n) && sp_utf8_valid(q.grams.v, q.grams.n));
    sp_query_fini(&q);
    sp_free(question);
}

static sp_err take_document(const sp_document *d, void *user)
{
    target *t = user;
    require(sp_utf8_valid(d->text, d->n) && sp_utf8_valid(d->title, d->n_title));
    require(!d->n || !memchr(d->text, '\0', d->n));
    require(!d->n_title || !memchr(d->title, '\0', d->n_title));
    t->document = d;
    t->covered = 0;
    for (size_t i = 0; i < d->n_marks; i++)
        require(d->marks[i].offset <= d->n && (!i || d->marks[i].offset >= d->marks[i - 1].offset));
    sp_err err = sp_chunk_text(d->text, d->n, d->syntax, &t->o, take_chunk, t);
    require(err == SP_OK && sp_skip_blanks(d->text, t->covered, d->n) == d->n);
    take_grams(d->text, d->n);
    return SP_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    /* the first four as ever, so that the corpus keeps its meaning */
    static const char *const names[] = {"f.txt",  "f.md",   "f.jsonl", "f.html", "f.rst",
                                        "f.c",    "f.csv",  "f.tsv",   "f.docx", "f.odt",
                                        "f.epub", "f.json", "f.ipynb", "f.xml",  "f.xlsx",
                                        "f.pptx", "f.eml",  "f.rtf",   "f.md.gz",
                                        NULL,     "f.ods",  "f.odp"}; /* NULL: what pdftotext may have written */
    if (n < 3) return 0;
    size_t which = data[0] % SP_COUNT(names);
    target t = {.o.size_words = 1 + data[1] % 64};
    t.o.overlap_words = data[2] % t.o.size_words;
    const char *content = (const char *)data + 3;
    sp_reading r = {.path = "f.pdf", .fn = take_document, .user = &t, .strict = data[2] & 128};
    sp_err err;
    if (!names[which]) {
        err = sp_pdf_pages(&r, content, n - 3);
    } else {
        r.path = names[which];
        err = sp_documents_read(&r, sp_document_format(r.path), content, n - 3);
    }
    require(err == SP_OK || err == SP_E_UNSUPPORTED || err == SP_E_FORMAT || err == SP_E_LIMIT);
    return 0;
}
