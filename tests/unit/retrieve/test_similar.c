/* Chunks like a chunk, and chunks by id and by name. */
#include "graph_fixture.h"

#include <sqlite3.h>

static int corpus_setup(void **state)
{
    if (folder_setup(state) != 0) return -1;
    folder *f = *state;
    folder_write(f, "animals.jsonl",
                 "{\"title\": \"Badger\", \"text\": \"Digs setts, eats earthworms at night.\"}\n"
                 "{\"title\": \"Mole\", \"text\": \"Digs tunnels, stores earthworms.\"}\n"
                 "{\"title\": \"Otter\", \"text\": \"Swims in rivers, catches fish.\"}\n"
                 "{\"title\": \"Meles\", \"text\": \"Digs setts, eats earthworms at night.\"}\n"
                 "{\"title\": \"Heron\", \"text\": \"Stands in rivers, eats fish.\"}\n"
                 "{\"title\": \"\", \"text\": \"Of the and.\"}\n");
    folder_write(f, "walk.md",
                 "# Walk\n\nOne leaves the gate early.\n\n## Hill\n\nTwo goes up the hill.\n\n"
                 "## Wood\n\nThree is in the wood.\n\n## Lake\n\nFour comes to the lake.\n\n"
                 "## Home\n\nFive is home again.\n");
    folder_index(f);
    return 0;
}

#define CORPUS_TEST(test) cmocka_unit_test_setup_teardown(test, corpus_setup, folder_teardown)

static sp_index *open_index(folder *f)
{
    sp_index *ix = NULL;
    if (sp_index_open(f->index, &ix) != SP_OK) fail_msg("%s", sp_error_detail());
    return ix;
}

/* join -- the titles of hits with bars between; gives the hits back. */
static const char *join(sp_hits *h)
{
    static char out[1024];
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < h->n; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", i ? "|" : "", h->v[i].title);
    sp_hits_fini(h);
    return out;
}

/* id_of -- the first chunk with this title. */
static int64_t id_of(sp_index *ix, const char *title)
{
    sp_hits h;
    for (int64_t id = 0;; sp_hits_fini(&h)) {
        assert_int_equal(sp_index_chunk(ix, id, &h), SP_OK);
        assert_int_equal(h.n, 1);
        id = h.v[0].id;
        if (strcmp(h.v[0].title, title) == 0) break;
    }
    int64_t found = h.v[0].id;
    sp_hits_fini(&h);
    return found;
}

static const char *similar(sp_index *ix, const char *source, const char *title, int k)
{
    sp_hits h;
    if (sp_index_similar(ix, source, id_of(ix, title), k, &h) != SP_OK)
        fail_msg("%s", sp_error_detail());
    return join(&h);
}

static void bm25_finds_what_shares_words(void **state)
{
    sp_index *ix = open_index(*state);
    /* Meles says the same as Badger, word for word: no use to it */
    assert_string_equal(similar(ix, "bm25", "Badger", 9), "Mole|Heron");
    assert_string_equal(similar(ix, "bm25", "Badger", 1), "Mole");
    assert_string_equal(similar(ix, "bm25", "Otter", 1), "Heron");
    assert_string_equal(similar(ix, "bm25", "Mole", 2), "Badger|Meles"); /* equal: by id */
    sp_index_close(ix);
}

static void scores_fall(void **state)
{
    static const char *const names[] = {"bm25", "neighbour"};
    sp_index *ix = open_index(*state);
    for (int s = 0; s < 2; s++) {
        sp_hits h;
        int64_t id = id_of(ix, s ? "Walk > Wood" : "Mole");
        assert_int_equal(sp_index_similar(ix, names[s], id, 9, &h), SP_OK);
        assert_true(h.n >= 2);
        for (int i = 0; i < h.n; i++) {
            assert_true(h.v[i].score > 0);
            assert_true(h.v[i].id != id);
            if (i) assert_true(h.v[i].score <= h.v[i - 1].score);
            assert_true(h.v[i].text[0] && h.v[i].file[0]);
        }
        sp_hits_fini(&h);
    }
    sp_index_close(ix);
}

static void a_chunk_of_stop_words(void **state)
{
    sp_index *ix = open_index(*state);
    /* stop words are searched for when they are all there is, as with questions */
    sp_hits h;
    assert_int_equal(sp_index_similar(ix, "bm25", id_of(ix, ""), 9, &h), SP_OK);
    assert_true(h.n > 0);
    for (int i = 0; i < h.n; i++) assert_non_null(strstr(h.v[i].text, "the"));
    for (int i = 0; i < h.n; i++) assert_string_not_equal(h.v[i].text, "Of the and.");
    sp_hits_fini(&h);
    sp_index_close(ix);
}

