/* What `.tags` says of the files below it, as an index has it. */
#include "folder.h"

#include <sqlite3.h>

#include "retrieve/db/db.h"
#include "retrieve/index/pick.h"

static int setup(void **state)
{
    if (folder_setup(state) != 0) return -1;
    folder *f = *state;
    folder_write(f, "a.txt", "Apples.");
    folder_write(f, "b.txt", "Bananas.");
    if (mkdir(folder_path(f, "old"), 0755) != 0) return -1;
    folder_write(f, "old/c.txt", "Cherries.");
    return 0;
}

#define TAGS_TEST(test) cmocka_unit_test_setup_teardown(test, setup, folder_teardown)

/* tags_of -- of all files, "NAME=TAG,TAG, NAME=..."; in a buffer that the next call uses. */
static const char *tags_of(const folder *f)
{
    static char out[4096];
    sp_index *ix;
    sp_file_list l;
    size_t n = 0;
    assert_int_equal(sp_index_open(f->index, &ix), SP_OK);
    assert_int_equal(sp_index_list(ix, &(sp_file_query){0}, &l), SP_OK);
    for (int i = 0; i < l.n; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%s=%s", i ? " " : "", l.v[i].name, l.v[i].tags);
    for (char *c = out; *c; c++)
        if (*c == '\n') *c = ',';
    sp_file_list_fini(&l);
    sp_index_close(ix);
    return out;
}

static int64_t build(folder *f, const char *tags)
{
    folder_write(f, ".tags", tags);
    return folder_index(f).n_bad_lines;
}

static void names_are_files_folders_or_all(void **state)
{
    folder *f = *state;
    assert_int_equal(
        build(f, "# what they are\n\n  a.txt :  red,  sweet ,\r\n./b.txt: long\nold/: kept\n.: fruit\n"), 0);
    assert_string_equal(tags_of(f), "a.txt=fruit,red,sweet, b.txt=fruit,long, old/c.txt=fruit,kept,");
    assert_int_equal(build(f, "old//: y\nold/c.txt/: z\n"), 0);
    assert_string_equal(tags_of(f), "a.txt= b.txt= old/c.txt=y,z,");
    assert_int_equal(build(f, "\xEF\xBB\xBF" "a.txt: marked\n"), 0); /* as some editors begin a file */
    assert_string_equal(tags_of(f), "a.txt=marked, b.txt= old/c.txt=");
}

static void a_name_that_the_index_does_not_have_is_a_bad_line(void **state)
{
    folder *f = *state;
    assert_int_equal(build(f, "ol: x\na.tx: x\na.txt/b: x\nA.txt: x\na.txt: y\n"), 4);
    assert_string_equal(tags_of(f), "a.txt=y, b.txt= old/c.txt=");
    sp_index_stats stats;
    folder_write(f, ".tags", "a.txt: red\nc.txt: red\n");
    assert_int_equal(folder_build_as(f, (sp_index_opts){.strict = true}, &stats), SP_E_FORMAT);
    assert_non_null(strstr(sp_error_detail(), ".tags:2: the index has no such file or folder"));
    assert_int_equal(build(f, "c.txt: late\n"), 1);
    folder_write(f, "c.txt", "Cherries.");
    assert_int_equal(folder_index(f).n_bad_lines, 0);
    assert_string_equal(tags_of(f), "a.txt= b.txt= c.txt=late, old/c.txt=");
}

/* Lines of the other files of its folder are none of its own. */
static void a_file_alone_has_the_tags_of_its_folder(void **state)
{
    folder *f = *state;
    char path[400];
    const char *root = path;
    sp_index_stats stats;
    folder_write(f, ".tags", "a.txt: red\nb.txt: long\nold: kept\nno colon\n");
    snprintf(path, sizeof path, "%s", folder_path(f, "a.txt"));
    assert_int_equal(sp_index_build(&root, 1, f->index, NULL, &stats), SP_OK);
    assert_int_equal(stats.n_bad_lines, 1);
    assert_string_equal(tags_of(f), "a.txt=red,");
}

static void the_last_build_counts(void **state)
{
    folder *f = *state;
    build(f, "a.txt: red\n");
    build(f, "a.txt: green\n");
    assert_string_equal(tags_of(f), "a.txt=green, b.txt= old/c.txt=");
    assert_int_equal(remove(folder_path(f, ".tags")), 0);
    folder_index(f);
    assert_string_equal(tags_of(f), "a.txt= b.txt= old/c.txt=");
}

/* Sixteen tags of a line, and 64 bytes of a tag: one more of either is a line that is skipped. */
static void limits_are_those_of_uploaded_documents(void **state)
{
    folder *f = *state;
    char text[1024], wanted[1024];
    const int n = 64;
    assert_int_equal(build(f, "a.txt: 0,1,2,3,4,5,6,7,8,9,a,b,c,d,e,f\n"), 0);
    assert_string_equal(tags_of(f), "a.txt=0,1,2,3,4,5,6,7,8,9,a,b,c,d,e,f, b.txt= old/c.txt=");
    assert_int_equal(build(f, "a.txt: 0,1,2,3,4,5,6,7,8,9,a,b,c,d,e,f,g\nb.txt: long\n"), 1);
    assert_string_equal(tags_of(f), "a.txt= b.txt=long, old/c.txt=");
    snprintf(text, sizeof text, "a.txt: %0*d\nb.txt: %0*d\n", n, 1, n + 1, 1);
    assert_int_equal(build(f, text), 1);
    snprintf(wanted, sizeof wanted, "a.txt=%0*d, b.txt= old/c.txt=", n, 1);
    assert_string_equal(tags_of(f), wanted);
}

static void bad_lines_are_counted_or_errors(void **state)
{
    folder *f = *state;
    assert_int_equal(build(f, "a.txt:red\nno colon\n: red\nb.txt: \nb.txt: ,,\nold/c.txt: kept\n"), 5);
    assert_string_equal(tags_of(f), "a.txt= b.txt= old/c.txt=kept,");
    assert_int_equal(build(f, "a.txt: \xff\n"), 1);
    assert_string_equal(tags_of(f), "a.txt= b.txt= old/c.txt=");
    folder_write(f, ".tags", "a.txt: red\nno colon\n");
    sp_index_stats stats;
    assert_int_equal(folder_build_as(f, (sp_index_opts){.strict = true}, &stats), SP_E_FORMAT);
    assert_non_null(strstr(sp_error_detail(), ".tags:2: "));
}

static void each_root_has_its_own(void **state)
{
    folder *f = *state;
    char other[256];
    build(f, "a.txt: here\n");
    snprintf(other, sizeof other, "%s/other", f->root);
    assert_int_equal(mkdir(other, 0755), 0);
    folder_write(f, "../other/a.txt", "Almonds.");
    folder_write(f, "../other/.tags", "a.txt: there\n");
    const char *root = other, *both[] = {f->docs, other};
    sp_index_stats stats;
    assert_int_equal(sp_index_build(&root, 1, f->index, &(sp_index_opts){.add = true}, &stats), SP_OK);
    assert_string_equal(tags_of(f), "docs/a.txt=here, docs/b.txt= docs/old/c.txt= other/a.txt=there,");
    assert_int_equal(sp_index_build(both, 2, f->index, NULL, &stats), SP_OK);
    assert_string_equal(tags_of(f), "docs/a.txt=here, docs/b.txt= docs/old/c.txt= other/a.txt=there,");
    root = f->docs;
    assert_int_equal(sp_index_build(&root, 1, f->index, &(sp_index_opts){.replace = true}, &stats), SP_OK);
    assert_null(strstr(tags_of(f), "there"));
    sqlite3 *db;
    int64_t n;
    assert_int_equal(sqlite3_open_v2(f->index, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sp_db_number(db, f->index, "SELECT count(*) FROM tags", &n), SP_OK);
    assert_int_equal(n, 1); /* nothing of the other folder is left */
    sqlite3_close(db);
}

/* -- searches among some documents ------------------------------------------------------------ */

/* found -- names of the hits for "fruit" among these files and tags (comma-separated, NULL: all), best first. */
static const char *found(const folder *f, const char *file, const char *tag, int k)
{
    static char out[4096];
    sp_retriever *r;
    sp_hits hits;
    size_t n = 0;
    *out = '\0';
    assert_int_equal(sp_retriever_open(f->index, NULL, &r), SP_OK);
    const sp_retrieve_query q = {
        .text = "fruit", .k = k, .files = &file, .n_files = file != NULL, .tags = &tag, .n_tags = tag != NULL};
    assert_int_equal(sp_retriever_search(r, &q, &hits), SP_OK);
    for (int i = 0; i < hits.n; i++) {
        if (i) assert_true(hits.v[i].score <= hits.v[i - 1].score);
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", i ? " " : "", hits.v[i].file);
    }
    sp_hits_fini(&hits);
    sp_retriever_close(r);
    return out;
}

static void a_search_is_among_what_is_allowed(void **state)
{
    folder *f = *state;
    folder_write(f, "a.txt", "Fruit, fruit and fruit.");
    folder_write(f, "b.txt", "Fruit that was kept for a long time, with bananas.");
    folder_write(f, "old/c.txt", "Fruit and cherries.");
    folder_write(f, "older.txt", "Fruit of all kinds, pears and plums, and what else there is.");
    build(f, "a.txt: red\nb.txt: long, kept\nold/: kept\n");
    assert_string_equal(found(f, NULL, NULL, 9), "a.txt old/c.txt b.txt older.txt");
    assert_string_equal(found(f, "old", NULL, 9), "old/c.txt");
    assert_string_equal(found(f, "old/", NULL, 9), "old/c.txt");
    assert_string_equal(found(f, "b.txt", NULL, 9), "b.txt");
    assert_string_equal(found(f, "ol", NULL, 9), "");
    assert_string_equal(found(f, "no such", NULL, 9), "");
    assert_string_equal(found(f, NULL, "kept", 9), "old/c.txt b.txt");
    assert_string_equal(found(f, NULL, "kep", 9), "");
    assert_string_equal(found(f, "old", "kept", 9), "old/c.txt");
    assert_string_equal(found(f, "b.txt", "red", 9), "");
    assert_string_equal(found(f, "b.txt", "no such", 9), "");
}

/* The best of all chunks are not allowed: as many as were asked for are found nevertheless. */
static void others_do_not_take_the_places_of_what_is_allowed(void **state)
{
    static const char line[] = "{\"text\": \"Fruit, fruit and fruit.\"}\n";
    static char lines[700 * sizeof line];
    folder *f = *state;
    for (int i = 0; i < 700; i++) strcat(lines + (size_t)i * (sizeof line - 1), line);
    folder_write(f, "best.jsonl", lines);
    folder_write(f, "old/c.txt", "Fruit and cherries, and what else the garden has in summer.");
    folder_write(f, "old/d.txt", "Fruit and cherries, and what else the wood has in late autumn, and winter.");
    build(f, "old/: kept\n");
    assert_string_equal(found(f, "old", NULL, 2), "old/c.txt old/d.txt");
    assert_string_equal(found(f, NULL, "kept", 2), "old/c.txt old/d.txt");
    assert_string_equal(found(f, NULL, "kept", 1), "old/c.txt");
}

static void files_are_listed_in_pages(void **state)
{
    folder *f = *state;
    static const char *const pages[] = {"a.txt b.txt", "old/c.txt", ""};
    sp_index *ix;
    char after[64] = "";
    build(f, "a.txt: red\n");
    assert_int_equal(sp_index_open(f->index, &ix), SP_OK);
    for (size_t i = 0; i < SP_COUNT(pages); i++) {
        sp_file_list l;
        char names[128] = "";
        assert_int_equal(sp_index_list(ix, &(sp_file_query){.after = i ? after : NULL, .limit = 2}, &l), SP_OK);
        for (int k = 0; k < l.n; k++) {
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", k ? " " : "", l.v[k].name);
            snprintf(after, sizeof after, "%s", l.v[k].name);
        }
        assert_string_equal(names, pages[i]);
        sp_file_list_fini(&l);
    }
    sp_file_list l = {.n = 77};
    assert_int_equal(sp_index_list(ix, &(sp_file_query){.name = "c.txt"}, &l), SP_E_NOTFOUND);
    assert_int_equal(l.n, 77);
    sp_index_close(ix);
}

/* The scores of a chunk add up; the best comes first, and of equal ones the earlier. */
static void rankings_add_up_and_fall(void **state)
{
    static const sp_ranked added[] = {{7, 1}, {3, 2}, {9, 4}, {7, 2.5}, {5, 2}, {3, 0.5}, {2, 3.5}};
    static const sp_ranked want[] = {{9, 4}, {2, 3.5}, {7, 3.5}, {3, 2.5}, {5, 2}};
    sp_ranking r = {0};
    SP_UNUSED(state);
    for (size_t i = 0; i < SP_COUNT(added); i++)
        assert_int_equal(sp_ranking_add(&r, added[i].id, added[i].score), SP_OK);
    sp_ranking_sort(&r);
    assert_int_equal(r.n, SP_COUNT(want));
    for (size_t i = 0; i < r.n; i++) {
        assert_int_equal(r.v[i].id, want[i].id);
        assert_true(r.v[i].score == want[i].score);
    }
    sp_vec_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TAGS_TEST(names_are_files_folders_or_all),
        TAGS_TEST(a_name_that_the_index_does_not_have_is_a_bad_line),
        TAGS_TEST(a_file_alone_has_the_tags_of_its_folder),
        TAGS_TEST(the_last_build_counts),
        TAGS_TEST(limits_are_those_of_uploaded_documents),
        TAGS_TEST(bad_lines_are_counted_or_errors),
        TAGS_TEST(each_root_has_its_own),
        TAGS_TEST(a_search_is_among_what_is_allowed),
        TAGS_TEST(others_do_not_take_the_places_of_what_is_allowed),
        TAGS_TEST(files_are_listed_in_pages),
        cmocka_unit_test(rankings_add_up_and_fall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
