/* tokenizer_json.h -- reads tokenizers in the format of Hugging Face; for model/ alone. */
#ifndef SP_MODEL_TOKENIZER_JSON_H
#define SP_MODEL_TOKENIZER_JSON_H

#include <jansson.h>

#include "model/tokenizer/vocab_spec.h"

/* sp_tokenizer_parse -- root: tokenizer.json; config: tokenizer_config.json or NULL. Both are
 * borrowed for the call. Errors: SP_E_FORMAT, SP_E_UNSUPPORTED (names path and field), SP_E_LIMIT,
 * SP_E_NOMEM. */
sp_err sp_tokenizer_parse(const json_t *root, const json_t *config, const char *path,
                          sp_tokenizer **out) SP_MUST_CHECK;

#endif
