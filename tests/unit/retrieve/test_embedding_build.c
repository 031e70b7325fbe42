/* Vectors of an index are made in pieces, and an interruption keeps those that are made. */
#include "support/folder.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "retrieve/index/embedding_int.h"

enum { CHUNKS = 200, MOST_AT_ONCE = 64, DIMS = 4 };

/* What a build asks for, and when it is interrupted. */
typedef struct seen {
    int n_texts, most; /* embedded; in one call */
    int go_on;         /* calls of progress until it interrupts */
} seen;

/* vector_of -- of length 1; other texts have other vectors. */
static void vector_of(const char *text, float *out)
{
    uint64_t hash = 0xcbf29ce484222325u;
    float sum = 0;
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    for (int d = 0; d < DIMS; d++) {
        out[d] = (float)(int)(hash >> 15 * d & 0x7fff) - 0x3fff;
        sum += out[d] * out[d];
    }
    for (int d = 0; d < DIMS; d++) out[d] /= sqrtf(sum);
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

/* check_clusters -- each vector is in the list of its nearest centroid; returns how many centroids there are. */
static int check_clusters(const char *index)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    static float centroids[CHUNKS][DIMS];
    assert_int_equal(sqlite3_open_v2(index, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT centroids FROM embedding", -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    const int n_bytes = sqlite3_column_bytes(s, 0), n = n_bytes / (int)sizeof *centroids;
    assert_in_range(n, 1, CHUNKS);
    memcpy(centroids, sqlite3_column_blob(s, 0), (size_t)n_bytes);
    sqlite3_finalize(s);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT cluster, v FROM vectors", -1, &s, NULL), SQLITE_OK);
    while (sqlite3_step(s) == SQLITE_ROW) {
        const float *v = sqlite3_column_blob(s, 1);
        float product[CHUNKS] = {0}, most = -2;
        for (int i = 0; i < n; i++) {
            for (int d = 0; d < DIMS; d++) product[i] += v[d] * centroids[i][d];
            most = fmaxf(most, product[i]);
        }
        assert_in_range(sqlite3_column_int(s, 0), 0, n - 1);
        assert_true(product[sqlite3_column_int(s, 0)] > most - 1e-5f);
    }
    sqlite3_finalize(s);
    sqlite3_close(db);
    return n;
}

/* check_vectors -- each of the n chunks of the index has the vector of its text, and is the nearest to it. */
static void check_vectors(const char *index, int n_chunks)
{
    const char *sql = "SELECT id, text, v FROM chunks JOIN vectors ON chunk = id";
    sqlite3 *db;
    sqlite3_stmt *s;
    sp_index *ix;
    sp_vectors *x;
    sp_vectors_kind kind;
    int n = 0;
    assert_int_equal(sp_index_open(index, &ix), SP_OK);
    assert_int_equal(sp_embedding_open(ix, "lengths", &x, &kind), SP_OK);
    assert_int_equal(sp_vectors_count(x), n_chunks);
    assert_int_equal(sqlite3_open_v2(index, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    for (; sqlite3_step(s) == SQLITE_ROW; n++) {
        float v[DIMS];
        sp_near found[CHUNKS];
        int n_found = 0;
        const sp_vectors_query q = {.v = v, .k = CHUNKS, .breadth = CHUNKS};
        vector_of((const char *)sqlite3_column_text(s, 1), v);
        assert_int_equal(sqlite3_column_bytes(s, 2), sizeof v);
        assert_memory_equal(sqlite3_column_blob(s, 2), v, sizeof v);
        assert_int_equal(sp_vectors_search(x, &q, found, &n_found), SP_OK);
        assert_int_equal(n_found, n_chunks);
        int at = 0; /* equal texts are equally near */
        while (at < n_found && found[at].id != sqlite3_column_int64(s, 0)) at++;
        assert_true(at < n_found && fabsf(found[at].distance - found[0].distance) < 1e-5f);
    }
    assert_int_equal(n, n_chunks);
    sqlite3_finalize(s);
    sqlite3_close(db);
    sp_vectors_destroy(x);
    sp_index_close(ix);
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
        check_vectors(index, CHUNKS);
        assert_int_equal(remove(index), 0);
    }
}

/* Chunks with the text of one have its vector, and are no use to it: others are found, as many as there are. */
static void the_nearest_of_a_chunk_have_other_texts(void **state)
{
    const char *index = build(*state, 9);
    seen s = {.go_on = CHUNKS};
    sp_index *ix;
    sp_hits one, near;
    assert_int_equal(update(index, "flat", &s, NULL), SP_OK);
    assert_int_equal(sp_index_open(index, &ix), SP_OK);
    assert_int_equal(sp_index_chunk(ix, 0, &one), SP_OK);
    assert_int_equal(sp_index_similar(ix, "vectors", one.v[0].id, 30, &near), SP_OK);
    assert_int_equal(near.n, 30);
    for (int i = 0; i < near.n; i++) assert_string_not_equal(near.v[i].text, one.v[0].text);
    sp_hits_fini(&near);
    assert_int_equal(sp_index_similar(ix, "vectors", one.v[0].id, INT_MAX, &near), SP_OK); /* all others */
    assert_in_range(near.n, CHUNKS - CHUNKS / 9 - 1, CHUNKS - CHUNKS / 9);
    sp_hits_fini(&one);
    sp_hits_fini(&near);
    sp_index_close(ix);
}

static void run(const char *index, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(index, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void counts(const char *index, const char *kind, int64_t n_embedded, int64_t n_kept, int64_t n_removed)
{
    seen s = {.go_on = 2 * CHUNKS};
    sp_index_embed_stats stats = {0};
    assert_int_equal(update(index, kind, &s, &stats), SP_OK);
    assert_int_equal(stats.n_embedded, n_embedded);
    assert_int_equal(stats.n_kept, n_kept);
    assert_int_equal(stats.n_removed, n_removed);
    check_vectors(index, (int)(n_embedded + n_kept));
    if (strcmp(kind, "ivf") == 0) check_clusters(index);
}

/* By each kind: nothing is embedded twice; chunks that are gone lose their vectors, changed ones get another. */
static void vectors_follow_the_chunks(void **state)
{
    static const char *const kinds[] = {"flat", "ivf", "hnsw"};
    for (size_t i = 0; i < SP_COUNT(kinds); i++) {
        const char *index = build(*state, CHUNKS);
        counts(index, kinds[i], CHUNKS, 0, 0);
        counts(index, kinds[i], 0, CHUNKS, 0);
        run(index, "DELETE FROM chunks WHERE id % 4 = 0");
        counts(index, kinds[i], 0, CHUNKS - CHUNKS / 4, CHUNKS / 4);
        run(index, "UPDATE chunks SET text = text || ' Twice.' WHERE id % 4 = 1");
        counts(index, kinds[i], CHUNKS / 4, CHUNKS / 2, 0);
        counts(index, kinds[(i + 1) % SP_COUNT(kinds)], 0, CHUNKS - CHUNKS / 4, 0);
        assert_int_equal(remove(index), 0);
    }
}

/* Twice the root of the vectors; others are found where there are many more or fewer. */
static void clusters_follow_the_number_of_vectors(void **state)
{
    const char *index = build(*state, CHUNKS);
    counts(index, "ivf", CHUNKS, 0, 0);
    assert_int_equal(check_clusters(index), 29);
    run(index, "DELETE FROM chunks WHERE id % 5 = 0");
    counts(index, "ivf", 0, CHUNKS - CHUNKS / 5, CHUNKS / 5);
    assert_int_equal(check_clusters(index), 29);
    run(index, "DELETE FROM chunks WHERE id % 5 <> 1");
    counts(index, "ivf", 0, CHUNKS / 5, CHUNKS - 2 * CHUNKS / 5);
    assert_int_equal(check_clusters(index), 13);
}

/* swap_file -- writes the bytes of a file, if there are some, and returns those that it had. */
static sp_bytes swap_file(const char *path, sp_bytes with)
{
    sp_bytes was = {0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    for (int c; (c = getc(f)) != EOF;) assert_int_equal(sp_bytes_add(&was, &(char){(char)c}, 1), SP_OK);
    fclose(f);
    if (!with.n) return was;
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(with.v, 1, with.n, f), with.n);
    assert_int_equal(fclose(f), 0);
    return was;
}

/* A graph that was put back from an older copy of the folder does not answer for the newer index. */
static void an_older_graph_is_not_used(void **state)
{
    char path[200];
    const char *index = build(*state, CHUNKS);
    counts(index, "hnsw", CHUNKS, 0, 0);
    snprintf(path, sizeof path, "%s.graph", index);
    sp_bytes older = swap_file(path, (sp_bytes){0});
    run(index, "UPDATE chunks SET text = text || ' Twice.' WHERE id % 4 = 1");
    counts(index, "hnsw", CHUNKS / 4, CHUNKS - CHUNKS / 4, 0);
    sp_bytes newer = swap_file(path, older);
    check_vectors(index, CHUNKS);
    sp_vec_fini(&older);
    sp_vec_fini(&newer);
}

static sp_err embed_wide(const char *const *texts, int n, float *out, void *user)
{
    for (int i = 0; i < n; i++)
        for (int half = 0; half < 2; half++) vector_of(texts[i], out + (ptrdiff_t)(2 * i + half) * DIMS);
    return SP_OK;
}

/* Also of an encoder that calls itself the same. */
static void vectors_of_another_width_replace_those_that_are_there(void **state)
{
    const char *index = build(*state, CHUNKS);
    sp_index_embed_stats stats;
    counts(index, "flat", CHUNKS, 0, 0);
    const sp_embedding_build wide = {.id = "lengths", .n_dims = 2 * DIMS, .kind = "flat", .embed = embed_wide};
    assert_int_equal(sp_embedding_update(index, &wide, &stats), SP_OK);
    assert_true(stats.n_embedded == CHUNKS && stats.n_kept == 0);
}

/* What an index holds is checked before a search trusts it. */
static void vectors_that_do_not_fit_are_refused(void **state)
{
    const char *index = build(*state, CHUNKS);
    sp_index *ix;
    sp_vectors *x;
    sp_vectors_kind kind;
    counts(index, "flat", CHUNKS, 0, 0);
    assert_int_equal(sp_index_open(index, &ix), SP_OK);
    assert_int_equal(sp_embedding_open(ix, "widths", &x, &kind), SP_E_ARG); /* another encoder's */
    assert_int_equal(sp_embedding_open(ix, NULL, &x, &kind), SP_OK);
    sp_vectors_destroy(x);
    sp_index_close(ix);
    run(index, "UPDATE vectors SET v = x'00000000' WHERE chunk = 7");
    assert_int_equal(sp_index_open(index, &ix), SP_OK);
    assert_int_equal(sp_embedding_open(ix, "lengths", &x, &kind), SP_E_FORMAT);
    sp_index_close(ix);
}

/* A passage is embedded with its title above it. */
static void a_title_is_part_of_the_text(void **state)
{
    const char *index = build(*state, CHUNKS);
    sqlite3 *db;
    sqlite3_stmt *s;
    float want[DIMS];
    run(index, "UPDATE chunks SET title = 'Boats' WHERE id = 3");
    seen e = {.go_on = CHUNKS};
    assert_int_equal(update(index, "flat", &e, NULL), SP_OK);
    assert_int_equal(sqlite3_open_v2(index, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    const char *sql = "SELECT title || char(10) || text, v FROM chunks JOIN vectors ON chunk = id WHERE id = 3";
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    vector_of((const char *)sqlite3_column_text(s, 0), want);
    assert_memory_equal(sqlite3_column_blob(s, 1), want, sizeof want);
    sqlite3_finalize(s);
    sqlite3_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(an_interruption_waits_for_few_chunks_and_keeps_them),
        FOLDER_TEST(vectors_follow_the_chunks),
        FOLDER_TEST(clusters_follow_the_number_of_vectors),
        FOLDER_TEST(an_older_graph_is_not_used),
        FOLDER_TEST(vectors_of_another_width_replace_those_that_are_there),
        FOLDER_TEST(vectors_that_do_not_fit_are_refused),
        FOLDER_TEST(a_title_is_part_of_the_text),
        FOLDER_TEST(equal_texts_share_a_vector),
        FOLDER_TEST(the_nearest_of_a_chunk_have_other_texts),
        FOLDER_TEST(an_opened_index_has_the_vectors_of_all_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
