/* test_sparse.c -- sparse decoding over span lists: chunks with shifts, stale tokens, a patch, and an
 * answer that grows.
 *
 *   k = all          the bits of full attention
 *   a long answer    fills blocks of its own, which are read whole: still the bits of full attention
 *   k = some         reads no more than that; the logits of another device and of other kernels
 *   a batch          sparse and full requests in one step have the bits that they have alone
 *   reuse            a threshold of -1 keeps the first choice, one of 1 keeps none; heads without
 *                    importance keep theirs
 *   an observer      sees each layer of a step of one token, and changes no bit
 *   no memory        full attention
 */
#include "support/check.h"

#include "engine/sparse/notes.h"
#include "engine/sparse/sparse.h"
#include "engine/sparse/steps.h"
#include "engine/sparse/summaries.h"
#include "store/notes.h"
#include "support/known_chunks.h"

enum { B = SP_BLOCK_TOKENS, V = 101, N_CHUNKS = 4, STEPS = 7, ROOM = 120, QUESTION = 21, LAYERS = 3, G = 2 };

static const int lengths[N_CHUNKS] = {150, 70, 64, 83};
static const chunk_lengths chunks = {lengths, N_CHUNKS, V};
static const int n_patch = 5, patch_every = 29; /* recomputed tokens of chunk 0 */

typedef struct scene {
    tiny t;
    sp_plan known; /* each chunk by itself, at position 0 */
} scene;

static void scene_open(scene *s, const char *device, const char *cpu, sp_dtype type)
{
    tiny_spec spec = TINY_SPEC_DEFAULT;
    spec.device = device;
    spec.cpu = cpu;
    spec.kv_type = type;
    assert_ok(tiny_open(&s->t, &spec, 21));
    chunks_compute(&s->t, &chunks, &s->known);
}

static void scene_close(scene *s)
{
    chunks_end(&s->t, &s->known);
}

/* prompt -- the chunks in order, a patch of the first one, a question, room for an answer. The whole
 * second half of chunk 2 is stale: blocks without live keys. */
static void prompt(scene *s, sp_plan *p)
{
    int32_t pos[8];
    int span, see;
    const int place = chunks_begin(&s->t, &chunks, &s->known, p);
    for (int k = 0; k < n_patch; k++) {
        pos[k] = 3 + k * patch_every;
        assert_ok(sp_plan_mark_stale(p, 0, pos[k]));
    }
    for (int k = 32; k < 64; k++) assert_ok(sp_plan_mark_stale(p, 2, k));
    assert_ok(sp_plan_add_span(p, &(sp_span_spec){.n = QUESTION, .at = place}, &span));
    assert_ok(sp_plan_add_span(p, &(sp_span_spec){.n = n_patch, .pos = pos}, &span));
    assert_ok(sp_plan_add_span(p, &(sp_span_spec){.room = ROOM, .at = place + QUESTION}, &span));
    assert_ok(sp_plan_add_sight(p, NULL, p->n_spans, &see));
    for (int k = 0; k < n_patch; k++)
        assert_ok(sp_plan_add_todo(p, (sp_todo){.token = pos[k] * 7 % V, .pos = pos[k],
                                                .span = N_CHUNKS + 1, .index = k}));
    chunks_ask(p, &chunks, QUESTION, place);
    assert_ok(sp_plan_bind(p));
    assert_ok(sp_plan_check(p));
    assert_ok(sp_engine_step(s->t.engine, &(sp_slice){p, 0, p->n_todo, SP_WANT_NONE, NULL}, 1));
}

static int n_tokens(void)
{
    int n = QUESTION;
    for (int i = 0; i < N_CHUNKS; i++) n += lengths[i];
    return n;
}

static void grow(sp_plan *p, int step)
{
    assert_ok(sp_plan_grow(p, p->n_spans - 1, (step * 11 + 2) % V, n_tokens() + step, 0));
}

/* decode -- STEPS tokens with these options (NULL: full attention): logits [STEPS, V]. */
static sp_sparse_account decode(scene *s, const sp_sparse_opts *o, float *logits)
{
    sp_plan p;
    sp_sparse_account account = {0};
    prompt(s, &p);
    if (o) assert_ok(sp_sparse_create(o, &p.sparse));
    for (int i = 0; i < STEPS; i++) {
        grow(&p, i);
        assert_ok(sp_engine_step(
            s->t.engine, &(sp_slice){&p, p.n_todo - 1, 1, SP_WANT_LAST, logits + i * V}, 1));
    }
    if (o) account = sp_sparse_account_of(p.sparse);
    sp_sparse_destroy(p.sparse);
    sp_plan_fini(&p);
    return account;
}

