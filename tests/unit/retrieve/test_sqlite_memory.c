/* test_sqlite_memory.c -- registered documents, graphs and chunks that a graph links while SQLite's allocations fail:
 * a call fails as a whole, and the next one works. */
#include "graph_fixture.h"

#include "retrieve/index/open.h"
#include "retrieve/shelf/collections.h"
#include "retrieve/shelf/shelf_int.h"

static sqlite3_mem_methods usual;
static int n_left = -1, n_failing; /* allocations until the next failure, then how many fail; -1: none does */

static bool fails(void)
{
    if (n_left < 0) return false;
    if (n_left > 0) return n_left--, false;
    if (n_failing == 0) return n_left = -1, false;
    return n_failing--, true;
}

static void *failing_malloc(int n)
{
    return fails() ? NULL : usual.xMalloc(n);
}

static void *failing_realloc(void *p, int n)
{
    return fails() ? NULL : usual.xRealloc(p, n);
}

/* set_up -- every allocation is one of malloc. */
static int set_up(void **state)
{
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual) != SQLITE_OK) return -1;
    sqlite3_mem_methods m = usual;
    m.xMalloc = failing_malloc;
    m.xRealloc = failing_realloc;
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &m) == SQLITE_OK &&
                   sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK
               ? 0
               : -1;
}

static void fail_from(int at, int n)
{
    n_left = at;
    n_failing = n;
}

static sp_err put(sp_shelf *s, const char *id)
{
    char path[16];
    snprintf(path, sizeof path, "c/%s", id);
    const sp_shelf_row row = {.tenant = "t", .id = path, .title = id};
    sp_shelf_chunk c = {.title = "T", .text = "a text", .n_tokens = 2};
    snprintf((char *)c.ids[0].b, sizeof c.ids[0].b, "%s", id);
    return sp_shelf_put(s, &row, &c, 1);
}

static bool is_there(sp_shelf *s, const char *id)
{
    char path[16];
    sp_hits h = {0};
    snprintf(path, sizeof path, "c/%s", id);
    const sp_err err = sp_shelf_chunks(s, "t", path, 0, &h);
    assert_true(err == SP_OK || err == SP_E_NOTFOUND);
    sp_hits_fini(&h);
    return err == SP_OK;
}

/* try_put -- while allocations fail; true if none failed. */
static bool try_put(sp_shelf *s, int at, int n)
{
    fail_from(at, n);
    const sp_err err = put(s, "a");
    const bool none_failed = n_failing == n;
    fail_from(-1, 0);
    if (err != SP_OK && err != SP_E_NOMEM) fail_msg("at %d: %d %s", at, err, sp_error_detail());
    assert_int_equal(is_there(s, "a"), err == SP_OK);
    assert_int_equal(put(s, "b"), SP_OK);
    if (err == SP_OK) assert_int_equal(sp_shelf_doom(s, "t", "c/a"), SP_OK);
    assert_int_equal(sp_shelf_doom(s, "t", "c/b"), SP_OK);
    return none_failed;
}

