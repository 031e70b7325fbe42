/* test_journals.c -- registered documents, and an index, whose transactions fail at their end: the journal cannot be
 * removed, and later cannot be looked at. unlink and stat are the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "retrieve/shelf/shelf_int.h"
#include "spolia.h"
#include "support/folder.h"

static bool stays, hidden; /* journals: they cannot be removed; they cannot be looked at */

static bool is_journal(const char *path)
{
    return strstr(path, "-journal");
}

#define OURS __attribute__((visibility("default"))) /* also for libsqlite3 */

OURS int unlink(const char *path)
{
    if (stays && is_journal(path)) return errno = EIO, -1;
    return unlinkat(AT_FDCWD, path, 0);
}

OURS int stat(const char *path, struct stat *st)
{
    if (hidden && is_journal(path)) return errno = EIO, -1;
    return fstatat(AT_FDCWD, path, st, 0);
}

static sp_err put(sp_shelf *s, const char *id)
{
    const sp_shelf_row row = {.tenant = "t", .id = id, .title = id};
    const sp_shelf_chunk c = {.title = "T", .text = "a text", .n_tokens = 2};
    return sp_shelf_put(s, &row, &c, 1);
}

/* look_for -- SP_OK, SP_E_NOTFOUND, or why nobody can say. */
static sp_err look_for(sp_shelf *s, const char *id)
{
    sp_hits h;
    const sp_err err = sp_shelf_chunks(s, "t", id, 0, &h);
    if (err == SP_OK) sp_hits_fini(&h);
    return err;
}

static sp_shelf *open_file(char *path)
{
    sp_shelf *s;
    close(mkstemp(path));
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    assert_int_equal(put(s, "a"), SP_OK);
    return s;
}

static void end(sp_shelf *s, const char *path)
{
    sp_shelf_close(s);
    assert_int_equal(unlink(path), 0);
}

static void what_a_failed_deletion_wrote_is_not_taken_for_done(void **state)
{
    char path[] = "/tmp/spolia-journals-XXXXXX";
    sp_shelf *s = open_file(path);
    stays = true;
    assert_int_equal(sp_shelf_doom(s, "t", "a"), SP_E_IO);
    hidden = true;
    assert_int_equal(sp_shelf_doom(s, "t", "a"), SP_E_IO); /* not: there is none, and later it is back */
    assert_int_equal(look_for(s, "a"), SP_E_IO);
    stays = hidden = false;
    assert_int_equal(look_for(s, "a"), SP_OK);
    assert_int_equal(sp_shelf_doom(s, "t", "a"), SP_OK);
    assert_int_equal(look_for(s, "a"), SP_E_NOTFOUND);
    end(s, path);
}

static void what_a_failed_registration_wrote_is_not_shown(void **state)
{
    char path[] = "/tmp/spolia-journals-XXXXXX";
    sp_shelf *s = open_file(path), *other;
    stays = true;
    assert_int_equal(put(s, "b"), SP_E_IO);
    hidden = true;
    assert_int_equal(look_for(s, "b"), SP_E_IO);
    assert_int_equal(sp_shelf_open(path, &other), SP_E_IO); /* a server that is started now */
    stays = hidden = false;
    assert_int_equal(look_for(s, "b"), SP_E_NOTFOUND);
    assert_int_equal(look_for(s, "a"), SP_OK);
    end(s, path);
}

/* Its journal would have a name that is too long: there is none. */
static void a_file_with_the_longest_name_is_read(void **state)
{
    char path[300] = "/tmp/spolia-journals-XXXXXX", longest[300];
    int64_t n_tables;
    sqlite3 *db;
    sp_shelf_close(open_file(path));
    snprintf(longest, sizeof longest, "/tmp/%0255d", 1);
    assert_int_equal(rename(path, longest), 0);
    assert_int_equal(sp_db_open(longest, "cannot open", false, &db), SP_OK);
    assert_int_equal(sp_db_number(db, longest, "SELECT count(*) FROM sqlite_schema", &n_tables), SP_OK);
    assert_true(n_tables > 2);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(unlink(longest), 0);
}

static void write_page(const char *dir, const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("The boats leave at nine.", f);
    assert_int_equal(fclose(f), 0);
}

/* As after a kill while it was written to its end: whoever reads it next has the index of before. */
static void an_index_is_read_after_a_build_that_failed_at_its_end(void **state)
{
    char dir[128], path[160];
    make_folder(dir, sizeof dir);
    snprintf(path, sizeof path, "%s.db", dir);
    const char *const root[] = {dir};
    write_page(dir, "a.txt");
    assert_int_equal(sp_index_build(root, 1, path, NULL, NULL), SP_OK);
    write_page(dir, "b.txt");
    stays = true;
    assert_int_equal(sp_index_build(root, 1, path, NULL, NULL), SP_E_IO);
    stays = false;
    sp_index *ix;
    sp_hits hits;
    assert_int_equal(sp_index_open(path, &ix), SP_OK);
    assert_int_equal(sp_index_n_chunks(ix), 1);
    assert_int_equal(sp_index_search(ix, "boats", 5, &hits), SP_OK);
    assert_int_equal(hits.n, 1);
    assert_string_equal(hits.v[0].file, "a.txt");
    sp_hits_fini(&hits);
    sp_index_close(ix);
    assert_int_equal(sp_index_build(root, 1, path, NULL, NULL), SP_OK);
    assert_int_equal(unlink(path), 0);
    remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_failed_deletion_wrote_is_not_taken_for_done),
        cmocka_unit_test(what_a_failed_registration_wrote_is_not_shown),
        cmocka_unit_test(a_file_with_the_longest_name_is_read),
        cmocka_unit_test(an_index_is_read_after_a_build_that_failed_at_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
