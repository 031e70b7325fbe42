/* body.h -- receives the body of a request. The total size of all bodies is limited, too. */
#ifndef SP_SERVER_HTTP_BODY_H
#define SP_SERVER_HTTP_BODY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Of the server. */
typedef struct srv_bodies {
    size_t most_each, most_all;
    atomic_size_t n_all; /* allocated for bodies now */
} srv_bodies;

typedef enum srv_fit { SRV_FITS, SRV_BODY_TOO_LONG, SRV_BODIES_FULL } srv_fit;

typedef struct srv_body {
    char *data; /* [n] and NUL; NULL: empty */
    size_t n, cap;
    size_t n_dropped;
    srv_fit fit; /* unless SRV_FITS, the rest is dropped */
} srv_body;

/* srv_body_take -- appends a piece. What does not fit is read and dropped for a while, so that the client sees the
 * reply; false: no longer. length: as announced; 0: unknown. */
bool srv_body_take(srv_bodies *all, srv_body *b, const char *data, size_t n, size_t length);
void srv_body_fini(srv_bodies *all, srv_body *b);

#endif
