/* Tool calls in answers: each form, whole and in every beginning of it. */
#include <stdlib.h>
#include <string.h>

#include "server/body/chat.h"
#include "server/body/tools.h"
#include "support/check.h"

static srv_tools some_tools(json_t **body)
{
    srv_fields f;
    srv_tools t = {0};
    const char *text = "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"boats\","
                       "\"parameters\": {\"properties\": {\"port\": {\"type\": \"string\"},"
                       "\"code\": {\"type\": [\"string\", \"null\"]}, \"size\": {\"anyOf\": [{\"type\": \"string\"}, "
                       "{\"type\": \"number\"}]}, \"list\": {\"oneOf\": [{\"type\": \"array\"}]}}}}},"
                       "{\"type\": \"function\", \"function\": {\"name\": \"tides\"}},"
                       "{\"type\": \"function\", \"function\": {\"name\": \"tides_at\"}}]}";
    *body = srv_fields_parse(&f, text, strlen(text));
    assert_non_null(*body);
    srv_tools_read(&t, &f);
    assert_false(f.failed);
    return t;
}

typedef struct answer {
    const char *whole, *text; /* and the calls: name, arguments */
    const char *calls[2][2];
} answer;

static const answer answers[] = {
    {"It is nine.", "It is nine.", {{0}}},
    {"It is < [nine] {x}. ", "It is < [nine] {x}. ", {{0}}},
    {"{\"a\": 1}", "{\"a\": 1}", {{0}}},
    {"[1, 2]", "[1, 2]", {{0}}},
    {"{\"name\": \"other\", \"arguments\": {}}", "{\"name\": \"other\", \"arguments\": {}}", {{0}}},
    {"<tool_call>\n{\"name\": \"boats\", \"arguments\": {\"n\": 3}}\n</tool_call>", "", {{"boats", "{\"n\": 3}"}}},
    {"Let me see.\n\n<tool_call>\n{\"name\": \"boats\", \"arguments\": {\"n\": \"}<\"}}\n</tool_call>\n"
     "<tool_call>{\"arguments\": {}, \"name\": \"tides\"}</tool_call>",
     "Let me see.", {{"boats", "{\"n\": \"}<\"}"}, {"tides", "{}"}}},
    {"<tool_call>\n{\"name\": \"boats\", \"arguments\": {\"n\"", "<tool_call>\n{\"name\": \"boats\", \"arguments\": {\"n\"", {{0}}},
    {"<tool_call> and so on", "<tool_call> and so on", {{0}}},
    {"[TOOL_CALLS][{\"name\": \"boats\", \"arguments\": {}}, {\"name\": \"tides\", \"arguments\": {\"day\": 1}}]", "",
     {{"boats", "{}"}, {"tides", "{\"day\": 1}"}}},
    {"[TOOL_CALLS][{\"name\": \"tides\", \"arguments\": {\"day\": 1}}, 5]", "", {{"tides", "{\"day\": 1}"}}},
    {" [{\"name\": \"tides\", \"arguments\": {\"day\": 1}}]", "", {{"tides", "{\"day\": 1}"}}},
    {"{\"name\": \"tides\", \"parameters\": {\"day\": 1}}", "", {{"tides", "{\"day\": 1}"}}},
    {"{\"name\": \"tides\", \"parameters\": \"{\\\"day\\\": 1}\"}", "", {{"tides", "{\"day\": 1}"}}}, /* as a text */
    {"<|python_tag|>{\"name\": \"tides\", \"parameters\": {}}; {\"name\": \"boats\", \"parameters\": {}}", "",
     {{"tides", "{}"}, {"boats", "{}"}}},
    {"<function=boats>{\"n\": 1}</function>", "", {{"boats", "{\"n\": 1}"}}},
    {"<function=other>{\"n\": 1}</function>", "<function=other>{\"n\": 1}</function>", {{0}}},
    /* Granite 3, Phi-4-mini; functools */
    {"<|tool_call|>[{\"name\": \"boats\", \"arguments\": {\"n\": 3}}, {\"name\": \"tides\", \"arguments\": "
     "{}}]<|/tool_call|>", "",
     {{"boats", "{\"n\": 3}"}, {"tides", "{}"}}},
    {"<tool_call>[{\"name\": \"boats\", \"arguments\": {\"n\": 3}}]", "", {{"boats", "{\"n\": 3}"}}},
    {"One moment. functools[{\"name\": \"boats\", \"arguments\": {\"n\": 3}}]", "One moment.", {{"boats", "{\"n\": 3}"}}},
    {"if functools is off", "if functools is off", {{0}}},
    /* Mistral since Small 3.2, with and without its marks, which are control tokens */
    {"[TOOL_CALLS]boats[ARGS]{\"n\": 3}[TOOL_CALLS]tides[CALL_ID]a1b2c3d4e[ARGS]{}", "",
     {{"boats", "{\"n\": 3}"}, {"tides", "{}"}}},
    {"I look. [TOOL_CALLS]boats[ARGS]{\"n\": 3}", "I look.", {{"boats", "{\"n\": 3}"}}},
    {"boats{\"n\": {\"m\": \"}\"}}tides{}", "", {{"boats", "{\"n\": {\"m\": \"}\"}}"}, {"tides", "{}"}}},
    /* GLM-4, Functionary */
    {"boats\n{\"n\": 3}", "", {{"boats", "{\"n\": 3}"}}},
    {"boats\n{\"n\": 3}\n>>>tides\n{}", "", {{"boats", "{\"n\": 3}"}, {"tides", "{}"}}},
    {"tides_at{\"n\": \"a\\\"}b\"}tides{}", "", {{"tides_at", "{\"n\": \"a\\\"}b\"}"}, {"tides", "{}"}}},
    {"boats are here", "boats are here", {{0}}},
    {"boats: {\"n\": 3}", "boats: {\"n\": 3}", {{0}}}, /* no number of Kimi's */
    {"boats", "boats", {{0}}},
    {"boat\n{\"n\": 3}", "boat\n{\"n\": 3}", {{0}}},
    {"boats\n{\"n\": 3", "boats\n{\"n\": 3", {{0}}},
    {"boats\n{3}", "boats\n{3}", {{0}}},
    /* DeepSeek V3 and R1, its distillates, V3.1 */
    {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>boats\n```json\n{\"n\": 3}\n```<｜tool▁call▁end｜>\n"
     "<｜tool▁call▁begin｜>function<｜tool▁sep｜>tides\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "",
     {{"boats", "{\"n\": 3}"}, {"tides", "{}"}}},
    {"functionboats\n```json\n{\"n\": 3}\n```\nfunctiontides\n```json\n{}\n```", "", {{"boats", "{\"n\": 3}"}, {"tides", "{}"}}},
    {"Well.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>boats<｜tool▁sep｜>{\"n\": "
     "3}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "Well.",
     {{"boats", "{\"n\": 3}"}}},
    {"function f(x) {", "function f(x) {", {{0}}},
    /* Command R7B */
    {"<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"boats\", \"parameters\": {\"n\": "
     "3}}\n]<|END_ACTION|>", "",
     {{"boats", "{\"n\": 3}"}}},
    /* Qwen3-Coder: a value is JSON unless its schema says that it is a text */
    {"<tool_call>\n<function=boats>\n<parameter=n>\n3\n</parameter>\n<parameter=port>\n7\n8\n</parameter>\n</fun"
     "ction>\n</tool_call>", "",
     {{"boats", "{\"n\": 3, \"port\": \"7\\n8\"}"}}},
    {"<tool_call>\n<function=tides>\n</function>\n</tool_call>\n<function=boats><parameter=n>x<y</parameter></fu"
     "nction>", "",
     {{"tides", "{}"}, {"boats", "{\"n\": \"x<y\"}"}}},
    {"<function=boats>\n<parameter=code>\n90210\n</parameter>\n<parameter=size>7</parameter>\n<parameter=list>8</"
     "parameter>\n</function><function=boats><parameter=code>null</parameter><parameter=size>true</parameter>"
     "</function>", "",
     {{"boats", "{\"code\": \"90210\", \"size\": 7, \"list\": 8}"},
      {"boats", "{\"code\": null, \"size\": \"true\"}"}}},
    {"<tool_call>\n<function=boats>\n<parameter=n>\n3", "<tool_call>\n<function=boats>\n<parameter=n>\n3", {{0}}},
    {"<tool_call>\n<function=boats>\n<parameter=>\n3</parameter></function>",
     "<tool_call>\n<function=boats>\n<parameter=>\n3</parameter></function>", {{0}}},
    /* MiniCPM5 */
    {"Hm.<function name=\"boats\"><param name=\"n\">3</param><param name=\"port\"><![CDATA[a <b> </param>\n&]]>"
     "</param></function>\n<function name=\"tides\"></function>", "Hm.",
     {{"boats", "{\"n\": 3, \"port\": \"a <b> </param>\\n&\"}"}, {"tides", "{}"}}},
    {"<function=boats><parameter=n><![CDATA[3]]></parameter></function>", "", {{"boats", "{\"n\": \"<![CDATA[3]]>\"}"}}},
    {"<function name=\"boats\"><param name=\"n\"><![CDATA[3]]></function>",
     "<function name=\"boats\"><param name=\"n\"><![CDATA[3]]></function>", {{0}}},
    {"<function name=\"other\"></function>", "<function name=\"other\"></function>", {{0}}},
    /* As the published templates of these models write calls (Seed-OSS, GLM-4.7, GLM-4.6, Functionary 3.2, Apriel,
     * Nemotron) */
    {"I look.\n\n<seed:tool_call>\n<function=boats>\n<parameter=n>3</parameter>\n<parameter=port>a</parameter>\n"
     "</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=tides>\n</function>\n</seed:tool_call>", "I look.",
     {{"boats", "{\"n\": 3, \"port\": \"a\"}"}, {"tides", "{}"}}},
    {"I look.<tool_call>boats<arg_key>n</arg_key><arg_value>3</arg_value><arg_key>port</arg_key><arg_value>a"
     "</arg_value></tool_call><tool_call>tides</tool_call>", "I look.",
     {{"boats", "{\"n\": 3, \"port\": \"a\"}"}, {"tides", "{}"}}},
    {"I look.\n<tool_call>boats\n<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>tides\n"
     "</tool_call>", "I look.", {{"boats", "{\"n\": 3}"}, {"tides", "{}"}}},
    {"I look.\n<tool_calls>[{\"name\": \"boats\", \"arguments\": {\"n\": 3, \"port\": \"a\"}}, {\"name\": \"tides\", "
     "\"arguments\": {}}]</tool_calls>", "I look.", {{"boats", "{\"n\": 3, \"port\": \"a\"}"}, {"tides", "{}"}}},
    {"<TOOLCALL>[{\"name\": \"boats\", \"arguments\": {\"n\": 3}}, {\"name\": \"tides\", \"arguments\": {}}]"
     "</TOOLCALL>", "", {{"boats", "{\"n\": 3}"}, {"tides", "{}"}}},
    /* GLM-4.5 */
    {"Hm.\n<tool_call>boats\n<arg_key>n</arg_key>\n<arg_value>[1, "
     "{}]</arg_value>\n<arg_key>port</arg_key>\n<arg_value>null</arg_value>\n"
     "</tool_call>\n<tool_call>tides\n</tool_call>", "Hm.", {{"boats", "{\"n\": [1, {}], \"port\": "
     "\"null\"}"}, {"tides", "{}"}}},
    /* Kimi K2, with and without its marks */
    {"Now.<|tool_calls_section_begin|><|tool_call_begin|>functions.boats:0<|tool_call_argument_begin|>{\"n\": "
     "3}<|tool_call_end|><|tool_call_begin|>functions.tides:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
     "<|tool_calls_section_end|>", "Now.", {{"boats", "{\"n\": 3}"}, {"tides", "{}"}}},
    {"functions.boats:0{\"n\": 3}functions.tides:12{}", "", {{"boats", "{\"n\": 3}"}, {"tides", "{}"}}},
    {"functions.other:0{\"n\": 3}", "functions.other:0{\"n\": 3}", {{0}}},
    /* gpt-oss */
    {"<|channel|>commentary to=functions.boats <|constrain|>json<|message|>{\"n\": 3}<|call|>", "",
     {{"boats", "{\"n\": 3}"}}},
    {"analysisI need boats.assistantcommentary to=functions.boats json{\"n\": 3}", "analysisI need boats.assistant",
     {{"boats", "{\"n\": 3}"}}},
    {"commentary to=nobody", "commentary to=nobody", {{0}}},
    /* Python: Llama 4, LFM2, OLMo 3 */
    {"[boats(n=3, port=\"a'b\", far=True), tides()]", "",
     {{"boats", "{\"n\": 3, \"port\": \"a'b\", \"far\": true}"}, {"tides", "{}"}}},
    {"<|python_start|>[boats(x=[1, -2.5, None], y={'k': (\"v\",)}, z='it\\'s\\n')]<|python_end|>", "",
     {{"boats", "{\"x\": [1, -2.5, null], \"y\": {\"k\": [\"v\"]}, \"z\": \"it's\\n\"}"}}},
    {"[boats(x={'k': True}, y={'k': 1})]", "", {{"boats", "{\"x\": {\"k\": true}, \"y\": {\"k\": 1}}"}}},
    {"[boats( x = { 'k' : 1 , 'm': [ 2 , 3 ] } , n = 3 )]", "",
     {{"boats", "{\"x\": {\"k\": 1, \"m\": [2, 3]}, \"n\": 3}"}}},
    {"Well. <|tool_call_start|>[tides(day = 1)]<|tool_call_end|>", "Well.", {{"tides", "{\"day\": 1}"}}},
    {"<function_calls>\nboats(n=3)\ntides()\n</function_calls>", "", {{"boats", "{\"n\": 3}"}, {"tides", "{}"}}},
    {"[boats(n='a\\d+\\n')]", "", {{"boats", "{\"n\": \"a\\\\d+\\n\"}"}}}, /* \d is no escape of Python */
    {"[boats(n=3), other()]", "", {{"boats", "{\"n\": 3}"}}},
    {"[boats(n=x)]", "[boats(n=x)]", {{0}}},
    {"[boats(3)]", "[boats(3)]", {{0}}},
    {"[boats(n=3", "[boats(n=3", {{0}}},
    {"[1, 2] boats(n=3)", "[1, 2] boats(n=3)", {{0}}},
    {"<tool_call>other\n<arg_key>n</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
     "<tool_call>other\n<arg_key>n</arg_key>\n<arg_value>1</arg_value>\n</tool_call>", {{0}}},
};

