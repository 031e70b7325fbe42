/* task.h -- the request to generate, as read from a body. */
#ifndef SP_SERVER_BODY_TASK_H
#define SP_SERVER_BODY_TASK_H

#include "server/body/fields.h"
#include "server/body/said.h"
#include "server/http/options.h"

#define SRV_MAX_STOP 16

/* What a reply has besides the text. */
typedef struct srv_reply_opts {
    bool stream, include_usage;
    bool progress;  /* a stream says how much of the prompt is computed */
    bool citations; /* chats: what each sentence looks at */
    bool echo;      /* the text begins with the prompt; of a chat, with a last message of the assistant */
    bool logprobs;
    int top_logprobs;
} srv_reply_opts;

/* What ends an answer, besides end tokens. */
typedef struct srv_stops {
    const char *texts[SRV_MAX_STOP]; /* [n] into the body */
    int n;
    int32_t tokens[SRV_MAX_STOP]; /* [n_tokens] */
    int n_tokens;
} srv_stops;

/* When a request has its turn. */
typedef struct srv_turn {
    int priority;        /* lower first, */
    bool ranks;          /* among the requests of all tenants; else among its tenant's */
    int64_t max_wait_ms; /* 0: no limit */
    const char *tenant;  /* whose share it uses; valid until the job has started */
} srv_turn;

typedef struct srv_task {
    bool chat;      /* /v1/chat/completions; or /v1/completions */
    const struct srv_dialect *dialect; /* dialect.h */
    srv_reply_opts reply;
    int n;         /* choices of each prompt */
    int n_prompts; /* of completions; else 1 */
    int max_tokens, min_tokens;
    srv_tools tools;
    srv_tool_form tool_form;
    thoughts_form thoughts; /* in answers; NONE: they are text */
    sp_grammar *grammar; /* owned; NULL: any text */
    sp_logit_bias *bias; /* owned; what sampling.bias is */
    sp_sampling sampling;
    srv_stops stop;
    const char *suffix; /* completions: text that follows the answer; NULL: none */
    bool ignore_end; /* continue after an end token */
    bool continues;  /* the last message of a chat */
    sp_reuse_opts reuse;
    const char *decode;  /* of the body; NULL: the context's */
    bool own_reuse;      /* `reuse` instead of the context's */
    srv_turn queue;
    struct {
        int64_t ms; /* 0: as others */
        int n;      /* segments; 0: all */
    } retain;       /* retain.h */
} srv_task;

/* srv_task_read -- t->chat is set; errors are in *f. The body must outlive the task. Owns:
 * srv_task_fini, after an error, too. */
void srv_task_read(srv_task *t, srv_fields *f, const srv_options *o);
void srv_task_fini(srv_task *t);

#endif
