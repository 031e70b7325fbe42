#include "retrieve/shelf/collections.h"

#include <stdio.h>
#include <string.h>

#include "retrieve/shelf/shelf_int.h"

/* Files of earlier versions get these tables when they are opened; if nothing can be written, empty ones in
 * memory. */
#define TABLES(create)                                                                                                \
    create "collections (tenant TEXT NOT NULL, name TEXT NOT NULL, created INTEGER NOT NULL,"                         \
    "  PRIMARY KEY (tenant, name)) WITHOUT ROWID;" create                                                             \
    "members (document INTEGER PRIMARY KEY REFERENCES documents ON DELETE CASCADE, file TEXT NOT NULL,"               \
    "  tags TEXT NOT NULL, n_chunks INTEGER NOT NULL, n_bytes INTEGER NOT NULL, encoder TEXT NOT NULL);" create       \
    "vectors (document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE, at INTEGER NOT NULL,"                 \
    "  encoder TEXT NOT NULL, v BLOB NOT NULL, PRIMARY KEY (document, at)) WITHOUT ROWID;" create                     \
    "retrieved (chunk BLOB NOT NULL, place TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (chunk, place))"            \
    "  WITHOUT ROWID;"

static sp_err exec(sp_shelf *s, const char *sql)
{
    return sp_shelf_damage(s, sp_db_exec(s->db, s->path, sql));
}

sp_err sp_shelf_members_open(sp_shelf *s)
{
    int64_t n;
    SP_TRY(sp_db_number(s->db, s->path, "SELECT count(*) FROM sqlite_schema WHERE name = 'retrieved'", &n));
    if (n) return SP_OK;
    if (s->read_only) return exec(s, TABLES("CREATE TEMP TABLE "));
    return exec(s, TABLES("CREATE TABLE IF NOT EXISTS ")
                   "CREATE INDEX IF NOT EXISTS members_of_encoder ON members (encoder);"
                   "CREATE INDEX IF NOT EXISTS retrieved_of_place ON retrieved (place, n);");
}

/* name_of -- the bytes of the collection's name in an id; 0: it is outside all. */
static int name_of(const char *id)
{
    const char *slash = strchr(id, '/');
    return slash ? (int)(slash - id) : 0;
}

static sp_err no_collection(const char *name, int n)
{
    return sp_fail(SP_E_NOTFOUND, "there is no collection \"%.*s\"", n, name);
}

sp_err sp_shelf_members_check(sp_shelf *s, const sp_shelf_row *r)
{
    sqlite3_stmt *q;
    const int n = name_of(r->id);
    if (!n) return SP_OK;
    SP_TRY(sp_shelf_prepare(s, "SELECT 1 FROM collections WHERE tenant = ? AND name = ?", &q));
    sp_shelf_bind_text(q, 1, r->tenant);
    sqlite3_bind_text(q, 2, r->id, n, SQLITE_STATIC);
    bool there;
    sp_err err = sp_shelf_find(s, q, &there);
    if (err == SP_OK && !there) err = no_collection(r->id, n);
    sqlite3_finalize(q);
    return err;
}

sp_err sp_shelf_members_add(sp_shelf *s, const sp_shelf_row *r, int64_t row, const sp_shelf_chunk *chunks, int n)
{
    sqlite3_stmt *q;
    int64_t n_bytes = 0;
    if (!name_of(r->id)) return SP_OK;
    for (int i = 0; i < n; i++) n_bytes += (int64_t)strlen(chunks[i].text);
    SP_TRY(sp_shelf_prepare(s, "INSERT INTO members VALUES (?, ?, ?, ?, ?, '')", &q));
    sqlite3_bind_int64(q, 1, row);
    sp_shelf_bind_text(q, 2, r->file);
    sp_shelf_bind_text(q, 3, r->tags);
    sqlite3_bind_int(q, 4, n);
    sqlite3_bind_int64(q, 5, n_bytes);
    return sp_shelf_finish(s, q, NULL);
}

