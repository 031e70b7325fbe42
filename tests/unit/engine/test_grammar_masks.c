/* Masks against the automaton itself: each token of a vocabulary is read byte by byte, from the configurations of
 * the state, without tables, tries or blocks of plain tokens. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/grammar/run.h"
#include "engine/sampler.h"
#include "support/tiktoken.h"

typedef struct grammar_case {
    sp_grammar_opts o;
    const char *text; /* accepted */
} grammar_case;

static const grammar_case cases[] = {
    {{0}, "{\"a\": [1.5e-3, \"x\\n\\u00e9\", {\"b\": null}], \"\xC3\xA9\": true}"},
    {{.schema = "{\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":9},"
                "\"n\":{\"enum\":"
                "[\"one\",\"once\",1]}},\"required\":[\"name\",\"n\"]}",
      .before = "<call>",
      .after = "</call>",
      .between = "\n"},
     "<call>{\"name\": \"J\\\"\xC3\xA9 x\", \"n\": "
     "\"once\"}</call>\n<call>{\"name\":\"ab\",\"n\":1}</call>"},
    {{.schema = "{\"type\":\"array\",\"items\":{\"type\":[\"integer\",\"string\",\"boolean\"]}}"},
     "[1, \"some words\", true,-20 , \"\"]"},
    {{.texts = (const char *[]){"yes", "yesterday", "no"}, .n_texts = 3}, "yesterday"},
    {{.regex = "[^\\n]{3,60}"}, "any text, \xC3\xA9 or \xE2\x82\xAC \xF0\x9F\x98\x80"},
    {{.regex = "(\\w+@\\w+\\.(com|org)|\\d{4}-\\d\\d),? ?(a?b?)*"}, "anna_9@example.org, abba"},
    {{.gbnf = "root ::= (key \": \" value \"\\n\")+\nkey ::= [a-z_]+\n"
              "value ::= [0-9]+ | \"'\" [^'\\n]* \"'\" | list\nlist ::= \"[\" value (\", \" "
              "value)* \"]\"\n"},
     "name: 'Anna S'\nages: [42, [7, 'many years'], 'x']\n"},
};

/* Every byte, pieces of the texts of 2 to 9 bytes, and an end token with a text; some pieces occur twice. */
enum { N_PIECES = 400, END = 256 + N_PIECES, N_TOKENS };

static void small_set(tiktoken *t)
{
    uint64_t seed = 3;
    *t = (tiktoken){
        .pieces = calloc(N_TOKENS, sizeof *t->pieces), .bytes = malloc(256), .n = N_TOKENS};
    for (int i = 0; i < 256; i++) {
        t->bytes[i] = (char)i;
        t->pieces[i] = (sp_token_piece){.s = &t->bytes[i], .n = 1};
    }
    for (int i = 256; i < END; i++) {
        const char *text = cases[check_random(&seed, SP_COUNT(cases))].text;
        size_t at = (size_t)check_random(&seed, strlen(text) - 2),
               n = 2 + (size_t)check_random(&seed, 8);
        t->pieces[i] = (sp_token_piece){.s = text + at, .n = SP_MIN(n, strlen(text + at))};
    }
    t->pieces[END] = (sp_token_piece){.s = "end", .n = 3, .end = true};
    assert_ok(sp_token_set_create(t->pieces, t->n, &t->set));
}

/* read -- the state after n bytes, each from the start. */
static int32_t take_text(sp_gram_run *r, int32_t at, const char *s, size_t n)
{
    for (size_t i = 0; i < n && at != SP_GRAM_DEAD; i++) at = sp_gram_find(r, at, (uint8_t)s[i]);
    assert_false(r->full);
    return at;
}

