/* test_template.c -- expressions, statements, filters and tests of chat templates. The expected texts are what Jinja2
 * 3.1 renders in the environment of apply_chat_template. */
#include "support/check.h"

#include "model/template/template.h"

static const struct {
    const char *jinja, *wanted;
} cases[] = {
    {"{{ true }} {{ True }} {{ false }} {{ False }} {{ none }} {{ None }}",
     "True True False False None None"},
    {"{{ 7 }} {{ 0.5 }} {{ -3 }} {{ 'a' }}{{ \"b\" }} {{ [1, 'x', true] }} {{ {'k': 2} }}",
     "7 0.5 -3 ab [1, 'x', True] {'k': 2}"},
    {"{{ 7 + 2 }} {{ 7 - 2 }} {{ 7 * 2 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ 7 % 2 }} {{ -7 // 2 }} {{ "
     "-7 % 2 }}",
     "9 5 14 3.5 3 1 -4 1"},
    {"{{ 1 < 2 }} {{ 2 < 1 }} {{ 2 <= 2 }} {{ 3 <= 2 }} {{ 2 > 1 }} {{ 1 > 1 }} {{ 2 >= 2 }} {{ "
     "1 >= 2 }}",
     "True False True False True False True False"},
    {"{{ 1 == 1 }} {{ 1 == 2 }} {{ 1 != 2 }} {{ 'a' == 'a' }} {{ 'a' != 'a' }} {{ 'a' < 'b' }}",
     "True False True True False True"},
    {"{{ true and false }} {{ true or false }} {{ not true }} {{ not false }} {{ 1 if false "
     "else 2 }} {{ 1 if true else 2 }}",
     "False True False True 2 1"},
    {"{{ 2 in [1, 2] }} {{ 3 in [1, 2] }} {{ 3 not in [1, 2] }} {{ 'b' in 'abc' }} {{ 'k' in "
     "{'k': 1} }}",
     "True False True True True"},
    {"{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 'a' ~ 1 ~ 'b' }} {{ 'a' + 'b' }}",
     "7 9 a1b ab"},
    {"{{ [1, 2, 3][0] }} {{ [1, 2, 3][-1] }} {{ 'abcdef'[1:3] }} {{ 'abcdef'[:2] }} {{ "
     "'abcdef'[4:] }} {{ 'abcdef'[::-1] }}",
     "1 3 bc ab ef fedcba"},
    {"{{ {'a': {'b': 5}}.a.b }} {{ {'a': 6}['a'] }} {{ {'a': 6}.get('b', 7) }}",
     "5 6 7"},
    {"{% for x in [1, 2, 3, 4][1:-1] %}{{ x }};{% endfor %}",
     "2;3;"},
    {"{% if 1 > 2 %}a{% elif 2 > 1 %}b{% else %}c{% endif %}{% if 1 > 2 %}d{% else %}e{% endif "
     "%}",
     "be"},
    {"{% for x in ['a', 'b', 'c'] %}{{ loop.index }}{{ loop.index0 }}{{ x }}{{ loop.first }}{{ "
     "loop.last }} {% endfor %}",
     "10aTrueFalse 21bFalseFalse 32cFalseTrue "},
    {"{% for x in [] %}x{% else %}none{% endfor %}",
     "none"},
    {"{% for x in [1, 2, 3, 4] if x is even %}{{ x }}{% endfor %} {% for k, v in {'a': 1, 'b': "
     "2}.items() %}{{ k }}{{ v }}{% endfor %}",
     "24 a1b2"},
    {"{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% "
     "break %}{% endif %}{{ x }}{% endfor %}",
     "13"},
    {"{% set x = 1 %}{% set x = x + 1 %}{{ x }}{% set n = namespace(v=1) %}{% for i in [1, 2] "
     "%}{% set n.v = n.v + i %}{% endfor %}{{ n.v }}",
     "24"},
    {"{% macro m(a, b='x') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, "
     "a=4) }}",
     "[1x][12][43]"},
    {"{% for m in messages %}{{ m.role }}={{ m['content'] }};{% endfor %}{{ messages | length }}",
     "user=Hi;assistant=Yes;2"},
    {"a\n  {%- if true -%}  b  {%- endif -%}  \nc",
     "abc"},
    {"{# a comment #}x{{- ' y ' -}} z",
     "x y z"},
    {"{{ ' a b ' | trim }}|{{ 'ab' | upper }}|{{ 'AB' | lower }}|{{ 'ab cd' | title }}|{{ 'ab' "
     "| capitalize }}|{{ 'abc' | length }}",
     "a b|AB|ab|Ab Cd|Ab|3"},
    {"{{ [3, 1, 2] | join('-') }} {{ [1, 2, 3] | first }} {{ [1, 2, 3] | last }} {{ 'abc' | "
     "replace('b', 'x') }} {{ '7' | int + 1 }}",
     "3-1-2 1 3 axc 8"},
    {"{{ x | default('d') }} {{ '' | default('d', true) }} {{ x is defined }} {{ x is not "
     "defined }} {{ none is none }} {{ 1 is none }}",
     "d d False True True False"},
    {"{{ 'a' is string }} {{ 1 is string }} {{ 1 is number }} {{ [1] is iterable }} {{ {'a': 1} "
     "is mapping }} {{ [1] is mapping }}",
     "True False True True True False"},
    {"{{ 3 is odd }} {{ 3 is even }} {{ true is true }} {{ false is false }} {{ 'x' is true }}",
     "True False True True False"},
    {"{{ 'a,b,c'.split(',') | join('|') }} {{ ' a '.strip() }}|{{ 'xa'.startswith('x') }}|{{ "
     "'xa'.endswith('x') }}",
     "a|b|c a|True|False"},
    {"{{ {'b': 1, 'a': [true, none, 'é<']} | tojson }}",
     "{\"b\": 1, \"a\": [true, null, \"é<\"]}"},
    {"{{ range(3) | join(',') }} {{ range(1, 4) | join(',') }} {{ range(5, 0, -2) | join(',') }}",
     "0,1,2 1,2,3 5,3,1"}};

static void they_render_as_jinja_does(void **state)
{
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "Hi", "role", "assistant",
                                 "content", "Yes");
    assert_non_null(messages);
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_template *t;
        sp_template_text got;
        assert_ok(sp_template_parse(cases[i].jinja, strlen(cases[i].jinja), &t));
        assert_ok(sp_template_render(t, &(sp_template_input){.messages = messages}, &got));
        assert_string_equal(got.text, cases[i].wanted);
        assert_int_equal(got.n, strlen(cases[i].wanted));
        sp_template_text_fini(&got);
        sp_template_destroy(t);
    }
    json_decref(messages);
}

/* What is not in the subset, or is wrong, names its line. */
static void mistakes_are_named(void **state)
{
    static const char *const wrong[] = {"a\n{% if %}{% endif %}", "a\n{{ 1 + }}",        "a\n{% for x in [1] %}",
                                        "a\n{{ 'open }}",         "a\n{% endfor %}",     "a\n{{ x | nothing }}",
                                        "a\n{{ 1 is nothing }}",  "a\n{% nothing %}",    "a\n{{ (1 }}"};
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        sp_template *t = NULL;
        const sp_err err = sp_template_parse(wrong[i], strlen(wrong[i]), &t);
        assert_true(err == SP_E_FORMAT || err == SP_E_UNSUPPORTED);
        assert_non_null(strstr(sp_error_detail(), "line 2"));
        assert_null(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_render_as_jinja_does),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
