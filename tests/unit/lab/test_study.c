/* test_study.c -- a study of decode steps: masses add up, and the choice of everything has all of them. */
#include "lab/study.h"

#include "engine/sparse/sparse.h"
#include "support/known_chunks.h"

enum { V = 101, N_CHUNKS = 3, QUESTION = 21, ROOM = 20, STEPS = 3, LAYERS = 3, H = 4, G = 2, PLACE = 150 + 70 + 64 };

static const int lengths[N_CHUNKS] = {150, 70, 64};
static const chunk_lengths chunks = {lengths, N_CHUNKS, V};

/* prompt -- the chunks, the second half of the last one stale, a question, and room for an answer. */
static void prompt(tiny *t, const sp_plan *known, int room, sp_plan *p)
{
    int span, see;
    const int place = chunks_begin(t, &chunks, known, p);
    assert_int_equal(place, PLACE);
    for (int k = 32; k < 64; k++) assert_ok(sp_plan_mark_stale(p, 2, k));
    assert_ok(sp_plan_add_span(p, &(sp_span_spec){.n = QUESTION, .at = place}, &span));
    assert_ok(sp_plan_add_span(p, &(sp_span_spec){.room = room, .at = place + QUESTION}, &span));
    assert_ok(sp_plan_add_sight(p, NULL, p->n_spans, &see));
    chunks_ask(p, &chunks, QUESTION, place);
    assert_ok(sp_plan_bind(p));
    assert_ok(sp_engine_step(t->engine, &(sp_slice){p, 0, p->n_todo, SP_WANT_NONE, NULL}, 1));
}

/* decode -- STEPS tokens with this share of the keys; all but the first are studied. */
static void decode(tiny *t, const sp_plan *known, float share, sp_study *study, float *logits)
{
    sp_plan p;
    const sp_sparse_opts o = {.share = share, .min_depth = -1};
    prompt(t, known, ROOM, &p);
    assert_ok(sp_sparse_create(&o, &p.sparse));
    for (int i = 0; i < STEPS; i++) {
        assert_ok(sp_plan_grow(&p, p.n_spans - 1, (i * 11 + 2) % V, PLACE + QUESTION + i, 0));
        p.observer = sp_study_observer(i ? study : NULL);
        const sp_slice slice = {&p, p.n_todo - 1, 1, SP_WANT_LAST, logits + i * V};
        assert_ok(sp_engine_step(t->engine, &slice, 1));
    }
    sp_sparse_destroy(p.sparse);
    sp_plan_fini(&p);
}

static void check_heads(const sp_study *study)
{
    sp_heads *h;
    assert_ok(sp_heads_create(LAYERS, H, G, &h));
    sp_study_heads(study, h);
    for (int i = 0; i < LAYERS * H; i++) {
        assert_true(h->importance[i] > 0 && h->importance[i] < 1);
        assert_true(fabsf(h->similarity[i]) <= 1);
    }
    sp_heads_destroy(h);
}

static void the_study_counts_what_was_read(void **state)
{
    static float plain[STEPS * V], studied[STEPS * V];
    tiny t;
    sp_plan known;
    tiny_spec spec = TINY_SPEC_DEFAULT;
    assert_ok(tiny_open(&t, &spec, 21));
    chunks_compute(&t, &chunks, &known);
    for (int part = 0; part < 2; part++) {
        sp_study *study;
        int64_t pairs = 0;
        assert_ok(sp_study_create(LAYERS, H, G, &study));
        decode(&t, &known, part ? 0.3f : 1, NULL, plain);
        decode(&t, &known, part ? 0.3f : 1, study, studied);
        same_logits(studied, plain, STEPS, V, "a studied answer");
        const sp_study_result r = sp_study_result_of(study);
        assert_int_equal(r.n_steps, STEPS - 1);
        assert_true(r.read <= r.best + 1e-6 && r.read > 0.2);
        assert_true(part ? r.read < 0.999 : r.read > 0.999);
        for (int i = 0; i < SP_STUDY_BINS; i++) pairs += r.n_pairs[i];
        assert_int_equal(pairs, LAYERS * H);
        check_heads(study);
        sp_study_destroy(study);
    }
    chunks_end(&t, &known);
}

