/* read.c -- reads the shelf: lists of documents, their chunks and content ids. */
#include "retrieve/shelf/shelf_int.h"

#include <string.h>

/* -- reading ----------------------------------------------------------------------------------- */

const char *sp_shelf_copy_text(sqlite3_stmt *q, int column, sp_arena *arena)
{
    const unsigned char *text = sqlite3_column_text(q, column);
    size_t n = text ? (size_t)sqlite3_column_bytes(q, column) : 0;
    char *copy = text ? sp_arena_take(arena, n + 1, 1) : NULL; /* zeroed, so terminated */
    if (copy && n) memcpy(copy, text, n);
    return copy;
}

/* The sums are made for the rows of the list alone. ?5: the ids' end; "": no id has a slash. */
#define LIST_SQL(where)                                                                            \
    "SELECT d.id, d.title, created, expires, pinned,"                                              \
    "  (SELECT count(*) FROM chunks WHERE document = d.row),"                                      \
    "  (SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) FROM chunks WHERE document = d.row),"  \
    "  (SELECT coalesce(sum(n_tokens), 0) FROM chunks WHERE document = d.row),"                    \
    "  coalesce(m.file, ''), coalesce(m.tags, '')"                                                 \
    " FROM documents AS d LEFT JOIN members AS m ON m.document = d.row"                            \
    " WHERE tenant = ?1 AND doomed = 0 AND " where                                                 \
    " AND (expires = 0 OR expires >= ?2) ORDER BY d.id LIMIT ?4"
#define OUTSIDE "instr(d.id, '/') = 0"

typedef SP_VEC(sp_document_info) info_list;

static sp_err take_info(sqlite3_stmt *q, sp_arena *arena, info_list *out)
{
    SP_TRY(sp_vec_reserve(out, 1));
    sp_document_info i = {.id = sp_shelf_copy_text(q, 0, arena),
                          .title = sp_shelf_copy_text(q, 1, arena),
                          .created_s = sqlite3_column_int64(q, 2),
                          .expires_s = sqlite3_column_int64(q, 3),
                          .pinned = sqlite3_column_int(q, 4) != 0,
                          .n_chunks = sqlite3_column_int64(q, 5),
                          .n_bytes = sqlite3_column_int64(q, 6),
                          .n_tokens = sqlite3_column_int64(q, 7),
                          .file = sp_shelf_copy_text(q, 8, arena),
                          .tags = sp_shelf_copy_text(q, 9, arena)};
    if (!i.id || !i.title || !i.file || !i.tags) return sp_fail_nomem("a document");
    out->v[out->n++] = i;
    return SP_OK;
}

/* bind_scope -- ?3: the id, or what ids come after; ?5: what they come before. */
static sp_err bind_scope(sqlite3_stmt *q, const sp_shelf_query *query)
{
    sp_bytes after = {0}, end = {0};
    const char *collection = query->collection ? query->collection : "", *given = query->after ? query->after : "";
    if (query->id || !*collection) return sp_shelf_bind_text(q, 3, query->id ? query->id : given), SP_OK;
    sp_err err = sp_bytes_addf(&after, "%s/%s", collection, given);
    if (err == SP_OK) err = sp_bytes_addf(&end, "%s%c", collection, '/' + 1);
    if (err == SP_OK && (sqlite3_bind_text(q, 3, after.v, (int)after.n, SQLITE_TRANSIENT) != SQLITE_OK ||
                         sqlite3_bind_text(q, 5, end.v, (int)end.n, SQLITE_TRANSIENT) != SQLITE_OK))
        err = sp_fail_nomem("a list of documents");
    sp_vec_fini(&after);
    sp_vec_fini(&end);
    return err;
}

