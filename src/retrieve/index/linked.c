/* linked.c -- chunks that a graph links: triples of both name the same entities, the rarer the entity the stronger the
 * link. The graph is in the file of the index; the source of a triple says its chunk, FILE#ID, as `spolia graph
 * extract` writes it.
 *
 *     similarity of two chunks = sum over their common entities of 1 / (chunks that name it - 1)
 *
 * Which chunk names which entity is listed once, in temporary tables. A list that failed is made again from its start:
 * there is no transaction that could stay open because memory is too short to end it.
 * Source: FusionRAG section 3.1 (graph edges). */
#include "retrieve/index/similar_int.h"

/* SQLite can cut from the right only with rtrim: a source without its digits is FILE#. */
#define FILE_OF "rtrim(s.name, '0123456789')"
static const char list_sql[] =
    "PRAGMA temp_store = MEMORY;"
    "DROP TABLE IF EXISTS temp.linked_entities; DROP TABLE IF EXISTS temp.linked_sources;"
    "DROP TABLE IF EXISTS temp.linked;"
    "CREATE TEMP TABLE linked (entity INTEGER, chunk INTEGER, PRIMARY KEY (entity, chunk)) WITHOUT ROWID;"
    "CREATE TEMP TABLE linked_sources (source INTEGER PRIMARY KEY, chunk INTEGER);"
    "INSERT INTO linked_sources SELECT s.id, h.id FROM graph_sources AS s JOIN hits AS h"
    "  ON h.id = CAST(substr(s.name, length(" FILE_OF ") + 1) AS INTEGER) AND h.file || '#' = " FILE_OF ";"
    "INSERT OR IGNORE INTO linked SELECT t.subject, l.chunk FROM graph_triples AS t JOIN linked_sources AS l"
    "  ON l.source = t.source UNION SELECT t.object, l.chunk FROM graph_triples AS t JOIN linked_sources AS l"
    "  ON l.source = t.source;";
static const char named_sql[] = /* by chunks that repeat a triple */
    "INSERT OR IGNORE INTO linked SELECT n.entity, l.chunk FROM graph_named AS n JOIN linked_sources AS l"
    "  ON l.source = n.source;";
static const char weigh_sql[] =
    "CREATE INDEX temp.linked_by_chunk ON linked (chunk);"
    "CREATE TEMP TABLE linked_entities AS SELECT entity, 1.0 / (count(*) - 1) AS weight FROM linked GROUP BY entity"
    "  HAVING count(*) > 1;"
    "CREATE UNIQUE INDEX temp.linked_by_entity ON linked_entities (entity);";
static const char best_sql[] =
    "SELECT " SP_HIT_COLUMNS("x.score") " FROM (SELECT b.chunk AS chunk, sum(e.weight) AS score FROM linked AS a"
    " JOIN linked_entities AS e ON e.entity = a.entity JOIN linked AS b ON b.entity = a.entity AND b.chunk <> ?1"
    " WHERE a.chunk = ?1 GROUP BY b.chunk) AS x JOIN hits AS h ON h.id = x.chunk"
    " WHERE h.sha256 <> (SELECT sha256 FROM chunks WHERE id = ?1) ORDER BY x.score DESC, h.id LIMIT ?2";

static sp_err list(sp_index *ix)
{
    int64_t n = 0, n_named = 0;
    SP_TRY(sp_db_number(ix->db, ix->path, "SELECT count(*) FROM sqlite_schema WHERE name = 'graph_named'", &n_named));
    SP_TRY(sp_db_number(ix->db, ix->path, "SELECT count(*) FROM sqlite_schema WHERE name = 'graph_sources'", &n));
    if (n == 0) return sp_fail(SP_E_ARG, "%s: similarity \"graph\" needs a graph in this file", ix->path);
    SP_TRY(sp_db_exec(ix->db, ix->path, list_sql));
    if (n_named) SP_TRY(sp_db_exec(ix->db, ix->path, named_sql));
    SP_TRY(sp_db_exec(ix->db, ix->path, weigh_sql));
    SP_TRY(sp_db_number(ix->db, ix->path, "SELECT count(*) FROM linked_sources", &n));
    if (n == 0)
        return sp_fail(SP_E_ARG, "%s: no triple of its graph has a chunk of the index as source (FILE#ID)", ix->path);
    return SP_OK;
}

sp_err sp_similar_linked(sp_index *ix, const sp_hit *chunk, int k, sp_hits *out)
{
    if (!ix->has_links) SP_TRY(list(ix));
    ix->has_links = true;
    SP_TRY(sp_similar_select(ix, best_sql, chunk->id, k, out));
    if (out->n) return SP_OK;
    sp_hits_fini(out);
    return sp_similar_bm25(ix, chunk, k, out); /* no triple links it */
}
