/* store.h -- a folder, pools of each KV type, and chunks of noise, for tests of the store. */
#ifndef SP_TESTS_STORE_H
#define SP_TESTS_STORE_H

#include "support/check.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/disk/tier.h"
#include "store/moves.h"
#include "support/far_device.h"

enum { LAYERS = 3, HEADS = 2, BLOCKS = 24, MAX_CHUNK = 100 };

static const sp_dtype kv_types[] = {SP_F32, SP_F16, SP_BF16, SP_Q16, SP_Q8_0};
static const sp_digest space = {{0x5a, 1}}, other_space = {{0x5b, 1}};
static const sp_digest before[] = {{{1}}, {{2}}, {{3}}, {{4}}}; /* ids of segments in sight */

typedef struct bench {
    char dir[128];
    sp_kv_pool *pool;
    sp_tier *tier;
    uint64_t seed;
} bench;

static inline sp_kv_pool *store_pool_on(sp_device *d, sp_dtype type, int n_layers)
{
    sp_kv_pool *pool = NULL;
    assert_ok(sp_kv_pool_create(
        d, &(sp_kv_shape){.n_layers = n_layers, .n_heads = HEADS, .head = 32, .type = type}, BLOCKS,
        &pool));
    return pool;
}

/* store_pool -- on a CPU of its own. */
static inline sp_kv_pool *store_pool(sp_dtype type, int n_layers)
{
    sp_device *d = NULL;
    assert_ok(sp_device_open("cpu", &(sp_device_opts){.kernels = "ref", .n_threads = 1}, &d));
    return store_pool_on(d, type, n_layers);
}

static inline void store_pool_close(sp_kv_pool *pool)
{
    sp_device *d = sp_kv_pool_device(pool);
    sp_kv_pool_destroy(pool);
    sp_device_close(d);
}

static inline sp_err store_tier(const char *dir, const sp_digest *in, sp_tier **out)
{
    return sp_disk_tier_open(&(sp_disk_tier_opts){.dir = dir, .space = in}, out);
}

static inline void store_open(bench *b)
{
    assert_ok(store_tier(b->dir, &space, &b->tier));
}

/* bench_begin_with -- `pool` is the bench's then. */
static inline void bench_begin_with(bench *b, sp_kv_pool *pool)
{
    const char *tmp = getenv("TMPDIR");
    *b = (bench){.seed = 7, .pool = pool};
    snprintf(b->dir, sizeof b->dir, "%s/spolia-store-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(b->dir));
    store_open(b);
}

static inline void bench_begin(bench *b, sp_dtype type)
{
    bench_begin_with(b, store_pool(type, LAYERS));
}

static inline void store_reopen(bench *b)
{
    sp_tier_close(b->tier);
    b->tier = NULL;
    store_open(b);
}

static inline int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *w)
{
    return remove(path);
}

