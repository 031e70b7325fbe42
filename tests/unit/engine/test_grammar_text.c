/* Grammars in GBNF and regular expressions: which texts they accept, and how errors name their place. */
#include "support/grammar_texts.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

static void a_text_is_as_one_grammar_says_or_the_other(void **state)
{
    (void)state;
    const char *schema = "{\"type\": \"array\", \"items\": {\"type\": \"string\", \"maxLength\": 2}}";
    sp_grammar *json = compiled((sp_grammar_opts){.schema = schema});
    sp_grammar *rule = compiled(gbnf("root ::= \"[\" root \"]\" | \"[]\""));
    sp_grammar *either[2];
    assert_ok(sp_grammar_either(json, rule, &either[0]));
    assert_ok(sp_grammar_either(rule, json, &either[1]));
    sp_grammar_destroy(json);
    sp_grammar_destroy(rule);
    for (int i = 0; i < 2; i++) {
        assert_true(takes(either[i], "[]"));
        assert_true(takes(either[i], "[\"ab\", \"c\"]"));
        assert_true(takes(either[i], "[[[]]]"));
        assert_false(takes(either[i], "[[\"a\"]]"));
        assert_false(takes(either[i], "[\"abc\"]"));
        assert_false(takes(either[i], "[[]"));
        sp_grammar_destroy(either[i]);
    }
}

static void gbnf_accepts_what_it_describes(void **state)
{
    (void)state;
    static const char sum[] = "# a sum\n"
                              "root ::= term (\n  \"+\" term | # either sign\n  \"-\" term)*\n"
                              "term ::= number |\n  \"(\" root \")\"\n\n"
                              "number ::= [0-9]+ (\".\" [0-9]{1,2})?\n";
    assert_true(accepts(gbnf(sum), "1+20-(3.5+4)"));
    assert_true(accepts(gbnf(sum), "((((7))))"));
    assert_false(accepts(gbnf(sum), "1+"));
    assert_false(accepts(gbnf(sum), "3.555"));
    assert_false(accepts(gbnf(sum), "(1"));
    assert_true(accepts(gbnf("root ::= \"\\x41\\u00e9\\U0001F600\\n\\\"\\\\\""),
                        "A\u00e9\U0001F600\n\"\\"));
    assert_true(accepts(gbnf("root ::= [^a-c\\]]{2}"), "d\u20ac"));
    assert_false(accepts(gbnf("root ::= [^a-c\\]]{2}"), "d]"));
    assert_true(accepts(gbnf("root ::= [a-]+"), "a-a"));
    assert_true(accepts(gbnf("root ::= .."), "\n\U0010FFFF"));
    assert_true(accepts(gbnf("root ::= \"\" | \"x\" root"), ""));
    assert_true(accepts(gbnf("root::=a-1 b_2\r\na-1::=\"a\"\r\nb_2::=\"b\"?"), "a"));
    assert_true(accepts(gbnf("root ::= (\"a\"? \"b\"*)*"), "abba"));
    assert_true(accepts(gbnf("root ::= \"ab\"{2}"), "abab"));
    assert_true(accepts(gbnf("root ::= \"a\" + \"\\t\\r\""), "aa\t\r"));
}

static void long_right_recursion_is_no_limit(void **state)
{
    (void)state;
    char text[3001];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_true(accepts(gbnf("root ::= \"x\" root | \"x\""), text));
}

static void characters_are_utf8(void **state)
{
    (void)state;
    assert_true(accepts(regex("[\u00e0-\u20ac]+"), "\u00e0\u07ff\u0800\u20ac"));
    assert_false(accepts(regex("[\u00e0-\u20ac]"), "\u00df"));
    assert_false(accepts(regex("[\u00e0-\u20ac]"), "\u20ad"));
    assert_true(accepts(regex("[\\ud7ff-\\ue000]{2}"), "\xED\x9F\xBF\xEE\x80\x80"));
    assert_false(accepts(regex("."), "\xED\xA0\x80")); /* a surrogate */
    assert_false(accepts(regex("."), "\xC0\x80"));
    assert_false(accepts(regex("."), "\xF4\x90\x80\x80"));
    assert_true(accepts(regex("[^\\x00-\\x7f]"), "\U00012345"));
    assert_false(accepts(regex("[^\\x00-\\x7f]"), "a"));
    for (unsigned c = 0x80; c < 0x110000; c += 0x3B) { /* one of every other kind of character */
        char text[8] = {0};
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        unsigned rest = c;
        for (int i = n - 1; i > 0; i--, rest >>= 6) text[i] = (char)(0x80 | (rest & 0x3F));
        text[0] = (char)((n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0) | rest);
        if (c % 7 == 0 && !accepts(regex("[\\u0080-\U0010FFFF]"), text)) fail_msg("U+%04X", c);
        c += c > 0x10000 ? 0x1001 : 0x101;
    }
}

