/* test_shelf_repair.c -- what a repair saves of collections: names, files, tags, counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "retrieve/shelf/collections.h"
#include "retrieve/shelf/shelf_int.h"

enum { DOCUMENTS = 40 };
static const char place[] = "t/manual", other_place[] = "/files";

static void count(sp_shelf *s, const char *where, const char *text, int n)
{
    sp_shelf_count c = {.n = n};
    strcpy(c.place, where);
    assert_int_equal(sp_shelf_chunk_hash("title", text, &c.chunk), SP_OK);
    assert_int_equal(sp_shelf_count_all(s, &c, 1), SP_OK);
}

static void make_file(const char *path)
{
    sp_shelf *s;
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    assert_int_equal(sp_shelf_add_collection(s, "t", "manual", 7), SP_OK);
    assert_int_equal(sp_shelf_add_collection(s, "t", "empty", 8), SP_OK);
    for (int i = 0; i < DOCUMENTS; i++) {
        char id[32], file[32], tags[32], text[600];
        snprintf(id, sizeof id, "manual/d%02d", i);
        snprintf(file, sizeof file, "f/%02d.md", i);
        snprintf(tags, sizeof tags, "all\nn%d\n", i);
        snprintf(text, sizeof text, "%0500d", i);
        sp_shelf_chunk c = {.title = "title", .text = text, .n_tokens = 1};
        snprintf((char *)c.ids[0].b, sizeof c.ids[0].b, "a%d", i);
        snprintf((char *)c.ids[1].b, sizeof c.ids[1].b, "b%d", i);
        const sp_shelf_row row = {.tenant = "t", .id = id, .title = id, .created_s = i, .file = file, .tags = tags};
        assert_int_equal(sp_shelf_put(s, &row, &c, 1), SP_OK);
        if (i % 4 == 0) count(s, place, text, 3 + i);
    }
    count(s, other_place, "of a file", 5);
    count(s, place, "of a passage that is not there", 9);
    sp_shelf_close(s);
}

/* What a file has of it: documents with their file and tags, the sum of the counts. */
typedef struct kept {
    int n_documents, n_tagged, n_collections;
    int64_t counts, of_files;
} kept;

static kept look(const char *path)
{
    kept k = {0};
    sp_shelf *s;
    sp_document_list l;
    sp_collection_list all;
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    const sp_shelf_query q = {.tenant = "t", .collection = "manual", .limit = 1000};
    assert_int_equal(sp_shelf_list(s, &q, &l), SP_OK);
    k.n_documents = l.n;
    for (int i = 0; i < l.n; i++) {
        char tags[32], file[32];
        const int n = atoi(l.v[i].id + strlen("manual/d"));
        snprintf(tags, sizeof tags, "all\nn%d\n", n);
        snprintf(file, sizeof file, "f/%02d.md", n);
        const bool good = strcmp(l.v[i].tags, tags) == 0 && strcmp(l.v[i].file, file) == 0;
        assert_true(good || (!*l.v[i].tags && !*l.v[i].file)); /* never another document's */
        k.n_tagged += good;
    }
    sp_document_list_fini(&l);
    assert_int_equal(sp_shelf_collections(s, &(sp_collections_query){.tenant = "t"}, &all), SP_OK);
    k.n_collections = all.n;
    for (int i = 0; i < all.n; i++)
        if (strcmp(all.v[i].name, "empty") == 0) assert_int_equal(all.v[i].created_s, 8);
    sp_collection_list_fini(&all);
    assert_int_equal(sp_shelf_count_of(s, place, &k.counts), SP_OK);
    assert_int_equal(sp_shelf_count_of(s, other_place, &k.of_files), SP_OK);
    sp_shelf_close(s);
    return k;
}

static void run(const char *format, const char *a, const char *b)
{
    char command[256];
    snprintf(command, sizeof command, format, a, b);
    assert_int_equal(system(command), 0);
}

static const int64_t all_counts = 3 * 10 + (0 + 4 + 8 + 12 + 16 + 20 + 24 + 28 + 32 + 36);

