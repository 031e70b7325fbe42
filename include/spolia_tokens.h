/* spolia_tokens.h -- tokens, chat templates, logits, and what a model file holds. spolia.h includes it. */
#ifndef SPOLIA_TOKENS_H
#define SPOLIA_TOKENS_H

#include "spolia_context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sp_vocab sp_vocab;

/* sp_vocab_open -- the tokenizer alone; works on vocabulary-only GGUF files. */
SP_API sp_err sp_vocab_open(const char *path, sp_vocab **out);
SP_API void sp_vocab_close(sp_vocab *v);
/* sp_vocab_encode -- *ids is owned by the caller: free it with sp_buffer_free. `special`: begin
 * with BOS if the model wants one, and recognise the texts of special tokens. */
SP_API sp_err sp_vocab_encode(const sp_vocab *v, const char *text, size_t n, bool special,
                              int32_t **ids, size_t *n_ids);
/* sp_vocab_piece -- the bytes of one token, NUL-terminated after n bytes; free with
 * sp_buffer_free. */
SP_API sp_err sp_vocab_piece(const sp_vocab *v, int32_t id, char **text, size_t *n);
/* sp_vocab_shows -- whether the text of an answer has the token: control tokens are not in it. */
SP_API bool sp_vocab_shows(const sp_vocab *v, int32_t id);

/* sp_vocab_template -- the model's chat template, in Jinja; borrowed. NULL if it has none. */
SP_API const char *sp_vocab_template(const sp_vocab *v);

/* sp_template_apply -- writes a chat with the model's chat template (a strict subset of Jinja2). jinja: a template to
 * use instead, or NULL; v may be NULL if jinja is set. request: JSON with "messages" and optionally "tools",
 * "documents", "chat_template_kwargs", "add_generation_prompt" (default true) and "continue_final_message" (default
 * false; true: the text ends with that of the last message, which is the assistant's). now: seconds since 1970, for
 * templates that write the date. *json is
 *   {"text": ..., "spans": [{"from", "to", "origin", "index", "path", "at"}]}
 * where a span is a range of bytes that comes from the request: special tokens are recognised outside spans only.
 * origin: "message" (content of messages[index]), "document", "other". `at`: the range equals the string at `path`
 * from this byte on; -1: the template changed it.
 * Free *json with sp_buffer_free.
 * Errors: SP_E_NOTFOUND without a template, or if it does not show the text to continue; SP_E_FORMAT,
 * SP_E_UNSUPPORTED and SP_E_ARG name the line of the template, or say what it refuses; SP_E_LIMIT. */
SP_API sp_err sp_template_apply(const sp_vocab *v, const char *jinja, const char *request,
                                int64_t now, char **json);

/* sp_context_vocab -- the tokenizer of a context; borrowed. */
SP_API const sp_vocab *sp_context_vocab(const sp_context *c);

/* Called for each position in order with its logits [V], borrowed for the call. */
typedef sp_err sp_logits_fn(int position, const float *logits, int n_vocab, void *user);

/* sp_tokens_score -- runs a plain forward pass over n ids, `piece` tokens in a step (0: n_batch); caches nothing.
 * Errors: SP_E_CONTEXT, SP_E_ARG, SP_E_NOKV, and what fn returns. */
SP_API sp_err sp_tokens_score(sp_context *c, const int32_t *ids, size_t n, int piece, sp_logits_fn *fn,
                       void *user);

/* sp_model_describe -- describes a model file or folder as JSON; free *json with sp_buffer_free. */
SP_API sp_err sp_model_describe(const char *path, char **json);

SP_API void sp_buffer_free(void *p);

#ifdef __cplusplus
}
#endif

#endif
