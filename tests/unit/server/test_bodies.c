/* Bodies of other APIs as those of chats: what each field becomes, and which are refused. */
#include <stdio.h>
#include <string.h>

#include "server/dialects/anthropic.h"
#include "server/api/dialect.h"
#include "server/body/chat.h"
#include "server/dialects/ollama.h"
#include "server/dialects/responses.h"
#include "support/check.h"

/* becomes -- the field of the chat that a body becomes has this value; "" for a field that it does not have. */
static void becomes(const srv_dialect *d, const char *text, const char *field, const char *value)
{
    srv_fields f;
    bool chat = true;
    json_t *body = srv_fields_parse(&f, text, strlen(text));
    json_t *want = *value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    assert_non_null(body);
    assert_true(want || !*value);
    json_t *o = d->body(&f, &chat);
    if (!o) fail_msg("%s: %s", text, f.why);
    json_t *got = json_object_get(o, field);
    if (want ? !json_equal(got, want) : got != NULL)
        fail_msg("%s: %s is %s", text, field, json_dumps(got, JSON_ENCODE_ANY));
    json_decref(want);
    json_decref(o);
    json_decref(body);
}

static void is_refused(const srv_dialect *d, const char *text, const char *param)
{
    srv_fields f;
    bool chat = true;
    json_t *body = srv_fields_parse(&f, text, strlen(text));
    assert_non_null(body);
    assert_null(d->body(&f, &chat));
    assert_string_equal(f.param, param);
    json_decref(body);
}

/* -- OpenAI's responses ---------------------------------------------------------------------------------- */

#define USER(text) "{\"role\": \"user\", \"content\": \"" text "\"}"
#define NAMED(name)    "\"name\": \"" name "\", \"arguments\": \"{}\"}"
#define ITEM(id, name) "{\"type\": \"function_call\", \"call_id\": \"" id "\", " NAMED(name)
#define CALL(id, name) "{\"id\": \"" id "\", \"type\": \"function\", \"function\": {" NAMED(name) "}"

static void items_of_a_response_are_messages(void **state)
{
    const srv_dialect *d = &srv_responses;
    becomes(d, "{\"input\": \"Who?\", \"instructions\": \"Be brief.\"}", "messages",
            "[{\"role\": \"system\", \"content\": \"Be brief.\"}, " USER("Who?") "]");
    becomes(d, "{\"input\": [" USER("Who?") ", " ITEM("a", "boats") ", " ITEM("b", "tides")
            ", {\"type\": \"function_call_output\", \"call_id\": \"b\", \"output\": \"low\"}]}", "messages",
            "[" USER("Who?") ", {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [" CALL("a", "boats") ", "
            CALL("b", "tides") "]}, {\"role\": \"tool\", \"tool_call_id\": \"b\", \"content\": \"low\"}]");
    is_refused(d, "{\"input\": [{\"type\": \"item_reference\"}]}", "input[0].type");
    is_refused(d, "{\"input\": []}", "input");
}

static void thoughts_belong_to_the_next_message_of_the_assistant(void **state)
{
    static const char thought[] =
        "{\"type\": \"reasoning\", \"content\": [{\"text\": \"One.\"}, {\"text\": \"Two.\"}]}";
    char body[512];
    snprintf(body, sizeof body, "{\"input\": [%s, %s, {\"role\": \"assistant\", \"content\": \"Anna.\"}]}", thought,
             USER("Who?"));
    becomes(&srv_responses, body, "messages", "[" USER("Who?")
            ", {\"role\": \"assistant\", \"content\": \"Anna.\", \"reasoning_content\": \"One.\\nTwo.\"}]");
}

static void fields_of_a_response_are_those_of_a_chat(void **state)
{
    const srv_dialect *d = &srv_responses;
    becomes(d, "{\"input\": \"a\", \"max_output_tokens\": 5, \"max_tokens\": 9}", "max_tokens", "5");
    becomes(d, "{\"input\": \"a\", \"top_logprobs\": 2}", "top_logprobs", "");
    becomes(d, "{\"input\": \"a\", \"top_logprobs\": 2, \"include\": [\"x\", \"message.output_text.logprobs\"]}",
            "top_logprobs", "2");
    becomes(d, "{\"input\": \"a\", \"text\": {\"format\": {\"type\": \"json_schema\", \"name\": \"n\", "
               "\"schema\": {}}}}",
            "response_format", "{\"type\": \"json_schema\", \"json_schema\": {\"schema\": {}}}");
    becomes(d, "{\"input\": \"a\", \"tools\": [{\"type\": \"function\", \"name\": \"f\"}]}", "tools",
            "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]");
    becomes(d, "{\"input\": \"a\", \"background\": false}", "background", "false");
    is_refused(d, "{\"input\": \"a\", \"background\": true}", "background");
    is_refused(d, "{\"input\": \"a\", \"prompt\": {\"id\": \"x\"}}", "prompt");
    is_refused(d, "{\"input\": \"a\", \"tools\": [{\"type\": \"web_search\"}]}", "tools[0].type");
}

