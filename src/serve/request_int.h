/* request_int.h -- the life of a request: submit -> find -> load -> plan -> step -> keep, a file
 * each.
 *
 *   submit         find           load          reserve, bind               end of the answer
 *   -----> queued -----> loading -----> (waits) ------------> prefill ----> decode -----> finished
 *                \____________________/   ^          [fill, probes, answer]              /
 *                 all copies are ready    |                           \----> storing ---/
 *                                         |                      a fused copy is written
 *          for KV memory, with its pins and its plan;
 *          looks again only when the ledger has more
 *
 * cancel, destroy and errors lead to finished from any state. A prompt that can never fit is an
 * error at submit.
 *
 * Invariants
 *  I1  a running request (prefill, decode, storing) has a bound plan, pins what it found, and has
 *      `reserved` blocks set aside for the rest: decoding never runs out of KV memory.
 *  I2  the sum of `reserved` is context.reserved, and never above the free blocks of the pool.
 *  I3  only the first of the queue holds what it finds, and waits for loads. For the others loads begin
 *      ahead (sp_context_prefetch), which pin nothing once they end. Who decodes never waits for a load.
 *  I4  a request that began before its copies were there (`early`) finds all of them READY when its first
 *      plan is computed, or starts over.
 */
#ifndef SP_SERVE_REQUEST_INT_H
#define SP_SERVE_REQUEST_INT_H

#include "engine/sampler.h"
#include "serve/context_int.h"
#include "serve/check/measure.h"

typedef enum sp_request_state {
    SP_REQ_QUEUED,
    SP_REQ_LOADING, /* in the queue: copies are on their way from the store */
    SP_REQ_PREFILL,
    SP_REQ_DECODE,
    SP_REQ_STORING, /* computed; a copy that must be kept is being written */
    SP_REQ_FINISHED,
} sp_request_state;

struct sp_request {
    sp_context *ctx;
    sp_request *next; /* in the queue or among the running, oldest first */
    sp_request_state state;
    sp_request_opts o;
    sp_measure measure;
    sp_arena arena;     /* segments, stop strings, reports */
    sp_arena lookup;    /* scratch of the last look-up */
    sp_segment *segs;   /* [n_segs] own copy of the prompt */
    const char *salt;   /* of the prompt, in `arena`; or NULL */
    sp_share *share;    /* of its tenant, once it is in the queue */
    sp_waiting waiting; /* in the queue: what is counted for its place; the rest is filled in there */
    int64_t looked_at;  /* the ledger's n_added when waiting.n_cached was counted; -1: never */
    int n_segs, n_prompt;
    int32_t end;    /* position after the prompt; below n_prompt where branches share positions */
    int n_head;     /* segments before the first chunk */
    sp_digest *ids; /* [n_segs] of the segments */
    sp_reuse_choice reuse;
    sp_found *found;               /* [n_segs] where their KV is */
    int64_t found_at;              /* the ledger's n_added at the look-up; -1: not looked up */
    sp_sparse *sparse;             /* of its decoding; NULL: full attention */
    int32_t window;                /* tokens that each token looks at; 0: all */
    sp_offload_stats offload_then; /* when decoding began */
    sp_plan plan;                  /* waiting, running, or computed */
    sp_plan_role role;             /* of plan */
    sp_plan last;                  /* the plan before, until the next is made */
    int n_done[SP_PLAN_DONE];      /* plans that have run, by role */
    int next_todo;                 /* first of plan.todo that is not computed */
    int answer_span;               /* of the answer's plan */
    int64_t reserved;              /* blocks: I2 */
    const sp_copy *must;           /* storing: the copy, pinned */
    int64_t load_us;               /* when it began to wait for loads; 0: it does not */
    int64_t await_us;              /* early: until then a step may wait for a layer */
    int64_t fetched_at;  /* the ledger's n_added when loads were begun ahead; -1: they were not */
    bool early;          /* runs, although copies that it found are LOADING */
    bool late;           /* a layer was not there in time */
    bool text_only;      /* takes no copies but READY ones: others came too late */
    bool guarded;        /* its first token is to be checked */
    bool sparse_guarded; /* the tokens that it decodes sparsely are */
    struct sp_guard_noted *noted; /* those so far; the guard's */
    bool holds_kv;       /* finished, and its plan is kept: keep_kv */
    _Atomic bool cancel; /* set by any thread */
    bool decode_follows; /* the context's setting of decoding */
    bool follows;        /* the context's settings, as they are when it enters the queue */
    bool done;           /* its result is its owner's to read: driver.h, I2 */
    int32_t max_tokens;
    sp_sampler sampler;
    sp_grammar_state *grammar; /* of its answer, from the first token on; or NULL */
    int32_t *ends;             /* [n_ends] end and stop tokens, where min_tokens forbids them; in `arena` */
    int n_ends;
    sp_token_logprob *logprobs; /* [1 + top_logprobs] for on_token; in `arena` */
    sp_text_stream stream;
    sp_bytes text;    /* the answer so far */
    size_t n_shown;   /* bytes of it handed to on_text; the rest may become a stop string */
    sp_tokens tokens; /* generated ids */
    int64_t submit_us, start_us, first_us, plan_us;
    double compute_us; /* of the plan that runs: its share of the steps */
    char detail[256];
    sp_result result;
};

