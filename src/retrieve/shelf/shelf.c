#include "retrieve/shelf/shelf_int.h"

#include "base/clock.h"
#include "base/log.h"
#include "retrieve/documents/libxml.h"

#include <stdio.h>
#include <string.h>

/* The file says what it is: "SPOD", then the schema's version.
 *
 *   documents  one a row; doomed: 1: hidden, its copies are being erased; 2: hidden, its chunks are being
 *              added (after a crash: doomed)
 *   chunks     in the order of the document; dressed and bare: content ids (shelf.h) */
#define APPLICATION_ID 0x53504F44
#define SCHEMA_VERSION 1
#define MEMORY         ":memory:"

/* One transaction: after a crash or a loss of power, the file has all of it or nothing. */
static const char schema[] =
    "PRAGMA auto_vacuum = FULL;"
    "BEGIN IMMEDIATE;"
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
    "CREATE INDEX by_bare ON chunks (bare);"
    "COMMIT;";

/* -- opening ----------------------------------------------------------------------------------- */

sp_err sp_shelf_damage(const sp_shelf *s, sp_err err)
{
    if (err != SP_E_FORMAT) return err;
    return sp_fail(err, "%s: registered documents: %s; spolia documents repair %s saves what can be read", s->path,
                   sqlite3_errmsg(s->db), s->path);
}

/* Indexes for what the tick looks up each second, to avoid a walk over all documents; files of earlier versions
 * get them here. */
static const char indices[] =
    "CREATE INDEX IF NOT EXISTS hidden ON documents (doomed, row) WHERE doomed <> 0;"
    "CREATE INDEX IF NOT EXISTS ending ON documents (expires) WHERE doomed = 0 AND expires > 0;"
    "CREATE INDEX IF NOT EXISTS pinned ON documents (row) WHERE doomed = 0 AND pinned = 1;";

static sp_err exec(sp_shelf *s, const char *sql)
{
    return sp_shelf_damage(s, sp_db_exec(s->db, s->path, sql));
}

static sp_err number(sp_shelf *s, const char *sql, int64_t *out)
{
    return sp_shelf_damage(s, sp_db_number(s->db, s->path, sql, out));
}

static sp_err check(sp_shelf *s)
{
    int64_t id, version, n_tables;
    SP_TRY(number(s, "PRAGMA application_id", &id));
    SP_TRY(number(s, "PRAGMA user_version", &version));
    SP_TRY(number(s, "SELECT count(*) FROM sqlite_schema", &n_tables));
    if (n_tables == 0 && id == 0) return exec(s, schema);
    if (id != APPLICATION_ID)
        return sp_fail(SP_E_UNSUPPORTED, "%s: not a file of registered documents", s->path);
    if (version != SCHEMA_VERSION)
        return sp_fail(SP_E_UNSUPPORTED,
                       "%s: registered documents of version %lld, this program reads %d", s->path,
                       (long long)version, SCHEMA_VERSION);
    return SP_OK;
}

/* open_file -- on a read-only file system opens the existing file, or none. */
static sp_err open_file(sp_shelf *s)
{
    static const char doing[] = "cannot open registered documents";
    sp_db_place_kind place;
    SP_TRY(sp_db_place(s->path, &place));
    s->read_only = place != SP_DB_WRITABLE;
    const char *path = place == SP_DB_FIXED_AND_NONE ? MEMORY : s->path;
    SP_TRY(sp_db_open(path, doing, place != SP_DB_FIXED, &s->db));
    return s->read_only ? SP_OK : sp_shelf_damage(s, sp_gaps_begin(&s->gaps, s->db, s->path));
}

/* leave_no_page_free -- rewrites a file of an earlier version, once. A page that is free when a transaction begins is
 * not in its journal, so it would keep what the transaction wrote there if that failed or was killed: texts, perhaps,
 * that are deleted later. With auto_vacuum no page is free. */
static sp_err leave_no_page_free(sp_shelf *s)
{
    int64_t on;
    SP_TRY(number(s, "PRAGMA auto_vacuum", &on));
    if (on) return SP_OK;
    const int64_t start = sp_clock_us();
    sp_log(SP_LOG_WARN, "%s: is rewritten once, so that deleted texts leave nothing in it", s->path);
    sp_err err = exec(s, "PRAGMA temp_store = FILE; PRAGMA auto_vacuum = FULL; VACUUM; PRAGMA temp_store = MEMORY;");
    if (err == SP_OK) sp_log(SP_LOG_WARN, "%s: rewritten in %.1f s", s->path, (double)(sp_clock_us() - start) / 1e6);
    if (err == SP_OK || err == SP_E_FORMAT) return err;
    sp_log(SP_LOG_WARN, "%s: cannot be rewritten, so a failed write may leave texts in its free pages: %s", s->path,
           sp_error_detail());
    return exec(s, "PRAGMA temp_store = MEMORY;");
}

