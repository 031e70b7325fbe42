/* rows.c -- the rows of a document: chunks, and the indexes that find them. */
#include <string.h>

#include "retrieve/index/build_int.h"
#include "retrieve/index/grams_int.h"

#define PROGRESS_CHUNKS 1024

static const char *const statements[SP_N_STATEMENTS] = {
    [SP_ADD_FILE] = ("INSERT INTO files (root, path, size, mtime_ns, sha256, n_chunks)"
                     " VALUES (?, ?, ?, ?, ?, 0)"),
    [SP_SET_TIME] = "UPDATE files SET mtime_ns = ?2 WHERE id = ?1",
    [SP_SET_CHUNKS] = "UPDATE files SET n_chunks = ?2 WHERE id = ?1",
    [SP_REMOVE_FILE] = "DELETE FROM files WHERE id = ?",
    [SP_REMOVE_CHUNKS] = "DELETE FROM chunks WHERE file = ?",
    [SP_REMOVE_WORDS] = ("INSERT INTO words (words, rowid, title, text)"
                         " SELECT 'delete', id, title, text FROM chunks WHERE file = ?"),
    [SP_REMOVE_GRAMS] = "DELETE FROM grams WHERE rowid IN (SELECT id FROM chunks WHERE file = ?)",
    [SP_ADD_CHUNK] = ("INSERT INTO chunks (file, line, first_line, last_line, page, title, text,"
                      " n_words, sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"),
    [SP_ADD_WORDS] = "INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)",
    [SP_ADD_GRAMS] = "INSERT INTO grams (rowid, title, text) VALUES (?, ?, ?)",
};

/* -- statements ----------------------------------------------------------------------------- */

sp_err sp_rows_prepare(sp_builder *b)
{
    for (int i = 0; i < SP_N_STATEMENTS; i++)
        SP_TRY(sp_db_prepare(b->db, b->path, statements[i], &b->run[i]));
    return SP_OK;
}

void sp_rows_fini(sp_builder *b)
{
    for (int i = 0; i < SP_N_STATEMENTS; i++) sqlite3_finalize(b->run[i]);
    sp_vec_fini(&b->title);
    sp_vec_fini(&b->grams[0]);
    sp_vec_fini(&b->grams[1]);
}

/* finish -- runs a statement whose parameters are bound; a bind that failed fails here. */
static sp_err finish(sp_builder *b, sp_statement which)
{
    bool done = sqlite3_step(b->run[which]) == SQLITE_DONE;
    sp_err err = done ? SP_OK : sp_db_fail(b->db, b->path, "cannot write the index");
    sqlite3_reset(b->run[which]);
    return err;
}

static void bind_text(sqlite3_stmt *s, int parameter, const char *text, size_t n)
{
    sqlite3_bind_text64(s, parameter, n ? text : "", n, SQLITE_STATIC, SQLITE_UTF8);
}

sp_err sp_rows_run(sp_builder *b, sp_statement which, int64_t first, int64_t second)
{
    sqlite3_stmt *s = b->run[which];
    sqlite3_bind_int64(s, 1, first);
    if (sqlite3_bind_parameter_count(s) > 1) sqlite3_bind_int64(s, 2, second);
    return finish(b, which);
}

/* -- files ------------------------------------------------------------------------------------ */

sp_err sp_rows_add_file(sp_builder *b, const sp_known_file *f)
{
    sqlite3_stmt *s = b->run[SP_ADD_FILE];
    sqlite3_bind_int64(s, 1, b->root->id);
    bind_text(s, 2, f->path, strlen(f->path));
    sqlite3_bind_int64(s, 3, f->size);
    sqlite3_bind_int64(s, 4, f->mtime_ns);
    sqlite3_bind_blob(s, 5, f->sha256.b, sizeof f->sha256.b, SQLITE_STATIC);
    SP_TRY(finish(b, SP_ADD_FILE));
    b->file_id = sqlite3_last_insert_rowid(b->db);
    return SP_OK;
}

sp_err sp_rows_remove_file(sp_builder *b, int64_t id)
{
    SP_TRY(sp_rows_run(b, SP_REMOVE_WORDS, id, 0));
    SP_TRY(sp_rows_run(b, SP_REMOVE_GRAMS, id, 0));
    SP_TRY(sp_rows_run(b, SP_REMOVE_CHUNKS, id, 0));
    return sp_rows_run(b, SP_REMOVE_FILE, id, 0);
}

/* -- where a chunk comes from ----------------------------------------------------------------- */

typedef struct place {
    int64_t first_line, last_line, page;
} place;

static int64_t count_lines(const char *s, size_t from, size_t to)
{
    int64_t n = 0;
    for (const char *at = s + from; (at = memchr(at, '\n', (size_t)(s + to - at))); at++) n++;
    return n;
}

