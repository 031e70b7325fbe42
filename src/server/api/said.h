/* said.h -- the parts of an answer: thoughts, text, calls of functions.
 *
 *   SRV_THOUGHTS_TAGS      <think>thoughts</think>text; many templates open <think> themselves (Qwen3, R1, GLM-4.5)
 *   SRV_THOUGHTS_CHANNELS  the harmony format of gpt-oss: messages with a channel and a recipient,
 *                            <|channel|>analysis<|message|>thoughts<|end|>
 *                            <|start|>assistant<|channel|>final<|message|>text<|return|>
 *                            <|start|>assistant<|channel|>commentary to=functions.f json<|message|>{}<|call|>
 *                          Commentary to nobody is text for the user.
 *
 * What a beginning of an answer says, the whole of it says, too: a stream sends the difference. */
#ifndef SP_SERVER_API_SAID_H
#define SP_SERVER_API_SAID_H

#include "server/api/tools.h"

typedef enum srv_thoughts {
    SRV_THOUGHTS_NONE,
    SRV_THOUGHTS_TAGS,
    SRV_THOUGHTS_OPENED, /* the same, and the prompt ends with <think> */
    SRV_THOUGHTS_CHANNELS,
} srv_thoughts;

typedef struct srv_said {
    const char *thought, *text; /* [n_thought], [n_text]; of the answer, or of `owned` */
    size_t n_thought, n_text;
    srv_calls calls; /* n_text is that of the part after thoughts */
    char *owned;
} srv_said;

/* srv_thoughts_of -- as a template (Jinja, or NULL) has them; never OPENED. */
srv_thoughts srv_thoughts_of(const char *jinja);
/* srv_said_read -- of an answer, or of its text so far. Owns: srv_said_fini. */
void srv_said_read(const srv_tools *t, srv_thoughts thoughts, const char *text, size_t n, srv_end end, srv_said *out);
void srv_said_fini(srv_said *s);

#endif
