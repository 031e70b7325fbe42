/* test_documents_deletion.c -- registered documents are deleted so that neither memory nor files hold anything of
 * them. */
#include <errno.h>
#include <sqlite3.h>

#include "base/clock.h"
#include "registered.h"
#include "store/files.h"

/* -- what is left ------------------------------------------------------------------------------ */

static bool pool_has(const bench *b, const void *bytes, size_t n)
{
    sp_kv_pool *pool = b->c->pool;
    size_t size = sp_kv_pool_layer_block_bytes(pool);
    for (uint32_t i = 0; i < sp_kv_pool_n_blocks(pool); i++) {
        const uint8_t *block;
        assert_ok(sp_kv_pool_read(pool, (sp_kv_run){.layer = 1, .first = i, .n = 1}, NULL, &block));
        if (memmem(block, size, bytes, n)) return true;
    }
    return false;
}

/* sample -- some bytes of layer 1 of the copy of a kind. */
static void sample(const bench *b, sp_copy_kind kind, uint8_t out[48])
{
    for (const sp_copy *c = NULL; (c = sp_ledger_next(b->c->ledger, c));)
        if (c->facts.kind == kind && c->state == SP_COPY_READY && c->n > 16) {
            const uint8_t *block;
            assert_ok(sp_kv_pool_read(
                b->c->pool, (sp_kv_run){.layer = 1, .first = c->blocks[0], .n = 1}, NULL, &block));
            memcpy(out, block + 16, 48);
            return;
        }
    fail_msg("there is no such copy");
}

static void nothing_is_left(void **state)
{
    bench b;
    uint8_t plain[48], path[48];
    sp_documents_removed n;
    bench_begin(&b);
    put(&b, "red", "one", story);
    compute(&b, "red", "one", 0);
    sample(&b, SP_COPY_PLAIN, plain);
    tiers_rest(b.c->tiers);
    assert_string_equal(ask_about(&b, "red", "prefix", story, NULL).from, "memory"); /* the plain copy begins a path */
    sample(&b, SP_COPY_PATH, path);
    assert_true(files_with(b.dir, plain, sizeof plain) > 0);
    assert_true(files_with(b.dir, story + 8, 40) > 0);
    assert_true(pool_has(&b, plain, sizeof plain));
    assert_ok(sp_documents_remove(b.d, "red", "one", 0, &n));
    assert_true(n.n_device >= 4 && n.n_store >= 2 && n.n_pending == 0);
    for (int reopened = 0; reopened < 2; reopened++) {
        assert_int_equal(files_with(b.dir, plain, sizeof plain), 0);
        assert_int_equal(files_with(b.dir, story + 8, 40), 0);
        assert_false(pool_has(&b, plain, sizeof plain));
        sp_documents_close(b.d);
        sp_context_close(b.c);
        bench_open(&b, (sp_context_opts){0});
    }
    assert_string_equal(ask_about(&b, "red", "full", NULL, story).from, "no chunk"); /* not known in texts */
    assert_string_equal(ask_about(&b, "red", "prefix", story, NULL).from, "");
    assert_string_equal(ask_about(&b, "red", "full", other, NULL).missed, "never seen");
    bench_end(&b);
}

static void what_is_registered_again_is_stored_again(void **state)
{
    bench b;
    uint8_t plain[48];
    bench_begin(&b);
    put(&b, "red", "one", story);
    compute(&b, "red", "one", 0);
    sample(&b, SP_COPY_PLAIN, plain);
    assert_ok(sp_documents_remove(b.d, "red", "one", 0, NULL));
    assert_int_equal(files_with(b.dir, plain, sizeof plain), 0);
    put(&b, "red", "one", story);
    compute(&b, "red", "one", 0);
    tiers_rest(b.c->tiers);
    assert_true(files_with(b.dir, plain, sizeof plain) > 0);
    assert_ok(sp_documents_remove(b.d, "red", "one", 0, NULL)); /* and erased again */
    assert_int_equal(files_with(b.dir, plain, sizeof plain), 0);
    bench_end(&b);
}

/* chunks_of -- of a message, if passages that come again are found. */
static int chunks_of(bench *b, const char *message)
{
    int n = 0;
    sp_prompt *p;
    assert_ok(sp_prompt_create(b->c, &p));
    assert_ok(sp_prompt_find_chunks(p, SP_FIND_REPEATS));
    assert_ok(sp_prompt_cut(p, message, NULL, false));
    for (size_t i = 0; i < p->segs.n; i++) n += p->segs.v[i].kind == SP_SEG_CHUNK;
    sp_prompt_destroy(p);
    return n;
}