static sp_err run_list(sp_shelf *s, const sp_shelf_query *query, sp_arena *arena, info_list *out)
{
    sqlite3_stmt *q;
    int rc = SQLITE_DONE;
    const bool within = query->collection && *query->collection;
    SP_TRY(sp_shelf_prepare(s,
                            query->id ? LIST_SQL("d.id = ?3")
                            : within  ? LIST_SQL("d.id > ?3 AND d.id < ?5")
                                      : LIST_SQL("d.id > ?3 AND " OUTSIDE),
                            &q));
    sp_shelf_bind_text(q, 1, query->tenant);
    sqlite3_bind_int64(q, 2, query->now_s);
    sqlite3_bind_int(q, 4, query->limit);
    sp_err err = bind_scope(q, query);
    while (err == SP_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) err = take_info(q, arena, out);
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_shelf_failed(s);
    sqlite3_finalize(q);
    return err;
}

sp_err sp_shelf_list(sp_shelf *s, const sp_shelf_query *q, sp_document_list *out)
{
    info_list list = {0};
    sp_arena *arena = SP_NEW(sp_arena);
    if (!arena) return sp_fail_nomem("documents");
    sp_shelf_enter(s);
    sp_err err = run_list(s, q, arena, &list);
    sp_shelf_leave(s);
    if (err == SP_OK && q->id && list.n == 0) err = sp_shelf_not_found(q->id);
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

/* -- versions ---------------------------------------------------------------------------------- */

static atomic_ullong *place_of(sp_shelf *s, const char *tenant, const char *collection, size_t n)
{
    const uint64_t hash = sp_hash64(tenant, strlen(tenant)) * 31 + sp_hash64(collection, n);
    return &s->changes[hash % SP_SHELF_PLACES];
}

uint64_t sp_shelf_version(sp_shelf *s, const char *tenant, const char *collection)
{
    return atomic_load(place_of(s, tenant, collection, strlen(collection)));
}

void sp_shelf_changed(sp_shelf *s, const char *tenant, const char *id)
{
    const char *slash = id ? strchr(id, '/') : NULL;
    if (id) atomic_fetch_add(place_of(s, tenant, id, slash ? (size_t)(slash - id) : 0), 1);
    for (int i = 0; !id && i < SP_SHELF_PLACES; i++) atomic_fetch_add(&s->changes[i], 1);
}

/* -- chunks ------------------------------------------------------------------------------------ */

sp_err sp_shelf_failed(sp_shelf *s)
{
    return sp_shelf_damage(s, sp_db_fail(s->db, s->path, "cannot read"));
}

sp_err sp_shelf_hits_init(sp_shelf_hits *h)
{
    *h = (sp_shelf_hits){.arena = SP_NEW(sp_arena)};
    return h->arena ? SP_OK : sp_fail_nomem("chunks");
}

sp_err sp_shelf_hits_take_one(sqlite3_stmt *q, sp_shelf_hits *h)
{
    sp_hit hit = {.id = sqlite3_column_int64(q, 1),
                  .file = sp_shelf_copy_text(q, 2, h->arena),
                  .title = sp_shelf_copy_text(q, 3, h->arena),
                  .text = sp_shelf_copy_text(q, 4, h->arena),
                  .root = sp_shelf_copy_text(q, 5, h->arena)};
    if (!hit.file || !hit.title || !hit.text || !hit.root)
        return sp_fail_nomem("a chunk");
    SP_TRY(sp_vec_reserve(&h->hits, 1));
    h->hits.v[h->hits.n++] = hit;
    return SP_OK;
}

sp_err sp_shelf_hits_take(sp_shelf *s, sqlite3_stmt *q, sp_shelf_hits *h)
{
    sp_err err = SP_OK;
    int rc = SQLITE_DONE;
    while (err == SP_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) err = sp_shelf_hits_take_one(q, h);
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_shelf_failed(s);
    sqlite3_reset(q);
    return err;
}

sp_err sp_shelf_hits_end(sp_shelf_hits *h, sp_err err, sp_hits *out)
{
    sp_hits result = {.v = h->hits.v, .n = (int)h->hits.n, .strings = h->arena};
    if (err == SP_OK)
        *out = result;
    else
        sp_hits_fini(&result);
    return err;
}

/* take_all -- the chunks of one statement, which it ends. */
static sp_err take_all(sp_shelf *s, sqlite3_stmt *q, sp_hits *out)
{
    sp_shelf_hits h;
    sp_err err = sp_shelf_hits_init(&h);
    if (err == SP_OK) err = sp_shelf_hits_take(s, q, &h);
    sqlite3_finalize(q);
    return sp_shelf_hits_end(&h, err, out);
}

sp_err sp_shelf_chunks(sp_shelf *s, const char *tenant, const char *id, int64_t now_s, sp_hits *out)
{
    sqlite3_stmt *q;
    sp_shelf_enter(s);
    sp_err err = sp_shelf_prepare(
        s,
        "SELECT " SP_SHELF_CHUNK_COLUMNS
        " FROM documents AS d CROSS JOIN chunks AS c ON c.document = d.row"
        " WHERE tenant = ?1 AND doomed = 0 AND d.id >= ?2 AND CASE ?3 WHEN 0 THEN " OUTSIDE " ELSE d.id = ?2 END"
        " AND (expires = 0 OR expires >= ?4) ORDER BY d.id, c.at",
        &q);
    if (err == SP_OK) {
        sp_shelf_bind_text(q, 1, tenant);
        sp_shelf_bind_text(q, 2, id);
        sqlite3_bind_int(q, 3, id != NULL);
        sqlite3_bind_int64(q, 4, now_s);
        err = take_all(s, q, out);
    }
    sp_shelf_leave(s);
    if (err == SP_OK && id && out->n == 0) {
        sp_hits_fini(out);
        err = sp_shelf_not_found(id);
    }
    return err;
}

sp_err sp_shelf_live(sp_shelf *s, sp_hits *out)
{
    sqlite3_stmt *q;
    sp_shelf_enter(s);
    sp_err err =
        sp_shelf_prepare(s,
                         "SELECT " SP_SHELF_CHUNK_COLUMNS
                         " FROM documents AS d CROSS JOIN chunks AS c ON c.document = d.row"
                         " WHERE doomed = 0 ORDER BY d.row, c.at",
                         &q);
    if (err == SP_OK) err = take_all(s, q, out);
    sp_shelf_leave(s);
    return err;
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
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_shelf_failed(s);
    sqlite3_finalize(q);
    return err;
}

#define BOTH_IDS(where)                                                                            \
    "SELECT dressed FROM documents AS d CROSS JOIN chunks AS c ON c.document = d.row WHERE " where \
    " UNION SELECT bare FROM documents AS d CROSS JOIN chunks AS c ON c.document = d.row "         \
    "WHERE " where

sp_err sp_shelf_ids(sp_shelf *s, const char *tenant, const char *id, sp_digests *out)
{
    sqlite3_stmt *q;
    sp_shelf_enter(s);
    sp_err err = sp_shelf_prepare(s, BOTH_IDS("tenant = ?1 AND d.id = ?2 AND doomed = 0"), &q);
    if (err == SP_OK) {
        sp_shelf_bind_text(q, 1, tenant);
        sp_shelf_bind_text(q, 2, id);
        err = take_ids(s, q, out);
    }
    sp_shelf_leave(s);
    return err == SP_OK && out->n == 0 ? sp_shelf_not_found(id) : err;
}

sp_err sp_shelf_pinned_ids(sp_shelf *s, sp_digests *out)
{
    sqlite3_stmt *q;
    sp_shelf_enter(s);
    sp_err err = sp_shelf_prepare(s, BOTH_IDS("pinned = 1 AND doomed = 0") " ORDER BY 1", &q);
    if (err == SP_OK) err = take_ids(s, q, out);
    sp_shelf_leave(s);
    return err;
}
