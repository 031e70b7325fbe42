/* test_stored_summaries.c -- summaries of blocks are kept with copies in the store: a context that is
 * loaded is decoded sparsely at once, and reads what it would read if it had been computed. */
#include "engine/state.h"
#include "store/archive.h"
#include "support/folder.h"
#include "support/requests.h"
#include "support/stored.h"

enum { N_CHUNKS = 3, WORDS = 5, TOKENS = 12 };

static const char sparse[] = "sparse:112,depth=0",
                  one_stage[] = "sparse:112,depth=0,refine=1",
                  other_kind[] = "sparse:112,depth=0,refine=1,quest";

static sp_context *open_decoding(const char *dir, const char *decode)
{
    return open_with((sp_context_opts){.tiers.store = dir,
                                       .decode.how = decode,
                                       .queue.order = "fcfs",
                                       .cache.kv_bytes = 16 << 20,
                                       .n_batch = 40});
}

/* answer -- about chunks that are long enough to choose from; *n_summarized: blocks. */
static sp_request *answer(sp_context *c, int64_t *n_summarized)
{
    sp_sparse_account a = {0};
    sp_prompt *p;
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_system(p, "Be brief."));
    for (int i = 0; i < N_CHUNKS; i++) {
        char text[WORDS * 32] = "";
        for (int k = 0; k < WORDS; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s %d ", texts[(i + k) % 3],
                     i * k);
        assert_ok(sp_prompt_chunk(p, "T", text));
    }
    assert_ok(sp_prompt_question(p, "Which?"));
    sp_request *r = submit_prompt(c, p, TOKENS);
    while (!done(r)) {
        step(c);
        if (r->answer.sparse) a = sp_sparse_account_of(r->answer.sparse);
    }
    if (sp_request_result(r)->finish != SP_FINISH_LENGTH)
        fail_msg("%s", sp_request_result(r)->detail);
    assert_true(a.n_steps >= TOKENS - 3 && a.n_read < a.n_keys);
    *n_summarized = a.n_summarized;
    return r;
}

static int n_from_disk(const sp_request *r)
{
    return n_from(r, "disk");
}

static void fill(const char *dir, const char *decode)
{
    sp_context *c = open_decoding(dir, decode);
    int64_t n;
    sp_request_destroy(answer(c, &n));
    close_clean(c);
}

/* same_summaries -- of all copies that both contexts have; returns the number of blocks compared. */
static int same_summaries(const sp_context *a, const sp_context *b, sp_summary_kind kind)
{
    sp_summaries *x = a->engine->summaries[kind], *y = b->engine->summaries[kind];
    const size_t bytes = sp_summary_bytes(kind, a->model->hp.head);
    int n = 0;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(a->ledger, v));)
        for (const sp_copy *w = NULL; (w = sp_ledger_next(b->ledger, w));) {
            if (!sp_digest_eq(&v->facts.id, &w->facts.id) || v->state != SP_COPY_READY) continue;
            for (int i = 0; i < v->n / SP_BLOCK_TOKENS; i++) {
                if (!sp_summaries_has(x, v->blocks[i], 16) || !sp_summaries_has(y, w->blocks[i], 16))
                    continue;
                for (int l = 0; l < a->model->hp.n_layers; l++)
                    for (int g = 0; g < a->model->hp.n_kv_heads; g++) {
                        const sp_summary_view p = sp_summaries_layer(x, l);
                        const sp_summary_view q = sp_summaries_layer(y, l);
                        const size_t s = (size_t)(g * p.n_blocks) + v->blocks[i];
                        const size_t t = (size_t)(g * q.n_blocks) + w->blocks[i];
                        assert_memory_equal(p.base + s * bytes, q.base + t * bytes, bytes);
                        assert_memory_equal(&p.scale[s], &q.scale[t], sizeof(float));
                    }
                n++;
            }
        }
    return n;
}

/* The format of engine/sparse/notes.c: magic, version, kind, blocks. Another version is not read. */
static void assert_is_version_1(const sp_context *c)
{
    const sp_kv_notes *notes = sp_kv_pool_notes(c->pool);
    const sp_copy *v = sp_ledger_next(c->ledger, NULL);
    const size_t n_bytes = notes->bytes(notes->user, v->n);
    uint8_t *buffer = malloc(n_bytes);
    assert_true(notes->read(notes->user, 0, v->blocks, v->n, buffer));
    const uint8_t begin[] = {'S', 'U', 'M', 'S', 1, 0, SP_SUMMARY_BOUNDS, 0, (uint8_t)sp_blocks_for(v->n), 0, 0, 0};
    assert_memory_equal(buffer, begin, sizeof begin);
    assert_int_equal(notes->write(notes->user, 0, v->blocks, v->n, buffer, n_bytes),
                     1 << SP_SUMMARY_BOUNDS | 1 << SP_SUMMARY_KEYS4);
    buffer[4] = 2;
    assert_int_equal(notes->write(notes->user, 0, v->blocks, v->n, buffer, n_bytes), 0);
    free(buffer);
}

/* A restart summarizes nothing, and its answer is that of a process without a store. */
static void nothing_is_summarized_after_a_load(void **state)
{
    const char *dir = *state;
    sp_context *plain = open_decoding(NULL, sparse);
    int64_t n;
    sp_request *want = answer(plain, &n);
    assert_true(n > 10);
    fill(dir, sparse);
    sp_context *c = open_decoding(dir, sparse);
    sp_request *r = answer(c, &n);
    assert_true(n_from_disk(r) >= 1 + N_CHUNKS);
    assert_int_equal(n, 0);
    assert_same_text(r, want);
    assert_true(same_summaries(c, plain, SP_SUMMARY_BOUNDS) > 10);
    assert_true(same_summaries(c, plain, SP_SUMMARY_KEYS4) > 10);
    assert_is_version_1(c);
    sp_request_destroy(r);
    sp_request_destroy(want);
    close_clean(c);
    close_clean(plain);
}

