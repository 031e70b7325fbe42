/* messages.h -- from the messages and documents of a body to the segments of a prompt.
 *
 *   system messages                    one system turn
 *   user, assistant, tool messages     a turn each; known chunks are found in users' and tools'
 *   documents                          chunks, in the last user turn, before its text
 *
 * A prompt with documents is the one that `spolia ask` makes: the same default system text, the
 * question after "Question: ". */
#ifndef SP_SERVER_MESSAGES_H
#define SP_SERVER_MESSAGES_H

#include "server/fields.h"
#include "server/server_int.h"

#define SRV_MAX_DOCUMENTS 4096

typedef struct srv_document {
    const char *id, *title, *text; /* into the body; id and title may be NULL */
    int segment;                   /* of the prompt */
} srv_document;

typedef struct srv_documents {
    srv_document *v; /* free */
    size_t n;
} srv_documents;

/* srv_prompt_chat, srv_prompt_plain -- the prompt of a body for chat or for completions. NULL after
 * an error in *f, where a library's error is *err. */
sp_prompt *srv_prompt_chat(const srv_call *call, srv_fields *f, srv_documents *d, sp_err *err);
sp_prompt *srv_prompt_plain(const srv_call *call, srv_fields *f, sp_err *err);

#endif
