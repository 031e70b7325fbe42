#include "retrieve/db/db.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "retrieve/db/db_vfs.h"

/* The file says what it is (SQLite's header has a field for each): "SPOL", then the schema's
 * version.
 *
 *   options  one row: how the chunks were cut
 *   roots    a folder or a file whose documents are here: its absolute path; the label that its
 *            files' names begin with, '' if it is the only root; when its last build began
 *   files    a document file, relative to its root (to its folder, if the root is a file); what
 *            shows whether it changed (time in ns since 1970); its number of chunks
 *   chunks   in the order of their documents; `line` is the document's line in a JSONL file (else
 *            0), first_line, last_line and page its place in any (0: none); sha256 is over the text
 *            alone, so equal texts have equal hashes in any index
 *   words    inverted index (FTS5) over chunks, which holds the text
 *   grams    inverted index over the grams of chunks (grams.c); only chunks that have any
 *   hits     chunks as they are shown
 *
 * embedding and vectors are there when the index has vectors (retrieve/index/embedding.h), tags when files have any
 * (tags.h).
 */
#define APPLICATION_ID 0x53504F4C
#define SCHEMA_VERSION 2

static const char schema[] =
    "PRAGMA application_id = 0x53504F4C;"
    "PRAGMA user_version = 2;"
    "CREATE TABLE options (size_words INTEGER NOT NULL, overlap_words INTEGER NOT NULL);"
    "CREATE TABLE roots ("
    "  id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, label TEXT NOT NULL,"
    "  built_ns INTEGER NOT NULL);"
    "CREATE TABLE files ("
    "  id INTEGER PRIMARY KEY, root INTEGER NOT NULL REFERENCES roots, path TEXT NOT NULL,"
    "  size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, sha256 BLOB NOT NULL,"
    "  n_chunks INTEGER NOT NULL, UNIQUE (root, path));"
    "CREATE TABLE chunks ("
    "  id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES files, line INTEGER NOT NULL,"
    "  first_line INTEGER NOT NULL, last_line INTEGER NOT NULL, page INTEGER NOT NULL,"
    "  title TEXT NOT NULL, text TEXT NOT NULL, n_words INTEGER NOT NULL, sha256 BLOB NOT NULL);"
    "CREATE INDEX chunks_of_file ON chunks (file);"
    "CREATE VIRTUAL TABLE words USING fts5 (title, text, content = 'chunks', content_rowid = 'id',"
    "  tokenize = \"porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'\");"
    "CREATE VIRTUAL TABLE grams USING fts5 (title, text, tokenize = 'porter ascii');"
    "CREATE VIEW hits AS"
    "  SELECT c.id AS id, CASE r.label WHEN '' THEN f.path ELSE r.label || '/' || f.path END"
    "  AS file, c.title AS title, c.text AS text,"
    "  c.first_line AS first_line, c.last_line AS last_line, c.page AS page, r.path AS root,"
    "  c.file AS file_id, c.line AS line, c.sha256 AS sha256"
    "  FROM chunks AS c JOIN files AS f ON f.id = c.file JOIN roots AS r ON r.id = f.root;";

static const char no_schema[] =
    "DROP VIEW IF EXISTS hits; DROP TABLE IF EXISTS grams; DROP TABLE IF EXISTS words;"
    "DROP TABLE IF EXISTS chunks; DROP TABLE IF EXISTS files; DROP TABLE IF EXISTS roots;"
    "DROP TABLE IF EXISTS options; DROP TABLE IF EXISTS embedding; DROP TABLE IF EXISTS vectors;"
    "DROP TABLE IF EXISTS tags;";