static const struct {
    const char *device, *cpu;
} where[] = {{"cpu", "ref"}, {"cpu", NULL}, {"far", NULL}};

static void a_budget_of_all_is_full_attention(void **state)
{
    static float full[STEPS * V], got[STEPS * V];
    for (size_t w = 0; w < SP_COUNT(where); w++)
        for (int kind = 0; kind < SP_SUMMARY_N; kind++) {
            scene s;
            scene_open(&s, where[w].device, where[w].cpu, SP_Q16);
            decode(&s, NULL, full);
            const sp_sparse_opts all = {
                .share = 1, .min_depth = -1, .kind = (sp_summary_kind)kind};
            sp_sparse_account a = decode(&s, &all, got);
            same_logits(got, full, STEPS, V, "k = all");
            assert_int_equal(a.n_steps, STEPS);
            assert_int_equal(a.n_read, a.n_keys);
            assert_int_equal(a.n_chosen, STEPS * LAYERS * G);
            scene_close(&s);
        }
}

static void a_long_answer_reads_its_own_tokens(void **state)
{
    static float full[V], got[V];
    const sp_sparse_opts all = {.share = 1, .min_depth = -1}, some = {.tokens = 160, .min_depth = -1};
    scene s;
    sp_plan p[3];
    scene_open(&s, NULL, NULL, SP_Q16);
    for (int k = 0; k < 3; k++) prompt(&s, &p[k]);
    assert_ok(sp_sparse_create(&all, &p[1].sparse));
    assert_ok(sp_sparse_create(&some, &p[2].sparse));
    for (int i = 0; i < ROOM; i++) {
        static float other[V];
        for (int k = 0; k < 3; k++) grow(&p[k], i);
        const sp_slice slices[] = {{&p[0], p[0].n_todo - 1, 1, SP_WANT_LAST, full},
                                   {&p[1], p[1].n_todo - 1, 1, SP_WANT_LAST, got},
                                   {&p[2], p[2].n_todo - 1, 1, SP_WANT_LAST, other}};
        assert_ok(sp_engine_step(s.t.engine, slices, 3));
        if (memcmp(full, got, sizeof full) != 0) fail_msg("step %d differs", i);
    }
    const sp_sparse_account a = sp_sparse_account_of(p[2].sparse);
    const int64_t answers = (int64_t)LAYERS * G * ROOM * (ROOM + 1) / 2; /* keys of the answer */
    assert_true(a.n_read >= answers && a.n_read <= answers + (int64_t)ROOM * LAYERS * G * (160 + B));
    for (int k = 0; k < 3; k++) {
        sp_sparse_destroy(p[k].sparse);
        sp_plan_fini(&p[k]);
    }
    scene_close(&s);
}

/* The budget counts blocks: at most one more than the tokens, and the answer. */
static void the_budget_counts_blocks(void **state)
{
    static float full[STEPS * V], want[STEPS * V], got[STEPS * V];
    for (size_t w = 0; w < SP_COUNT(where); w++) {
        scene s;
        const sp_sparse_opts some = {.tokens = 160, .min_depth = -1};
        scene_open(&s, where[w].device, where[w].cpu, SP_F16);
        decode(&s, NULL, full);
        sp_sparse_account a = decode(&s, &some, got);
        const int64_t lists = STEPS * LAYERS * G;
        assert_true(a.n_read <= lists * (160 + B + STEPS) && a.n_read >= lists * 100);
        assert_true(a.n_keys >= lists * n_tokens());
        assert_true(tiny_nmse(got, full, STEPS * V) > 1e-6);
        if (w == 0) memcpy(want, got, sizeof want);
        double nmse = tiny_nmse(got, want, STEPS * V);
        if (!(nmse < 1e-5)) fail_msg("%s: NMSE %g to ref", where[w].device, nmse);
        scene_close(&s);
    }
}

/* A share is of the tokens that can be read: a stale one, which a recomputed one replaces, is none of them. */
static void a_share_is_of_the_tokens_that_are_not_stale(void **state)
{
    enum { STALE = 32 /* and those that the patch replaces */ };
    static float logits[STEPS * V];
    scene s;
    scene_open(&s, NULL, NULL, SP_Q16);
    const sp_sparse_opts share = {.share = 0.5f, .min_depth = -1},
                         tokens = {.tokens = (n_tokens() - STALE) / 2, .min_depth = -1};
    const sp_sparse_account a = decode(&s, &share, logits), b = decode(&s, &tokens, logits);
    assert_int_equal(a.n_read, b.n_read);
    scene_close(&s);
}

