/* random_kv.h -- contexts of random keys and values, for benchmarks of speed. */
#ifndef SP_BENCH_SPARSE_RANDOM_KV_H
#define SP_BENCH_SPARSE_RANDOM_KV_H

#include "kv/pool.h"

/* Random numbers for a piece of tokens, and where they go. */
typedef struct random_kv {
    sp_kv_pool *pool;
    uint64_t *random;
    sp_mirror kv, block, slot, rot;
} random_kv;

/* random_kv_open -- `random` is drawn from as long as it is open. */
sp_err random_kv_open(sp_kv_pool *pool, uint64_t *random, random_kv *out) SP_MUST_CHECK;
void random_kv_close(random_kv *r);
/* random_kv_store -- n tokens into open blocks, in all layers; their positions begin at `at`. */
sp_err random_kv_store(random_kv *r, const uint32_t *blocks, int at, int n) SP_MUST_CHECK;

#endif