/* The functions that may be called are written into the list of a choice (tools.h); the answer shows the client's. */
static void a_response_keeps_the_choice_that_it_was_asked(void **state)
{
    static const char text[] =
        "{\"input\": \"a\", \"tools\": [{\"type\": \"function\", \"name\": \"f\"}], \"tool_choice\": {\"type\": "
        "\"allowed_tools\", \"mode\": \"auto\", \"tools\": [{\"type\": \"function\", \"name\": \"f\"}]}}";
    srv_fields f;
    srv_tools t = {0};
    bool chat = true;
    json_t *body = srv_fields_parse(&f, text, strlen(text)), *asked = json_loads(text, 0, NULL);
    json_t *o = srv_responses.body(&f, &chat);
    f.object = o;
    srv_tools_read(&t, &f);
    assert_false(f.failed);
    assert_int_equal(json_array_size(t.list), 1);
    assert_true(json_equal(json_object_get(body, "tool_choice"), json_object_get(asked, "tool_choice")));
    json_decref(o);
    json_decref(asked);
    json_decref(body);
}

/* -- Anthropic ------------------------------------------------------------------------------------------ */

#define ASKS(blocks) "{\"role\": \"user\", \"content\": [" blocks "]}"
#define TEXT(text)   "{\"type\": \"text\", \"text\": \"" text "\"}"
#define FILE_OF(text) "{\"type\": \"document\", \"source\": {\"type\": \"text\", \"data\": \"" text "\"}}"
#define BODY(rest)   "{\"max_tokens\": 1, \"messages\": [" USER("a") "], " rest "}"

static void blocks_of_anthropic_are_messages(void **state)
{
    const srv_dialect *d = &srv_anthropic;
    static const char results[] =
        "{\"max_tokens\": 1, \"messages\": [{\"role\": \"assistant\", \"content\": ["
        "{\"type\": \"tool_use\", \"id\": \"t1\", \"name\": \"boats\", \"input\": {\"n\": 1}}]}, "
        ASKS("{\"type\": \"tool_result\", \"tool_use_id\": \"t1\", \"content\": [" TEXT("four") "]}, "
             TEXT("And?")) "]}";
    becomes(d, results, "messages",
            "[{\"role\": \"assistant\", \"content\": [" TEXT("") "], \"tool_calls\": [{\"id\": \"t1\", \"type\": "
            "\"function\", \"function\": {\"name\": \"boats\", \"arguments\": {\"n\": 1}}}]}, "
            "{\"role\": \"tool\", \"tool_call_id\": \"t1\", \"content\": \"four\"}, " ASKS(TEXT("And?")) "]");
    static const char thoughts[] =
        "{\"max_tokens\": 1, \"messages\": [{\"role\": \"assistant\", \"content\": ["
        "{\"type\": \"thinking\", \"thinking\": \"Hm.\", \"signature\": \"\"}, " TEXT("four") "]}, "
        ASKS(TEXT("b")) "]}";
    becomes(d, thoughts, "messages", "[{\"role\": \"assistant\", \"content\": [" TEXT("four")
            "], \"reasoning_content\": \"Hm.\"}, " ASKS(TEXT("b")) "]");
    becomes(d, "{\"max_tokens\": 1, \"messages\": [" ASKS("{\"type\": \"tool_result\", \"tool_use_id\": \"t1\", "
            "\"content\": \"four\", \"cache_control\": {\"type\": \"a\"}}") "]}", "cache_control",
            "{\"type\": \"a\"}");
    is_refused(d, "{\"max_tokens\": 1, \"messages\": [{\"role\": \"system\", \"content\": \"a\"}]}",
               "messages[0].role");
    is_refused(d, "{\"messages\": [" USER("a") "]}", "max_tokens");
}

