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
    {"{% for x in [1, 2, 3, 4][1:-1] %}{{ x }};{% endfor %} {{ (1, 2, 3)[:2] }} {{ (1, 2)[1:] }} {{ (1,) + (2,) }}",
     "2;3; (1, 2) (2,) (1, 2)"},
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
    {"a\r\nb\rc\n\r\n{{ 1 }}\r\n",
     "a\nb\nc\n\n1"},
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
     "0,1,2 1,2,3 5,3,1"},
    {"{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | indent(1, false, true) "
     "}}|{{ 'a' | safe }}|{{ 7 | string + '0' }}",
     "a\n    b\n\n    c|  a\n  b|a\n \n b|a|70"},
    {"{{ 'x' | int(9) }} {{ '4.7' | int }} {{ 4.7 | int }} {{ true | int }} {{ 'x' | float(2.5) }} {{ "
     "'1e3' | float }} {{ -3 | abs }} {{ -2.5 | abs }}",
     "9 4 4 1 2.5 1000.0 3 2.5"},
    {"{{ 'äbc' | length }} {{ [1, 2] | count }} {{ {'a': 1} | length }} {{ 'äb' | reverse }} {{ [1, 2] | "
     "reverse | list }} {{ 'ab' | list }}",
     "3 2 1 bä [2, 1] ['a', 'b']"},
    {"{{ {'b': 1, 'A': 2, 'c': 3, 'B1': 4} | dictsort }} {{ {'a': 1} | items | list }}",
     "[('A', 2), ('b', 1), ('B1', 4), ('c', 3)] [('a', 1)]"},
    {"{{ ['b', 'A', 'b', 'B'] | unique | list }} {{ ['b', 'B', 'a'] | sort }} {{ ['b', 'B', 'a'] | "
     "sort(case_sensitive=true) }} {{ [2, 3, 1] | sort(reverse=true) }}",
     "['b', 'A'] ['a', 'b', 'B'] ['B', 'a', 'b'] [3, 2, 1]"},
    {"{{ [{'k': 2, 'n': 'x'}, {'k': 1, 'n': 'y'}] | sort(attribute='k') | map(attribute='n') | join }} {{ "
     "[2, 3, 1] | min }} {{ [2, 3, 1] | max }} {{ ['B', 'a'] | min }}",
     "yx 1 3 a"},
    {"{{ ['a', 'b'] | map('upper') | join(',') }} {{ [{'a': {'b': 1}}, {'a': {}}] | map(attribute='a.b', "
     "default='-') | join(',') }} {{ [{'a': 1}, {'a': 2}] | join('+', attribute='a') }}",
     "A,B 1,- 1+2"},
    {"{{ [1, 2, 3] | select('odd') | list }} {{ [1, 2, 3] | reject('odd') | list }} {{ [0, 1] | select | "
     "list }} {{ [1, 5] | select('gt', 2) | list }}",
     "[1, 3] [2] [1] [5]"},
    {"{{ [{'a': 1}, {'a': 2}] | selectattr('a', 'equalto', 2) | list }} {{ [{'a': 1}, {'a': 2}] | "
     "rejectattr('a', 'equalto', 2) | list }} {{ [{'a': 0}, {'a': 2}] | selectattr('a') | list }}",
     "[{'a': 2}] [{'a': 1}] [{'a': 2}]"},
    {"{{ {'b': [1, 'é'], 'a': 1.5} | tojson(indent=2, sort_keys=true) }} {{ ['é', 1] | "
     "tojson(ensure_ascii=true, separators=(';', '=')) }} {{ 'a\\\"\\\\\\n\\t\\x01' | tojson }}",
     "{\n  \"a\": 1.5,\n  \"b\": [\n    1,\n    \"é\"\n  ]\n} [\"\\u00e9\";1] \"a\\\"\\\\\\n\\t\\u0001\""},
    {"{{ 'aXbX' | replace('X', '-', 1) }} {{ 'xxaxx' | trim('x') }} {{ '' | default('d') }}|{{ none | "
     "default('d') }} {{ 0 | default(5, true) }} {{ [] | first is defined }} {{ 'ab' | last }}",
     "a-bX a |None 5 False b"},
    {"{{ 'aXbXc' | replace('X', '---') }} {{ 'abcabcd'.replace('abc', 'x') }} {{ 'XaX' | replace('X', '') }}",
     "a---b---c xxd a"},
    {"{{ 1 is boolean }} {{ true is boolean }} {{ 1 is integer }} {{ 1.0 is integer }} {{ 1.5 is float }} "
     "{{ true is number }} {{ 'a' is sequence }} {{ {} is sequence }} {{ 1 is iterable }} {{ x is "
     "undefined }}",
     "False True True False True True True True False True"},
    {"{{ 6 is divisibleby 3 }} {{ 7 is divisibleby(3) }} {{ 1 is eq 1 }} {{ 1 is ne 1 }} {{ 1 is lt 2 }} "
     "{{ 2 is lt 2 }} {{ 2 is le 2 }} {{ 3 is le 2 }}",
     "True False True False True False True False"},
    {"{{ 2 is gt 2 }} {{ 3 is gt 2 }} {{ 2 is ge 2 }} {{ 1 is ge 2 }} {{ 1 is sameas 1 }} {{ 1 is sameas "
     "1.0 }} {{ 2 is in [1, 2] }} {{ range is callable }} {{ 1 is callable }}",
     "False True True False True False True True False"},
    {"{{ ' a ' .lstrip() }}|{{ ' a '.rstrip() }}|{{ 'xax'.strip('x') }}|{{ 'aB'.upper() }}{{ 'aB'.lower() "
     "}}|{{ 'ab cd'.title() }}|{{ 'aB c'.capitalize() }}",
     "a | a|a|ABab|Ab Cd|Ab c"},
    {"{{ 'a b  c'.split() }} {{ 'a,b,c'.split(',', 1) }} {{ ' a b c'.split(none, 1) }} {{ "
     "'a\\nb\\n'.splitlines() }} {{ 'aba'.replace('a', 'x', 1) }}",
     "['a', 'b', 'c'] ['a', 'b,c'] ['a', 'b c'] ['a', 'b'] xba"},
    {"{{ 'ab'.startswith(('x', 'a')) }} {{ 'ab'.endswith(('x', 'a')) }} {{ 'abc'.removeprefix('a') }} {{ "
     "'abc'.removesuffix('c') }} {{ 'abc'.removeprefix('x') }} {{ 'äbc'.find('c') }} {{ 'abc'.find('x') }}",
     "True False bc ab abc 2 -1"},
    {"{{ 'aaa'.count('a') }} {{ '-'.join(['a', 'b']) }} {{ '12'.isdigit() }} {{ '1a'.isdigit() }} {{ "
     "''.isdigit() }} {{ {'a': 1}.keys() | list }} {{ {'a': 1}.values() | list }} {{ {'a': 1}.get('a') }} "
     "{{ {'a': 1}.get('b') }}",
     "3 a-b True False False ['a'] [1] 1 None"},
    {"{{ '{} {1}'.format('a') if false else '{}{}'.format('a', 1) }} {{ '{1}{0}'.format('a', 'b') }} {{ "
     "'{n!r} {{}}'.format(n='q') }}",
     "a1 ba 'q' {}"},
    {"{{ 1e16 }} {{ 123456789012345.0 }} {{ 0.0001 }} {{ 0.00001 }} {{ 2.0 }} {{ (1,) }} {{ (1, 2) }} {{ "
     "['it\\'s', 'a\\\"b', '\\n'] }} {{ [none, 1.5] }}",
     "1e+16 123456789012345.0 0.0001 1e-05 2.0 (1,) (1, 2) [\"it's\", 'a\"b', '\\n'] [None, 1.5]"},
    {"{{ 'aé雨🦦b'[2:4] }} {{ 'aé雨🦦b'[-2] }} {{ '雨x' | length }} {{ ['a', 'b', 'c', 'd', "
     "'e'][1::2] }} {{ [1, 2, 3][::-2] }} {{ 'é' ~ 'b' * 2 }} {{ [1] + [2] }} {{ 'Éa' | trim('É') }}",
     "雨🦦 🦦 2 ['b', 'd'] [3, 1] ébb [1, 2] a"},
    {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 7 % -3 }} {{ -7.5 // 2 }} {{ 2 == 2.0 }} {{ true == 1 }} {{ [1, "
     "[2]] == [1, [2]] }} {{ {'a': 1} == {'a': 2} }} {{ none or 'x' }} {{ 0 and 1 }} {{ not [] }} {{ 1 if "
     "false }}|",
     "True False -2 -4.0 True True True False x 0 True |"},
    {"{% for k in [1, 2, 3] %}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.length }}{{ loop.previtem "
     "}}{{ loop.nextitem }};{% endfor %}",
     "3232;21313;1032;"},
    {"{% set x %}a{{ 1 }}b{% endset %}{{ x | upper }}",
     "A1B"},
    {"{% for a in [1] %}\n  {{ a }}\n{% endfor %}\n  {% if true %}x{% endif %}\n",
     "  1\nx"},
    {"{% set ns = namespace(a=1, b='x') %}{% set ns.a = ns.a + 1 %}{{ ns.a }}{{ ns.b }} {{ dict(a=1, b=2) "
     "}} {% set a, b = [1, 2] %}{{ b }}{{ a }}",
     "2x {'a': 1, 'b': 2} 21"},
    {"{% set n = namespace() %}{{ 1 if n else 0 }}{{ 1 if {} else 0 }}", "10"},
    {"{{ {'a': 1, 'b': 2, 'c': 3, 'd': 4, 'e': 5, 'f': 6, 'g': 7, 'h': 8, 'i': 9}['h'] }}", "8"},
    {"a\n  {%+ if true %}b{% endif %}", "a\n  b"},
    {"{% set x = 'outer' %}{% macro m(x, y) %}{{ x }} {{ y }}{% endmacro %}{{ m('inner', x) }}", "inner outer"},
    {"{{ 25e-1 }} {{ 25E+1 }}", "2.5 250.0"},
    {"{{ 'abc' | replace('a', 'x',) }} {{ [1, 2,] }} {{ {'a': 1,} }} {{ () }} {{ (1, 2,) }} {{ 1, 2 "
     "}} {{ [(1, 2)] }}",
     "xbc [1, 2] {'a': 1} () (1, 2) (1, 2) [(1, 2)]"},
    {"{{ [1, 2, 3, 4, 5][1:5:2] }} {{ 'abcdef'[5:1:-2] }} {{ [1, 2, 3][::-1] }} {{ [1, 2, 3][:0:-1] "
     "}} {{ [1, 2, 3][2::-1] }}|{{ 'abc'[2:1] }}|{{ (1, 2, 3)[::2] }}",
     "[2, 4] fd [3, 2, 1] [3, 2] [3, 2, 1]||(1, 3)"},
    {"{{ 'abc'[-100:100] }} {{ [1, 2, 3][::100] }} {{ [1, 2, 3][1::9223372036854775807] }} {{ [1, 2, "
     "3][100::-9223372036854775807] }} {{ [1, 2, 3][-2:] }} {{ [1, 2, 3][5:] }}",
     "abc [1] [2] [3] [2, 3] []"},
    {"{{ [1, 2][2] is defined }} {{ 'ab'[2] is defined }} {{ [1, 2][-3] is defined }} {{ 'äb'[-2] }}",
     "False False False ä"},
    {"{{ {1: 'one', '1': 'text', -2: 'b'}[1] }} {{ {1: 'one', '1': 'text'}['1'] }} {{ {-2: 'b'}[-2] "
     "}} {{ 1 in {1: 2} }} {{ '1' in {1: 2} }} {{ {1: 2}[2] is defined }} {{ {1: 2} == {'1': 2} }}",
     "one text b True False False False"},
    {"{{ 1 < 3 > 2 }} {{ 1 < 2 < 2 }} {{ 3 > 2 > 1 }} {{ 1 < 2 == true }} {{ 1 < 2 not in [2] }}",
     "True False True False False"},
    {"{{ 1 - 2 + 3 }} {{ 8 // 3 * 2 }} {{ 2 * 3 % 4 }} {{ 'a' ~ 1 + 2 ~ 'b' }} {{ -2 + 3 }} {{ - 2 * "
     "3 }}",
     "2 4 2 a12b 1 -6"},
    {"{{ true + 0.5 }} {{ 1 + true }} {{ true + true }} {{ -7.5 % 2 }} {{ -7.5 // 2 }} {{ 7 % -2 }} "
     "{{ 7 // -2 }} {{ true < 1.5 }}",
     "1.5 2 2 0.5 -4.0 -1 -4 True"},
    {"{{ 1 is string and 2 is number }} {{ x is defined or 1 is odd }} {{ 1 if 1 is odd else 2 }} {{ "
     "'a' is in ['a'] }} {{ 2 is not odd }}",
     "False True 1 True True"},
    {"{{ x | nothing if false else 'ok' }}",
     "ok"},
    {"{% macro m(a, b=7) %}{{ a }}-{{ b }};{% endmacro %}{{ m(*[1, 2]) }}{{ m(*[3]) }}{{ m(*[], a=5) "
     "}}{{ m(0, *[9]) }}",
     "1-2;3-7;5-7;0-9;"},
    {"{% set range = 3 %}{{ range }} {% set joiner = 'x' %}{{ joiner }}",
     "3 x"},
    {"{% for a, b in [(1, 2), (3, 4)] %}{{ b }}{{ a }}{% endfor %}{% for a in (1, 2) %}{{ a }}{% endfor "
     "%}",
     "214312"},
};

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

