/* bench_peer.h -- another OpenAI-compatible server, asked for the time to its first token. */
#ifndef SP_CMD_BENCH_PEER_H
#define SP_CMD_BENCH_PEER_H

#include "cmd/bench_text.h"

typedef struct bench_peer bench_peer;

typedef struct bench_peer_opts {
    const char *url;   /* http://host:port, with or without /v1 */
    const char *model; /* NULL: the first that it lists */
    const char *key;   /* API key, or NULL */
} bench_peer_opts;

/* bench_peer_open -- asks the server for its models, if none is named. NULL after explaining. */
bench_peer *bench_peer_open(const bench_peer_opts *o);
void bench_peer_close(bench_peer *p);

/* bench_peer_ask -- streams one token of an answer; *ttft_us: from sending the prompt to the first
 * event that carries text (or ends the answer). Text completions first; a server without them is
 * asked for chat completions from then on. False after explaining. */
bool bench_peer_ask(bench_peer *p, const bench_prompt *prompt, int64_t *ttft_us);

#endif