/* They may have had the document's text. */
static void messages_before_a_deletion_are_forgotten(void **state)
{
    char tale[1600] = "", one[1700], two[1700], three[1700];
    bench b;
    for (size_t n = 0, i = 0; n < 1500; i++)
        n += (size_t)snprintf(tale + n, sizeof tale - n, "On day %zu they saw %zu ships. ", i, i * 7919 % 1000);
    snprintf(one, sizeof one, "One: %s", tale);
    snprintf(two, sizeof two, "Two: %s", tale);
    snprintf(three, sizeof three, "Three: %s", tale);
    bench_begin(&b);
    put(&b, NULL, "one", story);
    assert_int_equal(chunks_of(&b, one), 0);
    assert_ok(sp_documents_remove(b.d, NULL, "one", 0, NULL));
    assert_int_equal(chunks_of(&b, two), 0);
    assert_int_equal(chunks_of(&b, three), 1);
    bench_end(&b);
}

static void evict_all(const bench *b)
{
    tiers_rest(b->c->tiers);
    assert_true(sp_ledger_free_up(b->c->ledger, sp_kv_pool_n_blocks(b->c->pool)));
}

/* n_stored -- copies on disk that have seen the document, or that have not. */
static int n_stored(const bench *b, const sp_digests *ids, bool seen)
{
    int n = 0;
    for (const sp_copy *c = NULL; (c = sp_ledger_next(b->c->ledger, c));)
        n += c->places & SP_AT_DISK && sp_copy_has_seen(c, ids->v, ids->n) == seen;
    return n;
}

/* Requests that run while a document is erased still read it: what they compute stays on the device alone. */
static void nothing_that_has_seen_it_is_written_while_it_is_erased(void **state)
{
    bench b;
    sp_digests ids = {0};
    char tenant[SP_TENANT_BYTES];
    bench_begin(&b);
    put(&b, NULL, "one", story);
    assert_ok(sp_tenant_name(NULL, tenant));
    assert_ok(sp_shelf_ids(b.d->shelf, tenant, "one", &ids));
    sp_digests_sort(ids.v, ids.n);
    assert_ok(sp_tiers_erasing(b.c->tiers, ids.v, ids.n));
    for (int over = 0; over < 2; over++) {
        ask_about(&b, NULL, "full", story, NULL);
        ask_about(&b, NULL, "full", other, NULL);
        ask_about(&b, NULL, "prefix", story, NULL);
        tiers_rest(b.c->tiers);
        assert_true(n_stored(&b, &ids, false) > 1);
        assert_int_equal(n_stored(&b, &ids, true) > 0, over);
        assert_ok(sp_tiers_erasing(b.c->tiers, NULL, 0));
        evict_all(&b);
    }
    sp_vec_fini(&ids);
    bench_end(&b);
}

/* Those on disk alone, too: nobody looks for them there. */
static void the_ledger_forgets_what_the_store_has_dropped(void **state)
{
    bench b;
    sp_digests ids = {0};
    char tenant[SP_TENANT_BYTES];
    int64_t n_gone;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    compute(&b, NULL, "one", 0);
    tiers_rest(b.c->tiers);
    assert_ok(sp_tenant_name(NULL, tenant));
    assert_ok(sp_shelf_ids(b.d->shelf, tenant, "one", &ids));
    sp_digests_sort(ids.v, ids.n);
    assert_true(n_stored(&b, &ids, true) > 0);
    assert_ok(sp_context_erase_tiers(b.c, ids.v, ids.n, &n_gone));
    assert_int_equal(n_stored(&b, &ids, true), 0);
    assert_true(n_gone > 0);
    sp_vec_fini(&ids);
    bench_end(&b);
}

/* hosted -- copies in the host tier. */
static int64_t hosted(const bench *b)
{
    return sp_tier_stats_of(sp_tiers_host(b->c->tiers)).n_copies;
}

/* n_below -- copies in both tiers. */
static int64_t n_below(const bench *b)
{
    return hosted(b) + sp_tier_stats_of(sp_tiers_tier(b->c->tiers)).n_copies;
}

