#include "retrieve/embedding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "retrieve/read_int.h"

enum {
    BATCH = 512,       /* chunks that are embedded and written at a time */
    MOST_FLAT = 20000, /* chunks of an index that is searched exhaustively unless a kind is named */
    SAMPLE = 64,       /* vectors of each cluster that is found */
    READ_AT_ONCE = 8192
};

static const char *const kinds[] = {[SP_VECTORS_FLAT] = "flat", [SP_VECTORS_IVF] = "ivf", [SP_VECTORS_HNSW] = "hnsw"};

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS embedding ("
    "  id TEXT NOT NULL, n_dims INTEGER NOT NULL, kind TEXT NOT NULL, centroids BLOB, build INTEGER NOT NULL,"
    "  graph_hash INTEGER, graph_build INTEGER);"
    "CREATE TABLE IF NOT EXISTS vectors ("
    "  chunk INTEGER PRIMARY KEY, sha256 BLOB NOT NULL, cluster INTEGER NOT NULL, build INTEGER NOT NULL,"
    "  v BLOB NOT NULL);"
    "CREATE INDEX IF NOT EXISTS vectors_of_text ON vectors (sha256);";

/* The row of table embedding. */
typedef struct facts {
    char id[65];
    int64_t n_dims, build, graph_hash, graph_build;
    sp_vectors_kind kind;
    SP_VEC(float) centroids;
} facts;

#define ROWS "SELECT chunk, cluster, v FROM vectors"

static sp_err kind_of(const char *name, sp_vectors_kind *out)
{
    for (int i = SP_VECTORS_FLAT; i <= SP_VECTORS_HNSW; i++)
        if (strcmp(name, kinds[i]) == 0) return *out = (sp_vectors_kind)i, SP_OK;
    return sp_fail(SP_E_ARG, "vectors of kind \"%.40s\": flat, ivf or hnsw", name);
}

static sp_err take_facts(sqlite3_stmt *s, const char *path, facts *out)
{
    const char *id = (const char *)sqlite3_column_text(s, 0), *kind = (const char *)sqlite3_column_text(s, 2);
    const size_t n = (size_t)sqlite3_column_bytes(s, 3);
    out->n_dims = sqlite3_column_int64(s, 1);
    out->build = sqlite3_column_int64(s, 4);
    out->graph_hash = sqlite3_column_int64(s, 5);
    out->graph_build = sqlite3_column_int64(s, 6);
    snprintf(out->id, sizeof out->id, "%s", id ? id : "");
    if (out->n_dims < 1 || out->n_dims > 65536 || !kind || kind_of(kind, &out->kind) != SP_OK ||
        n % ((size_t)out->n_dims * sizeof(float)))
        return sp_fail(SP_E_FORMAT, "%s: index: a damaged row in table embedding", path);
    SP_TRY(sp_vec_reserve(&out->centroids, n / sizeof(float) + 1));
    if (n) memcpy(out->centroids.v, sqlite3_column_blob(s, 3), n);
    out->centroids.n = n / sizeof(float);
    return SP_OK;
}

/* read_facts -- *there is false when the index has no vectors. Owns: sp_vec_fini of centroids. */
static sp_err read_facts(sqlite3 *db, const char *path, facts *out, bool *there)
{
    int64_t n;
    *out = (facts){0};
    *there = false;
    SP_TRY(sp_db_number(db, path, "SELECT count(*) FROM sqlite_schema WHERE name IN ('embedding', 'vectors')", &n));
    if (n != 2) return SP_OK;
    sqlite3_stmt *s;
    SP_TRY(sp_db_prepare(db, path,
                         "SELECT id, n_dims, kind, centroids, build, graph_hash, graph_build FROM embedding", &s));
    const int rc = sqlite3_step(s);
    sp_err err = rc == SQLITE_ROW    ? take_facts(s, path, out)
                 : rc == SQLITE_DONE ? SP_OK
                                     : sp_db_fail(db, path, "index");
    *there = rc == SQLITE_ROW && err == SP_OK;
    sqlite3_finalize(s);
    if (err != SP_OK) sp_vec_fini(&out->centroids);
    return err;
}

/* -- the file of the graph --------------------------------------------------------------------- */

static sp_err graph_path(const char *path, const char *end, sp_bytes *out)
{
    out->n = 0;
    return sp_bytes_addf(out, "%s.graph%s%c", path, end, '\0');
}

static sp_err hash_file(const char *path, int64_t *out)
{
    sp_file_map map;
    SP_TRY(sp_file_map_open(path, &map));
    *out = (int64_t)XXH3_64bits(map.data, map.size);
    sp_file_map_close(&map);
    return SP_OK;
}

/* read_graph -- *good is false when the file is not the one that the index names. */
static sp_err read_graph(sp_vectors *x, const char *path, const facts *f, bool *good)
{
    sp_bytes file = {0};
    int64_t hash = 0;
    *good = false;
    sp_err err = graph_path(path, "", &file);
    if (err == SP_OK && f->graph_build && access(file.v, R_OK) == 0) {
        err = hash_file(file.v, &hash);
        if (err == SP_OK && hash == f->graph_hash) {
            *good = sp_vectors_read(x, file.v) == SP_OK;
        } else {
            sp_log(SP_LOG_WARN, "%s: not the graph that the index was built with; it is made again", file.v);
        }
    }
    sp_vec_fini(&file);
    return err;
}

/* write_graph -- under its name once it is whole. */
static sp_err write_graph(const sp_vectors *x, const char *path, int64_t *hash)
{
    sp_bytes file = {0}, fresh = {0};
    sp_err err = graph_path(path, "", &file);
    if (err == SP_OK) err = graph_path(path, ".new", &fresh);
    if (err == SP_OK) err = sp_vectors_write(x, fresh.v);
    if (err == SP_OK) err = hash_file(fresh.v, hash);
    if (err == SP_OK && rename(fresh.v, file.v) != 0) err = sp_fail(SP_E_IO, "%s: cannot write the graph", file.v);
    sp_vec_fini(&file);
    sp_vec_fini(&fresh);
    return err;
}

/* -- rows in memory ---------------------------------------------------------------------------- */

/* Vectors on their way from the table. */
typedef struct rows {
    SP_VEC(int64_t) ids;
    SP_VEC(uint32_t) clusters;
    SP_VEC(float) v;
} rows;

static void rows_fini(rows *r)
{
    sp_vec_fini(&r->ids);
    sp_vec_fini(&r->clusters);
    sp_vec_fini(&r->v);
}

static sp_err take_row(sqlite3_stmt *s, const char *path, size_t n_dims, rows *r)
{
    const void *v = sqlite3_column_blob(s, 2);
    if (!v || (size_t)sqlite3_column_bytes(s, 2) != n_dims * sizeof(float))
        return sp_fail(SP_E_FORMAT, "%s: index: a damaged row in table vectors", path);
    SP_TRY(sp_vec_reserve(&r->ids, 1));
    SP_TRY(sp_vec_reserve(&r->clusters, 1));
    SP_TRY(sp_vec_reserve(&r->v, n_dims));
    r->ids.v[r->ids.n++] = sqlite3_column_int64(s, 0);
    r->clusters.v[r->clusters.n++] = (uint32_t)sqlite3_column_int64(s, 1);
    memcpy(r->v.v + r->v.n, v, n_dims * sizeof(float));
    r->v.n += n_dims;
    return SP_OK;
}

typedef sp_err rows_fn(rows *r, void *user);

/* Where rows are from. */
typedef struct source {
    sqlite3 *db;
    const char *path;
    size_t n_dims;
} source;

/* each_rows -- calls fn with the rows of a statement (chunk, cluster, v), some thousands at a time. */
static sp_err each_rows(const source *from, const char *sql, int64_t parameter, rows_fn *fn, void *user)
{
    sqlite3 *db = from->db;
    const char *path = from->path;
    sqlite3_stmt *s;
    rows r = {0};
    int rc = SQLITE_DONE;
    SP_TRY(sp_db_prepare(db, path, sql, &s));
    sqlite3_bind_int64(s, 1, parameter);
    sp_err err = SP_OK;
    while (err == SP_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        err = take_row(s, path, from->n_dims, &r);
        if (err != SP_OK || r.ids.n < READ_AT_ONCE) continue;
        err = fn(&r, user);
        r.ids.n = r.clusters.n = r.v.n = 0;
    }
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(db, path, "index");
    if (err == SP_OK && r.ids.n) err = fn(&r, user);
    sqlite3_finalize(s);
    rows_fini(&r);
    return err;
}

typedef struct adding {
    sp_vectors *x;
    sp_team *team;
    sp_index_embed_progress *progress;
    void *user;
    int64_t done, total;
} adding;

static sp_err add_rows(rows *r, void *user)
{
    adding *a = user;
    enum { SOME = 512 };
    for (size_t i = 0, n; i < r->ids.n; i += n) { /* few at a time, so that it can be interrupted */
        n = SP_MIN((size_t)SOME, r->ids.n - i);
        SP_TRY(sp_vectors_add(a->x, r->ids.v + i, r->v.v + i * (r->v.n / r->ids.n), n, a->team));
        a->done += (int64_t)n;
        if (a->progress && !a->progress(a->done, a->total, a->user)) return sp_fail(SP_E_CANCELED, "the graph");
    }
    return SP_OK;
}

static sp_err add_rows_to_clusters(rows *r, void *user)
{
    const adding *a = user;
    return sp_vectors_add_to(a->x, r->ids.v, r->v.v, r->ids.n, r->clusters.v);
}

/* remove_gone -- what the graph has and the table has not, or has got since the graph was written. */
static sp_err remove_gone(sqlite3 *db, const char *path, sp_vectors *x, int64_t build)
{
    sp_vector_ids has = {0};
    sqlite3_stmt *s;
    size_t at = 0, n_gone = 0;
    int rc = SQLITE_DONE;
    SP_TRY(sp_db_prepare(db, path, "SELECT chunk FROM vectors WHERE build <= ? ORDER BY chunk", &s));
    sqlite3_bind_int64(s, 1, build);
    sp_err err = sp_vectors_ids(x, &has);
    while (err == SP_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        const int64_t id = sqlite3_column_int64(s, 0);
        while (at < has.n && has.v[at] < id) has.v[n_gone++] = has.v[at++];
        at += at < has.n && has.v[at] == id;
    }
    while (at < has.n) has.v[n_gone++] = has.v[at++];
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(db, path, "index");
    if (err == SP_OK) err = sp_vectors_remove(x, has.v, n_gone);
    sqlite3_finalize(s);
    sp_vec_fini(&has);
    return err;
}

/* load_graph -- from its file and the rows since, or from all rows; *same: nothing had to be added or removed. */
static sp_err load_graph(sqlite3 *db, const char *path, const facts *f, adding *a)
{
    const source from = {db, path, (size_t)f->n_dims};
    bool good;
    SP_TRY(read_graph(a->x, path, f, &good));
    const int64_t build = good ? f->graph_build : -1;
    if (good) SP_TRY(remove_gone(db, path, a->x, build));
    return each_rows(&from, ROWS " WHERE build > ? ORDER BY chunk", build, add_rows, a);
}

/* load -- what the table has, in memory. */
static sp_err load(sqlite3 *db, const char *path, const facts *f, adding *a)
{
    const sp_vectors_opts o = {.kind = f->kind, .n_dims = (int)f->n_dims};
    const source from = {db, path, (size_t)f->n_dims};
    SP_TRY(sp_vectors_create(&o, &a->x));
    if (f->kind == SP_VECTORS_HNSW) return load_graph(db, path, f, a);
    if (f->kind == SP_VECTORS_IVF && f->centroids.n == 0) return SP_OK; /* nothing was embedded yet */
    if (f->kind == SP_VECTORS_IVF)
        SP_TRY(sp_vectors_use(a->x, f->centroids.v, f->centroids.n / (size_t)f->n_dims));
    return each_rows(&from, ROWS " ORDER BY chunk", 0, add_rows_to_clusters, a);
}

sp_err sp_embedding_open(sp_index *ix, const char *id, sp_vectors **out, sp_vectors_kind *kind)
{
    facts f;
    bool there;
    adding a = {0};
    SP_TRY(read_facts(ix->db, ix->path, &f, &there));
    sp_err err = !there ? sp_fail(SP_E_NOTFOUND, "%s: the index has no vectors; spolia index --embedding adds them",
                                  ix->path)
                 : id && strcmp(f.id, id) != 0
                     ? sp_fail(SP_E_ARG, "%s: vectors of another encoder; spolia index --embedding replaces them",
                               ix->path)
                     : load(ix->db, ix->path, &f, &a);
    sp_vec_fini(&f.centroids);
    *kind = f.kind;
    if (err == SP_OK)
        *out = a.x;
    else
        sp_vectors_destroy(a.x);
    return err;
}

/* vector_of -- a chunk's, from the table. Owns: sp_free(*out). */
static sp_err vector_of(sp_index *ix, int64_t chunk, float **out)
{
    sqlite3_stmt *s;
    SP_TRY(sp_db_prepare(ix->db, ix->path,
                         "SELECT v.v, e.n_dims FROM vectors AS v, embedding AS e WHERE v.chunk = ?1", &s));
    sqlite3_bind_int64(s, 1, chunk);
    const int rc = sqlite3_step(s);
    sp_err err = rc == SQLITE_ROW ? SP_OK
                 : rc == SQLITE_DONE
                     ? sp_fail(SP_E_NOTFOUND, "%s: chunk %lld has no vector; spolia index --embedding adds it",
                               ix->path, (long long)chunk)
                     : sp_db_fail(ix->db, ix->path, "index");
    const size_t n = err == SP_OK ? (size_t)sqlite3_column_int64(s, 1) : 0;
    if (err == SP_OK && (size_t)sqlite3_column_bytes(s, 0) != n * sizeof **out)
        err = sp_fail(SP_E_FORMAT, "%s: index: a damaged row in table vectors", ix->path);
    float *v = err == SP_OK ? sp_alloc(n, sizeof *v) : NULL;
    if (err == SP_OK && !v) err = sp_fail_nomem(n * sizeof *v, "a vector");
    if (err == SP_OK) *out = memcpy(v, sqlite3_column_blob(s, 0), n * sizeof *v);
    sqlite3_finalize(s);
    return err;
}

sp_err sp_embedding_near(sp_index *ix, int64_t chunk, int k, sp_ranking *out)
{
    sp_vectors_kind kind;
    float *v;
    int n = 0;
    if (!ix->vectors) SP_TRY(sp_embedding_open(ix, NULL, &ix->vectors, &kind));
    SP_TRY(vector_of(ix, chunk, &v));
    sp_near *near = sp_alloc((size_t)k, sizeof *near);
    sp_err err = near ? SP_OK : sp_fail_nomem((size_t)k * sizeof *near, "a ranking");
    if (err == SP_OK) err = sp_vectors_search(ix->vectors, &(sp_vectors_query){.v = v, .k = k}, near, &n);
    for (int i = 0; i < n && err == SP_OK; i++)
        err = sp_ranking_add(out, near[i].id, 1 - (double)near[i].distance);
    sp_free(near);
    sp_free(v);
    return err;
}

/* -- building ---------------------------------------------------------------------------------- */

/* A build under way. */
typedef struct builder {
    const sp_embedding_build *b;
    const char *path;
    sqlite3 *db;
    sp_index_embed_stats *stats;
    facts facts;
    sqlite3_stmt *chunks, *known, *put;
    sp_vectors *clusters; /* IVF: for the cluster of a new vector; NULL: not found yet */
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

/* text_of -- what is embedded of a chunk: title and text. */
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

/* put_vector -- its row. */
static sp_err put_vector(builder *b, int64_t chunk, const sp_digest *hash, const void *v)
{
    uint32_t cluster = 0;
    if (b->clusters) sp_vectors_assign(b->clusters, v, 1, NULL, &cluster);
    sqlite3_bind_int64(b->put, 1, chunk);
    sqlite3_bind_blob(b->put, 2, hash->b, sizeof hash->b, SQLITE_STATIC);
    sqlite3_bind_int64(b->put, 3, cluster);
    sqlite3_bind_int64(b->put, 4, b->facts.build);
    sqlite3_bind_blob(b->put, 5, v, (int)((size_t)b->b->n_dims * sizeof(float)), SQLITE_STATIC);
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
    *found = sqlite3_step(b->known) == SQLITE_ROW && (size_t)sqlite3_column_bytes(b->known, 0) == n_bytes;
    if (*found) memcpy(b->v, sqlite3_column_blob(b->known, 0), n_bytes);
    sqlite3_reset(b->known);
    return *found ? put_vector(b, chunk, hash, b->v) : SP_OK;
}

/* embed_batch -- the texts of the batch, without their vectors so far. */
static sp_err embed_batch(builder *b)
{
    for (int i = 0; i < b->n; i++) b->texts[i] = b->text.v + b->at[i];
    if (b->n) SP_TRY(b->b->embed(b->texts, b->n, b->v, b->b->user));
    for (int i = 0; i < b->n; i++)
        SP_TRY(put_vector(b, b->ids[i], &b->hashes[i], b->v + (size_t)i * (size_t)b->b->n_dims));
    b->stats->n_embedded += b->n;
    return SP_OK;
}

/* read_batch -- chunks until enough of them need a vector; *more false: they are all. */
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

static sp_err collect(rows *r, void *user)
{
    rows *all = user;
    SP_TRY(sp_vec_reserve(&all->v, r->v.n));
    memcpy(all->v.v + all->v.n, r->v.v, r->v.n * sizeof *r->v.v);
    all->v.n += r->v.n;
    return SP_OK;
}

static sp_err assign_rows(rows *r, void *user)
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

/* find_clusters -- of an evenly spaced sample; all rows get theirs. */
static sp_err find_clusters(builder *b, int64_t n)
{
    const source from = {b->db, b->path, (size_t)b->b->n_dims};
    int64_t wanted = 4;
    while (wanted * wanted < 4 * n) wanted++; /* two roots of n */
    const int64_t step = SP_MAX(n / (SAMPLE * wanted), 1);
    rows sample = {0};
    const sp_vectors_opts o = {
        .kind = SP_VECTORS_IVF, .n_dims = b->b->n_dims, .n_clusters = (int)SP_MIN(wanted, n)};
    sp_vectors_destroy(b->clusters);
    b->clusters = NULL;
    SP_TRY(sp_vectors_create(&o, &b->clusters));
    sp_err err = each_rows(&from, ROWS " WHERE chunk % ?1 = 0 ORDER BY chunk", step, collect, &sample);
    if (err == SP_OK && sample.v.n == 0)
        err = each_rows(&from, ROWS, 0, collect, &sample);
    if (err == SP_OK)
        err = sp_vectors_train(b->clusters, sample.v.v, sample.v.n / (size_t)b->b->n_dims, b->team);
    rows_fini(&sample);
    SP_TRY(err);
    size_t n_lists;
    const float *centroids = sp_vectors_centroids(b->clusters, &n_lists);
    const size_t n_bytes = n_lists * (size_t)b->b->n_dims * sizeof *centroids;
    SP_TRY(set_blob(b, "UPDATE embedding SET centroids = ?", centroids, n_bytes));
    return each_rows(&from, ROWS " ORDER BY chunk", 0, assign_rows, b);
}

/* finish_ivf -- new clusters are found when there are twice too many or too few. */
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
    adding a = {.team = b->team, .progress = b->b->progress, .user = b->b->user, .total = n};
    sp_err err = load(b->db, b->path, &b->facts, &a);
    if (err == SP_OK) err = write_graph(a.x, b->path, &hash);
    sp_vectors_destroy(a.x);
    SP_TRY(err);
    snprintf(sql, sizeof sql, "UPDATE embedding SET graph_hash = %lld, graph_build = %lld", (long long)hash,
             (long long)b->facts.build);
    return sp_db_exec(b->db, b->path, sql);
}

/* finish -- rows of chunks that are gone leave; clusters or graph follow. */
static sp_err finish(builder *b)
{
    int64_t n;
    sp_err err = sp_db_exec(b->db, b->path, "DELETE FROM vectors WHERE chunk NOT IN (SELECT id FROM chunks)");
    b->stats->n_removed = sqlite3_changes(b->db);
    if (err == SP_OK) err = sp_db_number(b->db, b->path, "SELECT count(*) FROM vectors", &n);
    if (err == SP_OK && b->facts.kind == SP_VECTORS_IVF) err = finish_ivf(b, n);
    const bool changed = b->stats->n_removed || b->stats->n_embedded || b->facts.graph_build < b->facts.build;
    if (err == SP_OK && b->facts.kind == SP_VECTORS_HNSW && changed) err = finish_graph(b, n);
    return err;
}

/* -- the whole --------------------------------------------------------------------------------- */

/* choose_kind -- as asked, or as the index has it, or by its size. */
static sp_err choose_kind(const builder *b, bool there, sp_vectors_kind *out)
{
    if (b->b->kind) return kind_of(b->b->kind, out);
    *out = there ? b->facts.kind : b->stats->n_chunks <= MOST_FLAT ? SP_VECTORS_FLAT : SP_VECTORS_HNSW;
    return SP_OK;
}

/* begin -- the row of the index; vectors of another encoder leave. */
static sp_err begin(builder *b)
{
    bool there;
    sp_vectors_kind kind = SP_VECTORS_FLAT;
    char sql[400];
    SP_TRY(sp_db_exec(b->db, b->path, schema));
    SP_TRY(sp_db_number(b->db, b->path, "SELECT count(*) FROM chunks", &b->stats->n_chunks));
    SP_TRY(read_facts(b->db, b->path, &b->facts, &there));
    const bool same = there && strcmp(b->facts.id, b->b->id) == 0 && b->facts.n_dims == b->b->n_dims;
    SP_TRY(choose_kind(b, same, &kind));
    if (!same) SP_TRY(sp_db_exec(b->db, b->path, "DELETE FROM vectors; DELETE FROM embedding"));
    if (!same || kind != SP_VECTORS_IVF) b->facts.centroids.n = 0;
    snprintf(b->facts.id, sizeof b->facts.id, "%s", b->b->id);
    b->facts.n_dims = b->b->n_dims;
    b->facts.kind = kind;
    b->facts.build = same ? b->facts.build + 1 : 1;
    if (!same) b->facts.graph_build = 0;
    b->stats->kind = kinds[kind];
    snprintf(sql, sizeof sql,
             same ? "UPDATE embedding SET id = '%.64s', n_dims = %d, kind = '%s', build = %lld;"
                    "UPDATE embedding SET centroids = NULL WHERE kind <> 'ivf'"
                  : "INSERT INTO embedding (id, n_dims, kind, build) VALUES ('%.64s', %d, '%s', %lld)",
             b->b->id, b->b->n_dims, kinds[kind], (long long)b->facts.build);
    return sp_db_exec(b->db, b->path, sql);
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
    if (!b->v) return sp_fail_nomem((size_t)b->b->n_dims * BATCH * sizeof *b->v, "vectors");
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
    if (!b) return sp_fail_nomem(sizeof *b, "vectors of an index");
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
