/* The folders and files that an index is of: named, added, replaced. */
#include "folder.h"

static char other[200], notes[200]; /* another folder and a file, beside f->docs */

static int roots_setup(void **state)
{
    if (folder_setup(state) != 0) return -1;
    folder *f = *state;
    snprintf(other, sizeof other, "%s/other", f->root);
    snprintf(notes, sizeof notes, "%s/notes.txt", f->root);
    folder_write(f, "a.txt", "Apples.");
    if (mkdir(other, 0755) != 0) return -1;
    folder_write(f, "../other/b.txt", "Bananas.");
    folder_write(f, "../notes.txt", "Cherries.");
    return 0;
}

#define ROOTS_TEST(test) cmocka_unit_test_setup_teardown(test, roots_setup, folder_teardown)

static sp_err build(folder *f, sp_index_opts o, const char *first, const char *second)
{
    const char *roots[] = {first, second};
    return sp_index_build(roots, first ? 1 + (second != NULL) : 0, f->index, &o, NULL);
}

static void assert_built(folder *f, sp_index_opts o, const char *first, const char *second)
{
    if (build(f, o, first, second) != SP_OK) fail_msg("%s", sp_error_detail());
}

static void assert_found(folder *f, const char *files)
{
    char got[200] = "";
    sp_index *ix;
    sp_hits hits;
    assert_int_equal(sp_index_open(f->index, &ix), SP_OK);
    for (int64_t id = 0;; id = hits.v[0].id, sp_hits_fini(&hits)) {
        assert_int_equal(sp_index_chunk(ix, id, &hits), SP_OK);
        if (!hits.n) break;
        strcat(strcat(got, hits.v[0].file), " ");
        assert_true(strncmp(hits.v[0].root, f->root, strlen(f->root)) == 0);
    }
    sp_hits_fini(&hits);
    sp_index_close(ix);
    assert_string_equal(got, files);
}

static void another_root_replaces_nothing(void **state)
{
    folder *f = *state;
    assert_built(f, (sp_index_opts){0}, f->docs, NULL);
    assert_int_equal(build(f, (sp_index_opts){0}, other, NULL), SP_E_ARG);
    assert_non_null(strstr(sp_error_detail(), f->docs));
    assert_non_null(strstr(sp_error_detail(), "--replace"));
    assert_int_equal(build(f, (sp_index_opts){0}, f->docs, other), SP_E_ARG);
    assert_found(f, "a.txt ");
}

static void roots_without_a_document_give_way(void **state)
{
    folder *f = *state;
    char empty[250];
    snprintf(empty, sizeof empty, "%s/none", f->root);
    assert_int_equal(mkdir(empty, 0755), 0);
    assert_built(f, (sp_index_opts){0}, empty, NULL);
    assert_built(f, (sp_index_opts){0}, f->docs, NULL);
    assert_found(f, "a.txt ");
    assert_int_equal(build(f, (sp_index_opts){0}, empty, NULL), SP_E_ARG);
    assert_found(f, "a.txt ");
    assert_int_equal(unlink(f->index), 0);
    assert_built(f, (sp_index_opts){0}, empty, NULL);
    assert_built(f, (sp_index_opts){.add = true}, f->docs, NULL);
    folder_write(f, "../none/c.txt", "Chestnuts.");
    assert_built(f, (sp_index_opts){0}, NULL, NULL); /* what is added replaces nothing */
    assert_found(f, "docs/a.txt none/c.txt ");
}

static void roots_are_added(void **state)
{
    folder *f = *state;
    assert_built(f, (sp_index_opts){0}, f->docs, NULL);
    assert_built(f, (sp_index_opts){.add = true}, other, NULL);
    assert_found(f, "docs/a.txt other/b.txt ");
    assert_built(f, (sp_index_opts){.add = true}, notes, NULL);
    char expected[200];
    snprintf(expected, sizeof expected, "docs/a.txt other/b.txt %s/notes.txt ",
             strrchr(f->root, '/') + 1);
    assert_found(f, expected);
}