static void a_repair_keeps_collections_tags_and_counts(void **state)
{
    char dir[] = "/dev/shm/shelf-XXXXXX", path[64];
    sp_documents_repaired sum;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/documents.db", dir);
    make_file(path);
    assert_int_equal(sp_shelf_repair(path, &(sp_shelf_repair_opts){.save = true}, &sum), SP_OK);
    assert_int_equal(sum.n_saved, DOCUMENTS);
    const kept k = look(path);
    assert_int_equal(k.n_tagged, DOCUMENTS);
    assert_int_equal(k.n_collections, 2);
    assert_int_equal(k.counts, all_counts); /* the count of a passage that is in no document leaves */
    assert_int_equal(k.of_files, 5);
    run("rm -r %s%s", dir, "");
}

/* One that is being deleted is neither saved nor lost: its deletion continues in the new file. */
static void a_document_that_is_being_deleted_does_not_come_back(void **state)
{
    char dir[] = "/dev/shm/shelf-XXXXXX", path[64];
    sp_documents_repaired sum;
    sp_shelf *s;
    sp_doomed gone = {0};
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/documents.db", dir);
    make_file(path);
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    assert_int_equal(sp_shelf_doom(s, "t", "manual/d07"), SP_OK);
    sp_shelf_close(s);
    assert_int_equal(sp_shelf_repair(path, &(sp_shelf_repair_opts){.save = true}, &sum), SP_OK);
    assert_int_equal(sum.n_saved, DOCUMENTS - 1);
    assert_int_equal(sum.n_lost, 0);
    assert_int_equal(look(path).n_documents, DOCUMENTS - 1);
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    assert_int_equal(sp_shelf_doomed(s, NULL, &gone), SP_OK);
    assert_int_equal(gone.ids.n, 2);
    sp_doomed_fini(&gone);
    sp_shelf_close(s);
    run("rm -r %s%s", dir, "");
}

/* A repaired file still knows under which other titles its texts were sent; not of texts that it has not. */
static void a_repair_keeps_the_other_forms_of_texts(void **state)
{
    char dir[] = "/dev/shm/shelf-XXXXXX", path[64];
    sp_documents_repaired sum;
    sp_shelf *s;
    sp_doomed gone = {0};
    sp_digest bare = {{0}}, form = {{0}};
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/documents.db", dir);
    make_file(path);
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    snprintf((char *)bare.b, sizeof bare.b, "b%d", 7);
    snprintf((char *)form.b, sizeof form.b, "other");
    assert_int_equal(sp_shelf_add_form(s, &bare, &form), SP_OK);
    sp_shelf_close(s);
    for (int save = 1; save >= 0; save--) {
        assert_int_equal(sp_shelf_repair(path, &(sp_shelf_repair_opts){.save = save}, &sum), SP_OK);
        assert_int_equal(sp_shelf_open(path, &s), SP_OK);
        if (save) assert_int_equal(sp_shelf_doom(s, "t", "manual/d07"), SP_OK);
        assert_int_equal(sp_shelf_doomed(s, NULL, &gone), SP_OK);
        int n = 0;
        for (size_t i = 0; i < gone.ids.n; i++) n += sp_digest_eq(&gone.ids.v[i], &form);
        assert_int_equal(n, 1);
        sp_doomed_fini(&gone);
        sp_shelf_close(s);
    }
    run("rm -r %s%s", dir, "");
}

