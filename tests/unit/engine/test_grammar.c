/* Grammars: which tokens they allow, and that random texts under random choices are what the schema
 * says. */
#include "support/check.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/grammar/grammar.h"
#include "engine/sampler.h"

/* Every byte, some longer tokens, and an end token. */
static const char *const longer[] = {"\"}", "{\"",   "\": ",   "true", "fal",   "se", "null",
                                     "12",  "hello", "\", \"", "é",    "\"a\"", "  ", "},"};
enum { N_LONGER = 14, END = 256 + N_LONGER, N_TOKENS };
static char bytes[256];

static sp_token_set *make_set(void)
{
    sp_token_piece pieces[N_TOKENS] = {{0}};
    sp_token_set *v;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        pieces[i] = (sp_token_piece){.s = &bytes[i], .n = 1};
    }
    for (int i = 0; i < N_LONGER; i++)
        pieces[256 + i] = (sp_token_piece){.s = longer[i], .n = strlen(longer[i])};
    pieces[END].end = true;
    assert_ok(sp_token_set_create(pieces, N_TOKENS, &v));
    return v;
}

static sp_grammar *make(const char *schema)
{
    sp_grammar *g;
    json_t *j = json_loads(schema, JSON_DECODE_ANY, NULL);
    assert_non_null(j);
    assert_ok(sp_grammar_create(j, &g));
    json_decref(j);
    return g;
}

static bool allowed(sp_grammar_state *s, int32_t id)
{
    return sp_grammar_mask(s)[id >> 6] >> (id & 63) & 1;
}

/* accepts -- whether the text, byte by byte, is complete JSON under the schema; the mask must agree
 * with what is accepted. */
static bool accepts(const char *schema, const char *text)
{
    sp_token_set *v = make_set();
    sp_grammar *g = make(schema);
    sp_grammar_state *s;
    bool ok = true;
    assert_ok(sp_grammar_start(g, v, &s));
    for (; *text && ok; text++) {
        ok = allowed(s, (uint8_t)*text);
        assert_int_equal(sp_grammar_accept(s, (uint8_t)*text), ok);
    }
    if (ok) ok = sp_grammar_complete(s);
    sp_grammar_stop(s);
    sp_grammar_destroy(g);
    sp_token_set_destroy(v);
    return ok;
}

