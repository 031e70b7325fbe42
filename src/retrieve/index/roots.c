/* roots.c -- the folders and files of an index. The index remembers them: a build updates those it
 * names and leaves the others alone, so naming another folder by mistake costs nothing. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "retrieve/index/build_int.h"
#include "retrieve/index/tags.h"
#include "retrieve/text/text.h"

static sp_err copy(sp_builder *b, const char *s, size_t n, const char **out)
{
    char *text = sp_arena_take(&b->names, n + 1, 1);
    if (!text) return sp_fail_nomem("a folder name");
    memcpy(text, s, n);
    *out = text;
    return SP_OK;
}

/* find_folder -- what r->path is. */
static sp_err find_folder(sp_builder *b, sp_root *r)
{
    struct stat st;
    r->is_file = stat(r->path, &st) == 0 && !S_ISDIR(st.st_mode);
    r->folder = r->path;
    if (!r->is_file) return SP_OK;
    const char *slash = strrchr(r->path, '/');
    size_t n = slash > r->path ? (size_t)(slash - r->path) : 1;
    return copy(b, r->path, n, &r->folder);
}

static sp_err add_root(sp_builder *b, sp_root r)
{
    r.label = "";
    SP_TRY(find_folder(b, &r));
    SP_TRY(sp_vec_reserve(&b->roots, 1));
    b->roots.v[b->roots.n++] = r;
    return SP_OK;
}

/* -- as the index has them -------------------------------------------------------------------- */

static sp_err load_root(sp_builder *b, sqlite3_stmt *s)
{
    const char *path = (const char *)sqlite3_column_text(s, 1);
    sp_root r = {.id = sqlite3_column_int64(s, 0), .built_ns = sqlite3_column_int64(s, 2)};
    if (!path) return sp_fail(SP_E_FORMAT, "%s: index: a damaged row in table roots", b->path);
    SP_TRY(copy(b, path, strlen(path), &r.path));
    return add_root(b, r);
}

sp_err sp_roots_load(sp_builder *b)
{
    sqlite3_stmt *s;
    SP_TRY(sp_db_prepare(b->db, b->path, "SELECT id, path, built_ns FROM roots ORDER BY id", &s));
    sp_err err = SP_OK;
    int rc = SQLITE_DONE;
    while (err == SP_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) err = load_root(b, s);
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(b->db, b->path, "index");
    sqlite3_finalize(s);
    return err;
}

/* -- as they are named ------------------------------------------------------------------------ */

static sp_root *find(sp_builder *b, const char *path)
{
    for (size_t i = 0; i < b->roots.n; i++)
        if (strcmp(b->roots.v[i].path, path) == 0) return &b->roots.v[i];
    return NULL;
}

static bool is_gone(const sp_root *r)
{
    struct stat st;
    return stat(r->path, &st) != 0 && errno == ENOENT;
}

/* find_moved -- the root whose documents are now at `path`: the only one; else the only one that is gone;
 * else the only one that is gone and had the name that `path` ends with. */
static sp_root *find_moved(sp_builder *b, const char *path)
{
    sp_root *gone[2] = {NULL, NULL};
    int n[2] = {0, 0};
    const char *name = strrchr(path, '/');
    if (b->roots.n == 1) return &b->roots.v[0];
    for (size_t i = 0; i < b->roots.n; i++) {
        sp_root *r = &b->roots.v[i];
        if (r->wanted || !is_gone(r)) continue;
        const char *old = strrchr(r->path, '/');
        gone[0] = r;
        n[0]++;
        if (!name || !old || strcmp(name, old) != 0) continue;
        gone[1] = r;
        n[1]++;
    }
    return n[0] == 1 ? gone[0] : n[1] == 1 ? gone[1] : NULL;
}

static sp_err move_root(sp_builder *b, const char *path)
{
    sp_root *r = find_moved(b, path);
    if (!r || r->wanted)
        return sp_fail(SP_E_ARG, "%s: cannot tell which of its folders moved to %s; move them one by one",
                       b->path, path);
    if (!sp_utf8_valid(path, strlen(path)))
        return sp_fail(SP_E_ARG, "%s: the name is not UTF-8", path);
    sp_log(SP_LOG_INFO, "%s: %s has moved to %s", b->path, r->path, path);
    SP_TRY(copy(b, path, strlen(path), &r->path));
    r->wanted = true;
    return find_folder(b, r);
}

