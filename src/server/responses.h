/* responses.h -- POST /v1/responses: the same answers in the form of OpenAI's Responses API.
 *
 *   body --responses_body.c--> body of a chat --generate.c--> job --responses.c--> object or events
 *
 * Nothing is stored: previous_response_id, conversation and background are refused by name. */
#ifndef SP_SERVER_RESPONSES_H
#define SP_SERVER_RESPONSES_H

#include "server/job.h"

/* srv_responses_body -- the body of a chat with the same meaning; NULL after an error in *f. Fields that
 * both have (temperature, documents, ...) are kept. Owns: json_decref. */
json_t *srv_responses_body(srv_fields *f);
/* srv_responses_param -- the name that a field of the chat has here. */
const char *srv_responses_param(const char *param);

/* srv_responses_json -- the response of a job that is done. */
json_t *srv_responses_json(const srv_job *j);
/* srv_responses_write -- the events that are new of a stream. Called with the lock held; false: the
 * stream breaks off. */
bool srv_responses_write(srv_job *j);

#endif