/* Below, a file calls files above it only. */

/* -- find.c ---------------------------------------------------------------------------------- */

/* sp_request_input -- what policies see of it. */
sp_reuse_input sp_request_input(const sp_request *r);
/* sp_request_find -- which copies serve its segments, pinned. Nothing changes when the ledger has
 * nothing new since the last look-up. */
sp_err sp_request_find(sp_request *r) SP_MUST_CHECK;
/* sp_request_find_again -- a newer look-up replaces found[], but keeps for the account where copies
 * were and why they were missing when the request came. computed: new copies are its own. */
sp_err sp_request_find_again(sp_request *r, bool ready_only, bool computed) SP_MUST_CHECK;
/* sp_request_look -- what it would find now, pinned, in found [n_segs]: uncounted, for a preview.
 * sp_request_unpin ends it. */
sp_err sp_request_look(sp_request *r, sp_found *found) SP_MUST_CHECK;
void sp_request_unpin(sp_request *r, sp_found *found);
/* sp_request_let_go -- gives up its plans and its pins. */
void sp_request_let_go(sp_request *r);

/* -- load.c ---------------------------------------------------------------------------------- */

/* sp_request_load -- brings copies that were found in the store to the device; *ready: all of
 * found[] can be read. A copy that cannot be loaded is a miss. Call it again while it is not
 * ready. */
sp_err sp_request_load(sp_request *r, bool *ready) SP_MUST_CHECK;
/* sp_request_awaits -- early: the hook of its slices. */
sp_await sp_request_awaits(sp_request *r);
/* sp_request_patience -- LOADING: how long it still waits, us; a long time when that is unknown. */
int64_t sp_request_patience(const sp_request *r);
/* sp_request_is_there -- early: whether a step would not wait for it. */
bool sp_request_is_there(sp_request *r);
/* sp_request_load_end -- early, its first plan is computed: waits until its copies are READY; false: one
 * is not. */
bool sp_request_load_end(sp_request *r);
/* sp_context_prefetch -- begins to load what requests behind the oldest will find. */
void sp_context_prefetch(sp_context *c);
/* sp_request_load_failed -- notes why a copy that a request waits for is missing. */
void sp_request_load_failed(void *context, const sp_copy *copy, sp_miss why);

/* -- plan.c ---------------------------------------------------------------------------------- */

/* sp_request_plan_first -- its first plan, unless there is one. */
sp_err sp_request_plan_first(sp_request *r) SP_MUST_CHECK;
/* sp_request_reserve -- sets blocks aside for all of its plans and its answer, and binds the first
 * plan; *fits is false when KV memory has to wait for others. Errors: SP_E_NOKV when no other holds
 * any. */
sp_err sp_request_reserve(sp_request *r, bool *fits) SP_MUST_CHECK;
/* sp_request_plan_next -- after a plan has run: makes and binds the next one, and gives up the
 * last. */