/* same_keys -- `read` has blocks of `all`, in order, with their keys, of which the same are stale. */
static void same_keys(const sp_span *read, const sp_span *all)
{
    const int32_t n_all = sp_blocks_for(all->n);
    int32_t keys = 0;
    for (int32_t i = 0, b = 0; i < sp_blocks_for(read->n); i++, b++) {
        while (b < n_all && all->blocks[b] != read->blocks[i]) b++;
        if (b == n_all) fail_msg("block %d is none of the span's, or not in order", i);
        keys += b == n_all - 1 ? all->n - b * B : B;
        assert_int_equal(!read->stale, !all->stale);
        if (all->stale)
            assert_int_equal(read->stale[i / 4] >> (i % 4 * B) & 0xffff, all->stale[b / 4] >> (b % 4 * B) & 0xffff);
    }
    assert_int_equal(read->n, keys);
}

/* Lists of all layers and heads, one after another in the same memory. */
static void a_list_has_the_keys_of_its_blocks(void **state)
{
    static float logits[V];
    const sp_sparse_opts some = {.tokens = 160, .min_depth = -1};
    scene s;
    sp_plan p;
    sp_span read[16];
    int n_less = 0;
    scene_open(&s, NULL, NULL, SP_Q16);
    prompt(&s, &p);
    assert_ok(sp_sparse_create(&some, &p.sparse));
    grow(&p, 0);
    assert_ok(sp_engine_step(s.t.engine, &(sp_slice){&p, p.n_todo - 1, 1, SP_WANT_LAST, logits}, 1));
    for (int l = 0; l < LAYERS * G; l++) {
        memcpy(read, p.spans, (size_t)p.n_spans * sizeof *read);
        sp_sparse_rewrite(p.sparse, l / G, l % G, read);
        for (int i = 0; i < p.n_spans; i++) same_keys(&read[i], &p.spans[i]);
        for (int i = 0; i < p.n_spans; i++) n_less += read[i].n < p.spans[i].n;
    }
    assert_true(n_less > LAYERS * G);
    sp_sparse_destroy(p.sparse);
    sp_plan_fini(&p);
    scene_close(&s);
}

/* Short nodes of a tree share blocks: a step reads each of them as it is, whatever else it chooses from. */
static void nodes_of_trees_are_read_whole(void **state)
{
    enum { NODE = 30, FIRST = 2, AT = 150 + 70 }; /* two nodes in the blocks of chunk 2 */
    static float logits[V];
    scene s;
    sp_plan p;
    sp_span read[16];
    int span, see, n_less = 0;
    scene_open(&s, NULL, NULL, SP_Q16);
    sp_plan_init(&p, s.t.pool);
    for (int i = 0, place = 0; i < FIRST; place += lengths[i++])
        assert_ok(sp_plan_add_span(&p, &(sp_span_spec){.n = lengths[i], .shift = place, .n_known = lengths[i],
                                                       .known = s.known.spans[i].blocks}, &span));
    for (int i = 0; i < 2; i++)
        assert_ok(sp_plan_add_span(&p, &(sp_span_spec){.n = NODE, .at = i * NODE, .shift = AT, .n_known = NODE,
                                                       .known = s.known.spans[2].blocks + i * NODE / B,
                                                       .first = i * NODE % B, .joined = true}, &span));
    assert_ok(sp_plan_add_span(&p, &(sp_span_spec){.n = QUESTION, .at = AT + 2 * NODE}, &span));
    assert_ok(sp_plan_add_span(&p, &(sp_span_spec){.room = 1, .at = AT + 2 * NODE + QUESTION}, &span));
    assert_ok(sp_plan_add_sight(&p, NULL, p.n_spans, &see));
    chunks_ask(&p, &chunks, QUESTION, AT + 2 * NODE);
    assert_ok(sp_plan_bind(&p));
    assert_ok(sp_engine_step(s.t.engine, &(sp_slice){&p, 0, p.n_todo, SP_WANT_NONE, NULL}, 1));
    assert_ok(sp_sparse_create(&(sp_sparse_opts){.tokens = 128, .min_depth = -1}, &p.sparse));
    assert_ok(sp_plan_grow(&p, span, 2, AT + 2 * NODE + QUESTION, 0));
    assert_ok(sp_engine_step(s.t.engine, &(sp_slice){&p, p.n_todo - 1, 1, SP_WANT_LAST, logits}, 1));
    for (int l = 0; l < LAYERS * G; l++) {
        memcpy(read, p.spans, (size_t)p.n_spans * sizeof *read);
        sp_sparse_rewrite(p.sparse, l / G, l % G, read);
        for (int i = FIRST; i < FIRST + 2; i++) assert_memory_equal(&read[i], &p.spans[i], sizeof *read);
        n_less += read[0].n < p.spans[0].n;
    }
    assert_true(n_less > 0);
    sp_sparse_destroy(p.sparse);
    sp_plan_fini(&p);
    scene_close(&s);
}