sp_err sp_shelf_members_repair(sp_shelf *s)
{
    return exec(s, "INSERT OR IGNORE INTO collections SELECT tenant, substr(id, 1, instr(id, '/') - 1), min(created)"
                   "  FROM documents WHERE instr(id, '/') > 0 AND doomed = 0 GROUP BY 1, 2;"
                   "INSERT OR IGNORE INTO members SELECT row, '', '',"
                   "  (SELECT count(*) FROM chunks WHERE document = row),"
                   "  (SELECT sum(length(CAST(text AS BLOB))) FROM chunks WHERE document = row), ''"
                   "  FROM documents WHERE instr(id, '/') > 0");
}

/* -- collections ------------------------------------------------------------------------------- */

/* run_named -- a statement with tenant, name and a number. Within a transaction. */
static sp_err run_named(sp_shelf *s, const char *sql, const char *tenant, const char *name, int64_t number, int *n)
{
    sqlite3_stmt *q;
    SP_TRY(sp_shelf_prepare(s, sql, &q));
    sp_shelf_bind_text(q, 1, tenant);
    sp_shelf_bind_text(q, 2, name);
    sqlite3_bind_int64(q, 3, number);
    return sp_shelf_finish(s, q, n);
}

sp_err sp_shelf_add_collection(sp_shelf *s, const char *tenant, const char *name, int64_t now_s)
{
    int n = 0;
    SP_TRY(sp_shelf_begin(s));
    sp_err err = run_named(s, "INSERT OR IGNORE INTO collections VALUES (?, ?, ?)", tenant, name, now_s, &n);
    if (err == SP_OK && !n) err = sp_fail(SP_E_ARG, "there is a collection \"%.64s\" already", name);
    return sp_shelf_end(s, err);
}

#define OF_COLLECTION "tenant = ?1 AND doomed = 0 AND id > ?2 || '/' AND id < ?2 || '0'" /* '0' is '/' + 1 */

sp_err sp_shelf_drop_collection(sp_shelf *s, const char *tenant, const char *name)
{
    int n = 0, n_documents;
    char members[SP_PLACE_BYTES];
    snprintf(members, sizeof members, "%s/", name);
    const sp_shelf_event deletion = sp_shelf_event_of(sp_shelf_number(s), tenant, members);
    SP_TRY(sp_shelf_begin(s));
    sp_err err = run_named(s, "DELETE FROM collections WHERE tenant = ?1 AND name = ?2", tenant, name, 0, &n);
    if (err == SP_OK && !n) err = no_collection(name, (int)strlen(name));
    if (err == SP_OK)
        err = run_named(s, "UPDATE documents SET doomed = 1 WHERE " OF_COLLECTION, tenant, name, 0, &n_documents);
    if (err == SP_OK)
        err = run_named(s, "DELETE FROM retrieved WHERE place = ?1 || '/' || ?2", tenant, name, 0, &n_documents);
    err = sp_shelf_end_noted(s, err, &deletion);
    sp_shelf_changed(s, NULL, NULL);
    return err;
}

static const char list_sql[] =
    "SELECT c.name, c.tenant, c.created, count(m.document), coalesce(sum(m.n_chunks), 0),"
    "  coalesce(sum(m.n_bytes), 0), coalesce(sum(CASE m.encoder WHEN ?3 THEN m.n_chunks ELSE 0 END), 0),"
    "  (SELECT coalesce(sum(n), 0) FROM retrieved WHERE place = c.tenant || '/' || c.name)"
    " FROM collections AS c LEFT JOIN documents AS d ON d.tenant = c.tenant AND d.doomed = 0"
    "  AND d.id > c.name || '/' AND d.id < c.name || '0' AND (d.expires = 0 OR d.expires >= ?4)"
    " LEFT JOIN members AS m ON m.document = d.row"
    " WHERE (?1 IS NULL OR c.tenant = ?1) AND (?2 IS NULL OR c.name = ?2) GROUP BY c.tenant, c.name"
    " ORDER BY c.name, c.tenant";

typedef SP_VEC(sp_collection_info) info_list;

