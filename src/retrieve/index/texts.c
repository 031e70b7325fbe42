#include "retrieve/index/texts.h"

#include <string.h>

#include "retrieve/index/build_int.h"
#include "retrieve/index/open.h"
#include "retrieve/text/text.h"

enum { WHOLE = 1 << 20 /* words: a text of the index in memory is not cut */ };

/* -- chunks ------------------------------------------------------------------------------------ */

typedef struct cutting {
    const sp_text_source *source;
    sp_text_piece_fn *fn;
    void *user;
    const char *title; /* of the document, not NUL-terminated */
    size_t n_title;
    sp_bytes full;
} cutting;

/* piece_title -- "Document > Heading", or one of both. */
static sp_err piece_title(cutting *k, const sp_text_chunk *c)
{
    k->full.n = 0;
    if (k->n_title) SP_TRY(sp_bytes_add(&k->full, k->title, k->n_title));
    bool same = c->n_heading == k->n_title && memcmp(c->heading, k->title, k->n_title) == 0;
    if (c->n_heading == 0 || same) return SP_OK;
    if (k->full.n) SP_TRY(sp_bytes_add(&k->full, " > ", 3));
    return sp_bytes_add(&k->full, c->heading, c->n_heading);
}

static sp_err take_chunk(const sp_text_chunk *c, void *user)
{
    cutting *k = user;
    SP_TRY(piece_title(k, c));
    sp_text_piece p = {
        .title = k->full.n ? k->full.v : "", .n_title = k->full.n, .text = c->text, .n_text = c->n};
    return k->fn(&p, k->user);
}

static sp_err cut(cutting *k, const char *text, size_t n, sp_syntax syntax)
{
    const sp_chunk_opts o = {.size_words = k->source->size_words,
                             .overlap_words = k->source->overlap_words};
    return sp_chunk_text(text, n, syntax, &o, take_chunk, k);
}

static sp_err take_document(const sp_document *d, void *user)
{
    cutting *k = user;
    if (!k->source->title) {
        k->title = d->title;
        k->n_title = d->n_title;
    }
    return cut(k, d->text, d->n, d->syntax);
}

static sp_err cut_file(cutting *k)
{
    const sp_text_source *s = k->source;
    sp_doc_format format = sp_document_format(s->name);
    if (format == SP_DOC_NONE)
        return sp_fail(SP_E_UNSUPPORTED, "%s: there is no reader for this format", s->name);
    sp_reading r = {.path = s->name, .fn = take_document, .user = k, .strict = true};
    return sp_documents_read(&r, format, s->data, s->n);
}

sp_err sp_text_pieces(const sp_text_source *s, sp_text_piece_fn *fn, void *user)
{
    cutting k = {.source = s, .fn = fn, .user = user};
    k.title = s->title ? s->title : "";
    k.n_title = strlen(k.title);
    sp_err err;
    if (s->name)
        err = cut_file(&k);
    else if (!sp_utf8_valid(s->data, s->n))
        err = sp_fail(SP_E_UNSUPPORTED, "the text is not UTF-8");
    else
        err = cut(&k, s->data, s->n, SP_SYNTAX_PLAIN);
    sp_vec_fini(&k.full);
    return err;
}

/* -- an index in memory ------------------------------------------------------------------------ */

static sp_err add_texts(sp_builder *b, const sp_index_text *v, int n)
{
    SP_TRY(sp_db_clear(b->db, b->path));
    SP_TRY(sp_db_exec(b->db, b->path,
                      "INSERT INTO roots VALUES (1, '', '', 0);"
                      "INSERT INTO files VALUES (1, 1, '', 0, 0, x'', 0); BEGIN"));
    SP_TRY(sp_rows_prepare(b));
    b->file_id = 1;
    for (int i = 0; i < n; i++) {
        sp_document d = {.title = v[i].title,
                         .n_title = strlen(v[i].title),
                         .text = v[i].text,
                         .n = strlen(v[i].text),
                         .syntax = SP_SYNTAX_PLAIN,
                         .line = i + 1};
        SP_TRY(sp_rows_add_document(&d, b));
    }
    return sp_db_exec(b->db, b->path,
                      "COMMIT; UPDATE files SET n_chunks = (SELECT count(*) FROM chunks)");
}

/* open_texts -- takes the connection. */
static sp_err open_texts(sqlite3 *db, int n, sp_index **out)
{
    static const char path[] = "an index in memory";
    int64_t n_grams = 0;
    sp_index *ix = SP_NEW(sp_index);
    if (!ix) {
        sqlite3_close(db);
        return sp_fail_nomem("an index");
    }
    *ix = (sp_index){.db = db, .path = sp_strdup_n(path, strlen(path)), .n_chunks = n};
    sp_err err = ix->path ? SP_OK : sp_fail_nomem("an index");
    if (err == SP_OK) err = sp_db_number(db, path, "SELECT EXISTS (SELECT 1 FROM grams)", &n_grams);
    ix->has_grams = n_grams > 0;
    if (err == SP_OK)
        *out = ix;
    else
        sp_index_close(ix);
    return err;
}

sp_err sp_texts_index(const sp_index_text *v, int n, sp_index **out)
{
    sp_index_stats stats = {0};
    sp_builder b = {.path = ":memory:", .stats = &stats, .cut.size_words = WHOLE};
    SP_TRY(sp_db_open(b.path, "cannot make an index in memory", true, &b.db));
    sp_err err = add_texts(&b, v, n);
    sp_rows_fini(&b);
    if (err == SP_OK) return open_texts(b.db, n, out);
    sqlite3_close(b.db);
    return err;
}