static void neighbours_stand_nearest_first(void **state)
{
    sp_index *ix = open_index(*state);
    assert_string_equal(similar(ix, "neighbour", "Walk > Wood", 9),
                        "Walk > Hill|Walk > Lake|Walk|Walk > Home");
    assert_string_equal(similar(ix, "neighbour", "Walk > Wood", 3), "Walk > Hill|Walk > Lake|Walk");
    assert_string_equal(similar(ix, "neighbour", "Walk", 2), "Walk > Hill|Walk > Wood");
    assert_string_equal(similar(ix, "neighbour", "Walk > Home", 1), "Walk > Lake");
    /* a line of JSONL is a document of its own */
    assert_string_equal(similar(ix, "neighbour", "Mole", 9), "");
    sp_index_close(ix);
}

static void any_chunks_the_same_each_time(void **state)
{
    sp_index *ix = open_index(*state);
    char first[1024];
    snprintf(first, sizeof first, "%s", similar(ix, "random", "Badger", 4));
    assert_string_equal(similar(ix, "random", "Badger", 4), first);
    assert_string_not_equal(similar(ix, "random", "Mole", 4), first);
    const char *all = similar(ix, "random", "Badger", 99); /* without itself and its copy */
    int n = 1;
    for (const char *c = all; *c; c++) n += *c == '|';
    assert_int_equal(n, sp_index_n_chunks(ix) - 2);
    assert_null(strstr(all, "Badger"));
    assert_null(strstr(all, "Meles"));
    assert_memory_equal(all, first, strlen(first));
    sp_index_close(ix);
}