/* is_streamed -- whether arguments are sent as they are written: they are JSON. */
static bool is_streamed(const answer *a)
{
    if (strstr(a->whole, "boats(") || strstr(a->whole, "tides(")) return false; /* of Python */
    if (strstr(a->whole, "\"parameters\": \"")) return false;                    /* a text */
    static const char *const marked[] = {"<parameter=", "<param name=", "<arg_key>"};
    for (int i = 0; i < 3; i++)
        if (strstr(a->whole, marked[i])) return false;
    return a->calls[0][1];
}

static void calls_are_found_in_whole_answers(void **state)
{
    json_t *body;
    srv_tools t = some_tools(&body);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const answer *a = &answers[i];
        srv_calls c;
        srv_calls_read(&t, a->whole, strlen(a->whole), SRV_WHOLE, &c);
        if (c.n_text != strlen(a->text)) fail_msg("%s: text of %zu bytes", a->whole, c.n_text);
        assert_memory_equal(a->whole, a->text, c.n_text);
        size_t n = (a->calls[0][0] != NULL) + (a->calls[1][0] != NULL);
        if (json_array_size(c.v) != n) fail_msg("%s: %zu calls", a->whole, json_array_size(c.v));
        for (size_t k = 0; k < n; k++) {
            const json_t *call = json_array_get(c.v, k);
            assert_string_equal(json_string_value(json_object_get(call, "name")), a->calls[k][0]);
            assert_string_equal(json_string_value(json_object_get(call, "arguments")), a->calls[k][1]);
        }
        json_decref(c.v);
    }
    json_decref(body);
}