/* An answer that began with full attention has blocks that are chosen from, and further ones. */
static void an_answer_may_begin_with_full_attention(void **state)
{
    static float full[V], got[V];
    scene s;
    sp_plan p[2];
    scene_open(&s, NULL, NULL, SP_Q16);
    for (int k = 0; k < 2; k++) prompt(&s, &p[k]);
    for (int i = 0; i < 3 * B; i++) {
        for (int k = 0; k < 2; k++) grow(&p[k], i);
        if (i == B + 3)
            assert_ok(sp_sparse_create(&(sp_sparse_opts){.share = 1, .min_depth = -1}, &p[1].sparse));
        const sp_slice slices[] = {{&p[0], p[0].n_todo - 1, 1, SP_WANT_LAST, full},
                                   {&p[1], p[1].n_todo - 1, 1, SP_WANT_LAST, got}};
        assert_ok(sp_engine_step(s.t.engine, slices, 2));
        same_logits(got, full, 1, V, "after full attention");
    }
    const sp_sparse_account a = sp_sparse_account_of(p[1].sparse);
    assert_int_equal(a.n_steps, 3 * B - B - 3);
    assert_int_equal(a.n_read, a.n_keys);
    sp_sparse_destroy(p[1].sparse);
    for (int k = 0; k < 2; k++) sp_plan_fini(&p[k]);
    scene_close(&s);
}

/* However many blocks wait for their summaries, each keeps its number of keys. */
static void many_blocks_are_summarized_at_once(void **state)
{
    enum { MANY = 1100, KEYS = 5 };
    static uint32_t blocks[MANY];
    tiny t;
    tiny_spec spec = TINY_SPEC_DEFAULT;
    sp_summaries *all, *one;
    spec.n_blocks = MANY + 16;
    assert_ok(tiny_open(&t, &spec, 3));
    assert_ok(sp_kv_acquire(t.pool, MANY, blocks));
    const sp_kv_view kv = sp_kv_pool_layer(t.pool, 1);
    uint16_t *at = (uint16_t *)(void *)(kv.base + blocks[3] * kv.block_bytes);
    for (size_t i = 0; i < kv.block_bytes / 2; i++) at[i] = (uint16_t)(0x3c00 + i % 701); /* f16, from 1 on */
    assert_ok(sp_summaries_create(t.pool, SP_SUMMARY_BOUNDS, &all));
    assert_ok(sp_summaries_create(t.pool, SP_SUMMARY_BOUNDS, &one));
    for (int i = 0; i < MANY; i++) assert_ok(sp_summaries_want(all, blocks[i], KEYS));
    assert_ok(sp_summaries_want(one, blocks[3], KEYS));
    assert_ok(sp_summaries_make(all, NULL, NULL));
    assert_ok(sp_summaries_make(one, NULL, NULL));
    const sp_summary_view a = sp_summaries_layer(all, 1), b = sp_summaries_layer(one, 1);
    const size_t bytes = sp_summary_bytes(SP_SUMMARY_BOUNDS, 32);
    assert_memory_equal(a.base + blocks[3] * bytes, b.base + blocks[3] * bytes, bytes);
    assert_true(a.scale[blocks[3]] == b.scale[blocks[3]]);
    assert_true(a.scale[blocks[3]] != sp_summaries_layer(all, 0).scale[blocks[3]]); /* each layer has its own */
    sp_summaries_destroy(all);
    sp_summaries_destroy(one);
    sp_kv_release(t.pool, blocks, MANY);
    tiny_close(&t);
}

