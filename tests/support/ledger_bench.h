/* ledger_bench.h -- a ledger over a small pool, segments of numbered tokens, and a clock. */
#ifndef SP_TESTS_LEDGER_BENCH_H
#define SP_TESTS_LEDGER_BENCH_H

#include "support/small_kv.h"

#include "cache/ledger.h"

enum { B = SP_BLOCK_TOKENS, MAX_BLOCKS = 8 };

typedef struct bench {
    sp_kv_pool *pool;
    sp_ledger *ledger;
    int64_t now;
} bench;

static inline void bench_placed(bench *b, int64_t n_blocks, int64_t max_blocks, int64_t max_placed)
{
    *b = (bench){.pool = small_pool(n_blocks)};
    sp_ledger_opts o = {.pool = b->pool, .max_blocks = max_blocks, .max_placed = max_placed};
    assert_ok(sp_ledger_create(&o, &b->ledger));
}

static inline void bench_begin(bench *b, int64_t n_blocks, int64_t max_blocks)
{
    bench_placed(b, n_blocks, max_blocks, 64);
}

static inline void bench_end(bench *b)
{
    sp_ledger_destroy(b->ledger);
    small_pool_end(b->pool); /* the ledger has given everything back */
}

static inline int bench_setup(void **state)
{
    static bench b;
    bench_begin(&b, 20, 20);
    *state = &b;
    return 0;
}

static inline int bench_teardown(void **state)
{
    bench_end(*state);
    return 0;
}

/* BENCH_TEST -- a case whose *state is a bench of 20 blocks, of which copies may have all. */
#define BENCH_TEST(test) cmocka_unit_test_setup_teardown(test, bench_setup, bench_teardown)

/* numbered -- n tokens that begin at `first`, and count. Valid until 64 more were made. */
static inline sp_segment numbered(int32_t first, int32_t n)
{
    static int32_t tokens[64][MAX_BLOCKS * B];
    static int next;
    int32_t *t = tokens[next++ % 64];
    assert_in_range(n, 1, MAX_BLOCKS * B);
    for (int32_t i = 0; i < n; i++) t[i] = first + i;
    return small_segment(t, n);
}

/* sealed -- blocks as a prefill leaves them; the caller holds them. */
static inline void sealed(sp_kv_pool *pool, int32_t n_tokens, uint32_t *blocks)
{
    assert_ok(sp_kv_acquire(pool, small_blocks(n_tokens), blocks));
    sp_kv_seal(pool, blocks, small_blocks(n_tokens));
}

static inline sp_ledger_stats stats_of(const bench *b)
{
    return sp_ledger_stats_of(b->ledger);
}

static inline int64_t n_copies(const bench *b)
{
    return stats_of(b).n_copies;
}

/* evict_one -- Pre: no copy shares its blocks with another holder. */
static inline bool evict_one(bench *b)
{
    return sp_ledger_free_up(b->ledger, sp_kv_pool_n_free(b->pool) + 1);
}

/* oldest -- when the evictable copy that was used least recently was used; INT64_MAX: none is. */
static inline int64_t oldest(const bench *b)
{
    int64_t time = INT64_MAX;
    for (const sp_copy *c = NULL; (c = sp_ledger_next(b->ledger, c));)
        if (sp_copy_evictable(c)) time = SP_MIN(time, c->uses.last);
    return time;
}

#endif
