/* echo.h -- what a text begins with if asked: that of a completion with its prompt, and the probabilities of its
 * tokens; that of a chat with a last message of the assistant, as in vLLM. */
#ifndef SP_SERVER_API_ECHO_H
#define SP_SERVER_API_ECHO_H

#include "server/body/task.h"
#include "server/http/call.h"

typedef struct srv_echo {
    char *text; /* NULL: nothing */
    sp_token_logprob
        *tokens; /* [n, 1 + top_logprobs], where the task asks for them; the first token has
                                 no probability: NaN */
    size_t n, n_added; /* tokens; characters of theirs before the text: BOS, a first blank */
} srv_echo;

/* srv_echo_read -- the echo of the i-th prompt, if the task asks for it; false after an error in *f. The probabilities
 * are those of an extra plain forward pass over the prompt. Owns: srv_echo_fini. */
bool srv_echo_read(const srv_call *call, const srv_task *t, srv_fields *f, int i, srv_echo *out);
void srv_echo_fini(srv_echo *e);

#endif
