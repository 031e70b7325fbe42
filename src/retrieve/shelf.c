#include "retrieve/shelf.h"

#include <pthread.h>
#include <string.h>

#include "retrieve/read_int.h"

/* The file says what it is: "SPOD", then the schema's version.
 *
 *   documents  one a row; doomed: hidden, its copies are being erased
 *   chunks     in the order of the document; dressed and bare: content ids (shelf.h) */
#define APPLICATION_ID 0x53504F44
#define SCHEMA_VERSION 1

static const char schema[] =
    "PRAGMA application_id = 0x53504F44;"
    "PRAGMA user_version = 1;"
    "CREATE TABLE documents ("
    "  row INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, id TEXT NOT NULL,"
    "  title TEXT NOT NULL, created INTEGER NOT NULL, expires INTEGER NOT NULL,"
    "  pinned INTEGER NOT NULL, doomed INTEGER NOT NULL DEFAULT 0);"
    "CREATE UNIQUE INDEX live ON documents (tenant, id) WHERE doomed = 0;"
    "CREATE TABLE chunks ("
    "  document INTEGER NOT NULL REFERENCES documents, at INTEGER NOT NULL, title TEXT NOT NULL,"
    "  text TEXT NOT NULL, n_tokens INTEGER NOT NULL, dressed BLOB NOT NULL, bare BLOB NOT NULL,"
    "  PRIMARY KEY (document, at)) WITHOUT ROWID;"
    "CREATE INDEX by_dressed ON chunks (dressed);"
    "CREATE INDEX by_bare ON chunks (bare);";

struct sp_shelf {
    pthread_mutex_t lock; /* guards db */
    sqlite3 *db;
    char *path;
};

/* -- opening ----------------------------------------------------------------------------------- */

static sp_err check(sp_shelf *s)
{
    int64_t id, version, n_tables;
    SP_TRY(sp_db_number(s->db, s->path, "PRAGMA application_id", &id));
    SP_TRY(sp_db_number(s->db, s->path, "PRAGMA user_version", &version));
    SP_TRY(sp_db_number(s->db, s->path, "SELECT count(*) FROM sqlite_schema", &n_tables));
    if (n_tables == 0 && id == 0) return sp_db_exec(s->db, s->path, schema);
    if (id != APPLICATION_ID)
        return sp_fail(SP_E_FORMAT, "%s: not a file of registered documents", s->path);
    if (version != SCHEMA_VERSION)
        return sp_fail(SP_E_FORMAT,
                       "%s: registered documents of version %lld, this program reads %d", s->path,
                       (long long)version, SCHEMA_VERSION);
    return SP_OK;
}

sp_err sp_shelf_open(const char *path, sp_shelf **out)
{
    sp_shelf *s = SP_NEW(sp_shelf);
    if (!s) return sp_fail_nomem(sizeof *s, "registered documents");
    if (!path) path = ":memory:";
    pthread_mutex_init(&s->lock, NULL);
    s->path = sp_strdup_n(path, strlen(path));
    sp_err err = s->path ? SP_OK : sp_fail_nomem(strlen(path), "a file name");
    if (err == SP_OK) err = sp_db_open(path, "cannot open registered documents", true, &s->db);
    if (err == SP_OK)
        err = sp_db_exec(s->db, path,
                         "PRAGMA secure_delete = ON; PRAGMA journal_mode = DELETE;"
                         "PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON;");
    if (err == SP_OK) err = check(s);
    if (err == SP_OK)
        *out = s;
    else
        sp_shelf_close(s);
    return err;
}

void sp_shelf_close(sp_shelf *s)
{
    if (!s) return;
    sqlite3_close(s->db);
    pthread_mutex_destroy(&s->lock);
    sp_free(s->path);
    sp_free(s);
}

/* -- statements; lock is held ------------------------------------------------------------------ */

static void bind_text(sqlite3_stmt *q, int at, const char *text)
{
    sqlite3_bind_text(q, at, text ? text : "", -1, SQLITE_STATIC);
}

static void bind_digest(sqlite3_stmt *q, int at, const sp_digest *d)
{
    sqlite3_bind_blob(q, at, d->b, sizeof d->b, SQLITE_STATIC);
}

