/* chunk_bench.h -- a chunk index over a small pool, and copies to enter into it. */
#ifndef SP_TESTS_CHUNK_BENCH_H
#define SP_TESTS_CHUNK_BENCH_H

#include "support/small_kv.h"

#include "cache/chunks.h"

enum { B = SP_BLOCK_TOKENS, MAX_BLOCKS = 8 };

typedef struct bench {
    sp_kv_pool *pool;
    sp_chunks *chunks;
    int64_t now;
} bench;

static inline void bench_placed(bench *b, int64_t n_blocks, int64_t max_blocks, int64_t max_placed)
{
    *b = (bench){.pool = small_pool(n_blocks)};
    assert_ok(sp_chunks_create(b->pool, max_blocks, max_placed, &b->chunks));
}

static inline void bench_begin(bench *b, int64_t n_blocks, int64_t max_blocks)
{
    bench_placed(b, n_blocks, max_blocks, 64);
}

static inline void bench_end(bench *b)
{
    sp_chunks_destroy(b->chunks);
    small_pool_end(b->pool); /* the index has given everything back */
}

static const sp_digest before[] = {{{1}}, {{2}}, {{3}}, {{4}}};

/* numbered -- n tokens that begin at `first`, and count. Valid until 32 more were made. */
static inline sp_segment numbered(int32_t first, int32_t n)
{
    static int32_t tokens[32][MAX_BLOCKS * B];
    static int next;
    int32_t *t = tokens[next++ % 32];
    assert_in_range(n, 1, MAX_BLOCKS * B);
    for (int32_t i = 0; i < n; i++) t[i] = first + i;
    return small_segment(t, n);
}

/* sealed -- blocks as a fill leaves them; the caller holds them. */
static inline void sealed(sp_kv_pool *pool, int32_t n_tokens, uint32_t *blocks)
{
    assert_ok(sp_kv_acquire(pool, small_blocks(n_tokens), blocks));
    sp_kv_seal(pool, blocks, small_blocks(n_tokens));
}

/* enter -- a copy in fresh sealed blocks, handed over to the index. */
static inline bool enter(bench *b, const sp_segment *seg, sp_variant v)
{
    uint32_t blocks[MAX_BLOCKS];
    bool added = false;
    int32_t n = v.base ? v.n_patch : seg->n;
    sealed(b->pool, n, blocks);
    v.blocks = v.base ? v.base->blocks : blocks;
    v.patch_blocks = v.base ? blocks : NULL;
    assert_ok(sp_chunks_insert(b->chunks, seg, &v, ++b->now, &added));
    sp_kv_release(b->pool, blocks, small_blocks(n));
    return added;
}

/* insert -- the plain copy, behind before[0]. */
static inline bool insert(bench *b, const sp_segment *seg)
{
    return enter(b, seg, (sp_variant){.before = before, .n_before = 1, .at = 5});
}

static inline const sp_variant *find(bench *b, const sp_segment *seg)
{
    return sp_chunks_find(b->chunks, seg, before, 1, ++b->now);
}

/* has -- without leaving a pin; counts as a use. */
static inline bool has(bench *b, const sp_segment *seg)
{
    const sp_variant *v = find(b, seg);
    if (v) sp_chunks_unpin(b->chunks, v);
    return v != NULL;
}

#endif
