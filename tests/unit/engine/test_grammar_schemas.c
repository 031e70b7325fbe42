/* Schemas whose keywords must hold together, or that refer to others: which values they accept, and what is refused
 * rather than passed over. */
#include "support/grammar_texts.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static sp_grammar_opts schema(const char *s)
{
    return (sp_grammar_opts){.schema = s};
}

typedef struct schema_case {
    const char *schema, *yes, *no; /* values; NULL: none */
} schema_case;

static void check(const schema_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const schema_case *c = &cases[i];
        if (c->yes && !accepts(schema(c->schema), c->yes)) fail_msg("%s: %s", c->schema, c->yes);
        if (c->no && accepts(schema(c->schema), c->no)) fail_msg("%s: not %s", c->schema, c->no);
    }
}

/* Each keyword of one schema holds beside the same keyword of another. */
static void schemas_that_hold_together_lose_nothing(void **state)
{
    static const schema_case cases[] = {
        {"{\"type\":\"integer\",\"allOf\":[{\"multipleOf\":4},{\"multipleOf\":6}]}", "12", "8"},
        {"{\"allOf\":[{\"items\":{\"enum\":[1,2]}},{\"uniqueItems\":true}]}", "[1, 2]", "[1, 1]"},
        {"{\"allOf\":[{\"items\":{\"enum\":[1,2]},\"uniqueItems\":true},{\"uniqueItems\":false}]}", "[2]", "[2, 2]"},
        {"{\"allOf\":[{\"items\":{\"enum\":[1,2]},\"uniqueItems\":false},{\"uniqueItems\":true}]}", "[2]", "[2, 2]"},
        {"{\"type\":\"array\",\"allOf\":[{\"minItems\":1},{\"minItems\":2}]}", "[1, 2]", "[1]"},
        {"{\"type\":\"array\",\"allOf\":[{\"maxItems\":1},{\"maxItems\":2}]}", "[1]", "[1, 2]"},
        {"{\"type\":\"string\",\"allOf\":[{\"minLength\":1},{\"minLength\":3}]}", "\"abc\"", "\"ab\""},
        {"{\"type\":\"integer\",\"anyOf\":[{\"minimum\":3},{\"maximum\":-3}],\"oneOf\":[{\"maximum\":5}]}", "4", "6"},
        {"{\"type\":\"string\",\"allOf\":[{\"pattern\":\"^a\"},"
         "{\"allOf\":[{\"pattern\":\"b\"},{\"pattern\":\"c$\"}]}]}",
         "\"abc\"", "\"ac\""},
        {"{\"type\":\"string\",\"allOf\":[{\"pattern\":\"^a\"},"
         "{\"allOf\":[{\"pattern\":\"b\"},{\"pattern\":\"c$\"}]}]}",
         NULL, "\"ab\""},
        {"{\"allOf\":[{\"patternProperties\":{\"^a\":{\"type\":\"integer\"}}},"
         "{\"patternProperties\":{\"^a\":{\"minimum\":3}}}]}",
         "{\"a\": 4}", "{\"a\": 2}"},
        {"{\"allOf\":[{\"patternProperties\":{\"^a\":{\"type\":\"integer\"}}},"
         "{\"patternProperties\":{\"^a\":{\"minimum\":3}}}]}",
         "{\"ab\": 3}", "{\"ab\": null}"},
        {"{\"allOf\":[{\"prefixItems\":[{\"type\":\"integer\"}]},{\"prefixItems\":[{\"minimum\":3}]}]}", "[4]", "[2]"},
        {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"null\"}},\"additionalProperties\":false},"
         "{\"additionalProperties\":{\"type\":\"integer\"}}]}",
         "{}", "{\"b\": 2}"},
        {"{\"properties\":{\"ab\":{\"type\":\"integer\"}},\"patternProperties\":{\"b$\":{\"minimum\":3}}}",
         "{\"ab\": 4}", "{\"ab\": 2}"},
        {"{\"allOf\":[{\"enum\":[1,2]},{\"enum\":[2.0,3]}]}", "2", "3"}, /* 2.0 is 2 */
        {"{\"type\":\"array\",\"minItems\":2.0}", "[1, 2]", "[1]"},
    };
    (void)state;
    check(cases, SP_COUNT(cases));
}