static sp_err take_info(sqlite3_stmt *q, sp_arena *arena, info_list *out)
{
    SP_TRY(sp_vec_reserve(out, 1));
    const sp_collection_info i = {.name = sp_shelf_copy_text(q, 0, arena),
                                  .tenant = sp_shelf_copy_text(q, 1, arena),
                                  .created_s = sqlite3_column_int64(q, 2),
                                  .n_documents = sqlite3_column_int64(q, 3),
                                  .n_chunks = sqlite3_column_int64(q, 4),
                                  .n_bytes = sqlite3_column_int64(q, 5),
                                  .n_embedded = sqlite3_column_int64(q, 6),
                                  .n_retrieved = sqlite3_column_int64(q, 7)};
    if (!i.name || !i.tenant) return sp_fail_nomem("a collection");
    out->v[out->n++] = i;
    return SP_OK;
}

static void bind_or_null(sqlite3_stmt *q, int at, const char *text)
{
    if (text) sqlite3_bind_text(q, at, text, -1, SQLITE_STATIC);
}

static sp_err run_list(sp_shelf *s, const sp_collections_query *query, sp_arena *arena, info_list *out)
{
    sqlite3_stmt *q;
    int rc = SQLITE_DONE;
    SP_TRY(sp_shelf_prepare(s, list_sql, &q));
    bind_or_null(q, 1, query->tenant);
    bind_or_null(q, 2, query->name);
    bind_or_null(q, 3, query->encoder);
    sqlite3_bind_int64(q, 4, query->now_s);
    sp_err err = SP_OK;
    while (err == SP_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) err = take_info(q, arena, out);
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_shelf_failed(s);
    sqlite3_finalize(q);
    return err;
}

sp_err sp_shelf_collections(sp_shelf *s, const sp_collections_query *q, sp_collection_list *out)
{
    info_list list = {0};
    sp_arena *arena = SP_NEW(sp_arena);
    if (!arena) return sp_fail_nomem("collections");
    sp_shelf_enter(s);
    sp_err err = run_list(s, q, arena, &list);
    sp_shelf_leave(s);
    if (err == SP_OK && q->name && list.n == 0) err = no_collection(q->name, (int)strnlen(q->name, 64));
    sp_collection_list result = {.v = list.v, .n = (int)list.n, .strings = arena};
    if (err == SP_OK)
        *out = result;
    else
        sp_collection_list_fini(&result);
    return err;
}

void sp_collection_list_fini(sp_collection_list *l)
{
    if (!l) return;
    if (l->strings) sp_arena_fini(l->strings);
    sp_free(l->strings);
    sp_free(l->v);
    *l = (sp_collection_list){0};
}

/* -- passages ---------------------------------------------------------------------------------- */

#define PASSAGES(where)                                                                                               \
    "SELECT c.document, c.at, substr(d.id, instr(d.id, '/') + 1), c.title, c.text, d.tenant,"                         \
    "  coalesce(m.file, ''), coalesce(m.tags, ''), v.v, d.expires"                                                    \
    " FROM documents AS d CROSS JOIN chunks AS c ON c.document = d.row"                                               \
    " LEFT JOIN members AS m ON m.document = d.row"                                                                   \
    " LEFT JOIN vectors AS v ON v.document = d.row AND v.at = c.at AND v.encoder = ?3"                                \
    " WHERE " where " AND (d.expires = 0 OR d.expires >= ?4) ORDER BY d.id, c.at"

/* take_more -- takes what a passage has besides its chunk. */
static sp_err take_more(sqlite3_stmt *q, int n_dims, sp_arena *arena, sp_shelf_passages *out)
{
    const size_t n_bytes = (size_t)n_dims * sizeof(float);
    const void *v = n_bytes && (size_t)sqlite3_column_bytes(q, 8) == n_bytes ? sqlite3_column_blob(q, 8) : NULL;
    sp_shelf_passage p = {.file = sp_shelf_copy_text(q, 6, arena), .tags = sp_shelf_copy_text(q, 7, arena)};
    float *copy = v ? sp_arena_take(arena, (size_t)n_dims, sizeof *copy) : NULL;
    if (!p.file || !p.tags || (v && !copy)) return sp_fail_nomem("a passage");
    if (v) p.v = memcpy(copy, v, n_bytes);
    const int64_t expires_s = sqlite3_column_int64(q, 9);
    if (expires_s && (!out->until_s || expires_s < out->until_s)) out->until_s = expires_s;
    SP_TRY(sp_vec_reserve(&out->v, 1));
    out->v.v[out->v.n++] = p;
    return SP_OK;
}

