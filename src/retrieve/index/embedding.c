#include "retrieve/index/embedding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/log.h"
#include "retrieve/index/embedding_int.h"
#include "retrieve/index/open.h"

enum { READ_AT_ONCE = 8192 };

static const char *const kinds[] = {"flat", "ivf", "hnsw", "chroma"};
static const char chroma[] = "chroma:";

sp_err sp_embedding_kind(const char *name, sp_vectors_kind *out, char *url)
{
    *url = '\0';
    for (int i = SP_VECTORS_FLAT; i <= SP_VECTORS_HNSW; i++)
        if (strcmp(name, kinds[i]) == 0) return *out = (sp_vectors_kind)i, SP_OK;
    if (strncmp(name, chroma, strlen(chroma)) != 0 || strlen(name) >= SP_EMBEDDING_URL)
        return sp_fail(SP_E_ARG, "vectors of kind \"%.40s\": flat, ivf, hnsw or chroma:URL", name);
    *out = SP_VECTORS_CHROMA;
    strcpy(url, name + strlen(chroma));
    return SP_OK;
}

const char *sp_embedding_kind_name(sp_vectors_kind kind)
{
    return kinds[kind];
}

static sp_err take_facts(sqlite3_stmt *s, const char *path, sp_embedding_facts *out)
{
    const char *id = (const char *)sqlite3_column_text(s, 0), *kind = (const char *)sqlite3_column_text(s, 2);
    const size_t n = (size_t)sqlite3_column_bytes(s, 3);
    out->n_dims = sqlite3_column_int64(s, 1);
    out->build = sqlite3_column_int64(s, 4);
    out->graph_hash = sqlite3_column_int64(s, 5);
    out->graph_build = sqlite3_column_int64(s, 6);
    snprintf(out->id, sizeof out->id, "%s", id ? id : "");
    if (out->n_dims < 1 || out->n_dims > 65536 || !kind || sp_embedding_kind(kind, &out->kind, out->url) != SP_OK ||
        n % ((size_t)out->n_dims * sizeof(float)))
        return sp_fail(SP_E_FORMAT, "%s: index: a damaged row in table embedding", path);
    SP_TRY(sp_vec_reserve(&out->centroids, n / sizeof(float) + 1));
    if (n) memcpy(out->centroids.v, sqlite3_column_blob(s, 3), n);
    out->centroids.n = n / sizeof(float);
    return SP_OK;
}

sp_err sp_embedding_facts_read(sqlite3 *db, const char *path, sp_embedding_facts *out, bool *there)
{
    int64_t n;
    *out = (sp_embedding_facts){0};
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

/* read_graph -- *good is false if the file is not the one that the index names. */
static sp_err read_graph(sp_vectors *x, const char *path, const sp_embedding_facts *f, bool *good)
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
            sp_log(SP_LOG_WARN, "%s: does not match the index; rebuilding the graph", file.v);
        }
    }
    sp_vec_fini(&file);
    return err;
}

sp_err sp_embedding_write_graph(const sp_vectors *x, const char *path, int64_t *hash)
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

void sp_vector_rows_fini(sp_vector_rows *r)
{
    sp_vec_fini(&r->ids);
    sp_vec_fini(&r->clusters);
    sp_vec_fini(&r->v);
}

static sp_err take_row(sqlite3_stmt *s, const char *path, size_t n_dims, sp_vector_rows *r)
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

sp_err sp_vector_rows_each(const sp_vector_source *from, const char *sql, int64_t parameter, sp_vector_rows_fn *fn,
                           void *user)
{
    sqlite3 *db = from->db;
    const char *path = from->path;
    sqlite3_stmt *s;
    sp_vector_rows r = {0};
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
    sp_vector_rows_fini(&r);
    return err;
}

static sp_err add_rows(sp_vector_rows *r, void *user)
{
    sp_embedding_load *l = user;
    enum { SOME = 512 };
    for (size_t i = 0, n; i < r->ids.n; i += n) { /* few at a time, so that it can be interrupted */
        n = SP_MIN((size_t)SOME, r->ids.n - i);
        SP_TRY(sp_vectors_add(l->x, r->ids.v + i, r->v.v + i * (r->v.n / r->ids.n), n, l->team));
        l->done += (int64_t)n;
        if (l->progress && !l->progress(l->done, l->total, l->user)) return sp_fail(SP_E_CANCELED, "the graph");
    }
    return SP_OK;
}

static sp_err add_rows_to_clusters(sp_vector_rows *r, void *user)
{
    const sp_embedding_load *l = user;
    return sp_vectors_add_to(l->x, r->ids.v, r->v.v, r->ids.n, r->clusters.v);
}