static void nothing_is_left_on_the_host(void **state)
{
    bench b;
    sp_documents_removed n;
    bench_begin(&b);
    bench_close(&b);
    bench_open(&b, (sp_context_opts){.tiers.host_bytes = 16 << 20});
    put(&b, "red", "one", story);
    put(&b, "red", "two", other);
    compute(&b, "red", "two", 3); /* conditioned on the story */
    compute(&b, "red", "one", 0);
    ask_about(&b, "red", "prefix", story, NULL);
    int64_t before = hosted(&b);
    evict_all(&b);
    assert_true(hosted(&b) >= before + 4);
    assert_string_equal(ask_about(&b, "red", "full", story, NULL).from, "host");
    evict_all(&b);
    before = n_below(&b);
    assert_ok(sp_documents_remove(b.d, "red", "one", 0, &n));
    assert_int_equal(n.n_pending, 0);
    assert_int_equal(n.n_store, before - n_below(&b));
    assert_string_equal(ask_about(&b, "red", "prefix", story, NULL).from, "");
    for (const sp_copy *c = NULL; (c = sp_ledger_next(b.c->ledger, c));)
        assert_true(c->facts.kind != SP_COPY_FUSED);
    assert_ok(sp_documents_remove(b.d, "red", "two", 0, &n));
    assert_string_equal(ask_about(&b, "blue", "full", story, NULL).missed, "never seen");
    assert_string_equal(ask_about(&b, "red", "full", other, NULL).missed, "never seen");
    bench_end(&b);
}

static void what_saw_it_goes_too(void **state)
{
    bench b;
    sp_documents_removed n;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    put(&b, NULL, "two", other);
    compute(&b, NULL, "two", 3); /* conditioned on the story */
    assert_ok(sp_documents_remove(b.d, NULL, "one", 0, &n));
    for (const sp_copy *c = NULL; (c = sp_ledger_next(b.c->ledger, c));)
        assert_true(c->facts.kind != SP_COPY_FUSED);
    bench_end(&b);
}

/* n_conditioned -- copies that were computed after other chunks. */
static int n_conditioned(const bench *b)
{
    int n = 0;
    for (const sp_copy *c = NULL; (c = sp_ledger_next(b->c->ledger, c));) n += c->facts.kind == SP_COPY_FUSED;
    return n;
}

/* As the policy inplace computes them: in the prompt of a user, after what preceded them there. */
static void what_was_computed_after_it_goes_too(void **state)
{
    bench b;
    sp_documents_removed n;
    sp_prompt *p;
    sp_request *r;
    const sp_reuse_opts reuse = {.policy = "inplace"};
    bench_begin(&b);
    put(&b, NULL, "one", story);
    put(&b, NULL, "two", other);
    assert_ok(sp_prompt_create(b.c, &p));
    assert_ok(sp_prompt_system(p, SYSTEM));
    assert_ok(sp_prompt_chunk(p, "T", story));
    assert_ok(sp_prompt_chunk(p, "T", other));
    assert_ok(sp_prompt_question(p, "Who?"));
    const sp_request_opts o = {.reuse = &reuse, .sampling = sp_sampling_default(), .max_tokens = 2};
    assert_ok(sp_generate(b.c, p, &o, &r));
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    assert_int_equal(n_conditioned(&b), 1);
    assert_ok(sp_documents_remove(b.d, NULL, "one", 0, &n));
    assert_int_equal(n.n_pending, 0);
    assert_int_equal(n_conditioned(&b), 0);
    bench_end(&b);
}

/* read_with_craft -- a prompt with both texts; what is computed is kept with what precedes it. */
static void read_with_craft(const bench *b, const char *first, const char *second)
{
    const sp_reuse_opts reuse = {.policy = "craft:focus=0", .recompute = 0.3f};
    const sp_request_opts o = {.reuse = &reuse, .sampling = sp_sampling_default(), .max_tokens = 2};
    sp_prompt *p;
    sp_request *r;
    assert_ok(sp_prompt_create(b->c, &p));
    assert_ok(sp_prompt_system(p, SYSTEM));
    assert_ok(sp_prompt_chunk(p, "T", first));
    assert_ok(sp_prompt_chunk(p, "T", second));
    assert_ok(sp_prompt_question(p, "Who?"));
    assert_ok(sp_generate(b->c, p, &o, &r));
    sp_request_destroy(r);
    sp_prompt_destroy(p);
}