static void only_documents_of_the_last_question_are_documents(void **state)
{
    static const char two[] = "{\"max_tokens\": 1, \"messages\": [" ASKS(FILE_OF("old")) ", {\"role\": \"assistant\", "
                              "\"content\": \"b\"}, " ASKS(FILE_OF("new") ", " TEXT("c")) "]}";
    becomes(&srv_anthropic, two, "documents", "[{\"text\": \"new\"}]");
    becomes(&srv_anthropic, "{\"max_tokens\": 1, \"documents\": [\"of the body\"], \"messages\": ["
            ASKS(FILE_OF("new") ", " TEXT("c")) "]}", "documents", "[{\"text\": \"new\"}, \"of the body\"]");
    becomes(&srv_anthropic, two, "messages", "[" ASKS(TEXT("old")) ", {\"role\": \"assistant\", \"content\": ["
            TEXT("b") "]}, " ASKS(TEXT("c")) "]");
}

static void fields_of_anthropic_are_those_of_a_chat(void **state)
{
    const srv_dialect *d = &srv_anthropic;
    becomes(d, BODY("\"tool_choice\": {\"type\": \"any\"}"), "tool_choice", "\"required\"");
    becomes(d, BODY("\"tool_choice\": {\"type\": \"auto\"}"), "tool_choice", "\"auto\"");
    becomes(d, BODY("\"tool_choice\": {\"type\": \"none\"}"), "tool_choice", "\"none\"");
    becomes(d, BODY("\"tool_choice\": {\"type\": \"tool\", \"name\": \"f\"}"), "tool_choice",
            "{\"type\": \"function\", \"function\": {\"name\": \"f\"}}");
    becomes(d, BODY("\"tool_choice\": {\"type\": \"auto\", \"disable_parallel_tool_use\": true}"),
            "parallel_tool_calls", "false");
    becomes(d, BODY("\"tool_choice\": {\"type\": \"auto\"}"), "parallel_tool_calls", "");
    becomes(d, BODY("\"stop_sequences\": [\"x\"]"), "stop", "[\"x\"]");
    becomes(d, BODY("\"thinking\": {\"type\": \"enabled\"}"), "think", "true");
    becomes(d, BODY("\"tools\": [{\"name\": \"f\", \"cache_control\": {\"type\": \"a\"}}]"), "cache_control",
            "{\"type\": \"a\"}");
    becomes(d, BODY("\"tools\": [{\"name\": \"f\", \"cache_control\": {\"type\": \"a\"}}], "
                    "\"cache_control\": {\"type\": \"b\"}"), "cache_control", "{\"type\": \"b\"}");
    becomes(d, BODY("\"stop\": []"), "continue_final_message", "");
    becomes(d, "{\"max_tokens\": 1, \"messages\": [" USER("a") ", {\"role\": \"assistant\", \"content\": \"b\"}]}",
            "continue_final_message", "true");
    becomes(d, BODY("\"mcp_servers\": []"), "cache_control", "");
    is_refused(d, BODY("\"mcp_servers\": [{}]"), "mcp_servers");
    is_refused(d, BODY("\"container\": \"c\""), "container");
    is_refused(d, BODY("\"tool_choice\": {\"type\": \"some\"}"), "tool_choice");
    is_refused(d, BODY("\"tools\": [{\"type\": \"bash_20250124\", \"name\": \"b\"}]"), "tools");
}

/* -- Ollama ---------------------------------------------------------------------------------------------- */

static void options_of_ollama_are_fields_of_a_chat(void **state)
{
    const srv_dialect *d = &srv_ollama_chat;
    becomes(d, "{\"options\": {\"num_predict\": 7, \"top_k\": 3}}", "max_tokens", "7");
    becomes(d, "{\"options\": {\"num_predict\": 7, \"top_k\": 3}}", "top_k", "3");
    becomes(d, "{\"options\": {\"num_predict\": -1}}", "n_predict", "-1");
    becomes(d, "{\"options\": {\"num_predict\": -1}}", "max_tokens", "");
    becomes(d, "{}", "stream", "true");
    becomes(d, "{\"stream\": false}", "stream", "false");
    becomes(d, "{\"format\": \"json\"}", "response_format", "{\"type\": \"json_object\"}");
    becomes(d, "{\"format\": \"\"}", "response_format", "");
    becomes(d, "{\"think\": \"low\"}", "chat_template_kwargs",
            "{\"enable_thinking\": true, \"reasoning_effort\": \"low\"}");
    becomes(d, "{\"think\": false, \"chat_template_kwargs\": {\"a\": 1}}", "chat_template_kwargs",
            "{\"a\": 1, \"enable_thinking\": false}");
    becomes(d, "{\"think\": false}", "think", "false");
    becomes(d, "{\"context\": [], \"logprobs\": false, \"top_logprobs\": 0}", "stream", "true");
    is_refused(d, "{\"context\": [1, 2]}", "context");
    is_refused(d, "{\"top_logprobs\": 2}", "top_logprobs");
    is_refused(d, "{\"format\": 7}", "format");
    is_refused(d, "{\"think\": 7}", "think");
    is_refused(d, "{\"options\": {\"num_predict\": \"7\"}}", "options");
}