static void texts_are_accepted_or_not(void **state)
{
    static const struct {
        const char *schema, *text;
        bool accepted;
    } cases[] = {
        {"{\"type\":\"integer\"}", "-12", true},
        {"{\"type\":\"integer\"}", "012", false},
        {"{\"type\":\"integer\"}", "1.5", false},
        {"{\"type\":\"number\"}", "1.5e-3", true},
        {"{}", "[0.5, \"a\"]", true},
        {"{}", "0.5", true},
        {"{\"prefixItems\":[{\"type\":\"null\"}]}", "{}", false},
        {"{\"type\":\"number\",\"minimum\":-1e16,\"maximum\":1}", "-3.5", true},
        {"{\"type\":\"number\",\"minimum\":-1e16,\"maximum\":1}", "1.5", false},
        {"{\"type\":\"number\"}", "1.", false},
        {"{\"type\":\"boolean\"}", "true", true},
        {"{\"type\":[\"null\",\"boolean\"]}", "null", true},
        {"{\"type\":\"string\"}", "\"a\\n\\u00e9\xC3\xA9\"", true},
        {"{\"type\":\"string\"}", "\"a\n\"", false},
        {"{\"type\":\"string\"}", "\"\\ud800\"", false},
        {"{\"type\":\"string\"}", "\"\xC3\"", false},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"a\"", false},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"\xC3\xA9\xC3\xA9\"", true},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"abcd\"", false},
        {"{\"enum\":[\"red\",\"rose\",3]}", "\"rose\"", true},
        {"{\"enum\":[\"red\",\"rose\",3]}", "\"ros\"", false},
        {"{\"const\":{\"a\":[1,null]}}", "{\"a\": [1, null]}", true},
        {"{\"const\":1,\"enum\":[1,2]}", "1", true},
        {"{\"const\":1,\"enum\":[1,2]}", "2", false},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", "[]", true},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", "[1, 2,3 ]", true},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", "[1,]", false},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2}", "[1]", false},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2}", "[1,2,3]", true},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":2}", "[1,2,3]", false},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":0}", "[]", true},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":0}", "[1]", false},
        {"{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{}},\"required\":[\"b\"]}",
         "{\"a\": 1, \"b\": {\"x\": [1]}}", true},
        {"{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{}},\"required\":[\"b\"]}",
         "{\"b\": 2}", true},
        {"{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{}},\"required\":[\"b\"]}",
         "{\"a\": 2}", false},
        {"{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{}}}", "{}", true},
        {"{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{}}}", "{\"a\": 1}", true},
        {"{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{}}}", "{\"a\": 1,}", false},
        {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"}}",
         "{\"x\": null, \"y\": null}", true},
        {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"}}", "{\"x\": 1}", false},
        {"{\"type\":\"object\",\"additionalProperties\":false}", "{ }", true},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"$ref\":\"#/$defs/"
         "x\"}],\"$defs\":{\"x\":{\"type\":\"null\"}}}",
         "null", true},
        {"{\"type\":\"object\",\"properties\":{\"next\":{\"$ref\":\"#\"}}}",
         "{\"next\": {\"next\": {}}}", true},
        {"true", "[1, {\"a\": \"b\"}]", true},
        {"{\"type\":\"null\"}", " null", true},
        {"{\"type\":\"null\"}", "null ", false},
        {"{\"type\":\"array\"}", "[\n    1\n]", true},
        {"{\"type\":\"integer\",\"minimum\":0,\"maximum\":10}", "10", true},
        {"{\"type\":\"integer\",\"minimum\":0,\"maximum\":10}", "11", false},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":-12,\"maximum\":-3}", "-11", true},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":-12,\"maximum\":-3}", "-12", false},
        {"{\"type\":\"integer\",\"minimum\":0,\"exclusiveMinimum\":true}", "0", false},
        {"{\"type\":\"integer\",\"maximum\":9223372036854775807,\"minimum\":9223372036854775806}",
         "9223372036854775807", true},
        {"{\"type\":\"integer\",\"multipleOf\":25}", "-1075", true},
        {"{\"type\":\"integer\",\"multipleOf\":25}", "1080", false},
        {"{\"type\":\"number\",\"minimum\":0,\"exclusiveMaximum\":1}", "0.999", true},
        {"{\"type\":\"number\",\"minimum\":0,\"exclusiveMaximum\":1}", "1.0", false},
        {"{\"type\":\"number\",\"minimum\":-0.25,\"maximum\":0.25}", "-0.26", false},
        {"{\"type\":\"number\",\"minimum\":-0.25,\"maximum\":0.25}", "-0.250", true},
        {"{\"type\":\"integer\",\"nullable\":true}", "null", true},
        {"{\"type\":\"integer\",\"format\":\"int32\",\"x-unit\":\"m\"}", "7", true},
        {"{\"type\":\"string\",\"pattern\":\"^a+$\",\"maxLength\":2}", "\"aaa\"", false},
        {"{\"type\":\"string\",\"pattern\":\"^a+$\",\"maxLength\":2}", "\"aa\"", true},
        {"{\"type\":\"string\",\"pattern\":\"^a+$\",\"minLength\":2}", "\"a\"", false},
        {"{\"type\":\"string\",\"pattern\":\"^a+$\",\"minLength\":2}", "\"aaaaa\"", true},
        {"{\"type\":\"string\",\"pattern\":\"^(a|bb|cccc)d$\",\"minLength\":3}", "\"ad\"", false},
        {"{\"type\":\"string\",\"pattern\":\"^(a|bb|cccc)d$\",\"minLength\":3}", "\"bbd\"", true},
        {"{\"type\":\"string\",\"pattern\":\"^(a|bb|cccc)d$\",\"minLength\":3}", "\"ccccd\"", true},
        {"{\"type\":\"string\",\"pattern\":\"^a(bc)*d$\",\"minLength\":3}", "\"abcbcbcd\"", true},
        {"{\"type\":\"string\",\"format\":\"uri\",\"minLength\":1,\"maxLength\":2083}",
         "\"https://a.example/x?q=1\"", true},
        {"{\"prefixItems\":[{\"type\":\"null\"}],\"items\":false}", "[null, 1]", false},
        {"{\"prefixItems\":[{\"type\":\"null\"}],\"items\":{\"type\":\"integer\"}}", "[null, 1]",
         true},
        {"{\"items\":{\"enum\":[\"a\",\"b\"]},\"uniqueItems\":true}", "[\"b\", \"a\"]", true},
        {"{\"items\":{\"enum\":[\"a\",\"b\"]},\"uniqueItems\":true}", "[\"b\", \"b\"]", false},
        {"{\"items\":{\"enum\":[1,1.0,true]},\"uniqueItems\":true}", "[true, 1]", true},
        {"{\"items\":{\"enum\":[1,1.0,true]},\"uniqueItems\":true}", "[1, 1.0]", false},
        {"{\"items\":{\"enum\":[1,1.0,true]},\"uniqueItems\":true}", "[1, 1]", false},
        {"{\"enum\":[5.0,2.5],\"type\":\"integer\"}", "5", true},
        {"{\"allOf\":[{\"enum\":[1,2]},{\"enum\":[2.0,3]}]}", "2", true},
        {"{\"const\":{\"a\":[3.0]},\"minProperties\":1.0}", "{\"a\": [3]}", true},
        {"{\"$ref\":\"#/$defs/Box%5Bint%5D\",\"$defs\":{\"Box[int]\":{\"type\":\"null\"}}}", "null", true},
        {"{\"$ref\":\"#/$defs/a%20\",\"$defs\":{\"a%20\":{\"type\":\"null\"},\"a \":{\"const\":1}}}", "null", true},
        {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}}},{\"properties\":{\"a\":"
         "{\"minimum\":3}},\"required\":[\"a\"]}]}",
         "{\"a\": 2}", false},
        {"{\"allOf\":[{\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"integer\"}},"
         "{\"properties\":{\"b\":{}}}]}",
         "{\"b\": true}", false},
        {"{\"allOf\":[{\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"integer\"}},"
         "{\"properties\":{\"b\":{}}}]}",
         "{\"a\": true, \"b\": 2}", true},
        {"{\"patternProperties\":{\"^n_\":{\"type\":\"integer\"}},\"additionalProperties\":false}",
         "{\"n_a\": 2}", true},
        {"{\"patternProperties\":{\"^n_\":{\"type\":\"integer\"}},\"additionalProperties\":false}",
         "{\"m_a\": 2}", false},
        {"{\"required\":[\"a\"],\"type\":\"object\"}", "{\"a\": [0]}", true},
        {"{\"properties\":{\"a\":{},\"b\":{}},\"minProperties\":1,\"maxProperties\":1}",
         "{\"a\": 1, \"b\": 2}", false},
        {"{\"properties\":{\"a\":{},\"b\":{}},\"minProperties\":1}", "{}", false},
        {"{\"properties\":{\"a\":{},\"b\":{}},\"minProperties\":2,\"additionalProperties\":{}}",
         "{\"a\": 1, \"x\": 1}", true},
        {"{\"properties\":{\"a\":{},\"b\":{}},\"minProperties\":2,\"additionalProperties\":{}}",
         "{\"a\": 1}", false},
        {"{\"properties\":{\"a\":{},\"b\":{}},\"minProperties\":2,\"additionalProperties\":{}}",
         "{\"x\": 1}", false},
        {"{\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"minProperties\":3,\"additionalProperties\":{}}",
         "{\"a\": 1, \"x\": 1}", false},
        {"{\"propertyNames\":{\"enum\":[\"x\"]},\"additionalProperties\":{\"type\":\"null\"}}",
         "{\"x\": null}", true},
        {"{\"enum\":[1,5,\"x\"],\"minimum\":2}", "1", false},
        {"{\"enum\":[0.1,2],\"type\":\"number\"}", "0.1", true},
        {"{\"items\":[{\"type\":\"null\"}],\"additionalItems\":{\"type\":\"integer\"}}", "[null, 1]", true},
        {"{\"items\":[{\"type\":\"null\"}],\"additionalItems\":{\"type\":\"integer\"}}", "[null, \"a\"]", false},
        {"{\"items\":{\"enum\":[\"a\",\"b\",\"c\"]},\"uniqueItems\":true,\"minItems\":2}", "[\"a\"]", false},
        {"{\"items\":{\"enum\":[\"a\",\"b\"]},\"uniqueItems\":true,\"minItems\":2}", "[\"b\", \"a\"]", true},
        {"{\"items\":{\"enum\":[\"a\",\"b\",\"c\"]},\"uniqueItems\":true,\"minItems\":2}", "[\"c\", \"a\"]", true},
        {"{\"items\":{\"enum\":[\"a\",\"b\",\"c\"]},\"uniqueItems\":true,\"maxItems\":2}",
         "[\"a\", \"b\", \"c\"]", false},
        {"{\"items\":{\"enum\":[0,1,2,3,4,5,6,7,8]},\"uniqueItems\":true,\"minItems\":2}", "[3]", false},
        {"{\"items\":{\"enum\":[0,1,2,3,4,5,6,7,8]},\"uniqueItems\":true,\"minItems\":2}", "[3, 8]", true},
        {"{\"items\":{\"enum\":[0,1,2,3,4,5,6,7,8]},\"uniqueItems\":true,\"maxItems\":2}", "[1, 2, 3]", false},
        {"{\"items\":{\"enum\":[0,1,2,3,4,5,6,7,8]},\"uniqueItems\":true,\"maxItems\":2}", "[1, 2]", true},
        {"{\"items\":{\"type\":\"boolean\"},\"uniqueItems\":true}", "[true, false]", true},
        {"{\"type\":\"integer\",\"minimum\":0,\"exclusiveMinimum\":0}", "0", false},
        {"{\"type\":\"integer\",\"minimum\":0.5}", "0", false},
        {"{\"type\":\"integer\",\"minimum\":0.5}", "1", true},
        {"{\"type\":\"integer\",\"maximum\":-0.5}", "0", false},
        {"{\"type\":\"integer\",\"maximum\":-0.5}", "-1", true},
        {"{\"type\":\"integer\",\"maximum\":-3}", "-2", false},
        {"{\"type\":\"integer\",\"minimum\":5}", "4", false},
        {"{\"type\":\"integer\",\"minimum\":0,\"maximum\":47}", "39", true},
        {"{\"type\":\"integer\",\"minimum\":10000000000000000}", "10000000000000000", true},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0.5}", "0.5", false},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0.5}", "0.51", true},
        {"{\"type\":\"number\",\"exclusiveMaximum\":0.5}", "0.5", false},
        {"{\"type\":\"number\",\"exclusiveMaximum\":0.5}", "0.49", true},
        {"{\"properties\":{\"a\":{\"type\":\"integer\"}},\"additionalProperties\":{\"type\":\"null\"}}",
         "{\"a\": null}", false},
        {"{\"properties\":{\"a\":{\"type\":\"integer\"}},\"additionalProperties\":{\"type\":\"null\"}}",
         "{\"b\": null}", true},
        {"{\"required\":[\"a\"],\"additionalProperties\":{\"type\":\"null\"}}", "{\"a\": 1}", false},
        {"{\"type\":\"object\",\"required\":[\"a\"]}", "{}", false},
        {"{\"type\":\"object\",\"required\":[\"a\"]}", "{\"a\": 1, \"b\": 2}", false},
        {"{\"type\":\"object\",\"maxProperties\":1,\"additionalProperties\":{}}", "{\"x\": 1}", true},
        {"{\"type\":\"object\",\"maxProperties\":1,\"additionalProperties\":{}}", "{\"x\": 1, \"y\": 1}", false},
        {"{\"properties\":{\"a\":{}},\"maxProperties\":1,\"additionalProperties\":{}}", "{\"a\": 1, \"y\": 1}", false},
        {"{\"type\":\"object\",\"unevaluatedProperties\":false}", "{\"x\": 1}", false},
        {"{\"properties\":{\"é\":{}},\"propertyNames\":{\"maxLength\":1}}", "{\"é\": 1}", true},
        {"{\"type\":\"string\",\"allOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"b$\"}]}", "\"ab\"", true},
        {"{\"type\":\"string\",\"allOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"b$\"}]}", "\"cb\"", false},
        {"{\"type\":\"string\",\"allOf\":[{\"pattern\":\"^a\"},{\"pattern\":\"b$\"}]}", "\"ac\"", false},
        {"{\"enum\":[1,\"x\"],\"type\":\"number\"}", "1", true},
        {"{\"type\":\"string\",\"pattern\":\"^.$\"}", "\"\\u2028\"", false},
        {"{\"type\":\"string\"}", "\"\xE0\xA0\x80\xED\x9F\xBF\xF4\x8F\xBF\xBF\"", true},
        {"{\"type\":\"string\"}", "\"\xE0\x9F\xBF\"", false}, /* U+07FF in three bytes */
        {"{\"type\":\"string\"}", "\"\xED\xA0\x80\"", false}, /* a surrogate */
        {"{\"type\":\"string\"}", "\"\xF4\x90\x80\x80\"", false}, /* after U+10FFFF */
        {"{\"enum\":[1e300,2]}", "1e300", true},
        {"{\"type\":\"string\",\"pattern\":\"^a{2}$\",\"maxLength\":5}", "\"aa\"", true},
        {"{\"type\":\"string\",\"pattern\":\"^a{2}$\",\"maxLength\":5}", "\"a\"", false},
        {"{\"type\":\"string\",\"pattern\":\"^(a|b)c$\",\"maxLength\":5}", "\"bc\"", true},
        {"{\"type\":\"string\",\"pattern\":\"^(a|b)c$\",\"maxLength\":5}", "\"b\"", false},
        {"{\"type\":\"integer\",\"exclusiveMaximum\":5}", "4", true},
        {"{\"type\":\"integer\",\"exclusiveMaximum\":5}", "5", false},
        {"{\"type\":\"integer\",\"exclusiveMaximum\":-5}", "-6", true},
        {"{\"type\":\"integer\",\"exclusiveMaximum\":-5}", "-5", false},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        if (accepts(cases[i].schema, cases[i].text) != cases[i].accepted)
            fail_msg("%s: %s", cases[i].schema, cases[i].text);
}