/* remove_gone -- removes from the graph what the table lacks, or got after the graph was written. */
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
static sp_err load_graph(sqlite3 *db, const char *path, const sp_embedding_facts *f, sp_embedding_load *l)
{
    const sp_vector_source from = {db, path, (size_t)f->n_dims};
    bool good;
    SP_TRY(read_graph(l->x, path, f, &good));
    const int64_t build = good ? f->graph_build : -1;
    int64_t n;
    SP_TRY(sp_db_number(db, path, "SELECT count(*) FROM vectors", &n));
    if ((size_t)n > sp_vectors_count(l->x)) SP_TRY(sp_vectors_reserve(l->x, (size_t)n - sp_vectors_count(l->x)));
    if (good) SP_TRY(remove_gone(db, path, l->x, build));
    return sp_vector_rows_each(&from, SP_VECTOR_ROWS " WHERE build > ? ORDER BY chunk", build, add_rows, l);
}

static sp_err open_database(sqlite3 *db, const char *path, const sp_embedding_facts *f, sp_embedding_load *l)
{
    const sp_vectors_opts o = {
        .kind = f->kind, .n_dims = (int)f->n_dims, .url = f->url, .mark = f->graph_hash};
    int64_t n;
    SP_TRY(sp_vectors_create(&o, &l->x));
    SP_TRY(sp_db_number(db, path, "SELECT count(*) FROM vectors", &n));
    if ((size_t)n != sp_vectors_count(l->x))
        sp_log(SP_LOG_WARN, "%s: %s has %zu vectors of %lld chunks; spolia index --embedding adds them", path, f->url,
               sp_vectors_count(l->x), (long long)n);
    return SP_OK;
}

sp_err sp_embedding_load_all(sqlite3 *db, const char *path, const sp_embedding_facts *f, sp_embedding_load *l)
{
    const sp_vectors_opts o = {.kind = f->kind, .n_dims = (int)f->n_dims};
    const sp_vector_source from = {db, path, (size_t)f->n_dims};
    if (f->kind == SP_VECTORS_CHROMA) return open_database(db, path, f, l);
    SP_TRY(sp_vectors_create(&o, &l->x));
    if (f->kind == SP_VECTORS_HNSW) return load_graph(db, path, f, l);
    if (f->kind == SP_VECTORS_IVF && f->centroids.n == 0) return SP_OK; /* nothing was embedded yet */
    if (f->kind == SP_VECTORS_IVF)
        SP_TRY(sp_vectors_use(l->x, f->centroids.v, f->centroids.n / (size_t)f->n_dims));
    return sp_vector_rows_each(&from, SP_VECTOR_ROWS " ORDER BY chunk", 0, add_rows_to_clusters, l);
}

sp_err sp_embedding_open(sp_index *ix, const char *id, sp_vectors **out, sp_vectors_kind *kind)
{
    sp_embedding_facts f;
    bool there;
    sp_embedding_load l = {0};
    SP_TRY(sp_embedding_facts_read(ix->db, ix->path, &f, &there));
    sp_err err = !there ? sp_fail(SP_E_NOTFOUND, "%s: the index has no vectors; spolia index --embedding adds them",
                                  ix->path)
                 : id && strcmp(f.id, id) != 0
                     ? sp_fail(SP_E_ARG, "%s: vectors from another encoder; spolia index --embedding replaces them",
                               ix->path)
                     : sp_embedding_load_all(ix->db, ix->path, &f, &l);
    sp_vec_fini(&f.centroids);
    *kind = f.kind;
    if (err == SP_OK)
        *out = l.x;
    else
        sp_vectors_destroy(l.x);
    return err;
}

/* vector_of -- the vector of a chunk, from the table. Owns: sp_free(*out). */
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
    if (err == SP_OK && sqlite3_column_bytes(s, 0) == 0)
        err = sp_fail(SP_E_UNSUPPORTED, "%s: its vectors are in a database and cannot be read back", ix->path);
    else if (err == SP_OK && (size_t)sqlite3_column_bytes(s, 0) != n * sizeof **out)
        err = sp_fail(SP_E_FORMAT, "%s: index: a damaged row in table vectors", ix->path);
    float *v = err == SP_OK ? sp_alloc(n, sizeof *v) : NULL;
    if (err == SP_OK && !v) err = sp_fail_nomem("a vector");
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
    sp_err err = near ? SP_OK : sp_fail_nomem("a ranking");
    if (err == SP_OK) err = sp_vectors_search(ix->vectors, &(sp_vectors_query){.v = v, .k = k}, near, &n);
    for (int i = 0; i < n && err == SP_OK; i++)
        err = sp_ranking_add(out, near[i].id, 1 - (double)near[i].distance);
    sp_free(near);
    sp_free(v);
    return err;
}
