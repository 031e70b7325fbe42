/* Required calls: the grammar of each form takes what the published templates write, nothing else, and what it takes
 * is read as these calls. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/grammar.h"
#include "server/body/tools.h"
#include "support/check.h"

/* As the templates of the models render it: Kimi K2, DeepSeek V3 and R1, V3.1, GLM-4.5 to 4.7, GLM-4 (0414),
 * Qwen3-Coder and Qwen3.5; gpt-oss as the harmony format's guide has it. */
static const struct {
    const char *jinja; /* marks of the template, beside the word tools */
    srv_tool_form form;
    const char *two;       /* weather(city "Beijing", days 3), then now() */
    const char *wrong[4];  /* refused */
} forms[] = {
    {"<|tool_calls_section_begin|>", SRV_TOOLS_KIMI,
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
     "{\"city\": \"Beijing\", \"days\": 3}<|tool_call_end|><|tool_call_begin|>functions.now:1"
     "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     {"<|tool_calls_section_begin|><|tool_calls_section_end|>",
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:<|tool_call_argument_begin|>{}<|tool_call_end|>"
      "<|tool_calls_section_end|>",
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}"
      "<|tool_call_end|>"}},
    {"<｜tool▁sep｜> ```json", SRV_TOOLS_DEEPSEEK,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"Beijing\", "
     "\"days\": 3}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{}\n```<｜tool▁call▁end｜>"
      "<｜tool▁calls▁end｜>",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>other\n```json\n{}\n```<｜tool▁call▁end｜>"
      "<｜tool▁calls▁end｜>"}},
    {"<｜tool▁sep｜>", SRV_TOOLS_DEEPSEEK_31,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Beijing\", \"days\": 3}"
     "<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": 7}<｜tool▁call▁end｜>"
      "<｜tool▁calls▁end｜>"}},
    {"<tool_call> <arg_key> <|observation|>", SRV_TOOLS_GLM_45,
     "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Beijing</arg_value>\n<arg_key>days</arg_key>\n"
     "<arg_value>3</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
     {"<tool_call>weather\n</tool_call>",
      "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>A very long name of a city</arg_value>\n</tool_call>",
      "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>B</arg_value>\n<arg_key>days</arg_key>\n"
      "<arg_value>\"3\"</arg_value>\n</tool_call>",
      "<tool_call>now\n<arg_key>city</arg_key>\n<arg_value>B</arg_value>\n</tool_call>"}},
    {"<tool_call> <parameter=", SRV_TOOLS_QWEN_CODER,
     "<tool_call>\n<function=weather>\n<parameter=city>\nBeijing\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
     "</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
     {"<tool_call>\n<function=weather>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"}},
    {"<|observation|>", SRV_TOOLS_GLM_4, "weather\n{\"city\": \"Beijing\", \"days\": 3}",
     {"weather\n{\"days\": 3}", "other\n{}"}},
    {"<|channel|>", SRV_TOOLS_HARMONY,
     "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Beijing\", \"days\": 3}",
     {"<|channel|>final<|message|>{\"city\": \"Beijing\"}",
      "<|channel|>commentary to=functions.other <|constrain|>json<|message|>{}"}},
};

static const char tools_json[] =
    "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {\"type\": "
    "\"object\", \"properties\": {\"city\": {\"$ref\": \"#/$defs/city\"}, \"days\": {\"type\": \"integer\"}, "
    "\"unit\": {\"anyOf\": "
    "[{\"$ref\": \"#/$defs/unit\"}, {\"type\": \"null\"}]}, \"note\": {\"type\": \"string\"}, \"on\": {\"type\": "
    "\"string\", \"format\": \"date\"}}, \"required\": [\"city\"], \"$defs\": {\"city\": {\"type\": \"string\", "
    "\"maxLength\": 9}, \"unit\": {\"enum\": [\"C\", \"F\"]}}}}}, {\"type\": \"function\", \"function\": "
    "{\"name\": \"now\"}}], \"tool_choice\": ";

static srv_tools read_tools(const char *choice, json_t **body)
{
    srv_fields f;
    srv_tools t = {0};
    char text[1200];
    snprintf(text, sizeof text, "%s%s}", tools_json, choice);
    *body = srv_fields_parse(&f, text, strlen(text));
    assert_non_null(*body);
    srv_tools_read(&t, &f);
    assert_false(f.failed);
    return t;
}

/* takes -- whether the grammar takes the text byte by byte, and it may end there. */
static bool takes(const sp_grammar *g, const char *text)
{
    static char bytes[256];
    sp_token_piece pieces[257] = {{0}};
    sp_token_set *v = NULL;
    sp_grammar_state *s = NULL;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        pieces[i] = (sp_token_piece){.s = &bytes[i], .n = 1};
    }
    pieces[256].end = true;
    assert_ok(sp_token_set_create(pieces, 257, &v));
    assert_ok(sp_grammar_start(g, v, &s));
    bool good = true;
    for (; *text && good; text++) good = sp_grammar_accept(s, (uint8_t)*text);
    good = good && sp_grammar_complete(s);
    sp_grammar_stop(s);
    sp_token_set_destroy(v);
    return good;
}

static sp_grammar *grammar_of(const char *choice, srv_tool_form form, json_t **body)
{
    srv_fields f = {0};
    srv_tools t = read_tools(choice, body);
    sp_grammar *g = srv_tools_grammar(&t, form, &f);
    if (!g) fail_msg("form %d: %s", form, f.why);
    return g;
}