/* A pattern is found anywhere in the string but for its anchors; JSON escapes some characters. */
static void patterns_describe_strings(void **state)
{
    static const struct {
        const char *pattern, *yes, *no; /* the texts as JSON */
    } cases[] = {
        {"^[a-c]{2}$", "\"ab\"", "\"abc\""},
        {"b+", "\"abc\"", "\"ac\""},
        {"^b", "\"bc\"", "\"ab\""},
        {"b$", "\"ab\"", "\"bc\""},
        {"^a|b$", "\"ax\"", "\"bx\""},
        {"^a|b$", "\"xb\"", "\"xa\""},
        {"^.$", "\"\\\"\"", "\"\\n\""},
        {"^.$", "\"\\\\\"", "\"\"\""},
        {"^.$", "\"\u20ac\"", "\"\\u2028\""},
        {"^\\n\\t$", "\"\\n\\t\"", "\"\n\t\""},
        {"^[\\x00-\\x1f]$", "\"\\u001f\"", "\"\\u0020\""},
        {"^[\\x01-\\x1f]$", "\"\\u000b\"", "\"\\u0000\""},
        {"^\"[^\"]*\"$", "\"\\\"x\\\"\"", "\"\\\"\\\"\\\"\""},
        {"^[\\/\\\\]+$", "\"/\\\\\"", "\"\\/\""},
        {"^.$", "\"\u20ac\"", "\"\u2028\""},
        {"^[\\x00-\\x1f]{5}$", "\"\\b\\t\\n\\f\\r\"", "\"\\b\\t\\n\\v\\r\""},
        {"^a$|^b$", "\"b\"", "\"a$\""},
        {"", "\"any \\u0001\"", "\"\\x\""},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        json_t *j = json_pack("{s:s, s:s}", "type", "string", "pattern", cases[i].pattern);
        char *schema = json_dumps(j, 0);
        if (!accepts(schema, cases[i].yes)) fail_msg("%s: %s", cases[i].pattern, cases[i].yes);
        if (accepts(schema, cases[i].no)) fail_msg("%s: not %s", cases[i].pattern, cases[i].no);
        free(schema);
        json_decref(j);
    }
}

