/* end.c -- doomed documents: which of their content ids no other document has, and their removal.
 *
 * A document may hold one text ten thousand times. So the content ids of all doomed chunks are collected,
 * sorted and made unique first; each is looked up once. The work is O(n log n) in the chunks of doomed
 * documents, whatever their texts and however many live documents there are. */
#include "retrieve/shelf/shelf_int.h"

#include <stdlib.h>
#include <string.h>

enum { LOOKUPS = 256 /* in a row, before others have their turn */ };

/* A content id of a doomed chunk. */
typedef struct lost {
    sp_digest id, bare; /* bare: of the text alone */
    int64_t document, at;
    int which; /* 0: with its title, which the text is told for; 1: the text alone */
} lost;

typedef SP_VEC(lost) losses;

/* -- collecting -------------------------------------------------------------------------------- */

static sp_err read_rows(sp_shelf *s, const char *tenant, sp_doomed *out)
{
    sqlite3_stmt *q;
    SP_TRY(sp_shelf_prepare(s,
                            "SELECT row FROM documents WHERE doomed = 1 AND (?1 IS NULL OR tenant = ?1)"
                            " ORDER BY row",
                            &q));
    if (tenant) sp_shelf_bind_text(q, 1, tenant);
    sp_err err = SP_OK;
    int rc = SQLITE_DONE;
    while (err == SP_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        err = sp_vec_reserve(&out->rows, 1);
        if (err == SP_OK) out->rows.v[out->rows.n++] = sqlite3_column_int64(q, 0);
    }
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_shelf_failed(s);
    sqlite3_finalize(q);
    return err;
}

/* take_chunk -- a row of: position and both content ids. */
static sp_err take_chunk(sqlite3_stmt *q, int64_t document, losses *out)
{
    SP_TRY(sp_vec_reserve(out, SP_SHELF_IDS));
    sp_digest ids[SP_SHELF_IDS] = {0};
    for (int i = 0; i < SP_SHELF_IDS; i++)
        if (sqlite3_column_bytes(q, 1 + i) == sizeof ids->b)
            memcpy(ids[i].b, sqlite3_column_blob(q, 1 + i), sizeof ids->b);
    for (int i = 0; i < SP_SHELF_IDS; i++) {
        lost *l = &out->v[out->n];
        if (sqlite3_column_bytes(q, 1 + i) != sizeof l->id.b) continue; /* somebody else's row */
        l->id = ids[i];
        l->bare = ids[SP_SHELF_IDS - 1];
        l->document = document;
        l->at = sqlite3_column_int64(q, 0);
        l->which = i;
        out->n++;
    }
    return SP_OK;
}

/* take_slice -- the next chunks of a document after *at; *n: how many. */
static sp_err take_slice(sp_shelf *s, int64_t document, int64_t *at, int *n, losses *out)
{
    sqlite3_stmt *q;
    SP_TRY(sp_shelf_prepare(s,
                            "SELECT at, dressed, bare FROM chunks WHERE document = ? AND at > ?"
                            " ORDER BY at LIMIT ?",
                            &q));
    sqlite3_bind_int64(q, 1, document);
    sqlite3_bind_int64(q, 2, *at);
    sqlite3_bind_int(q, 3, SP_SHELF_SLICE);
    sp_err err = SP_OK;
    int rc = SQLITE_DONE;
    for (*n = 0; err == SP_OK && (rc = sqlite3_step(q)) == SQLITE_ROW; ++*n) {
        *at = sqlite3_column_int64(q, 0);
        err = take_chunk(q, document, out);
    }
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_shelf_failed(s);
    sqlite3_finalize(q);
    return err;
}

static sp_err take_document(sp_shelf *s, int64_t document, losses *out)
{
    int64_t at = -1;
    int n = SP_SHELF_SLICE;
    sp_err err = SP_OK;
    while (err == SP_OK && n == SP_SHELF_SLICE) {
        sp_shelf_enter(s);
        err = take_slice(s, document, &at, &n, out);
        sp_shelf_leave(s);
    }
    return err;
}

static int by_id(const void *a, const void *b)
{
    const lost *x = a, *y = b;
    int order = memcmp(x->id.b, y->id.b, sizeof x->id.b);
    return order ? order : x->which - y->which;
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(sp_digest));
}

static void make_different(losses *l)
{
    size_t n = 0;
    if (l->n) qsort(l->v, l->n, sizeof *l->v, by_id);
    for (size_t i = 0; i < l->n; i++)
        if (n == 0 || !sp_digest_eq(&l->v[n - 1].id, &l->v[i].id)) l->v[n++] = l->v[i];
    l->n = n;
}

