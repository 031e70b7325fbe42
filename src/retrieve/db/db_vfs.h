/* db_vfs.h -- the file access of SQLite that all connections of retrieve/ have. */
#ifndef SP_RETRIEVE_DB_DB_VFS_H
#define SP_RETRIEVE_DB_DB_VFS_H

#include <sqlite3.h>
#include <stdbool.h>

/* sp_db_vfs -- the name for sqlite3_open_v2. NULL: SQLite could not begin, and has none. Thread: any. */
const char *sp_db_vfs(void);

#endif
