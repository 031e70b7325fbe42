/* test_chat.c -- whole conversations, as the published templates of the families render them. */
#include "tiny_vocab.h"

#include "model/template/chat.h"

typedef struct turn {
    sp_role role;
    const char *text;
} turn;

static const turn talk[] = {{SP_ROLE_SYSTEM, "Be brief."},
                            {SP_ROLE_USER, "Hi"},
                            {SP_ROLE_ASSISTANT, "Hello!"},
                            {SP_ROLE_USER, "Who?"}};

static const char *render(sp_chat_family f, const turn *turns, size_t n, bool open)
{
    static char line[2048];
    line[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        bool after_system = i > 0 && turns[i - 1].role == SP_ROLE_SYSTEM;
        strcat(line, sp_chat_before(f, turns[i].role, i == 0, after_system));
        strcat(line, turns[i].text);
        strcat(line, sp_chat_after(f, turns[i].role));
    }
    return open ? strcat(line, sp_chat_open(f)) : line;
}

static void chatml(void **state)
{
    assert_string_equal(render(SP_CHAT_CHATML, talk, 4, true),
                        "<|im_start|>system\nBe brief.<|im_end|>\n"
                        "<|im_start|>user\nHi<|im_end|>\n"
                        "<|im_start|>assistant\nHello!<|im_end|>\n"
                        "<|im_start|>user\nWho?<|im_end|>\n"
                        "<|im_start|>assistant\n");
    assert_string_equal(render(SP_CHAT_CHATML, talk + 1, 1, false),
                        "<|im_start|>user\nHi<|im_end|>\n");
}

static void llama2(void **state)
{
    assert_string_equal(
        render(SP_CHAT_LLAMA2, talk, 4, true),
        "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello! </s><s>[INST] Who? [/INST]");
    assert_string_equal(render(SP_CHAT_LLAMA2, talk + 1, 3, true),
                        "[INST] Hi [/INST] Hello! </s><s>[INST] Who? [/INST]");
}

static void llama3(void **state)
{
    assert_string_equal(render(SP_CHAT_LLAMA3, talk, 4, true),
                        "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
                        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
                        "<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>"
                        "<|start_header_id|>user<|end_header_id|>\n\nWho?<|eot_id|>"
                        "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

static void mistral(void **state)
{
    assert_string_equal(render(SP_CHAT_MISTRAL, talk, 4, true),
                        "[INST] Be brief.\n\nHi [/INST]Hello!</s>[INST] Who? [/INST]");
    assert_string_equal(render(SP_CHAT_MISTRAL, talk + 1, 3, true),
                        "[INST] Hi [/INST]Hello!</s>[INST] Who? [/INST]");
}

static void none(void **state)
{
    assert_string_equal(render(SP_CHAT_NONE, talk, 2, true), "Be brief.\n\nHi\n\n");
}

static void detection(void **state)
{
    static const struct {
        const char *jinja, *name;
    } cases[] = {
        {NULL, "none"},
        {"", "none"},
        {"{{ messages[0].content }}", "none"},
        {"{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% endfor %}",
         "chatml"},
        {"{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' %}",
         "llama3"},
        {"{% set content = '<<SYS>>\n' + system_message %}{{ bos_token + '[INST] ' + content + ' "
         "[/INST]' }}",
         "llama2"},
        {"{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}", "mistral"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        assert_string_equal(sp_chat_name(sp_chat_detect(cases[i].jinja)), cases[i].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chatml),  cmocka_unit_test(llama2), cmocka_unit_test(llama3),
        cmocka_unit_test(mistral), cmocka_unit_test(none),   cmocka_unit_test(detection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
