/* build_int.h -- an index being built: index.c reads the files of its roots (roots.c) and writes their chunks
 * (rows.c). */
#ifndef SP_RETRIEVE_INDEX_BUILD_INT_H
#define SP_RETRIEVE_INDEX_BUILD_INT_H

#include "base/hash.h"
#include "retrieve/db/db.h"
#include "retrieve/documents/documents.h"
#include "retrieve/documents/folder.h"
#include "spolia.h"

/* A file in the index. */
typedef struct sp_known_file {
    int64_t id, size, mtime_ns, n_chunks;
    sp_digest sha256;
    const char *path;
} sp_known_file;

/* A folder or a file whose documents are in the index. */
typedef struct sp_root {
    int64_t id;         /* 0: not in the index yet */
    const char *path;   /* absolute, without links */
    const char *folder; /* what the names of its files are relative to */
    const char *label;
    bool is_file, wanted; /* wanted: this build brings it up to date */
    int64_t built_ns;     /* when its last build began */
    sp_folder files;      /* found there; of a wanted root */
} sp_root;

typedef enum sp_statement {
    SP_ADD_FILE,
    SP_SET_TIME,
    SP_SET_CHUNKS,
    SP_REMOVE_FILE,
    SP_REMOVE_CHUNKS,
    SP_REMOVE_WORDS,
    SP_REMOVE_GRAMS,
    SP_ADD_CHUNK,
    SP_ADD_WORDS,
    SP_ADD_GRAMS,
    SP_N_STATEMENTS
} sp_statement;

typedef struct sp_builder {
    const char *path; /* of the index */
    sp_index_opts o;
    sp_chunk_opts cut;
    sp_index_stats *stats;
    sqlite3 *db;
    sqlite3_stmt *run[SP_N_STATEMENTS];
    SP_VEC(sp_root) roots;
    sp_arena names;
    int64_t n_done, n_total; /* files */

    const sp_root *root;         /* being read */
    SP_VEC(sp_known_file) known; /* of root, sorted by path */
    const char *file;            /* being read, relative to root->folder */
    int64_t file_id;
    const sp_document *document; /* being chunked */
    size_t line_at;              /* an offset in its text, and */
    int64_t line;                /* its line */
    sp_bytes full, content, title, grams[2];
} sp_builder;

/* -- roots.c ---------------------------------------------------------------------------------- */

/* sp_roots_load -- reads b->roots from the index. */
sp_err sp_roots_load(sp_builder *b) SP_MUST_CHECK;
/* sp_roots_name -- marks the named roots as wanted (n 0: all of them) and applies b->o: adds new roots, moves one, or
 * drops those that are not named. Errors: SP_E_ARG (a new root without `add`, `replace` or `moved`; one inside
 * another), SP_E_IO (a root that does not exist). */
sp_err sp_roots_name(sp_builder *b, const char *const *named, int n) SP_MUST_CHECK;
/* sp_roots_list -- lists the files of the wanted roots. */
sp_err sp_roots_list(sp_builder *b) SP_MUST_CHECK;
/* sp_roots_save -- writes the current list; new roots get their ids. */
sp_err sp_roots_save(sp_builder *b) SP_MUST_CHECK;
/* sp_roots_drop -- removes a root from the list and from the index. */
sp_err sp_roots_drop(sp_builder *b, size_t i) SP_MUST_CHECK;
void sp_roots_fini(sp_builder *b);

/* -- rows.c ----------------------------------------------------------------------------------- */

sp_err sp_rows_prepare(sp_builder *b) SP_MUST_CHECK;
/* sp_rows_run -- runs a statement with at most two parameters. */
sp_err sp_rows_run(sp_builder *b, sp_statement which, int64_t first, int64_t second) SP_MUST_CHECK;
sp_err sp_rows_add_file(sp_builder *b, const sp_known_file *f) SP_MUST_CHECK;
sp_err sp_rows_remove_file(sp_builder *b, int64_t id) SP_MUST_CHECK;
/* sp_rows_add_document -- adds its chunks; an sp_document_fn whose user is the builder. */
sp_err sp_rows_add_document(const sp_document *d, void *user) SP_MUST_CHECK;
void sp_rows_fini(sp_builder *b);

/* sp_build_report -- calls the progress function. Errors: SP_E_CANCELED. */
sp_err sp_build_report(sp_builder *b) SP_MUST_CHECK;

#endif