/* The last range of a set of characters ends with the last of Unicode, whichever conditions share the sets. */
static void patterns_with_conditions_reach_the_last_character(void **state)
{
    static const char *const schemas[] = {
        "{\"type\":\"string\",\"pattern\":\"^[^a]{2}$\",\"maxLength\":2}",
        "{\"type\":\"string\",\"pattern\":\"^[^b-d]+$\",\"minLength\":2,\"maxLength\":3}",
        "{\"allOf\":[{\"type\":\"string\",\"pattern\":\"^[^a]+$\"},{\"pattern\":\"^[^ab]+$\"},"
        "{\"pattern\":\"^[^a-c]+$\"}]}",
        "{\"type\":\"string\",\"minLength\":2,\"pattern\":\"^[^a].*$\"}",
    };
    static const char *const pairs[] = {"zz", "\u00e9\u00e9", "\u20ac\uffff", "\U0001f600z", "\U0010ffff\U0010ffff"};
    for (size_t i = 0; i < SP_COUNT(schemas); i++)
        for (size_t k = 0; k < SP_COUNT(pairs); k++) {
            char text[32];
            snprintf(text, sizeof text, "\"%s\"", pairs[k]);
            if (!accepts(schemas[i], text)) fail_msg("%s: %s", schemas[i], text);
        }
}