sp_err sp_request_plan_next(sp_request *r) SP_MUST_CHECK;
/* sp_request_took_block -- a reserved block became a held one. */
void sp_request_took_block(sp_request *r);
/* sp_request_unreserve -- gives back what is set aside for it. */
void sp_request_unreserve(sp_request *r);

/* -- pack.c ---------------------------------------------------------------------------------- */

/* sp_request_pack -- decoding, before the next token is planned: nodes of trees that are stored apart move
 * together, once the answer is long enough for it. */
void sp_request_pack(sp_request *r);

/* -- keep.c ---------------------------------------------------------------------------------- */

/* sp_request_keep -- what the plan that has just run leaves behind. Fails only when keeping was all
 * that was wanted. */
sp_err sp_request_keep(sp_request *r) SP_MUST_CHECK;
/* sp_request_keep_answer -- the answer's KV becomes a path copy after its prompt. */
void sp_request_keep_answer(sp_request *r);

/* -- account.c ------------------------------------------------------------------------------- */

/* sp_request_report -- fills the result with what happened to each segment. */
void sp_request_report(sp_request *r);
/* sp_request_report_decode -- what sparse decoding did. */
void sp_request_report_decode(sp_request *r);

/* -- request.c ------------------------------------------------------------------------------- */

void sp_request_append(sp_request **list, sp_request *r);
/* sp_request_finish -- leaves queue or running ones, gives back memory and pins; the result is
 * complete. Its owner hears of it at the end of the step. */
void sp_request_finish(sp_request *r, sp_finish why, sp_err err);
/* sp_request_start_over -- a running request returns to the front of the queue: what it has computed is
 * given up. */
void sp_request_start_over(sp_request *r);
/* sp_request_announce -- tells the owners of requests that have finished. */
void sp_request_announce(sp_context *c);
/* sp_request_show -- hands text up to there to on_text. */
void sp_request_show(sp_request *r, size_t upto);

/* -- answer.c -------------------------------------------------------------------------------- */

/* sp_request_stops_at -- whether the request named the token as one that ends its answer. */
bool sp_request_stops_at(const sp_request *r, int32_t id);
/* sp_request_take_token -- chooses from logits [V]; continues with the next token or finishes. */
void sp_request_take_token(sp_request *r, const float *logits);

/* -- step.c ---------------------------------------------------------------------------------- */

/* sp_request_start -- takes the oldest of the queue through find, load and plan, as far as it gets;
 * *started: it runs now, or is finished. */
sp_err sp_request_start(sp_request *r, bool *started) SP_MUST_CHECK;
/* sp_request_computed -- n more of its plan's tokens are computed; logits [V] of the last one. */
void sp_request_computed(sp_request *r, int n, const float *logits);
/* sp_request_settle -- storing: finishes when the copy is written, or could not be. */
void sp_request_settle(sp_request *r);

/* -- submit.c -------------------------------------------------------------------------------- */

/* sp_request_create -- a request in no list, with an internal policy; NULL: as the options say.
 * Thread: any. Errors: those of sp_request_submit. */
sp_err sp_request_create(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                         const sp_reuse_policy *policy, sp_request **out) SP_MUST_CHECK;
/* sp_request_enter -- joins the queue. */
void sp_request_enter(sp_request *r);

/* -- look_ahead.c ---------------------------------------------------------------------------- */

/* sp_context_look_ahead -- tells the ledger what the waiting requests will read. */
void sp_context_look_ahead(sp_context *c);

/* -- loss.c ---------------------------------------------------------------------------------- */

/* sp_context_lose_device -- after a step that ended with this error of the device, whose detail is that of
 * this thread. */
void sp_context_lose_device(sp_context *c, sp_err err);

/* -- scheduler.c ----------------------------------------------------------------------------- */

/* sp_request_run -- until it is done; a request that fails is destroyed, and *r then NULL. */
sp_err sp_request_run(sp_context *c, sp_request **r) SP_MUST_CHECK;
/* sp_context_step_here -- sp_context_step, on the thread that the context belongs to. */
sp_err sp_context_step_here(sp_context *c, bool *busy) SP_MUST_CHECK;

#endif