/* finish -- runs a statement without rows, and ends it; *n_changed may be NULL. */
static sp_err finish(sp_shelf *s, sqlite3_stmt *q, int *n_changed)
{
    bool done = sqlite3_step(q) == SQLITE_DONE;
    sp_err err = done ? SP_OK : sp_db_fail(s->db, s->path, "cannot write registered documents");
    if (done && n_changed) *n_changed = sqlite3_changes(s->db);
    sqlite3_finalize(q);
    return err;
}

static sp_err prepare(sp_shelf *s, const char *sql, sqlite3_stmt **q)
{
    return sp_db_prepare(s->db, s->path, sql, q);
}

/* begin -- takes the lock; end -- commits, or rolls back after an error, and releases it. */
static sp_err begin(sp_shelf *s)
{
    pthread_mutex_lock(&s->lock);
    sp_err err = sp_db_exec(s->db, s->path, "BEGIN IMMEDIATE");
    if (err != SP_OK) pthread_mutex_unlock(&s->lock);
    return err;
}

static sp_err end(sp_shelf *s, sp_err err)
{
    if (err == SP_OK) err = sp_db_exec(s->db, s->path, "COMMIT");
    if (err != SP_OK) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    pthread_mutex_unlock(&s->lock);
    return err;
}

static sp_err not_found(const char *id)
{
    return sp_fail(SP_E_NOTFOUND, "there is no document \"%.200s\"", id);
}

/* -- put --------------------------------------------------------------------------------------- */

static sp_err doom(sp_shelf *s, const char *tenant, const char *id, int *n)
{
    sqlite3_stmt *q;
    SP_TRY(prepare(s, "UPDATE documents SET doomed = 1 WHERE tenant = ? AND id = ? AND doomed = 0",
                   &q));
    bind_text(q, 1, tenant);
    bind_text(q, 2, id);
    return finish(s, q, n);
}

static sp_err add_document(sp_shelf *s, const sp_shelf_row *r, int64_t *row)
{
    sqlite3_stmt *q;
    SP_TRY(prepare(s,
                   "INSERT INTO documents (tenant, id, title, created, expires, pinned)"
                   " VALUES (?, ?, ?, ?, ?, ?)",
                   &q));
    bind_text(q, 1, r->tenant);
    bind_text(q, 2, r->id);
    bind_text(q, 3, r->title);
    sqlite3_bind_int64(q, 4, r->created_s);
    sqlite3_bind_int64(q, 5, r->expires_s);
    sqlite3_bind_int(q, 6, r->pinned);
    SP_TRY(finish(s, q, NULL));
    *row = sqlite3_last_insert_rowid(s->db);
    return SP_OK;
}

static sp_err add_chunk(sp_shelf *s, int64_t row, int at, const sp_shelf_chunk *c)
{
    sqlite3_stmt *q;
    SP_TRY(prepare(s, "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?)", &q));
    sqlite3_bind_int64(q, 1, row);
    sqlite3_bind_int(q, 2, at);
    bind_text(q, 3, c->title);
    bind_text(q, 4, c->text);
    sqlite3_bind_int(q, 5, c->n_tokens);
    bind_digest(q, 6, &c->ids[0]);
    bind_digest(q, 7, &c->ids[1]);
    return finish(s, q, NULL);
}

static sp_err put(sp_shelf *s, const sp_shelf_row *r, const sp_shelf_chunk *chunks, int n)
{
    int n_old = 0;
    int64_t row;
    SP_TRY(doom(s, r->tenant, r->id, &n_old));
    if (n_old && !r->replace)
        return sp_fail(SP_E_ARG, "there is a document \"%.200s\" already", r->id);
    SP_TRY(add_document(s, r, &row));
    for (int i = 0; i < n; i++) SP_TRY(add_chunk(s, row, i, &chunks[i]));
    return SP_OK;
}

sp_err sp_shelf_put(sp_shelf *s, const sp_shelf_row *row, const sp_shelf_chunk *chunks, int n)
{
    SP_TRY(begin(s));
    return end(s, put(s, row, chunks, n));
}

