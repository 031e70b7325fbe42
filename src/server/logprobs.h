/* logprobs.h -- probabilities of tokens as JSON, in the forms of chat and of completions. */
#ifndef SP_SERVER_LOGPROBS_H
#define SP_SERVER_LOGPROBS_H

#include "server/job.h"

/* srv_logprobs -- tokens [from, to) of a choice; null when the task does not ask for them. text_at: bytes
 * of text before the first of them (completions' text_offset). */
json_t *srv_logprobs(const srv_choice *c, size_t from, size_t to, size_t text_at);

/* srv_logprobs_new -- those that have not been sent; notes that they are. Called with the lock held. */
json_t *srv_logprobs_new(srv_choice *c);

/* srv_text_json -- a string; bytes that are no UTF-8 (a character that was cut) become U+FFFD. NULL:
 * out of memory. */
json_t *srv_text_json(const char *text, size_t n);

#endif
