/* together.c -- chunks that the same questions find, as a prediction of what a prompt will have besides a chunk.
 * Counts are kept with the open index, in a temporary table: nothing is written to its file.
 *
 * Source: FusionRAG section 3.1, with questions in place of the chunk's own words. */
#include "base/need.h"
#include "retrieve/index/similar_int.h"

static const char table_sql[] =
    "PRAGMA temp_store = MEMORY;"
    "CREATE TEMP TABLE IF NOT EXISTS together (a INTEGER, b INTEGER, n INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID";
static const char count_sql[] =
    "INSERT INTO together VALUES (?1, ?2, 1) ON CONFLICT (a, b) DO UPDATE SET n = n + 1";
static const char best_sql[] =
    "SELECT " SP_HIT_COLUMNS("t.n") " FROM together AS t JOIN hits AS h ON h.id = t.b WHERE t.a = ?1 AND"
    " (SELECT sha256 FROM chunks WHERE id = t.b) <> (SELECT sha256 FROM chunks WHERE id = ?1)"
    " ORDER BY t.n DESC, t.b LIMIT ?2";

static sp_err count_pairs(sp_index *ix, const sp_hits *found)
{
    sqlite3_stmt *s;
    sp_err err = SP_OK;
    SP_TRY(sp_db_prepare(ix->db, ix->path, count_sql, &s));
    for (int i = 0; i < found->n; i++)
        for (int j = 0; j < found->n && err == SP_OK; j++) {
            if (i == j) continue;
            sqlite3_bind_int64(s, 1, found->v[i].id);
            sqlite3_bind_int64(s, 2, found->v[j].id);
            if (sqlite3_step(s) != SQLITE_DONE) err = sp_db_fail(ix->db, ix->path, "cannot count questions");
            sqlite3_reset(s);
        }
    sqlite3_finalize(s);
    return err;
}

sp_err sp_index_note_question(sp_index *ix, const char *question, int k)
{
    sp_hits found;
    SP_NEED(ix);
    SP_TRY(sp_db_exec(ix->db, ix->path, table_sql));
    SP_TRY(sp_index_search(ix, question, k, &found));
    sp_err err = count_pairs(ix, &found);
    sp_hits_fini(&found);
    if (err == SP_OK) ix->n_noted++;
    return err;
}

sp_err sp_similar_together(sp_index *ix, const sp_hit *chunk, int k, sp_hits *out)
{
    if (!ix->n_noted) return sp_fail(SP_E_ARG, "%s: similarity \"together\" needs questions", ix->path);
    SP_TRY(sp_similar_select(ix, best_sql, chunk->id, k, out));
    if (out->n) return SP_OK;
    sp_hits_fini(out);
    return sp_similar_bm25(ix, chunk, k, out); /* no question has found it */
}