/* -- looking up -------------------------------------------------------------------------------- */

enum { KEPT, TEXT, N_LOOKUPS };

/* A document that is being registered keeps its ids, too. */
static const char *const lookup_sql[N_LOOKUPS] = {
    [KEPT] =
        "SELECT EXISTS (SELECT 1 FROM chunks AS c CROSS JOIN documents AS d ON d.row = c.document"
        "  WHERE c.dressed = ?1 AND d.doomed <> 1)"
        " OR EXISTS (SELECT 1 FROM chunks AS c CROSS JOIN documents AS d ON d.row = c.document"
        "  WHERE c.bare = ?1 AND d.doomed <> 1)",
    [TEXT] = "SELECT " SP_SHELF_CHUNK_COLUMNS " FROM chunks AS c CROSS JOIN documents AS d"
             " ON d.row = c.document WHERE c.document = ?1 AND c.at = ?2"};

static sp_err is_kept(sp_shelf *s, sqlite3_stmt *q, const sp_digest *id, bool *kept)
{
    sqlite3_bind_blob(q, 1, id->b, sizeof id->b, SQLITE_STATIC);
    bool found = sqlite3_step(q) == SQLITE_ROW;
    *kept = found && sqlite3_column_int(q, 0);
    sp_err err = found ? SP_OK : sp_shelf_failed(s);
    sqlite3_reset(q);
    return err;
}

/* look_up_forms -- of a text that no other document has. */
static sp_err look_up_forms(sp_shelf *s, sqlite3_stmt *is_kept_q, const sp_digest *bare, sp_doomed *out)
{
    const size_t first = out->ids.n;
    SP_TRY(sp_shelf_forms_of(s, bare, &out->ids));
    for (size_t i = out->ids.n; i-- > first;) {
        bool kept;
        SP_TRY(is_kept(s, is_kept_q, &out->ids.v[i], &kept));
        if (kept) out->ids.v[i] = out->ids.v[--out->ids.n];
    }
    return SP_OK;
}

static sp_err look_up(sp_shelf *s, sqlite3_stmt *q[N_LOOKUPS], const lost *l, sp_shelf_hits *texts,
                      sp_doomed *out)
{
    bool kept, shared;
    SP_TRY(is_kept(s, q[KEPT], &l->id, &kept));
    if (kept) return SP_OK;
    SP_TRY(sp_vec_reserve(&out->ids, 1));
    out->ids.v[out->ids.n++] = l->id;
    if (sp_digest_eq(&l->id, &l->bare)) SP_TRY(look_up_forms(s, q[KEPT], &l->bare, out));
    if (l->which != 0) return SP_OK;
    SP_TRY(is_kept(s, q[KEPT], &l->bare, &shared));
    SP_TRY(sp_vec_reserve(&out->shared, 1));
    out->shared.v[out->shared.n++] = shared;
    sqlite3_bind_int64(q[TEXT], 1, l->document);
    sqlite3_bind_int64(q[TEXT], 2, l->at);
    return sp_shelf_hits_take(s, q[TEXT], texts);
}

/* look_up_some -- from *at, at most LOOKUPS. */
static sp_err look_up_some(sp_shelf *s, const losses *l, size_t *at, sp_shelf_hits *texts, sp_doomed *out)
{
    sqlite3_stmt *q[N_LOOKUPS] = {0};
    sp_err err = SP_OK;
    for (int i = 0; i < N_LOOKUPS && err == SP_OK; i++)
        err = sp_shelf_prepare(s, lookup_sql[i], &q[i]);
    size_t end = SP_MIN(l->n, *at + LOOKUPS);
    for (; *at < end && err == SP_OK; ++*at) err = look_up(s, q, &l->v[*at], texts, out);
    for (int i = 0; i < N_LOOKUPS; i++) sqlite3_finalize(q[i]);
    return err;
}

static sp_err look_up_all(sp_shelf *s, const losses *l, sp_doomed *out)
{
    sp_shelf_hits texts;
    SP_TRY(sp_shelf_hits_init(&texts));
    sp_err err = SP_OK;
    for (size_t at = 0; at < l->n && err == SP_OK;) {
        sp_shelf_enter(s);
        err = look_up_some(s, l, &at, &texts, out);
        sp_shelf_leave(s);
    }
    return sp_shelf_hits_end(&texts, err, &out->texts);
}