/* n_over -- patches of other documents, over copies that were computed after this one. */
static int n_over(const bench *b, const sp_digests *ids)
{
    int n = 0;
    for (const sp_copy *c = NULL; (c = sp_ledger_next(b->c->ledger, c));) {
        bool after = false;
        for (int i = 0; c->base && i < c->base->facts.n_before; i++)
            after |= sp_digest_among(&c->base->facts.before[i], ids->v, ids->n);
        for (int i = 0; i < c->facts.n_before; i++)
            after &= !sp_digest_among(&c->facts.before[i], ids->v, ids->n);
        n += after;
    }
    return n;
}

static int n_placed(const bench *b)
{
    int n = 0;
    for (const sp_copy *c = NULL; (c = sp_ledger_next(b->c->ledger, c));) n += c->facts.kind == SP_COPY_PLACED;
    return n;
}

/* n_of -- copies of a text that were computed after other chunks, or over such copies, in any tier. */
static int n_of(const bench *b, const char *text)
{
    int n = 0;
    sp_prompt *p = prompt_about((bench *)b, NULL, text);
    for (const sp_copy *c = NULL; (c = sp_ledger_next(b->c->ledger, c));)
        n += (c->facts.kind == SP_COPY_FUSED || c->facts.kind == SP_COPY_PLACED) &&
             sp_digest_eq(&c->facts.id, &p->segs.v[1].id);
    sp_prompt_destroy(p);
    return n;
}

static void read_with(const bench *b, const char *how, const char *first, const char *second)
{
    const sp_reuse_opts reuse = {.policy = how};
    const sp_request_opts o = {.reuse = &reuse, .sampling = sp_sampling_default(), .max_tokens = 2};
    const char *const chunks[] = {first, second};
    sp_prompt *p;
    sp_request *r;
    assert_ok(sp_prompt_create(b->c, &p));
    assert_ok(sp_prompt_system(p, SYSTEM));
    for (size_t i = 0; i < SP_COUNT(chunks); i++) assert_ok(sp_prompt_chunk(p, "T", chunks[i]));
    assert_ok(sp_prompt_question(p, "Who?"));
    assert_ok(sp_generate(b->c, p, &o, &r));
    sp_request_destroy(r);
    sp_prompt_destroy(p);
}

/* None of the prompts after the first has the story: each computes a text over a copy that depends on it. */
static void what_was_computed_over_a_copy_that_saw_it_goes_too(void **state)
{
    static const char *const policies[] = {"inplace", "craft:focus=0"};
    static const char third[] = "Boats of the town are red, and those of the island are blue; both are old.",
                      fourth[] = "The island has two hotels and one pier, which burnt down in the year 1902.",
                      fifth[] = "Nobody has counted the gulls of the northern cliffs since the war was over.";
    for (int i = 0; i < 4; i++) {
        bench b;
        const bool leaves = i & 2; /* memory, before the deletion */
        bench_begin(&b);
        put(&b, NULL, "one", story);
        read_with(&b, policies[i & 1], story, other);
        read_with(&b, policies[i & 1], other, third);
        read_with(&b, policies[i & 1], third, fourth);
        read_with(&b, policies[i & 1], fifth, fifth + 1); /* these two never saw it */
        tiers_rest(b.c->tiers);
        if (leaves) bench_close(&b);
        if (leaves) bench_open(&b, (sp_context_opts){.reuse.policy = policies[i & 1]});
        if (!leaves) assert_true(n_of(&b, other) && n_of(&b, third) && n_of(&b, fourth) && n_of(&b, fifth + 1));
        assert_ok(sp_documents_remove(b.d, NULL, "one", 0, NULL));
        for (int reopened = 0; reopened < 2; reopened++) {
            assert_int_equal(n_of(&b, other) + n_of(&b, third) + n_of(&b, fourth), 0);
            if (!leaves) assert_true(n_of(&b, fifth + 1) > 0 || reopened);
            bench_close(&b);
            bench_open(&b, (sp_context_opts){.reuse.policy = policies[i & 1]});
        }
        bench_end(&b);
    }
}

enum { MOST_BYTES = 1 << 16, STRIDE = 48 };

/* bytes_of_base -- layer 1 of the first copy that others are patches over and that has seen the document; how many. */
static size_t bytes_of_base(const bench *b, const sp_digests *ids, uint8_t out[MOST_BYTES])
{
    const size_t n = sp_kv_pool_layer_block_bytes(b->c->pool);
    for (const sp_copy *c = NULL; (c = sp_ledger_next(b->c->ledger, c));) {
        if (!c->base || !sp_copy_has_seen(c->base, ids->v, ids->n)) continue;
        if (sp_digest_among(&c->base->facts.id, ids->v, ids->n)) continue;
        const int32_t n_blocks = sp_blocks_for(c->base->n);
        assert_true((size_t)n_blocks * n <= MOST_BYTES);
        for (int32_t i = 0; i < n_blocks; i++) {
            const uint8_t *block;
            const sp_kv_run run = {.layer = 1, .first = c->base->blocks[i], .n = 1};
            assert_ok(sp_kv_pool_read(b->c->pool, run, NULL, &block));
            memcpy(out + (size_t)i * n, block, n);
        }
        return (size_t)n_blocks * n;
    }
    fail_msg("there is no such copy");
    return 0;
}

