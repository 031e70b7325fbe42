/* small_kv.h -- a small KV pool, and segments of numbered tokens, for tests without a model. */
#ifndef SP_TESTS_SMALL_KV_H
#define SP_TESTS_SMALL_KV_H

#include "support/check.h"

#include "kv/pool.h"
#include "kv/segment.h"

/* small_device -- the CPU with one thread and plain kernels. */
static inline sp_device *small_device(void)
{
    sp_device *d = NULL;
    assert_ok(sp_device_open("cpu", &(sp_device_opts){.kernels = "ref", .n_threads = 1}, &d));
    return d;
}

/* small_pool -- on a device of its own. */
static inline sp_kv_pool *small_pool(int64_t n_blocks)
{
    sp_kv_pool *pool = NULL;
    assert_ok(sp_kv_pool_create(
        small_device(), &(sp_kv_shape){.n_layers = 1, .n_heads = 1, .head = 2, .type = SP_F16},
        n_blocks, &pool));
    return pool;
}

/* small_pool_close -- destroys a pool and its device. */
static inline void small_pool_close(sp_kv_pool *pool)
{
    sp_device *d = sp_kv_pool_device(pool);
    sp_kv_pool_destroy(pool);
    sp_device_close(d);
}

/* small_pool_end -- the same; every block must have been given back. */
static inline void small_pool_end(sp_kv_pool *pool)
{
    assert_int_equal(sp_kv_pool_n_free(pool), sp_kv_pool_n_blocks(pool));
    for (int64_t b = 0; b < sp_kv_pool_n_blocks(pool); b++)
        assert_int_equal(sp_kv_refs(pool, (uint32_t)b), 0);
    small_pool_close(pool);
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
