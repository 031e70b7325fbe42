/* db.h -- the index as a SQLite file: its schema, and SQLite's errors as sp_err. */
#ifndef SP_RETRIEVE_DB_DB_H
#define SP_RETRIEVE_DB_DB_H

#include <sqlite3.h>

#include "base/err.h"

/* sp_db_fail -- the error of the last call on db: "PATH: DOING: why". The code is SP_E_NOMEM,
 * SP_E_FORMAT for a file that is damaged or no database, or else SP_E_IO. */
sp_err sp_db_fail(sqlite3 *db, const char *path, const char *doing);

/* sp_db_place -- whether the file system of a path is mounted read-only and, if so, whether the file exists. */
typedef enum sp_db_place_kind { SP_DB_WRITABLE, SP_DB_FIXED, SP_DB_FIXED_AND_NONE } sp_db_place_kind;
sp_err sp_db_place(const char *path, sp_db_place_kind *out) SP_MUST_CHECK;

/* sp_db_open -- opens a connection that distrusts the file (no functions or tables that its schema names beyond the
 * harmless ones). Does not check its content. write: creates the file, and may change it. doing: names the attempt in
 * errors. */
sp_err sp_db_open(const char *path, const char *doing, bool write, sqlite3 **out) SP_MUST_CHECK;

/* sp_db_check -- checks that the file is an index of this version. `empty` (may be NULL) is set for an empty
 * database, which may become an index, and with `replace` for an index of another version; otherwise these are
 * errors. Errors: SP_E_FORMAT, SP_E_IO. */
sp_err sp_db_check(sqlite3 *db, const char *path, bool replace, bool *empty) SP_MUST_CHECK;

/* sp_db_clear -- drops and recreates all tables; inside a transaction of the caller. */
sp_err sp_db_clear(sqlite3 *db, const char *path) SP_MUST_CHECK;

sp_err sp_db_exec(sqlite3 *db, const char *path, const char *sql) SP_MUST_CHECK;
sp_err sp_db_prepare(sqlite3 *db, const char *path, const char *sql,
                     sqlite3_stmt **out) SP_MUST_CHECK;
/* sp_db_number -- the first column of the first row of a query; 0 when there is no row. */
sp_err sp_db_number(sqlite3 *db, const char *path, const char *sql, int64_t *out) SP_MUST_CHECK;

#endif