static sp_err take_passages(sp_shelf *s, sqlite3_stmt *q, int n_dims, sp_shelf_passages *out)
{
    sp_shelf_hits h;
    int rc = SQLITE_DONE;
    sp_err err = sp_shelf_hits_init(&h);
    while (err == SP_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        err = sp_shelf_hits_take_one(q, &h);
        if (err == SP_OK) err = take_more(q, n_dims, h.arena, out);
    }
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_shelf_failed(s);
    return sp_shelf_hits_end(&h, err, &out->chunks);
}

sp_err sp_shelf_passages_read(sp_shelf *s, const sp_passages_query *query, sp_shelf_passages *out)
{
    sqlite3_stmt *q;
    const sp_shelf_encoder *e = &query->encoder;
    sp_shelf_passages p = {0};
    sp_shelf_enter(s);
    sp_err err = sp_shelf_prepare(s,
                                  *query->collection ? PASSAGES(OF_COLLECTION)
                                              : PASSAGES("tenant = ?1 AND doomed = 0 AND instr(id, '/') = 0"),
                                  &q);
    if (err == SP_OK) {
        sp_shelf_bind_text(q, 1, query->tenant);
        if (*query->collection) sp_shelf_bind_text(q, 2, query->collection);
        sp_shelf_bind_text(q, 3, e->id);
        sqlite3_bind_int64(q, 4, query->now_s);
        err = take_passages(s, q, e->id ? e->n_dims : 0, &p);
        sqlite3_finalize(q);
    }
    sp_shelf_leave(s);
    if (err == SP_OK)
        *out = p;
    else
        sp_shelf_passages_fini(&p);
    return err;
}

void sp_shelf_passages_fini(sp_shelf_passages *p)
{
    sp_hits_fini(&p->chunks);
    sp_vec_fini(&p->v);
}

/* -- vectors ----------------------------------------------------------------------------------- */

sp_err sp_shelf_unembedded(sp_shelf *s, const char *encoder, const char *tenant, const char *id, int64_t *document)
{
    sqlite3_stmt *q;
    *document = 0;
    sp_shelf_enter(s);
    sp_err err = sp_shelf_prepare(s,
                                  id ? "SELECT row FROM documents JOIN members ON document = row"
                                       " WHERE doomed = 0 AND encoder <> ?1 AND tenant = ?2 AND id = ?3"
                                     : "SELECT document FROM members JOIN documents ON row = document"
                                       " WHERE (encoder < ?1 OR encoder > ?1) AND doomed = 0 LIMIT 1",
                                  &q);
    if (err == SP_OK) {
        sp_shelf_bind_text(q, 1, encoder);
        if (id) sp_shelf_bind_text(q, 2, tenant);
        if (id) sp_shelf_bind_text(q, 3, id);
        bool found;
        err = sp_shelf_find(s, q, &found);
        if (err == SP_OK && found) *document = sqlite3_column_int64(q, 0);
        sqlite3_finalize(q);
    }
    sp_shelf_leave(s);
    return err;
}

sp_err sp_shelf_slice(sp_shelf *s, int64_t document, int64_t at, int n, sp_hits *out)
{
    sqlite3_stmt *q;
    sp_shelf_hits h;
    SP_TRY(sp_shelf_hits_init(&h));
    sp_shelf_enter(s);
    sp_err err = sp_shelf_prepare(s,
                                  "SELECT " SP_SHELF_CHUNK_COLUMNS " FROM chunks AS c JOIN documents AS d"
                                  " ON d.row = c.document WHERE d.row = ? AND c.at >= ? ORDER BY c.at LIMIT ?",
                                  &q);
    if (err == SP_OK) {
        sqlite3_bind_int64(q, 1, document);
        sqlite3_bind_int64(q, 2, at);
        sqlite3_bind_int(q, 3, n);
        err = sp_shelf_hits_take(s, q, &h);
        sqlite3_finalize(q);
    }
    sp_shelf_leave(s);
    return sp_shelf_hits_end(&h, err, out);
}