static void expressions_match_whole_texts(void **state)
{
    (void)state;
    static const struct {
        const char *regex, *yes, *no;
    } cases[] = {
        {"(\\d{1,3}\\.){3}\\d{1,3}", "192.168.0.1", "192.168.0"},
        {"^[A-Z]\\w*$", "Anna_9", "anna"},
        {"(?:yes|no)!?", "no!", "maybe"},
        {"(?P<y>\\d{4})-(?<m>\\d\\d)", "2026-11", "2026-1"},
        {"a+?b*?", "aab", "b"},
        {"[]a]+", "]a", "b"},
        {"[^\\s\\d]+", "a-\u00e9", "a 1"},
        {"\\S\\D\\W", "aa-", "a1-"},
        {".", "x", "\n"},
        {"\\.\\*\\[\\n\\x41", ".*[\nA", ".*[nA"},
        {"", "", "a"},
        {"a||b", "", "ab"},
        {"x{0}", "", "x"},
        {"(a|b*)*c", "babc", "bab"},
        {"((a?){2}b?)+", "aab", "c"},
        {"^a$|^b$", "a", "a$"},
        {"[^a-mc]", "z", "k"}, /* one range is within the other */
        {"[\\b]x", "\bx", "bx"},
        {"\\s{6}", "\t\n\v\f\r ", "\t\n\v\f\x0e "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!accepts(regex(cases[i].regex), cases[i].yes)) fail_msg("%s", cases[i].regex);
        if (accepts(regex(cases[i].regex), cases[i].no)) fail_msg("not %s", cases[i].regex);
    }
}

/* chain -- n rules, each of which calls the next and then reads a character; `back`: the last is written first. */
static char *chain(int n, bool back)
{
    char *text = calloc(1, 32 * (size_t)n + 64), *to = text;
    for (int k = 0; k <= n; k++) {
        const int i = back ? n - k : k;
        to += i ? sprintf(to, "r%d ::= ", i) : sprintf(to, "root ::= ");
        to += i < n ? sprintf(to, "r%d \"z\"\n", i + 1) : sprintf(to, "\"a\"\n");
    }
    return text;
}

static void rules_that_are_nested_too_deeply_are_refused(void **state)
{
    (void)state;
    for (int back = 0; back < 2; back++) {
        char *good = chain(256, back), *bad = chain(257, back), text[258] = "a";
        memset(text + 1, 'z', 256);
        assert_true(accepts(gbnf(good), text));
        refuses(gbnf(bad), SP_E_LIMIT, "within 257 rules at once");
        free(good);
        free(bad);
    }
    assert_true(accepts(gbnf("root ::= \"(\" root \")\" | \"x\""), "((x))")); /* some text is shallow */
}

/* Keys and values between marks: required members come, others may; strings have no quotes and no escapes. */
static void members_between_marks_follow_their_schema(void **state)
{
    static const char *const keys[] = {"<k>", "=", ";"};
    (void)state;
    const sp_grammar_opts o = {.schema = "{\"properties\": {\"t\": {\"type\": \"string\", \"minLength\": 2, "
                                         "\"maxLength\": 3}, \"n\": {\"type\": \"integer\"}, "
                                         "\"p\": {\"type\": \"string\", \"pattern\": \"^[^x]+$\"}}, "
                                         "\"required\": [\"t\", \"x\"]}",
                               .keys = keys};
    assert_true(accepts(o, "<k>t=ab;<k>x=1;"));
    assert_true(accepts(o, "<k>t=abc;<k>n=5;<k>p=cd;<k>x=1;"));
    assert_false(accepts(o, "<k>x=1;"));
    assert_false(accepts(o, "<k>t=ab;"));
    assert_false(accepts(o, "<k>t=a;<k>x=1;"));
    assert_false(accepts(o, "<k>t=abcd;<k>x=1;"));
    assert_false(accepts(o, "<k>t=ab;<k>p=c\\n;<k>x=1;"));
    const sp_grammar_opts either = {.schema = "{\"anyOf\": [{\"properties\": {\"a\": {}}, \"required\": [\"a\"]}, "
                                              "{\"properties\": {\"b\": {}}, \"required\": [\"b\"]}]}",
                                    .keys = keys};
    assert_true(accepts(either, "<k>a=1;") && accepts(either, "<k>b=1;"));
    assert_false(accepts(either, ""));
}