/* write_tokens -- n tokens of the answer from the i-th on in one step, or one that is studied. */
static void write_tokens(tiny *t, sp_plan *p, int i, int n, sp_study *study)
{
    static float logits[V];
    for (int k = i; k < i + n; k++)
        assert_ok(sp_plan_grow(p, p->n_spans - 1, (k * 11 + 2) % V, PLACE + QUESTION + k, 0));
    p->observer = sp_study_observer(study);
    const sp_slice slice = {p, p->n_todo - n, n, SP_WANT_LAST, logits};
    assert_ok(sp_engine_step(t->engine, &slice, 1));
}

/* A study has room for 64 blocks more than the first step has; at exactly so many it still knows the step before. */
static void room_that_suffices_is_kept(void **state)
{
    enum { MORE = 64 * SP_BLOCK_TOKENS };
    const sp_sparse_opts o = {.share = 1, .min_depth = -1};
    tiny t;
    sp_plan known, p;
    sp_study *study;
    tiny_spec spec = TINY_SPEC_DEFAULT;
    int64_t pairs = 0;
    spec.n_ctx = 2048;
    assert_ok(tiny_open(&t, &spec, 21));
    chunks_compute(&t, &chunks, &known);
    assert_ok(sp_study_create(LAYERS, H, G, &study));
    prompt(&t, &known, MORE + SP_BLOCK_TOKENS, &p);
    assert_ok(sp_sparse_create(&o, &p.sparse));
    write_tokens(&t, &p, 0, 1, study);
    const int64_t n = sp_plan_n_blocks(&p);
    for (int i = 1; i <= MORE; i += 256) write_tokens(&t, &p, i, 256, NULL);
    for (int i = 1; i <= 2; i++) {
        write_tokens(&t, &p, MORE + i, 1, study);
        assert_int_equal(sp_plan_n_blocks(&p), n + 64);
    }
    const sp_study_result r = sp_study_result_of(study);
    assert_int_equal(r.n_steps, 3);
    for (int i = 0; i < SP_STUDY_BINS; i++) pairs += r.n_pairs[i];
    assert_int_equal(pairs, 2 * LAYERS * H);
    sp_sparse_destroy(p.sparse);
    sp_plan_fini(&p);
    sp_study_destroy(study);
    chunks_end(&t, &known);
}

/* study_end -- the heads after n steps with one token each, after chunks of 16 and `second` tokens and a question;
 * apart: each step begins an answer. */
static sp_heads *study_end(int second, int n, bool apart)
{
    const int two[] = {16, second};
    const chunk_lengths lengths_of = {two, 2, V};
    const sp_sparse_opts o = {.share = 1, .min_depth = -1};
    tiny t;
    sp_plan known, p;
    sp_study *study;
    sp_heads *h;
    int span, see;
    tiny_spec spec = TINY_SPEC_DEFAULT;
    static float logits[V];
    assert_ok(tiny_open(&t, &spec, 21));
    chunks_compute(&t, &lengths_of, &known);
    const int place = chunks_begin(&t, &lengths_of, &known, &p);
    assert_ok(sp_plan_add_span(&p, &(sp_span_spec){.n = QUESTION, .at = place}, &span));
    assert_ok(sp_plan_add_span(&p, &(sp_span_spec){.room = ROOM, .at = place + QUESTION}, &span));
    assert_ok(sp_plan_add_sight(&p, NULL, p.n_spans, &see));
    chunks_ask(&p, &lengths_of, QUESTION, place);
    assert_ok(sp_plan_bind(&p));
    assert_ok(sp_engine_step(t.engine, &(sp_slice){&p, 0, p.n_todo, SP_WANT_NONE, NULL}, 1));
    assert_ok(sp_sparse_create(&o, &p.sparse));
    assert_ok(sp_study_create(LAYERS, H, G, &study));
    for (int i = 0; i < n; i++) {
        if (apart) sp_study_next(study);
        assert_ok(sp_plan_grow(&p, p.n_spans - 1, 7, place + QUESTION + i, 0));
        p.observer = sp_study_observer(study);
        assert_ok(sp_engine_step(t.engine, &(sp_slice){&p, p.n_todo - 1, 1, SP_WANT_LAST, logits}, 1));
    }
    assert_ok(sp_heads_create(LAYERS, H, G, &h));
    sp_study_heads(study, h);
    sp_study_destroy(study);
    sp_sparse_destroy(p.sparse);
    sp_plan_fini(&p);
    chunks_end(&t, &known);
    return h;
}