/* prepare_file -- creates the tables in an empty file. Documents that a crash left half added are doomed. */
static sp_err prepare_file(sp_shelf *s)
{
    SP_TRY(exec(s, "PRAGMA secure_delete = ON; PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA;"
                   "PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON;"));
    SP_TRY(check(s));
    if (!s->read_only) SP_TRY(leave_no_page_free(s));
    SP_TRY(sp_shelf_prepare(s, "ROLLBACK", &s->roll_back));
    SP_TRY(sp_shelf_members_open(s));
    SP_TRY(sp_shelf_forms_open(s));
    if (s->read_only) return SP_OK;
    SP_TRY(exec(s, indices));
    return exec(s, "UPDATE documents SET doomed = 1 WHERE doomed = 2");
}

sp_err sp_shelf_open(const char *path, sp_shelf **out)
{
    SP_TRY(sp_libxml_enter()); /* which initialises it, long before memory may be short */
    sp_shelf *s = SP_NEW(sp_shelf);
    if (!s) return sp_fail_nomem("registered documents");
    if (!path) path = MEMORY;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->turn, NULL);
    sp_shelf_order_init(&s->order);
    s->path = sp_strdup_n(path, strlen(path));
    sp_err err = s->path ? open_file(s) : sp_fail_nomem("a file name");
    if (err == SP_OK) err = prepare_file(s);
    if (err == SP_OK)
        *out = s;
    else
        sp_shelf_close(s);
    return err;
}

bool sp_shelf_writes(const sp_shelf *s)
{
    return !s->read_only;
}

void sp_shelf_close(sp_shelf *s)
{
    if (!s) return;
    sqlite3_finalize(s->roll_back);
    sqlite3_close(s->db);
    sp_gaps_end(&s->gaps);
    sp_shelf_order_fini(&s->order);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->turn);
    sp_free(s->path);
    sp_free(s);
}

/* -- turns and statements ---------------------------------------------------------------------- */

/* roll_back -- ends the transaction that is open, if one is. */
static void roll_back(sp_shelf *s)
{
    if (sqlite3_get_autocommit(s->db)) return;
    sqlite3_step(s->roll_back);
    sqlite3_reset(s->roll_back);
}

void sp_shelf_enter(sp_shelf *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t ticket = s->n_tickets++;
    while (ticket != s->n_served) pthread_cond_wait(&s->turn, &s->lock);
    pthread_mutex_unlock(&s->lock);
    roll_back(s); /* if it failed for want of memory, when the transaction ended */
}

void sp_shelf_leave(sp_shelf *s)
{
    pthread_mutex_lock(&s->lock);
    s->n_served++;
    pthread_cond_broadcast(&s->turn);
    pthread_mutex_unlock(&s->lock);
}

sp_err sp_shelf_begin(sp_shelf *s)
{
    if (s->read_only)
        return sp_fail(SP_E_UNSUPPORTED, "%s: the file system is read-only; registered documents are only read",
                       s->path);
    sp_shelf_enter(s);
    sp_err err = exec(s, "BEGIN IMMEDIATE");
    if (err == SP_OK) return SP_OK;
    roll_back(s);
    sp_shelf_leave(s);
    return err;
}

sp_err sp_shelf_end(sp_shelf *s, sp_err err)
{
    if (err == SP_OK) err = exec(s, "COMMIT");
    if (err != SP_OK) roll_back(s);
    sp_shelf_leave(s);
    return err;
}

sp_err sp_shelf_end_noted(sp_shelf *s, sp_err err, const sp_shelf_event *e)
{
    const sp_err nothing = e->registered ? SP_OK : SP_E_NOTFOUND, asked = err;
    if (err == SP_OK || err == nothing) {
        const sp_err room = sp_shelf_make_room(s, e);
        if (room != SP_OK) err = room;
    }
    if (err == SP_OK) err = exec(s, "COMMIT");
    if (err != SP_OK) roll_back(s);
    if (err == asked && (err == SP_OK || err == nothing)) sp_shelf_note(s, e);
    sp_shelf_leave(s);
    return err;
}

void sp_shelf_bind_text(sqlite3_stmt *q, int at, const char *text)
{
    sqlite3_bind_text(q, at, text ? text : "", -1, SQLITE_STATIC);
}

static void bind_digest(sqlite3_stmt *q, int at, const sp_digest *d)
{
    sqlite3_bind_blob(q, at, d->b, sizeof d->b, SQLITE_STATIC);
}

static sp_err failed_to_write(sp_shelf *s)
{
    return sp_shelf_damage(s, sp_db_fail(s->db, s->path, "cannot write registered documents"));
}

