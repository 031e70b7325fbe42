/* policies.h -- prompts and caches without a model, for tests of what policies plan. */
#ifndef SP_TESTS_POLICIES_H
#define SP_TESTS_POLICIES_H

#include "support/small_kv.h"

#include "cache/cache.h"
#include "reuse/reuse.h"

enum { B = SP_BLOCK_TOKENS, MAX_SEGS = 8, MAX_TOKENS = 80, ROOM = 21 };

typedef struct bench {
    sp_kv_pool *pool;
    sp_cache cache;
    sp_arena arena;
    int32_t tokens[MAX_SEGS][MAX_TOKENS];
    sp_segment segs[MAX_SEGS];
    sp_digest head[MAX_SEGS]; /* ids of the segments */
    int n_segs;
    sp_match match;
    const sp_variant *chunks[MAX_SEGS];
    sp_reuse_input in;
    sp_plan plan, probe;
} bench;

/* bench_begin -- a prompt of segments: letters of `kinds` say what they are (s, c, q, t), sizes how
 * long. Segment k says 100 k, 100 k + 1, ... unless it is made a twin of another. */
static inline void bench_begin(bench *b, const char *kinds, const int32_t *sizes)
{
    static const char letters[] = "scqt";
    *b = (bench){.pool = small_pool(200), .n_segs = (int)strlen(kinds)};
    assert_ok(sp_cache_init(&b->cache, b->pool, 200, 64, "lru"));
    for (int i = 0; i < b->n_segs; i++) {
        assert_in_range(sizes[i], 1, MAX_TOKENS);
        for (int32_t t = 0; t < sizes[i]; t++) b->tokens[i][t] = 100 * i + t;
        b->segs[i] = small_segment(b->tokens[i], sizes[i]);
        b->segs[i].kind = (sp_segment_kind)(strchr(letters, kinds[i]) - letters);
        b->head[i] = b->segs[i].id;
    }
}

static inline void bench_end(bench *b)
{
    sp_plan_fini(&b->plan);
    sp_plan_fini(&b->probe);
    for (int i = 0; i < b->n_segs; i++)
        if (b->chunks[i]) sp_chunks_unpin(b->cache.chunks, b->chunks[i]);
    sp_tree_release(b->cache.tree, &b->match);
    sp_cache_fini(&b->cache);
    sp_arena_fini(&b->arena);
    small_pool_end(b->pool);
}

/* twin -- segment i says what segment k says. */
static inline void twin(bench *b, int i, int k)
{
    memcpy(b->tokens[i], b->tokens[k], sizeof b->tokens[i]);
    b->segs[i] = small_segment(b->tokens[i], b->segs[k].n);
    b->head[i] = b->segs[i].id;
}

static inline void sealed(bench *b, int32_t n, uint32_t *blocks)
{
    assert_ok(sp_kv_acquire(b->pool, small_blocks(n), blocks));
    sp_kv_seal(b->pool, blocks, small_blocks(n));
}

/* know_head -- its first n segments are in the knowledge tree. */
static inline void know_head(bench *b, int n)
{
    sp_match m;
    assert_ok(sp_tree_match(b->cache.tree, b->segs, n, 1, &b->arena, &m));
    for (int i = 0; i < n; i++) {
        uint32_t blocks[MAX_TOKENS / B];
        bool added;
        sealed(b, b->segs[i].n, blocks);
        assert_ok(sp_tree_extend(b->cache.tree, &m, &b->segs[i], blocks, 1, &added));
        assert_true(added);
        sp_kv_release(b->pool, blocks, small_blocks(b->segs[i].n));
    }
    sp_tree_release(b->cache.tree, &m);
}

