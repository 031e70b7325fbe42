/* options.h -- the options of `spolia serve`. */
#ifndef SP_SERVER_HTTP_OPTIONS_H
#define SP_SERVER_HTTP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "server/http/log.h"
#include "spolia.h"

#define SRV_MAX_N 16 /* choices of one request */

typedef struct srv_server_limits {
    int n_parallel;        /* requests that run at the same time */
    int n_queue;           /* requests that may wait; more are refused */
    int n_connections;
    int n_address_connections; /* of one address; 0: half of n_connections */
    size_t body_bytes;   /* longest body */
    size_t bodies_bytes; /* of all requests that are being read or answered */
    int read_seconds;  /* to receive a request */
    int stall_seconds; /* for a client that does not read */
    int drain_seconds; /* for running requests, at shutdown */
    int n_ahead; /* answers begin before their search ends only if fewer prompts wait or are computed; 0: never */
} srv_server_limits;

/* Models besides the one that answers. */
typedef struct srv_models {
    sp_embedder *embedder;     /* borrowed; NULL: none */
    const char *embedder_name; /* in answers */
    sp_embedder *reranker;     /* a cross-encoder; borrowed; NULL: the chat model ranks */
    const char *reranker_name;
} srv_models;

typedef struct srv_options {
    const char *host;
    int port;              /* 0: any that is free */
    const char *alias;     /* name of the model in answers */
    const char *model;     /* its path: what was calibrated is beside it; NULL: defaults */
    const char *allowed_hosts; /* names of this server besides its own, comma between them; "*": any; or NULL */
    const char *cors_origins;  /* of web pages that may use it, comma between them; "*": any; or NULL */
    const char *keys_path; /* file of API keys, one a line; NULL: none are required */
    srv_server_limits limits;
    srv_log_format log;
    srv_models models;
    const char *documents_path;    /* file of registered documents; NULL: memory */
    int size_words, overlap_words; /* of their chunks; size 0: 150 */
    const char *const *collections; /* [n_collections] NAME=PATH */
    int n_collections;
    float idle_share; /* share of the KV memory for copies of passages computed while idle; 0: none */
    sp_graph_open_opts graph;      /* for "graph": true; where NULL: none */
    bool no_page;                  /* no web page at / */
    sp_chunk_find find;            /* chunks in messages; default of requests */
    int max_tokens;                /* of an answer; default of requests */
    sp_sampling sampling;          /* defaults of requests that do not set it */
} srv_options;

/* srv_find_of -- "none", "known", "repeats"; false: another name, or NULL. */
bool srv_find_of(const char *name, sp_chunk_find *out);
/* srv_collections_check -- of srv_options.collections [n]: false after an error message about a text that is not
 * NAME=PATH, or a name given twice. Opens nothing. */
bool srv_collections_check(const char *const *given, int n);

#endif