/* What is beside one another is no deeper: 200 objects, and at most 160 levels. */
static void a_long_list_is_not_deep(void **state)
{
    static const char jinja[] = "{{ documents | length }}";
    json_t *documents = json_array();
    sp_template *t;
    sp_template_text got;
    for (int i = 0; i < 200; i++) json_array_append_new(documents, json_object());
    assert_int_equal(json_array_size(documents), 200);
    assert_ok(sp_template_parse(jinja, strlen(jinja), &t));
    assert_ok(sp_template_render(t, &(sp_template_input){.documents = documents}, &got));
    assert_string_equal(got.text, "200");
    sp_template_text_fini(&got);
    sp_template_destroy(t);
    json_decref(documents);
}

/* Neither are 150 conditions, one after another. */
static void a_long_template_is_not_deep(void **state)
{
    enum { N = 150 };
    static const char one[] = "{{ not not false }}{{ 1 is not odd }}{{ (1 if true else 2) }}";
    static char jinja[N * sizeof one];
    sp_template *t;
    sp_template_text got;
    for (int i = 0; i < N; i++) strcat(jinja, one);
    assert_ok(sp_template_parse(jinja, strlen(jinja), &t));
    assert_ok(sp_template_render(t, &(sp_template_input){0}, &got));
    assert_int_equal(got.n, N * strlen("FalseFalse1"));
    sp_template_text_fini(&got);
    sp_template_destroy(t);
}