static void formats_describe_strings(void **state)
{
    static const struct {
        const char *format, *yes, *no;
    } cases[] = {
        {"date", "2024-02-29", "2023-02-29"},
        {"date", "2000-02-29", "1900-02-29"},
        {"date", "1999-12-31", "1999-11-31"},
        {"date", "2026-01-01", "2026-13-01"},
        {"time", "23:59:59Z", "24:00:00Z"},
        {"time", "00:00:00.25-05:30", "00:00:00"},
        {"date-time", "2026-11-22T21:30:00+01:00", "2026-11-22 21:30:00Z"},
        {"date-time", "2026-11-22T21:30:00.123Z", "2026-02-30T21:30:00Z"},
        {"uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-42661417400g"},
        {"email", "anna.smith@mail.example.org", "anna@example"},
        {"ipv4", "255.0.10.199", "256.0.0.1"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char schema[100], yes[100], no[100];
        snprintf(schema, sizeof schema, "{\"type\":\"string\",\"format\":\"%s\"}", cases[i].format);
        snprintf(yes, sizeof yes, "\"%s\"", cases[i].yes);
        snprintf(no, sizeof no, "\"%s\"", cases[i].no);
        if (!accepts(schema, yes)) fail_msg("%s: %s", schema, yes);
        if (accepts(schema, no)) fail_msg("%s: not %s", schema, no);
    }
}

/* generate -- a random text; a quote is taken half of the times that it is allowed, so that texts end. */
static json_t *generate(const sp_grammar *g, const sp_token_set *v, uint64_t *seed)
{
    sp_grammar_state *s;
    char text[20000];
    size_t n = 0;
    assert_ok(sp_grammar_start(g, v, &s));
    while (!sp_grammar_complete(s)) {
        int32_t pick = -1, n_seen = 0;
        for (int32_t id = 0; id < 256; id++)
            if (allowed(s, id) && check_random(seed, ++n_seen) == 0) pick = id;
        if (allowed(s, '"') && check_random(seed, 2) == 0) pick = '"';
        assert_true(n < sizeof text && sp_grammar_accept(s, pick));
        text[n++] = (char)pick;
    }
    sp_grammar_stop(s);
    json_t *j = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!json_is_string(j)) fail_msg("%.*s", (int)n, text);
    return j;
}

/* What patterns generate is JSON, and an independent engine finds the pattern in it. */
static void generated_strings_match_their_patterns(void **state)
{
    static const char *const patterns[] = {
        "^a|b$",     "[^a\"]{3}",        "^(\\w+[-.]?)+\\s?$", "[a-z]\\\\?[0-9]|^z$",
        "^\\u00e9+", "^[^\\x00-\\x7f]$", "^(?:\\d{2}:){2}.$"};
    sp_token_set *v = make_set();
    uint64_t seed = 9;
    for (size_t i = 0; i < SP_COUNT(patterns); i++) {
        int code;
        PCRE2_SIZE at;
        pcre2_code *re =
            pcre2_compile((PCRE2_SPTR)patterns[i], PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_DOLLAR_ENDONLY, &code, &at, NULL);
        assert_non_null(re);
        pcre2_match_data *match = pcre2_match_data_create_from_pattern(re, NULL);
        json_t *schema = json_pack("{s:s, s:s}", "type", "string", "pattern", patterns[i]);
        sp_grammar *g;
        assert_ok(sp_grammar_create(schema, &g));
        for (int k = 0; k < 60; k++) {
            json_t *j = generate(g, v, &seed);
            const char *text = json_string_value(j);
            if (pcre2_match(re, (PCRE2_SPTR)text, json_string_length(j), 0, 0, match, NULL) < 0)
                fail_msg("%s: \"%s\"", patterns[i], text);
            json_decref(j);
        }
        json_decref(schema);
        sp_grammar_destroy(g);
        pcre2_match_data_free(match);
        pcre2_code_free(re);
    }
    sp_token_set_destroy(v);
}

/* Generated dates are days of the calendar. */
static void generated_dates_exist(void **state)
{
    sp_token_set *v = make_set();
    sp_grammar *g = make("{\"type\":\"string\",\"format\":\"date-time\"}");
    uint64_t seed = 4;
    for (int k = 0; k < 300; k++) {
        struct tm tm = {0}, back;
        json_t *j = generate(g, v, &seed);
        const char *rest = strptime(json_string_value(j), "%Y-%m-%dT%H:%M:%S", &tm);
        assert_non_null(rest);
        back = tm;
        time_t t = timegm(&back);
        assert_true(gmtime_r(&t, &back) && back.tm_mday == tm.tm_mday && back.tm_mon == tm.tm_mon);
        json_decref(j);
    }
    sp_grammar_destroy(g);
    sp_token_set_destroy(v);
}

