/* test_measuring.c -- what evaluation asks of requests: a policy of their own, given answers,
 * logits, keys and values to compare, and an account. */
#include <math.h>
#include <stdio.h>

#include "compute/kernels.h"
#include "engine/grammar/token_set.h"
#include "support/requests.h"

static sp_request_opts plain_opts(int max_tokens)
{
    return (sp_request_opts){
        .sampling = sp_sampling_default(), .max_tokens = max_tokens, .ignore_end = true};
}

/* finish -- runs a prompt to its end, whatever that is. */
static sp_request *finish(sp_context *c, const char *order, const sp_request_opts *o,
                          const sp_measure *m)
{
    sp_prompt *p = prompt_of(c, order, "Where?");
    sp_request *r;
    assert_ok(sp_measure_submit(c, p, o, m, &r));
    sp_prompt_destroy(p);
    return run(c, r);
}

static int32_t end_token(const sp_context *c)
{
    int32_t id = 0;
    while (!sp_tokenizer_is_end(c->model->tokenizer, id)) id++;
    assert_in_range(id, 0, c->model->hp.n_vocab - 1);
    return id;
}

/* -- given answers -------------------------------------------------------------------------- */

static void forced_answers_are_followed(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    int32_t forced[] = {70, 71, 72, 70, 75};
    sp_request_opts o = plain_opts(8);
    sp_measure m = {.forced = forced, .n_forced = 5};
    sp_prompt *p = prompt_of(c, "01", "Where?");
    sp_request *r;
    assert_ok(sp_measure_submit(c, p, &o, &m, &r));
    memset(forced, 0, sizeof forced); /* the request has its own copy */
    run(c, r);
    const sp_result *got = sp_request_result(r);
    assert_int_equal(got->n_generated, 8);
    assert_memory_equal(got->tokens, ((int32_t[]){70, 71, 72, 70, 75}), sizeof forced);
    int32_t sampled[3]; /* and on from there as anyone would */
    memcpy(sampled, got->tokens + 5, sizeof sampled);
    int32_t whole[8];
    memcpy(whole, got->tokens, sizeof whole);
    sp_request_destroy(r);
    o = plain_opts(6);
    m = (sp_measure){.forced = whole, .n_forced = 8}; /* more than max_tokens */
    r = finish(c, "01", &o, &m);
    assert_int_equal(sp_request_result(r)->n_generated, 6);
    assert_memory_equal(sp_request_result(r)->tokens, whole, 6 * sizeof *whole);
    sp_request_destroy(r);
    o = plain_opts(8);
    m.n_forced = 5;
    r = finish(c, "01", &o, &m);
    assert_memory_equal(sp_request_result(r)->tokens + 5, sampled, sizeof sampled);
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* n_logits -- counts calls. */
static sp_err n_logits(int position, const float *logits, int n_vocab, void *user)
{
    ++*(int *)user;
    return SP_OK;
}

static void after_forced_tokens_it_answers_as_if_nothing_had_been(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    int32_t forced[40];
    for (int i = 0; i < 40; i++) forced[i] = 70 + i % 5;
    sp_request_opts o = plain_opts(48);
    sp_request *alone = finish(c, "01", &o, &(sp_measure){0});
    for (int n = 1; n <= 40; n += 13) { /* in one block, and over several */
        int count = 0;
        const sp_measure m = {
            .forced = forced, .n_forced = n, .rewinds = true, .on_logits = n_logits, .user = &count};
        sp_request *r = finish(c, "01", &o, &m);
        assert_int_equal(count, n);
        assert_int_equal(sp_request_result(r)->n_generated, 48);
        assert_memory_equal(sp_request_result(r)->tokens, sp_request_result(alone)->tokens, 48 * sizeof(int32_t));
        assert_string_equal(sp_request_result(r)->text, sp_request_result(alone)->text);
        sp_request_destroy(r);
    }
    sp_request *r = finish(c, "01", &(sp_request_opts){.sampling = o.sampling, .max_tokens = 9, .ignore_end = true},
                           &(sp_measure){.forced = forced, .n_forced = 9, .rewinds = true}); /* just room for them */
    assert_int_equal(sp_request_result(r)->n_generated, 9);
    sp_request_destroy(r);
    sp_prompt *p = prompt_of(c, "01", "Where?");
    const sp_measure nine = {.forced = forced, .n_forced = 9, .rewinds = true};
    o.max_tokens = 8;
    assert_fails(sp_measure_submit(c, p, &o, &nine, &r), SP_E_ARG, "9 forced tokens, and room for 8");
    sp_grammar *g;
    assert_ok(sp_grammar_compile(&(sp_grammar_opts){.schema = "{\"type\":\"integer\"}"}, &g));
    o.max_tokens = 48;
    o.grammar = g;
    assert_fails(sp_measure_submit(c, p, &o, &nine, &r), SP_E_ARG, "not with sparse decoding, contexts in a file");
    sp_grammar_destroy(g);
    sp_prompt_destroy(p);
    sp_request_destroy(alone);
    close_clean(c);
}

static void a_forced_answer_ends_where_it_ends(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    int32_t forced[] = {70, 71, end_token(c), 72};
    sp_request_opts o = plain_opts(6);
    const sp_measure m = {.forced = forced, .n_forced = 4};
    o.ignore_end = false;
    sp_request *r = finish(c, "01", &o, &m);
    assert_int_equal(sp_request_result(r)->finish, SP_FINISH_STOP);
    assert_int_equal(sp_request_result(r)->n_generated, 2);
    sp_request_destroy(r);
    o.ignore_end = true;
    r = finish(c, "01", &o, &m);
    assert_int_equal(sp_request_result(r)->n_generated, 6);
    assert_memory_equal(sp_request_result(r)->tokens, forced, sizeof forced);
    sp_request_destroy(r);
    close_clean(c);
}

static void bad_requests_are_refused(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    int32_t ids[] = {1, c->model->hp.n_vocab, -1};
    sp_prompt *p = prompt_of(c, "0", "Where?");
    sp_request *r = NULL;
    sp_request_opts o = plain_opts(4);
    sp_measure m = {.forced = ids, .n_forced = 2};
    assert_fails(sp_measure_submit(c, p, &o, &m, &r), SP_E_ARG, "token 1");
    m = (sp_measure){.forced = ids + 2, .n_forced = 1};
    assert_fails(sp_measure_submit(c, p, &o, &m, &r), SP_E_ARG, "-1");
    m.n_forced = -1;
    assert_fails(sp_measure_submit(c, p, &o, &m, &r), SP_E_ARG, "forced");
    m = (sp_measure){.n_forced = 3};
    assert_fails(sp_measure_submit(c, p, &o, &m, &r), SP_E_ARG, "forced");
    m = (sp_measure){.forced = (const int32_t[]){1}, .n_forced = 1};
    assert_survives_faults(sp_measure_submit(c, p, &o, &m, &r), r == NULL);
    sp_request_destroy(r);
    r = NULL;
    const sp_reuse_opts wrong[] = {{.policy = "magic"},
                                   {.policy = "full", .recompute = 1.5f},
                                   {.policy = "full", .recompute = NAN},
                                   {.policy = "craft:alpha=-1"}};
    static const char *const says[] = {"magic", "recompute", "recompute", "alpha"};
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        o = plain_opts(4);
        o.reuse = &wrong[i];
        assert_fails(sp_request_submit(c, p, &o, &r), SP_E_ARG, says[i]);
    }
    assert_null(r);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* -- logits --------------------------------------------------------------------------------- */

typedef struct heard {
    int n, first_position, n_vocab, fail_at;
    sp_err err;
    float logits[16][512];
} heard;

static sp_err hear(int position, const float *logits, int n_vocab, void *user)
{
    heard *h = user;
    if (h->n == 0) h->first_position = position;
    assert_int_equal(position, h->first_position + h->n);
    assert_in_range(n_vocab, 1, 512);
    assert_in_range(h->n, 0, 15);
    h->n_vocab = n_vocab;
    memcpy(h->logits[h->n++], logits, (size_t)n_vocab * sizeof *logits);
    return h->n == h->fail_at ? h->err : SP_OK;
}

static sp_request *hear_all(sp_context *c, const char *order, int max_tokens, heard *h)
{
    sp_request_opts o = plain_opts(max_tokens);
    return finish(c, order, &o, &(sp_measure){.on_logits = hear, .user = h});
}

typedef struct scored {
    float *rows; /* [n, V] */
} scored;

static sp_err keep_row(int position, const float *logits, int n_vocab, void *user)
{
    scored *s = user;
    memcpy(s->rows + (size_t)position * (size_t)n_vocab, logits, (size_t)n_vocab * sizeof *logits);
    return SP_OK;
}

/* Before each token, those of the plain forward pass. */
static void logits_come_for_every_token(void **state)
{
    sp_context *c =
        open_with((sp_context_opts){.reuse.policy = "off", .n_batch = 24, .cache.kv_type = "f32"});
    heard h = {0};
    const sp_ops *ops;
    assert_ok(sp_ops_select(NULL, &ops));
    sp_request *r = hear_all(c, "012", 8, &h);
    const sp_result *got = sp_request_result(r);
    sp_prompt *p = prompt_of(c, "012", "Where?");
    int32_t *ids = sp_alloc((size_t)got->n_prompt + 8, sizeof *ids);
    size_t n = 0;
    for (size_t i = 0; i < p->segs.n; i++)
        for (int32_t t = 0; t < p->segs.v[i].n; t++) ids[n++] = p->segs.v[i].tokens[t];
    for (int i = 0; i < 7; i++) ids[n++] = got->tokens[i];
    scored s = {sp_alloc(n, (size_t)h.n_vocab * sizeof(float))};
    assert_ok(sp_tokens_score(c, ids, n, 0, keep_row, &s));
    assert_int_equal(h.n, 8);
    assert_int_equal(h.first_position, got->n_prompt - 1);
    for (int i = 0; i < 8; i++) {
        const float *want = s.rows + (size_t)(got->n_prompt - 1 + i) * (size_t)h.n_vocab;
        double differ = 0, norm = 0; /* another order of sums: prompts are computed by segment */
        for (int v = 0; v < h.n_vocab; v++) {
            differ += pow((double)h.logits[i][v] - (double)want[v], 2);
            norm += (double)want[v] * (double)want[v];
        }
        assert_true(differ <= (ops->rounds_weights ? 1e-4 : 1e-8) * norm); /* bf16 rounds what hardly differs apart */
        for (int v = 0; v < h.n_vocab; v++) /* greedy: the best of them was chosen */
            assert_true(h.logits[i][v] <= h.logits[i][got->tokens[i]]);
    }
    sp_free(s.rows);
    sp_free(ids);
    sp_prompt_destroy(p);
    sp_request_destroy(r);
    h = (heard){0};
    r = hear_all(c, "012", 0, &h);
    assert_int_equal(h.n, 0); /* no answer, no logits */
    sp_request_destroy(r);
    close_clean(c);
}

static void an_error_ends_the_request(void **state)
{
    static const sp_err codes[] = {SP_E_CANCELED, SP_E_IO};
    for (size_t i = 0; i < SP_COUNT(codes); i++)
        for (int at = 1; at <= 4; at += 3) {
            sp_context *c = open_with((sp_context_opts){0});
            heard h = {.fail_at = at, .err = codes[i]};
            sp_request *other = submit(c, "10", "Where?", 6);
            sp_request *r = hear_all(c, "012", 8, &h);
            assert_int_equal(sp_request_result(r)->finish, SP_FINISH_ERROR);
            assert_int_equal(sp_request_result(r)->err, codes[i]);
            assert_int_equal(sp_request_result(r)->n_generated, at - 1);
            assert_int_equal(h.n, at);
            run(c, other);
            assert_int_equal(sp_request_result(other)->n_generated, 6);
            sp_request_destroy(other);
            sp_request_destroy(r);
            close_clean(c);
        }
}

/* -- keys and values held -------------------------------------------------------------------- */

static sp_request *hold(sp_context *c, const policy *p, const char *order)
{
    const sp_reuse_opts reuse = {.policy = p->name, .recompute = p->recompute};
    sp_request_opts o = plain_opts(5);
    o.reuse = &reuse;
    sp_request *r = finish(c, order, &o, &(sp_measure){.keep_kv = true});
    assert_int_equal(sp_request_result(r)->finish, SP_FINISH_LENGTH);
    assert_adds_up(sp_request_result(r));
    return r;
}

static void the_deviation_falls_with_recomputation(void **state)
{
    static const policy off = {"off", 0}, full = {"full", 0};
    policy all, some;
    sp_context *c = open_with((sp_context_opts){.cache.kv_type = "f32", .n_batch = 24});
    float d[2], of_full[2];
    sp_request *a = hold(c, &off, "3012"), *b = hold(c, &off, "3012"), *f = hold(c, &full, "3012");
    assert_ok(sp_request_kv_deviation(a, a, d));
    assert_true(d[0] == 0 && d[1] == 0);
    assert_ok(sp_request_kv_deviation(b, a, d));
    assert_true(d[0] == 0 && d[1] == 0);
    assert_ok(sp_request_kv_deviation(f, a, of_full));
    assert_true(of_full[0] < 1e-5f); /* what no attention has touched is only turned */
    assert_true(of_full[1] > 1e-3f);
    sp_request_destroy(hold(c, &(policy){"craft", 0}, "2103")); /* variants of other places */
    for (int i = 0; policy_at(RECOMPUTING, 1, i, &all) && policy_at(RECOMPUTING, 0.5f, i, &some); i++) {
        sp_request *r = hold(c, &all, "3012"), *half = hold(c, &some, "3012");
        assert_ok(sp_request_kv_deviation(r, a, d));
        assert_true(d[0] < 1e-4f && d[1] < 1e-4f);
        if (strcmp(some.name, "craft") != 0) { /* whose new patches are all that it needs */
            assert_ok(sp_request_kv_deviation(half, a, d));
            assert_true(d[1] > 1e-3f && d[1] < of_full[1]);
        }
        sp_request_destroy(r);
        sp_request_destroy(half);
    }
    sp_request_destroy(a);
    sp_request_destroy(b);
    sp_request_destroy(f);
    close_clean(c);
}

static void deviation_is_refused(void **state)
{
    static const policy off = {"off", 0};
    sp_context *c = open_with((sp_context_opts){0}), *c2 = open_with((sp_context_opts){0});
    float d[2] = {7, 7};
    sp_request *a = hold(c, &off, "01"), *other = hold(c, &off, "10"),
               *shorter = hold(c, &off, "0"), *elsewhere = hold(c2, &off, "01"),
               *gone = ask(c, "01", "Where?", 5), *runs = submit(c, "01", "Where?", 5);
    const sp_request *wrong[] = {other, shorter, elsewhere};
    for (size_t i = 0; i < SP_COUNT(wrong); i++)
        assert_fails(sp_request_kv_deviation(wrong[i], a, d), SP_E_ARG, "different prompts");
    assert_fails(sp_request_kv_deviation(a, gone, d), SP_E_ARG, "keep_kv");
    assert_fails(sp_request_kv_deviation(runs, a, d), SP_E_ARG, "keep_kv");
    assert_true(d[0] == 7 && d[1] == 7);
    assert_survives_faults(sp_request_kv_deviation(a, a, d), d[0] == 7);
    sp_request *all[] = {a, other, shorter, elsewhere, gone, runs};
    for (size_t i = 0; i < SP_COUNT(all); i++) sp_request_destroy(all[i]);
    close_clean(c);
    close_clean(c2);
}

static void kv_is_held_until_destroyed(void **state)
{
    policy how;
    for (int i = 0; policy_at(EVERY_POLICY, 0.25f, i, &how); i++) {
        sp_context *c = open_with((sp_context_opts){0});
        sp_request *r = hold(c, &how, "01");
        assert_int_equal(c->reserved, 0); /* nothing more is set aside for it */
        sp_context_forget(c);
        sp_context_info info = sp_context_describe(c);
        int64_t n = sp_request_result(r)->n_prompt;
        assert_true((info.kv_blocks - info.kv_blocks_free) * SP_BLOCK_TOKENS >= n);
        sp_request_destroy(r);
        close_clean(c);
    }
}

/* -- the account ---------------------------------------------------------------------------- */

static void a_request_may_have_its_own_policy(void **state)
{
    sp_context *c = open_with((sp_context_opts){.reuse.policy = "prefix"});
    static const policy policies[] = {{"full", 0}, {"off", 0}, {"blend", 0.25f}};
    sp_request *r = hold(c, &policies[0], "01");
    assert_int_equal(count_copies(c).n_content, 2);
    sp_request_destroy(r);
    r = hold(c, &policies[1], "01");
    assert_int_equal(sp_request_result(r)->n_reused, 0);
    sp_request_destroy(r);
    r = hold(c, &policies[2], "10");
    assert_true(sp_request_result(r)->n_recomputed > 0);
    sp_request_destroy(r);
    r = ask(c, "10", "Where?", 4); /* the context's own: a plain copy after the head is a known prefix */
    assert_int_equal(sp_request_result(r)->segments[1].n_reused, sp_request_result(r)->segments[1].n_tokens);
    assert_int_equal(sp_request_result(r)->segments[2].n_reused, 0);
    assert_int_equal(sp_request_result(r)->n_recomputed, 0);
    assert_string_equal(sp_request_result(r)->segments[1].missed, "");
    sp_request_destroy(r);
    close_clean(c);
}

static sp_request *ask_text(sp_context *c, const char *head, const char *text)
{
    sp_prompt *p;
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_system(p, head));
    assert_ok(sp_prompt_chunk(p, "T", text));
    assert_ok(sp_prompt_question(p, "Where?"));
    return run(c, submit_prompt(c, p, 2));
}

