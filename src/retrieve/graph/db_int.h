/* db_int.h -- the tables of a graph in a SQLite file. */
#ifndef SP_RETRIEVE_GRAPH_DB_INT_H
#define SP_RETRIEVE_GRAPH_DB_INT_H

#include "retrieve/db/db.h"

#define SP_GRAPH_NAME_BYTES 4096 /* longest name of an entity, relation or source */

/* What a key is of its entity. */
typedef enum sp_key_kind {
    SP_KEY_NAME,
    SP_KEY_ALIAS,
    SP_KEY_FALLBACK, /* the end of an IRI; dropped once a label is read */
} sp_key_kind;

/* sp_graph_db_open -- for reading: the file must hold a graph of this version. For writing: the
 * file and the tables are created if need be. Errors: SP_E_IO, SP_E_FORMAT. */
sp_err sp_graph_db_open(const char *path, bool write, sqlite3 **out) SP_MUST_CHECK;

sp_err sp_graph_db_prepare(sqlite3 *db, const char *path, const char *sql,
                           sqlite3_stmt **out) SP_MUST_CHECK;

#endif
