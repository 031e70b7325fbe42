/* embeddings.h -- vectors of texts by the encoder of --embedding: OpenAI's /v1/embeddings, Ollama's /api/embed and
 * /api/embeddings. */
#ifndef SP_SERVER_API_EMBEDDINGS_H
#define SP_SERVER_API_EMBEDDINGS_H

#include "server/http/call.h"

/* Handlers. */
srv_sent srv_embeddings(srv_call *call);
srv_sent srv_ollama_embed(srv_call *call);
srv_sent srv_ollama_embeddings(srv_call *call); /* one text, in "prompt" */

/* srv_embedder_json -- an entry of /v1/models. Pre: there is one. */
json_t *srv_embedder_json(const srv_server *s);

#endif
