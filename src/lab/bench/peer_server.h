/* peer_server.h -- another OpenAI-compatible server, asked for the time to its first token. */
#ifndef SP_LAB_BENCH_PEER_SERVER_H
#define SP_LAB_BENCH_PEER_SERVER_H

#include "lab/bench/prompts.h"

typedef struct peer_server peer_server;

typedef struct peer_server_opts {
    const char *url;   /* http://host:port, with or without /v1 */
    const char *model; /* NULL: the first in its list */
    const char *key;   /* API key, or NULL */
} peer_server_opts;

/* peer_server_open -- asks the server for its models unless one is given. NULL after an error
 * message. */
peer_server *peer_server_open(const peer_server_opts *o);
void peer_server_close(peer_server *p);

/* peer_server_ask -- streams one token of an answer; *ttft_us: from sending the prompt to the first
 * event that carries text (or ends the answer). It uses text completions, or chat completions
 * when the server has no others. False after an error message. */
bool peer_server_ask(peer_server *p, const bench_prompt *prompt, int64_t *ttft_us);

#endif
