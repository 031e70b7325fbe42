/* reply.h -- replies: JSON, events, and errors in the form of the API that the path belongs to. */
#ifndef SP_SERVER_HTTP_REPLY_H
#define SP_SERVER_HTTP_REPLY_H

#include "server/http/call.h"

/* srv_text_json -- a string; bytes that are not UTF-8 (such as a cut character) become U+FFFD. NULL: out of memory. */
json_t *srv_text_json(const char *text, size_t n);
/* srv_error_json -- OpenAI's error object. param and code may be NULL or "". */
json_t *srv_error_json(int status, const char *param, const char *code, const char *message);
/* srv_error_status -- the HTTP status and OpenAI's code of a library error. */
int srv_error_status(sp_err err, const char **code);
/* srv_record_of -- the current request's; NULL: it has none. (exchange.c) */
srv_record *srv_record_of(struct MHD_Connection *c);
/* srv_error_form_of -- that of the current request's path; NULL: OpenAI's. (exchange.c) */
srv_error_form *srv_error_form_of(struct MHD_Connection *c);
/* srv_send -- sends every reply: adds X-Request-Id, what is left of the key's limits, and the headers that web pages
 * need; records the status for the log (exchange.c). The caller keeps ownership of the response. */
srv_sent srv_send(struct MHD_Connection *c, int status, struct MHD_Response *r);
/* srv_add_header -- without memory for it, the reply will be 503. */
void srv_add_header(struct MHD_Response *r, const char *name, const char *value);
/* srv_reply_no_memory -- 503. */
srv_sent srv_reply_no_memory(struct MHD_Connection *c);
/* srv_reply_text -- takes ownership of text; for NULL it replies that memory is exhausted. */
srv_sent srv_reply_text(struct MHD_Connection *c, int status, const char *type, char *text);
/* srv_reply_json -- consumes o; for NULL it replies that memory is exhausted. */
srv_sent srv_reply_json(struct MHD_Connection *c, int status, json_t *o);
/* srv_reply_events -- a stream of server-sent events, or of JSON objects, one a line; takes r. */
srv_sent srv_reply_events(struct MHD_Connection *c, struct MHD_Response *r, bool lines);
/* srv_reply_refused -- 429: no place in the queue, or a limit of the key. Retry-After is the time that the waiting
 * requests will take at the present pace, or until the key's bucket is full enough. */
srv_sent srv_reply_refused(const srv_call *call, srv_verdict v);
/* srv_reply_bodies_full -- 503; srv_reply_too_long -- 413; srv_reply_method -- 405, with the methods of the path. */
srv_sent srv_reply_bodies_full(const srv_call *call);
srv_sent srv_reply_too_long(const srv_call *call);
srv_sent srv_reply_method(const srv_call *call, const char *methods);
/* srv_reply_error -- param, of OpenAI's form alone, and code may be NULL. */
srv_sent srv_reply_error(struct MHD_Connection *c, int status, const char *param, const char *code,
                         const char *message);

#endif