static void calls_may_have_a_number(void **state)
{
    static const sp_grammar_head heads[] = {{"f:", "!"}};
    (void)state;
    const sp_grammar_opts o = {.schema = "{\"anyOf\": [{\"type\": \"null\"}]}", .heads = heads, .n_heads = 1};
    assert_true(accepts(o, "f:0!null") && accepts(o, "f:12!null"));
    assert_false(accepts(o, "f:!null") || accepts(o, "f:02!null") || accepts(o, "f:123!null"));
}

static void a_grammar_has_512_rules_at_most(void **state)
{
    (void)state;
    char text[16000] = "root ::= r0";
    for (int i = 0; i < 511; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "\nr%d ::= \"a\"", i);
    assert_true(accepts(gbnf(text), "a"));
    refuses(gbnf(strcat(text, "\nmore ::= \"a\"")), SP_E_LIMIT, "more than 512 rules");
}

static void one_form_with_texts_is_asked_for(void **state)
{
    static const char *const texts[] = {"a", ""}, *const none[] = {NULL};
    (void)state;
    refuses((sp_grammar_opts){.texts = texts, .n_texts = 2}, SP_E_ARG, "text 1 is NULL or empty");
    refuses((sp_grammar_opts){.texts = none, .n_texts = 1}, SP_E_ARG, "text 0 is NULL or empty");
    refuses((sp_grammar_opts){.n_texts = 1}, SP_E_ARG, "a list of 1 texts");
    refuses((sp_grammar_opts){.n_texts = -1, .texts = texts}, SP_E_ARG, "a list of -1 texts");
    refuses((sp_grammar_opts){.gbnf = "root ::= \"a\"", .regex = "a"}, SP_E_ARG, "more than one of");
    refuses((sp_grammar_opts){.schema = "{}", .regex = "a"}, SP_E_ARG, "more than one of");
    refuses((sp_grammar_opts){.texts = texts, .n_texts = 1, .regex = "a"}, SP_E_ARG, "more than one of");
    assert_true(accepts((sp_grammar_opts){.texts = texts, .n_texts = 1}, "a"));
}

static void errors_name_line_and_column(void **state)
{
    (void)state;
    refuses(gbnf("root ::= a\n\na ::= [a-z"), SP_E_ARG,
            "grammar: line 3, column 7: this set has no end");
    refuses(gbnf("root ::= \"\u00e9\u00e9\" nothing"), SP_E_ARG,
            "line 1, column 15: a rule that is not defined: nothing");
    refuses(gbnf("a ::= \"x\""), SP_E_ARG, "root");
    refuses(gbnf("root ::= root \"x\" | \"y\""), SP_E_ARG,
            "itself before it reads a character: root");
    refuses(gbnf("root ::= b\nb ::= \"x\"? c\nc ::= b \"y\""), SP_E_ARG, "itself");
    refuses(gbnf("root ::= <think>"), SP_E_UNSUPPORTED, "column 10: tokens");
    refuses(gbnf("root ::= !<think>"), SP_E_UNSUPPORTED, "column 10: tokens");
    refuses(gbnf("root ::= \"a\"{3,2}"), SP_E_ARG, "exceeds");
    refuses(gbnf("root ::= \"a\"{3000}"), SP_E_LIMIT, "2000");
    refuses(gbnf("root ::= ((\"a\"{2000}){2000}){2000}"), SP_E_LIMIT, "too large");
    refuses(gbnf("root ::= ((\"\"{2000}){2000}){2000}"), SP_E_LIMIT, "too large");
    refuses(gbnf("root ::= ()*{2}"), SP_E_ARG, "parentheses");
    refuses(gbnf("root ::= \"a\"\nroot ::= \"b\""), SP_E_ARG, "line 2, column 1: a second rule");
    refuses(gbnf("root ::= (\"a\""), SP_E_ARG, "not closed");
    refuses(gbnf("root ::= \"\\q\""), SP_E_ARG, "column 11: an unknown escape");
    refuses(gbnf("root ::= \"\xff\""), SP_E_ARG, "UTF-8");
    refuses(gbnf("root ::= a*\na ::= \"x\"?"), SP_E_UNSUPPORTED, "may be empty");
    refuses(gbnf("root ::= a*\na ::= \"x\" | \"\""), SP_E_UNSUPPORTED, "may be empty");
    refuses(gbnf("root ::= a*\na ::= \"\" | \"x\""), SP_E_UNSUPPORTED, "may be empty");
    refuses(regex("a(?=b)"), SP_E_UNSUPPORTED, "regex: line 1, column 2: look-around");
    refuses(regex("a(?!b)"), SP_E_UNSUPPORTED, "column 2: look-around");
    refuses(regex("(?<=a)b"), SP_E_UNSUPPORTED, "column 1: look-around");
    refuses(regex("(?<!a)b"), SP_E_UNSUPPORTED, "column 1: look-around");
    refuses(regex("(a)\\1"), SP_E_UNSUPPORTED, "column 4: references");
    refuses(regex("(?i)a"), SP_E_UNSUPPORTED, "flags");
    refuses(regex("\\bword"), SP_E_UNSUPPORTED, "\\b");
    refuses(regex("\\p{L}"), SP_E_UNSUPPORTED, "\\p");
    refuses(regex("a^b"), SP_E_UNSUPPORTED, "column 2: ^ and $");
    refuses(regex("a(^b)"), SP_E_UNSUPPORTED, "column 3: ^ and $");
    refuses(regex("(a$)b"), SP_E_UNSUPPORTED, "column 3: ^ and $");
    refuses(regex("a*+"), SP_E_UNSUPPORTED, "possessive");
    refuses(regex("\\udfff"), SP_E_ARG, "not a character");
    refuses(regex("*a"), SP_E_ARG, "column 1: nothing to repeat");
    refuses(regex("a)"), SP_E_ARG, "column 2: this parenthesis closes nothing");
    refuses(regex("(a"), SP_E_ARG, "column 1: this group is not closed");
    refuses(regex("[z-a]"), SP_E_ARG, "column 2: the range");
    refuses(regex("a\\"), SP_E_ARG, "ends too early");
    char deep[400];
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    refuses(regex(deep), SP_E_LIMIT, "nested too deeply");
    sp_grammar_opts two = {.gbnf = "root ::= \"a\"", .regex = "a"};
    refuses(two, SP_E_ARG, "more than one");
}

