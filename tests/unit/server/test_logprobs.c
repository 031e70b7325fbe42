/* Log probabilities in answers: of whole ones, of each event of a stream and of an echo; impossible tokens. */
#include <math.h>
#include <string.h>

#include "server/api/echo.h"
#include "server/api/logprobs.h"
#include "support/requests.h"

enum { N = 5, TOP = 2, EACH = 1 + TOP };

typedef struct told {
    sp_vocab *vocab;
    srv_server server;
    srv_job job;
    sp_token_logprob tokens[N * EACH];
    size_t at[N + 1]; /* characters of the tokens before each */
} told;

static void open_told(told *t, bool chat)
{
    int32_t *ids;
    size_t n;
    *t = (told){0};
    assert_ok(sp_vocab_open(MODEL, &t->vocab));
    assert_ok(sp_vocab_encode(t->vocab, "éa keeper", 10, false, &ids, &n)); /* é: two tokens */
    assert_true(n >= N);
    for (int i = 0; i < N; i++) {
        char *s;
        size_t bytes;
        for (int k = 0; k < EACH; k++)
            t->tokens[i * EACH + k] = (sp_token_logprob){ids[(i + k) % N], -0.5f * (float)(k + 1)};
        assert_ok(sp_vocab_piece(t->vocab, ids[i], &s, &bytes));
        t->at[i + 1] = t->at[i];
        for (size_t k = 0; k < bytes; k++) t->at[i + 1] += ((unsigned char)s[k] & 0xC0) != 0x80;
        sp_buffer_free(s);
    }
    sp_buffer_free(ids);
    t->server.vocab = t->vocab;
    t->job.s = &t->server;
    t->job.task.chat = chat;
    t->job.task.reply.logprobs = true;
    t->job.task.reply.top_logprobs = TOP;
    t->job.choices[0] = (srv_choice){.job = &t->job, .tokens = t->tokens, .n_tokens = N};
}

/* take_new -- what an event of a stream adds when the choice has n tokens. */
static json_t *take_new(told *t, size_t n)
{
    t->job.choices[0].n_tokens = n;
    return srv_logprobs_new(&t->job.choices[0]);
}

static double value_at(const json_t *list, size_t i)
{
    return json_number_value(json_array_get(list, i));
}

static void offsets_are_characters_of_the_text_before_a_token(void **state)
{
    told t;
    open_told(&t, false);
    json_t *o = srv_logprobs(&t.job.choices[0], 0, N, (srv_chars){.n = 7});
    const json_t *offsets = json_object_get(o, "text_offset");
    assert_int_equal(json_array_size(offsets), N);
    for (size_t i = 0; i < N; i++) assert_true(value_at(offsets, i) == (double)(7 + t.at[i]));
    json_decref(o);
    sp_vocab_close(t.vocab);
}

/* Control tokens, which an answer does not show, and what a tokenizer puts before an echoed text add nothing. */
static void offsets_count_what_the_text_has(void **state)
{
    told t;
    int32_t *ids;
    size_t n;
    open_told(&t, false);
    assert_ok(sp_vocab_encode(t.vocab, "<|im_end|>", 10, true, &ids, &n));
    assert_int_equal(n, 1);
    assert_true(sp_vocab_shows(t.vocab, t.tokens[0].id) && !sp_vocab_shows(t.vocab, *ids));
    assert_true(!sp_vocab_shows(t.vocab, -1) && !sp_vocab_shows(NULL, 0));
    t.tokens[EACH].id = *ids;
    for (size_t echoed = 0; echoed <= 2; echoed += 2) {
        srv_choice *c = &t.job.choices[0];
        const size_t first = t.at[1], end = echoed ? 10 : 0, added = echoed;
        c->n_echoed = echoed;
        c->n_added = added;
        c->taken_tokens = 0;
        c->text_at = (srv_chars){0};
        json_t *whole = srv_logprobs(c, 0, N, (srv_chars){0}), *event = take_new(&t, N);
        const json_t *offsets = json_object_get(whole, "text_offset");
        assert_true(json_equal(whole, event));
        assert_true(value_at(offsets, 0) == 0);
        assert_true(value_at(offsets, 1) == (double)(first > added ? first - added : 0));
        assert_true(value_at(offsets, 2) == (double)(first + end - added));
        json_decref(event);
        json_decref(whole);
    }
    sp_buffer_free(ids);
    sp_vocab_close(t.vocab);
}

