/* context_int.h -- what a context owns. */
#ifndef SP_SERVE_CONTEXT_INT_H
#define SP_SERVE_CONTEXT_INT_H

#include "cache/cost.h"
#include "cache/ledger.h"
#include "engine/engine.h"
#include "engine/grammar/grammar.h"
#include "engine/sparse/notes.h"
#include "engine/offload/offload.h"
#include "model/model.h"
#include "reuse/reuse.h"
#include "serve/decode.h"
#include "serve/driver.h"
#include "serve/check/measure.h"
#include "serve/queue/order.h"
#include "serve/prompt/prompt.h"
#include "serve/queue/share.h"
#include "serve/tiers/tiers.h"

/* sp_reuse_opts after their check. */
typedef struct sp_reuse_choice {
    const sp_reuse_policy *policy;
    float recompute, alpha;
    int focus;
    bool exact_first, unfused;
} sp_reuse_choice;

typedef struct sp_guard sp_guard; /* serve/check/guard.h */

struct sp_vocab {
    const sp_tokenizer *tokenizer;
    sp_model *model;           /* owned when opened alone; NULL inside a context */
    const char *chat_template; /* of the model; or NULL */
};

struct sp_context {
    sp_model *model;
    sp_kv_pool *pool;
    sp_device *device;
    sp_device *own_device; /* the same, unless the context was opened on somebody else's */
    sp_engine *engine;
    sp_offload *offload; /* context_bytes; or NULL */
    sp_ledger *ledger;
    sp_cost cost;          /* sp_context_opts.profile */
    sp_tiers *tiers;       /* the store; or NULL */
    sp_guard *guard;       /* or NULL */
    sp_reuse_choice reuse; /* of requests that do not say themselves */
    sp_decode_choice decode;
    sp_heads *heads; /* of the model, where they were profiled; or NULL */
    sp_prompt_space prompts;
    sp_vocab vocab;
    sp_token_set *tokens; /* for grammars; made when the first one is used */
    char *salt, *store;
    int n_ctx, n_batch, max_requests;
    int64_t reserved;              /* blocks set aside for running requests: request_int.h, I2 */
    int64_t now;                   /* logical time: look-ups */
    const sp_request *looked_from; /* the oldest of the queue at the last look ahead; not read */
    int64_t looked_at;             /* the ledger's n_added then */
    sp_preload preload;
    double token_us; /* what computing a token of a prompt took lately; 0: unknown */
    int64_t n_early,
        n_late;          /* requests that began before their copies were there; that started over */
    int64_t patience_us; /* least time that a request waits for loads */
    sp_request *queue, *running; /* oldest first, but for the one that starts next (queue.h) */
    _Atomic bool has_canceled; /* one of the queue may be canceled */
    int64_t next_expiry_us;    /* none of the queue has waited too long before; 0: none ever has */
    const sp_order *order;
    int order_window;
    sp_digest *began; /* [n_began] segments of the request that was chosen last; or NULL */
    int n_began;
    unsigned next_fresh; /* whose cached tokens are counted anew next: queue.c */
    sp_shares shares;
    sp_request *finished; /* in this step */
    sp_driver *driver;
    int n_running;
    sp_measured_steps steps;
    sp_slice *slices;    /* [max_requests] of the step being composed */
    sp_request **sliced; /* [max_requests] whose slice it is */
    float *logits;       /* [max_requests, V] */
};

/* sp_context_open_on -- sp_context_open on a device, which must outlive the context; `device`, `cpu`
 * and `n_threads` of the options then mean nothing. NULL: as they say. */
sp_err sp_context_open_on(sp_device *device, const sp_context_opts *o,
                          sp_context **out) SP_MUST_CHECK;

/* sp_reuse_choose -- Errors: SP_E_ARG names the option. */
sp_err sp_reuse_choose(const sp_reuse_opts *o, sp_reuse_choice *out) SP_MUST_CHECK;

#endif