static void a_document_is_registered_after_another_failed_at(int n)
{
    char dir[] = "/tmp/shelf-XXXXXX", path[64];
    sp_shelf *s;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/documents.db", dir);
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    assert_int_equal(sqlite3_exec(s->db, "PRAGMA synchronous = OFF", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sp_shelf_add_collection(s, "t", "c", 1), SP_OK);
    int at = 0;
    while (!try_put(s, at, n)) at++;
    assert_true(at > 100);
    sp_shelf_close(s);
    unlink(path);
    rmdir(dir);
}

static void after_any_allocation_fails_the_next_document_is_registered(void **state)
{
    a_document_is_registered_after_another_failed_at(1);
}

static void after_three_allocations_fail_the_next_document_is_registered(void **state)
{
    a_document_is_registered_after_another_failed_at(3);
}

/* Until the call ends: neither COMMIT nor ROLLBACK can be compiled. */
static void after_all_allocations_fail_the_next_document_is_registered(void **state)
{
    a_document_is_registered_after_another_failed_at(1 << 30);
}

/* lacks_vectors -- the document that does, or 0. */
static int64_t lacks_vectors(sp_shelf *s)
{
    int64_t document = 0;
    assert_ok(sp_shelf_unembedded(s, "e", NULL, NULL, &document));
    return document;
}

/* try_vectors -- writes the last vectors of the only document while allocations fail; true if none failed. */
static bool try_vectors(sp_shelf *s, int at, int n)
{
    static const float v[] = {1, 2};
    const sp_shelf_encoder e = {.id = "e", .n_dims = 2};
    const sp_shelf_vectors last = {.document = lacks_vectors(s), .v = v, .n = 1, .last = true};
    const uint64_t version = sp_shelf_version(s, "t", "c");
    assert_true(last.document > 0);
    fail_from(at, n);
    const sp_err err = sp_shelf_put_vectors(s, &e, &last);
    const bool none_failed = n_failing == n;
    fail_from(-1, 0);
    if (err != SP_OK && err != SP_E_NOMEM) fail_msg("at %d: %d %s", at, err, sp_error_detail());
    assert_int_equal(lacks_vectors(s), err == SP_OK ? 0 : last.document);
    if (err == SP_OK && sp_shelf_version(s, "t", "c") == version) fail_msg("at %d: no search sees them", at);
    if (err == SP_OK) { /* again without */
        assert_int_equal(sp_shelf_doom(s, "t", "c/a"), SP_OK);
        assert_int_equal(put(s, "a"), SP_OK);
    }
    return none_failed;
}

static void vectors_are_seen_or_missing_when_an_allocation_fails(void **state)
{
    sp_shelf *s;
    assert_int_equal(sp_shelf_open(NULL, &s), SP_OK);
    assert_int_equal(sp_shelf_add_collection(s, "t", "c", 1), SP_OK);
    assert_int_equal(put(s, "a"), SP_OK);
    int at = 0;
    while (!try_vectors(s, at, 1)) at++;
    assert_true(at > 50);
    sp_shelf_close(s);
}

/* -- graphs ------------------------------------------------------------------------------------ */

static bool has_paths(sp_graph *g, sp_err *err)
{
    sp_graph_answer a = {0};
    *err = sp_graph_find_paths(g, "Where is Elm?", &(sp_graph_paths_opts){0}, &a);
    const bool good = *err == SP_OK && a.n_paths == 1 && strcmp(a.paths[0].text, "Elm -near-> Oak") == 0;
    if (*err == SP_OK) sp_graph_answer_fini(&a);
    return good;
}

static void check_answers_while_fail(folder *f, int n)
{
    sp_err err;
    bool none_failed = false;
    graph_make(f, "a.tsv", "Elm\tnear\tOak\n");
    sp_graph *g = graph_open(f);
    int at = 0;
    for (; !none_failed; at++) {
        fail_from(at, n);
        const bool good = has_paths(g, &err);
        none_failed = n_failing == n;
        fail_from(-1, 0);
        if (!good && err != SP_E_NOMEM) fail_msg("at %d: %d %s", at, err, sp_error_detail());
        assert_true(has_paths(g, &err));
    }
    assert_true(at > 10);
    graph_make(f, "b.tsv", "Fir\tnear\tAsh\n"); /* no reader keeps it from that */
    sp_graph_close(g);
}

static void a_graph_loses_no_name_when_an_allocation_fails(void **state)
{
    check_answers_while_fail(*state, 1);
}

/* Neither BEGIN nor COMMIT needs memory. */
static void a_graph_answers_after_all_allocations_failed(void **state)
{
    check_answers_while_fail(*state, 1 << 30);
}

/* -- chunks that a graph links ----------------------------------------------------------------- */

/* is_linked -- whether chunk 1 is linked to chunk 2 alone. */
static bool is_linked(sp_index *ix, sp_err *err)
{
    sp_hits h = {0};
    *err = sp_index_similar(ix, "graph", 1, 9, &h);
    const bool good = *err == SP_OK && h.n == 1 && h.v[0].id == 2 && strcmp(h.v[0].title, "Mole") == 0;
    if (*err == SP_OK) sp_hits_fini(&h);
    return good;
}

/* try_link -- opens the index and links its chunks while allocations fail; true if none failed. */
static bool try_link(folder *f, int at, int n)
{
    sp_index *ix;
    sp_err err;
    assert_ok(sp_index_open(f->index, &ix));
    fail_from(at, n);
    const bool good = is_linked(ix, &err), none_failed = n_failing == n;
    fail_from(-1, 0);
    if (!good && err != SP_E_NOMEM) fail_msg("at %d: %d %s", at, err, sp_error_detail());
    if (!sqlite3_get_autocommit(ix->db)) fail_msg("at %d: a transaction is open", at); /* no writer could write */
    if (!is_linked(ix, &err)) fail_msg("after one at %d: %d %s", at, err, sp_error_detail());
    sp_index_close(ix);
    return none_failed;
}

static void check_links_while_fail(folder *f, int n)
{
    folder_write(f, "a.jsonl", "{\"title\": \"Badger\", \"text\": \"Digs setts.\"}\n"
                               "{\"title\": \"Mole\", \"text\": \"Digs tunnels.\"}\n"
                               "{\"title\": \"Heron\", \"text\": \"Eats fish.\"}\n");
    folder_index(f);
    graph_make(f, "t.tsv", "Elm\tnear\tOak\ta.jsonl#1\nElm\tnear\tFir\ta.jsonl#2\nAsh\tnear\tYew\ta.jsonl#3\n");
    int at = 0;
    while (!try_link(f, at, n)) at++;
    assert_true(at > 100);
}

static void a_chunk_is_linked_after_any_allocation_failed(void **state)
{
    check_links_while_fail(*state, 1);
}

static void a_chunk_is_linked_after_all_allocations_failed(void **state)
{
    check_links_while_fail(*state, 1 << 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_any_allocation_fails_the_next_document_is_registered),
        cmocka_unit_test(after_three_allocations_fail_the_next_document_is_registered),
        cmocka_unit_test(after_all_allocations_fail_the_next_document_is_registered),
        cmocka_unit_test(vectors_are_seen_or_missing_when_an_allocation_fails),
        FOLDER_TEST(a_graph_loses_no_name_when_an_allocation_fails),
        FOLDER_TEST(a_graph_answers_after_all_allocations_failed),
        FOLDER_TEST(a_chunk_is_linked_after_any_allocation_failed),
        FOLDER_TEST(a_chunk_is_linked_after_all_allocations_failed),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
