/* repair.c -- a damaged file of registered documents: what can be read moves to a new file.
 *
 *   FILE --> FILE.repaired, document after document --> FILE.damaged (the old one), FILE (the new one)
 *
 * A document is saved when all of its chunks are: they are numbered without a gap, have the content ids of their size
 * and valid UTF-8, and the indices over these know no more of them. One that is not is named, and its readable chunks
 * are doomed, so that its copies are erased. Rows are read by their keys, so what is damaged between them is passed
 * over. Of a document in a collection, its file, tags and the counts of its passages are saved, too, as far as they
 * can be read; its vectors are made again. */
#include "retrieve/shelf/collections.h"
#include "retrieve/shelf/shelf_int.h"
#include "retrieve/text/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_SEEKS = 1000000, /* consecutive unreadable rows after which the search ends */
    FEW_SEEKS = 20000     /* the same where the last row is unknown */
};

typedef struct repair {
    sqlite3 *from;
    sp_shelf *to;
    const char *path;
    const sp_shelf_repair_opts *o;
    sqlite3_stmt *next, *chunks, *expected, *put, *put_chunk;
    struct {
        sqlite3_stmt *member, *put, *count, *put_count; /* member, count: NULL where no such table can be read */
    } collections;
    int64_t last; /* no document had a higher row; 0: unknown */
    sp_documents_repaired sum;
} repair;

/* -- statements -------------------------------------------------------------------------------- */

static const char next_sql[] =
    "SELECT row, tenant, id, title, created, expires, pinned, doomed FROM documents NOT INDEXED"
    " WHERE row > ? ORDER BY row LIMIT 1";
static const char chunks_sql[] = "SELECT document, at, title, text, n_tokens, dressed, bare FROM chunks"
                                 " WHERE document = ? ORDER BY at";
static const char expected_sql[] =
    "SELECT max((SELECT count(*) FROM chunks INDEXED BY by_dressed WHERE document = ?1),"
    " (SELECT count(*) FROM chunks INDEXED BY by_bare WHERE document = ?1))";
static const char put_sql[] = "INSERT INTO documents (row, tenant, id, title, created, expires, pinned, doomed)"
                              " VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
static const char put_chunk_sql[] = "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?)";

static const char member_sql[] = "SELECT file, tags FROM members WHERE document = ?";
static const char put_member_sql[] =
    "INSERT OR IGNORE INTO members SELECT ?1, ?2, ?3, count(*), coalesce(sum(length(CAST(text AS BLOB))), 0), ''"
    " FROM chunks WHERE document = ?1";
static const char count_sql[] = "SELECT n FROM retrieved WHERE chunk = ? AND place = ?";
static const char put_count_sql[] = "INSERT OR IGNORE INTO retrieved VALUES (?, ?, ?)";

/* is_text -- bytes of a damaged page in the middle of a text are rarely that. */
static bool is_text(sqlite3_stmt *q, int column)
{
    const char *text = (const char *)sqlite3_column_text(q, column);
    const size_t n = (size_t)sqlite3_column_bytes(q, column);
    return text && sp_utf8_valid(text, n) && !memchr(text, 0, n);
}

/* copy_columns -- from a row to a statement. False: a column is not what is written there. */
static bool copy_columns(sqlite3_stmt *from, sqlite3_stmt *to, int n, const char *types)
{
    for (int i = 0; i < n; i++) {
        const int type = sqlite3_column_type(from, i), n_bytes = sqlite3_column_bytes(from, i);
        const bool good = types[i] == 'i'   ? type == SQLITE_INTEGER
                          : types[i] == 't' ? type == SQLITE_TEXT && is_text(from, i)
                                            : type == SQLITE_BLOB && n_bytes == sizeof(sp_digest);
        if (!good || sqlite3_bind_value(to, i + 1, sqlite3_column_value(from, i)) != SQLITE_OK) return false;
    }
    return true;
}

static bool run(sqlite3_stmt *q)
{
    bool done = sqlite3_step(q) == SQLITE_DONE;
    sqlite3_reset(q);
    return done;
}

/* -- one document ------------------------------------------------------------------------------ */

