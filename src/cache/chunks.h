/* chunks.h -- the chunk index: KV of chunks by their content, usable at any position.
 *
 *   content id --> chunk { tokens } --> plain    behind the head (system prompt) alone: the copy of
 *                                                Full Reuse
 *                                       fused    behind the head and similar chunks, offline
 *                                       placed   behind what stood before it in some prompt
 *                                       placed, as a patch over one of the others
 *
 * A chunk is found by what it says, never by what stood before it; that belongs to a variant.
 * Keys stay rotated for `at`; a span shifts them to any place. A patch holds only the tokens that
 * were computed again, rotated like their base, so many variants cost little more than one.
 *
 * Invariants
 *  I1  a variant's blocks are sealed, and the index holds one reference on each.
 *  I2  approximate KV never enters the knowledge tree: what is in here is by definition exact
 *      behind nothing but its own `before`.
 *  I3  a pinned variant is never evicted; a patch pins its base.
 *  I4  n_blocks, the sum over variants (of a patch: its own), is at most max_blocks.
 *  I5  at most max_placed variants are placed; the one of least worth makes room.
 *
 * Source: Cache-Craft sections 3.3 and 3.4.3 (rows C1, C7), FusionRAG sections 2.2.1, 3.1 and 4.1
 * (rows F1, F3, F5). Thread: one owner, the scheduler. */
#ifndef SP_CACHE_CHUNKS_H
#define SP_CACHE_CHUNKS_H

#include "base/mem.h"
#include "kv/pool.h"
#include "kv/segment.h"

typedef struct sp_chunks sp_chunks;

typedef enum sp_copy_kind { SP_COPY_PLAIN, SP_COPY_FUSED, SP_COPY_PLACED } sp_copy_kind;

/* What was measured while a copy was computed. Source: Cache-Craft sections 3.1 and 3.2.1 (C2, C4,
 * C5). */
typedef struct sp_copy_stats {
    const float *inter;   /* [n_before] attention to each of `before`: sum over tokens, mean over
                             layers and heads */
    float cci;            /* Cache Context Impact, 0.5 .. 1 */
    const int32_t *order; /* [n] tokens by falling attention to what stands before */
} sp_copy_stats;

typedef struct sp_variant sp_variant;

/* One cached copy of a chunk. Borrowed: valid while pinned. */
struct sp_variant {
    sp_copy_kind kind;
    const sp_digest *before; /* [n_before] segments in sight when it was computed, in order */
    int n_before;
    int32_t at;                 /* position that its first key was rotated for */
    int32_t n;                  /* tokens */
    const uint32_t *blocks;     /* [ceil(n / B)] of the copy, or of the base that is patched */
    const sp_copy_stats *stats; /* NULL: not measured */
    const int32_t *heavy;       /* [n] tokens by falling attention received; NULL: not measured */
    const sp_variant *base;     /* what the patch lies over; NULL: whole */
    int32_t n_patch;
    const int32_t *patch;         /* [n_patch] its tokens, ascending */
    const uint32_t *patch_blocks; /* [ceil(n_patch / B)] keys rotated for at + patch[k] */
};

typedef struct sp_chunks_stats {
    int64_t n_variants, n_blocks, max_blocks, n_placed;
    int64_t n_lookups, n_hits, n_evicted; /* variants */
} sp_chunks_stats;

/* Why a chunk is not there. */
typedef enum sp_miss {
    SP_MISS_NEVER_SEEN,
    SP_MISS_EDITED,      /* one that begins with the same tokens was cached */
    SP_MISS_EVICTED,     /* this very chunk was cached */
    SP_MISS_OTHER_HEAD,  /* it is cached, but behind another system prompt */
    SP_MISS_UNMEASURED,  /* it is cached behind this one, without what the policy must know of it */
    SP_MISS_OTHER_MODEL, /* the store has it for another model or KV type: not seen from here */
} sp_miss;

/* sp_chunks_create -- Errors: SP_E_NOMEM. */
sp_err sp_chunks_create(sp_kv_pool *pool, int64_t max_blocks, int64_t max_placed,
                        sp_chunks **out) SP_MUST_CHECK;
void sp_chunks_destroy(sp_chunks *c);

/* All lookups: the hash discovers, the tokens verify. They pin what they return. Cost: O(n) for
 * the comparison of tokens, for each variant. */

/* sp_chunks_find -- the whole copy of a chunk computed behind exactly `before`, or NULL. */
const sp_variant *sp_chunks_find(sp_chunks *c, const sp_segment *seg, const sp_digest *before,
                                 int n_before, int64_t now);
/* sp_chunks_find_fused -- the newest copy fused with anything behind this head, or NULL. */
const sp_variant *sp_chunks_find_fused(sp_chunks *c, const sp_segment *seg, const sp_digest *head,
                                       int n_head, int64_t now);
/* sp_chunks_find_all -- every measured variant behind this head; *out [n] in the arena. No use of
 * any: see sp_chunks_use. Errors: SP_E_NOMEM, and nothing is pinned. */
sp_err sp_chunks_find_all(sp_chunks *c, const sp_segment *seg, const sp_digest *head, int n_head,
                          sp_arena *arena, const sp_variant ***out, int *n) SP_MUST_CHECK;
void sp_chunks_unpin(sp_chunks *c, const sp_variant *v);
/* sp_chunks_use -- a variant was chosen: its worth rises by 1 / cfo (at most 100).
 * Source: Cache-Craft section 3.3 (f_r). */
void sp_chunks_use(sp_chunks *c, const sp_variant *v, float cfo, int64_t now);
/* sp_chunks_why -- why a lookup has found nothing. Remembers 65,536 chunks; one that was forgotten
 * counts as never seen. */
sp_miss sp_chunks_why(const sp_chunks *c, const sp_segment *seg, const sp_digest *head, int n_head);

/* sp_chunks_insert -- enters a copy; one that is there already is kept, an older fused one is
 * replaced. Evicts the least recently used to stay within the budget; *added is false when it
 * cannot fit. Pre: blocks sealed. The index takes its own references and copies everything else. */
sp_err sp_chunks_insert(sp_chunks *c, const sp_segment *seg, const sp_variant *copy, int64_t now,
                        bool *added) SP_MUST_CHECK;

/* sp_chunks_evict_one -- drops the unpinned variant used least recently; false when there is none.
 */
bool sp_chunks_evict_one(sp_chunks *c);
/* sp_chunks_oldest -- logical time of that variant's last use; INT64_MAX when there is none. */
int64_t sp_chunks_oldest(const sp_chunks *c);
/* sp_chunks_clear -- drops everything that is not pinned. */
void sp_chunks_clear(sp_chunks *c);
sp_chunks_stats sp_chunks_stats_of(const sp_chunks *c);

#endif