/* An account has the summaries of the blocks that are chosen from: of this plan, not of one before. */
static void an_account_counts_the_summaries_of_its_plan(void **state)
{
    static float logits[STEPS * V];
    const sp_sparse_opts some = {.tokens = 160, .min_depth = -1, .refine = 1};
    const size_t record = sp_summary_bytes(some.kind, 32) + sizeof(float);
    scene s;
    sp_plan p[2];
    sp_sparse *sparse;
    scene_open(&s, NULL, NULL, SP_Q16);
    assert_ok(sp_sparse_create(&some, &sparse));
    for (int k = 0; k < 2; k++) {
        prompt(&s, &p[k]);
        p[k].sparse = sparse;
        grow(&p[k], 0);
        assert_ok(sp_engine_step(s.t.engine, &(sp_slice){&p[k], p[k].n_todo - 1, 1, SP_WANT_LAST, logits}, 1));
        p[k].sparse = NULL;
        const sp_sparse_account a = sp_sparse_account_of(sparse);
        assert_in_range(a.summary_bytes / record, 15 * LAYERS * G, 25 * LAYERS * G); /* of 25 blocks in chunks */
        assert_int_equal(a.choice_bytes, a.summary_bytes);
    }
    for (int k = 0; k < 2; k++) sp_plan_fini(&p[k]);
    sp_sparse_destroy(sparse);
    const sp_sparse_opts two = {.tokens = 160, .min_depth = -1, .refine = 1.5f};
    const sp_sparse_account a = decode(&s, &two, logits); /* the second stage reads what the first proposes */
    assert_true(a.choice_bytes < a.summary_bytes && a.choice_bytes > a.summary_bytes / 2);
    scene_close(&s);
}

/* A copy is stored with the summaries that it has, be they of one kind of two. */
static void blocks_with_one_kind_of_summary_have_notes(void **state)
{
    static float logits[STEPS * V];
    sp_sparse_opts some = {.tokens = 160, .min_depth = -1};
    scene s;
    scene_open(&s, NULL, NULL, SP_Q16);
    const uint32_t *blocks = s.known.spans[0].blocks;
    assert_ok(sp_engine_keep_summaries(s.t.engine, &some)); /* of both stages */
    assert_false(sp_notes_has(s.t.pool, blocks, lengths[0]));
    some.refine = 1;
    decode(&s, &some, logits);
    assert_true(sp_notes_has(s.t.pool, blocks, lengths[0]));
    scene_close(&s);
}

/* Notes of a copy are whole, or empty: some blocks of a chunk are never chosen from, and have no summaries. */
static void notes_are_whole_or_empty(void **state)
{
    static float logits[STEPS * V];
    static uint8_t notes[1 << 16];
    const sp_sparse_opts some = {.tokens = 160, .min_depth = -1};
    scene s;
    scene_open(&s, NULL, NULL, SP_Q16);
    const uint32_t *blocks = s.known.spans[0].blocks;
    assert_ok(sp_engine_keep_summaries(s.t.engine, &some));
    const sp_kv_notes *of = sp_kv_pool_notes(s.t.pool);
    const size_t n = sp_notes_bytes(s.t.pool, lengths[0]);
    assert_in_range(n, 1, sizeof notes);
    decode(&s, &some, logits);
    memset(notes, 0xAA, n);
    sp_notes_read(s.t.pool, 1, blocks, lengths[0], notes, n);
    for (size_t i = 0; i < n; i++) assert_int_equal(notes[i], 0);
    assert_int_equal(of->write(of->user, 1, blocks, lengths[0], notes, n), 0);
    sp_notes_prepare(s.t.pool, blocks, lengths[0]);
    sp_notes_read(s.t.pool, 1, blocks, lengths[0], notes, n);
    assert_true(of->write(of->user, 1, blocks, lengths[0], notes, n) != 0);
    notes[4]++; /* of a version to come */
    assert_int_equal(of->write(of->user, 1, blocks, lengths[0], notes, n), 0);
    scene_close(&s);
}

/* The same memory, for another copy. */
static void blocks_that_are_taken_again_have_no_notes(void **state)
{
    uint32_t blocks[10];
    const sp_sparse_opts some = {.tokens = 160, .min_depth = -1};
    scene s;
    scene_open(&s, NULL, NULL, SP_Q16);
    assert_ok(sp_engine_keep_summaries(s.t.engine, &some));
    const int n = sp_blocks_for(lengths[0]);
    const uint32_t first = s.known.spans[0].blocks[0];
    sp_notes_prepare(s.t.pool, s.known.spans[0].blocks, lengths[0]);
    assert_true(sp_notes_has(s.t.pool, s.known.spans[0].blocks, lengths[0]));
    sp_plan_fini(&s.known);
    assert_ok(sp_kv_acquire(s.t.pool, n, blocks));
    assert_int_equal(blocks[0], first);
    assert_false(sp_notes_has(s.t.pool, blocks, lengths[0]));
    sp_kv_release(s.t.pool, blocks, n);
    scene_close(&s);
}

