#include "retrieve/folder_int.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "retrieve/documents_int.h"
#include "retrieve/text_int.h"

/* join -- "a/b", or b alone when a is empty. */
static const char *join(sp_arena *arena, const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b) + 1;
    char *path = sp_arena_take(arena, n + 1 + m, 1);
    if (!path) return NULL;
    snprintf(path, n + 1 + m, "%s%s%s", a, n ? "/" : "", b);
    return path;
}

typedef struct walk {
    const char *root;
    sp_folder *out;
    SP_VEC(const char *) folders; /* found, not yet read; relative to root */
} walk;

static sp_err add_entry(walk *w, const char *folder, const char *name)
{
    if (name[0] == '.') return SP_OK;
    const char *path = join(&w->out->names, folder, name);
    const char *full = path ? join(&w->out->names, w->root, path) : NULL;
    if (!full) return sp_fail_nomem(strlen(folder) + strlen(name), "a file name");
    struct stat st;
    if (lstat(full, &st) == 0 && S_ISDIR(st.st_mode)) {
        SP_TRY(sp_vec_reserve(&w->folders, 1));
        w->folders.v[w->folders.n++] = path;
    } else if (sp_document_format(name) != SP_DOC_NONE) {
        if (!sp_utf8_valid(path, strlen(path))) {
            sp_log(SP_LOG_WARN, "skipped: %s: the name is not UTF-8", full);
            w->out->n_skipped++;
            return SP_OK;
        }
        SP_TRY(sp_vec_reserve(&w->out->files, 1));
        w->out->files.v[w->out->files.n++] = path;
    }
    return SP_OK;
}

static sp_err read_folder(walk *w, const char *folder)
{
    const char *full = join(&w->out->names, w->root, folder);
    if (!full) return sp_fail_nomem(strlen(folder), "a folder name");
    DIR *d = opendir(full);
    if (!d && *folder == '\0') return sp_fail(SP_E_IO, "%s: %s", w->root, strerror(errno));
    if (!d) {
        sp_log(SP_LOG_WARN, "skipped: %s: %s", full, strerror(errno));
        w->out->n_skipped++;
        return SP_OK;
    }
    sp_err err = SP_OK;
    for (struct dirent *e; err == SP_OK && (e = readdir(d));) err = add_entry(w, folder, e->d_name);
    closedir(d);
    return err;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

sp_err sp_folder_list(const char *dir, sp_folder *out)
{
    sp_folder found = {0};
    walk w = {.root = dir, .out = &found};
    sp_err err = read_folder(&w, "");
    while (err == SP_OK && w.folders.n) err = read_folder(&w, w.folders.v[--w.folders.n]);
    sp_vec_fini(&w.folders);
    if (err != SP_OK) {
        sp_folder_fini(&found);
        return err;
    }
    if (found.files.n) qsort(found.files.v, found.files.n, sizeof *found.files.v, by_name);
    *out = found;
    return SP_OK;
}

void sp_folder_fini(sp_folder *f)
{
    sp_vec_fini(&f->files);
    sp_arena_fini(&f->names);
}