/* Every page in turn is damaged: what is lost beside it is little. */
static void a_damaged_page_costs_what_is_on_it(void **state)
{
    char dir[] = "/dev/shm/shelf-XXXXXX", path[64], whole[64];
    int n_pages = 0, n_documents = 0, n_tagged = 0;
    int64_t counts = 0;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/documents.db", dir);
    snprintf(whole, sizeof whole, "%s/whole.db", dir);
    make_file(whole);
    struct stat st;
    assert_int_equal(stat(whole, &st), 0);
    for (long at = 4096; at < st.st_size; at += 4096, n_pages++) {
        sp_documents_repaired sum;
        run("cp %s %s", whole, path);
        FILE *f = fopen(path, "r+b");
        fseek(f, at, SEEK_SET);
        for (int i = 0; i < 4096; i++) fputc(at % 8192 ? 0 : 0xA5, f);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(sp_shelf_repair(path, &(sp_shelf_repair_opts){.save = true}, &sum), SP_OK);
        const kept k = look(path);
        assert_int_equal(k.n_documents, sum.n_saved);
        n_documents += k.n_documents;
        n_tagged += k.n_tagged;
        counts += k.counts;
    }
    assert_true(n_pages > 15 && n_tagged > n_documents * 8 / 10 && counts > n_pages * all_counts * 8 / 10);
    run("rm -r %s%s", dir, "");
}

/* The advice is not that for an index, which can be rebuilt. */
/* damage_page_of -- overwrites the pages that hold a text. */
static void damage_page_of(const char *path, const char *text)
{
    enum { PAGE = 4096 };
    static uint8_t page[PAGE];
    FILE *f = fopen(path, "r+b");
    int n_found = 0;
    assert_non_null(f);
    for (long at = 0; fread(page, 1, PAGE, f) == PAGE; at += PAGE) {
        if (!memmem(page, PAGE, text, strlen(text))) continue;
        memset(page, 0xee, PAGE);
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        assert_int_equal(fwrite(page, PAGE, 1, f), 1);
        assert_int_equal(fseek(f, at + PAGE, SEEK_SET), 0);
        n_found++;
    }
    assert_int_equal(fclose(f), 0);
    assert_true(n_found > 0);
}

static bool has_collection(sp_shelf *s, const char *name)
{
    sp_collection_list l;
    if (sp_shelf_collections(s, &(sp_collections_query){.tenant = "t", .name = name}, &l) != SP_OK) return false;
    sp_collection_list_fini(&l);
    return true;
}

/* What comes after the damage is read from the end. */
static void collections_on_both_sides_of_a_damaged_page_are_kept(void **state)
{
    char dir[] = "/dev/shm/shelf-XXXXXX", path[64], name[32];
    sp_documents_repaired sum;
    sp_shelf *s;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/documents.db", dir);
    make_file(path);
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    for (int i = 0; i < 900; i++) {
        snprintf(name, sizeof name, "shelf-%03d", i);
        assert_int_equal(sp_shelf_add_collection(s, "t", name, 9), SP_OK);
    }
    sp_shelf_close(s);
    damage_page_of(path, "shelf-450");
    assert_int_equal(sp_shelf_repair(path, &(sp_shelf_repair_opts){.save = true}, &sum), SP_OK);
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    assert_true(has_collection(s, "shelf-000"));
    assert_true(has_collection(s, "shelf-899"));
    assert_false(has_collection(s, "shelf-450"));
    sp_shelf_close(s);
    run("rm -r %s%s", dir, "");
}

static void damage_that_a_statement_meets_first_says_what_to_do(void **state)
{
    sp_shelf *s;
    sqlite3_stmt *q;
    assert_int_equal(sp_shelf_open(NULL, &s), SP_OK);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
    sqlite3_exec(s->db, "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'CREATE TABLE' WHERE "
                 "name = 'chunks'; PRAGMA writable_schema = RESET;", NULL, NULL, NULL);
    assert_int_equal(sp_shelf_prepare(s, "SELECT row FROM documents", &q), SP_E_FORMAT);
    assert_non_null(strstr(sp_error_detail(), "spolia documents repair"));
    assert_null(strstr(sp_error_detail(), "spolia index"));
    sp_shelf_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repair_keeps_collections_tags_and_counts),
        cmocka_unit_test(a_document_that_is_being_deleted_does_not_come_back),
        cmocka_unit_test(a_repair_keeps_the_other_forms_of_texts),
        cmocka_unit_test(a_damaged_page_costs_what_is_on_it),
        cmocka_unit_test(collections_on_both_sides_of_a_damaged_page_are_kept),
        cmocka_unit_test(damage_that_a_statement_meets_first_says_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
