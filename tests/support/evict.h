/* evict.h -- drops leaves of a tree until its pool has n_blocks free; false when nothing is left
 * to drop. */
#ifndef SP_TESTS_EVICT_H
#define SP_TESTS_EVICT_H

#include "cache/tree.h"

static inline bool evict_until(sp_tree *tree, sp_kv_pool *pool, int64_t n_blocks)
{
    while (sp_kv_pool_n_free(pool) < n_blocks)
        if (!sp_tree_evict_one(tree)) return false;
    return true;
}

#endif
