/* chat.h -- messages of a body in one form: a list of
 *     {"role": system | user | assistant | tool, "content": text, "tool_calls": [...], ...}
 * whatever form the client uses: lists of text parts, the roles developer and function, arguments of
 * calls as text. Other members are kept for the model's template. */
#ifndef SP_SERVER_BODY_CHAT_H
#define SP_SERVER_BODY_CHAT_H

#include "server/body/fields.h"

/* srv_chat_read -- the system messages at the beginning become one. NULL after an error in *f. Owns:
 * json_decref. */
json_t *srv_chat_read(srv_fields *f, const json_t *list);
/* srv_chat_spell_tools -- for templates without tools: the system text lists them, calls and results
 * become texts, in the form that Hermes and Qwen models are trained on. False: out of memory. */
bool srv_chat_spell_tools(json_t *messages, const json_t *tools);
/* srv_chat_last_user -- index of the last user message; -1: none. */
int srv_chat_last_user(const json_t *messages);

#endif
