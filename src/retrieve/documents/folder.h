/* folder.h -- the document files below a folder. */
#ifndef SP_RETRIEVE_DOCUMENTS_FOLDER_H
#define SP_RETRIEVE_DOCUMENTS_FOLDER_H

#include "base/mem.h"

typedef struct sp_suffix {
    char name[16]; /* with its dot, in lower case; "" for none or a long one */
    int64_t n;
} sp_suffix;

typedef struct sp_folder {
    SP_VEC(const char *) files; /* relative to the folder, in the order of strcmp */
    int64_t n_skipped;          /* folders that cannot be read, names that are not UTF-8 */
    SP_VEC(sp_suffix) other;    /* files in formats that have no reader */
    sp_arena names;
} sp_folder;

/* sp_folder_list -- every entry whose name is that of a document, links included, whether it can be
 * read or not. Names that start with a dot are skipped. Each folder is read once, however it is
 * reached; links to folders come last, so that a loop ends.
 * Errors: SP_E_IO when `dir` itself cannot be read; SP_E_NOMEM. Owns: sp_folder_fini. */
sp_err sp_folder_list(const char *dir, sp_folder *out) SP_MUST_CHECK;
/* sp_folder_add_other -- counts a file that has no reader; sp_folder_add_suffix, n of them. */
sp_err sp_folder_add_other(sp_folder *f, const char *name) SP_MUST_CHECK;
sp_err sp_folder_add_suffix(sp_folder *f, const char *suffix, int64_t n) SP_MUST_CHECK;
void sp_folder_fini(sp_folder *f);

#endif
