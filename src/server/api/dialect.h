/* dialect.h -- the APIs: how each reads a request to generate and writes its answer.
 *
 *   body --dialect.body--> body of a chat or of completions --generate.c--> job --dialect.whole--> object
 *                                                                              --dialect.write--> events
 *
 *   openai       stream.c, answer.c                 /v1/chat/completions, /v1/completions
 *   responses    responses_body.c, responses.c      /v1/responses
 *   anthropic    anthropic_body.c, anthropic.c      /v1/messages
 *   ollama       ollama_body.c, ollama.c            /api/chat, /api/generate
 *   llama.cpp    llama.c                            /completion, /infill
 */
#ifndef SP_SERVER_API_DIALECT_H
#define SP_SERVER_API_DIALECT_H

#include "server/api/job.h"

typedef struct srv_dialect {
    const char *id;            /* how ids begin; NULL: as OpenAI's */
    bool lines;                /* a stream is JSON, one object a line; else server-sent events */
    const char *ping;          /* sent after a while of silence; NULL: a comment */
    const char *renamed[6][2]; /* a field of the chat, and its name here */
    /* body -- the body of a chat (*chat stays true) or of completions with the same meaning; NULL after an error in
     * *f. Fields that both have are kept. Owns: json_decref. */
    json_t *(*body)(srv_fields *f, bool *chat);
    json_t *(*whole)(const srv_job *j); /* of a job that is done */
    /* write -- adds the new part of a stream, and its end. Called with the lock held; false: the stream breaks off. */
    bool (*write)(srv_job *j);
    /* error -- of all errors at its paths (routes.c); NULL: OpenAI's form. */
    srv_error_form *error;
} srv_dialect;

extern const srv_dialect srv_openai, srv_responses, srv_anthropic, srv_ollama_chat,
    srv_ollama_generate, srv_llama_completion, srv_llama_infill;

/* srv_generate -- answers a request of a dialect (generate.c). */
srv_sent srv_generate(srv_call *call, const srv_dialect *dialect, bool chat);
/* srv_dialect_param -- the name that a field of the chat has in a dialect. */
const char *srv_dialect_param(const srv_dialect *dialect, const char *param);
/* srv_dialect_error -- replies with the names that fields have in a dialect. */
srv_sent srv_dialect_error(const srv_call *call, const srv_dialect *dialect, int status,
                           const srv_fields *f, const char *code);

/* -- parts of readers -- */
/* srv_body_copy -- the body without fields that mean something else in a chat. */
json_t *srv_body_copy(const srv_fields *f, const char *const *replaced, size_t n);
/* srv_body_continue -- lets the answer continue a last message of the assistant in a chat's body, which may have no
 * calls: `why` is the error then. */
void srv_body_continue(srv_fields *f, json_t *body, const char *why);

/* -- parts of writers -- */
/* srv_job_key -- the part that all ids of a request share. */
const char *srv_job_key(const srv_job *j);
/* srv_arguments_json -- arguments of a call as an object: {} where they are none. */
json_t *srv_arguments_json(const json_t *call);
/* srv_said_of -- the parts of choice i so far; a call that was cut is open. Owns: srv_said_fini. */
void srv_said_of(const srv_job *j, int i, srv_said *found);
/* srv_stream_line -- adds an object, which is consumed, as a line. */
bool srv_stream_line(srv_job *j, json_t *o);

#endif