/* copy_chunks -- those that can be read; true: these are all. */
static bool copy_chunks(repair *r, int64_t row)
{
    int rc;
    int64_t n = 0;
    bool whole = true;
    sqlite3_bind_int64(r->chunks, 1, row);
    while ((rc = sqlite3_step(r->chunks)) == SQLITE_ROW) {
        whole &= sqlite3_column_int64(r->chunks, 1) == n++;
        whole &= copy_columns(r->chunks, r->put_chunk, 7, "iittidd") && run(r->put_chunk);
        sqlite3_reset(r->put_chunk);
    }
    sqlite3_reset(r->chunks);
    if (r->expected) {
        sqlite3_bind_int64(r->expected, 1, row);
        if (sqlite3_step(r->expected) == SQLITE_ROW) whole &= sqlite3_column_int64(r->expected, 0) <= n;
        sqlite3_reset(r->expected);
    }
    return whole && rc == SQLITE_DONE && n > 0;
}

/* copy_member -- file and tags of a document in a collection. */
static void copy_member(repair *r, int64_t row)
{
    sqlite3_stmt *from = r->collections.member, *to = r->collections.put;
    if (!from) return;
    sqlite3_bind_int64(from, 1, row);
    sqlite3_bind_int64(to, 1, row);
    if (sqlite3_step(from) == SQLITE_ROW && is_text(from, 0) && is_text(from, 1)) {
        sqlite3_bind_value(to, 2, sqlite3_column_value(from, 0));
        sqlite3_bind_value(to, 3, sqlite3_column_value(from, 1));
        run(to);
    }
    sqlite3_reset(to);
    sqlite3_reset(from);
}

/* copy_count -- of a passage that was saved. */
static sp_err copy_count(repair *r, const char *place, const char *title, const char *text)
{
    sqlite3_stmt *from = r->collections.count, *to = r->collections.put_count;
    sp_digest hash;
    SP_TRY(sp_shelf_chunk_hash(title, text, &hash));
    sqlite3_bind_blob(from, 1, hash.b, sizeof hash.b, SQLITE_STATIC);
    sqlite3_bind_text(from, 2, place, -1, SQLITE_STATIC);
    const bool there = sqlite3_step(from) == SQLITE_ROW && sqlite3_column_int64(from, 0) > 0;
    if (there) {
        sqlite3_bind_blob(to, 1, hash.b, sizeof hash.b, SQLITE_STATIC);
        sqlite3_bind_text(to, 2, place, -1, SQLITE_STATIC);
        sqlite3_bind_int64(to, 3, sqlite3_column_int64(from, 0));
        run(to);
    }
    sqlite3_reset(from);
    return SP_OK;
}

/* copy_counts -- of the passages of a document. */
static sp_err copy_counts(repair *r, int64_t row, const char *tenant, const char *id)
{
    enum { TITLE = 2, TEXT };
    sp_bytes place = {0};
    sp_err err = sp_bytes_addf(&place, "%s/%.*s%c", tenant, (int)(strchr(id, '/') - id), id, '\0');
    sqlite3_bind_int64(r->chunks, 1, row);
    while (err == SP_OK && sqlite3_step(r->chunks) == SQLITE_ROW)
        err = copy_count(r, place.v, (const char *)sqlite3_column_text(r->chunks, TITLE),
                         (const char *)sqlite3_column_text(r->chunks, TEXT));
    sqlite3_reset(r->chunks);
    sp_vec_fini(&place);
    return err;
}

static void name(repair *r, const char *id, const char *title)
{
    if (r->o->lost) r->o->lost(id, title, r->o->user);
}

