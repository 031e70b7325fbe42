/* routes.h -- which handler answers which path; replies. */
#ifndef SP_SERVER_ROUTES_H
#define SP_SERVER_ROUTES_H

#include "server/server_int.h"

/* srv_route -- answers a request that has been received completely. Thread: any. */
srv_sent srv_route(srv_call *call);

/* srv_send -- every reply goes through it: adds X-Request-Id, and notes the status for the log
 * (exchange.c). The response remains the caller's. */
srv_sent srv_send(struct MHD_Connection *c, int status, struct MHD_Response *r);
/* srv_reply_json -- consumes o; NULL replies that memory is out. */
srv_sent srv_reply_json(struct MHD_Connection *c, int status, json_t *o);
/* srv_reply_events -- a stream of server-sent events; takes r. */
srv_sent srv_reply_events(struct MHD_Connection *c, struct MHD_Response *r);
/* srv_reply_full -- 429: too many requests wait; Retry-After is what they will take at the present pace. */
srv_sent srv_reply_full(const srv_call *call);
/* srv_reply_error -- in OpenAI's form; param and code may be NULL. */
srv_sent srv_reply_error(struct MHD_Connection *c, int status, const char *param, const char *code,
                         const char *message);

/* Handlers of other files. */
srv_sent srv_chat(srv_call *call); /* generate.c */
srv_sent srv_completion(srv_call *call);
srv_sent srv_props(srv_call *call); /* props.c */
srv_sent srv_slots(srv_call *call);
srv_sent srv_tokenize(srv_call *call); /* tokens.c */
srv_sent srv_detokenize(srv_call *call);
srv_sent srv_apply_template(srv_call *call);

#endif