static void a_batch_equals_each_alone(void **state)
{
    static float full[STEPS * V], sparse[STEPS * V], both[2 * STEPS * V];
    const sp_sparse_opts some = {.share = 0.3f, .min_depth = -1};
    scene s;
    sp_plan p[3];
    scene_open(&s, NULL, NULL, SP_Q16);
    decode(&s, NULL, full);
    decode(&s, &some, sparse);
    for (int k = 0; k < 3; k++) prompt(&s, &p[k]);
    assert_ok(sp_sparse_create(&some, &p[0].sparse));
    assert_ok(sp_sparse_create(&(sp_sparse_opts){.share = 0.3f, .min_depth = -1,
                                                 .kind = SP_SUMMARY_HASH128}, &p[2].sparse));
    for (int i = 0; i < STEPS; i++) {
        static float other[V];
        for (int k = 0; k < 3; k++) grow(&p[k], i);
        const sp_slice slices[] = {
            {&p[2], p[2].n_todo - 1, 1, SP_WANT_LAST, other},
            {&p[0], p[0].n_todo - 1, 1, SP_WANT_LAST, both + i * V},
            {&p[1], p[1].n_todo - 1, 1, SP_WANT_LAST, both + (STEPS + i) * V}};
        assert_ok(sp_engine_step(s.t.engine, slices, 3));
    }
    same_logits(both, sparse, STEPS, V, "sparse");
    same_logits(both + STEPS * V, full, STEPS, V, "full");
    for (int k = 0; k < 3; k++) {
        sp_sparse_destroy(p[k].sparse);
        sp_plan_fini(&p[k]);
    }
    scene_close(&s);
}

/* Below the depth, and without memory for the lists: full attention. */
static void short_prompts_have_full_attention(void **state)
{
    static float full[STEPS * V], got[STEPS * V];
    scene s;
    scene_open(&s, NULL, NULL, SP_Q16);
    decode(&s, NULL, full);
    sp_sparse_account a = decode(&s, &(sp_sparse_opts){.tokens = 64}, got);
    same_logits(got, full, STEPS, V, "below the depth");
    assert_true(a.n_steps == 0 && a.n_full == STEPS && a.n_read == 0);
    const int n_live = n_tokens() - 32; /* the depth counts tokens that are not stale */
    for (int above = 0; above < 2; above++) {
        a = decode(&s, &(sp_sparse_opts){.tokens = 64, .min_depth = n_live + above}, got);
        assert_int_equal(a.full, above ? SP_SPARSE_SHORT : SP_SPARSE_IS_ACTIVE);
    }
    for (long after = 0; after < 8; after++) {
        sp_plan p;
        prompt(&s, &p);
        assert_ok(sp_sparse_create(&(sp_sparse_opts){.tokens = 64, .min_depth = -1}, &p.sparse));
        grow(&p, 0);
        sp_fault_after(after);
        sp_err err = sp_engine_step(s.t.engine,
                                    &(sp_slice){&p, p.n_todo - 1, 1, SP_WANT_LAST, got}, 1);
        sp_fault_after(-1);
        if (err == SP_OK && sp_sparse_account_of(p.sparse).n_full) {
            assert_memory_equal(got, full, V * sizeof *got);
            assert_int_equal(sp_sparse_account_of(p.sparse).full, SP_SPARSE_NOMEM);
        } else if (err != SP_OK) {
            assert_int_equal(err, SP_E_NOMEM);
        }
        sp_sparse_destroy(p.sparse);
        sp_plan_fini(&p);
    }
    scene_close(&s);
}

static void options_are_checked(void **state)
{
    sp_sparse *s;
    assert_fails(sp_sparse_create(&(sp_sparse_opts){0}, &s), SP_E_ARG, "sparse decoding");
    assert_fails(sp_sparse_create(&(sp_sparse_opts){.share = 1.5f}, &s), SP_E_ARG, "1.5");
    assert_fails(sp_sparse_create(&(sp_sparse_opts){.share = 0.5f, .tokens = 3}, &s), SP_E_ARG,
                 "3 tokens");
    assert_fails(sp_sparse_create(&(sp_sparse_opts){.share = 1, .eta = 1.5f}, &s), SP_E_ARG, "threshold of 1.5");
    assert_fails(sp_sparse_create(&(sp_sparse_opts){.share = 1, .eta = -1.5f}, &s), SP_E_ARG, "threshold of -1.5");
}

/* Candidates are the blocks in sight after the first 4 tokens and up to 64 before the query: here all 16 from token 4
 * to token 259, where the query is token 323. Keys after the query and out of sight do not count. */
