/* messages.h -- from the messages and documents of a body to the segments of a prompt.
 *
 *   system messages                    one system turn
 *   user, assistant, tool messages     a turn each; known chunks are found in users' and tools'
 *   documents                          chunks, in the last user turn, before its text
 *
 * A prompt with documents is the one that `spolia ask` makes: the same default system text, the
 * question after "Question: ". */
#ifndef SP_SERVER_API_MESSAGES_H
#define SP_SERVER_API_MESSAGES_H

#include "server/body/fields.h"
#include "server/body/tools.h"
#include "server/documents/given.h"

/* The messages of a body, in one form (chat.h). */
typedef struct srv_conversation {
    srv_fields *f;
    json_t *messages;
    json_t *tools;    /* borrowed; NULL: none */
    bool shows_tools; /* the template lists them; else they are texts of the messages */
    bool own_system;  /* the system text is ours */
    bool continues;   /* the answer continues the last message */
} srv_conversation;

/* srv_prompt_create -- an empty prompt of the caller's tenant. */
sp_err srv_prompt_create(const srv_call *call, sp_prompt **out);

/* srv_conversation_open -- false after an error in *f; close it all the same. */
bool srv_conversation_open(const srv_call *call, srv_fields *f, const srv_tools *tools,
                           srv_conversation *out);
void srv_conversation_close(srv_conversation *c);

/* srv_prompt_chat, srv_prompt_plain -- the prompt of a body for chat or for completions: by the model's
 * own template, or where that is missing or not supported, by the turns of its family. NULL after an
 * error in *f, where a library's error is *err. suffix: what comes after the answer; NULL: nothing. */
sp_prompt *srv_prompt_chat(const srv_call *call, srv_fields *f, const srv_tools *tools,
                           srv_documents *d, sp_err *err);
sp_prompt *srv_prompt_plain(const srv_call *call, srv_fields *f, int i, const char *suffix, sp_err *err);

/* srv_prompt_question -- the last message of the user: what a collection is searched for. NULL after an error in *f.
 * Owns: free. */
char *srv_prompt_question(const srv_call *call, srv_fields *f, const srv_tools *tools);

/* srv_prompt_count, srv_prompt_item -- of completions: `prompt` is a text, a list of ids, or a list of
 * those. */
int srv_prompt_count(const srv_fields *f);
const json_t *srv_prompt_item(const srv_fields *f, int i);

#endif