/* copy_document -- the row that `next` is at. */
static sp_err copy_document(repair *r, int64_t row)
{
    enum { DOOMED = 7 };
    const char *id = (const char *)sqlite3_column_text(r->next, 2);
    const char *title = (const char *)sqlite3_column_text(r->next, 3);
    const bool live = sqlite3_column_int(r->next, DOOMED) == SP_SHELF_LIVE;
    bool good = copy_columns(r->next, r->put, DOOMED + 1, "itttiiii");
    if (!good || !live || !r->o->save) sqlite3_bind_int(r->put, DOOMED + 1, SP_SHELF_DOOMED);
    for (int i = 1; !good && i <= DOOMED; i++) sqlite3_bind_int64(r->put, i, i == 1 ? row : 0);
    if (!run(r->put)) { /* a second live one of this id, in a file whose index is wrong */
        good = false;
        sqlite3_bind_int(r->put, DOOMED + 1, SP_SHELF_DOOMED);
        if (!run(r->put)) return sp_shelf_failed(r->to);
    }
    const bool whole = copy_chunks(r, row) && good;
    char doom[80];
    snprintf(doom, sizeof doom, "UPDATE documents SET doomed = 1 WHERE row = %lld", (long long)row);
    if (!whole) SP_TRY(sp_db_exec(r->to->db, r->to->path, doom));
    if (!live) return SP_OK;
    r->sum.n_saved += whole && r->o->save;
    r->sum.n_lost += !whole || !r->o->save;
    if (whole && r->o->save && strchr(id, '/')) {
        copy_member(r, row);
        if (r->collections.count) SP_TRY(copy_counts(r, row, (const char *)sqlite3_column_text(r->next, 1), id));
    }
    if (!whole || !r->o->save) name(r, id, title);
    return SP_OK;
}

/* find_last -- what AUTOINCREMENT has counted. */
static int64_t find_last(sqlite3 *db)
{
    sqlite3_stmt *q = NULL;
    int64_t last = 0;
    static const char sql[] = "SELECT seq FROM sqlite_sequence WHERE name = 'documents'";
    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW)
        last = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return last;
}

/* is_over -- whether to look no further after `row`, n_seeks of which in a row could not be read. */
static bool is_over(const repair *r, int64_t row, int n_seeks)
{
    return r->last ? row >= r->last || n_seeks > MOST_SEEKS : n_seeks > FEW_SEEKS;
}

static sp_err copy_documents(repair *r)
{
    sp_err err = SP_OK;
    int n_seeks = 0;
    for (int64_t row = 0; err == SP_OK && !is_over(r, row, n_seeks);) {
        sqlite3_bind_int64(r->next, 1, row);
        int rc = sqlite3_step(r->next);
        if (rc == SQLITE_ROW && sqlite3_column_int64(r->next, 0) > row) {
            row = sqlite3_column_int64(r->next, 0);
            n_seeks = 0;
            err = copy_document(r, row);
        } else if (rc == SQLITE_DONE) {
            return SP_OK;
        } else if (sqlite3_errcode(r->from) == SQLITE_NOMEM) {
            err = sp_fail_nomem("a document");
        } else {
            row++;
            n_seeks++;
        }
        sqlite3_reset(r->next);
    }
    return err;
}

/* count_nameless -- documents that have chunks and no row that could be read. */
static sp_err count_nameless(repair *r)
{
    static const char sql[] = "SELECT document, title FROM chunks WHERE document > ? ORDER BY document, at LIMIT 1";
    sqlite3_stmt *q, *known;
    if (sqlite3_prepare_v2(r->from, sql, -1, &q, NULL) != SQLITE_OK) return SP_OK;
    sp_err err = sp_shelf_prepare(r->to, "SELECT 1 FROM documents WHERE row = ?", &known);
    int rc = SQLITE_ROW, n_seeks = 0;
    for (int64_t row = 0; err == SP_OK && rc != SQLITE_DONE && !is_over(r, row, n_seeks);) {
        sqlite3_bind_int64(q, 1, row);
        rc = sqlite3_step(q);
        const bool is_next = rc == SQLITE_ROW && sqlite3_column_int64(q, 0) > row;
        row = is_next ? sqlite3_column_int64(q, 0) : row + 1;
        n_seeks = is_next ? 0 : n_seeks + 1;
        sqlite3_bind_int64(known, 1, row);
        if (is_next && sqlite3_step(known) != SQLITE_ROW) {
            r->sum.n_lost++;
            name(r, NULL, (const char *)sqlite3_column_text(q, 1));
        }
        sqlite3_reset(known);
        sqlite3_reset(q);
    }
    sqlite3_finalize(q);
    sqlite3_finalize(known);
    return err;
}

/* -- files ------------------------------------------------------------------------------------- */

