/* server.h -- `spolia serve`: the OpenAI-compatible HTTP server, a client of the public library.
 *
 *   exchange.c   HTTP: connections, bodies, deadlines, hang-ups
 *   routes.c     path and method -> handler; API keys
 *   fields.c     typed fields of a JSON body; the first error names its field
 *   task.c       a body -> what to generate: sampling, limits, reuse
 *   chat.c       messages in one form
 *   tools.c      functions that the model may call; calls.c finds its calls
 *   constrain.c  response_format and its kin -> a grammar
 *   generate.c   completions: task, prompt, job, reply
 *   messages.c   messages and documents -> a prompt
 *   job.c        a task's requests to the library, and their text as it arrives
 *   answer.c     JSON of answers: choices, usage, timings, the account
 *   logprobs.c   probabilities of tokens as JSON
 *   echo.c       the prompt before a completion, with its probabilities
 *   stream.c     the same as server-sent events
 *   responses.c  the same as responses; responses_body.c makes a chat of their body
 *   tokens.c     /tokenize, /detokenize
 *   metrics.c    counters and histograms, in Prometheus' text format
 *   log.c        a line for each request, with its id
 *   documents.c  /v1/documents, and documents that a chat names
 *   upload.c     the body that registers a document
 *   work.c       documents computed ahead, on a thread of their own; watch.c: their progress as events
 *   trees.c      dependency trees, given or from a graph
 *   explain.c    the accounts of the last requests
 *   keys.c       API keys, and the tenants' salts derived from them
 */
#ifndef SP_SERVER_SERVER_H
#define SP_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "server/log.h"
#include "spolia.h"

#define SRV_MAX_N 16 /* choices of one request */

typedef struct srv_options {
    const char *host;
    int port;              /* 0: any that is free */
    const char *alias;     /* name of the model in answers */
    const char *keys_path; /* file of API keys, one a line; NULL: none are required */
    int n_parallel;        /* requests that run at the same time */
    int n_queue;           /* requests that may wait; more are refused */
    int n_connections;
    size_t body_bytes; /* longest body */
    int read_seconds;  /* to receive a request */
    int stall_seconds; /* for a client that does not read */
    int drain_seconds; /* for running requests, at shutdown */
    srv_log_format log;
    const char *documents_path;    /* file of registered documents; NULL: memory */
    int size_words, overlap_words; /* of their chunks; size 0: 150 */
    const char *graph;             /* for "graph": true; NULL: none */
    sp_find find;                  /* chunks in messages, when the request does not say */
    int max_tokens;                /* of an answer, when the request does not say */
    sp_sampling sampling;          /* of requests that do not say */
} srv_options;

/* srv_find_of -- "none", "known", "repeats"; false: another name, or NULL. */
bool srv_find_of(const char *name, sp_find *out);

/* srv_prepare -- blocks the signals that srv_run waits for. Call it before the context is opened,
 * whose threads inherit it. */
void srv_prepare(void);

/* srv_run -- serves the context until SIGINT or SIGTERM; prints the address once it listens.
 * Returns the exit code; the context belongs to the caller again. */
int srv_run(const srv_options *o, sp_context *c);

#endif