/* What was text or a call at some point remains it. */
static void what_was_text_or_a_call_remains_it(void **state)
{
    json_t *body;
    srv_tools t = some_tools(&body);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const char *whole = answers[i].whole;
        size_t n_text = 0, n_calls = 0, n = strlen(whole), n_open = 0, open_at = 0, n_begun = 0;
        for (size_t k = 0; k <= n; k++) {
            srv_calls c;
            char *copy = strndup(whole, k); /* ASan sees a byte too many */
            srv_calls_read(&t, copy, k, k == n ? SRV_WHOLE : SRV_GROWS, &c);
            if (c.n_text < n_text || json_array_size(c.v) < n_calls || c.n_text > k)
                fail_msg("%.*s|%s", (int)k, whole, whole + k);
            if (k < n && answers[i].calls[0][0] && c.n_text > strlen(answers[i].text))
                fail_msg("%.*s|%s is sent as text", (int)k, whole, whole + k);
            n_text = c.n_text;
            n_calls = json_array_size(c.v);
            if (c.open && answers[i].calls[0][0]) { /* others are never completed */
                const char *name = json_string_value(json_object_get(c.open, "name"));
                const char *begun = json_string_value(json_object_get(c.open, "arguments"));
                const char *const *call = answers[i].calls[n_calls];
                if (open_at != n_calls) n_open = 0;
                assert_true(n_calls < 2 && call[0]);
                assert_string_equal(name, call[0]);
                if (strncmp(begun, call[1], strlen(begun)) != 0) fail_msg("%s: %s", whole, begun);
                assert_true(strlen(begun) >= n_open);
                n_open = strlen(begun);
                open_at = n_calls;
                n_begun++;
            }
            assert_true(k < n || !c.open);
            json_decref(c.open);
            json_decref(c.v);
            free(copy);
        }
        if (is_streamed(&answers[i]) && strlen(answers[i].calls[0][1]) > 2)
            assert_true(n_begun >= strlen(answers[i].calls[0][1]) - 1);
    }
    json_decref(body);
}

