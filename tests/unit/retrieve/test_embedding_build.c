/* Vectors of an index are made in pieces, and an interruption keeps those that are made. */
#include "support/folder.h"

#include <math.h>
#include <string.h>

#include "retrieve/embedding_int.h"

enum { CHUNKS = 200, MOST_AT_ONCE = 64, DIMS = 4 };

/* What a build asks for, and when it is interrupted. */
typedef struct seen {
    int n_texts, most; /* embedded; in one call */
    int go_on;         /* calls of progress until it interrupts */
} seen;

/* vector_of -- other texts have other vectors. */
static void vector_of(const char *text, float *out)
{
    uint32_t hash = 2166136261u;
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 16777619u;
    for (int d = 0; d < DIMS; d++) out[d] = (float)(hash >> 8 * d & 255) + 1;
}

static sp_err embed(const char *const *texts, int n, float *out, void *user)
{
    seen *s = user;
    s->n_texts += n;
    s->most = n > s->most ? n : s->most;
    for (int i = 0; i < n; i++) vector_of(texts[i], out + (ptrdiff_t)i * DIMS);
    return SP_OK;
}

static bool on_progress(int64_t done, int64_t total, void *user)
{
    seen *s = user;
    return s->go_on-- > 0;
}

static sp_err update(const char *index, const char *kind, seen *s, sp_index_embed_stats *stats)
{
    const sp_embedding_build b = {
        .id = "lengths", .n_dims = DIMS, .kind = kind, .embed = embed, .progress = on_progress, .user = s};
    return sp_embedding_update(index, &b, stats);
}

/* build -- an index of CHUNKS texts in the folder, `n_kinds` different ones in turn, without vectors; its path. */
static const char *build(const char *folder, int n_kinds)
{
    static char docs[160], index[160];
    snprintf(docs, sizeof docs, "%s/docs.jsonl", folder);
    snprintf(index, sizeof index, "%s/index.db", folder);
    FILE *f = fopen(docs, "w");
    assert_non_null(f);
    for (int i = 0; i < CHUNKS; i++) {
        const int k = i % n_kinds;
        fprintf(f, "{\"text\": \"Boat %d leaves the harbour of town %d.\"}\n", k, k * k);
    }
    assert_int_equal(fclose(f), 0);
    const char *root = docs;
    assert_int_equal(sp_index_build(&root, 1, index, NULL, NULL), SP_OK);
    return index;
}

static void an_interruption_waits_for_few_chunks_and_keeps_them(void **state)
{
    const char *index = build(*state, CHUNKS);
    seen s = {0};
    sp_index_embed_stats stats = {0};
    assert_int_equal(update(index, NULL, &s, &stats), SP_E_CANCELED);
    assert_in_range(s.n_texts, 1, MOST_AT_ONCE);
    const int first = s.n_texts;
    s = (seen){.go_on = CHUNKS};
    stats = (sp_index_embed_stats){0};
    assert_int_equal(update(index, NULL, &s, &stats), SP_OK);
    assert_int_equal(stats.n_chunks, CHUNKS);
    assert_int_equal(stats.n_kept, first);
    assert_int_equal(stats.n_embedded, CHUNKS - first);
    assert_int_equal(s.n_texts, CHUNKS - first);
    assert_in_range(s.most, 1, MOST_AT_ONCE);
}

/* All chunks are found by their vectors, in an index of each kind, when it is opened again. */
static void an_opened_index_has_the_vectors_of_all_chunks(void **state)
{
    static const char *const kinds[] = {"flat", "ivf", "hnsw"};
    const char *index = build(*state, CHUNKS);
    for (size_t i = 0; i < SP_COUNT(kinds); i++) {
        seen s = {.go_on = 2 * CHUNKS};
        sp_index *ix;
        sp_vectors *x;
        sp_vectors_kind kind;
        assert_int_equal(update(index, kinds[i], &s, NULL), SP_OK);
        assert_int_equal(sp_index_open(index, &ix), SP_OK);
        assert_int_equal(sp_embedding_open(ix, "lengths", &x, &kind), SP_OK);
        assert_string_equal(sp_embedding_kind_name(kind), kinds[i]);
        assert_int_equal(sp_vectors_count(x), CHUNKS);
        sp_vectors_destroy(x);
        sp_index_close(ix);
    }
}

/* check_vectors -- each chunk of the index has the vector of its text. */
static void check_vectors(const char *index)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    const char *sql = "SELECT text, v FROM chunks JOIN vectors ON chunk = id";
    int n = 0;
    assert_int_equal(sqlite3_open_v2(index, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    for (; sqlite3_step(s) == SQLITE_ROW; n++) {
        float v[DIMS];
        vector_of((const char *)sqlite3_column_text(s, 0), v);
        assert_int_equal(sqlite3_column_bytes(s, 1), sizeof v);
        assert_memory_equal(sqlite3_column_blob(s, 1), v, sizeof v);
    }
    assert_int_equal(n, CHUNKS);
    sqlite3_finalize(s);
    sqlite3_close(db);
}

/* The first batch has all texts; later ones take its vectors, of their own text each, and embed nothing. */
static void equal_texts_share_a_vector(void **state)
{
    enum { TEXTS = 9 };
    static const char *const kinds[] = {"flat", "ivf"};
    for (size_t i = 0; i < SP_COUNT(kinds); i++) {
        const char *index = build(*state, TEXTS);
        seen s = {.go_on = CHUNKS};
        sp_index_embed_stats stats = {0};
        assert_int_equal(update(index, kinds[i], &s, &stats), SP_OK);
        assert_in_range(s.n_texts, TEXTS, MOST_AT_ONCE);
        assert_int_equal(stats.n_embedded, s.n_texts);
        assert_int_equal(stats.n_kept, CHUNKS - s.n_texts);
        check_vectors(index);
        assert_int_equal(remove(index), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(an_interruption_waits_for_few_chunks_and_keeps_them),
        FOLDER_TEST(equal_texts_share_a_vector),
        FOLDER_TEST(an_opened_index_has_the_vectors_of_all_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
