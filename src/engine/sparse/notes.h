/* notes.h -- keeps summaries with copies in a store, so that a loaded context can be decoded sparsely at once. */
#ifndef SP_ENGINE_SPARSE_NOTES_H
#define SP_ENGINE_SPARSE_NOTES_H

#include "engine/engine.h"
#include "engine/sparse/sparse.h"

/* sp_engine_keep_summaries -- from now on stores write the summaries that such a choice reads, of all
 * of its stages, beside the blocks of the engine's pool, and read them. Does nothing where the host
 * does not reach the device's memory.
 * Errors: SP_E_NOMEM. Pre: no transfer is under way, then and when the engine is destroyed. */
sp_err sp_engine_keep_summaries(sp_engine *e, const sp_sparse_opts *o) SP_MUST_CHECK;

#endif