/* -- reading ----------------------------------------------------------------------------------- */

static const char *copy_text(sqlite3_stmt *q, int column, sp_arena *arena)
{
    const unsigned char *text = sqlite3_column_text(q, column);
    size_t n = text ? (size_t)sqlite3_column_bytes(q, column) : 0;
    char *copy = sp_arena_take(arena, n + 1, 1); /* zeroed, so terminated */
    if (copy && n) memcpy(copy, text, n);
    return copy;
}

static const char list_sql[] =
    "SELECT d.id, d.title, created, expires, pinned, count(c.at), coalesce(sum(length(CAST(c.text "
    "AS"
    " BLOB))), 0), coalesce(sum(c.n_tokens), 0)"
    " FROM documents AS d LEFT JOIN chunks AS c ON c.document = d.row"
    " WHERE tenant = ?1 AND doomed = 0 AND (expires = 0 OR expires >= ?2)"
    "  AND d.id > ?3 AND (?4 IS NULL OR d.id = ?4) GROUP BY d.row ORDER BY d.id LIMIT ?5";

typedef SP_VEC(sp_document_info) info_list;

static sp_err take_info(sqlite3_stmt *q, sp_arena *arena, info_list *out)
{
    SP_TRY(sp_vec_reserve(out, 1));
    sp_document_info i = {.id = copy_text(q, 0, arena),
                          .title = copy_text(q, 1, arena),
                          .created_s = sqlite3_column_int64(q, 2),
                          .expires_s = sqlite3_column_int64(q, 3),
                          .pinned = sqlite3_column_int(q, 4) != 0,
                          .n_chunks = sqlite3_column_int64(q, 5),
                          .n_bytes = sqlite3_column_int64(q, 6),
                          .n_tokens = sqlite3_column_int64(q, 7)};
    if (!i.id || !i.title) return sp_fail_nomem(sizeof i, "a document");
    out->v[out->n++] = i;
    return SP_OK;
}

static sp_err run_list(sp_shelf *s, const sp_shelf_query *query, sp_arena *arena, info_list *out)
{
    sqlite3_stmt *q;
    int rc;
    SP_TRY(prepare(s, list_sql, &q));
    bind_text(q, 1, query->tenant);
    sqlite3_bind_int64(q, 2, query->now_s);
    bind_text(q, 3, query->after);
    if (query->id) bind_text(q, 4, query->id);
    sqlite3_bind_int(q, 5, query->limit);
    sp_err err = SP_OK;
    while (err == SP_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) err = take_info(q, arena, out);
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(s->db, s->path, "cannot read");
    sqlite3_finalize(q);
    return err;
}

sp_err sp_shelf_list(sp_shelf *s, const sp_shelf_query *q, sp_document_list *out)
{
    info_list list = {0};
    sp_arena *arena = SP_NEW(sp_arena);
    if (!arena) return sp_fail_nomem(sizeof *arena, "documents");
    pthread_mutex_lock(&s->lock);
    sp_err err = run_list(s, q, arena, &list);
    pthread_mutex_unlock(&s->lock);
    if (err == SP_OK && q->id && list.n == 0) err = not_found(q->id);
    sp_document_list result = {.v = list.v, .n = (int)list.n, .strings = arena};
    if (err == SP_OK)
        *out = result;
    else
        sp_document_list_fini(&result);
    return err;
}

void sp_document_list_fini(sp_document_list *l)
{
    if (!l) return;
    if (l->strings) sp_arena_fini(l->strings);
    sp_free(l->strings);
    sp_free(l->v);
    *l = (sp_document_list){0};
}