sp_err sp_db_fail(sqlite3 *db, const char *path, const char *doing)
{
    int rc = db ? sqlite3_errcode(db) : SQLITE_NOMEM, os = db ? sqlite3_system_errno(db) : 0;
    sp_err code = rc == SQLITE_NOMEM                            ? SP_E_NOMEM
                  : rc == SQLITE_CORRUPT || rc == SQLITE_NOTADB ? SP_E_FORMAT
                                                                : SP_E_IO;
    const char *why = db ? sqlite3_errmsg(db) : "out of memory";
    if (rc == SQLITE_BUSY) why = "another program is writing to it";
    if (db && sqlite3_extended_errcode(db) == SQLITE_READONLY_ROLLBACK)
        why = "a process was killed while it changed this file; reading it as a user who may write to it and to its "
              "folder undoes that";
    bool system_knows = os && (rc == SQLITE_CANTOPEN || rc == SQLITE_IOERR);
    const char *advice = rc == SQLITE_CORRUPT  ? "; delete it and rebuild it with spolia index"
                         : rc == SQLITE_NOTADB ? "; spolia index makes one"
                                               : "";
    return sp_fail(code, "%s: %s: %s%s", path, doing, system_knows ? strerror(os) : why, advice);
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == path) return sp_strdup_n("/", 1);
    return slash ? sp_strdup_n(path, (size_t)(slash - path)) : sp_strdup_n(".", 1);
}

static bool is_in_memory(const char *path)
{
    return strcmp(path, ":memory:") == 0;
}

sp_err sp_db_place(const char *path, sp_db_place_kind *out)
{
    *out = SP_DB_WRITABLE;
    if (is_in_memory(path)) return SP_OK;
    const bool there = access(path, F_OK) == 0;
    char *folder = there ? NULL : folder_of(path);
    if (!there && !folder) return sp_fail_nomem("a folder name");
    const bool fixed = faccessat(AT_FDCWD, there ? path : folder, W_OK, AT_EACCESS) != 0 && errno == EROFS;
    sp_free(folder);
    if (fixed) *out = there ? SP_DB_FIXED : SP_DB_FIXED_AND_NONE;
    return SP_OK;
}

/* check_folder -- whether a new file can be created there: SQLite, which then tries to read it, would
 * only report that it does not exist. */
static sp_err check_folder(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 || errno != ENOENT) return SP_OK;
    char *folder = folder_of(path);
    if (!folder) return sp_fail_nomem("a folder name");
    bool good = faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0;
    sp_err err =
        good ? SP_OK
             : sp_fail(SP_E_IO, "%s: cannot write to folder %s: %s", path, folder, strerror(errno));
    sp_free(folder);
    return err;
}

sp_err sp_db_open(const char *path, const char *doing, bool write, sqlite3 **out)
{
    if (!*path) return sp_fail(SP_E_ARG, "the index has an empty file name");
    sqlite3 *db = NULL;
    /* a reader, too, undoes what a process that was killed had begun to change, if it may; it changes nothing else */
    int flags = write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READWRITE;
    if (write && !is_in_memory(path)) SP_TRY(check_folder(path));
    if (sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_NOMUTEX, sp_db_vfs()) != SQLITE_OK) {
        sp_err err = sp_db_fail(db, path, doing);
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

sp_err sp_db_check(sqlite3 *db, const char *path, bool replace, bool *empty)
{
    int64_t id, version, n_tables;
    SP_TRY(sp_db_number(db, path, "PRAGMA application_id", &id));
    SP_TRY(sp_db_number(db, path, "PRAGMA user_version", &version));
    SP_TRY(sp_db_number(db, path, "SELECT count(*) FROM sqlite_schema", &n_tables));
    bool blank = id == 0 && version == 0 && n_tables == 0;
    if (!(blank && empty)) {
        if (id != APPLICATION_ID)
            return sp_fail(SP_E_FORMAT, "%s: not an index of documents; spolia index creates one",
                           path);
        if (version != SCHEMA_VERSION && !replace)
            return sp_fail(SP_E_FORMAT,
                           "%s: an index of version %lld, this program reads version %d; rebuild "
                           "it with spolia index FOLDER -o FILE --replace",
                           path, (long long)version, SCHEMA_VERSION);
    }
    if (empty) *empty = blank || version != SCHEMA_VERSION;
    return SP_OK;
}

sp_err sp_db_clear(sqlite3 *db, const char *path)
{
    SP_TRY(sp_db_exec(db, path, no_schema));
    return sp_db_exec(db, path, schema);
}
