/* policies.h -- prompts and a ledger without a model, for tests of what policies find and plan. */
#ifndef SP_TESTS_POLICIES_H
#define SP_TESTS_POLICIES_H

#include "support/small_kv.h"

#include "cache/ledger.h"
#include "reuse/parts.h"

enum { B = SP_BLOCK_TOKENS, MAX_SEGS = 8, MAX_TOKENS = 80, ROOM = 21 };

typedef struct bench {
    sp_kv_pool *pool;
    sp_ledger *ledger;
    sp_arena arena;
    int32_t tokens[MAX_SEGS][MAX_TOKENS];
    sp_segment segs[MAX_SEGS];
    sp_digest ids[MAX_SEGS];
    int n_segs, n_head;
    sp_found found[MAX_SEGS];
    sp_reuse_input in;
    sp_plan plan, probe;
} bench;

/* bench_begin -- a prompt of segments: letters of `kinds` say what they are (s, c, q, t), sizes how
 * long. Segment k says 100 k, 100 k + 1, ... unless it is made a twin of another. */
static inline void bench_begin(bench *b, const char *kinds, const int32_t *sizes)
{
    static const char letters[] = "scqt";
    *b = (bench){.pool = small_pool(200), .n_segs = (int)strlen(kinds)};
    assert_ok(sp_ledger_create(
        &(sp_ledger_opts){.pool = b->pool, .max_blocks = 200, .max_placed = 64}, &b->ledger));
    for (int i = 0; i < b->n_segs; i++) {
        assert_in_range(sizes[i], 1, MAX_TOKENS);
        for (int32_t t = 0; t < sizes[i]; t++) b->tokens[i][t] = 100 * i + t;
        b->segs[i] = small_segment(b->tokens[i], sizes[i]);
        b->segs[i].kind = (sp_segment_kind)(strchr(letters, kinds[i]) - letters);
        b->ids[i] = b->segs[i].id;
    }
    if (b->n_segs < MAX_SEGS) { /* beyond the prompt: no policy may look at it */
        static const sp_copy beyond;
        b->segs[b->n_segs].kind = SP_SEG_CHUNK;
        b->found[b->n_segs].copy = &beyond;
    }
    b->n_head = sp_reuse_n_head(b->segs, b->n_segs);
}

static inline void bench_end(bench *b)
{
    if (b->n_segs < MAX_SEGS) assert_true(b->found[b->n_segs].cfo == 0);
    sp_plan_fini(&b->plan);
    sp_plan_fini(&b->probe);
    for (int i = 0; i < b->n_segs; i++)
        if (b->found[i].copy) sp_ledger_unpin(b->ledger, b->found[i].copy);
    sp_ledger_destroy(b->ledger);
    sp_arena_fini(&b->arena);
    small_pool_end(b->pool);
}

/* twin -- segment i says what segment k says. */
static inline void twin(bench *b, int i, int k)
{
    memcpy(b->tokens[i], b->tokens[k], sizeof b->tokens[i]);
    b->segs[i] = small_segment(b->tokens[i], b->segs[k].n);
    b->ids[i] = b->segs[i].id;
}

static inline void sealed(bench *b, int32_t n, uint32_t *blocks)
{
    assert_ok(sp_kv_acquire(b->pool, small_blocks(n), blocks));
    sp_kv_seal(b->pool, blocks, small_blocks(n));
}

/* know_path -- path copies of n segments. */
static inline void know_path(bench *b, const sp_segment *segs, int n)
{
    const sp_copy *parent = NULL;
    for (int i = 0; i < n; i++) {
        uint32_t blocks[MAX_TOKENS / B];
        sealed(b, segs[i].n, blocks);
        sp_copy_spec spec = {.seg = &segs[i],
                             .facts.kind = SP_COPY_PATH,
                             .facts.exact = true,
                             .parent = parent,
                             .blocks = blocks};
        assert_ok(sp_ledger_add(b->ledger, &spec, 1, &parent));
        assert_non_null(parent);
        sp_kv_release(b->pool, blocks, small_blocks(segs[i].n));
    }
}

/* know_head -- path copies of its first n segments. */
static inline void know_head(bench *b, int n)
{
    know_path(b, b->segs, n);
}