/* put_rows -- within a transaction. */
static sp_err put_rows(sp_shelf *s, const sp_shelf_encoder *e, const sp_shelf_vectors *v)
{
    sqlite3_stmt *q;
    bool done = true;
    SP_TRY(sp_shelf_prepare(s,
                            "INSERT OR REPLACE INTO vectors SELECT document, at, ?3, ?4 FROM chunks"
                            " WHERE document = ?1 AND at = ?2",
                            &q));
    sqlite3_bind_int64(q, 1, v->document);
    sp_shelf_bind_text(q, 3, e->id);
    for (int i = 0; i < v->n && done; i++) {
        const size_t width = (size_t)e->n_dims;
        sqlite3_bind_int64(q, 2, v->at + i);
        sqlite3_bind_blob(q, 4, v->v + (size_t)i * width, (int)(width * sizeof(float)), SQLITE_STATIC);
        done = sqlite3_step(q) == SQLITE_DONE;
        sqlite3_reset(q);
    }
    sp_err err = done ? SP_OK : sp_shelf_failed(s);
    sqlite3_finalize(q);
    return err;
}

/* finish -- the document now has all its vectors, and searches of its collection use them. */
static sp_err finish(sp_shelf *s, const char *encoder, int64_t document)
{
    sqlite3_stmt *q;
    SP_TRY(sp_shelf_prepare(s, "UPDATE members SET encoder = ? WHERE document = ?", &q));
    sp_shelf_bind_text(q, 1, encoder);
    sqlite3_bind_int64(q, 2, document);
    SP_TRY(sp_shelf_finish(s, q, NULL));
    SP_TRY(sp_shelf_prepare(s, "SELECT tenant, id FROM documents WHERE row = ?", &q));
    sqlite3_bind_int64(q, 1, document);
    bool there;
    sp_err err = sp_shelf_find(s, q, &there);
    if (err == SP_OK && there) {
        const char *tenant = (const char *)sqlite3_column_text(q, 0);
        const char *id = (const char *)sqlite3_column_text(q, 1);
        sp_shelf_changed(s, tenant, tenant ? id : NULL); /* without memory for both: any may have changed */
    }
    sqlite3_finalize(q);
    return err;
}

sp_err sp_shelf_put_vectors(sp_shelf *s, const sp_shelf_encoder *e, const sp_shelf_vectors *v)
{
    SP_TRY(sp_shelf_begin(s));
    sp_err err = put_rows(s, e, v);
    if (err == SP_OK && v->last) err = finish(s, e->id, v->document);
    return sp_shelf_end(s, err);
}

/* -- counts ------------------------------------------------------------------------------------ */

sp_err sp_shelf_chunk_hash(const char *title, const char *text, sp_digest *out)
{
    sp_sha256 *hash;
    SP_TRY(sp_sha256_create(&hash));
    sp_sha256_field(hash, "title", title, strlen(title));
    sp_sha256_field(hash, "text", text, strlen(text));
    sp_sha256_final(hash, out);
    return SP_OK;
}

sp_err sp_shelf_count_all(sp_shelf *s, const sp_shelf_count *v, size_t n)
{
    sqlite3_stmt *q;
    bool done = true;
    SP_TRY(sp_shelf_begin(s));
    sp_err err = sp_shelf_prepare(s,
                                  "INSERT INTO retrieved VALUES (?1, ?2, ?3)"
                                  " ON CONFLICT (chunk, place) DO UPDATE SET n = n + ?3",
                                  &q);
    if (err != SP_OK) return sp_shelf_end(s, err);
    for (size_t i = 0; i < n && done; i++) {
        sp_shelf_bind_text(q, 2, v[i].place);
        sqlite3_bind_blob(q, 1, v[i].chunk.b, sizeof v[i].chunk.b, SQLITE_STATIC);
        sqlite3_bind_int64(q, 3, v[i].n);
        done = sqlite3_step(q) == SQLITE_DONE;
        sqlite3_reset(q);
    }
    if (!done) err = sp_shelf_failed(s);
    sqlite3_finalize(q);
    return sp_shelf_end(s, err);
}