static sp_err name_root(sp_builder *b, const char *name, bool leave)
{
    char *path = realpath(name, NULL);
    if (!path) return sp_fail(SP_E_IO, "%s: %s", name, strerror(errno));
    sp_root *known = find(b, path);
    sp_root r = {.wanted = true};
    sp_err err = SP_OK;
    if (known)
        known->wanted = true;
    else if (b->o.moved)
        err = move_root(b, path);
    else if (!leave)
        err = sp_fail(SP_E_ARG,
                      "%s: holds the documents of %s, not of %s: --add adds this folder, --replace "
                      "keeps only it, --moved says that it is the same folder in a new place",
                      b->path, b->roots.v[0].path, path);
    else if (!sp_utf8_valid(path, strlen(path)))
        err = sp_fail(SP_E_ARG, "%s: the name is not UTF-8", path);
    else if ((err = copy(b, path, strlen(path), &r.path)) == SP_OK)
        err = add_root(b, r);
    free(path);
    return err;
}

/* is_inside -- whether path a is in folder b. */
static bool is_inside(const char *a, const char *b)
{
    size_t n = strlen(b);
    if (n == 1) return true; /* the root folder */
    return strncmp(a, b, n) == 0 && a[n] == '/';
}

static sp_err check_nesting(const sp_builder *b)
{
    for (size_t i = 0; i < b->roots.n; i++)
        for (size_t j = 0; j < b->roots.n; j++) {
            const char *inner = b->roots.v[i].path, *outer = b->roots.v[j].path;
            if (i != j && is_inside(inner, outer))
                return sp_fail(SP_E_ARG, "%s is inside %s: its documents would be indexed twice",
                               inner, outer);
        }
    return SP_OK;
}

sp_err sp_roots_name(sp_builder *b, const char *const *named, int n)
{
    bool leave = b->roots.n == 0 || b->o.add || b->o.replace;
    if (b->o.moved && (n == 0 || b->roots.n == 0 || b->o.add || b->o.replace))
        return sp_fail(
            SP_E_ARG,
            "%s: --moved takes the new place of a folder of an existing index, and "
            "excludes --add and --replace",
            b->path);
    if (n == 0 && b->roots.n == 0)
        return sp_fail(SP_E_ARG, "%s: name the folder to index", b->path);
    for (size_t i = 0; i < b->roots.n; i++) b->roots.v[i].wanted = n == 0;
    for (int i = 0; i < n; i++) SP_TRY(name_root(b, named[i], leave));
    for (size_t i = b->roots.n; b->o.replace && i-- > 0;)
        if (!b->roots.v[i].wanted) SP_TRY(sp_roots_drop(b, i));
    return check_nesting(b);
}

/* -- files ------------------------------------------------------------------------------------ */

/* list_file -- a root that is a file; one whose format has no reader is counted as such. */
static sp_err list_file(sp_root *r)
{
    const char *name = strrchr(r->path, '/') + 1;
    if (sp_document_format(name) == SP_DOC_NONE) return sp_folder_add_other(&r->files, name);
    SP_TRY(sp_vec_reserve(&r->files.files, 1));
    r->files.files.v[r->files.files.n++] = name;
    return SP_OK;
}

static int by_count(const void *a, const void *b)
{
    const sp_suffix *x = a, *y = b;
    int order = (y->n > x->n) - (y->n < x->n);
    return order ? order : strcmp(x->name, y->name);
}

/* count_others -- the files without a reader of all wanted roots, by suffix. */
static sp_err count_others(sp_builder *b)
{
    sp_folder all = {0};
    sp_err err = SP_OK;
    for (size_t i = 0; i < b->roots.n; i++) {
        const sp_folder *f = &b->roots.v[i].files;
        for (size_t j = 0; j < f->other.n && err == SP_OK; j++) {
            b->stats->n_other += f->other.v[j].n;
            err = sp_folder_add_suffix(&all, f->other.v[j].name, f->other.v[j].n);
        }
    }
    if (all.other.n) qsort(all.other.v, all.other.n, sizeof *all.other.v, by_count);
    for (size_t i = 0; i < SP_MIN(all.other.n, (size_t)SP_INDEX_SUFFIXES) && err == SP_OK; i++) {
        memcpy(b->stats->other[i].suffix, all.other.v[i].name, sizeof all.other.v[i].name);
        b->stats->other[i].n = all.other.v[i].n;
    }
    sp_folder_fini(&all);
    return err;
}

