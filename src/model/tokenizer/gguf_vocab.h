/* gguf_vocab.h -- creates a tokenizer from the metadata of a GGUF file. For model/ alone. */
#ifndef SP_MODEL_GGUF_VOCAB_H
#define SP_MODEL_GGUF_VOCAB_H

#include "model/gguf.h"

/* sp_gguf_tokenizer -- the tokenizer of the file; NULL if it has none (tokenizer.ggml.model is
 * absent or "none"). Errors: SP_E_FORMAT names file and key; SP_E_UNSUPPORTED names the model or
 * pre-tokenizer; SP_E_NOMEM. */
sp_err sp_gguf_tokenizer(const sp_gguf *g, sp_tokenizer **out) SP_MUST_CHECK;

#endif
