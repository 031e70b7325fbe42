/* similar.c -- which chunks are like a chunk: what it is fused with before any question comes.
 *
 * Similarity has several sources, rows of one table; the caller names one. Each gets the chunk and
 * gives at most k others, the most similar first, in an order that depends on the index alone. None
 * gives the chunk itself or an exact copy of its text, which adds nothing.
 *
 * Source: FusionRAG section 3.1.
 */
#include <string.h>

#include "base/need.h"
#include "retrieve/read_int.h"

typedef sp_err similar_fn(sp_index *ix, const sp_hit *chunk, int k, sp_hits *out);

/* -- sources -------------------------------------------------------------------------------- */

/* The chunk, title first, as a question; ranked as questions are. */
static sp_err by_bm25(sp_index *ix, const sp_hit *chunk, int k, sp_hits *out)
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

static sp_err by_place(sp_index *ix, const sp_hit *chunk, int k, sp_hits *out)
{
    sqlite3_stmt *s;
    SP_TRY(sp_db_prepare(ix->db, ix->path, neighbour_sql, &s));
    sqlite3_bind_int64(s, 1, chunk->id);
    sqlite3_bind_int(s, 2, k);
    sp_err err = sp_hits_take(ix, s, out);
    sqlite3_finalize(s);
    return err;
}

static const struct source {
    const char *name;
    similar_fn *find;
} sources[] = {
    {"bm25", by_bm25},
    {"neighbour", by_place},
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
    if (!source) return sp_fail(SP_E_ARG, "similarity \"%s\" is unknown: bm25, neighbour", name);
    if (k < 1) return sp_fail(SP_E_ARG, "a search for %d chunks", k);
    if (id < 1) return sp_fail(SP_E_ARG, "%s: there is no chunk %lld", ix->path, (long long)id);
    SP_TRY(sp_index_chunk(ix, id - 1, &chunk));
    sp_err err = SP_OK;
    if (chunk.n == 0 || chunk.v[0].id != id)
        err = sp_fail(SP_E_ARG, "%s: there is no chunk %lld", ix->path, (long long)id);
    if (err == SP_OK) err = source->find(ix, &chunk.v[0], k, out);
    sp_hits_fini(&chunk);
    return err;
}
