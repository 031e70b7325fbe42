/* summaries.h -- the summaries of the blocks of a pool, made when a block is first read sparsely.
 *
 * A summary is found by the id of its block. It is valid until the block is acquired again or its span
 * shows more of its keys. So it serves every span list that names the block: reused
 * chunks, patches, trees and answers. */
#ifndef SP_ENGINE_SPARSE_SUMMARIES_H
#define SP_ENGINE_SPARSE_SUMMARIES_H

#include "compute/summary.h"
#include "engine/offload/offload.h"
#include "kv/pool.h"

typedef struct sp_summaries sp_summaries;

/* sp_summaries_create -- of one kind; memory is used as blocks are summarized. Errors: SP_E_NOMEM. */
sp_err sp_summaries_create(sp_kv_pool *pool, sp_summary_kind kind,
                           sp_summaries **out) SP_MUST_CHECK;
void sp_summaries_destroy(sp_summaries *s);

/* sp_summaries_want -- the next sp_summaries_make will summarize the first n keys of a block (held by the caller),
 * unless they are summarized. Errors: SP_E_NOMEM. */
sp_err sp_summaries_want(sp_summaries *s, uint32_t block, int n) SP_MUST_CHECK;
/* sp_summaries_make -- in all layers; *n_made (may be NULL): blocks. offload: where blocks are
 * that are away; or NULL. Pre: their KV is complete. */
sp_err sp_summaries_make(sp_summaries *s, sp_offload *offload, int64_t *n_made) SP_MUST_CHECK;

/* -- for those who copy summaries while the engine runs; Thread: any holder of the blocks ---------- */

/* sp_summaries_lock -- no summary is made meanwhile. */
void sp_summaries_lock(sp_summaries *s);
void sp_summaries_unlock(sp_summaries *s);
/* sp_summaries_has -- of n keys of the block, in all layers. Pre: locked. */
bool sp_summaries_has(const sp_summaries *s, uint32_t block, int n);
/* sp_summaries_put -- the caller has written them, of a block that nobody reads yet. */
void sp_summaries_put(sp_summaries *s, uint32_t block, int n);

sp_summary_view sp_summaries_layer(const sp_summaries *s, int layer);
/* sp_summaries_block_bytes -- of one block in all layers. */
size_t sp_summaries_block_bytes(const sp_summaries *s);

#endif