/* n_pieces_in_files -- of these bytes, without those that are zero. */
static int n_pieces_in_files(const bench *b, const uint8_t *bytes, size_t n)
{
    static const uint8_t zeros[STRIDE];
    int sum = 0;
    for (size_t at = 0; at + STRIDE <= n; at += STRIDE)
        if (memcmp(bytes + at, zeros, STRIDE) != 0) sum += files_with(b->dir, bytes + at, STRIDE);
    return sum;
}

/* sample_patch -- bytes of layer 1 of the first patch of a chunk of the document. */
static void sample_patch(const bench *b, const sp_digests *ids, uint8_t out[48])
{
    for (const sp_copy *c = NULL; (c = sp_ledger_next(b->c->ledger, c));)
        if (c->base && sp_digest_among(&c->facts.id, ids->v, ids->n)) {
            const uint8_t *block;
            assert_ok(sp_kv_pool_read(
                b->c->pool, (sp_kv_run){.layer = 1, .first = c->patch.blocks[0], .n = 1}, NULL, &block));
            memcpy(out, block + 16, 48);
            return;
        }
    fail_msg("the document has no patch");
}

/* begin_with_patches -- documents "one", ids [sorted], and "two", read in both orders. */
static void begin_with_patches(bench *b, sp_digests *ids)
{
    char tenant[SP_TENANT_BYTES];
    bench_begin(b);
    put(b, NULL, "one", story);
    put(b, NULL, "two", other);
    assert_ok(sp_tenant_name(NULL, tenant));
    assert_ok(sp_shelf_ids(b->d->shelf, tenant, "one", ids));
    sp_digests_sort(ids->v, ids->n);
    for (int i = 0; i < 2; i++) { /* what was measured first is patched then */
        read_with_craft(b, story, other);
        read_with_craft(b, other, story);
    }
    tiers_rest(b->c->tiers);
    assert_true(n_over(b, ids) > 0); /* a patch that has not seen it, over a copy that has */
}

/* reopen_with_craft -- which reads the headers of placed copies; memory then has none of them. */
static void reopen_with_craft(bench *b)
{
    bench_close(b);
    bench_open(b, (sp_context_opts){.reuse.policy = "craft:focus=0"});
}

static void placed_copies_and_patches_go_too(void **state)
{
    bench b;
    sp_digests ids = {0};
    static uint8_t seen[MOST_BYTES];
    uint8_t patch[48];
    sp_documents_removed n;
    begin_with_patches(&b, &ids);
    sample_patch(&b, &ids, patch);
    assert_true(pool_has(&b, patch, sizeof patch));
    const size_t n_seen_bytes = bytes_of_base(&b, &ids, seen);
    assert_true(n_pieces_in_files(&b, seen, n_seen_bytes) > 10);
    assert_ok(sp_documents_remove(b.d, NULL, "one", 0, &n));
    assert_int_equal(n.n_pending, 0);
    for (int reopened = 0; reopened < 2; reopened++) {
        assert_int_equal(n_placed(&b), 0);
        assert_int_equal(n_pieces_in_files(&b, seen, n_seen_bytes), 0);
        assert_false(pool_has(&b, patch, sizeof patch));
        reopen_with_craft(&b);
    }
    sp_vec_fini(&ids);
    bench_end(&b);
}

static void patches_that_have_left_memory_go_too(void **state)
{
    bench b;
    sp_digests ids = {0};
    static uint8_t seen[MOST_BYTES];
    begin_with_patches(&b, &ids);
    const size_t n_seen_bytes = bytes_of_base(&b, &ids, seen);
    reopen_with_craft(&b);
    assert_true(n_placed(&b) > 0);
    assert_true(n_pieces_in_files(&b, seen, n_seen_bytes) > 10);
    assert_ok(sp_documents_remove(b.d, NULL, "one", 0, NULL));
    for (int reopened = 0; reopened < 2; reopened++) {
        assert_int_equal(n_placed(&b), 0);
        assert_int_equal(n_pieces_in_files(&b, seen, n_seen_bytes), 0);
        reopen_with_craft(&b);
    }
    sp_vec_fini(&ids);
    bench_end(&b);
}