static void templates_say_which_form_a_call_has(void **state)
{
    for (size_t i = 0; i < SP_COUNT(forms); i++) {
        char jinja[200];
        bool shows;
        snprintf(jinja, sizeof jinja, "{%% if tools %%} \"parameters\" %s", forms[i].jinja);
        assert_int_equal(srv_tools_form(jinja, &shows), forms[i].form);
        assert_true(shows);
    }
}

static void a_required_call_is_written_as_published(void **state)
{
    for (size_t i = 0; i < SP_COUNT(forms); i++) {
        json_t *body;
        sp_grammar *g = grammar_of("\"required\"", forms[i].form, &body);
        if (!takes(g, forms[i].two)) fail_msg("%s", forms[i].two);
        assert_false(takes(g, "") || takes(g, "It rains.") || takes(g, "{}"));
        for (int k = 0; k < 4 && forms[i].wrong[k]; k++)
            if (takes(g, forms[i].wrong[k])) fail_msg("takes %s", forms[i].wrong[k]);
        sp_grammar_destroy(g);
        json_decref(body);
    }
}

static void what_the_grammar_takes_is_read_as_calls(void **state)
{
    for (size_t i = 0; i < SP_COUNT(forms); i++) {
        json_t *body;
        srv_calls c;
        const srv_tools t = read_tools("\"required\"", &body);
        srv_calls_read(&t, forms[i].two, strlen(forms[i].two), SRV_WHOLE, &c);
        const size_t n = strstr(forms[i].two, "now") ? 2 : 1;
        if (json_array_size(c.v) != n || c.n_text) fail_msg("%s: %zu calls", forms[i].two, json_array_size(c.v));
        for (size_t k = 0; k < n; k++) {
            const json_t *call = json_array_get(c.v, k);
            json_t *got = json_loads(json_string_value(json_object_get(call, "arguments")), 0, NULL);
            json_t *wanted = k ? json_object() : json_pack("{s:s, s:i}", "city", "Beijing", "days", 3);
            assert_string_equal(json_string_value(json_object_get(call, "name")), k ? "now" : "weather");
            assert_true(json_equal(got, wanted));
            json_decref(got);
            json_decref(wanted);
        }
        json_decref(c.v);
        json_decref(body);
    }
}

#define CALL_OF_NOW "<tool_call>now\n</tool_call>"

static void a_named_function_is_the_only_one(void **state)
{
    json_t *named;
    sp_grammar *once = grammar_of("{\"name\": \"now\"}", SRV_TOOLS_GLM_45, &named);
    assert_true(takes(once, CALL_OF_NOW));
    assert_false(takes(once, CALL_OF_NOW "\n" CALL_OF_NOW));
    sp_grammar_destroy(once);
    json_decref(named);
    for (size_t i = 0; i < SP_COUNT(forms); i++) {
        json_t *body;
        sp_grammar *g = grammar_of("{\"name\": \"now\"}", forms[i].form, &body);
        assert_false(takes(g, forms[i].two));
        sp_grammar_destroy(g);
        json_decref(body);
    }
}

/* Values between marks: texts as they are, everything else as JSON. */
static void values_between_marks_keep_to_the_schema(void **state)
{
    static const struct {
        const char *key, *value;
        bool good;
    } values[] = {
        {"city", "B<B>", false},    {"unit", "C", true},       {"unit", "null", true},     {"unit", "\"C\"", false},
        {"note", "a < b", true},    {"note", "</p>", false},   {"note", "a\n<<b\xC3\xA9", true}, {"note", "", true},
        {"days", "3.5", false},     {"days", "-3", true},      {"on", "2026-11-23", true},
        {"on", "\"2026-11-23\"", false},        {"on", "2026-11", false},   {"other", "1", false},     {"note", "\"", true},       {"note", "\\", true},
    };
    json_t *body;
    sp_grammar *g = grammar_of("\"required\"", SRV_TOOLS_GLM_45, &body);
    for (size_t i = 0; i < SP_COUNT(values); i++) {
        char text[300];
        const bool is_city = strcmp(values[i].key, "city") == 0;
        snprintf(text, sizeof text,
                 "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>%s</arg_value>\n<arg_key>%s</arg_key>\n"
                 "<arg_value>%s</arg_value>\n</tool_call>",
                 is_city ? values[i].value : "B", is_city ? "note" : values[i].key, is_city ? "x" : values[i].value);
        if (takes(g, text) != values[i].good) fail_msg("%s", text);
    }
    sp_grammar_destroy(g);
    json_decref(body);
}

static void a_grammar_leaves_nothing(void **state)
{
    enum { N = 300 };
    size_t before = 0;
    for (int i = 0; i < 2 * N; i++) {
        json_t *body;
        if (i == N) before = mallinfo2().uordblks; /* AddressSanitizer's allocator says 0, and finds leaks itself */
        sp_grammar_destroy(grammar_of("\"required\"", SRV_TOOLS_GLM_45, &body));
        json_decref(body);
    }
    assert_true(mallinfo2().uordblks < before + N * 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_say_which_form_a_call_has),
        cmocka_unit_test(a_required_call_is_written_as_published),
        cmocka_unit_test(what_the_grammar_takes_is_read_as_calls),
        cmocka_unit_test(a_named_function_is_the_only_one),
        cmocka_unit_test(values_between_marks_keep_to_the_schema),
        cmocka_unit_test(a_grammar_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