static sp_err take_counts(sp_shelf *s, sqlite3_stmt *q, const char *place, sp_shelf_counts *out)
{
    int rc = SQLITE_DONE;
    sp_err err = SP_OK;
    while (err == SP_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        sp_shelf_count c = {.n = sqlite3_column_int64(q, 1)};
        snprintf(c.place, sizeof c.place, "%s", place);
        if (sqlite3_column_bytes(q, 0) != sizeof c.chunk.b) continue; /* somebody else's row */
        memcpy(c.chunk.b, sqlite3_column_blob(q, 0), sizeof c.chunk.b);
        err = sp_vec_reserve(out, 1);
        if (err == SP_OK) out->v[out->n++] = c;
    }
    return err != SP_OK || rc == SQLITE_DONE ? err : sp_shelf_failed(s);
}

sp_err sp_shelf_counted(sp_shelf *s, const char *place, int most, sp_shelf_counts *out)
{
    sqlite3_stmt *q;
    sp_shelf_enter(s);
    sp_err err =
        sp_shelf_prepare(s, "SELECT chunk, n FROM retrieved WHERE place = ? ORDER BY n DESC, chunk LIMIT ?", &q);
    if (err == SP_OK) {
        sp_shelf_bind_text(q, 1, place);
        sqlite3_bind_int(q, 2, most);
        err = take_counts(s, q, place, out);
        sqlite3_finalize(q);
    }
    sp_shelf_leave(s);
    return err;
}

sp_err sp_shelf_count_of(sp_shelf *s, const char *place, int64_t *out)
{
    sqlite3_stmt *q;
    sp_shelf_enter(s);
    sp_err err = sp_shelf_prepare(s, "SELECT coalesce(sum(n), 0) FROM retrieved WHERE place = ?", &q);
    if (err == SP_OK) {
        sp_shelf_bind_text(q, 1, place);
        if (sqlite3_step(q) == SQLITE_ROW)
            *out = sqlite3_column_int64(q, 0);
        else
            err = sp_shelf_failed(s);
        sqlite3_finalize(q);
    }
    sp_shelf_leave(s);
    return err;
}

/* forget_some -- a transaction; tenant: whose chunks they were. */
static sp_err forget_some(sp_shelf *s, const sp_hits *chunks, int from, int to)
{
    sqlite3_stmt *q;
    bool done = true;
    SP_TRY(sp_shelf_begin(s));
    sp_err err = sp_shelf_prepare(
        s, "DELETE FROM retrieved WHERE chunk = ?1 AND place > ?2 || '/' AND place < ?2 || '0'", &q);
    if (err != SP_OK) return sp_shelf_end(s, err);
    for (int i = from; i < to && err == SP_OK && done; i++) {
        sp_digest hash;
        err = sp_shelf_chunk_hash(chunks->v[i].title, chunks->v[i].text, &hash);
        sqlite3_bind_blob(q, 1, hash.b, sizeof hash.b, SQLITE_STATIC);
        sp_shelf_bind_text(q, 2, chunks->v[i].root);
        done = sqlite3_step(q) == SQLITE_DONE;
        sqlite3_reset(q);
    }
    if (!done) err = sp_shelf_failed(s);
    sqlite3_finalize(q);
    return sp_shelf_end(s, err);
}

sp_err sp_shelf_members_forget(sp_shelf *s, const sp_hits *chunks)
{
    sp_err err = SP_OK;
    for (int at = 0; at < chunks->n && err == SP_OK; at += SP_SHELF_SLICE)
        err = forget_some(s, chunks, at, SP_MIN(chunks->n, at + SP_SHELF_SLICE));
    return err;
}
