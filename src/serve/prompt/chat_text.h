/* chat_text.h -- a chat as JSON -> its text by a chat template. */
#ifndef SP_SERVE_CHAT_TEXT_H
#define SP_SERVE_CHAT_TEXT_H

#include "model/template/template.h"
#include "model/tokenizer/tokenizer.h"

/* A request of sp_template_apply. */
typedef struct sp_chat_input {
    sp_template_input in;
    bool continues; /* the text ends with the last message, an answer that has begun */
    bool is_blank;  /* that message had no text, and has got one that marks its place */
} sp_chat_input;

/* sp_chat_read -- "messages", "tools" and so on, borrowed from the request. Errors: SP_E_ARG names the
 * member. */
sp_err sp_chat_read(json_t *request, sp_chat_input *out) SP_MUST_CHECK;
/* sp_chat_render -- tokenizer: whose BOS and EOS the template writes; may be NULL. Owns:
 * sp_template_text_fini, after an error, too. Errors: SP_E_NOTFOUND if the template does not show the text that is
 * to be continued. */
sp_err sp_chat_render(const sp_tokenizer *tokenizer, const char *jinja, sp_chat_input *c,
                      sp_template_text *out) SP_MUST_CHECK;

#endif