/* -- random expressions, against the C library ------------------------------------------------------ */

static unsigned next(unsigned *r)
{
    return *r = *r * 1664525u + 1013904223u, *r >> 8;
}

static void random_regex(unsigned *r, int depth, char *out)
{
    static const char *const atoms[] = {"a", "b", "[ab]", "[^a]", "c"};
    static const char *const repeats[] = {"", "", "", "*", "+", "?", "{2}", "{0,2}", "{1,}"};
    int n = 1 + (int)(next(r) % 3);
    for (int i = 0; i < n; i++) {
        bool group = depth > 0 && next(r) % 2;
        if (i && next(r) % 4 == 0) strcat(out, "|");
        if (group) {
            strcat(out, "(");
            random_regex(r, depth - 1, out);
            strcat(out, ")");
        } else {
            strcat(out, atoms[next(r) % 5]);
        }
        strcat(out, repeats[next(r) % 9]);
    }
}

static void random_expressions_match_as_in_the_c_library(void **state)
{
    (void)state;
    unsigned r = 7;
    int n_matched = 0;
    for (int i = 0; i < 400; i++) {
        char source[2000] = "", whole[2010];
        regex_t compiled;
        random_regex(&r, 2, source);
        snprintf(whole, sizeof whole, "^(%s)$", source);
        assert_int_equal(regcomp(&compiled, whole, REG_EXTENDED | REG_NOSUB), 0);
        for (int k = 0; k < 12; k++) {
            char text[8] = "";
            for (unsigned n = next(&r) % 7, j = 0; j < n; j++) text[j] = "abc"[next(&r) % 3];
            bool expected = regexec(&compiled, text, 0, NULL, 0) == 0;
            n_matched += expected;
            if (accepts(regex(source), text) != expected)
                fail_msg("%s on \"%s\": %d", source, text, expected);
        }
        regfree(&compiled);
    }
    assert_true(n_matched > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_as_one_grammar_says_or_the_other),
        cmocka_unit_test(gbnf_accepts_what_it_describes),
        cmocka_unit_test(long_right_recursion_is_no_limit),
        cmocka_unit_test(characters_are_utf8),
        cmocka_unit_test(expressions_match_whole_texts),
        cmocka_unit_test(rules_that_are_nested_too_deeply_are_refused),
        cmocka_unit_test(members_between_marks_follow_their_schema),
        cmocka_unit_test(calls_may_have_a_number),
        cmocka_unit_test(a_grammar_has_512_rules_at_most),
        cmocka_unit_test(one_form_with_texts_is_asked_for),
        cmocka_unit_test(errors_name_line_and_column),
        cmocka_unit_test(random_expressions_match_as_in_the_c_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