/* Values that together have more states than a run has room for are all tested. */
static void long_values_of_an_enum_are_all_tested(void **state)
{
    enum { N = 6, LENGTH = 900 };
    char schema[N * (LENGTH + 3) + 200] = "{\"pattern\":\"^(a*|b*|c*|d*|e*|f*)$\",\"maxLength\":1000,\"enum\":[\"ab\"",
                                    value[LENGTH + 3];
    for (int i = 0; i < N; i++) {
        snprintf(value, sizeof value, "\"%*s\"", LENGTH, "");
        memset(value + 1, 'a' + i, LENGTH);
        strcat(strcat(schema, ","), value);
    }
    strcat(schema, "]}");
    for (int i = 0; i < N; i++) {
        memset(value + 1, 'a' + i, LENGTH);
        if (!accepts(schema, value)) fail_msg("value %d", i);
    }
    assert_false(accepts(schema, "\"ab\""));
}

static void refuse(const char *schema, sp_err code, const char *part)
{
    sp_grammar *g = NULL;
    json_t *j = json_loads(schema, JSON_DECODE_ANY, NULL);
    assert_fails(sp_grammar_create(j, &g), code, part);
    assert_null(g);
    json_decref(j);
}

static void an_object_has_up_to_4096_properties(void **state)
{
    sp_grammar *g = NULL;
    json_t *names = json_object(), *j = json_pack("{s:o}", "properties", names);
    char name[8];
    for (int i = 0; i < 4096; i++) {
        snprintf(name, sizeof name, "p%d", i);
        json_object_set_new(names, name, json_true());
    }
    assert_ok(sp_grammar_create(j, &g));
    sp_grammar_destroy(g);
    g = NULL;
    json_object_set_new(names, "more", json_true());
    assert_fails(sp_grammar_create(j, &g), SP_E_LIMIT, "4096 properties");
    assert_null(g);
    json_decref(j);
}

/* cost_of -- seconds for a schema: `head`, n other characters that its pattern tells apart, and `tail`.
 * why: it is refused. */
static double cost_of(const char *head, int n, const char *tail, const char *why)
{
    char schema[8000];
    struct timespec from, to;
    strcpy(schema, head);
    for (int i = 0; i < n; i++)
        sprintf(schema + strlen(schema), "|%c%c%c", 0xE4 + i / 2048, 0x80 + i / 32 % 64, 0x80 + i % 32 * 2);
    strcat(strcat(schema, ")$\""), tail);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    if (why)
        refuse(schema, SP_E_LIMIT, why);
    else
        sp_grammar_destroy(make(schema));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
}

/* Its states are what is limited: nothing that follows from them may cost much more than they do. */
static void a_pattern_costs_what_its_states_cost(void **state)
{
    static const char many[] = "{\"minLength\":1,\"pattern\":\"^(.*a.{10}";
    const double states = cost_of(many, 1500, "}", "too large for another condition");
    const double all[] = {cost_of(many, 900, "}", "more than 262144 nodes"),
                          cost_of("{\"minLength\":1,\"maxLength\":20000,\"allOf\":[{\"pattern\":\"^x*$\"},"
                                  "{\"pattern\":\"^(x*|.*a.{9}", 900, "}]}", NULL)}; /* most lead nowhere */
    for (size_t i = 0; i < SP_COUNT(all); i++)
        if (all[i] > 4 * states) fail_msg("%zu: %.2f s, of which the states are %.2f s", i, all[i], states);
}

/* A reference costs a few bytes, and another length makes another pattern of it. */
static void patterns_together_are_limited(void **state)
{
    enum { N = 20 };
    char schema[N * 60 + 300] = "{\"$defs\":{\"p\":{\"pattern\":\"^([a-z]?){900}(-(a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q"
                                "|r|s|t|u|v|w|x|y|z))?$\",\"maxLength\":30}},\"properties\":{";
    for (int i = 1; i <= N; i++)
        sprintf(schema + strlen(schema), "\"%02d\":{\"allOf\":[{\"$ref\":\"#/$defs/p\"},{\"minLength\":%d}]},", i, i);
    strcpy(schema + strlen(schema) - 1, "}}");
    refuse(schema, SP_E_LIMIT, "with those before it too large for other conditions");
}