static void a_function_with_a_long_name_is_none(void **state)
{
    json_t *body;
    srv_tools t = some_tools(&body);
    char text[4096] = "<function=";
    srv_calls c;
    memset(text + strlen(text), 'x', 3000);
    strcat(text, ">{}</function>");
    srv_calls_read(&t, text, strlen(text), SRV_WHOLE, &c);
    assert_int_equal(c.n_text, strlen(text));
    assert_int_equal(json_array_size(c.v), 0);
    json_decref(c.v);
    json_decref(body);
}

/* Names have up to 256 bytes. */
static void a_function_with_a_long_name_is_called(void **state)
{
    enum { MOST = 256 };
    static const char *const forms[] = {"<function=%s>{\"n\": 3}</function>", "[%s(n=3)]",
                                        "<|channel|>commentary to=functions.%s json<|message|>{\"n\": 3}<|call|>"};
    for (int longer = 0; longer < 2; longer++) {
        char name[MOST + 2] = "", text[512];
        srv_fields f;
        srv_tools t = {0};
        memset(name, 'x', (size_t)MOST + (size_t)longer);
        snprintf(text, sizeof text, "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"%s\"}}]}", name);
        json_t *body = srv_fields_parse(&f, text, strlen(text));
        srv_tools_read(&t, &f);
        assert_int_equal(f.failed, longer);
        for (size_t i = 0; i < SP_COUNT(forms) && !longer; i++) {
            srv_calls c;
            snprintf(text, sizeof text, forms[i], name);
            srv_calls_read(&t, text, strlen(text), SRV_WHOLE, &c);
            if (json_array_size(c.v) != 1) fail_msg("%s", text);
            assert_string_equal(json_string_value(json_object_get(json_array_get(c.v, 0), "name")), name);
            json_decref(c.v);
        }
        json_decref(body);
    }
}

