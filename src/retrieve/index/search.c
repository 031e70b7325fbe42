/* search.c -- ranking: BM25 over the words of the chunks and, added to it, over their grams.
 *
 * Both are sums over the terms of a question, so a chunk's score is the sum over the terms that
 * either table finds in it. Most English text has no grams, and is ranked by its words alone.
 */
#include <string.h>

#include "base/need.h"
#include "retrieve/index/grams_int.h"
#include "retrieve/index/open.h"

/* A title counts three times: questions over encyclopedia articles find about one in a hundred more
 * of their sources than with equal weights; beyond that little changes. */
#define WORDS_SQL                                                                                  \
    "SELECT rowid AS id, -bm25(words, 3.0, 1.0) AS score FROM words WHERE words MATCH ?1"
#define GRAMS_SQL                                                                                  \
    "SELECT rowid AS id, -bm25(grams, 3.0, 1.0) AS score FROM grams WHERE grams MATCH ?2"
/* ?4: a chunk to leave out, together with its copies, or NULL. Texts are read last, for the k best
 * only. */
#define BEST_SQL(ranked)                                                                           \
    "SELECT " SP_HIT_COLUMNS(                                                                      \
        "m.score") " FROM (SELECT id, score FROM (" ranked ") AS r"                                \
                   "  WHERE ?4 IS NULL OR (SELECT sha256 FROM chunks WHERE id = r.id)"             \
                   "                   <> (SELECT sha256 FROM chunks WHERE id = ?4)"               \
                   "  ORDER BY score DESC, id LIMIT ?3) AS m JOIN hits AS h ON h.id = m.id"        \
                   " ORDER BY m.score DESC, m.id"

static const char words_sql[] = BEST_SQL(WORDS_SQL);
static const char grams_sql[] = BEST_SQL(GRAMS_SQL);
static const char both_sql[] = BEST_SQL("SELECT id, sum(score) AS score FROM (" WORDS_SQL
                                        " UNION ALL " GRAMS_SQL ") GROUP BY id");

sp_err sp_index_rank(sp_index *ix, const char *question, int k, int64_t like, sp_hits *out)
{
    sp_query q;
    SP_TRY(sp_query_make(question, &q));
    bool words = *q.words.v, grams = *q.grams.v && ix->has_grams;
    const char *sql = words && grams ? both_sql : grams ? grams_sql : words_sql;
    sqlite3_stmt *s = NULL;
    sp_err err = sp_db_prepare(ix->db, ix->path, sql, &s);
    if (err == SP_OK) {
        /* an expression of no words, "" in quotes, matches nothing */
        sqlite3_bind_text(s, 1, words ? q.words.v : "\"\"", -1, SQLITE_STATIC);
        sqlite3_bind_text(s, 2, q.grams.v, -1, SQLITE_STATIC);
        sqlite3_bind_int(s, 3, k);
        if (like) sqlite3_bind_int64(s, 4, like);
        err = sp_hits_take(ix, s, out);
    }
    sqlite3_finalize(s);
    sp_query_fini(&q);
    return err;
}

sp_err sp_index_search(sp_index *ix, const char *question, int k, sp_hits *out)
{
    SP_NEED(ix);
    SP_NEED(question);
    SP_NEED(out);
    if (k < 1) return sp_fail(SP_E_ARG, "k: %d is below 1", k);
    return sp_index_rank(ix, question, k, 0, out);
}
