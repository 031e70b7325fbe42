/* rank.h -- a binary heap of copies: the evictable one of least priority, in O(log n).
 *
 * Of equal priorities, the least recently used comes first. A copy that is pinned or has children may stay in
 * the heap: it is removed only when it reaches the top, and sp_rank_back returns it when it becomes
 * evictable. So pins, which change with every look-up, cost nothing here.
 */
#ifndef SP_CACHE_RANK_H
#define SP_CACHE_RANK_H

#include "base/mem.h"
#include "cache/copy.h"

typedef struct sp_rank {
    SP_VEC(sp_copy *) heap;
    int which; /* index of sp_copy.rank */
} sp_rank;

/* sp_rank_reserve -- makes room for n copies in all. Errors: SP_E_NOMEM. */
sp_err sp_rank_reserve(sp_rank *r, size_t n) SP_MUST_CHECK;
void sp_rank_fini(sp_rank *r);
/* sp_rank_put -- adds a copy or changes its priority. Pre: sp_rank_reserve. */
void sp_rank_put(sp_rank *r, sp_copy *c, double priority);
/* sp_rank_drop -- does nothing if the copy is not in the heap. */
void sp_rank_drop(sp_rank *r, sp_copy *c);
/* sp_rank_back -- returns a copy that sp_rank_least removed, with its last priority. */
void sp_rank_back(sp_rank *r, sp_copy *c);
/* sp_rank_least -- the evictable copy of least priority, or NULL. Cost: O(log n) for each copy at the top that is not
 * evictable; it is removed from the heap, so this cost arises once. */
sp_copy *sp_rank_least(sp_rank *r);

#endif
