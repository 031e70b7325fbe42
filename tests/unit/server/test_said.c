/* What answers say: thoughts in tags and in channels, whole and in every beginning of them. */
#include <stdlib.h>
#include <string.h>

#include "server/body/said.h"
#include "support/check.h"

#define ANALYSIS "<|channel|>analysis<|message|>"
#define FINAL    "<|start|>assistant<|channel|>final<|message|>"
#define CALL     "<|channel|>commentary to=functions.boats <|constrain|>json<|message|>"

static const struct {
    thoughts_form form;
    const char *whole, *thought, *text, *call; /* call: arguments of boats, or NULL */
} answers[] = {
    {THOUGHTS_NONE, "<think>a</think>b", "", "<think>a</think>b", NULL},
    {THOUGHTS_TAGS, "<think>\nSo < it </thin is.\n</think>\n\nNine.", "So < it </thin is.", "Nine.", NULL},
    {THOUGHTS_TAGS, "Nine <think>.", "", "Nine <think>.", NULL},
    {THOUGHTS_TAGS, " <thin", "", " <thin", NULL},
    {THOUGHTS_TAGS, "<think>\n\n</think>\n\nNine.", "", "Nine.", NULL},
    {THOUGHTS_TAGS, "<think>never ends ", "never ends", "", NULL},
    {THOUGHTS_OPENED, "\nIt is </think>Nine.", "It is", "Nine.", NULL},
    {THOUGHTS_OPENED, "<think>It is</think>Nine.", "It is", "Nine.", NULL},
    {THOUGHTS_OPENED, "still", "still", "", NULL},
    {THOUGHTS_WITHIN, " it is </think> Nine.", " it is", "Nine.", NULL},
    {THOUGHTS_WITHIN, "\n <think> It is", "It is", "", NULL},
    {THOUGHTS_WITHIN, " < 3", " < 3", "", NULL},
    {THOUGHTS_WITHIN, " </think>Nine.", "", "Nine.", NULL},
    {THOUGHTS_TAGS, "<seed:think>It is</seed:think>Nine.", "It is", "Nine.", NULL},
    {THOUGHTS_TAGS, "[THINK]It is [/b][/THINK]Nine.", "It is [/b]", "Nine.", NULL},
    {THOUGHTS_TAGS, "<think>It is</think>Nine [/THINK].", "It is", "Nine [/THINK].", NULL},
    {THOUGHTS_TAGS, "[1] is nine.", "", "[1] is nine.", NULL},
    {THOUGHTS_TAGS, "<|START_THINKING|>It is<|END_THINKING|>Nine.", "It is", "Nine.", NULL},
    {THOUGHTS_OPENED, "It is</seed:think>\nNine.", "It is", "Nine.", NULL},
    /* as the published templates of DeepSeek V3.1 and Kimi K2 write them */
    {THOUGHTS_TAGS, "<think></think>I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>boats<｜tool▁sep｜>{\"n\": 3}"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "", "I look.", "{\"n\": 3}"},
    {THOUGHTS_TAGS, "<think>Hm.</think>I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.boats:0"
     "<|tool_call_argument_begin|>{\"n\": 3}<|tool_call_end|><|tool_calls_section_end|>", "Hm.", "I look.",
     "{\"n\": 3}"},
    {THOUGHTS_CHANNELS, ANALYSIS "I look.<|end|><|start|>assistant to=functions.boats<|channel|>commentary json"
     "<|message|>{\"n\": 3}<|call|>", "I look.", "", "{\"n\": 3}"},
    {THOUGHTS_TAGS,
     "<think>Boats {.</think>\n<tool_call>\n{\"name\": \"boats\", \"arguments\": {\"n\": 3}}\n</tool_call>",
     "Boats {.", "", "{\"n\": 3}"},
    {THOUGHTS_CHANNELS, "Plain.", "", "Plain.", NULL},
    {THOUGHTS_CHANNELS, "to be or not", "", "to be or not", NULL},
    {THOUGHTS_CHANNELS, "{\"name\": \"boats\", \"arguments\": {\"n\": 3}}", "", "", "{\"n\": 3}"},
    {THOUGHTS_CHANNELS, ANALYSIS "I add.<|end|>" FINAL "2 < 3 <|e", "I add.", "2 < 3 <|e", NULL},
    {THOUGHTS_CHANNELS, ANALYSIS "a<|end|><|start|>assistant" ANALYSIS "b<|end|>" FINAL "Yes.<|return|>",
     "a\nb", "Yes.", NULL},
    {THOUGHTS_CHANNELS, ANALYSIS "Need boats.<|end|><|start|>assistant" CALL "{\"n\": 3}<|call|>",
     "Need boats.", "", "{\"n\": 3}"},
    {THOUGHTS_CHANNELS, ANALYSIS "Need boats.<|end|><|start|>assistant" CALL "{\"n\": 3}", "Need boats.", "",
     "{\"n\": 3}"},
    {THOUGHTS_CHANNELS,
     "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.boats<|channel|>commentary "
     "json<|message|>{\"n\": {\"m\": \"<|\"}}<|call|>", "", "I look.", "{\"n\": {\"m\": \"<|\"}}"},
    {THOUGHTS_CHANNELS, " to=functions.boats<|channel|>commentary json<|message|>{}", "", "", "{}"},
    {THOUGHTS_CHANNELS, "<|channel|>commentary to=functions.none json<|message|>{\"a\": 1}<|call|>", "",
     "{\"a\": 1}", NULL},
    {THOUGHTS_CHANNELS, CALL " {\"n\": 3} \n<|call|>", "", "", "{\"n\": 3}"},
    {THOUGHTS_CHANNELS, CALL "nothing", "", "nothing", NULL},
    {THOUGHTS_CHANNELS, "<|channel|>analysis to=python code<|message|>1 + 1<|call|>", "1 + 1", "", NULL},
    {THOUGHTS_CHANNELS, "<|channel|>analysis", "", "", NULL},
    {THOUGHTS_CHANNELS, "<|channel|>final to=user<|message|>Yes.<|return|>", "", "Yes.", NULL},
    {THOUGHTS_CHANNELS, ANALYSIS "x<|channel|>final<|message|>y", "x", "y", NULL},
};