/* Lists in lists are read as deep as anybody writes them. */
static void lists_without_end_are_text(void **state)
{
    enum { DEEP = 500000 };
    json_t *body;
    srv_tools t = some_tools(&body);
    char *text = malloc(DEEP + 10);
    srv_calls c;
    assert_non_null(text);
    memset(text, '[', DEEP + 9);
    memcpy(text, "[boats(n=", 9);
    srv_calls_read(&t, text, DEEP, SRV_WHOLE, &c);
    assert_int_equal(c.n_text, DEEP);
    assert_int_equal(json_array_size(c.v), 0);
    json_decref(c.v);
    free(text);
    json_decref(body);
}

static void every_form_of_call_is_read(void **state)
{
    bool shows;
    assert_int_equal(srv_tools_form(NULL, &shows), SRV_TOOLS_HERMES);
    assert_false(shows);
    assert_int_equal(srv_tools_form("{% if tools %}<tool_call>", &shows), SRV_TOOLS_HERMES);
    assert_true(shows);
    assert_int_equal(srv_tools_form("{% if tools %}[TOOL_CALLS]", &shows), SRV_TOOLS_MISTRAL);
    assert_int_equal(srv_tools_form("{% if tools %}\"parameters\":", &shows), SRV_TOOLS_LLAMA3);
    assert_int_equal(srv_tools_form("{% if tools %}<|tool_call|>", &shows), SRV_TOOLS_GRANITE);
    assert_int_equal(srv_tools_form("{% if tools %}<|START_ACTION|>", &shows), SRV_TOOLS_COMMAND_R);
}

