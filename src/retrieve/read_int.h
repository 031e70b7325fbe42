/* read_int.h -- an open index, and hits from any query over it. */
#ifndef SP_RETRIEVE_READ_INT_H
#define SP_RETRIEVE_READ_INT_H

#include "base/mem.h"
#include "retrieve/db_int.h"

struct sp_index {
    sqlite3 *db;
    char *path;
    int64_t n_chunks;
};

/* sp_hits_take -- runs a statement to its end; its columns are id, score, file, title, text. */
sp_err sp_hits_take(sp_index *ix, sqlite3_stmt *s, sp_hits *out) SP_MUST_CHECK;

/* sp_index_expression -- a question in plain words as an expression of FTS5, NUL-terminated; `""`
 * when there is no word in it. */
sp_err sp_index_expression(const char *question, sp_bytes *out) SP_MUST_CHECK;

#endif
