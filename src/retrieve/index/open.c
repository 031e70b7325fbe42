/* open.c -- the index, read-only: open, one chunk after another, one document, hits of queries. */
#include "retrieve/index/open.h"

#include <string.h>

#include "base/need.h"

sp_err sp_index_open(const char *path, sp_index **out)
{
    SP_NEED(path);
    SP_NEED(out);
    sp_index *ix = SP_NEW(sp_index);
    if (!ix) return sp_fail_nomem("an index");
    sp_err err = SP_OK;
    ix->path = sp_strdup_n(path, strlen(path));
    if (!ix->path) err = sp_fail_nomem("a file name");
    if (err == SP_OK) err = sp_db_open(path, "cannot open the index", false, &ix->db);
    if (err == SP_OK) err = sp_db_check(ix->db, path, false, NULL);
    int64_t n_grams = 0;
    if (err == SP_OK)
        err = sp_db_number(ix->db, path, "SELECT sum(n_chunks) FROM files", &ix->n_chunks);
    if (err == SP_OK)
        err = sp_db_number(ix->db, path, "SELECT EXISTS (SELECT 1 FROM grams)", &n_grams);
    ix->has_grams = n_grams > 0;
    if (err != SP_OK) {
        sp_index_close(ix);
        return err;
    }
    *out = ix;
    return SP_OK;
}

void sp_index_close(sp_index *ix)
{
    if (!ix) return;
    sqlite3_close(ix->db);
    sp_vectors_destroy(ix->vectors);
    sp_free(ix->path);
    sp_free(ix);
}

int64_t sp_index_n_chunks(const sp_index *ix)
{
    return ix ? ix->n_chunks : 0;
}

/* -- hits ----------------------------------------------------------------------------------- */

static const char *column_copy(sqlite3_stmt *s, int column, sp_arena *arena)
{
    const unsigned char *text = sqlite3_column_text(s, column);
    size_t n = text ? (size_t)sqlite3_column_bytes(s, column) : 0;
    char *copy = sp_arena_take(arena, n + 1, 1); /* zeroed, so terminated */
    if (copy && n) memcpy(copy, text, n);
    return copy;
}

typedef SP_VEC(sp_hit) hit_list;

static sp_err take_hit(sqlite3_stmt *s, sp_arena *strings, hit_list *out)
{
    sp_hit h = {
        .id = sqlite3_column_int64(s, 0),
        .score = sqlite3_column_double(s, 1),
        .file = column_copy(s, 2, strings),
        .title = column_copy(s, 3, strings),
        .text = column_copy(s, 4, strings),
        .first_line = sqlite3_column_int64(s, 5),
        .last_line = sqlite3_column_int64(s, 6),
        .page = sqlite3_column_int64(s, 7),
        .root = column_copy(s, 8, strings),
    };
    if (!h.file || !h.title || !h.text || !h.root) return sp_fail_nomem("a hit");
    SP_TRY(sp_vec_reserve(out, 1));
    out->v[out->n++] = h;
    return SP_OK;
}

sp_err sp_hits_take(sp_index *ix, sqlite3_stmt *s, sp_hits *out)
{
    sp_arena *strings = SP_NEW(sp_arena);
    if (!strings) return sp_fail_nomem("hits");
    hit_list hits = {0};
    sp_err err = SP_OK;
    int rc = SQLITE_DONE;
    while (err == SP_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) err = take_hit(s, strings, &hits);
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(ix->db, ix->path, "cannot search");
    sp_hits result = {.v = hits.v, .n = (int)hits.n, .strings = strings};
    if (err == SP_OK)
        *out = result;
    else
        sp_hits_fini(&result);
    return err;
}

/* text_copy -- NULL: out of memory. */
static const char *text_copy(sp_arena *arena, const char *s)
{
    const size_t n = strlen(s) + 1;
    char *copy = sp_arena_take(arena, n, 1);
    return copy ? memcpy(copy, s, n) : NULL;
}

sp_err sp_hits_copy(const sp_hits *h, sp_hits *out)
{
    SP_NEED(h);
    SP_NEED(out);
    sp_arena *strings = SP_NEW(sp_arena);
    sp_hits copy = {.v = sp_alloc((size_t)h->n + 1, sizeof *copy.v), .strings = strings};
    bool good = copy.v && strings;
    for (int i = 0; i < h->n && good; i++) {
        sp_hit *to = &copy.v[copy.n++];
        *to = h->v[i];
        to->file = text_copy(strings, h->v[i].file);
        to->title = text_copy(strings, h->v[i].title);
        to->text = text_copy(strings, h->v[i].text);
        to->root = text_copy(strings, h->v[i].root);
        good = to->file && to->title && to->text && to->root;
    }
    if (good)
        *out = copy;
    else
        sp_hits_fini(&copy);
    return good ? SP_OK : sp_fail_nomem("hits");
}

void sp_hits_fini(sp_hits *h)
{
    if (!h) return;
    if (h->strings) sp_arena_fini(h->strings);
    sp_free(h->strings);
    sp_free(h->v);
    *h = (sp_hits){0};
}

/* -- chunks and documents by name ------------------------------------------------------------ */

static const char chunk_sql[] =
    "SELECT " SP_HIT_COLUMNS("0.0") " FROM hits AS h WHERE h.id > ?1 ORDER BY h.id LIMIT 1";

/* A document is the chunks of one file that come from one line of JSONL; a chunk's title begins with
 * its document's. */
static const char document_sql[] = "SELECT " SP_HIT_COLUMNS(
    "0.0") " FROM (SELECT file_id, line FROM hits"
           "       WHERE file = ?1 OR title = ?1 OR substr(title, 1, length(?1) + 3) = ?1 || ' > '"
           "       ORDER BY id LIMIT 1) AS d"
           " JOIN hits AS h ON h.file_id = d.file_id AND h.line = d.line ORDER BY h.id";

sp_err sp_index_chunk(sp_index *ix, int64_t after, sp_hits *out)
{
    SP_NEED(ix);
    SP_NEED(out);
    sqlite3_stmt *s;
    SP_TRY(sp_db_prepare(ix->db, ix->path, chunk_sql, &s));
    sqlite3_bind_int64(s, 1, after);
    sp_err err = sp_hits_take(ix, s, out);
    sqlite3_finalize(s);
    return err;
}

sp_err sp_index_document(sp_index *ix, const char *name, sp_hits *out)
{
    SP_NEED(ix);
    SP_NEED(name);
    SP_NEED(out);
    sqlite3_stmt *s;
    SP_TRY(sp_db_prepare(ix->db, ix->path, document_sql, &s));
    sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    sp_err err = sp_hits_take(ix, s, out);
    sqlite3_finalize(s);
    return err;
}