/* Files without a reader are counted in every folder. */
static void other_files_of_all_roots_are_counted(void **state)
{
    folder *f = *state;
    sp_index_stats stats;
    const char *roots[] = {f->docs, other};
    folder_write(f, "a.png", "x");
    folder_write(f, "../other/b.PNG", "x");
    folder_write(f, "../other/d.GZI", "x");
    folder_write(f, "../other/e.gzi", "x");
    folder_write(f, "../other/f.gzi", "x");
    folder_write(f, "../other/c.gif", "x");
    assert_int_equal(sp_index_build(roots, 2, f->index, &(sp_index_opts){0}, &stats), SP_OK);
    assert_int_equal(stats.n_other, 6);
    assert_string_equal(stats.other[0].suffix, ".gzi");
    assert_int_equal(stats.other[0].n, 3);
    assert_string_equal(stats.other[1].suffix, ".png");
    assert_int_equal(stats.other[1].n, 2);
    assert_string_equal(stats.other[2].suffix, ".gif");
    assert_int_equal(stats.other[2].n, 1);
    assert_int_equal(stats.other[3].n, 0);
}

/* assert_kept -- a build with `moved` reads no file again. */
static void assert_kept(folder *f, const char *to, int n)
{
    sp_index_stats stats;
    const sp_index_opts moved = {.moved = true};
    if (sp_index_build(&to, 1, f->index, &moved, &stats) != SP_OK)
        fail_msg("%s", sp_error_detail());
    assert_int_equal(stats.n_unchanged, n);
    assert_int_equal(stats.n_removed, 0);
    assert_int_equal(stats.n_files, n);
}

static void a_moved_folder_is_still_the_same(void **state)
{
    folder *f = *state;
    char to[256], copy[256], root[256];
    snprintf(to, sizeof to, "%s/moved/docs", f->root);
    snprintf(copy, sizeof copy, "%s/moved", f->root);
    assert_built(f, (sp_index_opts){0}, f->docs, NULL);
    assert_int_equal(mkdir(copy, 0755), 0);
    assert_int_equal(rename(f->docs, to), 0);
    assert_int_equal(build(f, (sp_index_opts){0}, to, NULL), SP_E_ARG);
    assert_non_null(strstr(sp_error_detail(), "--moved"));
    assert_kept(f, to, 1);
    assert_found(f, "a.txt ");
    assert_built(f, (sp_index_opts){.add = true}, other,
                 notes); /* of three, the one that is gone */
    assert_int_equal(rename(to, f->docs), 0);
    assert_kept(f, f->docs, 1);
    snprintf(root, sizeof root, "docs/a.txt other/b.txt %s/notes.txt ", strrchr(f->root, '/') + 1);
    assert_found(f, root);
    assert_int_equal(build(f, (sp_index_opts){.moved = true}, copy, NULL),
                     SP_E_ARG); /* none is gone */
    assert_non_null(strstr(sp_error_detail(), "which of its folders"));
    assert_int_equal(build(f, (sp_index_opts){.moved = true, .add = true}, copy, NULL), SP_E_ARG);
    assert_int_equal(build(f, (sp_index_opts){.moved = true}, NULL, NULL), SP_E_ARG);
}

/* Of two folders that are gone, the one of that name; without one, none. */
static void of_two_folders_that_are_gone_the_name_decides(void **state)
{
    folder *f = *state;
    char to[256], third[256];
    snprintf(to, sizeof to, "%s/new", f->root);
    snprintf(third, sizeof third, "%s/third", f->root);
    assert_built(f, (sp_index_opts){0}, f->docs, other);
    assert_built(f, (sp_index_opts){.add = true}, notes, NULL);
    assert_true(mkdir(to, 0755) == 0 && rename(other, third) == 0);
    strcat(to, "/docs");
    assert_int_equal(rename(f->docs, to), 0);
    assert_int_equal(build(f, (sp_index_opts){.moved = true}, third, NULL), SP_E_ARG);
    assert_non_null(strstr(sp_error_detail(), "which of its folders"));
    assert_kept(f, to, 1);
    assert_kept(f, third, 1); /* the only one now */
}

static void a_file_that_is_too_large_is_skipped(void **state)
{
    folder *f = *state;
    sp_index_stats stats;
    folder_write(f, "b.txt", "");
    assert_int_equal(truncate(folder_path(f, "b.txt"), (off_t)INT32_MAX + 1), 0); /* takes no space */
    assert_int_equal(folder_build(f, 20, &stats), SP_OK);
    assert_int_equal(stats.n_skipped, 1);
    assert_found(f, "a.txt ");
}

