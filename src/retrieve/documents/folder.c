#include "retrieve/documents/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/dict.h"
#include "base/log.h"
#include "retrieve/documents/documents.h"
#include "retrieve/text/text.h"

/* join -- "a/b", or b alone when a is empty. */
static const char *join(sp_arena *arena, const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b) + 1;
    char *path = sp_arena_take(arena, n + 1 + m, 1);
    if (!path) return NULL;
    snprintf(path, n + 1 + m, "%s%s%s", a, n ? "/" : "", b);
    return path;
}

typedef SP_VEC(const char *) names;

typedef struct walk {
    const char *root;
    sp_folder *out;
    names folders; /* found, not yet read; relative to root */
    names links;   /* to folders */
    sp_dict seen;  /* folders by device and inode */
} walk;

/* -- files without a reader ------------------------------------------------------------------- */

static void suffix_of(const char *name, char out[16])
{
    const char *dot = strrchr(name, '.');
    size_t n = dot && dot != name ? strlen(dot) : 0;
    memset(out, 0, 16);
    if (n < 2 || n > 15) return;
    for (size_t i = 0; i < n; i++)
        out[i] = dot[i] >= 'A' && dot[i] <= 'Z' ? (char)(dot[i] | 0x20) : dot[i];
    if (!sp_utf8_valid(out, n)) memset(out, 0, 16);
}

sp_err sp_folder_add_suffix(sp_folder *f, const char *suffix, int64_t n)
{
    sp_suffix s = {.n = n};
    snprintf(s.name, sizeof s.name, "%s", suffix);
    for (size_t i = 0; i < f->other.n; i++) {
        if (strcmp(f->other.v[i].name, s.name) != 0) continue;
        f->other.v[i].n += n;
        return SP_OK;
    }
    if (f->other.n > 1000) s.name[0] = '\0'; /* names that are all suffix */
    SP_TRY(sp_vec_reserve(&f->other, 1));
    f->other.v[f->other.n++] = s;
    return SP_OK;
}

sp_err sp_folder_add_other(sp_folder *f, const char *name)
{
    char suffix[sizeof f->other.v->name];
    suffix_of(name, suffix);
    return sp_folder_add_suffix(f, suffix, 1);
}

/* -- the walk --------------------------------------------------------------------------------- */

static sp_err push(names *list, const char *path)
{
    SP_TRY(sp_vec_reserve(list, 1));
    list->v[list->n++] = path;
    return SP_OK;
}

static sp_err skip(walk *w, const char *full, const char *why)
{
    sp_log(SP_LOG_WARN, "skipped: %s: %s", full, why);
    w->out->n_skipped++;
    return SP_OK;
}

static sp_err add_entry(walk *w, const char *folder, const char *name)
{
    if (name[0] == '.') return SP_OK;
    const char *path = join(&w->out->names, folder, name);
    const char *full = path ? join(&w->out->names, w->root, path) : NULL;
    if (!full) return sp_fail_nomem("a file name");
    struct stat st;
    bool known = lstat(full, &st) == 0;
    bool link = known && S_ISLNK(st.st_mode);
    if (link) known = stat(full, &st) == 0;
    bool is_folder = known && S_ISDIR(st.st_mode);
    bool document = !is_folder && sp_document_format(name) != SP_DOC_NONE;
    if (!is_folder && !document)
        return known && S_ISREG(st.st_mode) ? sp_folder_add_other(w->out, name) : SP_OK;
    if (!sp_utf8_valid(path, strlen(path))) return skip(w, full, "the name is not UTF-8");
    if (is_folder) return push(link ? &w->links : &w->folders, path);
    SP_TRY(sp_vec_reserve(&w->out->files, 1));
    w->out->files.v[w->out->files.n++] = path;
    return SP_OK;
}

/* is_new -- whether the open folder has not been read yet; it then counts as read. */
static sp_err is_new(walk *w, DIR *d, bool *fresh)
{
    struct stat st;
    *fresh = false;
    if (fstat(dirfd(d), &st) != 0) return SP_OK;
    uint64_t *key = sp_arena_take(&w->out->names, 2, sizeof *key);
    if (!key) return sp_fail_nomem("a folder");
    key[0] = (uint64_t)st.st_dev;
    key[1] = (uint64_t)st.st_ino;
    if (sp_dict_get(&w->seen, key, 2 * sizeof *key) != SP_DICT_NONE) return SP_OK;
    *fresh = true;
    return sp_dict_put(&w->seen, key, 2 * sizeof *key, 1);
}

static sp_err read_folder(walk *w, const char *folder)
{
    const char *full = join(&w->out->names, w->root, folder);
    if (!full) return sp_fail_nomem("a folder name");
    DIR *d = opendir(full);
    if (!d && *folder == '\0') return sp_fail(SP_E_IO, "%s: %s", w->root, strerror(errno));
    if (!d) return skip(w, full, strerror(errno));
    bool fresh = false;
    sp_err err = is_new(w, d, &fresh);
    for (struct dirent *e; err == SP_OK && fresh && (e = readdir(d));)
        err = add_entry(w, folder, e->d_name);
    closedir(d);
    return err;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* take_link -- once all else is read: the first link by name is the next folder. */
static sp_err take_link(walk *w)
{
    if (!w->links.n) return SP_OK;
    size_t first = 0;
    for (size_t i = 1; i < w->links.n; i++)
        if (strcmp(w->links.v[i], w->links.v[first]) < 0) first = i;
    const char *path = w->links.v[first];
    w->links.v[first] = w->links.v[--w->links.n];
    return push(&w->folders, path);
}

sp_err sp_folder_list(const char *dir, sp_folder *out)
{
    sp_folder found = {0};
    walk w = {.root = dir, .out = &found};
    SP_TRY(sp_dict_init(&w.seen, 16));
    sp_err err = push(&w.folders, "");
    while (err == SP_OK && w.folders.n) {
        err = read_folder(&w, w.folders.v[--w.folders.n]);
        if (err == SP_OK && !w.folders.n) err = take_link(&w);
    }
    sp_vec_fini(&w.folders);
    sp_vec_fini(&w.links);
    sp_dict_fini(&w.seen);
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
    sp_vec_fini(&f->other);
    sp_arena_fini(&f->names);
}
