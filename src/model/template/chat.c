/* chat.c -- the text that each family puts around a turn.
 *
 * S, U, A are the texts of a system, user and assistant turn; | marks where a prompt ends and the
 * answer begins. "\n" is a newline; the tokenizer adds BOS.
 *
 *   chatml   <|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n
 *            <|im_start|>assistant\n|A<|im_end|>\n
 *   llama2   [INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST]| A </s><s>[INST] U [/INST]| ...
 *   llama3   <|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>
 *            <|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|>
 *            <|start_header_id|>assistant<|end_header_id|>\n\n|A<|eot_id|>
 *   mistral  [INST] S\n\nU [/INST]|A</s>[INST] U [/INST]| ...
 *   none     S\n\nU\n\nA\n\n
 *
 * The published templates also do three things that are left to the caller: they trim the contents
 * (llama2, llama3), insert a default system text (qwen2's "You are a helpful assistant", the dates
 * of llama 3.1), and drop the reasoning of earlier turns (qwen3).
 */
#include "model/template/chat.h"

#include <string.h>

typedef struct turn {
    const char *before, *after;
} turn;

static const struct family {
    const char *name;
    const char *mark;      /* a mark in the templates of this family that no later family has */
    turn turns[4];         /* by sp_role */
    const char *user_next; /* before later user turns; NULL: as before the first */
    bool joined;           /* the system text follows the first user turn's `before` */
    const char *open;
} families[] = {
    [SP_CHAT_NONE] = {
        .name = "none",
        .turns = {{"", "\n\n"}, {"", "\n\n"}, {"", "\n\n"}, {"", "\n\n"}},
        .open = "",
    },
    [SP_CHAT_CHATML] = {
        .name = "chatml",
        .mark = "<|im_start|>",
        .turns = {{"<|im_start|>system\n", "<|im_end|>\n"},
                  {"<|im_start|>user\n", "<|im_end|>\n"},
                  {"<|im_start|>assistant\n", "<|im_end|>\n"},
                  {"<|im_start|>user\n<tool_response>\n", "\n</tool_response><|im_end|>\n"}},
        .open = "<|im_start|>assistant\n",
    },
    [SP_CHAT_LLAMA2] = {
        .name = "llama2",
        .mark = "<<SYS>>",
        .turns = {{"[INST] <<SYS>>\n", "\n<</SYS>>\n\n"},
                  {"[INST] ", " [/INST]"},
                  {" ", " </s>"},
                  {"[INST] ", " [/INST]"}},
        .user_next = "<s>[INST] ",
        .joined = true,
        .open = "",
    },
    [SP_CHAT_LLAMA3] = {
        .name = "llama3",
        .mark = "<|start_header_id|>",
        .turns = {{"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
                  {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
                  {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
                  {"<|start_header_id|>ipython<|end_header_id|>\n\n", "<|eot_id|>"}},
        .open = "<|start_header_id|>assistant<|end_header_id|>\n\n",
    },
    [SP_CHAT_MISTRAL] = {
        .name = "mistral",
        .mark = "[INST]",
        .turns = {{"[INST] ", "\n\n"}, {"[INST] ", " [/INST]"}, {"", "</s>"}, {"[TOOL_RESULTS] ", "[/TOOL_RESULTS]"}},
        .joined = true,
        .open = "",
    },
};

sp_chat_family sp_chat_detect(const char *jinja)
{
    for (size_t f = SP_CHAT_NONE + 1; jinja && f < SP_COUNT(families); f++)
        if (strstr(jinja, families[f].mark)) return (sp_chat_family)f;
    return SP_CHAT_NONE;
}

const char *sp_chat_name(sp_chat_family f)
{
    return families[f].name;
}

const char *sp_chat_before(sp_chat_family f, sp_role role, bool first, bool after_system)
{
    const struct family *fam = &families[f];
    if (role != SP_ROLE_USER) return fam->turns[role].before;
    if (after_system && fam->joined) return "";
    return first || after_system || !fam->user_next ? fam->turns[role].before : fam->user_next;
}

const char *sp_chat_after(sp_chat_family f, sp_role role)
{
    return families[f].turns[role].after;
}

const char *sp_chat_open(sp_chat_family f)
{
    return families[f].open;
}