/* know_copy -- a copy of segment i, in blocks of its own. */
static inline void know_copy(bench *b, int i, sp_copy_spec spec)
{
    uint32_t blocks[MAX_TOKENS / B];
    const sp_copy *out = NULL;
    int32_t n = spec.base ? spec.patch.n : b->segs[i].n;
    sealed(b, n, blocks);
    spec.seg = &b->segs[i];
    spec.facts.n_head = b->n_head;
    spec.blocks = spec.base ? spec.base->blocks : blocks;
    spec.patch.blocks = spec.base ? blocks : NULL;
    assert_ok(sp_ledger_add(b->ledger, &spec, 1, &out));
    assert_non_null(out);
    sp_kv_release(b->pool, blocks, small_blocks(n));
}

/* plain_spec -- of a copy computed after the head, at this position. */
static inline sp_copy_spec plain_spec(const bench *b, int32_t at)
{
    return (sp_copy_spec){.facts.kind = SP_COPY_PLAIN,
                          .facts.before = b->ids,
                          .facts.n_before = b->n_head,
                          .facts.at = at};
}

/* know_chunk -- the plain copy of segment i. */
static inline void know_chunk(bench *b, int i, int32_t at)
{
    know_copy(b, i, plain_spec(b, at));
}

static inline const sp_reuse_policy *policy(const char *name)
{
    const sp_reuse_policy *p = NULL;
    assert_ok(sp_reuse_policy_find(name, &p, NULL));
    assert_string_equal(p->name, name);
    return p;
}

/* find_as -- as serve/ asks a policy. */
static inline const sp_reuse_input *find_as(bench *b, const sp_reuse_policy *p, sp_reuse_input in)
{
    in.segs = b->segs;
    in.n_segs = b->n_segs;
    in.ids = b->ids;
    in.n_head = b->n_head;
    in.found = b->found;
    b->in = in;
    assert_ok(
        p->find(&(sp_finder){.in = &b->in, .ledger = b->ledger, .arena = &b->arena, .now = 2}));
    return &b->in;
}

/* look_up -- the head by path, plain copies of the chunks. */
static inline const sp_reuse_input *look_up(bench *b, float recompute)
{
    return find_as(b, policy("full"),
                   (sp_reuse_input){.answer_room = ROOM, .n_layers = 4, .recompute = recompute});
}

static inline bool is_chunk(const sp_reuse_input *in, int i)
{
    return in->found[i].copy && in->found[i].copy->facts.kind != SP_COPY_PATH;
}

/* policy_with -- the policy; parameters that cannot be 0 and that a test has not set get their defaults. */
static inline const sp_reuse_policy *policy_with(bench *b, const char *name)
{
    const sp_reuse_policy *p = policy(name);
    for (int k = 0; k < p->n_params; k++)
        if (p->params[k].least > 0 && b->in.params[k] == 0) b->in.params[k] = p->params[k].normal;
    return p;
}

/* make_plan -- the answer's, after all that a policy may run before it; with the probe that the
 * bench has, if any. */
static inline void make_plan(bench *b, const char *name)
{
    sp_plan_role role;
    sp_plan_fini(&b->plan);
    sp_plan_init(&b->plan, b->pool);
    b->in.n_done[SP_PLAN_FILL] = 1;
    b->in.n_done[SP_PLAN_PROBE] = 2;
    b->in.last = b->probe.n_spans ? &b->probe : NULL;
    assert_ok(policy_with(b, name)->next_plan(&b->in, &b->plan, &role));
    assert_int_equal(role, SP_PLAN_ANSWER);
}

/* make_probe -- the first one; false when the share needs no measuring. */
static inline bool make_probe(bench *b, const char *name)
{
    sp_plan_role role;
    sp_plan_init(&b->probe, b->pool);
    b->in.n_done[SP_PLAN_FILL] = 1;
    b->in.n_done[SP_PLAN_PROBE] = 0;
    assert_ok(policy_with(b, name)->next_plan(&b->in, &b->probe, &role));
    bool probes = b->in.recompute > 0 && b->in.recompute < 1;
    assert_int_equal(role, probes ? SP_PLAN_PROBE : SP_PLAN_ANSWER);
    if (!probes) sp_plan_fini(&b->probe);
    return probes;
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

/* made -- a plan that is given up at once. */
static inline sp_err made(bench *b, const sp_reuse_policy *p)
{
    sp_plan plan;
    sp_plan_role role;
    sp_plan_init(&plan, b->pool);
    sp_err err = p->next_plan(&b->in, &plan, &role);
    sp_plan_fini(&plan);
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