static void blocks_between_sink_and_recent_are_chosen_from(void **state)
{
    enum { SINK = SP_SPARSE_SINK, LONG = 319, SHORT = 64, AT = SINK + LONG };
    static const int two[] = {LONG, SHORT};
    static const uint16_t seen[] = {0, 1, 2, 3};
    static float logits[V];
    const chunk_lengths c = {two, 2, V};
    tiny_spec spec = TINY_SPEC_DEFAULT;
    scene s;
    sp_plan p;
    int span, see;
    (void)state;
    assert_ok(tiny_open(&s.t, &spec, 21));
    chunks_compute(&s.t, &c, &s.known);
    const uint32_t *first = s.known.spans[0].blocks, *other = s.known.spans[1].blocks;
    sp_plan_init(&p, s.t.pool);
    assert_ok(sp_plan_add_span(&p, &(sp_span_spec){.n = SINK}, &span));
    assert_ok(sp_plan_add_span(&p, &(sp_span_spec){.n = LONG, .shift = SINK, .known = first, .n_known = LONG}, &span));
    assert_ok(sp_plan_add_span(&p, &(sp_span_spec){.room = B, .at = AT}, &span));
    sp_span_spec more = {.n = SHORT, .shift = 600, .known = other, .n_known = SHORT};
    assert_ok(sp_plan_add_span(&p, &more, &span));
    more.shift = SINK;
    assert_ok(sp_plan_add_span(&p, &more, &span));
    assert_ok(sp_plan_add_sight(&p, seen, SP_COUNT(seen), &see));
    for (int k = 0; k < SINK; k++) assert_ok(sp_plan_add_todo(&p, (sp_todo){.token = k + 1, .pos = k, .index = k}));
    assert_ok(sp_plan_bind(&p));
    assert_ok(sp_engine_step(s.t.engine, &(sp_slice){&p, 0, SINK, SP_WANT_NONE, NULL}, 1));
    assert_ok(sp_sparse_create(&(sp_sparse_opts){.share = 0.5f, .min_depth = -1, .refine = 1}, &p.sparse));
    assert_ok(sp_plan_grow(&p, 2, 2, AT, 0));
    assert_ok(sp_engine_step(s.t.engine, &(sp_slice){&p, SINK, 1, SP_WANT_LAST, logits}, 1));
    const sp_sparse_account a = sp_sparse_account_of(p.sparse);
    assert_int_equal(a.n_summarized, 16);
    assert_int_equal(a.n_keys - a.n_read, LAYERS * G * 10 * B); /* half of 323 keys: 4 and 63, and 6 blocks */
    sp_sparse_destroy(p.sparse);
    sp_plan_fini(&p);
    scene_close(&s);
}

/* A source sees every block that is read, and may say where its bytes are. */
typedef struct watch {
    int n_want, n_wait;
    int64_t n_blocks;
} watch;

static void want(void *user, int layer, int kv_head, uint32_t *blocks, int32_t n)
{
    watch *w = user;
    assert_int_equal(layer, w->n_wait % LAYERS);
    assert_int_equal(kv_head, w->n_want++ % G);
    assert_true(n > 0 && blocks != NULL);
    w->n_blocks += n;
}

static sp_err wait_for(void *user, int layer)
{
    ((watch *)user)->n_wait++;
    return SP_OK;
}

static void the_source_of_summaries_changes_nothing(void **state)
{
    static float plain[STEPS * V], got[STEPS * V];
    watch w = {0};
    scene s;
    scene_open(&s, NULL, NULL, SP_Q16);
    sp_sparse_opts o = {.tokens = 160, .min_depth = -1, .refine = 1};
    decode(&s, &o, plain);
    o.source = (sp_block_source){want, wait_for, &w};
    sp_sparse_account a = decode(&s, &o, got);
    same_logits(got, plain, STEPS, V, "with a source");
    assert_int_equal(w.n_wait, STEPS * LAYERS);
    assert_int_equal(w.n_want, STEPS * LAYERS * G);
    assert_true(w.n_blocks * B >= a.n_read);
    scene_close(&s);
}