/* Of an index with millions of chunks any are drawn, not the first. */
static void any_chunks_of_a_large_index(void **state)
{
    const folder *f = *state;
    sqlite3 *db;
    sp_hits h;
    int n_after = 0, n = 0;
    assert_int_equal(sqlite3_open_v2(f->index, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE chunks SET id = id + 5000000", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    sp_index *ix = open_index(*state);
    assert_int_equal(sp_index_similar(ix, "random", id_of(ix, "Badger"), 99, &h), SP_OK);
    assert_int_equal(h.n, sp_index_n_chunks(ix) - 2);
    for (int i = 1; i < h.n; i++) n_after += h.v[i].id > h.v[i - 1].id, n++;
    assert_in_range(n_after, 1, n - 1);
    sp_hits_fini(&h);
    assert_int_equal(sp_index_similar(ix, "random", 1, 9, &h), SP_E_ARG); /* not the next chunk */
    sp_index_close(ix);
}

/* Questions tell that fish and rivers belong together, and never ask for moles. */
static void found_by_the_same_questions(void **state)
{
    sp_index *ix = open_index(*state);
    sp_hits h = {.n = -7};
    assert_int_equal(sp_index_similar(ix, "together", id_of(ix, "Otter"), 3, &h), SP_E_ARG);
    assert_non_null(strstr(sp_error_detail(), "questions"));
    assert_int_equal(sp_index_note_question(ix, "What catches fish?", 2), SP_OK); /* Otter, Heron */
    assert_int_equal(sp_index_note_question(ix, "Which stands and eats at night?", 3), SP_OK);
    assert_int_equal(sp_index_note_question(ix, "fish or rivers", 2), SP_OK);
    assert_string_equal(similar(ix, "together", "Otter", 9), "Heron");
    assert_string_equal(similar(ix, "together", "Heron", 9), "Otter|Badger|Meles"); /* twice, once, once: by id */
    assert_string_equal(similar(ix, "together", "Heron", 1), "Otter");
    assert_string_equal(similar(ix, "together", "Badger", 9), "Heron"); /* Meles is its copy */
    assert_string_equal(similar(ix, "together", "Mole", 2), "Badger|Meles"); /* no question found it: as bm25 */
    assert_int_equal(sp_index_similar(ix, "together", id_of(ix, "Heron"), 9, &h), SP_OK);
    assert_true(h.v[0].score == 2 && h.v[1].score == 1);
    sp_hits_fini(&h);
    sp_index_close(ix);
    ix = open_index(*state); /* nothing was written */
    assert_int_equal(sp_index_similar(ix, "together", id_of(ix, "Otter"), 3, &h), SP_E_ARG);
    sp_index_close(ix);
}

/* row -- a line of triples from the chunk with this title. */
static size_t row(sp_index *ix, char *to, size_t room, const char *title, const char *triple)
{
    return (size_t)snprintf(to, room, "%s\tanimals.jsonl#%lld\n", triple, (long long)id_of(ix, title));
}

/* Lutra is named by two chunks, England by four: the rarer name is the stronger link. */
static void named_by_the_same_triples(void **state)
{
    folder *f = *state;
    sp_index *ix = open_index(f);
    sp_hits h = {.n = -7};
    char text[1024];
    assert_int_equal(sp_index_similar(ix, "graph", id_of(ix, "Otter"), 3, &h), SP_E_ARG);
    assert_non_null(strstr(sp_error_detail(), "graph"));
    size_t n = row(ix, text, sizeof text, "Badger", "Meles meles\tlives in\tEngland");
    n += row(ix, text + n, sizeof text - n, "Otter", "Lutra\tlives in\tEngland");
    n += row(ix, text + n, sizeof text - n, "Otter", "Lutra\teats\tTrout");
    n += row(ix, text + n, sizeof text - n, "Mole", "Lutra\tis not\tTalpa");
    n += row(ix, text + n, sizeof text - n, "Heron", "Ardea\tlives in\tEngland");
    n += row(ix, text + n, sizeof text - n, "Meles", "Old Brock\tlives in\tEngland");
    n += (size_t)snprintf(text + n, sizeof text - n, "Talpa\tis\tTrout\tanimals.jsonl#999\n");
    snprintf(text + n, sizeof text - n, "Talpa\tin\tEngland\telsewhere\n");
    graph_make(f, "t.tsv", text);
    assert_string_equal(similar(ix, "graph", "Otter", 9), "Mole|Badger|Meles|Heron"); /* 1, then 1 / 3 each: by id */
    assert_string_equal(similar(ix, "graph", "Mole", 9), "Otter");
    assert_string_equal(similar(ix, "graph", "Badger", 9), "Otter|Heron"); /* Meles is its copy */
    snprintf(text, sizeof text, "%s", similar(ix, "bm25", "Walk > Wood", 2));
    assert_string_equal(similar(ix, "graph", "Walk > Wood", 2), text); /* no triple names it */
    assert_int_equal(sp_index_similar(ix, "graph", id_of(ix, "Otter"), 9, &h), SP_OK);
    assert_true(h.v[0].score == 1 && h.v[1].score > 0.33 && h.v[1].score < 0.34);
    sp_hits_fini(&h);
    sp_index_close(ix);
}

/* Both Badger and Heron state the triple that Otter states first. */
static void chunks_that_state_the_same_triple_are_linked(void **state)
{
    folder *f = *state;
    sp_index *ix = open_index(f);
    char text[1024];
    size_t n = row(ix, text, sizeof text, "Otter", "Lutra\tlives in\tEngland");
    n += row(ix, text + n, sizeof text - n, "Badger", "Lutra\tlives in\tEngland");
    n += row(ix, text + n, sizeof text - n, "Heron", "Lutra\tlives in\tEngland");
    row(ix, text + n, sizeof text - n, "Mole", "Talpa\tlives in\tEngland");
    graph_make(f, "t.tsv", text);
    assert_string_equal(similar(ix, "graph", "Badger", 9), "Otter|Heron|Mole"); /* 1 / 2 + 1 / 3, by id; Mole 1 / 3 */
    sp_index_close(ix);
}

static void triples_of_no_chunk_link_none(void **state)
{
    folder *f = *state;
    graph_make(f, "t.tsv", "a\tr\tb\nb\tr\tc\tanimals.jsonl\nc\tr\ta\tother.jsonl#1\n");
    sp_index *ix = open_index(f);
    sp_hits h = {.n = -7};
    for (int i = 0; i < 2; i++) { /* a failure leaves no tables */
        assert_int_equal(sp_index_similar(ix, "graph", id_of(ix, "Otter"), 3, &h), SP_E_ARG);
        assert_non_null(strstr(sp_error_detail(), "FILE#ID"));
    }
    sp_index_close(ix);
}

static void more_words_than_a_question_may_have(void **state)
{
    folder *f = *state;
    static char text[16000];
    size_t n = (size_t)snprintf(text, sizeof text, "{\"title\": \"Long\", \"text\": \"");
    for (int i = 0; i < 1000; i++) n += (size_t)snprintf(text + n, sizeof text - n, "word%d ", i);
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "\"}\n{\"title\": \"A\", \"text\": \"word3\"}\n"
                          "{\"title\": \"B\", \"text\": \"word999\"}\n");
    folder_write_n(f, "long.jsonl", text, n);
    sp_index_stats stats;
    assert_int_equal(folder_build(f, 2000, &stats), SP_OK);
    sp_index *ix = open_index(f);
    assert_string_equal(similar(ix, "bm25", "Long", 9), "A"); /* B is beyond the 256th word */
    assert_string_equal(similar(ix, "bm25", "B", 9), "Long");
    sp_index_close(ix);
}

static void unchanged_by_another_build(void **state)
{
    folder *f = *state;
    char first[1024];
    sp_index *ix = open_index(f);
    snprintf(first, sizeof first, "%s", similar(ix, "bm25", "Heron", 9));
    sp_index_close(ix);
    remove(f->index);
    folder_index(f);
    ix = open_index(f);
    assert_string_equal(similar(ix, "bm25", "Heron", 9), first);
    sp_index_close(ix);
}

static void chunks_in_order(void **state)
{
    sp_index *ix = open_index(*state);
    int64_t id = 0, n = 0;
    for (;; n++) {
        sp_hits h;
        assert_int_equal(sp_index_chunk(ix, id, &h), SP_OK);
        bool any = h.n == 1;
        if (any) {
            assert_true(h.v[0].id > id);
            id = h.v[0].id;
        }
        sp_hits_fini(&h);
        if (!any) break;
    }
    assert_int_equal(n, sp_index_n_chunks(ix));
    assert_int_equal(n, 11);
    sp_index_close(ix);
}

static const char *document(sp_index *ix, const char *name)
{
    sp_hits h;
    assert_int_equal(sp_index_document(ix, name, &h), SP_OK);
    return join(&h);
}

static void documents_by_name(void **state)
{
    sp_index *ix = open_index(*state);
    static const char walk[] = "Walk|Walk > Hill|Walk > Wood|Walk > Lake|Walk > Home";
    assert_string_equal(document(ix, "walk.md"), walk);
    assert_string_equal(document(ix, "Walk"), walk);
    assert_string_equal(document(ix, "Walk > Hill"), walk);
    assert_string_equal(document(ix, "Otter"), "Otter");
    assert_string_equal(document(ix, "animals.jsonl"), "Badger"); /* the first of six */
    assert_string_equal(document(ix, "Wal"), "");
    assert_string_equal(document(ix, "walk"), "");
    assert_string_equal(document(ix, "%"), "");
    sp_index_close(ix);
}

static void refusals(void **state)
{
    sp_index *ix = open_index(*state);
    sp_hits h = {.n = -7};
    assert_int_equal(sp_index_similar(ix, "cosine", 1, 3, &h), SP_E_ARG);
    assert_non_null(strstr(sp_error_detail(), "cosine"));
    assert_non_null(strstr(sp_error_detail(), "bm25"));
    static const int64_t ids[] = {0, -1, INT64_MIN, 12, INT64_MAX};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(sp_index_similar(ix, "bm25", ids[i], 3, &h), SP_E_ARG);
        assert_int_equal(sp_index_similar(ix, "neighbour", ids[i], 3, &h), SP_E_ARG);
    }
    assert_int_equal(sp_index_similar(ix, "bm25", 1, 0, &h), SP_E_ARG);
    assert_int_equal(h.n, -7);
    sp_index_close(ix);
}