/* Chinese has no words, so its pairs of characters are in an index of their own. */
static void a_text_that_is_replaced_is_not_found_by_its_characters(void **state)
{
    folder *f = *state;
    folder_write(f, "a.txt", "人工智能");
    folder_index(f);
    assert_string_equal(folder_ask(f, "人工", 9), "a.txt:a.txt:人工智能\n");
    folder_write(f, "a.txt", "Apples and pears.");
    folder_index(f);
    assert_string_equal(folder_ask(f, "人工", 9), "");
}

static void several_roots_are_built_at_once(void **state)
{
    folder *f = *state;
    sp_index_stats stats;
    const char *roots[] = {other, f->docs};
    assert_int_equal(sp_index_build(roots, 2, f->index, NULL, &stats), SP_OK);
    assert_int_equal(stats.n_files, 2);
    assert_found(f, "other/b.txt docs/a.txt ");
}

static void a_root_may_be_a_file(void **state)
{
    folder *f = *state;
    assert_built(f, (sp_index_opts){0}, notes, NULL);
    assert_found(f, "notes.txt ");
    folder_write(f, "../notes.txt", "Cherries are red.");
    assert_built(f, (sp_index_opts){0}, NULL, NULL);
    assert_string_equal(folder_ask(f, "red", 9), "notes.txt:notes.txt:Cherries are red.\n");
}

static void a_root_that_is_not_named_stays_as_it_is(void **state)
{
    folder *f = *state;
    assert_built(f, (sp_index_opts){0}, f->docs, other);
    folder_write(f, "a.txt", "Avocados.");
    folder_write(f, "../other/b.txt", "Blueberries.");
    assert_built(f, (sp_index_opts){0}, f->docs, NULL);
    assert_string_equal(folder_ask(f, "avocados blueberries bananas", 9),
                        "other/b.txt:b.txt:Bananas.\ndocs/a.txt:a.txt:Avocados.\n");
    assert_built(f, (sp_index_opts){0}, NULL, NULL); /* all of them */
    assert_string_equal(folder_ask(f, "blueberries bananas", 9),
                        "other/b.txt:b.txt:Blueberries.\n");
}

static void other_sizes_cut_every_root_again(void **state)
{
    folder *f = *state;
    folder_write(f, "../other/b.txt", "Bananas are yellow. Blueberries are blue.");
    assert_built(f, (sp_index_opts){0}, f->docs, other);
    assert_built(f, (sp_index_opts){.size_words = 3}, f->docs, NULL);
    assert_found(f, "docs/a.txt other/b.txt other/b.txt ");
    assert_built(f, (sp_index_opts){0}, f->docs, NULL); /* 0: as the index has it */
    assert_found(f, "docs/a.txt other/b.txt other/b.txt ");
    assert_built(f, (sp_index_opts){.size_words = 3, .overlap_words = 2}, f->docs, NULL);
    folder_write(f, "../other/b.txt", "Bananas grow. Plums fall. Dates dry.");
    assert_built(f, (sp_index_opts){.size_words = 4}, other, NULL);
    assert_string_equal(folder_ask(f, "plums", 9), "other/b.txt:b.txt:Bananas grow. Plums fall.\n");
    assert_built(f, (sp_index_opts){.size_words = 4, .overlap_words = 2}, f->docs, NULL); /* repeats the sentence */
    assert_string_equal(folder_ask(f, "plums", 9),
                        "other/b.txt:b.txt:Bananas grow. Plums fall.\nother/b.txt:b.txt:Plums fall. Dates dry.\n");
}

static void folders_of_one_name_are_numbered(void **state)
{
    folder *f = *state;
    char second[256], third[256];
    snprintf(second, sizeof second, "%s/other/docs", f->root);
    snprintf(third, sizeof third, "%s/third", f->root);
    assert_true(mkdir(second, 0755) == 0 && mkdir(third, 0755) == 0);
    strcat(third, "/docs");
    assert_int_equal(mkdir(third, 0755), 0);
    folder_write(f, "../other/docs/a.txt", "Apples.");
    folder_write(f, "../third/docs/a.txt", "Apples.");
    assert_built(f, (sp_index_opts){0}, f->docs, second);
    assert_built(f, (sp_index_opts){.add = true}, third, NULL);
    assert_found(f, "docs/a.txt docs-2/a.txt docs-3/a.txt ");
}

