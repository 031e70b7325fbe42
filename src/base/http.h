/* http.h -- bounded HTTP requests to one server. Thread: one at a time for each connection. */
#ifndef SP_BASE_HTTP_H
#define SP_BASE_HTTP_H

#include "base/mem.h"

typedef struct sp_http sp_http;

/* sp_http_open -- one connection, kept between requests. Only http and https; no redirects. */
sp_err sp_http_open(const char *url, int timeout_ms, sp_http **out) SP_MUST_CHECK;
void sp_http_close(sp_http *h);

#define SP_HTTP_MAX_BYTES (32 << 20)

/* sp_http_post -- posts a form and replaces *reply by the body of the answer.
 * Errors: SP_E_IO names the URL and the reason: no connection, a time-out, an HTTP status other than
 * success with the first line of its body, a broken connection; SP_E_LIMIT: a body of more
 * than SP_HTTP_MAX_BYTES. */
typedef struct sp_http_field {
    const char *name, *value;
    size_t n;
} sp_http_field;
sp_err sp_http_post(sp_http *h, const sp_http_field *fields, int n_fields, const char *accept,
                    sp_bytes *reply) SP_MUST_CHECK;

typedef struct sp_http_request {
    const char *method;
    const char *path; /* appended to the URL; NULL: nothing */
    const char *accept;
    const char *type;   /* of the body */
    const char *header; /* one more, or NULL */
    const char *body;   /* [n] */
    size_t n;
} sp_http_request;

/* sp_http_send -- sends any request; errors as of sp_http_post. sp_http_status -- the status of the last answer; 0: no
 * answer yet. */
sp_err sp_http_send(sp_http *h, const sp_http_request *r, sp_bytes *reply) SP_MUST_CHECK;
long sp_http_status(const sp_http *h);

#endif