/* know_copy -- a copy of segment i is in the chunk index, in blocks of its own. */
static inline void know_copy(bench *b, int i, sp_variant v)
{
    uint32_t blocks[MAX_TOKENS / B];
    bool added;
    int32_t n = v.base ? v.n_patch : b->segs[i].n;
    sealed(b, n, blocks);
    v.blocks = v.base ? v.base->blocks : blocks;
    v.patch_blocks = v.base ? blocks : NULL;
    assert_ok(sp_chunks_insert(b->cache.chunks, &b->segs[i], &v, 1, &added));
    assert_true(added);
    sp_kv_release(b->pool, blocks, small_blocks(n));
}

/* know_chunk -- the plain copy of segment i, as computed at this position. */
static inline void know_chunk(bench *b, int i, int32_t at)
{
    know_copy(b, i, (sp_variant){.before = b->head, .n_before = 1, .at = at});
}

/* look_up -- as serve/ does. */
static inline const sp_reuse_input *look_up(bench *b, float recompute)
{
    int n_head = sp_reuse_n_head(b->segs, b->n_segs);
    assert_ok(sp_tree_match(b->cache.tree, b->segs, n_head, 2, &b->arena, &b->match));
    for (int i = 0; i < b->n_segs; i++)
        if (b->segs[i].kind == SP_SEG_CHUNK)
            b->chunks[i] = sp_chunks_find(b->cache.chunks, &b->segs[i], b->head, 1, 2);
    b->in = (sp_reuse_input){.segs = b->segs,
                             .n_segs = b->n_segs,
                             .ids = b->head,
                             .n_head = n_head,
                             .match = &b->match,
                             .chunks = b->chunks,
                             .answer_room = ROOM,
                             .n_layers = 4,
                             .recompute = recompute};
    return &b->in;
}

static inline const sp_reuse_policy *policy(const char *name)
{
    const sp_reuse_policy *p = NULL;
    assert_ok(sp_reuse_find(name, &p));
    assert_string_equal(p->name, name);
    return p;
}

static inline void make_plan(bench *b, const char *name)
{
    sp_plan_fini(&b->plan);
    sp_plan_init(&b->plan, b->pool);
    assert_ok(policy(name)->plan(&b->in, &b->plan));
}

static inline void make_probe(bench *b, const char *name)
{
    sp_plan_init(&b->probe, b->pool);
    assert_ok(policy(name)->probe(&b->in, &b->probe));
    b->in.probed = &b->probe;
}

/* The usual prompt: a head in two pieces, four chunks of which two are equal, text between, a
 * question. */
static inline void usual(bench *b, float recompute)
{
    bench_begin(b, "sscctccq", (const int32_t[]){20, 5, 18, 33, 6, 70, 18, 9});
    twin(b, 6, 2);
    know_head(b, 2);
    know_chunk(b, 2, 25);
    know_chunk(b, 3, 25);
    know_chunk(b, 5, 25);
    look_up(b, recompute);
}

enum { USUAL_TOKENS = 18 + 33 + 70 + 18 };

static inline bool stale(const sp_span *s, int32_t t)
{
    return s->stale && (s->stale[t / 64] >> (t % 64) & 1);
}

static inline void assert_blocks(const sp_plan *p, int i, const uint32_t *blocks)
{
    assert_int_equal(p->slots[i].n_known, p->spans[i].n);
    assert_memory_equal(p->spans[i].blocks, blocks,
                        (size_t)small_blocks(p->spans[i].n) * sizeof *blocks);
}

typedef sp_err maker(const sp_reuse_input *in, sp_plan *plan);

/* made -- a plan that is given up at once. */
static inline sp_err made(bench *b, maker *make)
{
    sp_plan p;
    sp_plan_init(&p, b->pool);
    sp_err err = make(&b->in, &p);
    sp_plan_fini(&p);
    return err;
}

/* refs -- holders of all blocks together: a plan given up holds none. */
static inline uint64_t refs(const bench *b)
{
    uint64_t n = 0;
    for (int64_t i = 0; i < sp_kv_pool_n_blocks(b->pool); i++)
        n += sp_kv_refs(b->pool, (uint32_t)i);
    return n;
}

#endif