static void refusals_name_keyword_and_path(void **state)
{
    refuse("{\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"x(?=y)\"}}}",
           SP_E_UNSUPPORTED, "#/properties/a: pattern: line 1, column 2: look-around");
    refuse("{\"pattern\":7}", SP_E_ARG, "pattern is not a text");
    refuse("{\"type\":\"string\",\"format\":\"uri-template\"}", SP_E_UNSUPPORTED,
           "unsupported format uri-template");
    refuse("{\"items\":{\"not\":{}}}", SP_E_UNSUPPORTED, "#/items: unsupported keyword not");
    refuse("{\"type\":\"text\"}", SP_E_ARG, "unknown type text");
    refuse("{\"$ref\":\"#/$defs/none\"}", SP_E_ARG, "#/$defs/none");
    refuse("{\"$ref\":\"#/prefixItems/x\",\"prefixItems\":[{}]}", SP_E_ARG, "#/prefixItems/x");
    refuse("{\"$ref\":\"#\"}", SP_E_ARG, "refers to itself");
    refuse("{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#\"}]}", SP_E_ARG, "refers to itself");
    refuse("{\"type\":\"array\",\"maxItems\":100000}", SP_E_LIMIT, "4096");
    refuse("{\"type\":\"array\",\"minItems\":4097}", SP_E_LIMIT, "4096");
    refuse("{\"type\":\"array\",\"minItems\":-1}", SP_E_ARG, "minItems is not a number of 0 or more");
    refuse("{\"type\":\"array\",\"items\":false,\"minItems\":1}", SP_E_ARG, "minItems exceeds the most items");
    refuse("{\"multipleOf\":0.1}", SP_E_UNSUPPORTED, "multipleOf is not a whole number");
    refuse("{\"minimum\":\"1\"}", SP_E_ARG, "minimum is not a number");
    refuse("{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"uniqueItems\":true}",
           SP_E_UNSUPPORTED, "uniqueItems of values that no enum lists");
    refuse("{\"type\":\"object\",\"minProperties\":2}", SP_E_UNSUPPORTED, "free names differ");
    refuse("{\"properties\":{\"a\":{\"allOf\":[{\"contains\":{}}]}}}", SP_E_UNSUPPORTED,
           "#/properties/a: unsupported keyword contains");
    refuse("{\"allOf\":[{\"$ref\":\"#\"}]}", SP_E_ARG, "refers to itself");
    refuse("{\"pattern\":\"^(ab)*$\",\"minLength\":20000}", SP_E_LIMIT, "for a length of 20000 characters");
    refuse("{\"pattern\":\"^([a-z]?){1200}(-(a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q|r|s|t|u|v|w|x|y|z))?$\","
           "\"minLength\":1}", SP_E_LIMIT, "too large for another condition"); /* few states, of many members */
    refuse("[]", SP_E_ARG, "not a schema");
    /* schemas without a value: why, and where */
    refuse("{\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":5,\"maximum\":4}},"
           "\"required\":[\"n\"]}",
           SP_E_ARG, "no value is valid: #/properties/n: the minimum exceeds the maximum");
    refuse("{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", SP_E_ARG, "contradict");
    refuse("{\"const\":1,\"enum\":[2,3]}", SP_E_ARG, "no value is valid");
    refuse("{\"type\":\"string\",\"pattern\":\"^a{3}$\",\"minLength\":4}", SP_E_ARG, "this pattern and length");
    refuse("false", SP_E_ARG, "false allows no value");
}

/* An end is no token of an incomplete text, even if nobody has asked for the mask. */
static void an_end_is_accepted_where_the_text_is_complete(void **state)
{
    sp_token_set *v = make_set();
    sp_grammar *g = make("{\"type\":\"integer\"}");
    sp_grammar_state *s;
    assert_ok(sp_grammar_start(g, v, &s));
    assert_false(sp_grammar_accept(s, END));
    assert_true(sp_grammar_accept(s, '7'));
    assert_true(sp_grammar_accept(s, END));
    sp_grammar_stop(s);
    sp_grammar_destroy(g);
    sp_token_set_destroy(v);
}

/* The mask of every state on the way equals what accept says of each token: compared token by token
 * on a copy of the way. */
static void masks_agree_with_accept(void **state)
{
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"aé\":{\"type\":\"string\",\"maxLength\":4},"
        "\"b\":{\"type\":\"array\",\"items\":{\"type\":[\"integer\",\"string\",\"boolean\"]}}},"
        "\"required\":[\"b\"]}";
    sp_token_set *v = make_set();
    sp_grammar *g = make(schema);
    uint64_t seed = 1;
    for (int round = 0; round < 20; round++) {
        int32_t way[60];
        int n = 0;
        for (; n < 60; n++) {
            sp_grammar_state *s;
            assert_ok(sp_grammar_start(g, v, &s));
            for (int i = 0; i < n; i++) assert_true(sp_grammar_accept(s, way[i]));
            int32_t pick = -1, n_seen = 0;
            for (int32_t id = 0; id < END; id++) {
                bool yes = allowed(s, id);
                sp_grammar_state *other;
                if (round < 2) { /* each start is slow */
                    assert_ok(sp_grammar_start(g, v, &other));
                    for (int i = 0; i < n; i++) assert_true(sp_grammar_accept(other, way[i]));
                    assert_int_equal(sp_grammar_accept(other, id), yes);
                    sp_grammar_stop(other);
                }
                if (yes && check_random(&seed, ++n_seen) == 0) pick = id;
            }
            assert_int_equal(allowed(s, END), sp_grammar_complete(s) || n_seen == 0);
            sp_grammar_stop(s);
            if (pick < 0) break;
            way[n] = pick;
            if (round < 2 && n > 12) break;
        }
    }
    sp_grammar_destroy(g);
    sp_token_set_destroy(v);
}

/* The sampler draws only what the grammar allows, the best or any, and the text ends; rows of the model that are no
 * tokens are never drawn. */
