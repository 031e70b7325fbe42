/* server_int.h -- what the parts of the server share. */
#ifndef SP_SERVER_SERVER_INT_H
#define SP_SERVER_SERVER_INT_H

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "server/explain.h"
#include "server/keys.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/pace.h"
#include "server/server.h"
#include "spolia_documents.h"

typedef struct srv_exchanges srv_exchanges; /* exchange.c */

typedef struct srv_server {
    srv_options o;
    sp_context *ctx;
    const sp_vocab *vocab;
    sp_context_info info; /* as at the start: names and sizes */
    srv_keys *keys;
    srv_exchanges *exchanges;
    srv_metrics metrics;
    srv_pace pace;
    sp_documents *documents;
    struct srv_work *work; /* work.h */
    srv_explain *explain;
    pthread_mutex_t graph_lock;
    sp_graph *graph;      /* under graph_lock; or NULL */
    atomic_int n_active;  /* requests in the library */
    atomic_bool draining; /* no new requests */
    atomic_ullong next_id;
    long long started; /* seconds since 1970 */
} srv_server;

/* One request as HTTP delivers it. */
typedef struct srv_call {
    srv_server *s;
    struct MHD_Connection *connection;
    const char *method, *path;
    const char *body; /* NUL-terminated, n bytes */
    size_t n;
    const char *salt; /* tenant; NULL: none */
    const char *
        cache_salt; /* of the body: a part of the tenant's cache that others do not share; or NULL */
    json_t *graph;  /* of the body, true: paths of the graph are added; or NULL */
    sp_tree_mode trees;   /* positions of trees */
    sp_find find;         /* chunks in messages */
    json_t *asked;        /* a response: the body as it came; borrowed */
    srv_record *record;   /* for the log */
    struct srv_job **job; /* where a handler leaves its job: destroyed when the exchange ends */
} srv_call;

typedef enum MHD_Result srv_sent; /* of a reply; MHD_NO closes the connection */

typedef srv_sent srv_handler(srv_call *call);

int64_t srv_now_us(void); /* monotonic */

/* Requests in the library: those that may run at the same time, and the others. */
typedef struct srv_load {
    int n_running, n_waiting;
} srv_load;

srv_load srv_load_of(const srv_server *s);

/* srv_pieces -- the bytes of a list of token ids, NUL-terminated after n. NULL: an id outside the
 * vocabulary, or out of memory. Owns: free. */
char *srv_pieces(const srv_server *s, const json_t *ids, size_t *n);

/* srv_salt_of -- the salt of the caller's tenant, with its cache_salt; *out NULL: none. False: out of
 * memory. Owns: free. */
bool srv_salt_of(const srv_call *call, char **out);
/* srv_prompt_create -- an empty prompt of the caller's tenant. */
sp_err srv_prompt_create(const srv_call *call, sp_prompt **out);

#endif
