#include "retrieve/graph/db_int.h"

/* A graph is in a file beside the tables of the text index (retrieve/db/db.c), which may be empty.
 *
 *   graph_meta       one row: the version of these tables
 *   graph_entities   ident tells entities apart (the name in files of triples, the node id in
 *                    others); name NULL: the same as ident
 *   graph_keys       folded names and aliases (names_int.h) -> entities; alias: an sp_key_kind
 *   graph_relations  n: triples of the relation
 *   graph_sources    where triples came from: a chunk, a document
 *   graph_triples    clustered by subject; an index clusters the same rows by object
 *   graph_named      entities of triples that another source gave first, by source; not in older files
 *   graph_letters    inverted index (FTS5, trigrams) over graph_keys.key, for misspelt names
 *   graph_files      how far the files of imports were read
 */
#define GRAPH_VERSION 1

static const char schema[] =
    "CREATE TABLE graph_meta (version INTEGER NOT NULL);"
    "INSERT INTO graph_meta VALUES (1);"
    "CREATE TABLE graph_entities ("
    "  id INTEGER PRIMARY KEY, ident TEXT NOT NULL UNIQUE, name TEXT);"
    "CREATE TABLE graph_keys ("
    "  id INTEGER PRIMARY KEY, key TEXT NOT NULL, entity INTEGER NOT NULL, alias INTEGER NOT NULL);"
    "CREATE UNIQUE INDEX graph_keys_by_key ON graph_keys (key, entity, alias);"
    "CREATE TABLE graph_relations ("
    "  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, n INTEGER NOT NULL);"
    "CREATE TABLE graph_sources (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"
    "CREATE TABLE graph_triples ("
    "  subject INTEGER NOT NULL, relation INTEGER NOT NULL, object INTEGER NOT NULL,"
    "  source INTEGER NOT NULL, PRIMARY KEY (subject, relation, object)) WITHOUT ROWID;"
    "CREATE INDEX graph_triples_by_object ON graph_triples (object, relation, subject);"
    "CREATE VIRTUAL TABLE graph_letters USING fts5 (key, content = '', tokenize = 'trigram');"
    "CREATE TABLE graph_files ("
    "  path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,"
    "  at INTEGER NOT NULL, line INTEGER NOT NULL, state TEXT NOT NULL) WITHOUT ROWID;";

static const char named[] = "CREATE TABLE IF NOT EXISTS graph_named ("
                            "  entity INTEGER NOT NULL, source INTEGER NOT NULL,"
                            "  PRIMARY KEY (entity, source)) WITHOUT ROWID;";

sp_err sp_graph_db_prepare(sqlite3 *db, const char *path, const char *sql, sqlite3_stmt **out)
{
    if (sqlite3_prepare_v2(db, sql, -1, out, NULL) == SQLITE_OK) return SP_OK;
    return sp_db_fail(db, path, "graph");
}

static sp_err open_file(const char *path, bool write, sqlite3 **out)
{
    if (!*path) return sp_fail(SP_E_ARG, "the graph has an empty file name");
    return sp_db_open(path, "cannot open the graph", write, out);
}

/* check -- whether the tables are there, in this version. */
static sp_err check(sqlite3 *db, const char *path, bool *there)
{
    int64_t n_tables, version = 0;
    SP_TRY(sp_db_number(db, path, "SELECT count(*) FROM sqlite_schema WHERE name = 'graph_meta'",
                        &n_tables));
    *there = n_tables > 0;
    if (!*there) return SP_OK;
    SP_TRY(sp_db_number(db, path, "SELECT version FROM graph_meta", &version));
    if (version == GRAPH_VERSION) return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s: a graph of version %lld, this program has version %d", path,
                   (long long)version, GRAPH_VERSION);
}

/* create -- all tables in one transaction: the file gets a graph, or stays unchanged. */
static sp_err create(sqlite3 *db, const char *path)
{
    bool empty = false;
    sp_err err = sp_db_check(db, path, false, &empty);
    if (err == SP_OK) err = sp_db_exec(db, path, "BEGIN IMMEDIATE");
    if (err == SP_OK && empty) err = sp_db_clear(db, path);
    if (err == SP_OK) err = sp_db_exec(db, path, schema);
    if (err == SP_OK) err = sp_db_exec(db, path, "COMMIT");
    return err;
}

sp_err sp_graph_db_open(const char *path, bool write, sqlite3 **out)
{
    sqlite3 *db = NULL;
    bool there = false;
    SP_TRY(open_file(path, write, &db));
    sp_err err = check(db, path, &there);
    if (err == SP_OK && !there)
        err = write
                  ? create(db, path)
                  : sp_fail(SP_E_FORMAT, "%s: holds no graph; spolia graph import creates one", path);
    if (err == SP_OK && write) err = sp_db_exec(db, path, named);
    if (err == SP_OK) err = sp_db_exec(db, path, "PRAGMA cache_size = -65536");
    if (err != SP_OK)
        sqlite3_close(db);
    else
        *out = db;
    return err;
}