/* as_hits -- rows of: document row, position, id, title, text, tenant. Ends the statement. */
static sp_err as_hits(sp_shelf *s, sqlite3_stmt *q, sp_hits *out)
{
    SP_VEC(sp_hit) hits = {0};
    sp_arena *arena = SP_NEW(sp_arena);
    sp_err err = arena ? SP_OK : sp_fail_nomem(sizeof *arena, "chunks");
    int rc = SQLITE_DONE;
    while (err == SP_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        sp_hit h = {.id = sqlite3_column_int64(q, 1),
                    .file = copy_text(q, 2, arena),
                    .title = copy_text(q, 3, arena),
                    .text = copy_text(q, 4, arena),
                    .root = copy_text(q, 5, arena)};
        err = sp_vec_reserve(&hits, 1);
        if (err == SP_OK && !(h.file && h.title && h.text && h.root))
            err = sp_fail_nomem(sizeof h, "a chunk");
        if (err == SP_OK) hits.v[hits.n++] = h;
    }
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(s->db, s->path, "cannot read");
    sqlite3_finalize(q);
    sp_hits result = {.v = hits.v, .n = (int)hits.n, .strings = arena};
    if (err == SP_OK)
        *out = result;
    else
        sp_hits_fini(&result);
    return err;
}

#define CHUNK_COLUMNS "c.document, c.at, d.id, c.title, c.text, d.tenant"

sp_err sp_shelf_chunks(sp_shelf *s, const char *tenant, const char *id, sp_hits *out)
{
    sqlite3_stmt *q;
    pthread_mutex_lock(&s->lock);
    sp_err err = prepare(s,
                         "SELECT " CHUNK_COLUMNS
                         " FROM documents AS d JOIN chunks AS c ON c.document = d.row"
                         " WHERE tenant = ?1 AND doomed = 0 AND (?2 IS NULL OR d.id = ?2)"
                         " ORDER BY d.id, c.at",
                         &q);
    if (err == SP_OK) {
        bind_text(q, 1, tenant);
        if (id) bind_text(q, 2, id);
        err = as_hits(s, q, out);
    }
    pthread_mutex_unlock(&s->lock);
    if (err == SP_OK && id && out->n == 0) {
        sp_hits_fini(out);
        err = not_found(id);
    }
    return err;
}

sp_err sp_shelf_live(sp_shelf *s, sp_hits *out)
{
    sqlite3_stmt *q;
    pthread_mutex_lock(&s->lock);
    sp_err err = prepare(s,
                         "SELECT " CHUNK_COLUMNS
                         " FROM documents AS d JOIN chunks AS c ON c.document = d.row"
                         " WHERE doomed = 0 ORDER BY d.row, c.at",
                         &q);
    if (err == SP_OK) err = as_hits(s, q, out);
    pthread_mutex_unlock(&s->lock);
    return err;
}

sp_err sp_shelf_set(sp_shelf *s, const char *tenant, const char *id, sp_shelf_field field,
                    int64_t value)
{
    static const char *const sql[] = {
        [SP_SHELF_PINNED] =
            "UPDATE documents SET pinned = ? WHERE tenant = ? AND id = ? AND doomed = 0",
        [SP_SHELF_EXPIRES] =
            "UPDATE documents SET expires = ? WHERE tenant = ? AND id = ? AND doomed = 0"};
    sqlite3_stmt *q;
    int n = 0;
    SP_TRY(begin(s));
    sp_err err = prepare(s, sql[field], &q);
    if (err == SP_OK) {
        sqlite3_bind_int64(q, 1, value);
        bind_text(q, 2, tenant);
        bind_text(q, 3, id);
        err = finish(s, q, &n);
    }
    if (err == SP_OK && n == 0) err = not_found(id);
    return end(s, err);
}

/* -- content ids ------------------------------------------------------------------------------- */

/* take_ids -- rows of one digest. Ends the statement. */
static sp_err take_ids(sp_shelf *s, sqlite3_stmt *q, sp_digests *out)
{
    sp_err err = SP_OK;
    int rc = SQLITE_DONE;
    while (err == SP_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        const void *blob = sqlite3_column_blob(q, 0);
        if (sqlite3_column_bytes(q, 0) != sizeof out->v->b) continue; /* somebody else's row */
        err = sp_vec_reserve(out, 1);
        if (err == SP_OK) memcpy(out->v[out->n++].b, blob, sizeof out->v->b);
    }
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(s->db, s->path, "cannot read");
    sqlite3_finalize(q);
    return err;
}

#define BOTH_IDS(where)                                                                            \
    "SELECT dressed FROM documents AS d JOIN chunks AS c ON c.document = d.row WHERE " where       \
    " UNION SELECT bare FROM documents AS d JOIN chunks AS c ON c.document = d.row WHERE " where

