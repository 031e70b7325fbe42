/* gaps.h -- a SQLite file keeps nothing between the cells of its pages. */
#ifndef SP_RETRIEVE_DB_GAPS_H
#define SP_RETRIEVE_DB_GAPS_H

#include <sqlite3.h>

#include "base/err.h"

typedef struct sp_gaps {
    sqlite3_io_methods methods; /* first: the file's, but for writing */
    const sqlite3_io_methods *file;
    unsigned char *page; /* a page as it is written */
    int page_bytes;
} sp_gaps;

/* sp_gaps_begin -- from now on bytes of a page that belong to nothing are zero in the file. For a connection that has
 * read nothing yet; g must outlive it. Does nothing for a database in memory. Errors: SP_E_NOMEM, SP_E_IO. */
sp_err sp_gaps_begin(sp_gaps *g, sqlite3 *db, const char *path) SP_MUST_CHECK;
/* After the connection is closed. */
void sp_gaps_end(sp_gaps *g);

#endif
