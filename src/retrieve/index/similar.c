/* similar.c -- finds chunks similar to a chunk, with which it is fused before any question arrives.
 *
 * Similarity has several sources, rows of one table; the caller names one. Each gets the chunk and
 * returns at most k others, the most similar first, in an order that depends only on the index. None
 * returns the chunk itself or an exact copy of its text, which would add nothing.
 *
 * Source: FusionRAG section 3.1.
 */
#include <string.h>

#include "base/need.h"
#include "retrieve/index/embedding.h"
#include "retrieve/index/pick.h"
#include "retrieve/index/similar_int.h"

/* -- sources -------------------------------------------------------------------------------- */

/* The chunk, title first, as a question; ranked as questions are. */
sp_err sp_similar_bm25(sp_index *ix, const sp_hit *chunk, int k, sp_hits *out)
{
    sp_bytes question = {0};
    sp_err err = sp_bytes_addf(&question, "%s\n%s", chunk->title, chunk->text);
    if (err == SP_OK) err = sp_bytes_add(&question, "", 1);
    if (err == SP_OK) err = sp_index_rank(ix, question.v, k, chunk->id, out);
    sp_vec_fini(&question);
    return err;
}

/* The chunks of a document have consecutive ids; of two equally near the earlier comes first. */
static const char neighbour_sql[] =
    "SELECT " SP_HIT_COLUMNS("1.0 / abs(h.id - ?1)") " FROM chunks AS me JOIN hits AS h ON "
                                                     "h.file_id = me.file AND h.line = me.line"
                                                     " WHERE me.id = ?1 AND h.sha256 <> me.sha256 "
                                                     "ORDER BY abs(h.id - ?1), h.id LIMIT ?2";

sp_err sp_similar_select(sp_index *ix, const char *sql, int64_t id, int k, sp_hits *out)
{
    sqlite3_stmt *s;
    SP_TRY(sp_db_prepare(ix->db, ix->path, sql, &s));
    sqlite3_bind_int64(s, 1, id);
    sqlite3_bind_int(s, 2, k);
    sp_err err = sp_hits_take(ix, s, out);
    sqlite3_finalize(s);
    return err;
}

static sp_err by_place(sp_index *ix, const sp_hit *chunk, int k, sp_hits *out)
{
    return sp_similar_select(ix, neighbour_sql, chunk->id, k, out);
}

/* Random chunks, always the same ones for a chunk and an index: the baseline of similarity. The product is below 2^63,
 * where SQLite begins to round. */
#define SP_DRAW "(h.id + ?1 * 7919) % 2147483648 * 2654435761 % 4294967296"
static const char random_sql[] =
    "SELECT " SP_HIT_COLUMNS("1.0") " FROM chunks AS me JOIN hits AS h ON h.sha256 <> me.sha256 WHERE me.id = ?1 "
                                    "ORDER BY " SP_DRAW ", h.id LIMIT ?2";

static sp_err by_chance(sp_index *ix, const sp_hit *chunk, int k, sp_hits *out)
{
    return sp_similar_select(ix, random_sql, chunk->id, k, out);
}

/* The chunks with the text of one, itself among them. */
static const char copies_sql[] =
    "SELECT h.id FROM hits AS me JOIN hits AS h ON h.sha256 = me.sha256 WHERE me.id = ?1";

static sp_err find_copies(sp_index *ix, int64_t id, sp_ids *out)
{
    sqlite3_stmt *s;
    int rc = SQLITE_DONE;
    SP_TRY(sp_db_prepare(ix->db, ix->path, copies_sql, &s));
    sqlite3_bind_int64(s, 1, id);
    sp_err err = SP_OK;
    while (err == SP_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        err = sp_vec_reserve(out, 1);
        if (err == SP_OK) out->v[out->n++] = sqlite3_column_int64(s, 0);
    }
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(ix->db, ix->path, "cannot search");
    sqlite3_finalize(s);
    return err;
}

static bool has(const sp_ids *ids, int64_t id)
{
    for (size_t i = 0; i < ids->n; i++)
        if (ids->v[i] == id) return true;
    return false;
}

/* Nearest by the vectors of the index. Copies of the text have the same vector, so the search asks for more. */
static sp_err by_vectors(sp_index *ix, const sp_hit *chunk, int k, sp_hits *out)
{
    sp_ids copies = {0};
    sp_ranking r = {0};
    k = (int)SP_MIN(k, ix->n_chunks);
    sp_err err = find_copies(ix, chunk->id, &copies);
    if (err == SP_OK) err = sp_embedding_near(ix, chunk->id, k + (int)copies.n, &r);
    size_t n = 0;
    for (size_t i = 0; i < r.n; i++)
        if (!has(&copies, r.v[i].id)) r.v[n++] = r.v[i];
    r.n = n;
    if (err == SP_OK) err = sp_ranking_hits(ix, &r, SP_MIN((size_t)k, n), out);
    sp_vec_fini(&copies);
    sp_vec_fini(&r);
    return err;
}

static const struct source {
    const char *name;
    sp_similar_fn *find;
} sources[] = {
    {"bm25", sp_similar_bm25},
    {"neighbour", by_place},
    {"vectors", by_vectors},
    {"together", sp_similar_together},
    {"graph", sp_similar_linked},
    {"random", by_chance},
};

/* -- the choice ----------------------------------------------------------------------------- */

static const struct source *find_source(const char *name)
{
    for (size_t i = 0; i < SP_COUNT(sources); i++)
        if (strcmp(sources[i].name, name) == 0) return &sources[i];
    return NULL;
}

sp_err sp_index_similar(sp_index *ix, const char *name, int64_t id, int k, sp_hits *out)
{
    SP_NEED(ix);
    SP_NEED(out);
    const struct source *source = find_source(name ? name : "bm25");
    sp_hits chunk;
    if (!source)
        return sp_fail(SP_E_ARG, "similarity \"%s\" is unknown: bm25, neighbour, vectors, together, graph, random",
                       name);
    if (k < 1) return sp_fail(SP_E_ARG, "k: %d is below 1", k);
    if (id < 1) return sp_fail(SP_E_ARG, "%s: there is no chunk %lld", ix->path, (long long)id);
    SP_TRY(sp_index_chunk(ix, id - 1, &chunk));
    sp_err err = SP_OK;
    if (chunk.n == 0 || chunk.v[0].id != id)
        err = sp_fail(SP_E_ARG, "%s: there is no chunk %lld", ix->path, (long long)id);
    if (err == SP_OK) err = source->find(ix, &chunk.v[0], k, out);
    sp_hits_fini(&chunk);
    return err;
}
