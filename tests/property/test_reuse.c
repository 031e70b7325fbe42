/* test_reuse.c -- policies that reuse chunks at any position, run through the engine.
 *
 *   recompute 1 = the plain forward pass, within rounding;  recompute 0 = full reuse, bit for bit
 *   exactly ceil(r * n) tokens are computed again, and the cached copies are never written
 *
 * Random prompts whose chunks were computed elsewhere, in other orders and places, with repeats.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "cache/cache.h"
#include "reuse/reuse.h"
#include "support/tiny_prompt.h"

static const char *const selective[] = {"random", "blend", "fusion"};

typedef struct setting {
    tiny t;
    sp_cache cache;
    sp_arena arena;
    sp_match match;
    const sp_variant *chunks[MAX_SEGS];
    prompt p;
} setting;

static void run(tiny *t, sp_plan *plan, float *logits)
{
    sp_slice s = {plan, 0, plan->n_todo, logits ? SP_WANT_LAST : SP_WANT_NONE, logits};
    assert_int_equal(sp_plan_bind(plan), SP_OK);
    assert_int_equal(sp_plan_check(plan), SP_OK);
    if (plan->n_todo) assert_int_equal(sp_engine_step(t->engine, &s, 1), SP_OK);
}

static sp_reuse_input input_of(setting *s, const prompt *p, float recompute)
{
    return (sp_reuse_input){.segs = p->segs,
                            .n_segs = p->n_segs,
                            .n_head = 1,
                            .match = &s->match,
                            .chunks = s->chunks,
                            .answer_room = 4,
                            .n_layers = s->t.model.hp.n_layers,
                            .recompute = recompute};
}

static void find_chunks(setting *s, const prompt *p)
{
    for (int i = 1; i < p->n_segs; i++)
        if (p->segs[i].kind == SP_SEG_CHUNK)
            s->chunks[i] = sp_chunks_find(s->cache.chunks, &p->segs[i], &p->segs[0].id, 1, 1);
}

static void let_go(setting *s)
{
    for (int i = 0; i < MAX_SEGS; i++) {
        if (s->chunks[i]) sp_chunks_unpin(s->cache.chunks, s->chunks[i]);
        s->chunks[i] = NULL;
    }
    sp_tree_release(s->cache.tree, &s->match);
}

static void look_up(setting *s, const prompt *p)
{
    assert_int_equal(sp_tree_match(s->cache.tree, p->segs, 1, 1, &s->arena, &s->match), SP_OK);
    find_chunks(s, p);
}

/* fill -- computes and enters what is missing of head and chunks. */
static void fill(setting *s, const prompt *p)
{
    sp_plan plan;
    bool added;
    look_up(s, p);
    sp_reuse_input in = input_of(s, p, 0);
    sp_plan_init(&plan, s->t.pool);
    assert_int_equal(sp_reuse_fill(&in, &plan), SP_OK);
    assert_int_equal(sp_reuse_needs_fill(&in), plan.n_todo > 0);
    run(&s->t, &plan, NULL);
    for (int i = 0; i < p->n_segs; i++)
        sp_kv_seal(s->t.pool, plan.spans[i].blocks, SP_DIV_UP(plan.spans[i].n, SP_BLOCK_TOKENS));
    if (s->match.n_path == 0)
        assert_int_equal(
            sp_tree_extend(s->cache.tree, &s->match, &p->segs[0], plan.spans[0].blocks, 1, &added),
            SP_OK);
    for (int i = 1; i < p->n_segs; i++)
        if (p->segs[i].kind == SP_SEG_CHUNK && plan.spans[i].n)
            assert_int_equal(sp_chunks_insert(s->cache.chunks, &p->segs[i],
                                              &(sp_variant){.before = &p->segs[0].id,
                                                            .n_before = 1,
                                                            .at = plan.spans[i].at,
                                                            .blocks = plan.spans[i].blocks},
                                              1, &added),
                             SP_OK);
    sp_plan_fini(&plan);
    let_go(s);
}

/* answer -- the logits that begin the answer; checks how many tokens were computed again. */
static void answer(setting *s, const char *name, float recompute, float *logits)
{
    const sp_reuse_policy *policy;
    sp_plan probe = {0}, plan;
    assert_int_equal(sp_reuse_find(name, &policy), SP_OK);
    look_up(s, &s->p);
    sp_reuse_input in = input_of(s, &s->p, recompute);
    assert_false(sp_reuse_needs_fill(&in));
    if (policy->probe && recompute > 0 && recompute < 1) {
        sp_plan_init(&probe, s->t.pool);
        assert_int_equal(policy->probe(&in, &probe), SP_OK);
        run(&s->t, &probe, NULL);
        in.probed = &probe;
    }
    sp_plan_init(&plan, s->t.pool);
    assert_int_equal(policy->plan(&in, &plan), SP_OK);
    run(&s->t, &plan, logits);
    int chunk_tokens = 0, question = s->p.segs[s->p.n_segs - 1].n;
    for (int i = 1; i < s->p.n_segs - 1; i++) chunk_tokens += s->p.segs[i].n;
    assert_int_equal(plan.n_todo,
                     question +
                         (policy->selects ? (int)ceilf(recompute * (float)chunk_tokens) : 0));
    sp_plan_fini(&plan);
    if (probe.n_todo) sp_plan_fini(&probe);
    let_go(s);
}