sp_err sp_shelf_doomed(sp_shelf *s, const char *tenant, sp_doomed *out)
{
    losses l = {0};
    sp_doomed found = {0};
    sp_shelf_enter(s);
    sp_err err = read_rows(s, tenant, &found);
    sp_shelf_leave(s);
    for (size_t i = 0; i < found.rows.n && err == SP_OK; i++)
        err = take_document(s, found.rows.v[i], &l);
    make_different(&l);
    if (err == SP_OK) err = look_up_all(s, &l, &found);
    sp_vec_fini(&l);
    if (found.ids.n) qsort(found.ids.v, found.ids.n, sizeof *found.ids.v, by_bytes);
    if (err == SP_OK)
        *out = found;
    else
        sp_doomed_fini(&found);
    return err;
}

sp_err sp_shelf_has(sp_shelf *s, const sp_digest *id, bool *has)
{
    sqlite3_stmt *q = NULL;
    sp_shelf_enter(s);
    sp_err err = sp_shelf_prepare(s, lookup_sql[KEPT], &q);
    if (err == SP_OK) err = is_kept(s, q, id, has);
    sqlite3_finalize(q);
    sp_shelf_leave(s);
    return err;
}

void sp_doomed_fini(sp_doomed *d)
{
    sp_vec_fini(&d->rows);
    sp_vec_fini(&d->ids);
    sp_hits_fini(&d->texts);
    sp_vec_fini(&d->shared);
}

/* -- forgetting -------------------------------------------------------------------------------- */

static sp_err delete_where(sp_shelf *s, const char *sql, int64_t document, int *n)
{
    sqlite3_stmt *q;
    SP_TRY(sp_shelf_prepare(s, sql, &q));
    sqlite3_bind_int64(q, 1, document);
    sqlite3_bind_int(q, 2, SP_SHELF_SLICE); /* where there is such a parameter */
    return sp_shelf_finish(s, q, n);
}

/* cut_tail -- cuts what is beyond the last page of the database. A transaction that fails leaves its pages there if
 * the file cannot be cut either, and SQLite does it when pages become free, at the earliest. Within a transaction, so
 * that nobody else writes. */
static sp_err cut_tail(sp_shelf *s)
{
    sqlite3_file *f = NULL;
    int64_t n_pages, page_bytes;
    sqlite3_int64 bytes;
    SP_TRY(sp_db_number(s->db, s->path, "PRAGMA page_count", &n_pages));
    SP_TRY(sp_db_number(s->db, s->path, "PRAGMA page_size", &page_bytes));
    sqlite3_file_control(s->db, "main", SQLITE_FCNTL_FILE_POINTER, &f);
    if (!f || !f->pMethods) return SP_OK; /* in memory */
    if (f->pMethods->xFileSize(f, &bytes) != SQLITE_OK)
        return sp_fail(SP_E_IO, "%s: cannot find out how long it is", s->path);
    if (bytes <= n_pages * page_bytes) return SP_OK;
    if (f->pMethods->xTruncate(f, n_pages * page_bytes) != SQLITE_OK ||
        f->pMethods->xSync(f, SQLITE_SYNC_FULL) != SQLITE_OK)
        return sp_fail(SP_E_IO, "%s: cannot be cut", s->path);
    return SP_OK;
}

/* forget_slice -- a transaction: chunks of documents from *at on, until a slice is full. */
static sp_err forget_slice(sp_shelf *s, const sp_doomed *d, size_t *at)
{
    int n_chunks = 0, n_documents = 1;
    size_t next = *at;
    SP_TRY(sp_shelf_begin(s));
    sp_err err = cut_tail(s);
    for (int n = 0; next < d->rows.n && n < SP_SHELF_SLICE && err == SP_OK; n += n_chunks + 1) {
        err = sp_shelf_forms_forget(s, d->rows.v[next]);
        if (err != SP_OK) break;
        err = delete_where(s,
                           "DELETE FROM chunks WHERE document = ?1"
                           " AND at < ?2 + (SELECT min(at) FROM chunks WHERE document = ?1)",
                           d->rows.v[next], &n_chunks);
        if (err == SP_OK)
            err = delete_where(s,
                               "DELETE FROM documents WHERE row = ?1 AND doomed = 1"
                               " AND NOT EXISTS (SELECT 1 FROM chunks WHERE document = ?1)",
                               d->rows.v[next], &n_documents);
        next += n_documents > 0 || n_chunks == 0; /* another process may have removed it */
    }
    SP_TRY(sp_shelf_end(s, err));
    *at = next;
    return SP_OK;
}

sp_err sp_shelf_forget(sp_shelf *s, const sp_doomed *d)
{
    sp_err err = sp_shelf_members_forget(s, &d->texts);
    for (size_t at = 0; at < d->rows.n && err == SP_OK;) err = forget_slice(s, d, &at);
    return err;
}