static void assert_missed(sp_context *c, const char *head, const char *text, const char *why)
{
    sp_request *r = ask_text(c, head, text);
    const sp_segment_report *s = &sp_request_result(r)->segments[1];
    assert_string_equal(s->missed, why);
    assert_string_equal(s->from, *why ? "" : "memory");
    assert_int_equal(s->n_reused, *why ? 0 : s->n_tokens);
    sp_request_destroy(r);
}

static void a_missed_chunk_has_its_reason(void **state)
{
    policy how;
    const char *boats = "Boats leave the harbour of Velm at nine in the morning.",
               *edited = "Boats leave the harbour of Velm at ten in the morning.",
               *hotels = "Torin has two hotels, and nobody knows a third one.";
    for (int i = 0; policy_at(CHUNKS_ANYWHERE, 0, i, &how); i++) {
        sp_context *c = open_policy(&how);
        assert_missed(c, "Be brief.", boats, "never seen");
        assert_missed(c, "Be brief.", boats, "");
        assert_missed(c, "Be brief.", edited, "edited");
        assert_missed(c, "Be brief.", hotels, "never seen");
        assert_missed(c, "Be long.", boats, "other system prompt");
        sp_context_forget(c);
        assert_missed(c, "Be brief.", boats, "evicted");
        close_clean(c);
    }
}

