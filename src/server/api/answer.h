/* answer.h -- answers as JSON: OpenAI's fields, llama.cpp's timings, and `spolia`, the account of what
 * was reused. */
#ifndef SP_SERVER_API_ANSWER_H
#define SP_SERVER_API_ANSWER_H

#include "server/api/job.h"

/* srv_answer -- the whole answer of a job that is done. NULL: out of memory. */
json_t *srv_answer(const srv_job *j);

/* Parts, for streams. */
json_t *srv_answer_usage(const srv_job *j);
json_t *srv_answer_timings(const sp_result *r);
json_t *srv_answer_account(const srv_job *j);
/* srv_answer_explanation -- the account with times and finish, for explain.h. */
json_t *srv_answer_explanation(const srv_job *j);
/* srv_answer_frame -- id, object, created, model, and the choices (consumed). */
json_t *srv_answer_frame(const srv_job *j, const char *object, json_t *choices);
/* srv_answer_finish -- as OpenAI names the reasons; calls: the answer has complete calls. */
const char *srv_answer_finish(sp_finish f, bool calls);
/* srv_answer_call -- the k-th call of a choice in OpenAI's form, with its index if streamed. */
json_t *srv_answer_call(const srv_job *j, int choice, size_t k, const json_t *call, bool streamed);
/* srv_answer_failure -- the first choice that ended in an error; NULL: none. */
const sp_result *srv_answer_failure(const srv_job *j);

#endif