static char *with(const char *path, const char *suffix)
{
    sp_bytes b = {0};
    if (sp_bytes_addf(&b, "%s%s", path, suffix) != SP_OK || sp_bytes_add(&b, "", 1) != SP_OK) sp_vec_fini(&b);
    return b.v;
}

static sp_err move(const char *from, const char *to, bool must)
{
    if (rename(from, to) == 0 || (!must && errno == ENOENT)) return SP_OK;
    return sp_fail(SP_E_IO, "%s: cannot rename to %s: %s", from, to, strerror(errno));
}

/* exchange -- moves the journal of the damaged file first: SQLite would apply it to the new one. */
static sp_err exchange(const char *path, const char *fresh)
{
    char *damaged = with(path, ".damaged"), *journal = with(path, "-journal");
    char *old_journal = with(path, ".damaged-journal");
    sp_err err = damaged && journal && old_journal ? SP_OK : sp_fail_nomem("a path");
    if (err == SP_OK) err = move(journal, old_journal, false);
    if (err == SP_OK) err = move(path, damaged, true);
    if (err == SP_OK) err = move(fresh, path, true);
    sp_free(damaged);
    sp_free(journal);
    sp_free(old_journal);
    return err;
}

/* copy_rows -- of a table, from both ends as far as each can be read; types: of its columns. */
static sp_err copy_rows(repair *r, const char *select, const char *key, const char *put, const char *types)
{
    static const char *const orders[] = {"", " DESC"};
    sqlite3_stmt *to;
    const int n = (int)strlen(types);
    SP_TRY(sp_shelf_prepare(r->to, put, &to));
    for (size_t i = 0; i < SP_COUNT(orders); i++) {
        char sql[200];
        sqlite3_stmt *from = NULL;
        snprintf(sql, sizeof sql, "%s ORDER BY %s%s", select, key, orders[i]);
        if (sqlite3_prepare_v2(r->from, sql, -1, &from, NULL) != SQLITE_OK) break; /* there is no such table */
        int rc;
        while ((rc = sqlite3_step(from)) == SQLITE_ROW) {
            if (copy_columns(from, to, n, types)) run(to);
            sqlite3_reset(to);
        }
        sqlite3_finalize(from);
        if (rc == SQLITE_DONE) break;
    }
    sqlite3_finalize(to);
    return SP_OK;
}

/* copy_collections -- those without documents, too; and the counts of indexes, whose passages are elsewhere. */
static sp_err copy_collections(repair *r)
{
    if (!r->o->save) return SP_OK;
    SP_TRY(copy_rows(r, "SELECT tenant, name, created FROM collections", "tenant",
                     "INSERT OR IGNORE INTO collections VALUES (?, ?, ?)", "tti"));
    SP_TRY(sp_shelf_members_repair(r->to));
    return copy_rows(r, "SELECT chunk, place, n FROM retrieved WHERE place LIKE '/%'", "chunk",
                     "INSERT OR IGNORE INTO retrieved SELECT ?1, ?2, ?3 WHERE NOT EXISTS"
                     " (SELECT 1 FROM collections WHERE tenant || '/' || name = ?2)",
                     "dti");
}

/* copy_forms -- of texts that are saved or doomed. */
static sp_err copy_forms(repair *r)
{
    return copy_rows(r, "SELECT bare, id FROM forms", "bare",
                     "INSERT OR IGNORE INTO forms SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM chunks WHERE bare = ?1)",
                     "dd");
}

