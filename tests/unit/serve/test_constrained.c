/* Answers under a grammar, with a least length, and the tokens that are reported. */
#include <jansson.h>
#include <math.h>

#include "engine/grammar/token_set.h"
#include "model/tokenizer/tokenizer_int.h"
#include "support/requests.h"

enum { V_MAX = 16 }; /* end tokens */

static const policy off = {"off", 0};

typedef struct seen {
    sp_context *c;
    int n, n_each;
    float last;
    char text[4096];
} seen;

static void on_token(const sp_token_logprob *v, int n, void *user)
{
    seen *s = user;
    char *piece;
    size_t n_piece;
    s->n++;
    s->n_each = n;
    for (int i = 1; i < n; i++) {
        assert_true(v[i].logprob <= 0);
        assert_true(i == 1 || v[i].logprob <= v[i - 1].logprob);
        assert_true(v[i].id != v[0].id || v[i].logprob == v[0].logprob);
    }
    if (n > 1) assert_true(v[0].logprob <= v[1].logprob);
    assert_ok(sp_vocab_piece(sp_context_vocab(s->c), v[0].id, &piece, &n_piece));
    assert_true(strlen(s->text) + n_piece < sizeof s->text);
    strcat(s->text, piece);
    sp_buffer_free(piece);
}

static sp_request *answer(sp_context *c, const sp_request_opts *o)
{
    sp_request *r;
    sp_prompt *p = prompt_of(c, "01", "Boats?");
    assert_ok(sp_generate(c, p, o, &r));
    sp_prompt_destroy(p);
    return r;
}

static sp_request_opts warm(uint64_t seed)
{
    sp_request_opts o = {.sampling = sp_sampling_default(), .max_tokens = 400};
    o.sampling.temperature = 1;
    o.sampling.seed = seed;
    return o;
}

/* A random model, warm, and a schema: every answer that is not cut is what the schema says. */
static void answers_follow_their_schema(void **state)
{
    sp_context *c = open_policy(&off);
    sp_grammar *g;
    int n_whole = 0;
    assert_ok(sp_grammar_compile(
        &(sp_grammar_opts){.schema = "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\","
                                     "\"maxLength\":9},\"n\":{\"type\":\"integer\"}},\"required\":[\"name\",\"n\"]}"},
        &g));
    for (uint64_t seed = 1; seed <= 6; seed++) {
        sp_request_opts o = warm(seed);
        o.grammar = g;
        o.ignore_end = seed & 1;
        o.min_tokens = seed & 2 ? 300 : 0;
        sp_request *r = answer(c, &o);
        const sp_result *res = sp_request_result(r);
        if (res->finish == SP_FINISH_STOP) {
            json_t *j = json_loads(res->text, 0, NULL);
            assert_true(json_is_string(json_object_get(j, "name")));
            assert_true(json_is_integer(json_object_get(j, "n")));
            json_decref(j);
            n_whole++;
        }
        sp_request_destroy(r);
    }
    assert_int_equal(n_whole, 6);
    const sp_token_set *v = c->texts.grammar_tokens;
    int n_control = 0;
    for (int32_t i = 0; i < (int32_t)v->n; i++) {
        if (c->model->tokenizer->types[i] != SP_TOKEN_CONTROL) continue;
        assert_int_equal(v->pieces[i].n, 0); /* its name is no text */
        n_control++;
    }
    assert_true(n_control > 0);
    sp_grammar_destroy(g);
    close_clean(c);
}

static void answers_are_one_of_the_texts(void **state)
{
    sp_context *c = open_policy(&off);
    const char *const colours[] = {"red", "rose"};
    const char *schema = "{\"enum\":[1,2]}";
    const struct {
        sp_grammar_opts o;
        const char *begins, *ends;
    } cases[] = {
        {{.texts = colours, .n_texts = 2}, "r", "e"},
        {{.schema = schema, .before = "<a>", .after = "</a>"}, "<a>", "</a>"},
        {{.schema = schema, .before = "<a>", .after = "</a>", .between = "\n"}, "<a>", "</a>"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_grammar *g;
        assert_ok(sp_grammar_compile(&cases[i].o, &g));
        sp_request_opts o = warm(3);
        o.grammar = g;
        sp_request *r = answer(c, &o);
        const char *text = sp_request_result(r)->text;
        if (i == 0)
            assert_true(strcmp(text, "red") == 0 || strcmp(text, "rose") == 0);
        else
            assert_memory_equal(text, cases[i].begins, strlen(cases[i].begins));
        if (i > 0) assert_string_equal(text + strlen(text) - strlen(cases[i].ends), cases[i].ends);
        sp_request_destroy(r);
        sp_grammar_destroy(g);
    }
    close_clean(c);
}

/* The reported tokens are those of the answer; the first one of a greedy answer is the best one. */
static void reported_tokens_are_those_of_the_answer(void **state)
{
    sp_context *c = open_policy(&off);
    for (int top = 0; top <= 5; top += 5) {
        seen s = {.c = c};
        sp_request_opts o = {
            .max_tokens = 12, .ignore_end = true, .on_token = on_token, .user = &s, .top_logprobs = top};
        sp_request *r = answer(c, &o);
        assert_int_equal(s.n, sp_request_result(r)->n_generated);
        assert_int_equal(s.n, 12);
        assert_int_equal(s.n_each, 1 + top);
        sp_request_destroy(r);
    }
    sp_request *r = NULL;
    sp_prompt *p = prompt_of(c, "0", "x");
    assert_int_equal(sp_request_submit(c, p, &(sp_request_opts){.top_logprobs = 33}, &r), SP_E_ARG);
    assert_int_equal(sp_request_submit(c, p, &(sp_request_opts){.min_tokens = -1}, &r), SP_E_ARG);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* Biased towards its end tokens, an answer ends at once; with min_tokens at exactly that length. */
static void the_least_length_is_kept(void **state)
{
    sp_context *c = open_policy(&off);
    sp_logit_bias bias[V_MAX];
    const sp_vocab *v = sp_context_vocab(c);
    int n = 0;
    for (int id = 0; id < sp_context_describe(c).n_vocab && n < V_MAX; id++)
        if (sp_tokenizer_is_end(v->tokenizer, id)) bias[n++] = (sp_logit_bias){id, 100};
    assert_true(n > 0);
    for (int least = 0; least <= 7; least += 7) {
        sp_request_opts o = warm(5);
        o.sampling.bias = bias;
        o.sampling.n_bias = n;
        o.min_tokens = least;
        sp_request *r = answer(c, &o);
        assert_int_equal(sp_request_result(r)->n_generated, least);
        assert_int_equal(sp_request_result(r)->finish, SP_FINISH_STOP);
        sp_request_destroy(r);
    }
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_follow_their_schema),
        cmocka_unit_test(answers_are_one_of_the_texts),
        cmocka_unit_test(reported_tokens_are_those_of_the_answer),
        cmocka_unit_test(the_least_length_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