/* In a reference "~1" is "/", "~0" is "~", "%" and two hexadecimal digits are a byte, and a number is an index. */
static void references_name_members_and_items(void **state)
{
    static const schema_case cases[] = {
        {"{\"$ref\":\"#/$defs/a~1b\",\"$defs\":{\"a/b\":{\"const\":1},\"a~b\":{\"const\":2}}}", "1", "2"},
        {"{\"$ref\":\"#/$defs/a~0b\",\"$defs\":{\"a/b\":{\"const\":1},\"a~b\":{\"const\":2}}}", "2", "1"},
        {"{\"$ref\":\"#/$defs/list/1\",\"$defs\":{\"list\":[{\"const\":0},{\"const\":1},{\"const\":2}]}}", "1", "2"},
        {"{\"$ref\":\"#/$defs/a%20b\",\"$defs\":{\"a b\":{\"const\":1},\"a20b\":{\"const\":2}}}", "1", "2"},
        {"{\"$ref\":\"#/$defs/a%20%4z\",\"$defs\":{\"a %4z\":{\"const\":1}}}", "1", "2"},
        {"{\"$ref\":\"#/$defs/5%\",\"$defs\":{\"5%\":{\"const\":1}}}", "1", "2"},
    };
    (void)state;
    check(cases, SP_COUNT(cases));
}

static void values_of_an_enum_may_have_several_types(void **state)
{
    static const schema_case cases[] = {
        {"{\"enum\":[1,\"x\",null],\"type\":[\"integer\",\"string\"]}", "1", "null"},
        {"{\"enum\":[1,\"x\",null],\"type\":[\"integer\",\"string\"]}", "\"x\"", NULL},
        {"{\"type\":\"integer\",\"nullable\":false}", "7", "null"},
    };
    (void)state;
    check(cases, SP_COUNT(cases));
}

static void bounds_of_numbers_hold(void **state)
{
    static const schema_case cases[] = {
        {"{\"type\":\"integer\",\"maximum\":-10000000000000000}", "-10000000000000000", "-9999999999999999"},
        {"{\"type\":\"number\",\"minimum\":0,\"maximum\":0.05}", "0.049", "0.06"},
        {"{\"type\":\"number\",\"minimum\":0,\"maximum\":5,\"exclusiveMaximum\":true}", "4.9", "5"},
        {"{\"type\":\"number\",\"minimum\":1,\"maximum\":1}", "1.0", "1.1"},
    };
    (void)state;
    check(cases, SP_COUNT(cases));
    refuses(schema("{\"type\":\"number\",\"exclusiveMinimum\":1,\"maximum\":1}"), SP_E_ARG,
            "the minimum exceeds the maximum");
    refuses(schema("{\"type\":\"number\",\"minimum\":1e15}"), SP_E_UNSUPPORTED, "beyond 1e15");
    refuses(schema("{\"type\":\"integer\",\"multipleOf\":2.5}"), SP_E_UNSUPPORTED, "not a whole number");
}

static void names_of_members_keep_to_their_schema(void **state)
{
    static const schema_case cases[] = {
        {"{\"properties\":{\"ab\":{}},\"propertyNames\":{\"minLength\":2,\"maxLength\":2}}", "{\"ab\": 1}", NULL},
        {"{\"properties\":{\"abc\":{}},\"propertyNames\":{\"maxLength\":2}}", "{}", "{\"abc\": 1}"},
        {"{\"patternProperties\":{\"^a\":{\"const\":1},\"^b\":{\"const\":2},\"^c\":{\"const\":3},"
         "\"^d\":{\"const\":4}},\"additionalProperties\":false}",
         "{\"dx\": 4}", "{\"dx\": 3}"},
        {"{\"properties\":{\"\":{\"const\":1}},\"additionalProperties\":{\"const\":2}}", "{\"\": 1}", "{\"\": 2}"},
    };
    (void)state;
    check(cases, SP_COUNT(cases));
    refuses(schema("{\"type\":\"object\",\"propertyNames\":{\"format\":\"date\"}}"), SP_E_UNSUPPORTED,
            "propertyNames: unsupported keyword format");
    refuses(schema("{\"patternProperties\":{\"a\":{},\"b\":{},\"c\":{},\"d\":{},\"e\":{}}}"), SP_E_LIMIT,
            "more than 4 patterns");
}