static inline void bench_end(bench *b)
{
    sp_tier_close(b->tier);
    assert_int_equal(sp_kv_pool_n_free(b->pool), BLOCKS);
    store_pool_close(b->pool);
    assert_int_equal(nftw(b->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* A chunk of n numbered tokens from `first` on, with KV blocks full of noise. */
typedef struct chunk {
    int32_t tokens[MAX_CHUNK];
    sp_segment seg;
    uint32_t blocks[BLOCKS];
} chunk;

static inline void fill_noise(bench *b, const uint32_t *blocks, int32_t n)
{
    for (int l = 0; l < sp_kv_pool_shape(b->pool)->n_layers; l++) {
        size_t n_bytes = sp_kv_pool_layer_block_bytes(b->pool);
        uint8_t *noise = malloc(n_bytes);
        for (int32_t i = 0; i < n; i++) {
            for (size_t k = 0; k < n_bytes; k++) noise[k] = (uint8_t)check_random(&b->seed, 256);
            assert_ok(sp_kv_pool_write(b->pool, (sp_kv_run){l, blocks[i], 1}, noise));
        }
        free(noise);
    }
}

static inline void chunk_tokens(chunk *c, int first, int32_t n)
{
    for (int32_t i = 0; i < n; i++) c->tokens[i] = first + i;
    c->seg = (sp_segment){.kind = SP_SEG_CHUNK, .tokens = c->tokens, .n = n};
    assert_ok(sp_segment_id(&space, NULL, c->tokens, n, &c->seg.id));
}

static inline void chunk_begin(bench *b, chunk *c, int first, int32_t n)
{
    chunk_tokens(c, first, n);
    assert_ok(sp_kv_acquire(b->pool, sp_blocks_for(n), c->blocks));
    fill_noise(b, c->blocks, sp_blocks_for(n));
}

static inline void chunk_end(bench *b, chunk *c)
{
    sp_kv_release(b->pool, c->blocks, sp_blocks_for(c->seg.n));
}

/* Which copy of which chunk. */
typedef struct copy_name {
    sp_copy_kind kind;
    const sp_segment *seg;
    const sp_digest *head;
    int n_head;
} copy_name;

/* key_of -- after a head of one segment. */
static inline copy_name key_of(const chunk *c, sp_copy_kind kind)
{
    return (copy_name){.kind = kind, .seg = &c->seg, .head = before, .n_head = 1};
}

static inline sp_move move_of(sp_kv_pool *pool, const sp_digest *in, const copy_name *key,
                              const uint32_t *blocks)
{
    return (sp_move){.pool = pool,
                     .space = in,
                     .kind = (uint32_t)key->kind,
                     .seg = *key->seg,
                     .head = key->head,
                     .n_head = key->n_head,
                     .blocks = blocks};
}

/* finish -- the result of an operation that was submitted. */
static inline sp_err finish(sp_tier_op *op)
{
    assert_true(sp_tier_op_wait(op, 60000000));
    return sp_tier_op_result(op);
}

/* put_in_tier -- by the road that contexts take. */
static inline sp_err put_in_tier(sp_tier *t, sp_move *m, sp_record r)
{
    sp_move_record(m, &r);
    sp_err err = sp_move_put(m, t, &r, m->kind == SP_COPY_PATH, NULL);
    if (err == SP_OK) err = finish(m->op);
    sp_move_fini(m);
    return err;
}

static inline sp_err put_as(bench *b, const copy_name *key, sp_record r, const uint32_t *blocks)
{
    sp_move m = move_of(b->pool, &space, key, blocks);
    return put_in_tier(b->tier, &m, r);
}

/* put -- computed after n_before segments, rotated for 10 n_before. */
static inline sp_err put(bench *b, const chunk *c, sp_copy_kind kind, int n_before)
{
    const copy_name key = key_of(c, kind);
    return put_as(
        b, &key,
        (sp_record){.facts.before = before, .facts.n_before = n_before, .facts.at = 10 * n_before},
        c->blocks);
}

/* get_as -- into fresh blocks [n] of noise; *m says what the tier said, sp_move_fini is due in any case. */
static inline sp_err get_as(bench *b, const copy_name *key, uint32_t *blocks, sp_move *m)
{
    const int32_t n = sp_blocks_for(key->seg->n);
    assert_ok(sp_kv_acquire(b->pool, n, blocks));
    fill_noise(b, blocks, n);
    *m = move_of(b->pool, &space, key, blocks);
    sp_err err = sp_move_get(m, b->tier, NULL);
    return err == SP_OK ? finish(m->op) : err;
}

static inline bool has(bench *b, const copy_name *key)
{
    const sp_move m = move_of(b->pool, &space, key, NULL);
    const sp_tier_key k = sp_move_key(&m);
    return sp_tier_knows(b->tier, &k);
}

static inline sp_err remove_copy(bench *b, const copy_name *key)
{
    const sp_move m = move_of(b->pool, &space, key, NULL);
    return sp_tier_run(b->tier, &(sp_tier_job){.verb = SP_TIER_DROP, .key = sp_move_key(&m)});
}

static inline int64_t n_copies(bench *b)
{
    return sp_tier_stats_of(b->tier).n_copies;
}

static inline bool same_kv(const bench *b, const uint32_t *x, const uint32_t *y, int32_t n)
{
    for (int l = 0; l < sp_kv_pool_shape(b->pool)->n_layers; l++) {
        size_t n_bytes = sp_kv_pool_layer_block_bytes(b->pool);
        uint8_t *staging = malloc(2 * n_bytes);
        bool same = true;
        for (int32_t i = 0; i < n && same; i++) {
            const uint8_t *of_x, *of_y;
            assert_ok(sp_kv_pool_read(b->pool, (sp_kv_run){l, x[i], 1}, staging, &of_x));
            assert_ok(sp_kv_pool_read(b->pool, (sp_kv_run){l, y[i], 1}, staging + n_bytes, &of_y));
            same = memcmp(of_x, of_y, n_bytes) == 0;
        }
        free(staging);
        if (!same) return false;
    }
    return true;
}

/* loads_as -- the copy loads into fresh blocks, and is the chunk's; false is a miss. */
static inline bool loads_as(bench *b, const chunk *c, sp_copy_kind kind, int n_before)
{
    const copy_name key = key_of(c, kind);
    uint32_t blocks[BLOCKS];
    sp_move m;
    const bool found = get_as(b, &key, blocks, &m) == SP_OK;
    if (found) {
        assert_int_equal(m.n_there, sp_kv_pool_shape(b->pool)->n_layers);
        assert_true(same_kv(b, blocks, c->blocks, sp_blocks_for(c->seg.n)));
        assert_int_equal(m.said.facts.n_before, n_before);
        assert_memory_equal(m.said.facts.before, before, sizeof *before * (size_t)n_before);
        assert_int_equal(m.said.facts.at, 10 * n_before);
    }
    sp_kv_release(b->pool, blocks, sp_blocks_for(c->seg.n));
    sp_move_fini(&m);
    return found;
}

static inline bool finds_as(bench *b, const copy_name *key)
{
    uint32_t blocks[BLOCKS];
    sp_move m;
    const bool found = get_as(b, key, blocks, &m) == SP_OK;
    sp_kv_release(b->pool, blocks, sp_blocks_for(key->seg->n));
    sp_move_fini(&m);
    return found;
}

static inline bool finds(bench *b, const chunk *c, sp_copy_kind kind)
{
    const copy_name key = key_of(c, kind);
    return finds_as(b, &key);
}

#endif
