/* chat_text.h -- a chat as JSON -> its text by a chat template. */
#ifndef SP_SERVE_CHAT_TEXT_H
#define SP_SERVE_CHAT_TEXT_H

#include "model/template/template.h"
#include "model/tokenizer/tokenizer.h"

/* sp_chat_read -- "messages", "tools" and so on, borrowed from the request. Errors: SP_E_ARG names the
 * member. */
sp_err sp_chat_read(json_t *request, sp_template_input *in) SP_MUST_CHECK;
/* sp_chat_render -- tokenizer: whose BOS and EOS the template writes; may be NULL. Owns:
 * sp_template_text_fini, after an error, too. */
sp_err sp_chat_render(const sp_tokenizer *tokenizer, const char *jinja, sp_template_input *in,
                      sp_template_text *out) SP_MUST_CHECK;

#endif
