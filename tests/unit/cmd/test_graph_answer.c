/* Triples in the answers of models. */
#include "cmd/graph/answer.h"

#include <stdio.h>

#include "support/check.h"

/* parse -- "subject/relation/object", or "" for a line that is no triple. */
static const char *parse(const char *text)
{
    static char out[256];
    char line[256];
    graph_answer t;
    snprintf(line, sizeof line, "%s", text);
    out[0] = '\0';
    if (graph_answer_parse(line, &t))
        snprintf(out, sizeof out, "%s/%s/%s", t.subject, t.relation, t.object);
    return out;
}

static void the_forms_that_models_write(void **state)
{
    static const char *const lines[] = {
        "Ada Lovelace | wrote | the first program",
        "- Ada Lovelace | wrote | the first program",
        " 12. \"Ada Lovelace\" | **wrote** | the first program\r",
        "| Ada Lovelace | wrote | the first program |",
        "(Ada Lovelace, wrote, the first program)",
        "3) (\"Ada Lovelace\", \"wrote\", \"the first program\"),",
        "Ada Lovelace -wrote-> the first program",
        "* Ada Lovelace -> wrote -> the first program",
        "Ada Lovelace\twrote\tthe first program",
        "[Ada Lovelace, wrote, the first program]",
    };
    for (size_t i = 0; i < SP_COUNT(lines); i++)
        assert_string_equal(parse(lines[i]), "Ada Lovelace/wrote/the first program");
}

static void other_lines_are_no_triples(void **state)
{
    static const char *const lines[] = {
        "",
        "   ",
        "Here are the facts:",
        "a | b",
        "a | b | c | d",
        "a | | c",
        "| --- | --- | --- |",
        "(a, b)",
        "a -> b",
        "a -> b -> c -> d",
        "()",
        "-",
        "|",
        "||",
        "a, b, c",
        "->",
        " -",
        "- ->",
    };
    for (size_t i = 0; i < SP_COUNT(lines); i++) assert_string_equal(parse(lines[i]), "");
}

static void names_that_begin_like_bullets_stay(void **state)
{
    assert_string_equal(parse("-5 degrees | is | cold"), "-5 degrees/is/cold");
    assert_string_equal(parse("1984 | by | Orwell"), "1984/by/Orwell");
    assert_string_equal(parse("2.5 | is | a number"), "2.5/is/a number");
}

static void made_up_names_are_told(void **state)
{
    char subject[] = "ada", relation[] = "wrote", object[] = "Program", other[] = "Babbage";
    graph_answer t = {subject, relation, object};
    assert_true(graph_answer_grounded(&t, "Ada wrote a program."));
    t.object = other;
    assert_false(graph_answer_grounded(&t, "Ada wrote a program."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_forms_that_models_write),
        cmocka_unit_test(other_lines_are_no_triples),
        cmocka_unit_test(names_that_begin_like_bullets_stay),
        cmocka_unit_test(made_up_names_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
