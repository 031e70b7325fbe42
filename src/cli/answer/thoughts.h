/* thoughts.h -- the thoughts of an answer, apart from its text.
 *
 *   THOUGHTS_TAGS      <think>thoughts</think>text; many templates open <think> themselves (Qwen3, R1, GLM-4.5).
 *                      The same with <seed:think> (Seed-OSS), [THINK] (Magistral), <|START_THINKING|> (Command A)
 *   THOUGHTS_CHANNELS  the harmony format of gpt-oss: messages with a channel and a recipient,
 *                        <|channel|>analysis<|message|>thoughts<|end|>
 *                        <|start|>assistant<|channel|>final<|message|>text<|return|>
 *                        <|start|>assistant<|channel|>commentary to=functions.f json<|message|>{}<|call|>
 *                      Commentary to nobody is text for the user.
 *
 * Splitting more of an answer only extends both parts, so a stream prints the difference. */
#ifndef SP_CLI_THOUGHTS_H
#define SP_CLI_THOUGHTS_H

#include "cli/answer/view.h"

typedef enum thoughts_form {
    THOUGHTS_NONE,
    THOUGHTS_TAGS,
    THOUGHTS_OPENED, /* the same, and the prompt ends with <think> */
    THOUGHTS_WITHIN, /* the same, and the prompt ends within thoughts, which the answer continues with any blank */
    THOUGHTS_CHANNELS,
} thoughts_form;

/* thoughts_of_template -- the form that a template (Jinja, or NULL) uses; never OPENED or WITHIN. */
thoughts_form thoughts_of_template(const char *jinja);

/* A message of an answer with channels. */
typedef struct thoughts_message {
    cli_view channel, to, body;
    bool ended; /* the mark that ends the body has come */
} thoughts_message;

/* thoughts_take_fn -- receives a message to a function; returns false to treat it as text. */
typedef bool thoughts_take_fn(const thoughts_message *m, void *user);

typedef struct thoughts_parts {
    cli_view thought, text; /* of the answer, or of `owned` */
    char *owned;            /* with channels. Owned: free */
} thoughts_parts;

/* thoughts_split -- an answer, or its text so far (grows: more follows). take (may be NULL) sees messages with a
 * recipient. Returns false when memory is out; the parts are empty then. */
bool thoughts_split(thoughts_form form, cli_view answer, bool grows, thoughts_take_fn *take, void *user,
                    thoughts_parts *out);

#endif
