/* routes.h -- which handler answers which path. */
#ifndef SP_SERVER_API_ROUTES_H
#define SP_SERVER_API_ROUTES_H

#include "server/http/call.h"
#include "server/http/reply.h"

extern const srv_route srv_routes[];

/* srv_form_of_path -- how errors at a path are written, e.g. that its key is wrong; NULL: in OpenAI's form. */
srv_error_form *srv_form_of_path(const char *path);

/* srv_health_of -- "ok", "draining", or "stalled": the current step has taken step_us, longer than any normal step. */
const char *srv_health_of(bool draining, int64_t step_us);

/* srv_enter -- takes a place in the queue (generate.c). */
srv_verdict srv_enter(srv_call *call);

/* Handlers of other files. */
srv_sent srv_chat(srv_call *call); /* generate.c */
srv_sent srv_completion(srv_call *call);
srv_sent srv_response(srv_call *call);
srv_sent srv_copies(srv_call *call); /* copies.c */
srv_sent srv_requests(srv_call *call); /* jobs.c */
srv_sent srv_props(srv_call *call); /* props.c */
srv_sent srv_slots(srv_call *call);
srv_sent srv_search(srv_call *call); /* search.c */
srv_sent srv_tokenize(srv_call *call); /* tokens.c */
srv_sent srv_detokenize(srv_call *call);
srv_sent srv_apply_template(srv_call *call);

#endif
