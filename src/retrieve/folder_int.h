/* folder_int.h -- the document files below a folder. */
#ifndef SP_RETRIEVE_FOLDER_INT_H
#define SP_RETRIEVE_FOLDER_INT_H

#include "base/mem.h"

typedef struct sp_folder {
    SP_VEC(const char *) files; /* relative to the folder, in the order of strcmp */
    int64_t n_skipped;          /* folders that cannot be read, names that are not UTF-8 */
    sp_arena names;
} sp_folder;

/* sp_folder_list -- every entry with the suffix of a document, links included, whether it can be
 * read or not. Names that start with a period and folders behind links are left out. Errors:
 * SP_E_IO when `dir` itself cannot be read; SP_E_NOMEM. Owns: sp_folder_fini. */
sp_err sp_folder_list(const char *dir, sp_folder *out) SP_MUST_CHECK;
void sp_folder_fini(sp_folder *f);

#endif