/* The events together are the whole: no token twice, no token left out, offsets that continue. */
static void events_of_a_stream_have_the_tokens_since_the_last(void **state)
{
    told t;
    open_told(&t, false);
    const size_t upto[] = {2, 2, 3, N};
    size_t seen = 0;
    for (size_t k = 0; k < SP_COUNT(upto); k++) {
        json_t *o = take_new(&t, upto[k]);
        const json_t *offsets = json_object_get(o, "text_offset");
        assert_int_equal(json_array_size(offsets), upto[k] - seen);
        for (size_t i = seen; i < upto[k]; i++) assert_true(value_at(offsets, i - seen) == (double)t.at[i]);
        seen = upto[k];
        json_decref(o);
    }
    sp_vocab_close(t.vocab);
}

static void impossible_tokens_have_the_least_number(void **state)
{
    for (int chat = 0; chat < 2; chat++) {
        told t;
        open_told(&t, chat);
        t.tokens[0].logprob = -INFINITY;
        t.tokens[1].logprob = -INFINITY;
        json_t *o = srv_logprobs(&t.job.choices[0], 0, N, (srv_chars){0});
        assert_non_null(o);
        if (chat) {
            const json_t *first = json_array_get(json_object_get(o, "content"), 0);
            assert_true(json_number_value(json_object_get(first, "logprob")) == -9999);
            const json_t *top = json_array_get(json_object_get(first, "top_logprobs"), 0);
            assert_true(json_number_value(json_object_get(top, "logprob")) == -9999);
            assert_int_equal(json_array_size(json_object_get(first, "top_logprobs")), TOP);
        } else {
            assert_true(value_at(json_object_get(o, "token_logprobs"), 0) == -9999);
            assert_true(value_at(json_object_get(o, "token_logprobs"), 1) == -0.5);
        }
        json_decref(o);
        sp_vocab_close(t.vocab);
    }
}

/* The first token of an echoed prompt comes after nothing. */
static void a_token_after_nothing_has_null(void **state)
{
    told t;
    open_told(&t, false);
    t.tokens[0].logprob = NAN;
    json_t *o = srv_logprobs(&t.job.choices[0], 0, N, (srv_chars){0});
    assert_true(json_is_null(json_array_get(json_object_get(o, "token_logprobs"), 0)));
    assert_true(json_is_null(json_array_get(json_object_get(o, "top_logprobs"), 0)));
    json_t *top = json_array_get(json_object_get(o, "top_logprobs"), 1);
    assert_int_equal(json_object_size(top), TOP + 1); /* the token itself, too */
    double last = 0;
    for (void *at = json_object_iter(top); at; at = json_object_iter_next(top, at)) {
        const double p = json_number_value(json_object_iter_value(at));
        assert_true(p < last || !json_object_iter_next(top, at)); /* the most likely first */
        last = p;
    }
    assert_true(last > -1); /* it is the last here */
    json_decref(o);
    t.job.task.reply.logprobs = false;
    o = srv_logprobs(&t.job.choices[0], 0, N, (srv_chars){0});
    assert_true(json_is_null(o));
    json_decref(o);
    sp_vocab_close(t.vocab);
}

/* Two tokens may have one text, as a byte and the piece of that byte: the more likely one stands for it. */
static void of_tokens_with_one_text_the_likelier_counts(void **state)
{
    told t;
    open_told(&t, false);
    t.tokens[2].id = t.tokens[1].id;
    json_t *o = srv_logprobs(&t.job.choices[0], 0, 1, (srv_chars){0});
    const json_t *top = json_array_get(json_object_get(o, "top_logprobs"), 0);
    assert_int_equal(json_object_size(top), TOP); /* one text, and the token itself */
    assert_true(json_number_value(json_object_iter_value(json_object_iter((json_t *)top))) == -1);
    json_decref(o);
    sp_vocab_close(t.vocab);
}