sp_err sp_shelf_ids(sp_shelf *s, const char *tenant, const char *id, sp_digests *out)
{
    sqlite3_stmt *q;
    pthread_mutex_lock(&s->lock);
    sp_err err = prepare(s, BOTH_IDS("tenant = ?1 AND d.id = ?2 AND doomed = 0"), &q);
    if (err == SP_OK) {
        bind_text(q, 1, tenant);
        bind_text(q, 2, id);
        err = take_ids(s, q, out);
    }
    pthread_mutex_unlock(&s->lock);
    return err == SP_OK && out->n == 0 ? not_found(id) : err;
}

sp_err sp_shelf_pinned_ids(sp_shelf *s, sp_digests *out)
{
    sqlite3_stmt *q;
    pthread_mutex_lock(&s->lock);
    sp_err err = prepare(s, BOTH_IDS("pinned = 1 AND doomed = 0") " ORDER BY 1", &q);
    if (err == SP_OK) err = take_ids(s, q, out);
    pthread_mutex_unlock(&s->lock);
    return err;
}

/* -- the end ----------------------------------------------------------------------------------- */

sp_err sp_shelf_doom(sp_shelf *s, const char *tenant, const char *id)
{
    int n = 0;
    SP_TRY(begin(s));
    sp_err err = doom(s, tenant, id, &n);
    if (err == SP_OK && n == 0) err = not_found(id);
    return end(s, err);
}

sp_err sp_shelf_doom_expired(sp_shelf *s, int64_t now_s)
{
    sqlite3_stmt *q;
    SP_TRY(begin(s));
    sp_err err = prepare(
        s, "UPDATE documents SET doomed = 1 WHERE doomed = 0 AND expires > 0 AND expires < ?", &q);
    if (err == SP_OK) {
        sqlite3_bind_int64(q, 1, now_s);
        err = finish(s, q, NULL);
    }
    return end(s, err);
}

static const char doomed_sql[] =
    BOTH_IDS("doomed = 1") " EXCEPT SELECT * FROM (" BOTH_IDS("doomed = 0") ") ORDER BY 1";

static sp_err read_doomed(sp_shelf *s, sp_digests *ids, sp_hits *texts, int64_t *last)
{
    sqlite3_stmt *q;
    SP_TRY(sp_db_number(s->db, s->path,
                        "SELECT coalesce(max(row), 0) FROM documents WHERE doomed = 1", last));
    if (*last == 0) return SP_OK;
    SP_TRY(prepare(s, doomed_sql, &q));
    SP_TRY(take_ids(s, q, ids));
    SP_TRY(prepare(
        s,
        "SELECT " CHUNK_COLUMNS
        " FROM documents AS d JOIN chunks AS c ON c.document = d.row WHERE doomed = 1"
        " AND NOT EXISTS (SELECT 1 FROM chunks AS o JOIN documents AS l ON o.document = l.row"
        "  WHERE o.dressed = c.dressed AND l.doomed = 0)",
        &q));
    return as_hits(s, q, texts);
}

sp_err sp_shelf_doomed(sp_shelf *s, sp_digests *ids, sp_hits *texts, int64_t *last)
{
    *last = 0;
    pthread_mutex_lock(&s->lock);
    sp_err err = read_doomed(s, ids, texts, last);
    pthread_mutex_unlock(&s->lock);
    return err;
}

static sp_err forget(sp_shelf *s, const char *sql, int64_t last)
{
    sqlite3_stmt *q;
    SP_TRY(prepare(s, sql, &q));
    sqlite3_bind_int64(q, 1, last);
    return finish(s, q, NULL);
}

sp_err sp_shelf_forget(sp_shelf *s, int64_t last)
{
    SP_TRY(begin(s));
    sp_err err = forget(s,
                        "DELETE FROM chunks WHERE document IN"
                        " (SELECT row FROM documents WHERE doomed = 1 AND row <= ?)",
                        last);
    if (err == SP_OK) err = forget(s, "DELETE FROM documents WHERE doomed = 1 AND row <= ?", last);
    return end(s, err);
}
