/* call.h -- the server, and one request to it as the transport delivers it. */
#ifndef SP_SERVER_HTTP_CALL_H
#define SP_SERVER_HTTP_CALL_H

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "server/http/body.h"
#include "server/http/keys.h"
#include "server/http/limits.h"
#include "server/http/log.h"
#include "server/http/metrics.h"
#include "server/http/options.h"
#include "server/http/pace.h"
#include "spolia_documents.h"

typedef struct srv_exchanges srv_exchanges; /* exchange.c */
typedef struct srv_call srv_call;
typedef struct srv_collections srv_collections; /* documents/collections.h */
typedef enum MHD_Result srv_sent; /* of a reply; MHD_NO closes the connection */
typedef srv_sent srv_handler(srv_call *call);
/* srv_error_form -- an error as clients of an API read it; code may be NULL. */
typedef json_t *srv_error_form(int status, const char *code, const char *why);

typedef struct srv_route {
    const char *method, *path; /* method NULL: the end of the table */
    srv_handler *run;
    bool open;  /* without a key */
    bool probe; /* not logged */
    bool below; /* and every path that begins so */
    bool form;  /* takes multipart/form-data, too */
} srv_route;

typedef struct srv_server {
    srv_options o;
    sp_context *ctx;
    const sp_vocab *vocab;
    sp_context_info info; /* as at the start: names and sizes */
    size_t most_text;     /* bytes of a prompt's text (api/room.h) */
    int n_cores;          /* that the process may use */
    srv_keys *keys; /* NULL: none are needed */
    srv_quotas *quotas;
    srv_bodies bodies;
    srv_exchanges *exchanges;
    srv_metrics metrics;
    srv_pace pace;
    const srv_route *routes;
    srv_error_form *(*error_form_of)(const char *path); /* which returns NULL for OpenAI's form */
    sp_documents *documents;
    srv_collections *collections;
    struct srv_work *work;       /* documents/work.h */
    struct srv_idle *idle;       /* documents/idle.h */
    struct srv_explain *explain; /* api/explain.h */
    struct {
        struct srv_job *newest; /* of those under way; under the lock (api/jobs.h) */
        pthread_mutex_t lock;
    } jobs;
    pthread_mutex_t counting; /* held while documents of a key with limits are counted and one is registered */
    struct {
        pthread_mutex_t lock;
        sp_graph *of; /* under the lock; or NULL */
    } graph;
    struct {
        atomic_int n_active;     /* requests in the library */
        atomic_int n_prefilling; /* of these, those whose prompt is not computed yet */
        atomic_bool draining;    /* no new requests */
    } counts;
    _Atomic int64_t side_until_us; /* side work rests until then (documents/side.h) */
    long long started;      /* seconds since 1970 */
    uint64_t run;           /* in ids of answers, which differ from those of other servers and of an earlier start */
    atomic_ullong next_id;
} srv_server;

/* What computes a reply: `leave` cancels it when the client hangs up, `end` frees it when the exchange ends. */
typedef struct srv_running {
    void *of; /* NULL: nothing */
    void (*leave)(void *of), (*end)(void *of);
} srv_running;

/* The places of a request in the queue; the end of the exchange releases them. */
typedef struct srv_place {
    srv_account *account; /* NULL: it has none */
    int n;
} srv_place;

/* A request as HTTP delivers it. */
struct srv_call {
    srv_server *s;
    struct MHD_Connection *connection;
    const char *method, *path, *version;
    const char *authority; /* of an absolute target, with what follows it: names the host; NULL: the header does */
    const char *body; /* NUL-terminated, n bytes */
    size_t n;
    const srv_route *route;
    const srv_tenant *tenant;
    const char *salt; /* of the tenant; NULL: none */
    const char *
        cache_salt; /* of the body: a part of the tenant's cache that others do not share; or NULL */
    json_t *graph;  /* of the body, true: paths of the graph are added; or NULL */
    sp_documents_reading reading; /* of texts for its prompts */
    struct srv_retrieval *retrieval; /* from a collection (documents/collections.h); NULL: none is asked for */
    sp_tree_mode trees;   /* positions of trees */
    sp_chunk_find find;         /* chunks in messages */
    json_t *asked;        /* a response: the body as it came; borrowed */
    srv_record *record;   /* for the log */
    srv_running *running; /* what computes the reply; srv_exchange_watch sets it */
    srv_place *place;     /* in the queue */
    srv_left *left;       /* of the tenant's limits, for the reply's headers */
};

/* srv_salt_of -- the salt of the caller's tenant, with its cache_salt; *out NULL: none. False: out of memory.
 * Owns: free. */
bool srv_salt_of(const srv_call *call, char **out);

int64_t srv_now_us(void); /* monotonic */

/* Requests in the library: those that may run at the same time, and the others. */
typedef struct srv_load {
    int n_running, n_waiting;
} srv_load;

srv_load srv_load_of(const srv_server *s);

#endif
