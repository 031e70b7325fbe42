/* gguf_split.c -- models in several files, as llama.cpp's gguf-split writes them:
 *
 *   NAME-00001-of-00003.gguf   all metadata, and tensors or none
 *   NAME-00002-of-00003.gguf   tensors; its metadata is about the split alone
 *
 *   split.no             number of the file, from 0
 *   split.count          number of files
 *   split.tensors.count  number of tensors in all files
 */
#include <stdio.h>
#include <string.h>

#include "model/gguf.h"

enum {
    MAX_PARTS = 9999,
    END_BYTES = sizeof "-00001-of-00003.gguf" - 1,
};

/* read_count -- a whole number of the metadata from 0 to max; -1: the key is absent. */
static sp_err read_count(const sp_gguf *g, const char *key, int max, int *out)
{
    const sp_gguf_entry *e = sp_gguf_find(g, key);
    double x = -1;
    if (e && (!sp_gguf_number(e, 0, &x) || !(x >= 0 && x <= max) || x != (int)x))
        return sp_fail(SP_E_FORMAT, "%s: %s: is not a whole number from 0 to %d", g->path, key, max);
    *out = (int)x;
    return SP_OK;
}

/* path_of_part -- the path of another file (from 0) of the same model; NULL: this path has no number. */
static char *path_of_part(const char *path, int i, int n)
{
    const size_t length = strlen(path);
    int no, count, end = 0;
    if (length < END_BYTES) return NULL;
    const size_t stem = length - END_BYTES;
    if (sscanf(path + stem, "-%5d-of-%5d.gguf%n", &no, &count, &end) != 2 || end != END_BYTES || count != n)
        return NULL;
    char *other = sp_strdup_n(path, length), name[40];
    snprintf(name, sizeof name, "-%05d-of-%05d.gguf", i + 1, n);
    if (other) memcpy(other + stem, name, END_BYTES);
    return other;
}

/* add_part -- opens file i and adds its tensors. */
static sp_err add_part(sp_gguf *g, int i, int n)
{
    sp_gguf part = {0};
    int no, count;
    char *path = path_of_part(g->path, i, n);
    if (!path)
        return sp_fail(SP_E_FORMAT, "%s: split.count: %d files, but the name does not end in -00001-of-%05d.gguf",
                       g->path, n, n);
    const sp_err err = sp_gguf_open_one(path, &part);
    sp_free(path);
    SP_TRY(err);
    g->parts.v[g->parts.n++] = part; /* owned from here on */
    SP_TRY(read_count(&part, "split.no", MAX_PARTS, &no));
    SP_TRY(read_count(&part, "split.count", MAX_PARTS, &count));
    if (no != i || count != n)
        return sp_fail(SP_E_FORMAT, "%s: split.no, split.count: file %d of %d, not %d of %d", part.path, no + 1,
                       count, i + 1, n);
    for (size_t t = 0; t < part.tensors.list.n; t++)
        SP_TRY(sp_tensor_dir_add(&g->tensors, &part.tensors.list.v[t]));
    return SP_OK;
}

/* join -- g: a file that may be the first of several. */
static sp_err join(sp_gguf *g)
{
    int n, no, n_tensors;
    SP_TRY(read_count(g, "split.count", MAX_PARTS, &n));
    if (n <= 1) return SP_OK;
    SP_TRY(read_count(g, "split.no", MAX_PARTS, &no));
    SP_TRY(read_count(g, "split.tensors.count", INT32_MAX, &n_tensors));
    if (no > 0)
        return sp_fail(SP_E_ARG, "%s: is file %d of a model in %d files: name the first, ...-00001-of-%05d.gguf",
                       g->path, no + 1, n, n);
    SP_TRY(sp_vec_reserve(&g->parts, (size_t)n - 1));
    for (int i = 1; i < n; i++) SP_TRY(add_part(g, i, n));
    if (n_tensors >= 0 && (size_t)n_tensors != g->tensors.list.n)
        return sp_fail(SP_E_FORMAT, "%s: split.tensors.count: %d, the %d files have %zu", g->path, n_tensors, n,
                       g->tensors.list.n);
    return SP_OK;
}

sp_err sp_gguf_open(const char *path, sp_gguf *out)
{
    sp_gguf g = {0};
    SP_TRY(sp_gguf_open_one(path, &g));
    const sp_err err = join(&g);
    if (err == SP_OK)
        *out = g;
    else
        sp_gguf_close(&g);
    return err;
}
