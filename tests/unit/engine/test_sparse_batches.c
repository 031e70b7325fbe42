/* test_sparse_batches.c -- many steps: requests that decode sparsely and with full attention in one
 * batch, with the chunks in memory and in a file.
 *
 *   batches   1 to 8 requests of changing kinds a step; each has the tokens that it has alone
 *   drift     1,000 tokens with k = all have the bits of full attention */
#include "support/check.h"

#include "engine/offload/offload.h"
#include "engine/sparse/sparse.h"
#include "support/known_chunks.h"

enum { B = SP_BLOCK_TOKENS, V = 101, N_CHUNKS = 3, QUESTION = 21, LIVE = 8, LONGEST = 40, MANY = 1000 };

static const int lengths[N_CHUNKS] = {150, 70, 83};
static const chunk_lengths chunks = {lengths, N_CHUNKS, V};
enum { PROMPT = 150 + 70 + 83 + QUESTION };

/* How an answer is decoded; `tokens` 0: full attention. */
static const sp_sparse_opts kinds[] = {
    {0},
    {.tokens = 128, .min_depth = -1, .refine = 2},
    {.tokens = 160, .min_depth = -1, .kind = SP_SUMMARY_HASH128, .refine = 1, .reuse = true, .eta = 0.5f},
    {.tokens = 112, .min_depth = -1, .refine = 1, .ahead = true},
    {.share = 1, .min_depth = -1},
};
enum { N_KINDS = SP_COUNT(kinds) };

typedef struct scene {
    tiny t;
    sp_offload *offload;
    sp_plan known; /* each chunk by itself */
    int room;
    uint64_t random;
} scene;

/* scene_open -- answers of up to `room` tokens. */
static void scene_open(scene *s, int room, bool in_file)
{
    tiny_spec spec = TINY_SPEC_DEFAULT;
    spec.kv_type = SP_Q16;
    spec.n_threads = 1;
    spec.n_layers = 2;
    spec.n_ff = 32;
    spec.head = 16;
    spec.n_ctx = PROMPT + room;
    *s = (scene){.room = room, .random = 3};
    assert_ok(tiny_open(&s->t, &spec, 21));
    if (in_file) {
        assert_ok(sp_offload_create(&(sp_offload_opts){.pool = s->t.pool, .dir = "/tmp",
                                                       .max_bytes = (size_t)64 << 20, .n_seats = 30},
                                    &s->offload));
        sp_engine_set_offload(s->t.engine, s->offload);
    }
    chunks_compute(&s->t, &chunks, &s->known);
    for (int i = 0; i < N_CHUNKS && in_file; i++)
        assert_ok(sp_offload_leave(s->offload, s->known.spans[i].blocks, sp_blocks_for(lengths[i])));
}

static void scene_close(scene *s)
{
    sp_engine_set_offload(s->t.engine, NULL);
    sp_offload_destroy(s->offload);
    chunks_end(&s->t, &s->known);
}

/* -- a request ------------------------------------------------------------------------------ */

typedef struct request {
    sp_plan plan;
    int kind, n; /* n: tokens decoded; -1: no request */
    float logits[V];
} request;

static void request_begin(scene *s, request *r, int kind)
{
    int span, see;
    *r = (request){.kind = kind};
    const int place = chunks_begin(&s->t, &chunks, &s->known, &r->plan);
    assert_ok(sp_plan_add_span(&r->plan, &(sp_span_spec){.n = QUESTION, .at = place}, &span));
    assert_ok(sp_plan_add_span(&r->plan,
                               &(sp_span_spec){.room = s->room, .at = place + QUESTION}, &span));
    assert_ok(sp_plan_add_sight(&r->plan, NULL, r->plan.n_spans, &see));
    chunks_ask(&r->plan, &chunks, QUESTION, place);
    assert_ok(sp_plan_bind(&r->plan));
    assert_ok(sp_engine_step(s->t.engine,
                             &(sp_slice){&r->plan, 0, r->plan.n_todo, SP_WANT_NONE, NULL}, 1));
    if (kind) assert_ok(sp_sparse_create(&kinds[kind], &r->plan.sparse));
}

static void request_end(request *r)
{
    sp_sparse_destroy(r->plan.sparse);
    sp_plan_fini(&r->plan);
    r->n = -1;
}

/* next_slice -- of one token. */
static sp_slice next_slice(request *r)
{
    assert_ok(sp_plan_grow(&r->plan, r->plan.n_spans - 1, (r->n * 11 + 2) % V, PROMPT + r->n, 0));
    r->n++;
    return (sp_slice){&r->plan, r->plan.n_todo - 1, 1, SP_WANT_LAST, r->logits};
}

