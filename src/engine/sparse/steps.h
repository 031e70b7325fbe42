/* steps.h -- sparse decoding in the steps of the engine (forward.c, attention.c).
 *
 *   begin                a step: what there is to choose from, for new plans
 *   pick, rewrite        in each layer: the blocks that each KV head reads
 *   ahead, arrive        guesses at the next layer; waits for blocks that are not in memory */
#ifndef SP_ENGINE_SPARSE_STEPS_H
#define SP_ENGINE_SPARSE_STEPS_H

#include "engine/sparse/sparse.h"
#include "engine/state.h"

/* sp_sparse_of -- the slice's sp_sparse if it decodes sparsely in this step, or NULL. */
sp_sparse *sp_sparse_of(const sp_slice *slice);
/* sp_sparse_begin -- a step: opens those of new plans, and summarizes blocks that are read sparsely
 * for the first time. Errors: of the device. */
sp_err sp_sparse_begin(sp_engine *e, const sp_slice *slices, int n_slices) SP_MUST_CHECK;
/* sp_sparse_floats -- scratch of the device for the choices of a layer. */
size_t sp_sparse_floats(const sp_engine *e, const sp_slice *slices, int n_slices);
/* sp_sparse_pick -- the choices of a layer; e->reqs have their queries. */
sp_err sp_sparse_pick(sp_engine *e, const sp_slice *slices, int n_slices, int layer) SP_MUST_CHECK;
/* sp_sparse_rewrite -- spans [n_spans], a copy of the plan's, of one KV head. */
void sp_sparse_rewrite(sp_sparse *s, int layer, int kv_head, sp_span *spans);
/* sp_sparse_ahead_make_room, sp_sparse_ahead -- after the choices of a layer: guesses at those of the
 * next. e->x holds what this layer's attention is added to; e->h is overwritten. */
sp_err sp_sparse_ahead_make_room(sp_engine *e, const sp_slice *slices, int n_slices) SP_MUST_CHECK;
sp_err sp_sparse_ahead(sp_engine *e, const sp_slice *slices, int n_slices, int layer) SP_MUST_CHECK;
/* sp_sparse_arrive -- waits until the blocks that the layer reads are in the pool. */
sp_err sp_sparse_arrive(const sp_slice *slices, int n_slices, int layer) SP_MUST_CHECK;

#endif