/* What the text of a cut answer is, where a call is required and where it is not; and the call that has begun. */
static void a_call_that_is_cut_is_open(void **state)
{
    static const struct {
        const char *text, *open;
        size_t n_text, n_must;
    } cut[] = {
        {"<tool_call>\n{\"name\": \"boats\", \"arguments\": {\"n\": 3", "{\"n\": 3", 0, 0},
        {"<tool_call>\n{\"name\": \"boats\", \"arguments\": {\"n\": 3}", "{\"n\": 3}", 0, 0},
        {"{\"name\": \"boats\", \"parameters\": {\"n\": 3} ", "{\"n\": 3}", 0, 0},
        {"{\"name\": \"boats\", \"parameters\": {\"n\": 3}, \"id\"", "{\"n\": 3}", 0, 0},
        {"See <tool_call>\n{\"name\": \"boats\", \"arguments\": {", "{", 3, 3},
        {"<tool_call>\n{\"na", NULL, 16, 0},
        {"<tool_c", NULL, 7, 0},
        {"a < b [", NULL, 7, 5},
        {"{\"name\": \"bo", NULL, 12, 0},
        {"<tool_call>\n{\"name\": \"ships\", \"arguments\": {\"n\": 3", NULL, 50, 0}, /* no tool of the request */
    };
    json_t *body;
    srv_tools t = some_tools(&body);
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
        for (int must = 0; must < 2; must++) {
            srv_calls c;
            t.must = must;
            srv_calls_read(&t, cut[i].text, strlen(cut[i].text), SRV_CUT, &c);
            assert_int_equal(c.n_text, must ? cut[i].n_must : cut[i].n_text);
            const char *open = json_string_value(json_object_get(c.open, "arguments"));
            if (cut[i].open) assert_string_equal(open, cut[i].open);
            else assert_null(open);
            json_decref(c.v);
            json_decref(c.open);
        }
    json_decref(body);
}

/* A refusal names the field, with its number in the list, in `param` and in the text. */
static void what_is_no_tool_is_refused_by_its_field(void **state)
{
#define GOOD "{\"type\": \"function\", \"function\": {\"name\": \"boats\"}}"
    static const struct {
        const char *body, *param, *why;
    } cases[] = {
        {"\"tools\": {}", "tools", "tools must be a list of at most 128 functions"},
        {"\"tools\": [{\"function\": {\"name\": \"a\"}}]", "tools[0].type", "tools[0].type must be function"},
        {"\"tools\": [" GOOD ", {\"type\": \"code\"}]", "tools[1].type", "tools[1].type must be function"},
        {"\"tools\": [" GOOD ", {\"type\": \"function\"}]", "tools[1].function.name",
         "tools[1].function.name must be a name"},
        {"\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"\"}}]", "tools[0].function.name",
         "tools[0].function.name must be a name"},
        {"\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"a\", \"parameters\": []}}]",
         "tools[0].function.parameters", "tools[0].function.parameters must be a JSON Schema: an object"},
        {"\"tools\": [" GOOD "], \"tool_choice\": \"must\"", "tool_choice",
         "tool_choice must be none, auto, required, a function or allowed_tools"},
        {"\"tools\": [" GOOD "], \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"tides\"}}",
         "tool_choice", "tool_choice names \"tides\", which is not in tools"},
        {"\"tool_choice\": \"required\"", "tool_choice", "tool_choice requires a call, and there are no tools"},
        {"\"tools\": [" GOOD "], \"tool_choice\": {\"name\": \"boats\"}", NULL, NULL},
        {"\"tools\": [" GOOD "], \"tool_choice\": \"auto\"", NULL, NULL},
        {"\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"a\", \"parameters\": null}}]", NULL, NULL},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char text[512];
        srv_fields f;
        srv_tools t = {0};
        snprintf(text, sizeof text, "{%s}", cases[i].body);
        json_t *body = srv_fields_parse(&f, text, strlen(text));
        assert_non_null(body);
        srv_tools_read(&t, &f);
        if (f.failed != (cases[i].param != NULL)) fail_msg("%s: %s", text, f.failed ? f.why : "accepted");
        if (f.failed) {
            assert_string_equal(f.param, cases[i].param);
            assert_string_equal(f.why, cases[i].why);
        }
        json_decref(body);
    }
}

