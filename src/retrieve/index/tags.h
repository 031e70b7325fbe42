/* tags.h -- tags of an index's files: what the file `.tags` of a folder says of the files in it.
 *
 *   # a comment
 *   guide.pdf: 2024, draft
 *   old/manuals: 2019         a folder: all files in it
 *   .: manual                 all files
 *
 * They are in table tags, which only an index with tags has: root, path (relative, without a slash at its end; "" for
 * all files), tag. A build reads the `.tags` of each root that it brings up to date. */
#ifndef SP_RETRIEVE_INDEX_TAGS_H
#define SP_RETRIEVE_INDEX_TAGS_H

#include "retrieve/index/build_int.h"
#include "retrieve/index/pick.h"

/* In SQL: whether row t of tags is about row f of files. */
#define SP_TAGS_FILE                                                                                                  \
    "(t.root = f.root AND (t.path = '' OR t.path = f.path OR substr(f.path, 1, length(t.path) + 1) = t.path || '/'))"

/* sp_tags_update -- reads the tags of b->root. A bad line is skipped and counted; with `strict` it is an error.
 * Errors: SP_E_IO, SP_E_LIMIT (over 1 MiB), SP_E_FORMAT. */
sp_err sp_tags_update(sp_builder *b) SP_MUST_CHECK;
/* sp_tags_forget -- deletes the tags of a root. */
sp_err sp_tags_forget(sp_builder *b, int64_t root) SP_MUST_CHECK;
/* sp_tags_allowed -- adds the ids of the chunks of files with one of n tags, in any order, possibly repeated. */
sp_err sp_tags_allowed(sp_index *ix, const char *const *tags, int n, sp_ids *out) SP_MUST_CHECK;
/* sp_tags_has -- whether the index has that table. */
sp_err sp_tags_has(sqlite3 *db, const char *path, bool *out) SP_MUST_CHECK;

#endif