/* compare -- the masks of the states after each `stride` bytes of the text; returns the tokens they allow. */
static size_t compare(const grammar_case *c, const tiktoken *v, size_t stride)
{
    sp_grammar *g;
    size_t n_allowed = 0;
    assert_ok(sp_grammar_compile(&c->o, &g));
    for (size_t at = 0; at <= strlen(c->text); at += stride) {
        sp_grammar_state *s;
        sp_gram_run r;
        bool any = false;
        assert_ok(sp_grammar_start(g, v->set, &s));
        assert_ok(sp_gram_run_init(&r, g));
        for (size_t i = 0; i < at; i++)
            if (!sp_grammar_accept(s, tiktoken_longest(v, c->text + i, 1)))
                fail_msg("\"%.*s\" is refused", (int)i + 1, c->text);
        int32_t state = take_text(&r, 0, c->text, at);
        assert_int_not_equal(state, SP_GRAM_DEAD);
        for (int32_t id = 0; id < (int32_t)v->n - 1; id++) {
            const sp_token_piece *p = &v->pieces[id];
            bool yes = p->n && p->n <= 64 && take_text(&r, state, p->s, p->n) != SP_GRAM_DEAD;
            if (id % 7 == 0)
                assert_int_equal(sp_grammar_allows(s, id), yes); /* before the mask is there */
            if ((sp_grammar_mask(s)[id >> 6] >> (id & 63) & 1) != yes)
                fail_msg("\"%.*s|%.*s\": %d expected", (int)at, c->text, (int)p->n, p->s, yes);
            n_allowed += yes;
            any = any || yes;
        }
        const int32_t end = (int32_t)v->n - 1;
        assert_int_equal(sp_grammar_mask(s)[end >> 6] >> (end & 63) & 1, r.states[state].complete || !any);
        assert_int_equal(sp_grammar_allows(s, end), r.states[state].complete || !any);
        if (at == strlen(c->text)) assert_true(sp_grammar_complete(s));
        sp_gram_run_fini(&r);
        sp_grammar_stop(s);
    }
    sp_grammar_destroy(g);
    return n_allowed;
}

static void masks_are_those_of_single_tokens(void **state)
{
    tiktoken v;
    small_set(&v);
    for (size_t i = 0; i < SP_COUNT(cases); i++) assert_true(compare(&cases[i], &v, 1) > 0);
    tiktoken_close(&v);
}

/* The same with the 151,643 tokens of Qwen. */
static void masks_of_a_large_vocabulary_are_those_of_single_tokens(void **state)
{
    const char *data = getenv("SPOLIA_DATA");
    char path[600];
    tiktoken v;
    snprintf(path, sizeof path, "%s/tokenizers/qwen/qwen.tiktoken", data ? data : "");
    if (!data || !tiktoken_open(path, &v)) skip();
    assert_ok(sp_token_set_create(v.pieces, v.n, &v.set));
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        assert_true(compare(&cases[i], &v, strlen(cases[i].text) / 3) > 0);
    tiktoken_close(&v);
}

/* More states than a run has room for: old ones are forgotten, and the text goes through. */
static void texts_of_many_states_are_accepted(void **state)
{
    tiktoken v;
    sp_grammar *g;
    sp_grammar_state *s;
    enum { N = 2000 };
    small_set(&v);
    sp_grammar_opts o = {
        .gbnf = "root ::= three \"!\" three\nthree ::= [a-f]{2000} [0-5]{2000} [a-f]{2000}"};
    assert_ok(sp_grammar_compile(&o, &g));
    assert_ok(sp_grammar_start(g, v.set, &s));
    for (int i = 0; i < 6 * N; i++) {
        bool letter = i / N % 3 != 1;
        if (i == 3 * N) assert_true(sp_grammar_accept(s, '!'));
        if (i % 50 == 0) { /* each of these walks finds many states */
            const uint64_t *mask = sp_grammar_mask(s);
            assert_int_equal(mask['a' >> 6] >> ('a' & 63) & 1, letter);
            assert_int_equal(mask['5' >> 6] >> ('5' & 63) & 1, !letter);
        }
        assert_false(sp_grammar_allows(s, letter ? '0' + i % 6 : 'a' + i % 6));
        assert_true(sp_grammar_accept(s, letter ? 'a' + i % 6 : '0' + i % 6));
    }
    assert_true(sp_grammar_complete(s));
    sp_grammar_stop(s);
    sp_grammar_destroy(g);
    tiktoken_close(&v);
}