/* read_as -- a store that one process filled, read by another; returns blocks that it summarized. */
static int64_t read_as(const char *dir, const char *decode)
{
    sp_context *plain = open_decoding(NULL, decode), *c = open_decoding(dir, decode);
    int64_t n;
    sp_request *want = answer(plain, &n), *r = answer(c, &n);
    assert_true(n_from_disk(r) >= 1 + N_CHUNKS);
    assert_same_text(r, want);
    sp_request_destroy(r);
    sp_request_destroy(want);
    close_clean(c);
    close_clean(plain);
    return n;
}

/* Summaries of another kind, damaged ones, or none: the copy is used, its summaries are made again. */
static void summaries_of_another_kind_are_computed_again(void **state)
{
    const char *dir = *state;
    fill(dir, sparse);
    assert_true(read_as(dir, other_kind) > 10);
    assert_int_equal(read_as(dir, sparse), 0);
    sp_context *c = open_with((sp_context_opts){0});
    stored_damage_after(dir, SP_COPY_PATH, sp_kv_pool_layer_block_bytes(c->pool));
    close_clean(c);
    assert_true(read_as(dir, sparse) > 10);
}

/* Each takes its stages from a store that another filled: of two those of one, and of one (as earlier
 * programs wrote them) the first. */
static void summaries_of_one_stage_and_two_are_read(void **state)
{
    char dir[128];
    make_folder(dir, sizeof dir);
    fill(dir, sparse);
    assert_int_equal(read_as(dir, one_stage), 0);
    assert_int_equal(read_as(dir, "sparse:112,depth=0,keys4"), 0);
    remove_folder(dir);
    make_folder(dir, sizeof dir);
    fill(dir, one_stage);
    assert_int_equal(read_as(dir, one_stage), 0);
    assert_true(read_as(dir, sparse) > 10); /* the second stage */
    remove_folder(dir);
}

enum { SMALL = 32 /* blocks: a prompt drives the one before it out */ };

/* The host tier keeps what a copy has when it leaves the device. */
static void the_host_tier_keeps_summaries(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    const size_t block_bytes = sp_context_describe(c).kv_block_bytes;
    sp_context_close(c);
    c = open_with((sp_context_opts){.decode.how = sparse,
                                    .queue.order = "fcfs",
                                    .cache.kv_bytes = SMALL * block_bytes,
                                    .tiers.host_bytes = 64 << 20,
                                    .n_batch = 40});
    int64_t n;
    sp_request *first = answer(c, &n);
    assert_true(n > 10);
    sp_request_destroy(ask(c, "32", "Why was that so, and for how long then?", 20));
    sp_request_destroy(ask(c, "23", "What else is there to say of it at all?", 20));
    sp_request *r = answer(c, &n);
    assert_true(n_from(r, "host") >= N_CHUNKS);
    assert_int_equal(n, 0);
    assert_same_text(r, first);
    sp_request_destroy(r);
    sp_request_destroy(first);
    close_clean(c);
}

/* An archive has them too. */
static void an_archive_has_summaries(void **state)
{
    char from[128], to[128], file[160];
    sp_archive_stats stats;
    make_folder(from, sizeof from);
    make_folder(to, sizeof to);
    snprintf(file, sizeof file, "%s/archive", from);
    fill(from, sparse);
    sp_context *c = open_decoding(from, sparse);
    assert_ok(sp_archive_export(sp_tiers_tier(c->tiers), file, &c->texts.prompts.space, NULL, NULL,
                                &stats));
    close_clean(c);
    c = open_decoding(to, sparse);
    assert_ok(sp_archive_import(sp_tiers_tier(c->tiers), file, &c->texts.prompts.space, &stats));
    close_clean(c);
    assert_int_equal(read_as(to, sparse), 0);
    remove_folder(from);
    remove_folder(to);
}

/* ask_exact -- with full attention. */
static void ask_exact(const char *dir, int n_disk)
{
    sp_context *plain = open_decoding(NULL, NULL), *c = open_decoding(dir, NULL);
    sp_request *want = ask(plain, "012", "Which?", 4), *r = ask(c, "012", "Which?", 4);
    assert_int_equal(n_from_disk(r), n_disk);
    assert_same_text(r, want);
    sp_request_destroy(r);
    sp_request_destroy(want);
    close_clean(c);
    close_clean(plain);
}

/* Processes that decode with full attention write none, and read copies that have some. */
static void full_attention_reads_and_writes_none(void **state)
{
    char dir[128];
    make_folder(dir, sizeof dir);
    ask_exact(dir, 0);
    ask_exact(dir, 4);
    remove_folder(dir);
    make_folder(dir, sizeof dir);
    sp_context *c = open_decoding(dir, sparse);
    sp_request_destroy(ask(c, "012", "Which?", 4));
    close_clean(c);
    ask_exact(dir, 4);
    remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(nothing_is_summarized_after_a_load),
        FOLDER_TEST(summaries_of_another_kind_are_computed_again),
        cmocka_unit_test(summaries_of_one_stage_and_two_are_read),
        cmocka_unit_test(the_host_tier_keeps_summaries),
        cmocka_unit_test(an_archive_has_summaries),
        cmocka_unit_test(full_attention_reads_and_writes_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
