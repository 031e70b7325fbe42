/* serve_load.h -- one run of a load test: requests that arrive at a rate, to one server. */
#ifndef SP_LAB_BENCH_SERVE_LOAD_H
#define SP_LAB_BENCH_SERVE_LOAD_H

#include <curl/curl.h>
#include <jansson.h>

#include "lab/bench/serve_prompts.h"
#include "lab/bench/serve_stream.h"

typedef struct load_server {
    char *name; /* in tables */
    char *base; /* without trailing slash and /v1 */
    char *model;
    bool in_text; /* documents are in the text of the message, not in the field */
    struct curl_slist *headers;
    json_t *extra; /* further fields of each body; borrowed; or NULL */
} load_server;

typedef struct load_server_opts {
    const char *url;       /* [NAME=]http://host:port[/v1] */
    const char *model;     /* NULL: the first in the server's list */
    const char *key;       /* API key, or NULL */
    const char *documents; /* "auto", "field" or "text" */
    json_t *extra;         /* borrowed, or NULL */
} load_server_opts;

/* load_server_open -- asks the server for its models. False after an error message. */
bool load_server_open(const load_server_opts *o, load_server *out);
void load_server_close(load_server *s);

typedef struct load_run {
    const load_server *server;
    const load_source *source;
    double rate; /* requests a second, a Poisson process; 0: all at once */
    int first;   /* prompt of the source */
    int n_requests;
    int concurrency; /* most at the same time; others wait, and their time counts; 0: no limit */
    int n_predict;
    double hang_up; /* share of clients that close the connection during the answer */
    int timeout_s;  /* of one request */
    int limit_s;    /* of the run: what is not answered then has failed; 0: none */
    uint64_t seed;
} load_run;

typedef struct load_result {
    int n_answered, n_refused, n_failed, n_left; /* refused: status 429; left: hung up on purpose */
    double seconds;                              /* from the first arrival to the last answer */
    double drain;                                /* from the last arrival to the last answer */
    load_times ttft;                             /* from the arrival to the first token */
    load_times gaps;                             /* between tokens */
    load_times total;                            /* from the arrival to the end */
    int64_t n_generated, n_prompt, n_cached;     /* of answered requests */
    int most_open;                               /* connections in use at the same time */
    char error[256];                             /* the first failure; "": none */
} load_result;

/* load_execute -- false after an error message when the run could not be made. */
bool load_execute(const load_run *run, load_result *out);
void load_result_fini(load_result *r);

#endif