/* start -- a state of a grammar over the tokens a, !, "a!", "aaaa" and an end. */
enum { A, MARK, A_MARK, FOUR, LAST };

static sp_grammar_state *start(const char *gbnf, sp_grammar **g, sp_token_set **v)
{
    static const sp_token_piece pieces[] = {{.s = "a", .n = 1}, {.s = "!", .n = 1}, {.s = "a!", .n = 2},
                                            {.s = "aaaa", .n = 4}, {.end = true}};
    sp_grammar_state *s;
    assert_ok(sp_token_set_create(pieces, SP_COUNT(pieces), v));
    assert_ok(sp_grammar_compile(&(sp_grammar_opts){.gbnf = gbnf}, g));
    assert_ok(sp_grammar_start(*g, *v, &s));
    return s;
}

static void stop(sp_grammar_state *s, sp_grammar *g, sp_token_set *v)
{
    sp_grammar_stop(s);
    sp_grammar_destroy(g);
    sp_token_set_destroy(v);
}

/* States are forgotten in the middle of a walk for a mask, or by a token that is then refused. */
static void masks_are_whole_when_states_are_forgotten(void **state)
{
    static const char many[] = "root ::= \"!\" \"a\"{2000} \"a\"{2000} \"a\"{2000}";
    sp_token_set *v;
    sp_grammar *g;
    (void)state;
    for (int with_masks = 0; with_masks < 2; with_masks++) {
        sp_grammar_state *s = start(many, &g, &v);
        assert_int_equal(*sp_grammar_mask(s), 1 << MARK);
        assert_true(sp_grammar_accept(s, MARK));
        for (int i = 0; i < 5990; i++) {
            if (with_masks) assert_int_equal(*sp_grammar_mask(s), 1 << A | 1 << FOUR);
            assert_false(sp_grammar_allows(s, A_MARK));
            assert_true(sp_grammar_allows(s, A) && sp_grammar_accept(s, A));
        }
        stop(s, g, v);
    }
}

/* Where a text may be read in two ways, the one without a limit counts, whichever is listed first. */
static void a_way_without_a_limit_allows_long_tokens(void **state)
{
    static const char *const schemas[] = {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"string\",\"maxLength\":3}]}",
                                          "{\"anyOf\":[{\"type\":\"string\",\"maxLength\":3},{\"type\":\"string\"}]}"};
    static const sp_token_piece pieces[] = {{.s = "\"", .n = 1}, {.s = "abcde", .n = 5}, {.end = true}};
    (void)state;
    for (size_t i = 0; i < SP_COUNT(schemas); i++) {
        sp_token_set *v;
        sp_grammar *g;
        sp_grammar_state *s;
        assert_ok(sp_token_set_create(pieces, SP_COUNT(pieces), &v));
        assert_ok(sp_grammar_compile(&(sp_grammar_opts){.schema = schemas[i]}, &g));
        assert_ok(sp_grammar_start(g, v, &s));
        assert_true(sp_grammar_accept(s, 0));
        assert_int_equal(*sp_grammar_mask(s), 1 << 0 | 1 << 1);
        stop(s, g, v);
    }
}

static void tokens_have_64_bytes_at_most(void **state)
{
    char text[65];
    memset(text, 'a', sizeof text);
    const sp_token_piece pieces[] = {{.s = text, .n = 64}, {.s = text, .n = 65}, {.end = true}};
    sp_token_set *v;
    sp_grammar *g;
    sp_grammar_state *s;
    (void)state;
    assert_ok(sp_token_set_create(pieces, SP_COUNT(pieces), &v));
    assert_ok(sp_grammar_compile(&(sp_grammar_opts){.regex = "a+b"}, &g));
    assert_ok(sp_grammar_start(g, v, &s));
    for (int masked = 0; masked < 2; masked++) {
        if (masked) assert_int_equal(*sp_grammar_mask(s), 1 << 0);
        assert_true(sp_grammar_allows(s, 0));
        assert_false(sp_grammar_allows(s, 1));
    }
    stop(s, g, v);
}