#define CALL_OF(name) "<tool_call>\n{\"name\": \"" name "\", \"arguments\": {}}\n</tool_call>"

static void tools_are_spelled_for_a_template_without_them(void **state)
{
    static const struct {
        const char *role, *content;
    } spelled[] = {{"system", "Be brief.\n\n# Tools\n\n"},
                   {"user", "When?"},
                   {"assistant", "I look.\n" CALL_OF("boats") "\n" CALL_OF("tides")},
                   {"user", "<tool_response>\nAt nine.\n</tool_response>"},
                   {"assistant", CALL_OF("tides")}};
    static const char text[] =
        "[{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'When?'},"
        " {'role': 'assistant', 'content': 'I look.', 'tool_calls': [{'function': {'name': 'boats', 'arguments': {}}},"
        " {'function': {'name': 'tides', 'arguments': {}}}]}, {'role': 'tool', 'content': 'At nine.'},"
        " {'role': 'assistant', 'content': '', 'tool_calls': [{'function': {'name': 'tides', 'arguments': {}}}]}]";
    char quoted[sizeof text];
    for (size_t i = 0; i < sizeof text; i++) quoted[i] = text[i] == '\'' ? '"' : text[i];
    json_t *body, *messages = json_loads(quoted, 0, NULL);
    const srv_tools t = some_tools(&body);
    assert_true(srv_chat_spell_tools(messages, t.list));
    assert_int_equal(json_array_size(messages), SP_COUNT(spelled));
    for (size_t i = 0; i < SP_COUNT(spelled); i++) {
        const json_t *m = json_array_get(messages, i);
        const char *content = json_string_value(json_object_get(m, "content"));
        assert_string_equal(json_string_value(json_object_get(m, "role")), spelled[i].role);
        assert_int_equal(json_object_size(m), 2);
        if (i == 0) assert_int_equal(strncmp(content, spelled[i].content, strlen(spelled[i].content)), 0);
        if (i == 0) assert_non_null(strstr(content, "<tools>\n{\"type\": \"function\", "));
        if (i == 0) assert_non_null(strstr(content, "\"name\": \"boats\""));
        if (i == 0) assert_non_null(strstr(content, "\"name\": \"tides_at\"}}\n</tools>"));
        if (i > 0) assert_string_equal(content, spelled[i].content);
    }
    json_decref(messages);
    json_decref(body);
}

static void thoughts_have_the_names_of_all_templates(void **state)
{
    static const char text[] = "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"reasoning_content\": "
                               "\"b\"}, {\"role\": \"assistant\", \"content\": \"a\", \"reasoning_content\": \"b\", "
                               "\"thinking\": \"c\"}]}";
    srv_fields f;
    json_t *body = srv_fields_parse(&f, text, strlen(text)), *messages = srv_chat_read(&f, srv_field(&f, "messages"));
    for (size_t i = 0; i < 2; i++) {
        const json_t *m = json_array_get(messages, i);
        assert_string_equal(json_string_value(json_object_get(m, "reasoning_content")), "b");
        assert_string_equal(json_string_value(json_object_get(m, "thinking")), i == 0 ? "b" : "c");
    }
    json_decref(messages);
    json_decref(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_tool_is_refused_by_its_field),
        cmocka_unit_test(a_call_that_is_cut_is_open),
        cmocka_unit_test(calls_are_found_in_whole_answers),
        cmocka_unit_test(what_was_text_or_a_call_remains_it),
        cmocka_unit_test(a_function_with_a_long_name_is_none),
        cmocka_unit_test(a_function_with_a_long_name_is_called),
        cmocka_unit_test(lists_without_end_are_text),
        cmocka_unit_test(every_form_of_call_is_read),
        cmocka_unit_test(tools_are_spelled_for_a_template_without_them),
        cmocka_unit_test(thoughts_have_the_names_of_all_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