/* A copy that another policy left, without what this one must know of it, is not another head's. */
static void a_copy_that_was_not_measured_is_missed_for_that(void **state)
{
    const sp_reuse_opts h2o = {.policy = "h2o", .recompute = 0.5f};
    const char *boats = "Boats leave the harbour of Velm at nine in the morning.";
    sp_context *c = open_policy(&(policy){"full", 0});
    assert_missed(c, "Be brief.", boats, "never seen");
    sp_prompt *p;
    sp_request *r;
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_system(p, "Be brief."));
    assert_ok(sp_prompt_chunk(p, "T", boats));
    assert_ok(sp_prompt_question(p, "Where?"));
    sp_request_opts o = {.sampling = sp_sampling_default(), .max_tokens = 1, .reuse = &h2o};
    assert_ok(sp_generate(c, p, &o, &r));
    assert_string_equal(sp_request_result(r)->segments[1].missed, "not measured");
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    close_clean(c);
}

static void the_times_add_up(void **state)
{
    policy how;
    for (int i = 0; policy_at(EVERY_POLICY, 0.25f, i, &how); i++) {
        sp_context *c = open_policy(&how);
        for (int k = 0; k < 2; k++) {
            sp_request *r = ask(c, k ? "10" : "01", "Where?", 2);
            const sp_result *got = sp_request_result(r);
            assert_true(got->plan_us >= 0 && got->plan_us <= got->ttft_us);
            assert_true(got->queue_us >= 0 && got->queue_us <= got->ttft_us);
            assert_true(got->decode_us >= 0);
            sp_request_destroy(r);
        }
        close_clean(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forced_answers_are_followed),
        cmocka_unit_test(after_forced_tokens_it_answers_as_if_nothing_had_been),
        cmocka_unit_test(a_forced_answer_ends_where_it_ends),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(logits_come_for_every_token),
        cmocka_unit_test(an_error_ends_the_request),
        cmocka_unit_test(the_deviation_falls_with_recomputation),
        cmocka_unit_test(deviation_is_refused),
        cmocka_unit_test(kv_is_held_until_destroyed),
        cmocka_unit_test(a_request_may_have_its_own_policy),
        cmocka_unit_test(a_missed_chunk_has_its_reason),
        cmocka_unit_test(a_copy_that_was_not_measured_is_missed_for_that),
        cmocka_unit_test(the_times_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
