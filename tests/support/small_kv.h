/* small_kv.h -- a small KV pool, and segments of numbered tokens, for tests without a model. */
#ifndef SP_TESTS_SMALL_KV_H
#define SP_TESTS_SMALL_KV_H

#include "support/check.h"

#include "kv/pool.h"
#include "kv/segment.h"

static inline sp_kv_pool *small_pool(int64_t n_blocks)
{
    sp_kv_pool *pool = NULL;
    assert_ok(sp_kv_pool_create(
        &(sp_kv_shape){.n_layers = 1, .n_heads = 1, .head = 2, .type = SP_F16}, n_blocks, &pool));
    return pool;
}

/* small_pool_end -- destroys the pool; every block must have been given back. */
static inline void small_pool_end(sp_kv_pool *pool)
{
    assert_int_equal(sp_kv_pool_n_free(pool), sp_kv_pool_n_blocks(pool));
    for (int64_t b = 0; b < sp_kv_pool_n_blocks(pool); b++)
        assert_int_equal(sp_kv_refs(pool, (uint32_t)b), 0);
    sp_kv_pool_destroy(pool);
}

static inline int32_t small_blocks(int32_t n_tokens)
{
    return SP_DIV_UP(n_tokens, SP_BLOCK_TOKENS);
}

/* small_segment -- a chunk of these tokens, borrowed, with their true id. */
static inline sp_segment small_segment(const int32_t *tokens, int32_t n)
{
    static const sp_digest space = {{1}};
    sp_segment s = {.kind = SP_SEG_CHUNK, .tokens = tokens, .n = n};
    assert_ok(sp_segment_id(&space, NULL, tokens, n, &s.id));
    return s;
}

#endif