static void a_text_ends_where_no_token_goes_on(void **state)
{
    sp_token_set *v;
    sp_grammar *g;
    (void)state;
    sp_grammar_state *s = start("root ::= \"ab\"", &g, &v);
    assert_true(sp_grammar_accept(s, A) && !sp_grammar_complete(s));
    assert_int_equal(*sp_grammar_mask(s), 1 << LAST);
    stop(s, g, v);
}

/* enum_of -- {"enum": ["v0000", ...]} */
static char *enum_of(int n_values)
{
    json_t *values = json_array(), *schema = json_pack("{s:o}", "enum", values);
    for (int i = 0; i < n_values; i++) json_array_append_new(values, json_sprintf("v%05d", i));
    char *text = json_dumps(schema, 0);
    json_decref(schema);
    return text;
}

static void long_enums_keep_all_values(void **state)
{
    tiktoken v;
    sp_grammar *g;
    sp_grammar_state *s;
    char *schema = enum_of(20000), *longer = enum_of(20001), text[20];
    small_set(&v);
    assert_ok(sp_grammar_compile(&(sp_grammar_opts){.schema = schema}, &g));
    for (int i = 0; i < 20000; i += 1271) {
        assert_ok(sp_grammar_start(g, v.set, &s));
        snprintf(text, sizeof text, "\"v%05d\"", i);
        for (char *at = text; *at; at++) assert_true(sp_grammar_accept(s, *at));
        assert_true(sp_grammar_complete(s));
        sp_grammar_stop(s);
    }
    sp_grammar_destroy(g);
    assert_fails(sp_grammar_compile(&(sp_grammar_opts){.schema = longer}, &g), SP_E_LIMIT, "20000");
    tiktoken_close(&v);
    free(schema);
    free(longer);
}

/* Greedy sampling finds masks only when it must; the token is the best of those that a mask allows. */
static void the_greedy_token_is_the_best_allowed_one(void **state)
{
    tiktoken v;
    small_set(&v);
    uint64_t seed = 11;
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_grammar *g;
        sp_grammar_state *masked;
        sp_sampler s;
        float logits[N_TOKENS];
        sp_sampling p = {.top_p = 1, .repeat_penalty = 1};
        assert_ok(sp_sampler_init(&s, &p, N_TOKENS));
        assert_ok(sp_grammar_compile(&cases[i].o, &g));
        assert_ok(sp_grammar_start(g, v.set, &s.grammar));
        assert_ok(sp_grammar_start(g, v.set, &masked));
        for (int step = 0; step < 60; step++) {
            const uint64_t *mask = sp_grammar_mask(masked);
            int32_t best = -1;
            for (int32_t id = 0; id < N_TOKENS; id++) {
                bool allowed = mask[id >> 6] >> (id & 63) & 1;
                logits[id] = (float)check_random(&seed, 1000) + (allowed && step % 2 ? 900.0f : 0);
                if (allowed && (best < 0 || logits[id] > logits[best])) best = id;
            }
            assert_int_equal(sp_sampler_pick(&s, logits), best);
            if (best == END) break;
            assert_true(sp_sampler_answer(&s, best) && sp_grammar_accept(masked, best));
        }
        sp_grammar_stop(masked);
        sp_grammar_stop(s.grammar);
        sp_grammar_destroy(g);
        sp_sampler_fini(&s);
    }
    tiktoken_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_those_of_single_tokens),
        cmocka_unit_test(masks_of_a_large_vocabulary_are_those_of_single_tokens),
        cmocka_unit_test(texts_of_many_states_are_accepted),
        cmocka_unit_test(masks_are_whole_when_states_are_forgotten),
        cmocka_unit_test(a_way_without_a_limit_allows_long_tokens),
        cmocka_unit_test(tokens_have_64_bytes_at_most),
        cmocka_unit_test(a_text_ends_where_no_token_goes_on),
        cmocka_unit_test(long_enums_keep_all_values),
        cmocka_unit_test(the_greedy_token_is_the_best_allowed_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
