/* ollama.h -- Ollama's API: /api/chat and /api/generate (a stream is JSON, one object a line), and what it tells of
 * the model: /api/tags, /api/show, /api/ps, /api/version. */
#ifndef SP_SERVER_DIALECTS_OLLAMA_H
#define SP_SERVER_DIALECTS_OLLAMA_H

#include "server/api/dialect.h"

json_t *srv_ollama_chat_body(srv_fields *f, bool *chat); /* ollama_body.c */
json_t *srv_ollama_generate_body(srv_fields *f, bool *chat);

/* Handlers. */
srv_sent srv_ollama_chat_call(srv_call *call);
srv_sent srv_ollama_generate_call(srv_call *call);
srv_sent srv_ollama_tags(srv_call *call); /* ollama_model.c */
srv_sent srv_ollama_show(srv_call *call);
srv_sent srv_ollama_ps(srv_call *call);
srv_sent srv_ollama_version(srv_call *call);

/* srv_ollama_time -- as RFC 3339. */
json_t *srv_ollama_time(long long seconds);

#endif