static void without_memory(void **state)
{
    sp_index *ix = open_index(*state);
    sp_hits h = {.n = -7};
    long n = 0;
    sp_err err = SP_E_NOMEM;
    while (err != SP_OK) {
        sp_fault_after(++n);
        err = sp_index_similar(ix, "bm25", 1, 3, &h);
        sp_fault_after(-1);
        if (err == SP_OK) break;
        assert_int_equal(err, SP_E_NOMEM);
        assert_int_equal(h.n, -7);
    }
    assert_true(n > 3);
    assert_int_equal(h.n, 2);
    sp_hits_fini(&h);
    sp_index_close(ix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CORPUS_TEST(bm25_finds_what_shares_words),
        CORPUS_TEST(scores_fall),
        CORPUS_TEST(a_chunk_of_stop_words),
        CORPUS_TEST(neighbours_stand_nearest_first),
        CORPUS_TEST(any_chunks_the_same_each_time),
        CORPUS_TEST(any_chunks_of_a_large_index),
        CORPUS_TEST(found_by_the_same_questions),
        CORPUS_TEST(named_by_the_same_triples),
        CORPUS_TEST(chunks_that_state_the_same_triple_are_linked),
        CORPUS_TEST(triples_of_no_chunk_link_none),
        CORPUS_TEST(more_words_than_a_question_may_have),
        CORPUS_TEST(unchanged_by_another_build),
        CORPUS_TEST(chunks_in_order),
        CORPUS_TEST(documents_by_name),
        CORPUS_TEST(refusals),
        CORPUS_TEST(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
