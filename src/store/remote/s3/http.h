/* http.h -- requests to one bucket of an object store, many at once over kept connections, signed (SigV4 of
 * libcurl). */
#ifndef SP_STORE_REMOTE_S3_HTTP_H
#define SP_STORE_REMOTE_S3_HTTP_H

#include "base/mem.h"
#include "store/remote/link.h"

typedef struct sp_s3_http sp_s3_http; /* of one thread */

/* sp_s3_http_open -- sends nothing. Errors: SP_E_ARG (the URL, the account), SP_E_NOMEM. */
sp_err sp_s3_http_open(const sp_remote_site *s, sp_s3_http **out) SP_MUST_CHECK;
void sp_s3_http_close(sp_s3_http *h);
/* sp_s3_http_prefix -- of all keys. */
const char *sp_s3_http_prefix(const sp_s3_http *h);
/* sp_s3_http_is_broken -- a request failed for a reason that will make the next one fail: no answer, no access. */
bool sp_s3_http_is_broken(const sp_s3_http *h);

/* What the receiver did with bytes. */
typedef enum sp_s3_took { SP_S3_TAKEN, SP_S3_LATER /* the same again, after sp_s3_resume */, SP_S3_ENOUGH } sp_s3_took;

typedef struct sp_s3_request {
    const char *method;   /* GET, HEAD, PUT, POST, DELETE */
    const char *key;      /* of an object, with the prefix; "": the bucket */
    const char *query;    /* names in order, escaped; NULL: none */
    uint64_t first, n;    /* bytes of the object; n 0: all */
    const void *body;     /* [n_body] */
    size_t n_body;
    bool if_absent;       /* put: only if the object does not exist (is_there) */
    const char *note;     /* put: metadata of the object; NULL: none */
    /* The body of a success; NULL: it becomes `text`. */
    sp_s3_took (*take)(void *user, const uint8_t *data, size_t n);
    bool (*is_wanted)(void *user);              /* NULL: it is */
    void (*end)(struct sp_s3_request *request); /* once; NULL: nothing */
    void *user;

    /* SP_E_NOTFOUND: no such object; SP_E_FORMAT: it is too short; SP_E_UNSUPPORTED: the store does not know
     * if_absent; SP_E_CANCELED; SP_E_IO */
    sp_err err;
    char detail[512];
    bool is_there;   /* if_absent: nothing was put */
    char etag[80], said_note[160]; /* of the answer */
    sp_bytes text;   /* ends with NUL; sp_s3_request_fini */
    struct sp_s3_way *way; /* while it is sent and answered */
} sp_s3_request;

/* sp_s3_run -- runs all requests until they have ended. If none receives a byte for the site's timeout_us, they end
 * with SP_E_IO. Errors: that of the first one that failed. */
sp_err sp_s3_run(sp_s3_http *h, sp_s3_request *v, int n) SP_MUST_CHECK;
/* sp_s3_resume -- called from a callback of another request: bytes that this one postponed are delivered again. */
void sp_s3_resume(sp_s3_request *r);
void sp_s3_request_fini(sp_s3_request *r);
/* sp_s3_request_fail -- its error, with its detail. */
sp_err sp_s3_request_fail(const sp_s3_request *r) SP_MUST_CHECK;

#endif