/* NUL would end the name of a member. */
static void a_token_with_nul_is_named_by_its_bytes(void **state)
{
    told t;
    int32_t *ids;
    size_t n;
    open_told(&t, false);
    assert_ok(sp_vocab_encode(t.vocab, "\0", 1, false, &ids, &n));
    assert_int_equal(n, 1);
    t.tokens[0].id = t.tokens[1].id = *ids;
    json_t *o = srv_logprobs(&t.job.choices[0], 0, 1, (srv_chars){0});
    const json_t *top = json_array_get(json_object_get(o, "top_logprobs"), 0);
    assert_string_equal(json_string_value(json_array_get(json_object_get(o, "tokens"), 0)), "bytes:\\x00");
    assert_true(json_number_value(json_object_get(top, "bytes:\\x00")) == -0.5);
    sp_buffer_free(ids);
    json_decref(o);
    sp_vocab_close(t.vocab);
}

/* -- an echoed prompt ---------------------------------------------------------------------------------------- */

typedef struct scores {
    const int32_t *ids;
    const sp_token_logprob *tokens;
    size_t n;
} scores;

/* is_scored -- the entry of the token after `position` against all logits. */
static sp_err is_scored(int position, const float *logits, int n_vocab, void *user)
{
    const scores *s = user;
    const sp_token_logprob *v = s->tokens + (size_t)(position + 1) * EACH;
    double total = 0;
    if ((size_t)position + 1 == s->n) return SP_OK;
    for (int i = 0; i < n_vocab; i++) total += exp(logits[i]);
    assert_int_equal(v[0].id, s->ids[position + 1]);
    for (int k = 0; k < EACH; k++) assert_true(fabs(v[k].logprob - (logits[v[k].id] - log(total))) < 1e-4);
    for (int i = 0; i < n_vocab; i++) {
        int n_above = 0;
        for (int k = 0; k < n_vocab; k++) n_above += logits[k] > logits[i];
        if (n_above < TOP) assert_true(logits[v[1 + n_above].id] == logits[i]);
    }
    return SP_OK;
}

static void an_echo_has_the_likeliest_tokens_at_each_place(void **state)
{
    static const char body[] = "{\"prompt\": \"Boats leave Velm at nine.\"}";
    srv_server server = {.ctx = open_with((sp_context_opts){0})};
    server.vocab = sp_context_vocab(server.ctx);
    const srv_call call = {.s = &server};
    const srv_task task = {.n = 1, .n_prompts = 1, .reply = {.echo = true, .logprobs = true, .top_logprobs = TOP}};
    srv_fields f;
    srv_echo echo;
    json_t *fields = srv_fields_parse(&f, body, strlen(body));
    assert_true(srv_echo_read(&call, &task, &f, 0, &echo));
    assert_string_equal(echo.text, "Boats leave Velm at nine.");
    int32_t *ids = calloc(echo.n, sizeof *ids);
    for (size_t i = 0; i < echo.n; i++) ids[i] = echo.tokens[i * EACH].id;
    assert_true(echo.n > 3 && isnan(echo.tokens[0].logprob));
    scores s = {ids, echo.tokens, echo.n};
    assert_ok(sp_tokens_score(server.ctx, ids, echo.n, 0, is_scored, &s));
    free(ids);
    srv_echo_fini(&echo);
    json_decref(fields);
    sp_context_close(server.ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_characters_of_the_text_before_a_token),
        cmocka_unit_test(offsets_count_what_the_text_has),
        cmocka_unit_test(events_of_a_stream_have_the_tokens_since_the_last),
        cmocka_unit_test(impossible_tokens_have_the_least_number),
        cmocka_unit_test(a_token_after_nothing_has_null),
        cmocka_unit_test(of_tokens_with_one_text_the_likelier_counts),
        cmocka_unit_test(a_token_with_nul_is_named_by_its_bytes),
        cmocka_unit_test(an_echo_has_the_likeliest_tokens_at_each_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
