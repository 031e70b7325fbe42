/* tree_bench.h -- a knowledge tree over a small pool, and prompts that come and go. */
#ifndef SP_TESTS_TREE_BENCH_H
#define SP_TESTS_TREE_BENCH_H

#include "support/small_kv.h"

#include "cache/tree.h"

enum { B = SP_BLOCK_TOKENS, MAX_PATH = 16 };

typedef struct bench {
    sp_kv_pool *pool;
    sp_tree *tree;
    sp_arena arena;
    int64_t now;
} bench;

static inline void bench_begin(bench *b, int64_t n_blocks, int64_t max_blocks)
{
    b->pool = small_pool(n_blocks);
    assert_ok(sp_tree_create(b->pool, max_blocks, "lru", &b->tree));
    sp_arena_init(&b->arena);
    b->now = 0;
}

static inline void bench_end(bench *b)
{
    sp_tree_destroy(b->tree);
    sp_arena_fini(&b->arena);
    small_pool_end(b->pool); /* the tree has given everything back */
}

/* numbered -- n tokens that begin at `first`, and count. Valid until 64 more were made. */
static inline sp_segment numbered(int32_t first, int32_t n)
{
    static int32_t tokens[64][128];
    static int next;
    int32_t *t = tokens[next++ % 64];
    assert_in_range(n, 1, 128);
    for (int32_t i = 0; i < n; i++) t[i] = first + i;
    return small_segment(t, n);
}

static inline sp_match match(bench *b, const sp_segment *segs, int n)
{
    sp_match m;
    assert_ok(sp_tree_match(b->tree, segs, n, ++b->now, &b->arena, &m));
    return m;
}

/* extend -- as after a prefill: fresh sealed blocks, handed over to the tree. */
static inline bool extend(bench *b, sp_match *m, const sp_segment *seg)
{
    uint32_t blocks[MAX_PATH];
    bool added = false;
    int32_t n = small_blocks(seg->n);
    assert_ok(sp_kv_acquire(b->pool, n, blocks));
    sp_kv_seal(b->pool, blocks, n);
    assert_ok(sp_tree_extend(b->tree, m, seg, blocks, b->now, &added));
    sp_kv_release(b->pool, blocks, n);
    return added;
}

/* learn -- a whole prompt comes and goes; returns how many of its segments were known. */
static inline int learn(bench *b, const sp_segment *segs, int n)
{
    sp_match m = match(b, segs, n);
    int known = m.n_path;
    for (int i = known; i < n && extend(b, &m, &segs[i]); i++) {
    }
    sp_tree_release(b->tree, &m);
    return known;
}

/* known -- how many leading segments the tree has; they count as used. */
static inline int known(bench *b, const sp_segment *segs, int n)
{
    sp_match m = match(b, segs, n);
    int found = m.n_path;
    sp_tree_release(b->tree, &m);
    return found;
}

#endif
