/* cache.h -- everything that is cached: exact paths in the knowledge tree, chunks at any position
 * in the chunk index. Both live in one pool; room is made by dropping whatever was used least
 * recently in either. */
#ifndef SP_CACHE_CACHE_H
#define SP_CACHE_CACHE_H

#include "cache/chunks.h"
#include "cache/tree.h"

typedef struct sp_cache {
    sp_kv_pool *pool; /* borrowed */
    sp_tree *tree;
    sp_chunks *chunks;
} sp_cache;

/* sp_cache_init -- at most max_blocks in each of the two, and max_placed variants of chunks behind
 * other chunks. Errors: SP_E_NOMEM, SP_E_ARG. */
sp_err sp_cache_init(sp_cache *c, sp_kv_pool *pool, int64_t max_blocks, int64_t max_placed,
                     const char *evict) SP_MUST_CHECK;
void sp_cache_fini(sp_cache *c);
/* sp_cache_free_up -- drops entries until the pool has n_blocks free; false when nothing is left
 * to drop. */
bool sp_cache_free_up(sp_cache *c, int64_t n_blocks);
void sp_cache_clear(sp_cache *c);

#endif
