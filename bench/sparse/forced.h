/* forced.h -- choices of sparse decoding with forced shares: how many of the blocks that a step
 * reads the step before has read, and how many of the others are guessed a layer before.
 *
 *   choice of a layer and KV head    b0 b1 b2 b3 b4 b5        at random, but each with a chance of `hit`
 *   of the step before               b0 b1 x  b3 x  b5        the block that was there before
 *   guess                               w     b4              the missed ones, each right with `guessed`
 *
 * Random weights make the shares of real choices fictional; this shows what a share is worth. */
#ifndef SP_BENCH_SPARSE_FORCED_H
#define SP_BENCH_SPARSE_FORCED_H

#include "engine/offload/offload.h"
#include "kv/plan.h"

typedef struct forced_opts {
    sp_offload *offload; /* borrowed, as all below */
    const sp_plan *plan; /* its spans but the last are what is chosen from */
    uint64_t *random;
    double hit, guessed; /* shares */
} forced_opts;

typedef struct forced {
    forced_opts o;
    sp_kv_pool *pool;
    int n_heads;
    int32_t cap;             /* blocks of a choice, at most */
    uint32_t *blocks[2];     /* [L, G, cap] */
    int32_t *n_last, *n_now; /* [L, G] of the step before; of this one so far */
    uint8_t *turn;           /* [L, G] which of `blocks` is this step's */
    uint32_t *guess;         /* [cap] */
} forced;

/* forced_open -- close it even after a failure. Errors: SP_E_NOMEM. */
sp_err forced_open(forced *f, const forced_opts *o, sp_kv_pool *pool, int32_t cap) SP_MUST_CHECK;
void forced_close(forced *f);
/* forced_source -- for sp_sparse_opts; lives as long as f. */
sp_block_source forced_source(forced *f);
/* forced_block -- any block of a plan's spans but the last. */
uint32_t forced_block(const sp_plan *p, uint64_t *random);

#endif