sp_err sp_shelf_finish(sp_shelf *s, sqlite3_stmt *q, int *n_changed)
{
    bool done = sqlite3_step(q) == SQLITE_DONE;
    sp_err err = done ? SP_OK : failed_to_write(s);
    if (done && n_changed) *n_changed = sqlite3_changes(s->db);
    sqlite3_finalize(q);
    return err;
}

sp_err sp_shelf_find(sp_shelf *s, sqlite3_stmt *q, bool *found)
{
    const int rc = sqlite3_step(q);
    *found = rc == SQLITE_ROW;
    return *found || rc == SQLITE_DONE ? SP_OK : sp_shelf_failed(s);
}

sp_err sp_shelf_prepare(sp_shelf *s, const char *sql, sqlite3_stmt **q)
{
    return sp_shelf_damage(s, sp_db_prepare(s->db, s->path, sql, q));
}

sp_err sp_shelf_not_found(const char *id)
{
    return sp_fail(SP_E_NOTFOUND, "there is no document \"%.200s\"", id);
}

/* -- put --------------------------------------------------------------------------------------- */

static sp_err doom(sp_shelf *s, const char *tenant, const char *id, int *n)
{
    sqlite3_stmt *q;
    SP_TRY(sp_shelf_prepare(
        s, "UPDATE documents SET doomed = 1 WHERE tenant = ? AND id = ? AND doomed = 0", &q));
    sp_shelf_bind_text(q, 1, tenant);
    sp_shelf_bind_text(q, 2, id);
    SP_TRY(sp_shelf_finish(s, q, n));
    sp_shelf_changed(s, tenant, id);
    return SP_OK;
}

/* add_document -- one that is hidden until publish. */
static sp_err add_document(sp_shelf *s, const sp_shelf_row *r, int64_t *row)
{
    sqlite3_stmt *q;
    SP_TRY(sp_shelf_prepare(
        s,
        "INSERT INTO documents (tenant, id, title, created, expires, pinned, doomed)"
        " VALUES (?, ?, ?, ?, ?, ?, 2)",
        &q));
    sp_shelf_bind_text(q, 1, r->tenant);
    sp_shelf_bind_text(q, 2, r->id);
    sp_shelf_bind_text(q, 3, r->title);
    sqlite3_bind_int64(q, 4, r->created_s);
    sqlite3_bind_int64(q, 5, r->expires_s);
    sqlite3_bind_int(q, 6, r->pinned);
    SP_TRY(sp_shelf_finish(s, q, NULL));
    *row = sqlite3_last_insert_rowid(s->db);
    return SP_OK;
}

static bool add_chunk(sqlite3_stmt *q, int at, const sp_shelf_chunk *c)
{
    sqlite3_bind_int(q, 2, at);
    sp_shelf_bind_text(q, 3, c->title);
    sp_shelf_bind_text(q, 4, c->text);
    sqlite3_bind_int(q, 5, c->n_tokens);
    bind_digest(q, 6, &c->ids[0]);
    bind_digest(q, 7, &c->ids[1]);
    bool done = sqlite3_step(q) == SQLITE_DONE;
    sqlite3_reset(q);
    return done;
}

static sp_err add_chunks(sp_shelf *s, int64_t row, const sp_shelf_chunk *chunks, int from, int to)
{
    sqlite3_stmt *q;
    SP_TRY(sp_shelf_prepare(s, "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?)", &q));
    sqlite3_bind_int64(q, 1, row);
    sp_err err = SP_OK;
    for (int i = from; i < to && err == SP_OK; i++)
        if (!add_chunk(q, i, &chunks[i]))
            err = failed_to_write(s);
    sqlite3_finalize(q);
    return err;
}

static sp_err is_taken(const char *id)
{
    return sp_fail(SP_E_ARG, "there is a document \"%.200s\" already", id);
}

/* publish -- the document takes the place of the one with its id. */
static sp_err publish(sp_shelf *s, const sp_shelf_row *r, int64_t row)
{
    int n_old = 0;
    SP_TRY(doom(s, r->tenant, r->id, &n_old));
    if (n_old && !r->replace) return is_taken(r->id);
    sqlite3_stmt *q;
    SP_TRY(sp_shelf_prepare(s, "UPDATE documents SET doomed = 0 WHERE row = ?", &q));
    sqlite3_bind_int64(q, 1, row);
    SP_TRY(sp_shelf_finish(s, q, NULL));
    sp_shelf_changed(s, r->tenant, r->id);
    return SP_OK;
}