/* A long string is more than a step: a template cannot read it again and again. */
static void long_strings_take_steps(void **state)
{
    static const char jinja[] = "{% for i in range(9) %}{{ a == a }}{% endfor %}";
    static char a[1 << 18];
    sp_template *t;
    sp_template_text got;
    memset(a, 'x', sizeof a - 1);
    json_t *kwargs = json_pack("{s:s}", "a", a);
    assert_ok(sp_template_parse(jinja, strlen(jinja), &t));
    sp_template_input in = {.kwargs = kwargs, .max_steps = 9 * 1024};
    assert_fails(sp_template_render(t, &in, &got), SP_E_LIMIT, "too many steps");
    in.max_steps *= 3;
    assert_ok(sp_template_render(t, &in, &got));
    sp_template_text_fini(&got);
    sp_template_destroy(t);
    json_decref(kwargs);
}

/* What Python refuses, too, or what is not computed: the message names the line and what is wrong. */
static void values_that_do_not_fit_are_errors(void **state)
{
    static const struct {
        const char *jinja, *why;
    } wrong[] = {
        {"{{ (-9223372036854775807 - 1) // -1 }}", "too large"},
        {"{{ 9223372036854775807 + 1 }}", "too large"},
        {"{{ -9223372036854775807 - 2 }}", "too large"},
        {"{{ 4611686018427387904 * 2 }}", "too large"},
        {"{{ 1 // 0 }}", "division by zero"},
        {"{{ 1.0 // 0 }}", "division by zero"},
        {"{{ 1 / 0 }}", "division by zero"},
        {"{{ 1.5 % 0 }}", "division by zero"},
        {"{{ 'a' | trim('x', 'y') }}", "too many"},
        {"{{ 'a' | trim(colour='y') }}", "colour"},
        {"{{ 'a' | tojson(ind=2) }}", "argument 'ind' of 'tojson'"},
        {"{{ 'a' | replace('a') }}", "needs its argument"},
        {"{{ 5 | items }}", "of an integer"},
        {"{% macro m(a) %}{% endmacro %}{{ m(*5) }}", "an integer after '*' is no list"},
        {"{{ [1, 2][::0] }}", "a slice with step 0"},
        {"{{ [1, 2]['a':] }}", "a slice by a string"},
        {"{{ 5[1:] }}", "a slice of an integer"},
        {"{{ x[0] }}", "an item of an undefined value"},
        {"{{ {1.5: 2} }}", "a key that is a number"},
        {"{{ 1 if x is nothing }}", "nothing"},
        {"{{ [6] | select('divisibleby') | list }}", "test 'divisibleby' needs an argument"},
    };
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        sp_template *t;
        sp_template_text got;
        assert_ok(sp_template_parse(wrong[i].jinja, strlen(wrong[i].jinja), &t));
        if (sp_template_render(t, &(sp_template_input){0}, &got) == SP_OK)
            fail_msg("%s: %s", wrong[i].jinja, got.text);
        const char *said = sp_error_detail();
        if (!strstr(said, wrong[i].why) || !strstr(said, "line 1")) fail_msg("%s: %s", wrong[i].jinja, said);
        sp_template_destroy(t);
    }
}

