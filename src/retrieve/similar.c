/* similar.c -- which chunks are like a chunk: what it is fused with before any question comes.
 *
 * Similarity has several sources, rows of one table; the caller names one. Each gets the chunk and
 * gives at most k others, the most similar first, in an order that depends on the index alone. None
 * gives the chunk itself or an exact copy of its text, which would tell it nothing.
 *
 * Source: FusionRAG section 3.1 (row F3).
 */
#include <string.h>

#include "retrieve/read_int.h"

typedef sp_err similar_fn(sp_index *ix, const sp_hit *chunk, int k, sp_hits *out);

/* fill -- runs a query whose parameters are ?1 the chunk's id, ?2 k, ?3 an expression or NULL. */
static sp_err fill(sp_index *ix, const char *sql, int64_t id, int k, const char *expression,
                   sp_hits *out)
{
    sqlite3_stmt *s;
    SP_TRY(sp_db_prepare(ix->db, ix->path, sql, &s));
    sqlite3_bind_int64(s, 1, id);
    sqlite3_bind_int(s, 2, k);
    if (expression) sqlite3_bind_text(s, 3, expression, -1, SQLITE_STATIC);
    sp_err err = sp_hits_take(ix, s, out);
    sqlite3_finalize(s);
    return err;
}

/* -- sources -------------------------------------------------------------------------------- */

/* The chunk, title first, as a question; ranked as questions are. */
static const char bm25_sql[] =
    "SELECT c.id, -bm25(words, 3.0, 1.0) AS score, f.path, c.title, c.text"
    " FROM words JOIN chunks AS c ON c.id = words.rowid JOIN files AS f ON f.id = c.file"
    " WHERE words MATCH ?3 AND c.sha256 <> (SELECT sha256 FROM chunks WHERE id = ?1)"
    " ORDER BY score DESC, c.id LIMIT ?2";

static sp_err by_bm25(sp_index *ix, const sp_hit *chunk, int k, sp_hits *out)
{
    sp_bytes question = {0}, expression = {0};
    sp_err err = sp_bytes_addf(&question, "%s\n%s", chunk->title, chunk->text);
    if (err == SP_OK) err = sp_bytes_add(&question, "", 1);
    if (err == SP_OK) err = sp_index_expression(question.v, &expression);
    if (err == SP_OK) err = fill(ix, bm25_sql, chunk->id, k, expression.v, out);
    sp_vec_fini(&question);
    sp_vec_fini(&expression);
    return err;
}

/* The chunks of a document have consecutive ids; of two equally near the earlier comes first. */
static const char neighbour_sql[] =
    "SELECT c.id, 1.0 / abs(c.id - ?1) AS score, f.path, c.title, c.text"
    " FROM chunks AS me JOIN chunks AS c ON c.file = me.file AND c.line = me.line"
    " JOIN files AS f ON f.id = c.file"
    " WHERE me.id = ?1 AND c.sha256 <> me.sha256 ORDER BY abs(c.id - ?1), c.id LIMIT ?2";

static sp_err by_place(sp_index *ix, const sp_hit *chunk, int k, sp_hits *out)
{
    return fill(ix, neighbour_sql, chunk->id, k, NULL, out);
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
    const struct source *source = find_source(name);
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
