/* The document readers and the chunker on any bytes. The first byte chooses the format, the next two the size of a
 * chunk and the overlap; the rest is the file. With bit 7 of the second byte, of a format that is a zip archive, the
 * rest is "name\0content\0name\0content..." and becomes such an archive, whose checksums are right, so that readers
 * get the XML in it. Aborts when a document is not well-formed text, when a chunk is too long or no slice of it, or
 * when text is left out. */
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "retrieve/documents/readers_int.h"
#include "retrieve/index/grams_int.h"
#include "retrieve/text/chunker.h"
#include "retrieve/text/text.h"

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

/* -- archives ------------------------------------------------------------------------------- */

static bool is_archive(const char *name)
{
    static const char *const ends[] = {".docx", ".odt", ".epub", ".xlsx", ".pptx", ".ods", ".odp"};
    for (size_t i = 0; i < SP_COUNT(ends); i++)
        if (strcmp(strrchr(name, '.'), ends[i]) == 0) return true;
    return false;
}

/* field -- the bytes up to the next \0 or the end, which it leaves behind *at. */
static size_t field(const char *at, const char *end)
{
    const char *zero = memchr(at, '\0', (size_t)(end - at));
    return (size_t)((zero ? zero : end) - at);
}

/* add_entry -- not compressed. A name that libzip refuses (twice the same, not UTF-8) is left out. */
static void add_entry(zip_t *z, const char *name, size_t n_name, const char *content, size_t n)
{
    char *owned = sp_strdup_n(name, n_name);
    zip_source_t *source = zip_source_buffer(z, content, n, 0);
    require(owned && source);
    const zip_int64_t at = zip_file_add(z, owned, source, ZIP_FL_ENC_UTF_8);
    if (at < 0) zip_source_free(source);
    require(at < 0 || zip_set_file_compression(z, (zip_uint64_t)at, ZIP_CM_STORE, 0) == 0);
    sp_free(owned);
}

/* pack -- the archive of these names and contents. */
static void pack(const char *data, size_t n, sp_bytes *out)
{
    const char *at = data, *const end = data + n;
    zip_error_t why;
    zip_error_init(&why);
    zip_source_t *source = zip_source_buffer_create(NULL, 0, 0, &why);
    zip_t *z = source ? zip_open_from_source(source, ZIP_TRUNCATE, &why) : NULL;
    require(z);
    zip_source_keep(source);
    while (at < end) {
        const char *name = at, *content = at + field(at, end) + 1;
        if (content >= end) break;
        at = content + field(content, end);
        add_entry(z, name, (size_t)(content - 1 - name), content, (size_t)(at - content));
        at++;
    }
    require(zip_close(z) == 0);
    zip_stat_t st;
    if (zip_source_stat(source, &st) == 0 && st.valid & ZIP_STAT_SIZE && st.size) {
        require(sp_vec_reserve(out, (size_t)st.size) == SP_OK && zip_source_open(source) == 0);
        require(zip_source_read(source, out->v, st.size) == (zip_int64_t)st.size);
        out->n = (size_t)st.size;
        zip_source_close(source);
    }
    zip_source_free(source);
    zip_error_fini(&why);
}

/* -- files ---------------------------------------------------------------------------------- */

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
    size_t n_content = n - 3;
    sp_bytes packed = {0};
    if (data[1] & 128 && names[which] && is_archive(names[which])) {
        pack(content, n_content, &packed);
        content = packed.n ? packed.v : "";
        n_content = packed.n;
    }
    sp_reading r = {.path = "f.pdf", .fn = take_document, .user = &t, .strict = data[2] & 128};
    sp_err err;
    if (!names[which]) {
        err = sp_pdf_pages(&r, content, n_content);
    } else {
        r.path = names[which];
        err = sp_documents_read(&r, sp_document_format(r.path), content, n_content);
    }
    sp_vec_fini(&packed);
    require(err == SP_OK || err == SP_E_UNSUPPORTED || err == SP_E_FORMAT || err == SP_E_LIMIT);
    return 0;
}