/* The words for roles of messages are no text that somebody wrote; a document may have the same word. */
static void only_messages_have_roles(void **state)
{
    static const char jinja[] = "{{ messages[0].role }}{{ documents[0].role }}";
    json_t *messages = json_pack("[{s:s}]", "role", "user");
    sp_template *t;
    sp_template_text got;
    assert_non_null(messages);
    assert_ok(sp_template_parse(jinja, strlen(jinja), &t));
    assert_ok(sp_template_render(t, &(sp_template_input){.messages = messages, .documents = messages}, &got));
    assert_string_equal(got.text, "useruser");
    assert_int_equal(got.n_spans, 1);
    assert_int_equal(got.spans[0].from, 4);
    assert_int_equal(got.spans[0].origin, SP_TEMPLATE_DOCUMENT);
    sp_template_text_fini(&got);
    sp_template_destroy(t);
    json_decref(messages);
}

/* Not its other members, nor what is called content within them. */
static void the_content_of_a_message_is_its_text(void **state)
{
    static const char jinja[] = "{{ messages[0].name }}|{{ messages[0].content }}|{{ messages[1].content[0].text }}|"
                                "{{ messages[1].calls[0].content }}|{{ messages[1].contents }}";
    static const char *const paths[] = {"messages[0].name", "messages[0].content", "messages[1].content[0].text",
                                        "messages[1].calls[0].content", "messages[1].contents"};
    json_t *messages = json_loads("[{\"name\": \"Anna\", \"content\": \"Hi\"}, {\"content\": [{\"text\": \"Yes\"}], "
                                  "\"calls\": [{\"content\": \"x\"}], \"contents\": \"y\"}]", 0, NULL);
    sp_template *t;
    sp_template_text got;
    assert_non_null(messages);
    assert_ok(sp_template_parse(jinja, strlen(jinja), &t));
    assert_ok(sp_template_render(t, &(sp_template_input){.messages = messages}, &got));
    assert_string_equal(got.text, "Anna|Hi|Yes|x|y");
    assert_int_equal(got.n_spans, 5);
    for (int i = 0; i < 5; i++) {
        const bool is_content = i == 1 || i == 2;
        assert_string_equal(got.spans[i].path, paths[i]);
        assert_int_equal(got.spans[i].origin, is_content ? SP_TEMPLATE_MESSAGE : SP_TEMPLATE_OTHER);
        assert_int_equal(got.spans[i].index, is_content ? i - 1 : -1);
    }
    sp_template_text_fini(&got);
    sp_template_destroy(t);
    json_decref(messages);
}

