/* folder.h -- a temporary folder of a test. */
#ifndef SP_TESTS_FOLDER_H
#define SP_TESTS_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/check.h"

static inline void make_folder(char *dir, size_t n)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, n, "%s/spolia-test-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
}

static inline int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *w)
{
    return remove(path);
}

static inline void remove_folder(const char *dir)
{
    assert_int_equal(nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

#endif
