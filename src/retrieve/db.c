#include "retrieve/db_int.h"

#include <string.h>

/* The file says what it is (SQLite's header has a field for each): "SPOL", then the schema's
 * version.
 *
 *   options    one row: how the chunks were cut, and when the last build began
 *   files      a document file: what tells whether it changed (time in ns since 1970), chunks it
 * gave chunks     in the order of their documents; `line` places a document in a JSONL file (0: no
 * line); sha256 is over the text alone, so equal texts have equal hashes in any index words the
 * inverted index (FTS5) over chunks, which holds the text; triggers keep both equal
 */
#define APPLICATION_ID 0x53504F4C
#define SCHEMA_VERSION 1

static const char schema[] =
    "PRAGMA application_id = 0x53504F4C;"
    "PRAGMA user_version = 1;"
    "CREATE TABLE options ("
    "  size_words INTEGER NOT NULL, overlap_words INTEGER NOT NULL, built_ns INTEGER NOT NULL);"
    "CREATE TABLE files ("
    "  id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL,"
    "  mtime_ns INTEGER NOT NULL, sha256 BLOB NOT NULL, n_chunks INTEGER NOT NULL);"
    "CREATE TABLE chunks ("
    "  id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES files, line INTEGER NOT NULL,"
    "  title TEXT NOT NULL, text TEXT NOT NULL, n_words INTEGER NOT NULL, sha256 BLOB NOT NULL);"
    "CREATE INDEX chunks_of_file ON chunks (file);"
    "CREATE VIRTUAL TABLE words USING fts5 (title, text, content = 'chunks', content_rowid = 'id',"
    "  tokenize = 'porter unicode61 remove_diacritics 2');";

static const char no_schema[] = "DROP TABLE IF EXISTS words; DROP TABLE IF EXISTS chunks;"
                                "DROP TABLE IF EXISTS files; DROP TABLE IF EXISTS options;";

sp_err sp_db_fail(sqlite3 *db, const char *path, const char *doing)
{
    int rc = db ? sqlite3_errcode(db) : SQLITE_NOMEM, os = db ? sqlite3_system_errno(db) : 0;
    sp_err code = rc == SQLITE_NOMEM                            ? SP_E_NOMEM
                  : rc == SQLITE_CORRUPT || rc == SQLITE_NOTADB ? SP_E_FORMAT
                                                                : SP_E_IO;
    const char *why = db ? sqlite3_errmsg(db) : "out of memory";
    if (rc == SQLITE_BUSY) why = "another program is writing to it";
    bool system_knows = os && (rc == SQLITE_CANTOPEN || rc == SQLITE_IOERR);
    return sp_fail(code, "%s: %s: %s", path, doing, system_knows ? strerror(os) : why);
}

sp_err sp_db_open(const char *path, bool write, sqlite3 **out)
{
    if (!*path) return sp_fail(SP_E_ARG, "the index has an empty file name");
    sqlite3 *db = NULL;
    int flags = write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    if (sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        sp_err err = sp_db_fail(db, path, "cannot open the index");
        sqlite3_close(db);
        return err;
    }
    sqlite3_extended_result_codes(db, 0);
    sqlite3_busy_timeout(db, 5000);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    *out = db;
    return SP_OK;
}

sp_err sp_db_exec(sqlite3 *db, const char *path, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK) return SP_OK;
    return sp_db_fail(db, path,
                      sqlite3_db_readonly(db, "main") == 1 ? "cannot write the index" : "index");
}

sp_err sp_db_prepare(sqlite3 *db, const char *path, const char *sql, sqlite3_stmt **out)
{
    if (sqlite3_prepare_v2(db, sql, -1, out, NULL) == SQLITE_OK) return SP_OK;
    return sp_db_fail(db, path, "index");
}

sp_err sp_db_number(sqlite3 *db, const char *path, const char *sql, int64_t *out)
{
    sqlite3_stmt *s;
    SP_TRY(sp_db_prepare(db, path, sql, &s));
    int rc = sqlite3_step(s);
    int64_t number = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    sp_err err = rc == SQLITE_ROW || rc == SQLITE_DONE ? SP_OK : sp_db_fail(db, path, "index");
    sqlite3_finalize(s);
    if (err == SP_OK) *out = number;
    return err;
}

sp_err sp_db_check(sqlite3 *db, const char *path, bool *empty)
{
    int64_t id, version, n_tables;
    SP_TRY(sp_db_number(db, path, "PRAGMA application_id", &id));
    SP_TRY(sp_db_number(db, path, "PRAGMA user_version", &version));
    SP_TRY(sp_db_number(db, path, "SELECT count(*) FROM sqlite_schema", &n_tables));
    bool blank = id == 0 && version == 0 && n_tables == 0;
    if (!(blank && empty)) {
        if (id != APPLICATION_ID)
            return sp_fail(SP_E_FORMAT, "%s: not an index of documents", path);
        if (version != SCHEMA_VERSION)
            return sp_fail(SP_E_FORMAT, "%s: an index of version %lld, this program has version %d",
                           path, (long long)version, SCHEMA_VERSION);
    }
    if (empty) *empty = blank;
    return SP_OK;
}

sp_err sp_db_clear(sqlite3 *db, const char *path)
{
    SP_TRY(sp_db_exec(db, path, no_schema));
    return sp_db_exec(db, path, schema);
}