/* One of 1 MiB is the longest; what renders as nothing is a text, too. */
static void a_template_may_be_long_and_say_nothing(void **state)
{
    const size_t most = 1 << 20;
    char *jinja = malloc(most + 1);
    sp_template *t;
    sp_template_text got;
    assert_non_null(jinja);
    memset(jinja, ' ', most + 1);
    memcpy(jinja, "{# ", 3);
    memcpy(jinja + most - 2, "#}", 2);
    assert_ok(sp_template_parse(jinja, most, &t));
    assert_ok(sp_template_render(t, &(sp_template_input){0}, &got));
    assert_string_equal(got.text, "");
    assert_true(got.n == 0 && got.n_spans == 0);
    sp_template_text_fini(&got);
    sp_template_destroy(t);
    assert_fails(sp_template_parse(jinja, most + 1, &t), SP_E_LIMIT, "1048577 bytes are more than 1048576");
    free(jinja);
}

/* What a list prints is the input's as a whole, of no message when several are in it. */
static void a_list_that_is_printed_is_one_span(void **state)
{
    static const char jinja[] = "{{ [messages[0].content, 'x', messages[1].content] }}|"
                                "{{ ['x', messages[1].content] }}";
    static const char first[] = "['Hi', 'x', 'Yes']", second[] = "['x', 'Yes']";
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "Hi", "role", "assistant",
                                 "content", "Yes");
    sp_template *t;
    sp_template_text got;
    assert_ok(sp_template_parse(jinja, strlen(jinja), &t));
    assert_ok(sp_template_render(t, &(sp_template_input){.messages = messages}, &got));
    assert_int_equal(got.n_spans, 2);
    for (int i = 0; i < 2; i++) {
        const sp_template_span *s = &got.spans[i];
        assert_int_equal(s->from, i ? sizeof first : 0);
        assert_int_equal(s->to - s->from, strlen(i ? second : first));
        assert_int_equal(s->origin, i ? SP_TEMPLATE_MESSAGE : SP_TEMPLATE_OTHER);
        assert_int_equal(s->index, i ? 1 : -1);
        assert_int_equal(s->at, -1);
    }
    sp_template_text_fini(&got);
    sp_template_destroy(t);
    json_decref(messages);
}