/* mark_at -- the number of the last mark at or before an offset; 0 before the first. */
static int64_t mark_at(const sp_document *d, size_t offset)
{
    size_t low = 0, high = d->n_marks; /* marks below low are at or before offset */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (d->marks[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? d->marks[low - 1].number : 0;
}

/* find_place -- chunks come in order of their beginnings, so each line end is counted about once. */
static place find_place(sp_builder *b, const sp_text_chunk *c)
{
    const sp_document *d = b->document;
    size_t from = (size_t)(c->text - d->text), to = from + c->n;
    if (d->line) return (place){.first_line = d->line, .last_line = d->line};
    switch (d->place) {
    case SP_PLACE_LINES:
        b->line += count_lines(d->text, b->line_at, from);
        b->line_at = from;
        return (place){b->line, b->line + count_lines(d->text, from, to), 0};
    case SP_PLACE_MARKED_LINES:
        return (place){mark_at(d, from), mark_at(d, to - 1), 0};
    case SP_PLACE_MARKED_PAGES:
        return (place){.page = mark_at(d, from)};
    default:
        return (place){0};
    }
}

/* -- chunks ----------------------------------------------------------------------------------- */

/* chunk_title -- "Document > Heading", or one of both, in b->title. */
static sp_err chunk_title(sp_builder *b, const sp_text_chunk *c)
{
    const sp_document *d = b->document;
    b->title.n = 0;
    SP_TRY(sp_bytes_add(&b->title, d->title, d->n_title));
    bool same = c->n_heading == d->n_title && memcmp(c->heading, d->title, d->n_title) == 0;
    if (c->n_heading == 0 || same) return SP_OK;
    if (b->title.n) SP_TRY(sp_bytes_add(&b->title, " > ", 3));
    return sp_bytes_add(&b->title, c->heading, c->n_heading);
}

static sp_err add_row(sp_builder *b, const sp_text_chunk *c)
{
    sp_sha256 *hash;
    sp_digest digest;
    SP_TRY(sp_sha256_create(&hash));
    sp_sha256_update(hash, c->text, c->n);
    sp_sha256_final(hash, &digest);

    sqlite3_stmt *s = b->run[SP_ADD_CHUNK];
    place at = find_place(b, c);
    sqlite3_bind_int64(s, 1, b->file_id);
    sqlite3_bind_int64(s, 2, b->document->line);
    sqlite3_bind_int64(s, 3, at.first_line);
    sqlite3_bind_int64(s, 4, at.last_line);
    sqlite3_bind_int64(s, 5, at.page);
    bind_text(s, 6, b->title.v, b->title.n);
    bind_text(s, 7, c->text, c->n);
    sqlite3_bind_int(s, 8, c->n_words);
    sqlite3_bind_blob(s, 9, digest.b, sizeof digest.b, SQLITE_STATIC);
    return finish(b, SP_ADD_CHUNK);
}

static sp_err add_terms(sp_builder *b, const sp_text_chunk *c, int64_t id)
{
    sqlite3_stmt *words = b->run[SP_ADD_WORDS], *grams = b->run[SP_ADD_GRAMS];
    sqlite3_bind_int64(words, 1, id);
    bind_text(words, 2, b->title.v, b->title.n);
    bind_text(words, 3, c->text, c->n);
    SP_TRY(finish(b, SP_ADD_WORDS));

    bool code = b->document->syntax == SP_SYNTAX_CODE;
    b->grams[0].n = b->grams[1].n = 0;
    SP_TRY(sp_grams(b->title.v, b->title.n, code, &b->grams[0]));
    SP_TRY(sp_grams(c->text, c->n, code, &b->grams[1]));
    if (!b->grams[0].n && !b->grams[1].n) return SP_OK;
    sqlite3_bind_int64(grams, 1, id);
    bind_text(grams, 2, b->grams[0].v, b->grams[0].n);
    bind_text(grams, 3, b->grams[1].v, b->grams[1].n);
    return finish(b, SP_ADD_GRAMS);
}

static sp_err add_chunk(const sp_text_chunk *c, void *user)
{
    sp_builder *b = user;
    SP_TRY(chunk_title(b, c));
    SP_TRY(add_row(b, c));
    SP_TRY(add_terms(b, c, sqlite3_last_insert_rowid(b->db)));
    return ++b->stats->n_chunks % PROGRESS_CHUNKS == 0 ? sp_build_report(b) : SP_OK;
}

sp_err sp_rows_add_document(const sp_document *d, void *user)
{
    sp_builder *b = user;
    b->document = d;
    b->line_at = 0;
    b->line = 1;
    return sp_chunk_text(d->text, d->n, d->syntax, &b->cut, add_chunk, b);
}
