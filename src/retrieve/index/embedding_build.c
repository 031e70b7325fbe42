/* embedding_build.c -- brings the vectors of an index up to date.
 *
 *   chunks without a vector of their text --> embed --> rows of table vectors (or a database) --> clusters, graph
 *
 * A batch is a transaction: an interruption loses only that one. Vectors in a database have rows without the vector
 * itself; a batch is committed once the database has it. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/hash.h"
#include "retrieve/index/embedding_int.h"
#include "retrieve/index/open.h"

enum {
    BATCH = 64,        /* chunks that are embedded and written at a time; an interruption waits for them */
    MOST_FLAT = 20000, /* chunks of an index that is searched exhaustively by default */
    SAMPLE = 64        /* vectors per cluster, for finding clusters */
};

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS embedding ("
    "  id TEXT NOT NULL, n_dims INTEGER NOT NULL, kind TEXT NOT NULL, centroids BLOB, build INTEGER NOT NULL,"
    "  graph_hash INTEGER, graph_build INTEGER);"
    "CREATE TABLE IF NOT EXISTS vectors ("
    "  chunk INTEGER PRIMARY KEY, sha256 BLOB NOT NULL, cluster INTEGER NOT NULL, build INTEGER NOT NULL,"
    "  v BLOB NOT NULL);"
    "CREATE INDEX IF NOT EXISTS vectors_of_text ON vectors (sha256);";

/* A running build. */
typedef struct builder {
    const sp_embedding_build *b;
    const char *path;
    sqlite3 *db;
    sp_index_embed_stats *stats;
    sp_embedding_facts facts;
    sqlite3_stmt *chunks, *known, *put;
    sp_vectors *clusters; /* IVF: for the cluster of a new vector; NULL: not found yet */
    sp_vectors *database; /* Chroma; NULL: vectors are in the rows */
    sp_team *team;
    /* a batch: chunks that need a vector */
    int n;
    int64_t ids[BATCH], last;
    sp_digest hashes[BATCH];
    const char *texts[BATCH];
    sp_bytes text;
    size_t at[BATCH];
    float *v; /* [BATCH, n_dims] */
} builder;

/* text_of -- the text to embed of a chunk: title and text. */
static sp_err text_of(builder *b, sqlite3_stmt *s, sp_digest *hash)
{
    const char *title = (const char *)sqlite3_column_text(s, 1), *text = (const char *)sqlite3_column_text(s, 2);
    sp_sha256 *state;
    b->at[b->n] = b->text.n;
    SP_TRY(sp_bytes_addf(&b->text, "%s%s%s%c", title ? title : "", title && *title ? "\n" : "",
                         text ? text : "", '\0'));
    SP_TRY(sp_sha256_create(&state));
    sp_sha256_update(state, b->text.v + b->at[b->n], b->text.n - b->at[b->n] - 1);
    sp_sha256_final(state, hash);
    return SP_OK;
}

/* put_vector -- writes its row. */
static sp_err put_vector(builder *b, int64_t chunk, const sp_digest *hash, const void *v)
{
    uint32_t cluster = 0;
    if (b->clusters) sp_vectors_assign(b->clusters, v, 1, NULL, &cluster);
    sqlite3_bind_int64(b->put, 1, chunk);
    sqlite3_bind_blob(b->put, 2, hash->b, sizeof hash->b, SQLITE_STATIC);
    sqlite3_bind_int64(b->put, 3, cluster);
    sqlite3_bind_int64(b->put, 4, b->facts.build);
    sqlite3_bind_blob(b->put, 5, v, b->database ? 0 : (int)((size_t)b->b->n_dims * sizeof(float)), SQLITE_STATIC);
    const bool done = sqlite3_step(b->put) == SQLITE_DONE;
    sp_err err = done ? SP_OK : sp_db_fail(b->db, b->path, "cannot write the index");
    sqlite3_reset(b->put);
    return err;
}

/* put_known -- the vector of another chunk with this text; *found false: there is none. */
static sp_err put_known(builder *b, int64_t chunk, const sp_digest *hash, bool *found)
{
    const size_t n_bytes = (size_t)b->b->n_dims * sizeof(float);
    sqlite3_bind_blob(b->known, 1, hash->b, sizeof hash->b, SQLITE_STATIC);
    const int rc = sqlite3_step(b->known);
    sp_err err = rc == SQLITE_ROW || rc == SQLITE_DONE ? SP_OK : sp_db_fail(b->db, b->path, "index");
    *found = rc == SQLITE_ROW && (size_t)sqlite3_column_bytes(b->known, 0) == n_bytes;
    if (*found) memcpy(b->v, sqlite3_column_blob(b->known, 0), n_bytes);
    sqlite3_reset(b->known);
    return *found ? put_vector(b, chunk, hash, b->v) : err;
}

/* embed_batch -- the texts of the batch, without their vectors so far. */
static sp_err embed_batch(builder *b)
{
    for (int i = 0; i < b->n; i++) b->texts[i] = b->text.v + b->at[i];
    if (b->n) SP_TRY(b->b->embed(b->texts, b->n, b->v, b->b->user));
    for (int i = 0; i < b->n; i++)
        SP_TRY(put_vector(b, b->ids[i], &b->hashes[i], b->v + (size_t)i * (size_t)b->b->n_dims));
    if (b->database) SP_TRY(sp_vectors_add(b->database, b->ids, b->v, (size_t)b->n, NULL));
    b->stats->n_embedded += b->n;
    return SP_OK;
}

/* read_batch -- reads chunks until enough of them need a vector; *more false: no chunks are left. */
static sp_err read_batch(builder *b, bool *more)
{
    int rc = SQLITE_DONE;
    b->n = 0;
    b->text.n = 0;
    sqlite3_bind_int64(b->chunks, 1, b->last);
    sp_err err = SP_OK;
    while (err == SP_OK && b->n < BATCH && (rc = sqlite3_step(b->chunks)) == SQLITE_ROW) {
        const void *old = sqlite3_column_blob(b->chunks, 3);
        const bool sized = sqlite3_column_bytes(b->chunks, 3) == sizeof(sp_digest);
        bool found = false;
        sp_digest *hash = &b->hashes[b->n];
        b->last = sqlite3_column_int64(b->chunks, 0);
        err = text_of(b, b->chunks, hash);
        if (err == SP_OK && old && sized && memcmp(old, hash->b, sizeof hash->b) == 0) {
            b->stats->n_kept++;
            b->text.n = b->at[b->n];
            continue;
        }
        if (err == SP_OK) err = put_known(b, b->last, hash, &found);
        b->stats->n_kept += found;
        if (found) b->text.n = b->at[b->n];
        if (!found) b->ids[b->n++] = b->last;
    }
    if (err == SP_OK && rc != SQLITE_DONE && rc != SQLITE_ROW) err = sp_db_fail(b->db, b->path, "index");
    *more = rc == SQLITE_ROW;
    sqlite3_reset(b->chunks);
    return err;
}

static sp_err commit(builder *b, sp_err err)
{
    sp_err end = sp_db_exec(b->db, b->path, err == SP_OK ? "COMMIT" : "ROLLBACK");
    return err == SP_OK ? end : err;
}

/* embed_all -- a transaction for each batch, so that an interruption loses little. */
static sp_err embed_all(builder *b)
{
    for (bool more = true; more;) {
        SP_TRY(sp_db_exec(b->db, b->path, "BEGIN IMMEDIATE"));
        sp_err err = read_batch(b, &more);
        if (err == SP_OK) err = embed_batch(b);
        SP_TRY(commit(b, err));
        const int64_t done = b->stats->n_kept + b->stats->n_embedded;
        if (b->b->progress && !b->b->progress(done, b->stats->n_chunks, b->b->user))
            return sp_fail(SP_E_CANCELED, "%s: canceled; the vectors so far are kept", b->path);
    }
    return SP_OK;
}

/* -- clusters and graph ------------------------------------------------------------------------ */

static sp_err collect(sp_vector_rows *r, void *user)
{
    sp_vector_rows *all = user;
    SP_TRY(sp_vec_reserve(&all->v, r->v.n));
    memcpy(all->v.v + all->v.n, r->v.v, r->v.n * sizeof *r->v.v);
    all->v.n += r->v.n;
    return SP_OK;
}

static sp_err assign_rows(sp_vector_rows *r, void *user)
{
    builder *b = user;
    sqlite3_stmt *s;
    sp_vectors_assign(b->clusters, r->v.v, r->ids.n, b->team, r->clusters.v);
    SP_TRY(sp_db_prepare(b->db, b->path, "UPDATE vectors SET cluster = ?2 WHERE chunk = ?1", &s));
    sp_err err = SP_OK;
    for (size_t i = 0; i < r->ids.n && err == SP_OK; i++) {
        sqlite3_bind_int64(s, 1, r->ids.v[i]);
        sqlite3_bind_int64(s, 2, r->clusters.v[i]);
        if (sqlite3_step(s) != SQLITE_DONE) err = sp_db_fail(b->db, b->path, "cannot write the index");
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    return err;
}

static sp_err set_blob(builder *b, const char *sql, const void *blob, size_t n)
{
    sqlite3_stmt *s;
    SP_TRY(sp_db_prepare(b->db, b->path, sql, &s));
    sqlite3_bind_blob64(s, 1, blob, n, SQLITE_STATIC);
    const bool done = sqlite3_step(s) == SQLITE_DONE;
    sp_err err = done ? SP_OK : sp_db_fail(b->db, b->path, "cannot write the index");
    sqlite3_finalize(s);
    return err;
}

/* find_clusters -- finds clusters in an evenly spaced sample and assigns all rows to them. */
static sp_err find_clusters(builder *b, int64_t n)
{
    const sp_vector_source from = {b->db, b->path, (size_t)b->b->n_dims};
    int64_t wanted = 4;
    while (wanted * wanted < 4 * n) wanted++; /* twice the root of n */
    const int64_t step = SP_MAX(n / (SAMPLE * wanted), 1);
    sp_vector_rows sample = {0};
    const sp_vectors_opts o = {
        .kind = SP_VECTORS_IVF, .n_dims = b->b->n_dims, .n_clusters = (int)SP_MIN(wanted, n)};
    sp_vectors_destroy(b->clusters);
    b->clusters = NULL;
    SP_TRY(sp_vectors_create(&o, &b->clusters));
    sp_err err =
        sp_vector_rows_each(&from, SP_VECTOR_ROWS " WHERE chunk % ?1 = 0 ORDER BY chunk", step, collect, &sample);
    if (err == SP_OK && sample.v.n == 0)
        err = sp_vector_rows_each(&from, SP_VECTOR_ROWS, 0, collect, &sample);
    if (err == SP_OK)
        err = sp_vectors_train(b->clusters, sample.v.v, sample.v.n / (size_t)b->b->n_dims, b->team);
    sp_vector_rows_fini(&sample);
    SP_TRY(err);
    size_t n_lists;
    const float *centroids = sp_vectors_centroids(b->clusters, &n_lists);
    const size_t n_bytes = n_lists * (size_t)b->b->n_dims * sizeof *centroids;
    SP_TRY(set_blob(b, "UPDATE embedding SET centroids = ?", centroids, n_bytes));
    return sp_vector_rows_each(&from, SP_VECTOR_ROWS " ORDER BY chunk", 0, assign_rows, b);
}

/* finish_ivf -- finds new clusters if their number is off by a factor of two. */
static sp_err finish_ivf(builder *b, int64_t n)
{
    const int64_t n_lists = (int64_t)(b->facts.centroids.n / (size_t)b->b->n_dims);
    const bool fits = n_lists * n_lists >= n && n_lists * n_lists <= 16 * n;
    return n == 0 || (b->clusters && fits) ? SP_OK : find_clusters(b, n);
}

static sp_err finish_graph(builder *b, int64_t n)
{
    int64_t hash;
    char sql[160];
    sp_embedding_load a = {.team = b->team, .progress = b->b->progress, .user = b->b->user, .total = n};
    sp_err err = sp_embedding_load_all(b->db, b->path, &b->facts, &a);
    if (err == SP_OK) err = sp_embedding_write_graph(a.x, b->path, &hash);
    sp_vectors_destroy(a.x);
    SP_TRY(err);
    snprintf(sql, sizeof sql, "UPDATE embedding SET graph_hash = %lld, graph_build = %lld", (long long)hash,
             (long long)b->facts.build);
    return sp_db_exec(b->db, b->path, sql);
}

#define GONE "chunk NOT IN (SELECT id FROM chunks)"

/* remove_from_database -- removes vectors whose rows are about to be deleted. */
static sp_err remove_from_database(builder *b)
{
    sp_vector_ids gone = {0};
    sqlite3_stmt *s;
    int rc = SQLITE_DONE;
    SP_TRY(sp_db_prepare(b->db, b->path, "SELECT chunk FROM vectors WHERE " GONE " ORDER BY chunk", &s));
    sp_err err = SP_OK;
    while (err == SP_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        err = sp_vec_reserve(&gone, 1);
        if (err == SP_OK) gone.v[gone.n++] = sqlite3_column_int64(s, 0);
    }
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(b->db, b->path, "index");
    if (err == SP_OK) err = sp_vectors_remove(b->database, gone.v, gone.n);
    sqlite3_finalize(s);
    sp_vec_fini(&gone);
    return err;
}

/* finish -- deletes the rows of removed chunks, then updates clusters or graph. */
static sp_err finish(builder *b)
{
    int64_t n;
    if (b->database) SP_TRY(remove_from_database(b));
    SP_TRY(sp_db_exec(b->db, b->path, "DELETE FROM vectors WHERE " GONE));
    b->stats->n_removed = sqlite3_changes(b->db);
    SP_TRY(sp_db_number(b->db, b->path, "SELECT count(*) FROM vectors", &n));
    if (b->facts.kind == SP_VECTORS_IVF) SP_TRY(finish_ivf(b, n));
    const bool changed = b->stats->n_removed || b->stats->n_embedded || b->facts.graph_build < b->facts.build;
    return b->facts.kind == SP_VECTORS_HNSW && changed ? finish_graph(b, n) : SP_OK;
}

/* -- the whole --------------------------------------------------------------------------------- */

/* What a build was asked to do. */
typedef struct wanted {
    sp_vectors_kind kind;
    char url[SP_EMBEDDING_URL];
} wanted;

/* choose_kind -- the requested one, or the index's (same: with this encoder), or by its size. */
static sp_err choose_kind(const builder *b, bool there, bool same, wanted *out)
{
    if (b->b->kind) return sp_embedding_kind(b->b->kind, &out->kind, out->url);
    *out = (wanted){.kind = b->stats->n_chunks <= MOST_FLAT ? SP_VECTORS_FLAT : SP_VECTORS_HNSW};
    if (same || (there && b->facts.kind == SP_VECTORS_CHROMA)) out->kind = b->facts.kind;
    memcpy(out->url, b->facts.url, sizeof out->url);
    return SP_OK;
}

/* put_facts -- writes the row of table embedding; fresh: there is none. */
static sp_err put_facts(builder *b, bool fresh)
{
    const sp_embedding_facts *f = &b->facts;
    char kind[SP_EMBEDDING_URL + 16];
    sqlite3_stmt *s;
    snprintf(kind, sizeof kind, "%s%s%s", sp_embedding_kind_name(f->kind), *f->url ? ":" : "", f->url);
    SP_TRY(sp_db_prepare(b->db, b->path,
                         fresh ? "INSERT INTO embedding (id, n_dims, kind, build, graph_hash) VALUES (?, ?, ?, ?, ?)"
                               : "UPDATE embedding SET id = ?1, n_dims = ?2, kind = ?3, build = ?4, graph_hash = ?5,"
                                 " centroids = CASE WHEN ?3 = 'ivf' THEN centroids END",
                         &s));
    sqlite3_bind_text(s, 1, f->id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, f->n_dims);
    sqlite3_bind_text(s, 3, kind, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 4, f->build);
    sqlite3_bind_int64(s, 5, f->graph_hash);
    sp_err err = sqlite3_step(s) == SQLITE_DONE ? SP_OK : sp_db_fail(b->db, b->path, "cannot write the index");
    sqlite3_finalize(s);
    return err;
}

/* open_database -- if the collection does not match the rows, *same becomes false and the collection empty. */
static sp_err open_database(builder *b, const wanted *w, bool *same)
{
    const bool was = b->facts.kind == SP_VECTORS_CHROMA && strcmp(b->facts.url, w->url) == 0;
    if (!was && getrandom(&b->facts.graph_hash, sizeof b->facts.graph_hash, 0) < 0)
        return sp_fail(SP_E_IO, "no random numbers");
    if (!was) b->facts.graph_hash &= ((int64_t)1 << 48) - 1; /* JSON has it exactly */
    const sp_vectors_opts o = {.kind = w->kind, .n_dims = b->b->n_dims, .url = w->url, .mark = b->facts.graph_hash};
    int64_t n;
    SP_TRY(sp_vectors_create(&o, &b->database));
    SP_TRY(sp_db_number(b->db, b->path, "SELECT count(*) FROM vectors", &n));
    *same = *same && was && (size_t)n == sp_vectors_count(b->database);
    return *same ? SP_OK : sp_vectors_clear(b->database);
}

/* begin -- updates the row of the index; deletes vectors of another encoder, or in another place. */
static sp_err begin(builder *b)
{
    bool there;
    wanted w = {0};
    sp_embedding_facts *f = &b->facts;
    SP_TRY(sp_db_exec(b->db, b->path, schema));
    SP_TRY(sp_db_number(b->db, b->path, "SELECT count(*) FROM chunks", &b->stats->n_chunks));
    SP_TRY(sp_embedding_facts_read(b->db, b->path, f, &there));
    bool same = there && strcmp(f->id, b->b->id) == 0 && f->n_dims == b->b->n_dims;
    SP_TRY(choose_kind(b, there, same, &w));
    if (w.kind == SP_VECTORS_CHROMA)
        SP_TRY(open_database(b, &w, &same));
    else
        same = same && f->kind != SP_VECTORS_CHROMA;
    if (!same) SP_TRY(sp_db_exec(b->db, b->path, "DELETE FROM vectors; DELETE FROM embedding"));
    if (!same || w.kind != SP_VECTORS_IVF) f->centroids.n = 0;
    if (!same) f->graph_build = 0;
    snprintf(f->id, sizeof f->id, "%s", b->b->id);
    memcpy(f->url, w.url, sizeof f->url);
    f->n_dims = b->b->n_dims;
    f->kind = w.kind;
    f->build = same ? f->build + 1 : 1;
    b->stats->kind = sp_embedding_kind_name(w.kind);
    return put_facts(b, !same);
}

static sp_err prepare(builder *b)
{
    SP_TRY(sp_db_prepare(b->db, b->path,
                         "SELECT c.id, c.title, c.text, v.sha256 FROM chunks AS c LEFT JOIN vectors AS v"
                         " ON v.chunk = c.id WHERE c.id > ? ORDER BY c.id",
                         &b->chunks));
    SP_TRY(sp_db_prepare(b->db, b->path, "SELECT v FROM vectors WHERE sha256 = ? LIMIT 1", &b->known));
    SP_TRY(sp_db_prepare(b->db, b->path,
                         "INSERT OR REPLACE INTO vectors (chunk, sha256, cluster, build, v) VALUES (?, ?, ?, ?, ?)",
                         &b->put));
    b->v = sp_alloc((size_t)BATCH * (size_t)b->b->n_dims, sizeof *b->v);
    if (!b->v) return sp_fail_nomem("vectors");
    if (b->facts.kind != SP_VECTORS_IVF || b->facts.centroids.n == 0) return SP_OK;
    SP_TRY(sp_vectors_create(&(sp_vectors_opts){.kind = SP_VECTORS_IVF, .n_dims = b->b->n_dims}, &b->clusters));
    return sp_vectors_use(b->clusters, b->facts.centroids.v, b->facts.centroids.n / (size_t)b->b->n_dims);
}

static void builder_fini(builder *b)
{
    sqlite3_finalize(b->chunks);
    sqlite3_finalize(b->known);
    sqlite3_finalize(b->put);
    sqlite3_close(b->db);
    sp_vectors_destroy(b->clusters);
    sp_vectors_destroy(b->database);
    sp_team_destroy(b->team);
    sp_vec_fini(&b->facts.centroids);
    sp_vec_fini(&b->text);
    sp_free(b->v);
    sp_free(b);
}

sp_err sp_embedding_update(const char *path, const sp_embedding_build *o, sp_index_embed_stats *stats)
{
    sp_index_embed_stats unused;
    builder *b = SP_NEW(builder);
    if (!b) return sp_fail_nomem("vectors of an index");
    b->b = o;
    b->path = path;
    b->stats = stats ? stats : &unused;
    *b->stats = (sp_index_embed_stats){0};
    sp_err err = sp_team_create(&b->team, o->n_threads);
    if (err == SP_OK && access(path, F_OK) != 0) err = sp_fail(SP_E_IO, "%s: no such index", path);
    if (err == SP_OK) err = sp_db_open(path, "cannot open the index", true, &b->db);
    if (err == SP_OK) err = sp_db_check(b->db, path, false, NULL);
    if (err == SP_OK) err = sp_db_exec(b->db, path, "BEGIN IMMEDIATE");
    if (err == SP_OK) err = commit(b, begin(b));
    if (err == SP_OK) err = prepare(b);
    if (err == SP_OK) err = embed_all(b);
    if (err == SP_OK) err = sp_db_exec(b->db, path, "BEGIN IMMEDIATE");
    if (err == SP_OK) err = commit(b, finish(b));
    builder_fini(b);
    return err;
}