/* What is not in the subset, or is wrong, names its line. */
static void mistakes_are_named(void **state)
{
    static const char *const wrong[] = {"a\n{% if %}{% endif %}", "a\n{{ 1 + }}",        "a\n{% for x in [1] %}",
                                        "a\n{{ 'open }}",         "a\n{% endfor %}",     "a\n{{ x | nothing }}",
                                        "a\n{{ 1 is nothing }}",  "a\n{% nothing %}",    "a\n{{ (1 }}",
                                        "a\n{% for x in [1] %}{% endfor %}{% break %}",
                                        "a\n{{ 2 ** 3 }}",       "a\n{{ [1][] }}",
                                        "a\n{{ 1 if true else 2 }}{{ 'a' | nothing }}"};
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        sp_template *t = NULL;
        const sp_err err = sp_template_parse(wrong[i], strlen(wrong[i]), &t);
        assert_true(err == SP_E_FORMAT || err == SP_E_UNSUPPORTED);
        assert_non_null(strstr(sp_error_detail(), "line 2"));
        assert_null(t);
    }
    static const char large[] = "{{ 99999999999999999999 }}", longer[] = "{{ 9999999999999999999999999999999999999 }}";
    sp_template *t = NULL;
    assert_fails(sp_template_parse(large, strlen(large), &t), SP_E_LIMIT, "line 1: 99999999999999999999 is too large");
    assert_fails(sp_template_parse(longer, strlen(longer), &t), SP_E_LIMIT, "line 1: a number of 37 digits");
    assert_null(t);
}

/* A name of any length leaves room for what is said of it. */
static void a_long_name_is_cut(void **state)
{
    char jinja[700], name[601] = "", wanted[200];
    sp_template *t;
    sp_template_text got;
    memset(name, 'm', sizeof name - 1);
    snprintf(jinja, sizeof jinja, "{{ 'a'.%s() }}", name);
    snprintf(wanted, sizeof wanted, "has no method '%.40s', or it is not supported", name);
    assert_ok(sp_template_parse(jinja, strlen(jinja), &t));
    assert_fails(sp_template_render(t, &(sp_template_input){0}, &got), SP_E_UNSUPPORTED, wanted);
    sp_template_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_render_as_jinja_does),
        cmocka_unit_test(a_long_list_is_not_deep),
        cmocka_unit_test(a_long_template_is_not_deep),
        cmocka_unit_test(long_strings_take_steps),
        cmocka_unit_test(values_that_do_not_fit_are_errors),
        cmocka_unit_test(only_messages_have_roles),
        cmocka_unit_test(the_content_of_a_message_is_its_text),
        cmocka_unit_test(a_template_may_be_long_and_say_nothing),
        cmocka_unit_test(a_list_that_is_printed_is_one_span),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(a_long_name_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