static sp_err prepare(repair *r)
{
    SP_TRY(sp_shelf_prepare(r->to, put_sql, &r->put));
    SP_TRY(sp_shelf_prepare(r->to, put_chunk_sql, &r->put_chunk));
    SP_TRY(sp_shelf_prepare(r->to, put_member_sql, &r->collections.put));
    SP_TRY(sp_shelf_prepare(r->to, put_count_sql, &r->collections.put_count));
    sqlite3_prepare_v2(r->from, expected_sql, -1, &r->expected, NULL); /* NULL: no such indices can be read */
    sqlite3_prepare_v2(r->from, member_sql, -1, &r->collections.member, NULL);
    sqlite3_prepare_v2(r->from, count_sql, -1, &r->collections.count, NULL);
    if (sqlite3_prepare_v2(r->from, next_sql, -1, &r->next, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(r->from, chunks_sql, -1, &r->chunks, NULL) == SQLITE_OK)
        return SP_OK;
    if (!r->o->save) return SP_OK;
    return sp_fail(SP_E_FORMAT,
                   "%s: %s: nothing in it can be read; spolia documents rebuild %s begins a new file and keeps "
                   "this one",
                   r->path, sqlite3_errmsg(r->from), r->path);
}

static sp_err copy_all(repair *r)
{
    SP_TRY(sp_db_open(r->path, "cannot open", true, &r->from));
    SP_TRY(prepare(r));
    if (!r->next || !r->chunks) return SP_OK;
    r->last = find_last(r->from);
    SP_TRY(sp_db_exec(r->to->db, r->to->path, "PRAGMA foreign_keys = OFF; BEGIN"));
    SP_TRY(copy_documents(r));
    SP_TRY(count_nameless(r));
    SP_TRY(copy_collections(r));
    SP_TRY(copy_forms(r));
    return sp_db_exec(r->to->db, r->to->path, "COMMIT");
}

static void close_all(repair *r)
{
    sqlite3_stmt *const all[] = {r->next, r->chunks, r->expected, r->put, r->put_chunk, r->collections.member,
                                 r->collections.put, r->collections.count, r->collections.put_count};
    for (size_t i = 0; i < SP_COUNT(all); i++) sqlite3_finalize(all[i]);
    sqlite3_close(r->from);
    sp_shelf_close(r->to);
}

sp_err sp_shelf_is_whole(const char *path, bool *whole)
{
    sp_shelf *s = NULL;
    sqlite3_stmt *q = NULL;
    *whole = false;
    if (access(path, F_OK) != 0) return sp_fail(SP_E_NOTFOUND, "%s: %s", path, strerror(errno));
    sp_err err = sp_shelf_open(path, &s);
    if (err == SP_OK) err = sp_shelf_prepare(s, "PRAGMA integrity_check(1)", &q);
    if (err == SP_OK && sqlite3_step(q) == SQLITE_ROW) {
        const char *said = (const char *)sqlite3_column_text(q, 0);
        *whole = said && strcmp(said, "ok") == 0;
    }
    sqlite3_finalize(q);
    sp_shelf_close(s);
    return err == SP_E_FORMAT ? SP_OK : err;
}

/* check_damaged -- refuses to replace a file that was never a database: it neither begins like one nor is binary and
 * of whole pages. */
static sp_err check_damaged(const char *path)
{
    enum { PAGE = 512 }; /* the smallest of SQLite */
    char head[PAGE];
    FILE *f = fopen(path, "rb");
    if (!f) return sp_fail(SP_E_IO, "%s: %s", path, strerror(errno));
    const size_t n = fread(head, 1, sizeof head, f);
    const bool sized = fseek(f, 0, SEEK_END) == 0 && ftell(f) % PAGE == 0;
    fclose(f);
    const bool begins = n >= 16 && memcmp(head, "SQLite format 3", 16) == 0;
    if (n == 0 || begins || (sized && memchr(head, 0, n))) return SP_OK;
    return sp_fail(SP_E_UNSUPPORTED,
                   "%s: does not look like a file of registered documents; if it is one, move it away, and the next "
                   "start of the server begins a new one",
                   path);
}

sp_err sp_shelf_repair(const char *path, const sp_shelf_repair_opts *o, sp_documents_repaired *out)
{
    if (!o->save) SP_TRY(check_damaged(path));
    repair r = {.path = path, .o = o};
    char *fresh = with(path, ".repaired");
    if (!fresh) return sp_fail_nomem("a path");
    if (unlink(fresh) != 0 && errno != ENOENT) {
        sp_err err = sp_fail(SP_E_IO, "%s: %s", fresh, strerror(errno));
        sp_free(fresh);
        return err;
    }
    sp_err err = sp_shelf_open(fresh, &r.to);
    if (err == SP_OK) err = copy_all(&r);
    close_all(&r);
    if (err == SP_OK) err = exchange(path, fresh);
    if (err != SP_OK)
        unlink(fresh);
    else
        *out = r.sum;
    sp_free(fresh);
    return err;
}
