/* folder.h -- a folder of documents for a test, gone afterwards. Each test has one as its state. */
#ifndef SP_TEST_RETRIEVE_FOLDER_H
#define SP_TEST_RETRIEVE_FOLDER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "retrieve/index/index.h"
#include "spolia.h"

typedef struct folder {
    char root[128];  /* removed as a whole */
    char docs[160];  /* below it: the documents */
    char index[160]; /* beside them */
    char path[400];  /* what folder_path returned last */
} folder;

static inline const char *folder_path(folder *f, const char *name)
{
    snprintf(f->path, sizeof f->path, "%s/%s", f->docs, name);
    return f->path;
}

static inline void folder_write_n(folder *f, const char *name, const char *data, size_t n)
{
    FILE *out = fopen(folder_path(f, name), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

static inline void folder_write(folder *f, const char *name, const char *text)
{
    folder_write_n(f, name, text, strlen(text));
}

static inline int folder_setup(void **state)
{
    const char *tmp = getenv("TMPDIR");
    folder *f = calloc(1, sizeof *f);
    snprintf(f->root, sizeof f->root, "%s/spolia-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(f->root)) return -1;
    snprintf(f->docs, sizeof f->docs, "%s/docs", f->root);
    snprintf(f->index, sizeof f->index, "%s/index", f->root);
    *state = f;
    return mkdir(f->docs, 0755);
}

static inline int folder_remove_entry(const char *path, const struct stat *st, int kind,
                                      struct FTW *w)
{
    return remove(path);
}

static inline int folder_teardown(void **state)
{
    folder *f = *state;
    int rc = nftw(f->root, folder_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(f);
    return rc;
}

#define FOLDER_TEST(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

static inline sp_err folder_build_as(folder *f, sp_index_opts o, sp_index_stats *stats)
{
    const char *root = f->docs;
    return sp_index_build(&root, 1, f->index, &o, stats);
}

static inline sp_err folder_build(folder *f, int size_words, sp_index_stats *stats)
{
    return folder_build_as(f, (sp_index_opts){.size_words = size_words}, stats);
}

/* folder_index -- builds, and fails the test when that fails. */
static inline sp_index_stats folder_index(folder *f)
{
    sp_index_stats stats;
    if (folder_build(f, 20, &stats) != SP_OK) fail_msg("%s", sp_error_detail());
    return stats;
}

/* folder_ask -- the hits for a question as "file:title:text" lines, in a buffer that the next call
 * uses. */
static inline const char *folder_ask(folder *f, const char *question, int k)
{
    static char text[8192];
    sp_index *ix;
    sp_hits hits;
    size_t n = 0;
    text[0] = '\0';
    if (sp_index_open(f->index, &ix) != SP_OK) fail_msg("%s", sp_error_detail());
    if (sp_index_search(ix, question, k, &hits) != SP_OK) fail_msg("%s", sp_error_detail());
    for (int i = 0; i < hits.n; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s:%s:%s\n", hits.v[i].file,
                              hits.v[i].title, hits.v[i].text);
    assert_true(n < sizeof text);
    sp_hits_fini(&hits);
    sp_index_close(ix);
    return text;
}

#endif