static void what_another_document_has_stays(void **state)
{
    bench b;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    put(&b, NULL, "two", story);
    compute(&b, NULL, "one", 0);
    assert_ok(sp_documents_remove(b.d, NULL, "one", 0, NULL));
    assert_string_equal(ask_about(&b, NULL, "full", story, NULL).from, "memory");
    put(&b, NULL, "two", other); /* replaced: now nobody has it */
    assert_string_equal(ask_about(&b, NULL, "full", story, NULL).missed, "never seen");
    bench_end(&b);
}

/* The other one has it with another title: a message with the text alone still finds it. */
static void a_text_that_another_document_has_is_still_found(void **state)
{
    bench b;
    sp_document_list l;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    assert_ok(sp_documents_put(b.d, NULL, &(sp_document_new){.id = "two", .title = "Other", .text = story}, &l));
    sp_document_list_fini(&l);
    compute(&b, NULL, "two", 0);
    assert_string_equal(ask_about(&b, NULL, "full", NULL, story).from, "memory");
    assert_ok(sp_documents_remove(b.d, NULL, "one", 0, NULL));
    assert_string_equal(ask_about(&b, NULL, "full", NULL, story).from, "memory");
    assert_ok(sp_documents_remove(b.d, NULL, "two", 0, NULL));
    assert_string_equal(ask_about(&b, NULL, "full", NULL, story).from, "no chunk");
    bench_end(&b);
}

/* ask_with_title -- the report of the chunk, sent by a request under a title of its own. */
static sp_segment_report ask_with_title(const bench *b, const char *salt, const char *title, const char *text)
{
    static char from[16], missed[32];
    sp_prompt *p;
    sp_request *r;
    sp_segment_report out = {0};
    const sp_reuse_opts reuse = {.policy = "full"};
    const sp_request_opts o = {.reuse = &reuse, .sampling = sp_sampling_default(), .max_tokens = 2};
    assert_ok(sp_prompt_create_for(b->c, salt, &p));
    assert_ok(sp_prompt_system(p, SYSTEM));
    assert_ok(sp_prompt_chunk(p, title, text));
    assert_ok(sp_prompt_question(p, "Who?"));
    assert_ok(sp_generate(b->c, p, &o, &r));
    const sp_result *res = sp_request_result(r);
    for (int i = 0; i < res->n_segments; i++)
        if (strcmp(res->segments[i].kind, "chunk") == 0) out = res->segments[i];
    snprintf(from, sizeof from, "%s", out.from ? out.from : "no chunk");
    snprintf(missed, sizeof missed, "%s", out.missed ? out.missed : "");
    out.from = from;
    out.missed = missed;
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    return out;
}

