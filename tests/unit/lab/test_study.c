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
        cmocka_unit_test(a_study_needs_memory_that_the_host_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
