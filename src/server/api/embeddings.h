/* embeddings.h -- vectors of texts by the encoder of --embedding: OpenAI's /v1/embeddings, Ollama's /api/embed and
 * /api/embeddings. */
#ifndef SP_SERVER_API_EMBEDDINGS_H
#define SP_SERVER_API_EMBEDDINGS_H

#include "server/http/call.h"

/* Handlers. */
srv_sent srv_embeddings(srv_call *call);
srv_sent srv_ollama_embed(srv_call *call);
srv_sent srv_ollama_embeddings(srv_call *call); /* one text, in "prompt" */

/* srv_encoder_json -- an entry of /v1/models. */
json_t *srv_encoder_json(const srv_server *s, const sp_embedder *e, const char *name);

#endif