static int64_t n_forms(const bench *b)
{
    sqlite3 *db;
    sqlite3_stmt *q;
    assert_int_equal(sqlite3_open_v2(b->db, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM forms", -1, &q, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    const int64_t n = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return n;
}

/* Another title, and none. Also after a restart, which forgets what requests sent. */
static void copies_under_another_title_go_too(void **state)
{
    static const char *const titles[] = {"Other", "", "Third"};
    for (int restart = 0; restart < 2; restart++) {
        bench b;
        uint8_t plain[48];
        bench_begin(&b);
        assert_string_equal(ask_with_title(&b, "red", "", story).missed, "never seen"); /* before it is registered */
        put(&b, "red", "one", story);
        put(&b, "blue", "one", story);
        for (int i = 0; i < 3; i++) ask_with_title(&b, "red", titles[i], story);
        ask_with_title(&b, "blue", "Other", story);
        assert_string_equal(ask_with_title(&b, "red", "Other", story).from, "memory");
        sample(&b, SP_COPY_PLAIN, plain);
        tiers_rest(b.c->tiers);
        assert_int_equal(n_forms(&b), 2 + 2 + 1); /* red and blue without a title, the two others, blue's other */
        if (restart) bench_close(&b);
        if (restart) bench_open(&b, (sp_context_opts){0});
        assert_ok(sp_documents_remove(b.d, "red", "one", 0, NULL));
        assert_int_equal(n_forms(&b), 2);
        for (int i = 0; i < 3; i++)
            assert_string_equal(ask_with_title(&b, "red", titles[i], story).missed, "never seen");
        assert_int_equal(n_forms(&b), 2); /* it is registered no more */
        assert_string_not_equal(ask_with_title(&b, "blue", "Other", story).from, "");
        bench_end(&b);
    }
}

static void copies_under_another_title_stay_while_a_document_has_the_text(void **state)
{
    bench b;
    bench_begin(&b);
    put(&b, "red", "one", story);
    ask_with_title(&b, "red", "Other", story);
    put(&b, "red", "two", story);
    assert_ok(sp_documents_remove(b.d, "red", "one", 0, NULL));
    assert_string_equal(ask_with_title(&b, "red", "Other", story).from, "memory");
    ask_with_title(&b, "red", "Third", story);
    assert_ok(sp_documents_remove(b.d, "red", "two", 0, NULL));
    assert_string_equal(ask_with_title(&b, "red", "Other", story).missed, "never seen");
    assert_string_equal(ask_with_title(&b, "red", "Third", story).missed, "never seen");
    put(&b, "red", "one", story);
    ask_with_title(&b, "red", "Third", story);
    assert_ok(sp_documents_remove(b.d, "red", "one", 0, NULL));
    assert_string_equal(ask_with_title(&b, "red", "Third", story).missed, "never seen");
    assert_int_equal(n_forms(&b), 0);
    bench_end(&b);
}

/* The request waits when the document is deleted: its copy does not exist yet. */
static void a_deletion_waits_for_a_request_with_another_title(void **state)
{
    bench b;
    sp_documents_removed n;
    sp_prompt *p;
    bench_begin(&b);
    put(&b, "red", "one", story);
    assert_ok(sp_prompt_create_for(b.c, "red", &p));
    assert_ok(sp_prompt_system(p, SYSTEM));
    assert_ok(sp_prompt_chunk(p, "Other", story));
    assert_ok(sp_prompt_question(p, "Who?"));
    sp_request *r = submit_about(&b, p);
    assert_ok(sp_documents_remove(b.d, "red", "one", 0, &n));
    assert_int_equal(n.n_pending, 1);
    finish(&b);
    sp_request_destroy(r);
    assert_ok(sp_documents_tick(b.d, 0));
    assert_string_equal(ask_with_title(&b, "red", "Other", story).missed, "never seen");
    bench_end(&b);
}

static ino_t found_inode;

static int find_index(const char *path, const struct stat *st, int kind, struct FTW *w)
{
    SP_UNUSED(kind);
    if (strcmp(path + w->base, "index") == 0) found_inode = st->st_ino;
    return 0;
}

/* index_inode -- of the store's index. */
static ino_t index_inode(const bench *b)
{
    found_inode = 0;
    assert_int_equal(nftw(b->dir, find_index, 8, FTW_PHYS), 0);
    assert_true(found_inode != 0);
    return found_inode;
}

static void a_running_request_keeps_its_copies(void **state)
{
    bench b;
    sp_documents_removed n;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    compute(&b, NULL, "one", 0);
    sp_request *r = begin_reading(&b, NULL);
    bool busy = true;
    assert_ok(sp_documents_remove(b.d, NULL, "one", 0, &n));
    assert_int_equal(n.n_pending, 2); /* the copy, and the request */
    const ino_t index = index_inode(&b); /* an erasure rewrites it */
    assert_ok(sp_documents_tick(b.d, 0));
    assert_ok(sp_documents_tick(b.d, 0));
    assert_int_equal(index_inode(&b), index); /* the store was erased once */
    while (busy) assert_ok(sp_context_step(b.c, &busy));
    assert_int_equal(sp_request_result(r)->n_generated, 8);
    sp_request_destroy(r);
    assert_true(files_with(b.dir, story + 8, 40) > 0);
    assert_ok(sp_documents_tick(b.d, 0));
    assert_int_equal(files_with(b.dir, story + 8, 40), 0);
    assert_string_equal(ask_about(&b, NULL, "full", story, NULL).missed, "never seen");
    bench_end(&b);
}

/* A request of one tenant reads its deleted document; the deletion of another tenant's neither waits for it nor counts
 * it, and forgets its own. */
static void a_deletion_knows_nothing_of_another_tenants(void **state)
{
    bench b;
    sp_documents_removed n;
    bench_begin(&b);
    put(&b, "red", "one", story);
    compute(&b, "red", "one", 0);
    put(&b, "blue", "two", other);
    compute(&b, "blue", "two", 0);
    sp_request *r = begin_reading(&b, "red");
    bool busy = true;
    assert_ok(sp_documents_remove(b.d, "red", "one", 0, &n));
    assert_int_equal(n.n_pending, 2);
    const int64_t begin = sp_clock_us();
    assert_ok(sp_documents_remove(b.d, "blue", "two", 120000000, &n));
    assert_int_equal(n.n_pending, 0);
    assert_true(n.n_device > 0 && sp_clock_us() - begin < 60000000);
    assert_int_equal(files_with(b.dir, other + 8, 40), 0); /* its text has left the file, too */
    while (busy) assert_ok(sp_context_step(b.c, &busy));
    sp_request_destroy(r);
    assert_ok(sp_documents_tick(b.d, 0));
    assert_int_equal(files_with(b.dir, story + 8, 40), 0);
    assert_string_equal(ask_about(&b, "red", "full", story, NULL).missed, "never seen");
    bench_end(&b);
}

/* A copy whose header cannot be read may have seen the document: the deletion says so, and continues at the next
 * start. */
static void a_deletion_that_cannot_read_continues(void **state)
{
    bench b;
    uint8_t fused[48];
    sp_document_list l;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    put(&b, NULL, "two", other);
    compute(&b, NULL, "two", 3); /* conditioned on the story */
    tiers_rest(b.c->tiers);
    sample(&b, SP_COPY_FUSED, fused);
    assert_true(files_with(b.dir, fused, sizeof fused) > 0);
    sp_store_fault(SP_CALL_READ, 1, EIO, true);
    assert_fails(sp_documents_remove(b.d, NULL, "one", 0, NULL), SP_E_IO, "cannot read");
    sp_store_fault(0, 0, 0, false);
    assert_fails(sp_documents_get(b.d, NULL, "one", &l), SP_E_NOTFOUND, "one");
    assert_true(files_with(b.dir, fused, sizeof fused) > 0);
    sp_documents_close(b.d);
    sp_context_close(b.c);
    bench_open(&b, (sp_context_opts){0});
    assert_ok(sp_documents_tick(b.d, 0));
    assert_int_equal(files_with(b.dir, fused, sizeof fused), 0);
    bench_end(&b);
}

/* Whatever it lacks memory for: it says so, loses none (LeakSanitizer), and is done later. */
static void a_deletion_without_memory_continues(void **state)
{
    bench b;
    sp_err err = SP_E_NOMEM;
    bench_begin(&b);
    for (long n = 0; err == SP_E_NOMEM; n++) {
        assert_in_range(n, 0, 400);
        put(&b, "red", "one", story);
        sp_fault_after(n);
        err = sp_documents_remove(b.d, "red", "one", 0, NULL);
        sp_fault_after(-1);
        assert_ok(sp_documents_tick(b.d, 0));
        assert_int_equal(chunks_of(&b, story), 0); /* the text is not known any more */
        assert_fails(sp_documents_remove(b.d, "red", "one", 0, NULL), SP_E_NOTFOUND, "one");
    }
    assert_ok(err);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_left),
        cmocka_unit_test(nothing_is_left_on_the_host),
        cmocka_unit_test(what_saw_it_goes_too),
        cmocka_unit_test(what_was_computed_after_it_goes_too),
        cmocka_unit_test(what_was_computed_over_a_copy_that_saw_it_goes_too),
        cmocka_unit_test(placed_copies_and_patches_go_too),
        cmocka_unit_test(patches_that_have_left_memory_go_too),
        cmocka_unit_test(what_is_registered_again_is_stored_again),
        cmocka_unit_test(messages_before_a_deletion_are_forgotten),
        cmocka_unit_test(nothing_that_has_seen_it_is_written_while_it_is_erased),
        cmocka_unit_test(the_ledger_forgets_what_the_store_has_dropped),
        cmocka_unit_test(what_another_document_has_stays),
        cmocka_unit_test(a_text_that_another_document_has_is_still_found),
        cmocka_unit_test(copies_under_another_title_go_too),
        cmocka_unit_test(copies_under_another_title_stay_while_a_document_has_the_text),
        cmocka_unit_test(a_deletion_waits_for_a_request_with_another_title),
        cmocka_unit_test(a_running_request_keeps_its_copies),
        cmocka_unit_test(a_deletion_knows_nothing_of_another_tenants),
        cmocka_unit_test(a_deletion_that_cannot_read_continues),
        cmocka_unit_test(a_deletion_without_memory_continues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
