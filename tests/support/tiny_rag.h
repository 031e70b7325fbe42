/* tiny_rag.h -- a tiny model with caches, and random prompts of head, chunks and question. */
#ifndef SP_TESTS_TINY_RAG_H
#define SP_TESTS_TINY_RAG_H

#include "support/check.h"

#include "cache/cache.h"
#include "reuse/reuse.h"
#include "support/tiny_prompt.h"

typedef struct setting {
    tiny t;
    sp_cache cache;
    sp_arena arena;
    sp_match match;
    const sp_variant *chunks[MAX_SEGS];
    prompt p;
} setting;

/* run -- binds a plan and computes it whole. */
static inline void run(tiny *t, sp_plan *plan, float *logits)
{
    sp_slice s = {plan, 0, plan->n_todo, logits ? SP_WANT_LAST : SP_WANT_NONE, logits};
    assert_ok(sp_plan_bind(plan));
    assert_ok(sp_plan_check(plan));
    if (plan->n_todo) assert_ok(sp_engine_step(t->engine, &s, 1));
}

/* plain -- logits of the plain forward pass. */
static inline void plain(setting *s, const prompt *p, float *logits)
{
    const sp_reuse_policy *off;
    sp_match nothing = {0};
    sp_plan plan;
    assert_ok(sp_reuse_find("off", &off));
    sp_plan_init(&plan, s->t.pool);
    sp_reuse_input in = {
        .segs = p->segs, .n_segs = p->n_segs, .n_head = p->n_segs, .match = &nothing};
    assert_ok(off->plan(&in, &plan));
    run(&s->t, &plan, logits);
    sp_plan_fini(&plan);
}

/* random_rag -- a head, at least one chunk (sometimes one twice), a question. */
static inline void random_rag(prompt *p, uint64_t *rng, int n_vocab)
{
    do random_prompt(p, rng, n_vocab);
    while (p->n_segs < 3);
    p->segs[0].kind = SP_SEG_SYSTEM;
    p->segs[p->n_segs - 1].kind = SP_SEG_QUESTION;
    if (p->n_segs > 3 && tiny_below(rng, 2)) {
        p->segs[2].n = p->segs[1].n;
        memcpy(p->tokens[2], p->tokens[1], sizeof p->tokens[1]);
    }
    set_ids(p);
}

/* elsewhere -- the same head and chunks the other way round, with a stranger among them. */
static inline void elsewhere(prompt *q, const prompt *p, int n_vocab)
{
    *q = *p;
    for (int i = 1; i < p->n_segs - 1; i++) {
        int from = p->n_segs - 1 - i;
        q->segs[i] = p->segs[from];
        memcpy(q->tokens[i], p->tokens[from], sizeof q->tokens[i]);
    }
    int last = q->n_segs - 1;
    q->segs[last].kind = SP_SEG_CHUNK;
    q->tokens[last][0] = (q->tokens[last][0] + 1) % n_vocab;
    set_ids(q);
}

static inline void close_to(const float *got, const float *want, size_t n, double bound,
                            const char *what)
{
    double nmse = tiny_nmse(got, want, n);
    if (!(nmse <= bound)) fail_msg("%s: NMSE %g over %g", what, nmse, bound);
}

/* everywhere -- a check on every kernel variant of this CPU and every KV type; the pool must be
 * free at the end. */
static inline void everywhere(void (*check)(setting *s))
{
    for (size_t v = 0; v < SP_COUNT(variants); v++)
        for (size_t k = 0; k < SP_COUNT(kv_types); k++)
            for (int i = 0; i < variants[v].rounds; i++) {
                setting s = {0};
                tiny_spec spec = TINY_SPEC_DEFAULT;
                uint64_t rng = 7000 * v + 100 * k + (uint64_t)i;
                spec.cpu = variants[v].name;
                spec.device = variants[v].device;
                spec.kv_type = kv_types[k];
                spec.adjacent = i & 1;
                spec.n_layers = 1 + i % 3;
                sp_err err = tiny_open(&s.t, &spec, rng);
                if (err == SP_E_UNSUPPORTED) break;
                assert_ok(err);
                assert_ok(sp_cache_init(&s.cache, s.t.pool, 200, 64, "lru"));
                sp_arena_init(&s.arena);
                random_rag(&s.p, &rng, spec.n_vocab);
                check(&s);
                sp_cache_fini(&s.cache);
                sp_arena_fini(&s.arena);
                assert_int_equal(sp_kv_pool_n_free(s.t.pool), sp_kv_pool_n_blocks(s.t.pool));
                tiny_close(&s.t);
            }
}

#endif