sp_err sp_roots_list(sp_builder *b)
{
    for (size_t i = 0; i < b->roots.n; i++) {
        sp_root *r = &b->roots.v[i];
        if (!r->wanted) continue;
        SP_TRY(r->is_file ? list_file(r) : sp_folder_list(r->path, &r->files));
        b->stats->n_skipped += r->files.n_skipped;
        b->n_total += (int64_t)r->files.files.n;
    }
    return count_others(b);
}

/* -- back to the index ------------------------------------------------------------------------ */

/* set_label -- with several roots, the last part of a folder's path; "-2" and so on makes it the
 * only one of its name. */
static sp_err set_label(sp_builder *b, size_t i)
{
    sp_root *r = &b->roots.v[i];
    const char *slash = strrchr(r->folder, '/'), *name = slash && slash[1] ? slash + 1 : "root";
    char label[NAME_MAX + 16];
    r->label = "";
    if (b->roots.n < 2) return SP_OK;
    snprintf(label, sizeof label, "%s", name);
    bool taken = true;
    for (int n = 2; taken; n++) {
        taken = false;
        for (size_t j = 0; j < i; j++) taken |= strcmp(b->roots.v[j].label, label) == 0;
        if (taken) snprintf(label, sizeof label, "%s-%d", name, n);
    }
    return copy(b, label, strlen(label), &r->label);
}

static sp_err save_root(sp_builder *b, sqlite3_stmt *s, sp_root *r)
{
    if (r->id)
        sqlite3_bind_int64(s, 1, r->id);
    else
        sqlite3_bind_null(s, 1);
    sqlite3_bind_text(s, 2, r->path, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 3, r->label, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 4, r->built_ns);
    bool done = sqlite3_step(s) == SQLITE_DONE;
    if (!r->id) r->id = sqlite3_last_insert_rowid(b->db);
    sqlite3_reset(s);
    return done ? SP_OK : sp_db_fail(b->db, b->path, "cannot write the index");
}

sp_err sp_roots_save(sp_builder *b)
{
    sqlite3_stmt *s;
    SP_TRY(sp_db_exec(b->db, b->path, "DELETE FROM roots"));
    SP_TRY(sp_db_prepare(b->db, b->path,
                         "INSERT INTO roots (id, path, label, built_ns) VALUES (?, ?, ?, ?)", &s));
    sp_err err = SP_OK;
    for (size_t i = 0; i < b->roots.n && err == SP_OK; i++) {
        err = set_label(b, i);
        if (err == SP_OK) err = save_root(b, s, &b->roots.v[i]);
    }
    sqlite3_finalize(s);
    return err;
}

sp_err sp_roots_drop(sp_builder *b, size_t i)
{
    const sp_root *r = &b->roots.v[i];
    sqlite3_stmt *s = NULL;
    int64_t n_files = 0;
    sp_err err = SP_OK;
    if (r->id) err = sp_db_prepare(b->db, b->path, "SELECT id FROM files WHERE root = ?", &s);
    if (err == SP_OK && s) {
        SP_VEC(int64_t) ids = {0};
        sqlite3_bind_int64(s, 1, r->id);
        int rc = SQLITE_DONE;
        while (err == SP_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
            err = sp_vec_reserve(&ids, 1);
            if (err == SP_OK) ids.v[ids.n++] = sqlite3_column_int64(s, 0);
        }
        if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(b->db, b->path, "index");
        sqlite3_reset(s);
        for (size_t j = 0; j < ids.n && err == SP_OK; j++, n_files++)
            err = sp_rows_remove_file(b, ids.v[j]);
        sp_vec_fini(&ids);
    }
    sqlite3_finalize(s);
    if (err == SP_OK) err = sp_tags_forget(b, r->id);
    if (err != SP_OK) return err;
    b->stats->n_removed += n_files;
    memmove(b->roots.v + i, b->roots.v + i + 1, (b->roots.n - i - 1) * sizeof *b->roots.v);
    b->roots.n--;
    return SP_OK;
}

void sp_roots_fini(sp_builder *b)
{
    for (size_t i = 0; i < b->roots.n; i++) sp_folder_fini(&b->roots.v[i].files);
    sp_vec_fini(&b->roots);
    sp_arena_fini(&b->names);
}