static float want[N_KINDS][LONGEST][V];

/* alone -- all answers, one request at a time, in memory. */
static void alone(void)
{
    scene s;
    request r;
    scene_open(&s, LONGEST, false);
    for (int k = 0; k < N_KINDS; k++) {
        request_begin(&s, &r, k);
        while (r.n < LONGEST) {
            sp_slice slice = next_slice(&r);
            assert_ok(sp_engine_step(s.t.engine, &slice, 1));
            memcpy(want[k][r.n - 1], r.logits, sizeof r.logits);
        }
        request_end(&r);
    }
    scene_close(&s);
}

/* any_kind -- over a file full attention is rare, since it reads all of it at every step. */
static int any_kind(scene *s)
{
    const int kind = tiny_below(&s->random, N_KINDS);
    return kind == 0 && s->offload && tiny_below(&s->random, 4) ? 1 : kind;
}

/* one_step -- of some requests; those that are over make room for new ones. */
static int one_step(scene *s, request *live)
{
    sp_slice slices[LIVE];
    request *of[LIVE];
    int n = 0;
    for (int i = 0; i < LIVE; i++) {
        if (tiny_below(&s->random, 3) == 0 && n > 0) continue;
        if (live[i].n < 0) request_begin(s, &live[i], any_kind(s));
        of[n] = &live[i];
        slices[n++] = next_slice(&live[i]);
    }
    assert_ok(sp_engine_step(s->t.engine, slices, n));
    if (s->offload) sp_offload_turn(s->offload);
    for (int i = 0; i < n; i++) {
        request *r = of[i];
        if (memcmp(r->logits, want[r->kind][r->n - 1], sizeof r->logits) != 0)
            fail_msg("kind %d, token %d of an answer in a batch of %d", r->kind, r->n - 1, n);
        if (r->n == LONGEST || tiny_below(&s->random, 30) == 0) request_end(r);
    }
    return n;
}

static void run_batches(bool in_file)
{
    scene s;
    static request live[LIVE];
    int n_of[LIVE + 1] = {0};
    scene_open(&s, LONGEST, in_file);
    for (int i = 0; i < LIVE; i++) live[i].n = -1;
    for (int i = 0; i < MANY; i++) n_of[one_step(&s, live)]++;
    for (int i = 0; i < LIVE; i++)
        if (live[i].n >= 0) request_end(&live[i]);
    for (int n = 3; n <= LIVE; n++) assert_true(n_of[n] > 0);
    if (in_file) {
        const sp_offload_stats a = sp_offload_stats_of(s.offload);
        assert_true(a.n_wanted > MANY && a.n_windowed > 100 && a.n_ahead > 0);
        assert_true(a.n_retried == 0 && a.n_damaged == 0);
    }
    scene_close(&s);
}

static void batches_equal_each_request_alone(void **state)
{
    run_batches(false);
}

static void batches_over_a_file_equal_each_request_alone(void **state)
{
    run_batches(true);
}

/* decoder -- a scene with one request. */
typedef struct decoder {
    scene s;
    request r;
} decoder;

static void decoder_open(decoder *d, int kind, bool in_file)
{
    scene_open(&d->s, MANY, in_file);
    request_begin(&d->s, &d->r, kind);
}

static const float *decoder_step(decoder *d)
{
    sp_slice slice = next_slice(&d->r);
    assert_ok(sp_engine_step(d->s.t.engine, &slice, 1));
    return d->r.logits;
}

static void decoder_close(decoder *d)
{
    request_end(&d->r);
    scene_close(&d->s);
}

/* Step for step beside full attention. */
static void answers_stay_near_full_attention(void **state)
{
    static decoder full, near, away;
    decoder_open(&full, 0, false);
    decoder_open(&near, N_KINDS - 1, false);
    decoder_open(&away, N_KINDS - 1, true);
    for (int i = 0; i < MANY; i++) {
        const float *logits = decoder_step(&full);
        if (memcmp(logits, decoder_step(&near), V * sizeof *logits) != 0)
            fail_msg("token %d from memory", i);
        if (memcmp(logits, decoder_step(&away), V * sizeof *logits) != 0)
            fail_msg("token %d from the file", i);
    }
    assert_int_equal(sp_sparse_account_of(near.r.plan.sparse).n_steps, MANY);
    assert_int_equal(sp_sparse_account_of(away.r.plan.sparse).n_steps, MANY);
    decoder_close(&full);
    decoder_close(&near);
    decoder_close(&away);
}

int main(void)
{
    alone();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_equal_each_request_alone),
        cmocka_unit_test(batches_over_a_file_equal_each_request_alone),
        cmocka_unit_test(answers_stay_near_full_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