static void lists_with_an_end_are_no_longer(void **state)
{
    static const schema_case cases[] = {
        {"{\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":false,\"maxItems\":5}", "[1, 2]", "[1, 2, 3]"},
        {"{\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":false,\"maxItems\":1}", "[1]", "[1, 2]"},
    };
    (void)state;
    check(cases, SP_COUNT(cases));
    refuses(schema("{\"prefixItems\":[{\"const\":1}],\"items\":{\"enum\":[1,2]},\"uniqueItems\":true}"),
            SP_E_UNSUPPORTED, "uniqueItems of values that no enum lists");
}

/* What a grammar cannot say is an error, wherever it is. */
static void unknown_keywords_are_refused_in_what_is_merged(void **state)
{
    (void)state;
    refuses(schema("{\"type\":\"array\",\"anyOf\":[{\"contains\":{}},{\"minItems\":1}]}"), SP_E_UNSUPPORTED,
            "unsupported keyword contains");
    refuses(schema("{\"type\":\"object\",\"unevaluatedProperties\":{\"type\":\"null\"}}"), SP_E_UNSUPPORTED,
            "unsupported keyword unevaluatedProperties");
}

/* choices -- an integer that is also one of n alternatives. */
static char *choices(int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, json_pack("{s:i}", "minimum", i));
    json_t *all = json_pack("{s:s, s:o}", "type", "integer", "anyOf", list);
    char *text = json_dumps(all, 0);
    json_decref(all);
    return text;
}

static void up_to_256_alternatives_may_be_merged(void **state)
{
    (void)state;
    char *most = choices(256), *more = choices(257);
    assert_true(accepts(schema(most), "255"));
    refuses(schema(more), SP_E_LIMIT, "more than 256 alternatives");
    free(most);
    free(more);
}

/* -- calls with keys and values between marks --------------------------------------------------------- */

static void calls_of_marks_name_what_they_cannot_say(void **state)
{
    static const char *const keys[] = {"<k>", "=", "</v>"};
    (void)state;
    sp_grammar_opts o = {.schema = "{\"properties\":{\"a\":{\"enum\":[\"x y\",3]},"
                                   "\"b\":{\"type\":[\"string\",\"integer\"],\"minimum\":3}},\"required\":[\"a\"]}",
                         .keys = keys};
    assert_true(accepts(o, "<k>a=x y</v>") && accepts(o, "<k>a=3</v>"));
    assert_false(accepts(o, "<k>a=\"x y\"</v>"));
    assert_true(accepts(o, "<k>a=3</v><k>b=any text</v>"));
    assert_true(accepts(o, "<k>a=3</v><k>b=2 < 3</v>"));
    assert_false(accepts(o, "<k>a=3</v><k>b=2</i></v>")); /* "</" ends a value */
    o.schema = "{\"type\":\"object\",\"minProperties\":1}";
    refuses(o, SP_E_UNSUPPORTED, "is not supported in calls of this model minProperties");
    o.schema = "{\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":2000}}}";
    assert_true(accepts(o, "<k>a=x</v>"));
    o.schema = "{\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":2001}}}";
    refuses(o, SP_E_LIMIT, "over 2000 characters");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schemas_that_hold_together_lose_nothing),
        cmocka_unit_test(references_name_members_and_items),
        cmocka_unit_test(values_of_an_enum_may_have_several_types),
        cmocka_unit_test(bounds_of_numbers_hold),
        cmocka_unit_test(names_of_members_keep_to_their_schema),
        cmocka_unit_test(lists_with_an_end_are_no_longer),
        cmocka_unit_test(unknown_keywords_are_refused_in_what_is_merged),
        cmocka_unit_test(up_to_256_alternatives_may_be_merged),
        cmocka_unit_test(calls_of_marks_name_what_they_cannot_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
