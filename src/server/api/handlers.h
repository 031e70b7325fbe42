/* handlers.h -- handlers of paths, of files that have no header of their own (routes.c). */
#ifndef SP_SERVER_API_HANDLERS_H
#define SP_SERVER_API_HANDLERS_H

#include "server/http/call.h"
#include "server/http/reply.h"

/* srv_enter -- takes a place in the queue (generate.c). */
srv_verdict srv_enter(srv_call *call);

srv_sent srv_chat(srv_call *call); /* generate.c */
srv_sent srv_completion(srv_call *call);
srv_sent srv_response(srv_call *call);
srv_sent srv_requests(srv_call *call); /* jobs.c */
srv_sent srv_props(srv_call *call); /* props.c */
srv_sent srv_slots(srv_call *call);
srv_sent srv_tokenize(srv_call *call); /* tokens.c */
srv_sent srv_detokenize(srv_call *call);
srv_sent srv_apply_template(srv_call *call);

#endif