/* check_free -- whether the id may be used, before anything is written; publish decides. */
static sp_err check_free(sp_shelf *s, const sp_shelf_row *r)
{
    sqlite3_stmt *q;
    if (r->replace) return SP_OK;
    SP_TRY(sp_shelf_prepare(s, "SELECT 1 FROM documents WHERE tenant = ? AND id = ? AND doomed = 0",
                            &q));
    sp_shelf_bind_text(q, 1, r->tenant);
    sp_shelf_bind_text(q, 2, r->id);
    bool taken;
    sp_err err = sp_shelf_find(s, q, &taken);
    if (err == SP_OK && taken) err = is_taken(r->id);
    sqlite3_finalize(q);
    return err;
}

/* is_replaced -- whether a registration that arrived later has been published. */
static bool is_replaced(const sp_shelf_row *r)
{
    return r->replace && r->arrival && r->arrival->replaced;
}

/* end_slice -- the last slice publishes the document. */
static sp_err end_slice(sp_shelf *s, const sp_shelf_row *r, sp_err err, int64_t row, bool last)
{
    if (err == SP_OK && last) err = publish(s, r, row);
    if (!last || !r->arrival) return sp_shelf_end(s, err);
    sp_shelf_event registration = sp_shelf_event_of(r->arrival->number, r->tenant, r->id);
    registration.registered = true;
    return sp_shelf_end_noted(s, err, &registration);
}

/* put_slice -- a transaction: the first adds the document, the last publishes it. */
static sp_err put_slice(sp_shelf *s, const sp_shelf_row *r, const sp_shelf_chunk *chunks, int n,
                        int from, int64_t *row)
{
    int to = SP_MIN(n, from + SP_SHELF_SLICE);
    SP_TRY(sp_shelf_begin(s));
    sp_err err = sp_shelf_check_order(s, r);
    if (err == SP_OK && is_replaced(r)) return sp_shelf_end(s, SP_OK);
    if (err == SP_OK && from == 0) err = check_free(s, r);
    if (err == SP_OK) err = sp_shelf_members_check(s, r);
    if (err == SP_OK && from == 0) err = add_document(s, r, row);
    if (err == SP_OK && from == 0) err = sp_shelf_members_add(s, r, *row, chunks, n);
    if (err == SP_OK) err = add_chunks(s, *row, chunks, from, to);
    if (err == SP_OK) err = sp_shelf_forms_put(s, chunks, from, to);
    return end_slice(s, r, err, *row, to == n);
}

/* discard -- dooms the slices that were written; if this fails, the next sp_shelf_open does it. */
static void discard(sp_shelf *s, int64_t row)
{
    char sql[96];
    snprintf(sql, sizeof sql, "UPDATE documents SET doomed = 1 WHERE row = %lld", (long long)row);
    sp_shelf_enter(s);
    sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    sp_shelf_leave(s);
}

sp_err sp_shelf_put(sp_shelf *s, const sp_shelf_row *row, const sp_shelf_chunk *chunks, int n)
{
    int64_t id = 0;
    int from = 0;
    sp_err err;
    do {
        err = put_slice(s, row, chunks, n, from, &id);
        if (err == SP_OK && !is_replaced(row)) from += SP_SHELF_SLICE;
    } while (err == SP_OK && from < n && !is_replaced(row));
    if (from > 0 && from < n) discard(s, id);
    return err;
}

/* -- changes ----------------------------------------------------------------------------------- */

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
    SP_TRY(sp_shelf_begin(s));
    sp_err err = sp_shelf_prepare(s, sql[field], &q);
    if (err == SP_OK) {
        sqlite3_bind_int64(q, 1, value);
        sp_shelf_bind_text(q, 2, tenant);
        sp_shelf_bind_text(q, 3, id);
        err = sp_shelf_finish(s, q, &n);
    }
    if (err == SP_OK && n == 0) err = sp_shelf_not_found(id);
    return sp_shelf_end(s, err);
}

sp_err sp_shelf_doom(sp_shelf *s, const char *tenant, const char *id)
{
    int n = 0;
    const sp_shelf_event deletion = sp_shelf_event_of(sp_shelf_number(s), tenant, id);
    SP_TRY(sp_shelf_begin(s));
    sp_err err = doom(s, tenant, id, &n);
    if (err == SP_OK && n == 0) err = sp_shelf_not_found(id);
    return sp_shelf_end_noted(s, err, &deletion);
}

sp_err sp_shelf_doom_expired(sp_shelf *s, int64_t now_s)
{
    sqlite3_stmt *q;
    SP_TRY(sp_shelf_begin(s));
    sp_err err = sp_shelf_prepare(
        s, "UPDATE documents SET doomed = 1 WHERE doomed = 0 AND expires > 0 AND expires < ?", &q);
    if (err == SP_OK) {
        int n = 0;
        sqlite3_bind_int64(q, 1, now_s);
        err = sp_shelf_finish(s, q, &n);
        if (n) sp_shelf_changed(s, NULL, NULL);
    }
    return sp_shelf_end(s, err);
}
