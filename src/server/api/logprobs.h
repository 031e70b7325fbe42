/* logprobs.h -- probabilities of tokens as JSON, in the forms of chat and of completions. */
#ifndef SP_SERVER_API_LOGPROBS_H
#define SP_SERVER_API_LOGPROBS_H

#include "server/api/job.h"

/* srv_token_chars -- adds the bytes of a token. */
void srv_token_chars(const srv_server *s, int32_t id, srv_chars *at);

/* srv_logprobs -- tokens [from, to) of a choice; null when the task does not ask for them. text_at:
 * characters of the tokens before the first of them (completions' text_offset). */
json_t *srv_logprobs(const srv_choice *c, size_t from, size_t to, srv_chars text_at);

/* srv_logprobs_new -- those that have not been sent; notes that they are. Called with the lock held. */
json_t *srv_logprobs_new(srv_choice *c);

/* srv_pieces -- the bytes of a list of token ids, NUL-terminated after n. NULL: an id outside the
 * vocabulary, or out of memory. Owns: free. */
char *srv_pieces(const srv_server *s, const json_t *ids, size_t *n);

#endif