static srv_tools one_tool(json_t **body)
{
    srv_fields f;
    srv_tools t = {0};
    const char *text = "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"boats\"}}]}";
    *body = srv_fields_parse(&f, text, strlen(text));
    assert_non_null(*body);
    srv_tools_read(&t, &f);
    assert_false(f.failed);
    return t;
}

static void expect(const char *whole, const char *what, const char *got, size_t n, const char *wanted)
{
    if (n != strlen(wanted) || memcmp(got, wanted, n) != 0) fail_msg("%s: %s \"%.*s\"", whole, what, (int)n, got);
}

static void thoughts_texts_and_calls_are_parts(void **state)
{
    json_t *body;
    srv_tools t = one_tool(&body);
    for (size_t i = 0; i < SP_COUNT(answers); i++) {
        srv_said s;
        const char *whole = answers[i].whole;
        srv_said_read(&t, answers[i].form, whole, strlen(whole), SRV_WHOLE, &s);
        expect(whole, "thought", s.thought, s.n_thought, answers[i].thought);
        expect(whole, "text", s.text, s.n_text, answers[i].text);
        const json_t *call = json_array_get(s.calls.v, 0);
        if ((call != NULL) != (answers[i].call != NULL)) fail_msg("%s: %zu calls", whole, json_array_size(s.calls.v));
        if (call) assert_string_equal(json_string_value(json_object_get(call, "arguments")), answers[i].call);
        srv_said_fini(&s);
    }
    json_decref(body);
}

/* What a beginning says, the whole says. */
static void nothing_said_is_taken_back(void **state)
{
    json_t *body;
    srv_tools t = one_tool(&body);
    for (size_t i = 0; i < SP_COUNT(answers); i++) {
        const char *whole = answers[i].whole;
        size_t n_thought = 0, n_text = 0, n_calls = 0;
        for (size_t k = 0, n = strlen(whole); k <= n; k++) {
            srv_said s;
            char *copy = malloc(k + 1); /* ASan sees a byte too many */
            assert_non_null(copy);
            memcpy(copy, whole, k);
            srv_said_read(&t, answers[i].form, copy, k, k == n ? SRV_WHOLE : SRV_GROWS, &s);
            if (s.n_thought < n_thought || s.n_text < n_text || json_array_size(s.calls.v) < n_calls ||
                memcmp(s.thought, answers[i].thought, s.n_thought) != 0 ||
                memcmp(s.text, answers[i].text, s.n_text) != 0)
                fail_msg("%.*s|%s: %.*s, %.*s", (int)k, whole, whole + k, (int)s.n_thought, s.thought, (int)s.n_text,
                         s.text);
            n_thought = s.n_thought;
            n_text = s.n_text;
            n_calls = json_array_size(s.calls.v);
            srv_said_fini(&s);
            free(copy);
        }
    }
    json_decref(body);
}

/* An answer that max_tokens ends within a call: its beginning is known. */
static void a_call_that_is_cut_is_open(void **state)
{
    json_t *body;
    srv_tools t = one_tool(&body);
    srv_said s;
    const char *cut = ANALYSIS "a<|end|>" CALL "{\"n\": ";
    srv_said_read(&t, THOUGHTS_CHANNELS, cut, strlen(cut), SRV_CUT, &s);
    assert_string_equal(json_string_value(json_object_get(s.calls.open, "arguments")), "{\"n\": ");
    assert_true(s.n_text == 0 && s.n_thought == 1);
    srv_said_fini(&s);
    json_decref(body);
}

static void templates_say_how_thoughts_are_written(void **state)
{
    assert_int_equal(thoughts_of_template(NULL), THOUGHTS_NONE);
    assert_int_equal(thoughts_of_template("<|im_start|>"), THOUGHTS_NONE);
    assert_int_equal(thoughts_of_template("content.split('</think>')"), THOUGHTS_TAGS);
    assert_int_equal(thoughts_of_template("'[THINK]' + block"), THOUGHTS_TAGS);
    assert_int_equal(thoughts_of_template("<|channel|>final<|message|>"), THOUGHTS_CHANNELS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thoughts_texts_and_calls_are_parts),
        cmocka_unit_test(nothing_said_is_taken_back),
        cmocka_unit_test(a_call_that_is_cut_is_open),
        cmocka_unit_test(templates_say_how_thoughts_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
