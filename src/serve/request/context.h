/* context.h -- what a context owns. */
#ifndef SP_SERVE_CONTEXT_H
#define SP_SERVE_CONTEXT_H

#include <stdatomic.h>

#include "cache/cost.h"
#include "cache/ledger.h"
#include "engine/engine.h"
#include "engine/grammar/grammar.h"
#include "engine/sparse/notes.h"
#include "engine/offload/offload.h"
#include "model/model.h"
#include "reuse/choice.h"
#include "serve/request/decode.h"
#include "serve/request/driver.h"
#include "serve/request/measured.h"
#include "serve/queue/budget.h"
#include "serve/queue/order.h"
#include "serve/queue/pace.h"
#include "serve/prompt/prompt.h"
#include "serve/prompt/vocab.h"
#include "serve/queue/share.h"
#include "serve/tiers/tiers.h"

typedef struct sp_guard sp_guard; /* serve/guard/guard.h */

/* Work for steps in which no request waits or runs: the guard's checks. */
typedef struct sp_idle_work {
    void (*step)(sp_context *c);
    bool (*is_left)(const sp_context *c);
} sp_idle_work;

/* What prompts are built with. */
typedef struct sp_context_texts {
    sp_prompt_space prompts;
    sp_vocab vocab;
    sp_token_set *grammar_tokens; /* made when the first grammar is used */
} sp_context_texts;

/* Settings of requests that do not set them. */
typedef struct sp_context_defaults {
    sp_reuse_choice reuse;
    sp_decode_choice decode;
} sp_context_defaults;

typedef struct sp_context_limits {
    int n_ctx, n_batch, max_requests;
} sp_context_limits;

/* The waiting requests, and what their order depends on (queue.h). */
typedef struct sp_context_waiting {
    sp_request *first;         /* oldest first, except for the one that starts next */
    _Atomic bool has_canceled; /* one of them may be canceled */
    int64_t next_expiry_us;    /* none expires before this time; 0: none ever expires */
    const sp_queue_order *order;
    int window;
    int64_t wait_us;  /* sp_queue_opts.wait_ms */
    sp_digest *began; /* [n_began] segments of the last chosen request; or NULL */
    int n_began;
    unsigned next_fresh; /* the next request whose cached tokens are counted again */
    sp_shares shares;
} sp_context_waiting;

/* The last look at the waiting requests (look_ahead.c). */
typedef struct sp_context_ahead {
    const sp_request *from; /* the oldest one at that time, NULL: another has come since; never dereferenced */
    int64_t at;             /* the ledger's n_added at that time */
} sp_context_ahead;

typedef struct sp_context_loads {
    sp_preload preload;
    double token_us;     /* recent time to compute a prompt token; 0: unknown */
    int64_t patience_us; /* a request waits at least this long for loads */
    int64_t n_early;     /* requests that began before their copies were complete */
    int64_t n_late;      /* those of them that started over */
} sp_context_loads;

enum { SP_SCORED_ROWS = 32 /* most tokens that a step scores */ };

/* The step that is being composed. */
typedef struct sp_context_step_state {
    sp_slice *slices;  /* [max_requests] */
    sp_request **of;   /* [max_requests] whose slice it is */
    float *logits;     /* [max_requests + SP_SCORED_ROWS, V] */
    int n_logits, n_scored; /* used rows; those used by requests that score */
    int n_decoding;    /* requests that decode in it */
    int n_front, n_back; /* rows of requests in the foreground, in the background */
    int n_back_running;  /* requests in the background that run */
    double back_us;      /* time that background requests may take now */
    sp_budget budget;
    int64_t step_us, compute_us, n_tokens; /* of all steps so far; compute_us: the model's part */
} sp_context_step_state;

struct sp_context {
    sp_model *model;
    sp_kv_pool *pool;
    sp_device *device;
    sp_device *own_device; /* `device`; NULL if the context was opened on a caller's device */
    sp_engine *engine;
    sp_offload *offload; /* context_bytes; or NULL */
    sp_heads *heads;     /* of the model, where they were profiled; or NULL */
    sp_ledger *ledger;
    sp_cost cost;    /* sp_cache_opts.profile */
    int keep_chunks; /* of sp_cache_opts */
    sp_tiers *tiers; /* the store; or NULL */
    sp_guard *guard; /* or NULL */
    sp_idle_work idle;
    sp_driver *driver;
    char *salt, *store;
    sp_context_texts texts;
    sp_context_defaults defaults;
    sp_context_limits limits;
    sp_context_waiting waiting;
    sp_context_ahead ahead;
    sp_context_loads loads;
    sp_context_step_state step;
    sp_pace pace;
    sp_request *running;  /* oldest first */
    sp_request *finished; /* in this step */
    int n_running;
    atomic_int n_answering; /* requests that decode */
    int64_t reserved; /* blocks reserved for running requests: request.h, I2 */
    int64_t now;      /* logical time: look-ups */
};

/* sp_context_open_on -- sp_context_open on a device, which must outlive the context; `device`, `cpu` and `n_threads`
 * of the options are ignored. device NULL: sp_context_open. */
sp_err sp_context_open_on(sp_device *device, const sp_context_opts *o,
                          sp_context **out) SP_MUST_CHECK;

#endif
