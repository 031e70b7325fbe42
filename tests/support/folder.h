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

static inline int folder_setup(void **state)
{
    static char dir[128];
    make_folder(dir, sizeof dir);
    *state = dir;
    return 0;
}

static inline int folder_teardown(void **state)
{
    remove_folder(*state);
    return 0;
}

/* FOLDER_TEST -- a case whose *state is the name of an empty folder, which is removed after it. */
#define FOLDER_TEST(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

#endif
