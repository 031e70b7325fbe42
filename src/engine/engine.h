/* engine.h -- runs plans; only the engine computes keys and values.
 *
 * One step takes slices of the todo lists of several plans, up to max_rows tokens together,
 * through all layers (continuous batching). Decoding is a slice of one token. The engine knows no
 * policy: the plan says what to compute, what it sees and what to drop. It works on
 * the device of its KV pool, through compute/device.h. */
#ifndef SP_ENGINE_ENGINE_H
#define SP_ENGINE_ENGINE_H

#include "kv/plan.h"
#include "model/model.h"

typedef struct sp_engine sp_engine;

typedef struct sp_engine_opts {
    const sp_model *model; /* borrowed; loaded on the pool's device, or in memory that it shares */
    sp_kv_pool *pool;      /* borrowed */
    int n_ctx;             /* longest prompt and answer together, tokens */
    int max_rows;          /* tokens in a step */
    int max_slices;        /* requests in a step */
} sp_engine_opts;

typedef enum sp_want { SP_WANT_NONE, SP_WANT_LAST, SP_WANT_ALL } sp_want;

/* Called before each layer: whether the known KV that a plan reads up to this layer has arrived; for the last layer,
 * too, when a gate drops rows that have twins. May wait. If it has not, the slice ends: its rows are dropped, and its
 * results are undefined. */
typedef struct sp_await {
    bool (*there)(void *user, int layer); /* NULL: always */
    void *user;
} sp_await;

/* todo[from .. from + n) of one plan. Pieces of a plan run in order. */
typedef struct sp_slice {
    sp_plan *plan;
    int from, n;
    sp_want want;  /* whose logits: none, the last token's, every token's */
    float *logits; /* host [1 or n, V] filled by the step; NULL when none are wanted */
    sp_await await;
} sp_slice;

/* sp_engine_create -- sizes all scratch for max_rows tokens. Errors: SP_E_NOMEM, SP_E_ARG. */
sp_err sp_engine_create(const sp_engine_opts *o, sp_engine **out) SP_MUST_CHECK;
void sp_engine_destroy(sp_engine *e);

/* sp_engine_step -- computes the slices; their KV is in its blocks afterwards.
 * Pre:    plans bound; the slices' tokens together at most max_rows; one slice a plan.
 * Errors: SP_E_ARG for a token id or position out of range, before anything is written; those of the
 *         device.
 * Thread: one step at a time. Allocates only when a plan has more spans than any before, or a gate,
 *         a selector or a probe asks for more than any before.
 * Cost:   one pass over the weights, plus M * context for attention. */
sp_err sp_engine_step(sp_engine *e, const sp_slice *slices, int n_slices) SP_MUST_CHECK;

/* sp_engine_kv_distance -- |KV - KV'| / |KV'| between copies a (KV) and b (KV') of n tokens in one layer, over
 * all heads; keys are first rotated to a common position. 0 where KV' is 0. Errors and Thread: as
 * sp_engine_step. */
typedef struct sp_kv_pairs {
    const sp_kv_slot *a, *b; /* host [n] */
    int64_t n;
} sp_kv_pairs;
sp_err sp_engine_kv_distance(sp_engine *e, int layer, const sp_kv_pairs *pairs,
                             float *out) SP_MUST_CHECK;

/* sp_engine_set_offload -- from now on blocks of the pool may be away (engine/offload/offload.h); borrowed. */
typedef struct sp_offload sp_offload;
void sp_engine_set_offload(sp_engine *e, sp_offload *o);

#endif
