/* Vectors of an index are made in pieces, and an interruption keeps those that are made. */
#include "support/folder.h"

#include <math.h>
#include <string.h>

#include "retrieve/embedding.h"

enum { CHUNKS = 200, MOST_AT_ONCE = 64, DIMS = 4 };

/* What a build asks for, and when it is interrupted. */
typedef struct seen {
    int n_texts, most; /* embedded; in one call */
    int go_on;         /* calls of progress until it interrupts */
} seen;

static sp_err embed(const char *const *texts, int n, float *out, void *user)
{
    seen *s = user;
    s->n_texts += n;
    s->most = n > s->most ? n : s->most;
    for (int i = 0; i < n * DIMS; i++) out[i] = i % DIMS == (int)(strlen(texts[i / DIMS]) % DIMS);
    return SP_OK;
}

static bool on_progress(int64_t done, int64_t total, void *user)
{
    seen *s = user;
    return s->go_on-- > 0;
}

static sp_err update(const char *index, seen *s, sp_index_embed_stats *stats)
{
    const sp_embedding_build b = {.id = "lengths", .n_dims = DIMS, .embed = embed, .progress = on_progress, .user = s};
    return sp_embedding_update(index, &b, stats);
}

static void an_interruption_waits_for_few_chunks_and_keeps_them(void **state)
{
    char docs[160], index[160];
    snprintf(docs, sizeof docs, "%s/docs.jsonl", (char *)*state);
    snprintf(index, sizeof index, "%s/index.db", (char *)*state);
    FILE *f = fopen(docs, "w");
    assert_non_null(f);
    for (int i = 0; i < CHUNKS; i++) fprintf(f, "{\"text\": \"Boat %d leaves the harbour of town %d.\"}\n", i, i * i);
    assert_int_equal(fclose(f), 0);
    const char *root = docs;
    assert_int_equal(sp_index_build(&root, 1, index, NULL, NULL), SP_OK);

    seen s = {0};
    sp_index_embed_stats stats = {0};
    assert_int_equal(update(index, &s, &stats), SP_E_CANCELED);
    assert_in_range(s.n_texts, 1, MOST_AT_ONCE);
    const int first = s.n_texts;
    s = (seen){.go_on = CHUNKS};
    stats = (sp_index_embed_stats){0};
    assert_int_equal(update(index, &s, &stats), SP_OK);
    assert_int_equal(stats.n_chunks, CHUNKS);
    assert_int_equal(stats.n_kept, first);
    assert_int_equal(stats.n_embedded, CHUNKS - first);
    assert_int_equal(s.n_texts, CHUNKS - first);
    assert_in_range(s.most, 1, MOST_AT_ONCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(an_interruption_waits_for_few_chunks_and_keeps_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
