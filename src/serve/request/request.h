/* request.h -- the life of a request: submit -> find -> load -> plan -> step -> keep, a file
 * each.
 *
 *   submit         find           load          reserve, bind               end of the answer
 *   -----> queued -----> loading -----> (waits) ------------> prefill ----> decode -----> finished
 *                \____________________/   ^          [fill, probes, answer]              /
 *                 all copies are ready    |                           \----> storing ---/
 *                                         |                      a fused copy is written
 *          for KV memory, with its pins and its plan;
 *          looks again only when the ledger has new copies
 *
 * prefill and decode return to queued when the device or a block of their KV is lost; the answer so far is kept, and
 * recomputed after the prompt (replays). cancel, destroy and errors lead to finished from any state. A prompt that
 * can never fit is an error at submit.
 *
 * Invariants
 *  I1  a running request (prefill, decode, storing) has a bound plan, pins what it found, and has
 *      reserved blocks for the rest: decoding never runs out of KV memory.
 *  I2  the sum of `reserved` is context.reserved, which is never above the free blocks of the pool.
 *  I3  only the first request of the queue pins what it finds and waits for loads. Loads for the others begin
 *      ahead (sp_context_prefetch) and pin nothing once they end. A decoding request never waits for a load.
 *  I4  a request that began before its copies were complete (`early`) finds all of them READY when its first
 *      plan is computed, or starts over.
 */
#ifndef SP_SERVE_REQUEST_H
#define SP_SERVE_REQUEST_H

#include "serve/request/account.h"
#include "serve/request/answer.h"
#include "serve/request/cite.h"
#include "serve/request/measured.h"
#include "serve/request/context.h"
#include "serve/request/find.h"
#include "serve/request/load.h"
#include "serve/request/plan.h"
#include "serve/request/submit.h"

typedef enum sp_request_state {
    SP_REQ_QUEUED,
    SP_REQ_LOADING, /* in the queue: copies are being loaded */
    SP_REQ_PREFILL,
    SP_REQ_DECODE,
    SP_REQ_STORING, /* computed; a copy that must be stored is being written */
    SP_REQ_FINISHED,
} sp_request_state;

/* A request; its parts are described in the headers of the files that own them. */
struct sp_request {
    sp_context *ctx;
    sp_request *next; /* in the queue or among the running, oldest first */
    sp_request_state state;
    sp_request_opts o;
    sp_measure measure;
    sp_arena arena; /* segments, stop strings, reports */
    sp_request_prompt prompt;
    sp_request_place place;
    sp_request_follow follow;
    sp_reuse_choice reuse;
    sp_request_lookup look;
    sp_request_loads loads;
    sp_request_plans plans;
    sp_request_answer answer;
    sp_request_check check;
    sp_request_citing citing;
    sp_request_account account;
    const sp_copy *must; /* storing: the copy, pinned */
    bool holds_kv;       /* finished, and its plan is kept: keep_kv */
    _Atomic bool cancel; /* set by any thread */
    int n_restarts;      /* sp_request_restart */
    bool cut;            /* canceled within a step, whose results are discarded */
    bool done;           /* its owner may read its result: driver.h, I2 */
};

/* -- pack.c ---------------------------------------------------------------------------------- */

/* sp_request_pack -- decoding, before the next token is planned: moves scattered nodes of trees together once the
 * answer is long enough to make up for it. */
void sp_request_pack(sp_request *r);

/* -- keep.c ---------------------------------------------------------------------------------- */

/* sp_request_keep -- adds the copies of the plan that has just run to the ledger. Fails only if the request exists to
 * make a copy. */
sp_err sp_request_keep(sp_request *r) SP_MUST_CHECK;
/* sp_request_keep_begun -- for a request that ends during its prompt: keeps copies of completely computed segments. */
void sp_request_keep_begun(sp_request *r);
/* sp_request_retain -- retains a copy of segment i for retain_ms; NULL is allowed. */
void sp_request_retain(sp_request *r, int i, const sp_copy *copy);
/* sp_request_keep_answer -- the answer's KV becomes a path copy after its prompt. */
void sp_request_keep_answer(sp_request *r);

/* -- request.c ------------------------------------------------------------------------------- */

void sp_request_append(sp_request **list, sp_request *r);
/* sp_request_finish -- removes it from the queue or the running requests and releases memory and pins; the result is
 * complete. The owner is notified at the end of the step. */
void sp_request_finish(sp_request *r, sp_finish why, sp_err err);
/* sp_request_start_over -- returns a running request to the front of the queue and discards what it has computed. */
void sp_request_start_over(sp_request *r);
/* sp_request_restart -- KV that a running request reads is lost: it starts over, and recomputes its answer so far
 * before it continues. After a few restarts it finishes with err and this thread's detail. */
void sp_request_restart(sp_request *r, sp_err err);
/* sp_request_announce -- notifies the owners of finished requests. */
void sp_request_announce(sp_context *c);
/* sp_request_show -- passes the text up to this byte to on_text. */
void sp_request_show(sp_request *r, size_t upto);

/* -- step.c ---------------------------------------------------------------------------------- */

/* sp_request_start -- takes the first of the queue as far as possible through find, load and plan; *started: it runs
 * now, or is finished. */
sp_err sp_request_start(sp_request *r, bool *started) SP_MUST_CHECK;
/* sp_request_computed -- n more of its plan's tokens are computed; logits [V] of the last one. */
void sp_request_computed(sp_request *r, int n, const float *logits);
/* sp_request_settle -- storing: finishes when the copy is written, or could not be. */
void sp_request_settle(sp_request *r);

/* -- look_ahead.c ---------------------------------------------------------------------------- */

/* sp_context_look_ahead -- tells the ledger which copies the waiting requests will read. */
void sp_context_look_ahead(sp_context *c);

/* -- loss.c ---------------------------------------------------------------------------------- */

/* sp_context_lose_device -- handles a step that ended with this error of the device, with this thread's detail. */
void sp_context_lose_device(sp_context *c, sp_err err);
/* sp_context_lose_block -- whether a step ended with this error because a block cannot be read from the file of
 * contexts. If so, drops its copies and restarts its readers; other requests repeat the step. */
bool sp_context_lose_block(sp_context *c, sp_err err);

/* -- guess.c --------------------------------------------------------------------------------- */

/* sp_context_learn_pace -- the step of n_slices slices took us. */
void sp_context_learn_pace(sp_context *c, int n_slices, double us);

/* -- scheduler.c ----------------------------------------------------------------------------- */

/* sp_request_run -- runs it until it is done; destroys a request that fails and sets *r to NULL. */
sp_err sp_request_run(sp_context *c, sp_request **r) SP_MUST_CHECK;
/* sp_context_step_here -- sp_context_step on the context's own thread. */
sp_err sp_context_step_here(sp_context *c, bool *busy) SP_MUST_CHECK;

#endif
