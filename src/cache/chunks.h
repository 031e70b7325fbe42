/* chunks.h -- the chunk index: KV of chunks by their content, usable at any position.
 *
 *   content id --> chunk { tokens } --> variant { before: ids of what was in sight, at, blocks }
 *                                       variant ...
 *
 * A chunk is found by what it says, never by what stood before it; that belongs to a variant. A
 * variant whose `before` is the system prompt alone is the canonical copy, the one of Full Reuse.
 * Keys stay rotated for `at`; a span shifts them to any place.
 *
 * Invariants
 *  I1  a variant's blocks are sealed, and the index holds one reference on each.
 *  I2  approximate KV never enters the knowledge tree: what is in here is by definition exact
 *      behind nothing but its own `before`.
 *  I3  a pinned variant is never evicted.
 *  I4  n_blocks, the sum over variants, is at most max_blocks.
 *
 * Source: Cache-Craft section 3.4.3 (row C1), FusionRAG sections 2.2.1 and 4.1 (rows F1, F5).
 * Thread: one owner, the scheduler. / */
#ifndef SP_CACHE_CHUNKS_H
#define SP_CACHE_CHUNKS_H

#include "base/mem.h"
#include "kv/pool.h"
#include "kv/segment.h"

typedef struct sp_chunks sp_chunks;

/* One cached copy of a chunk. Borrowed: valid while pinned. */
typedef struct sp_variant {
    const sp_digest *before; /* [n_before] segments in sight when it was computed, in order */
    int n_before;
    int32_t at;             /* position that its first key was rotated for */
    int32_t n;              /* tokens */
    const uint32_t *blocks; /* [ceil(n / B)] */
} sp_variant;

typedef struct sp_chunks_stats {
    int64_t n_variants, n_blocks, max_blocks;
    int64_t n_lookups, n_hits, n_evicted; /* variants */
} sp_chunks_stats;

sp_err sp_chunks_create(sp_kv_pool *pool, int64_t max_blocks, sp_chunks **out) SP_MUST_CHECK;
void sp_chunks_destroy(sp_chunks *c);

/* sp_chunks_find -- the copy of a chunk computed behind exactly `before`, or NULL. The hash
 * discovers, the tokens verify. Pins what it returns. Cost: O(n) for the comparison of tokens. */
const sp_variant *sp_chunks_find(sp_chunks *c, const sp_segment *seg, const sp_digest *before,
                                 int n_before, int64_t now);

void sp_chunks_unpin(sp_chunks *c, const sp_variant *v);

/* sp_chunks_insert -- enters a copy; one that is there already is kept. Evicts the least recently
 * used to stay within the budget; *added is false when it cannot fit. Pre: blocks sealed. The
 * index takes its own references and copies tokens and ids. */
sp_err sp_chunks_insert(sp_chunks *c, const sp_segment *seg, const sp_digest *before, int n_before,
                        int32_t at, const uint32_t *blocks, int64_t now, bool *added) SP_MUST_CHECK;

/* sp_chunks_evict_one -- drops the unpinned variant used least recently; false when there is none.
 */
bool sp_chunks_evict_one(sp_chunks *c);
/* sp_chunks_oldest -- logical time of that variant's last use; INT64_MAX when there is none. */
int64_t sp_chunks_oldest(const sp_chunks *c);
/* sp_chunks_clear -- drops everything that is not pinned. */
void sp_chunks_clear(sp_chunks *c);
sp_chunks_stats sp_chunks_stats_of(const sp_chunks *c);

#endif
