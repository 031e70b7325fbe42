/* constrain.h -- fields of a body that restrict the answer: OpenAI's response_format, llama.cpp's
 * json_schema and grammar, vLLM's guided_json, guided_choice, guided_regex and guided_grammar, and the
 * same in structured_outputs. */
#ifndef SP_SERVER_BODY_CONSTRAIN_H
#define SP_SERVER_BODY_CONSTRAIN_H

#include "server/body/fields.h"
#include "spolia.h"

/* srv_constrain_read -- the grammar of the body; NULL: any text, or an error in *f. Owns:
 * sp_grammar_destroy. */
sp_grammar *srv_constrain_read(srv_fields *f);

/* srv_constrain_json -- the grammar of a schema; `param` is the field that errors name. */
sp_grammar *srv_constrain_json(srv_fields *f, const char *param, const json_t *schema);

#endif
