/* server.h -- `spolia serve`: the OpenAI-compatible HTTP server, a client of the public library.
 *
 * http/ is the transport, body/ reads what a body asks for, documents/ keeps what answers are made from, api/ answers,
 * dialects/ are the forms of other APIs. Each includes those before it, never the reverse.
 *
 *   http/exchange.c          connections, requests, deadlines, hang-ups
 *   http/gate.c              checks before a body is read: host, origin, path, key, type
 *   http/body.c              bodies, and their limits
 *   http/limits.c            limits of a key: places in the queue, requests and tokens a minute
 *   http/reply.c             replies, errors
 *   http/keys.c              API keys, and the tenants' salts derived from them
 *   http/pace.c              when a refused client should retry
 *   http/metrics.c           counters and histograms, in Prometheus' text format
 *   http/log.c               a line for each request, with its id
 *
 *   body/fields.c            typed fields of a JSON body; the first error names its field
 *   body/task.c              a body -> what to generate: sampling, limits, reuse
 *   body/unsupported.c       fields that would change the answer and are refused
 *   body/chat.c              messages in one form
 *   body/tools.c             functions that the model may call; calls.c finds its calls
 *   body/constrain.c         response_format and similar fields -> a grammar
 *   body/upload.c            the body that registers a document
 *
 *   documents/documents.c    /v1/documents; given.c: documents that a chat gives or names
 *   documents/collections.c  what requests are answered from: indices of files, and collections of keys
 *   documents/collection_calls.c   /v1/collections; collection_files.c: the files of an index
 *   documents/search.c       /v1/search; copies.c: what is cached, as a tree
 *   documents/work.c         documents computed ahead, on a thread of their own; watch.c: their progress as events
 *   documents/idle.c         vectors and copies of collections, while nobody asks
 *   documents/ahead.c        whether an answer begins before the search for its passages has ended
 *   documents/side.c         work that gives way to answers
 *
 *   api/generate.c           completions: task, prompt, job, reply
 *   api/room.c               texts that cannot fit, by their bytes
 *   api/messages.c           messages and documents -> a prompt
 *   api/job.c                a task's requests to the library, and their text as it arrives
 *   api/answer.c             JSON of answers: choices, usage, timings, the account
 *   api/logprobs.c           probabilities of tokens as JSON
 *   api/echo.c               the prompt before a completion, with its probabilities
 *   api/stream.c             the same as server-sent events
 *   api/retain.c             cache_control: how long copies are kept
 *   api/dialect.c            the APIs: for each a reader of bodies and a writer of answers
 *   api/tokens.c             /tokenize, /detokenize
 *   api/citations.c          which documents each sentence of an answer looks at
 *   api/embeddings.c         vectors of texts, for OpenAI's and Ollama's clients
 *   api/rerank.c             /v1/rerank, /v1/score; rank.c: how well documents answer
 *   api/retrieval.c          a chat that is answered from a collection; filter.c: from some of its documents
 *   api/trees.c              dependency trees, given or from a graph
 *   api/explain.c            the accounts of the last requests
 *
 *   dialects/responses.c     OpenAI's responses; responses_body.c makes a chat of their body
 *   dialects/anthropic.c     Anthropic's messages; anthropic_body.c
 *   dialects/ollama.c        Ollama's chat and generate; ollama_body.c, ollama_model.c
 *   dialects/llama.c         llama.cpp's completion and infill
 *
 *   routes.c                 path and method -> handler
 */
#ifndef SP_SERVER_SERVER_H
#define SP_SERVER_SERVER_H

#include "server/http/options.h"

/* srv_prepare -- blocks the signals that srv_run waits for. Call it before the context is opened,
 * whose threads inherit it. */
void srv_prepare(void);

/* srv_run -- serves the context until SIGINT or SIGTERM; prints the address once it listens.
 * Returns the exit code; the context belongs to the caller again. */
int srv_run(const srv_options *o, sp_context *c);

#endif
