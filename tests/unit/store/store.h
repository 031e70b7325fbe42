/* store.h -- a folder, pools of each KV type, and chunks of noise, for tests of the store. */
#ifndef SP_TESTS_STORE_H
#define SP_TESTS_STORE_H

#include "support/check.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/disk.h"
#include "support/far_device.h"

enum { LAYERS = 3, HEADS = 2, BLOCKS = 24, MAX_CHUNK = 100 };

static const sp_dtype kv_types[] = {SP_F32, SP_F16, SP_BF16, SP_Q16, SP_Q8_0};
static const sp_digest space = {{0x5a, 1}}, other_space = {{0x5b, 1}};
static const sp_digest before[] = {{{1}}, {{2}}, {{3}}, {{4}}}; /* ids of segments in sight */

typedef struct bench {
    char dir[128];
    sp_kv_pool *pool;
    sp_disk *disk;
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

static inline void store_open(bench *b)
{
    assert_ok(sp_disk_open(&(sp_disk_opts){.dir = b->dir, .space = &space, .pool = b->pool}, &b->disk));
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
    sp_disk_close(b->disk);
    b->disk = NULL;
    store_open(b);
}

static inline int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *w)
{
    return remove(path);
}

static inline void bench_end(bench *b)
{
    sp_disk_close(b->disk);
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

/* key_of -- after a head of one segment. */
static inline sp_disk_key key_of(const chunk *c, sp_disk_kind kind)
{
    return (sp_disk_key){.kind = kind, .seg = &c->seg, .head = before, .n_head = 1};
}

/* put -- computed after n_before segments, rotated for 10 n_before. */
static inline sp_err put(bench *b, const chunk *c, sp_disk_kind kind, int n_before)
{
    sp_disk_key key = key_of(c, kind);
    sp_disk_copy copy = {.before = before, .n_before = n_before, .at = 10 * n_before};
    return sp_disk_put(b->disk, &key, &copy, c->blocks);
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
static inline bool loads_as(bench *b, const chunk *c, sp_disk_kind kind, int n_before)
{
    sp_disk_key key = key_of(c, kind);
    uint32_t blocks[BLOCKS];
    int32_t n = sp_blocks_for(c->seg.n);
    sp_disk_copy copy = {0};
    assert_ok(sp_kv_acquire(b->pool, n, blocks));
    fill_noise(b, blocks, n);
    bool found = sp_disk_load(b->disk, &key, blocks, &copy);
    if (found) {
        assert_true(same_kv(b, blocks, c->blocks, n));
        assert_int_equal(copy.n_before, n_before);
        assert_memory_equal(copy.before, before, sizeof *before * (size_t)n_before);
        assert_int_equal(copy.at, 10 * n_before);
    }
    sp_kv_release(b->pool, blocks, n);
    return found;
}

static inline bool finds(bench *b, const chunk *c, sp_disk_kind kind)
{
    sp_disk_key key = key_of(c, kind);
    sp_disk_copy copy;
    return sp_disk_find(b->disk, &key, &copy);
}

#endif
