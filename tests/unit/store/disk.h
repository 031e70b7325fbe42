/* disk.h -- disk tiers in temporary folders, with copies of noise (tier.h) in them. */
#ifndef SP_TESTS_DISK_H
#define SP_TESTS_DISK_H

#include "tier.h"

/* A tier in a folder of its own. */
typedef struct bench {
    char dir[128];
    sp_disk_tier_opts opts;
    sp_tier *tier;
} bench;

static inline void bench_open(bench *b)
{
    b->opts.dir = b->dir;
    b->opts.space = &noise_space;
    assert_ok(sp_disk_tier_open(&b->opts, &b->tier));
}

static inline void bench_end(bench *b)
{
    if (b->tier) sp_tier_close(b->tier);
    remove_folder(b->dir);
}

/* bench_begin -- false: this system has no I/O of that kind. */
static inline bool bench_begin(bench *b, sp_disk_tier_opts o)
{
    *b = (bench){.opts = o};
    make_folder(b->dir, sizeof b->dir);
    b->opts.dir = b->dir;
    b->opts.space = &noise_space;
    sp_err err = sp_disk_tier_open(&b->opts, &b->tier);
    if (err != SP_E_UNSUPPORTED) assert_ok(err);
    if (err != SP_OK) bench_end(b);
    return err == SP_OK;
}

static inline void bench_reopen(bench *b)
{
    sp_tier_close(b->tier);
    bench_open(b);
}

/* put_all -- copies 0 .. n-1. */
static inline void put_all(sp_tier *t, uint32_t n, uint32_t version)
{
    for (uint32_t i = 0; i < n; i++) assert_ok(noise_put(t, i, version));
}

/* assert_has -- copies 0 .. n-1 come back. */
static inline void assert_has(sp_tier *t, uint32_t n, uint32_t version)
{
    for (uint32_t i = 0; i < n; i++) assert_ok(noise_get(t, i, version));
}

/* must_open -- a tier in a folder that is there already. */
static inline sp_tier *must_open(const char *dir)
{
    sp_tier *t = NULL;
    assert_ok(sp_disk_tier_open(&(sp_disk_tier_opts){.dir = dir, .space = &noise_space, .n_readers = 1}, &t));
    return t;
}

static inline sp_tier *reopen(sp_tier *t, const char *dir)
{
    sp_tier_close(t);
    return must_open(dir);
}

/* fill -- a folder with copies 0 .. n-1, closed. */
static inline void fill(const char *dir, uint32_t n)
{
    sp_tier *t = must_open(dir);
    put_all(t, n, 1);
    sp_tier_close(t);
}

#endif