#define OLD_CALL(name) "{\"function\": {\"name\": \"" name "\"}}"
#define NEW_CALL(id, name) "{\"id\": \"call_" id "\", \"type\": \"function\", \"function\": {\"name\": \"" name "\"}}"

static void calls_of_ollama_get_ids_and_results_those_of_calls(void **state)
{
    becomes(&srv_ollama_chat,
            "{\"messages\": [{\"role\": \"assistant\", \"thinking\": \"Hm.\", \"tool_calls\": [" OLD_CALL("a") ", "
            OLD_CALL("b") "]}, {\"role\": \"tool\", \"content\": \"1\"}, {\"role\": \"tool\", \"content\": \"2\"}, "
            "{\"role\": \"assistant\", \"tool_calls\": [" OLD_CALL("c") "]}, "
            "{\"role\": \"tool\", \"content\": \"3\"}]}",
            "messages",
            "[{\"role\": \"assistant\", \"reasoning_content\": \"Hm.\", \"tool_calls\": [" NEW_CALL("0", "a") ", "
            NEW_CALL("1", "b") "]}, {\"role\": \"tool\", \"content\": \"1\", \"tool_call_id\": \"call_0\"}, "
            "{\"role\": \"tool\", \"content\": \"2\", \"tool_call_id\": \"call_1\"}, {\"role\": \"assistant\", "
            "\"tool_calls\": [" NEW_CALL("2", "c") "]}, {\"role\": \"tool\", \"content\": \"3\", \"tool_call_id\": "
            "\"call_2\"}]");
}

static void a_call_of_ollama_keeps_its_id(void **state)
{
    static const char own[] = "[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"mine\", \"type\": \"function\", "
                              "\"function\": {\"name\": \"a\", \"arguments\": {}}}]}, "
                              "{\"role\": \"tool\", \"content\": \"1\", \"tool_call_id\": \"mine\"}]";
    char body[400];
    snprintf(body, sizeof body, "{\"messages\": %s}", own);
    becomes(&srv_ollama_chat, body, "messages", own);
}

static void prompts_of_ollama_are_chats_unless_raw(void **state)
{
    const srv_dialect *d = &srv_ollama_generate;
    static const char chat[] = "[{\"role\": \"system\", \"content\": \"S\"}, " USER("a") "]";
    becomes(d, "{\"prompt\": \"a\", \"system\": \"S\"}", "messages", chat);
    becomes(d, "{\"prompt\": \"a\", \"system\": \"S\", \"suffix\": \"\"}", "messages", chat);
    becomes(d, "{\"prompt\": \"a\", \"raw\": true}", "messages", "");
    becomes(d, "{\"prompt\": \"a\", \"raw\": true}", "prompt", "\"a\"");
    becomes(d, "{\"prompt\": \"a\", \"suffix\": \"z\"}", "suffix", "\"z\"");
    is_refused(d, "{\"prompt\": \"a\", \"template\": \"x\"}", "template");
    is_refused(d, "{\"prompt\": \"a\", \"images\": [\"AAAA\"]}", "images");
}

/* -- llama.cpp -------------------------------------------------------------------------------------------- */

static void gaps_are_filled_after_other_files(void **state)
{
    const srv_dialect *d = &srv_llama_infill;
    static const char two[] = "{\"input_prefix\": \"a\", \"input_suffix\": \"z\", \"prompt\": \"b\", "
                              "\"input_extra\": [{\"filename\": \"x.c\", \"text\": \"X\"}, {\"text\": \"Y\"}]}";
    becomes(d, two, "prompt", "\"# x.c\\nX\\n\\n# \\nY\\n\\nab\"");
    becomes(d, two, "suffix", "\"z\"");
    becomes(d, two, "input_extra", "");
    becomes(d, "{\"input_prefix\": \"a\", \"input_suffix\": \"\"}", "prompt", "\"a\"");
    becomes(d, "{\"input_prefix\": \"a\", \"input_suffix\": \"\"}", "suffix", "");
    is_refused(d, "{\"input_suffix\": \"z\"}", "input_prefix");
    is_refused(d, "{\"input_prefix\": \"a\"}", "input_suffix");
    is_refused(d, "{\"input_prefix\": \"a\", \"input_suffix\": \"\", \"input_extra\": [{\"text\": \"Y\"}, {}]}",
               "input_extra");
}

