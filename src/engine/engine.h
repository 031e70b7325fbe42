/* engine.h -- runs plans: the only floor that writes keys and values.
 *
 * One step takes slices of the todo lists of several plans, up to max_rows tokens together,
 * through all layers (continuous batching). Decoding is a slice of one token. The engine knows no
 * policy: what is computed, what it sees and what is dropped on the way is in the plan. */
#ifndef SP_ENGINE_ENGINE_H
#define SP_ENGINE_ENGINE_H

#include "kv/plan.h"
#include "model/model.h"

typedef struct sp_engine sp_engine;

typedef struct sp_engine_opts {
    const sp_model *model; /* borrowed */
    sp_kv_pool *pool;      /* borrowed */
    sp_team *team;         /* borrowed */
    const sp_ops *ops;
    int n_ctx;      /* longest prompt and answer together, tokens */
    int max_rows;   /* tokens in a step */
    int max_slices; /* requests in a step */
} sp_engine_opts;

typedef enum sp_want { SP_WANT_NONE, SP_WANT_LAST, SP_WANT_ALL } sp_want;

/* todo[from .. from + n) of one plan. Pieces of a plan run in order. */
typedef struct sp_slice {
    sp_plan *plan;
    int from, n;
    sp_want want;  /* whose logits: none, the last token's, every token's */
    float *logits; /* [1 or n, V] filled by the step; NULL when none are wanted */
} sp_slice;

/* sp_engine_create -- sizes all scratch for max_rows tokens. Errors: SP_E_NOMEM, SP_E_ARG. */
sp_err sp_engine_create(const sp_engine_opts *o, sp_engine **out) SP_MUST_CHECK;
void sp_engine_destroy(sp_engine *e);

/* sp_engine_step -- computes the slices; their KV is in its blocks afterwards.
 * Pre:    plans bound; the slices' tokens together at most max_rows; one slice a plan.
 * Errors: SP_E_ARG for a token id or position out of range, before anything is written.
 * Thread: one step at a time. Allocates nothing unless a gate wants attention mass.
 * Cost:   one pass over the weights, plus M * context for attention. */
sp_err sp_engine_step(sp_engine *e, const sp_slice *slices, int n_slices) SP_MUST_CHECK;

const sp_engine_opts *sp_engine_opts_of(const sp_engine *e);
/* sp_engine_rope -- the rotary tables that its keys are rotated by; borrowed. */
const sp_rope *sp_engine_rope(const sp_engine *e);

#endif
