/* files_with.h -- which files of a folder have some bytes, also while a store works in it. */
#ifndef SP_TESTS_FILES_WITH_H
#define SP_TESTS_FILES_WITH_H

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

/* What is looked for, and what was seen of it. */
static struct {
    const void *bytes;
    size_t n;
    int n_files;
    bool has_vanished;
} sought;

static inline int look_into(const char *path, const struct stat *st, int kind, struct FTW *w)
{
    FILE *f = kind == FTW_F ? fopen(path, "r") : NULL;
    if (kind == FTW_NS || (kind == FTW_F && !f && errno == ENOENT)) sought.has_vanished = true;
    if (kind != FTW_F || sought.has_vanished) return sought.has_vanished;
    assert_non_null(f);
    char *data = malloc((size_t)st->st_size + 1);
    assert_non_null(data);
    const size_t n = fread(data, 1, (size_t)st->st_size, f);
    sought.n_files += memmem(data, n, sought.bytes, sought.n) != NULL;
    free(data);
    fclose(f);
    return 0;
}

/* files_with -- how many files have these bytes. A store deletes a segment once it has moved its copies: a file that
 * is gone amid the walk may have had what another, seen before, has now. So all are looked at again. */
static inline int files_with(const char *dir, const void *bytes, size_t n)
{
    int stopped;
    do {
        sought.bytes = bytes;
        sought.n = n;
        sought.n_files = 0;
        sought.has_vanished = false;
        stopped = nftw(dir, look_into, 8, FTW_PHYS);
        assert_int_equal(stopped, sought.has_vanished);
    } while (stopped);
    return sought.n_files;
}

#endif
