/* context_int.h -- what a context owns, and the states of a request.
 *
 *   submit          admit                             prompt done        end, stop, length
 *   ------> queued ------> prefill: [fill, probes] answer ------> decode ------------> finished
 *              \              \-- canceled, error ---------> finished   (from any state)
 *               \-- prompt that can never fit: error at submit
 *
 * Prefill runs one plan after another (reuse/reuse.h); policies that reuse prefixes only have the
 * last.
 *
 * Invariants
 *  I1  a running request (prefill, decode) has a bound plan, a match that pins its path in the
 *      tree, and `reserved` blocks set aside for the rest: decoding never runs out of KV memory.
 *  I2  the sum of `reserved` is context.reserved, and never above the free blocks of the pool.
 */
#ifndef SP_SERVE_CONTEXT_INT_H
#define SP_SERVE_CONTEXT_INT_H

#include "cache/cache.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "model/model.h"
#include "reuse/reuse.h"
#include "serve/measure.h"
#include "serve/prompt.h"
#include "store/disk.h"

/* sp_reuse_opts after their check. */
typedef struct sp_reuse_choice {
    const sp_reuse_policy *policy;
    float recompute, alpha;
    int focus;
    bool exact_first, unfused;
} sp_reuse_choice;

typedef enum sp_request_state {
    SP_REQ_QUEUED,
    SP_REQ_PREFILL,
    SP_REQ_DECODE,
    SP_REQ_FINISHED,
} sp_request_state;

typedef struct sp_guard sp_guard; /* serve/guard.h */

typedef enum sp_source { SP_FROM_NOWHERE, SP_FROM_MEMORY, SP_FROM_DISK } sp_source;

/* Which plan of a request is running. */
typedef enum sp_stage { SP_STAGE_FILL, SP_STAGE_PROBE, SP_STAGE_ANSWER } sp_stage;

struct sp_request {
    sp_context *ctx;
    sp_request *next; /* in the queue or among the running, oldest first */
    sp_request_state state;
    sp_request_opts o;
    sp_measure measure;
    sp_arena arena;   /* segments, stop strings, reports */
    sp_arena lookup;  /* what the last look-up found: match path, variants */
    sp_segment *segs; /* [n_segs] own copy of the prompt */
    int n_segs, n_prompt;
    sp_reuse_choice reuse;
    int n_head;     /* segments before the first chunk */
    sp_digest *ids; /* [n_segs] of the segments; the first n_head are the head */
    sp_match match;
    const sp_variant **chunks; /* [n_segs] pinned copies, or NULL */
    sp_copies *known;          /* [n_segs] what a policy that chooses had to choose from */
    float *cfo;                /* [n_segs] how much of the chosen copy is to be mended */
    int32_t *order;            /* [n_segs] in which the tree was asked; NULL: as they stand */
    int32_t *had;              /* [n_segs] tokens that were cached when the request came */
    uint8_t *sources;          /* [n_segs] sp_source: where the copy was */
    uint8_t *misses;           /* [n_segs] sp_miss: why there was none */
    bool guarded;              /* its first token is to be checked */
    bool fuse;                 /* computes its last segment only, as a fused copy */
    sp_stage stage;
    sp_plan plan;
    sp_plan probed; /* the last probe plan, kept until the next plan is made */
    int n_probed;   /* probes that have run */
    int next_todo;  /* first of plan.todo that is not computed */
    int answer_span;
    int64_t reserved; /* blocks */
    int32_t max_tokens;
    sp_sampler sampler;
    sp_text_stream stream;
    sp_bytes text;    /* the answer so far */
    size_t n_shown;   /* bytes of it handed to on_text; the rest may become a stop string */
    sp_tokens tokens; /* generated ids */
    int64_t submit_us, start_us, first_us, plan_us;
    bool holds_kv; /* finished, and its plan is kept: keep_kv */
    bool cancel;
    char detail[256];
    sp_result result;
};

struct sp_vocab {
    const sp_tokenizer *tokenizer;
    sp_model *model; /* owned when opened alone; NULL inside a context */
};

struct sp_context {
    sp_model *model;
    sp_kv_pool *pool;
    sp_device *device;
    sp_device *own_device; /* the same, unless the context was opened on somebody else's */
    sp_engine *engine;
    sp_cache cache;
    sp_disk *disk;         /* or NULL */
    sp_guard *guard;       /* or NULL */
    sp_reuse_choice reuse; /* of requests that do not say themselves */
    sp_prompt_space prompts;
    sp_vocab vocab;
    char *salt;
    int n_ctx, n_batch, max_requests;
    int64_t reserved; /* I2 */
    int64_t now;      /* logical time: requests admitted */
    sp_request *queue, *running;
    int n_running;
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

/* -- request.c: what one request does with its logits --------------------------------------- */

/* sp_request_begin -- plans and binds; *fits is false when KV memory has to wait for others. */
sp_err sp_request_begin(sp_request *r, bool *fits) SP_MUST_CHECK;
/* sp_request_stage_done -- the plan is computed: its KV enters the caches, and the next plan is
 * made. *ready: it was the last one, and its logits begin the answer. */
sp_err sp_request_stage_done(sp_request *r, bool *ready) SP_MUST_CHECK;
/* sp_request_take_token -- samples from logits [V]; goes on to the next token or finishes. */
void sp_request_take_token(sp_request *r, const float *logits);
/* sp_request_finish -- gives back memory and pins; the result is complete. */
void sp_request_finish(sp_request *r, sp_finish why, sp_err err);

/* -- scheduler.c ---------------------------------------------------------------------------- */

/* sp_request_submit_as -- sp_request_submit; `fuse`: to compute a fused copy of the last chunk. */
sp_err sp_request_submit_as(sp_context *c, const sp_prompt *p, const sp_request_opts *o, bool fuse,
                            sp_request **out) SP_MUST_CHECK;
/* sp_request_run -- steps until it is done; a request that fails is destroyed, and *r then NULL. */
sp_err sp_request_run(sp_context *c, sp_request **r) SP_MUST_CHECK;

/* -- lookup.c ------------------------------------------------------------------------------- */

/* sp_request_look_up -- pins what is cached: a path of the tree, and copies of chunks. */
sp_err sp_request_look_up(sp_request *r) SP_MUST_CHECK;
/* sp_request_input -- what policies see of it. */
sp_reuse_input sp_request_input(const sp_request *r);
/* sp_request_find_chunks -- pins copies of the chunks that have none yet. */
sp_err sp_request_find_chunks(sp_request *r) SP_MUST_CHECK;
/* sp_request_in_order -- the tree was asked for the segments as they stand. */
bool sp_request_in_order(const sp_request *r);
/* sp_request_let_go -- gives up its plans, and its pins in the caches. */
void sp_request_let_go(sp_request *r);

/* -- keep.c --------------------------------------------------------------------------------- */

/* sp_request_keep_fill -- head and plain copies; those are pinned then. */
void sp_request_keep_fill(sp_request *r);
/* sp_request_keep_prompt -- what the last plan has computed of the prompt. Fails only when keeping
 * was all that was wanted (fuse). */
sp_err sp_request_keep_prompt(sp_request *r) SP_MUST_CHECK;
void sp_request_keep_answer(sp_request *r);

/* -- account.c ------------------------------------------------------------------------------ */

/* sp_request_report -- fills the result with what happened to each segment. */
void sp_request_report(sp_request *r);

#endif