/* Importance is what a head reads of blocks that are neither the beginning nor among the last 64 tokens. At position
 * 94 there is none; at 95 there is one, 31 being its last token, of about a sixth of the tokens. */
static void blocks_at_both_ends_are_of_no_importance(void **state)
{
    for (int more = 0; more < 2; more++) {
        sp_heads *h = study_end(94 + more - QUESTION - 16, 1, false);
        for (int i = 0; i < LAYERS * H; i++) {
            assert_true(more ? h->importance[i] > 0 && h->importance[i] < 0.4f : h->importance[i] == 0);
            assert_true(h->similarity[i] == 1); /* there is no step before */
        }
        sp_heads_destroy(h);
    }
}

/* Queries are compared as they are rotated: of one token at two positions, in the first layer, too. Those of different
 * answers are not compared. */
static void similar_queries_are_not_the_same(void **state)
{
    for (int apart = 0; apart < 2; apart++) {
        sp_heads *h = study_end(60, 2, apart);
        for (int i = 0; i < H; i++)
            assert_true(apart ? h->similarity[i] == 1 : h->similarity[i] < 0.9999f && h->similarity[i] > -1);
        sp_heads_destroy(h);
    }
}

/* What was read is at most the best choice that reads both ends, and that at most the best of so many blocks; only who
 * reads all reads everything. */
static void no_choice_reads_more_than_the_best(void **state)
{
    static float logits[STEPS * V];
    tiny t;
    sp_plan known;
    tiny_spec spec = TINY_SPEC_DEFAULT;
    int n_parts = 0;
    assert_ok(tiny_open(&t, &spec, 21));
    chunks_compute(&t, &chunks, &known);
    for (int percent = 20; percent <= 100; percent += 4) {
        sp_study *study;
        assert_ok(sp_study_create(LAYERS, H, G, &study));
        decode(&t, &known, (float)percent / 100, study, logits);
        const sp_study_result r = sp_study_result_of(study);
        assert_true(r.read <= r.exact + 1e-6 && r.exact <= r.best + 1e-6 && r.best <= 1 + 1e-6);
        if (percent == 100) assert_true(r.read > 1 - 1e-6);
        if (r.read < 0.9999) assert_true(r.best < 0.9999);
        n_parts += r.read < 0.9999;
        sp_study_destroy(study);
    }
    assert_true(n_parts > 10);
    chunks_end(&t, &known);
}

static void a_study_needs_memory_that_the_host_reads(void **state)
{
    const sp_device far = {.name = "far"};
    sp_study *study;
    assert_ok(sp_study_create(LAYERS, H, G, &study));
    const sp_observer o = sp_study_observer(study);
    const sp_kv_view kv = {.head = 8};
    const sp_attend_req req = {0};
    const sp_attend_args args = {.kv = &kv, .reqs = &req, .n_reqs = 1};
    assert_fails(o.look(o.user, &(sp_observed){.device = (sp_device *)&far, .args = &args}), SP_E_UNSUPPORTED, "far");
    sp_study_destroy(study);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_study_counts_what_was_read),
        cmocka_unit_test(room_that_suffices_is_kept),
        cmocka_unit_test(blocks_at_both_ends_are_of_no_importance),
        cmocka_unit_test(similar_queries_are_not_the_same),
        cmocka_unit_test(no_choice_reads_more_than_the_best),
        cmocka_unit_test(a_study_needs_memory_that_the_host_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