static void replace_leaves_the_named_roots(void **state)
{
    folder *f = *state;
    sp_index_stats stats;
    const char *root = other;
    assert_built(f, (sp_index_opts){0}, f->docs, notes);
    assert_int_equal(sp_index_build(&root, 1, f->index, &(sp_index_opts){.replace = true}, &stats),
                     SP_OK);
    assert_int_equal(stats.n_removed, 2);
    assert_found(f, "b.txt ");
    assert_string_equal(folder_ask(f, "apples", 9), "");
}

static void a_folder_inside_another_is_refused(void **state)
{
    folder *f = *state;
    assert_int_equal(build(f, (sp_index_opts){0}, f->root, f->docs), SP_E_ARG);
    assert_non_null(strstr(sp_error_detail(), "is inside"));
    assert_int_equal(access(f->index, F_OK), -1);
    snprintf(other, sizeof other, "%s2", f->docs); /* its path only begins as that of docs */
    assert_int_equal(mkdir(other, 0755), 0);
    assert_built(f, (sp_index_opts){0}, f->docs, other);
}

static void bad_calls_are_refused(void **state)
{
    folder *f = *state;
    const char *none = NULL, *gone = "/nonexistent/folder";
    sp_hits hits;
    sp_index *ix = NULL;
    assert_int_equal(sp_index_build(&none, 1, f->index, NULL, NULL), SP_E_ARG);
    assert_int_equal(sp_index_build(NULL, 1, f->index, NULL, NULL), SP_E_ARG);
    assert_int_equal(sp_index_build(NULL, 0, f->index, NULL, NULL), SP_E_ARG);
    assert_int_equal(sp_index_build(&gone, 1, NULL, NULL, NULL), SP_E_ARG);
    assert_int_equal(sp_index_build(&gone, 1, f->index, NULL, NULL), SP_E_IO);
    assert_int_equal(access(f->index, F_OK), -1);

    assert_built(f, (sp_index_opts){0}, f->docs, NULL);
    assert_int_equal(sp_index_open(NULL, &ix), SP_E_ARG);
    assert_int_equal(sp_index_open(f->index, NULL), SP_E_ARG);
    assert_int_equal(sp_index_open(f->index, &ix), SP_OK);
    assert_int_equal(sp_index_search(NULL, "apples", 1, &hits), SP_E_ARG);
    assert_int_equal(sp_index_search(ix, NULL, 1, &hits), SP_E_ARG);
    assert_int_equal(sp_index_search(ix, "apples", 1, NULL), SP_E_ARG);
    assert_int_equal(sp_index_chunk(NULL, 0, &hits), SP_E_ARG);
    assert_int_equal(sp_index_chunk(ix, 0, NULL), SP_E_ARG);
    assert_int_equal(sp_index_document(ix, NULL, &hits), SP_E_ARG);
    assert_int_equal(sp_index_similar(ix, "bm25", 1, 1, NULL), SP_E_ARG);
    assert_int_equal(sp_index_similar(ix, NULL, 1, 1, &hits), SP_OK);
    sp_hits_fini(&hits);
    sp_hits_fini(NULL);
    assert_int_equal(sp_index_n_chunks(NULL), 0);
    sp_index_close(ix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROOTS_TEST(a_moved_folder_is_still_the_same),
        ROOTS_TEST(another_root_replaces_nothing),
        ROOTS_TEST(roots_are_added),
        ROOTS_TEST(other_files_of_all_roots_are_counted),
        ROOTS_TEST(of_two_folders_that_are_gone_the_name_decides),
        ROOTS_TEST(a_file_that_is_too_large_is_skipped),
        ROOTS_TEST(a_text_that_is_replaced_is_not_found_by_its_characters),
        ROOTS_TEST(several_roots_are_built_at_once),
        ROOTS_TEST(a_root_may_be_a_file),
        ROOTS_TEST(a_root_that_is_not_named_stays_as_it_is),
        ROOTS_TEST(other_sizes_cut_every_root_again),
        ROOTS_TEST(roots_without_a_document_give_way),
        ROOTS_TEST(folders_of_one_name_are_numbered),
        ROOTS_TEST(replace_leaves_the_named_roots),
        ROOTS_TEST(a_folder_inside_another_is_refused),
        ROOTS_TEST(bad_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
