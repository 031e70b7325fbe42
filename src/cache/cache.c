#include "cache/cache.h"

sp_err sp_cache_init(sp_cache *c, sp_kv_pool *pool, int64_t max_blocks, int64_t max_placed,
                     const char *evict)
{
    *c = (sp_cache){.pool = pool};
    sp_err err = sp_tree_create(pool, max_blocks, evict, &c->tree);
    if (err == SP_OK) err = sp_chunks_create(pool, max_blocks, max_placed, &c->chunks);
    if (err != SP_OK) sp_cache_fini(c);
    return err;
}

void sp_cache_fini(sp_cache *c)
{
    sp_chunks_destroy(c->chunks);
    sp_tree_destroy(c->tree);
    *c = (sp_cache){0};
}

bool sp_cache_free_up(sp_cache *c, int64_t n_blocks)
{
    while (sp_kv_pool_n_free(c->pool) < n_blocks) {
        bool tree_first = sp_tree_oldest(c->tree) <= sp_chunks_oldest(c->chunks);
        if (!(tree_first ? sp_tree_evict_one(c->tree) : sp_chunks_evict_one(c->chunks)))
            return false;
    }
    return true;
}

void sp_cache_clear(sp_cache *c)
{
    sp_tree_clear(c->tree);
    sp_chunks_clear(c->chunks);
}