static void lists_are_reused_while_queries_are_similar(void **state)
{
    static float never[STEPS * V], got[STEPS * V];
    const int64_t lists = STEPS * LAYERS * G, first = LAYERS * G;
    for (size_t w = 0; w < SP_COUNT(where); w++) {
        scene s;
        sp_heads *h;
        scene_open(&s, where[w].device, where[w].cpu, SP_Q16);
        sp_sparse_opts o = {.tokens = 160, .min_depth = -1};
        decode(&s, &o, never);
        o.reuse = true;
        o.power = -1;
        o.eta = 1;
        sp_sparse_account a = decode(&s, &o, got);
        same_logits(got, never, STEPS, V, "no query is more similar than 1");
        assert_true(a.n_chosen == lists && a.n_reused == 0);
        o.eta = -1;
        a = decode(&s, &o, got);
        assert_true(a.n_chosen == first && a.n_reused == lists - first);
        assert_memory_equal(got, never, V * sizeof *got); /* the first step */
        assert_true(memcmp(got + V, never + V, (STEPS - 1) * V * sizeof *got) != 0);
        assert_ok(sp_heads_create(LAYERS, 4, G, &h));
        for (int i = 0; i < 4; i++) h->importance[4 + i] = 0; /* of layer 1 */
        o = (sp_sparse_opts){.tokens = 160, .min_depth = -1, .reuse = true, .eta = 1, .heads = h};
        a = decode(&s, &o, got);
        assert_int_equal(a.n_reused, (STEPS - 1) * G);
        o.power = -1; /* one threshold for all heads */
        a = decode(&s, &o, got);
        assert_int_equal(a.n_reused, 0);
        sp_heads_destroy(h);
        scene_close(&s);
    }
}

/* What an observer has seen. */
typedef struct seen {
    int n, n_lists; /* layers; those in which not all was read */
    sp_err err;     /* that it ends the step with */
} seen;

static sp_err look(void *user, const sp_observed *o)
{
    seen *s = user;
    assert_int_equal(o->layer, s->n++ % LAYERS);
    assert_int_equal(o->pos, o->plan->todo[o->plan->n_todo - 1].pos);
    assert_int_equal(o->args->n_reqs, 1);
    assert_ptr_equal(o->args->reqs->spans, o->plan->spans);
    s->n_lists += o->args->reqs->spans_of_head != NULL;
    return s->err ? sp_fail(s->err, "seen") : SP_OK;
}

static void an_observer_sees_each_layer_of_decode_steps(void **state)
{
    static float plain[STEPS * V], got[STEPS * V];
    scene s;
    scene_open(&s, NULL, NULL, SP_Q16);
    for (int sparse = 0; sparse < 2; sparse++) {
        const sp_sparse_opts o = {.share = 0.3f, .min_depth = -1};
        seen saw = {0};
        sp_plan p;
        decode(&s, sparse ? &o : NULL, plain);
        prompt(&s, &p);
        if (sparse) assert_ok(sp_sparse_create(&o, &p.sparse));
        p.observer = (sp_observer){look, &saw};
        for (int i = 0; i < STEPS; i++) {
            const sp_slice slice = {&p, p.n_todo, 1, SP_WANT_LAST, got + i * V};
            grow(&p, i);
            assert_ok(sp_engine_step(s.t.engine, &slice, 1));
        }
        same_logits(got, plain, STEPS, V, "an observed answer");
        assert_int_equal(saw.n, STEPS * LAYERS);
        assert_int_equal(saw.n_lists, sparse ? STEPS * LAYERS : 0);
        saw = (seen){.err = SP_E_LIMIT};
        const sp_slice slice = {&p, p.n_todo, 1, SP_WANT_LAST, got};
        grow(&p, STEPS);
        assert_fails(sp_engine_step(s.t.engine, &slice, 1), SP_E_LIMIT, "seen");
        assert_int_equal(saw.n, 1);
        sp_sparse_destroy(p.sparse);
        sp_plan_fini(&p);
    }
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_of_all_is_full_attention),
        cmocka_unit_test(a_long_answer_reads_its_own_tokens),
        cmocka_unit_test(the_budget_counts_blocks),
        cmocka_unit_test(a_share_is_of_the_tokens_that_are_not_stale),
        cmocka_unit_test(a_list_has_the_keys_of_its_blocks),
        cmocka_unit_test(nodes_of_trees_are_read_whole),
        cmocka_unit_test(an_answer_may_begin_with_full_attention),
        cmocka_unit_test(many_blocks_are_summarized_at_once),
        cmocka_unit_test(an_account_counts_the_summaries_of_its_plan),
        cmocka_unit_test(blocks_with_one_kind_of_summary_have_notes),
        cmocka_unit_test(notes_are_whole_or_empty),
        cmocka_unit_test(blocks_that_are_taken_again_have_no_notes),
        cmocka_unit_test(a_batch_equals_each_alone),
        cmocka_unit_test(short_prompts_have_full_attention),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(blocks_between_sink_and_recent_are_chosen_from),
        cmocka_unit_test(the_source_of_summaries_changes_nothing),
        cmocka_unit_test(lists_are_reused_while_queries_are_similar),
        cmocka_unit_test(an_observer_sees_each_layer_of_decode_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