static void plain(setting *s, float *logits)
{
    const sp_reuse_policy *off;
    sp_match nothing = {0};
    sp_plan plan;
    assert_int_equal(sp_reuse_find("off", &off), SP_OK);
    sp_plan_init(&plan, s->t.pool);
    sp_reuse_input in = {
        .segs = s->p.segs, .n_segs = s->p.n_segs, .n_head = s->p.n_segs, .match = &nothing};
    assert_int_equal(off->plan(&in, &plan), SP_OK);
    run(&s->t, &plan, logits);
    sp_plan_fini(&plan);
}

/* random_rag -- a head, at least one chunk (sometimes one twice), a question. */
static void random_rag(prompt *p, uint64_t *rng, int n_vocab)
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
static void elsewhere(prompt *q, const prompt *p, int n_vocab)
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

static uint64_t fingerprint(const setting *s)
{
    uint64_t h = 0;
    for (int i = 1; i < s->p.n_segs - 1; i++)
        for (int l = 0; l < s->t.model.hp.n_layers; l++)
            for (int32_t b = 0; s->chunks[i] && b < SP_DIV_UP(s->chunks[i]->n, SP_BLOCK_TOKENS);
                 b++) {
                sp_kv_view kv = sp_kv_pool_layer(s->t.pool, l);
                h = h * 31 +
                    sp_hash64(kv.base + s->chunks[i]->blocks[b] * kv.block_bytes, kv.block_bytes);
            }
    return h;
}

static uint64_t cached_bytes(setting *s)
{
    look_up(s, &s->p);
    uint64_t h = fingerprint(s);
    let_go(s);
    return h;
}

static void close_to(const float *got, const float *want, size_t n, double bound, const char *what)
{
    double nmse = tiny_nmse(got, want, n);
    if (!(nmse <= bound)) fail_msg("%s: NMSE %g over %g", what, nmse, bound);
}

static void check_policies(setting *s)
{
    size_t v = (size_t)s->t.model.hp.n_vocab;
    double bound = bound_of(sp_kv_pool_shape(s->t.pool)->type);
    float *want = malloc(v * 4), *full = malloc(v * 4), *got = malloc(v * 4);
    plain(s, want);
    answer(s, "full", 0, full);
    uint64_t before = cached_bytes(s);
    for (size_t i = 0; i < SP_COUNT(selective); i++) {
        answer(s, selective[i], 0, got);
        assert_memory_equal(got, full, v * sizeof *got);
        answer(s, selective[i], 0.3f, got);
        answer(s, selective[i], 1, got);
        close_to(got, want, v, bound, selective[i]);
    }
    assert_true(cached_bytes(s) == before);
    free(want);
    free(full);
    free(got);
}

static void everywhere(void (*check)(setting *s))
{
    for (size_t v = 0; v < SP_COUNT(variants); v++)
        for (size_t k = 0; k < SP_COUNT(kv_types); k++)
            for (int i = 0; i < variants[v].rounds; i++) {
                setting s = {0};
                tiny_spec spec = TINY_SPEC_DEFAULT;
                uint64_t rng = 7000 * v + 100 * k + (uint64_t)i;
                prompt other;
                spec.cpu = variants[v].name;
                spec.kv_type = kv_types[k];
                spec.adjacent = i & 1;
                spec.n_layers = 1 + i % 3;
                sp_err err = tiny_open(&s.t, &spec, rng);
                if (err == SP_E_UNSUPPORTED) break;
                assert_int_equal(err, SP_OK);
                assert_int_equal(sp_cache_init(&s.cache, s.t.pool, 200, 64, "lru"), SP_OK);
                sp_arena_init(&s.arena);
                random_rag(&s.p, &rng, spec.n_vocab);
                elsewhere(&other, &s.p, spec.n_vocab);
                fill(&s, &other);
                fill(&s, &s.p);
                check(&s);
                sp_cache_fini(&s.cache);
                sp_arena_fini(&s.arena);
                assert_int_equal(sp_kv_pool_n_free(s.t.pool), sp_kv_pool_n_blocks(s.t.pool));
                tiny_close(&s.t);
            }
}

/* The first chunk behind the head is exact whoever computes it: with one chunk, full reuse is the
 * plain pass. */
static void check_single(setting *s)
{
    size_t v = (size_t)s->t.model.hp.n_vocab;
    float *want = malloc(v * 4), *full = malloc(v * 4);
    s->p.segs[2] = s->p.segs[s->p.n_segs - 1];
    memcpy(s->p.tokens[2], s->p.tokens[s->p.n_segs - 1], sizeof s->p.tokens[2]);
    s->p.n_segs = 3;
    set_ids(&s->p);
    plain(s, want);
    answer(s, "full", 0, full);
    close_to(full, want, v, bound_of(sp_kv_pool_shape(s->t.pool)->type), "one chunk");
    free(want);
    free(full);
}

static void test_policies(void **state)
{
    everywhere(check_policies);
}
static void test_single_chunk(void **state)
{
    everywhere(check_single);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies),
        cmocka_unit_test(test_single_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