/* read_as -- what messages of a chat are read as. */
static void read_as(const char *messages, const char *wanted)
{
    srv_fields f = {0};
    json_t *list = json_loads(messages, 0, NULL), *want = json_loads(wanted, 0, NULL), *got;
    assert_true(list && want);
    got = srv_chat_read(&f, list);
    if (!json_equal(got, want)) fail_msg("%s is read as %s", messages, json_dumps(got, 0));
    json_decref(list);
    json_decref(want);
    json_decref(got);
}

static void system_messages_join_at_the_beginning_alone(void **state)
{
#define SYSTEM_TEXT(text) "{\"role\": \"system\", \"content\": \"" text "\"}"
    read_as("[" SYSTEM_TEXT("a") ", " SYSTEM_TEXT("b") ", " USER("c") "]",
            "[" SYSTEM_TEXT("a\\n\\nb") ", " USER("c") "]");
    static const char later[] = "[" SYSTEM_TEXT("a") ", " USER("b") ", " SYSTEM_TEXT("c") "]";
    read_as(later, later);
}

/* As some clients send them: a part is a text, or has one but no type. */
static void parts_of_a_content_need_no_type(void **state)
{
    read_as("[{\"role\": \"user\", \"content\": [\"a\", {\"text\": \"b\"}, {\"type\": \"input_text\", "
            "\"text\": \"c\"}]}, {\"role\": \"assistant\", \"content\": [{\"type\": \"refusal\", "
            "\"refusal\": \"d\"}]}]",
            "[" USER("a\\nb\\nc") ", {\"role\": \"assistant\", \"content\": \"d\"}]");
}

/* What a model wrote need not be JSON; what is JSON is an object, as templates want it. */
static void arguments_of_an_earlier_call_are_kept(void **state)
{
#define CALLS(arguments)                                                                                         \
    "[" USER("a") ", {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": \"1\", "             \
    "\"type\": \"function\", \"function\": {\"name\": \"boats\", \"arguments\": " arguments "}}]}]"
    read_as(CALLS("\"{\\\"n\\\": 3}\""), CALLS("{\"n\": 3}"));
    read_as(CALLS("\"n = 3\""), CALLS("\"n = 3\""));
    read_as(CALLS("\"\""), CALLS("{}"));
}

static void completions_take_one_prompt_and_have_no_limit(void **state)
{
    const srv_dialect *d = &srv_llama_completion;
    becomes(d, "{\"prompt\": \"a\"}", "n_predict", "-1");
    becomes(d, "{\"prompt\": \"a\", \"n_predict\": 3, \"max_tokens\": 9}", "n_predict", "3");
    becomes(d, "{\"prompt\": \"a\", \"max_tokens\": 9}", "max_tokens", "");
    becomes(d, "{\"prompt\": [1, 2]}", "prompt", "[1, 2]");
    is_refused(d, "{\"prompt\": [\"a\", \"b\"]}", "prompt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_of_a_response_are_messages),
        cmocka_unit_test(thoughts_belong_to_the_next_message_of_the_assistant),
        cmocka_unit_test(fields_of_a_response_are_those_of_a_chat),
        cmocka_unit_test(a_response_keeps_the_choice_that_it_was_asked),
        cmocka_unit_test(blocks_of_anthropic_are_messages),
        cmocka_unit_test(only_documents_of_the_last_question_are_documents),
        cmocka_unit_test(fields_of_anthropic_are_those_of_a_chat),
        cmocka_unit_test(options_of_ollama_are_fields_of_a_chat),
        cmocka_unit_test(calls_of_ollama_get_ids_and_results_those_of_calls),
        cmocka_unit_test(a_call_of_ollama_keeps_its_id),
        cmocka_unit_test(prompts_of_ollama_are_chats_unless_raw),
        cmocka_unit_test(gaps_are_filled_after_other_files),
        cmocka_unit_test(system_messages_join_at_the_beginning_alone),
        cmocka_unit_test(parts_of_a_content_need_no_type),
        cmocka_unit_test(arguments_of_an_earlier_call_are_kept),
        cmocka_unit_test(completions_take_one_prompt_and_have_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
