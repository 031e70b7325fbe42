/* responses.h -- POST /v1/responses: the same answers in the form of OpenAI's Responses API.
 *
 *   body --responses_body.c--> body of a chat --generate.c--> job --responses.c--> object or events
 *
 * Nothing is stored: previous_response_id, conversation and background are refused by name. */
#ifndef SP_SERVER_DIALECTS_RESPONSES_H
#define SP_SERVER_DIALECTS_RESPONSES_H

#include "server/api/dialect.h"

/* srv_responses_body -- the body of a chat with the same meaning; NULL after an error in *f. Fields that
 * both have (temperature, documents, ...) are kept. Owns: json_decref. */
json_t *srv_responses_body(srv_fields *f, bool *chat);

#endif