static void the_sampler_obeys_the_grammar(void **state)
{
    enum { N_ROWS = N_TOKENS + 70 };
    sp_token_set *v = make_set();
    sp_grammar *g = make("{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"},\"s\":{"
                         "\"enum\":[\"x\",\"y\"]}},\"required\":[\"n\",\"s\"]}");
    for (int round = 1; round < 30; round++) {
        uint64_t seed = (uint64_t)round;
        sp_sampler s;
        float logits[N_ROWS];
        char text[2000];
        size_t n = 0;
        sp_sampling p = {.temperature = (float)(round % 2), .top_p = 1, .repeat_penalty = 1, .seed = seed};
        assert_ok(sp_sampler_init(&s, &p, N_ROWS));
        assert_ok(sp_grammar_start(g, v, &s.grammar));
        for (int step = 0; step < 400; step++) {
            for (int i = 0; i < N_ROWS; i++)
                logits[i] = (float)check_random(&seed, 1000) * 0.005f + (i >= N_TOKENS ? 1 : 0);
            int32_t id = sp_sampler_pick(&s, logits);
            assert_in_range(id, 0, END);
            assert_true(sp_sampler_answer(&s, id));
            if (id == END) break;
            const char *piece = id < 256 ? &bytes[id] : longer[id - 256];
            size_t len = id < 256 ? 1 : strlen(piece);
            assert_true(n + len < sizeof text);
            memcpy(text + n, piece, len);
            n += len;
        }
        json_t *j = json_loadb(text, n, 0, NULL);
        assert_true(json_is_integer(json_object_get(j, "n")) &&
                    json_is_string(json_object_get(j, "s")));
        json_decref(j);
        sp_grammar_stop(s.grammar);
        sp_sampler_fini(&s);
    }
    sp_grammar_destroy(g);
    sp_token_set_destroy(v);
}

/* A vocabulary of 150,000 tokens, mostly words: the worst mask of a text takes a few ms at most on a
 * slow machine; SPOLIA_SHOW_TIMES prints the measure. */
static void masks_of_large_vocabularies_are_fast(void **state)
{
    enum { N = 150000, LEN = 12 };
    char *text = malloc((size_t)N * LEN);
    sp_token_piece *pieces = calloc(N, sizeof *pieces);
    uint64_t seed = 5;
    for (int i = 0; i < N; i++) {
        char *s = text + (size_t)i * LEN;
        size_t n = 1 + (size_t)check_random(&seed, LEN - 2);
        if (i < 256) n = 1;
        for (size_t k = 0; k < n; k++)
            s[k] = (char)(check_random(&seed, 30) ? 'a' + check_random(&seed, 26)
                                                  : 32 + check_random(&seed, 95));
        if (i < 256) s[0] = (char)i;
        pieces[i] = (sp_token_piece){.s = s, .n = n};
    }
    pieces[N - 1].end = true;
    sp_token_set *v;
    assert_ok(sp_token_set_create(pieces, N, &v));
    sp_grammar *g = make("{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},"
                         "\"n\":{\"type\":\"number\"}},\"required\":[\"name\",\"n\"]}");
    sp_grammar_state *s;
    assert_ok(sp_grammar_start(g, v, &s));
    double worst = 0, sum = 0;
    int n = 0;
    for (const char *at = "{\"name\": \"some words and\\n more\", \"n\": -12.5}"; *at; at++, n++) {
        struct timespec a, b;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        assert_true(allowed(s, (uint8_t)*at));
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        double ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6;
        worst = SP_MAX(worst, ms);
        sum += ms;
        assert_true(sp_grammar_accept(s, (uint8_t)*at));
    }
    if (getenv("SPOLIA_SHOW_TIMES"))
        printf("# mask: worst %.3f ms, mean %.3f ms\n", worst, sum / n);
    assert_true(worst < 200); /* sanitizers are slow */
    sp_grammar_stop(s);
    sp_grammar_destroy(g);
    sp_token_set_destroy(v);
    free(text);
    free(pieces);
}

static void creation_survives_faults(void **state)
{
    sp_grammar *g = NULL;
    sp_token_set *v = NULL;
    sp_grammar_state *s = NULL;
    sp_token_piece piece = {.s = "a", .n = 1};
    json_t *j = json_loads(
        "{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,2]},\"b\":{\"items\":{}}}}", 0,
        NULL);
    assert_survives_faults(sp_grammar_create(j, &g), g == NULL);
    assert_survives_faults(sp_token_set_create(&piece, 1, &v), v == NULL);
    assert_survives_faults(sp_grammar_start(g, v, &s), s == NULL);
    sp_grammar_stop(s);
    sp_grammar_destroy(g);
    sp_token_set_destroy(v);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_accepted_or_not),
        cmocka_unit_test(patterns_describe_strings),
        cmocka_unit_test(patterns_with_conditions_reach_the_last_character),
        cmocka_unit_test(formats_describe_strings),
        cmocka_unit_test(generated_strings_match_their_patterns),
        cmocka_unit_test(generated_dates_exist),
        cmocka_unit_test(an_object_has_up_to_4096_properties),
        cmocka_unit_test(long_values_of_an_enum_are_all_tested),
        cmocka_unit_test(a_pattern_costs_what_its_states_cost),
        cmocka_unit_test(patterns_together_are_limited),
        cmocka_unit_test(refusals_name_keyword_and_path),
        cmocka_unit_test(an_end_is_accepted_where_the_text_is_complete),
        cmocka_unit_test(masks_agree_with_accept),
        cmocka_unit_test(the_sampler_obeys_the_grammar),
        cmocka_unit_test(masks_of_large_vocabularies_are_fast),
        cmocka_unit_test(creation_survives_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
