/* test_reuse.c -- policies that reuse chunks at any position, run through the engine.
 *
 *   recompute 1 = the plain forward pass, within rounding;  recompute 0 = full reuse, bit for bit
 *   exactly ceil(r * n) tokens are computed again, and the cached copies are never written
 *   heavy tokens are those that receive most attention;  the set cache in order = the plain pass
 *
 * Random prompts whose chunks were computed elsewhere, in other orders and places, with repeats.
 */
#include "support/tiny_rag.h"

static const char *const selective[] = {"random", "h2o", "blend", "fusion", "flow"};

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
    in.wants_heavy = true;
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
                                                            .blocks = plan.spans[i].blocks,
                                                            .heavy = sp_reuse_heavy(&plan, i)},
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

static uint64_t fingerprint(const setting *s)
{
    uint64_t h = 0;
    for (int i = 1; i < s->p.n_segs - 1; i++)
        for (int l = 0; l < s->t.model.hp.n_layers; l++)
            for (int32_t b = 0; s->chunks[i] && b < SP_DIV_UP(s->chunks[i]->n, SP_BLOCK_TOKENS);
                 b++) {
                uint8_t *kv = tiny_block(s->t.pool, l, s->chunks[i]->blocks[b]);
                h = h * 31 + sp_hash64(kv, sp_kv_pool_layer_block_bytes(s->t.pool));
                free(kv);
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

/* fill_both -- the prompt's chunks, computed for another prompt or for this one. */
static void fill_both(setting *s)
{
    prompt other;
    elsewhere(&other, &s->p, s->t.model.hp.n_vocab);
    fill(s, &other);
    fill(s, &s->p);
}

static void check_policies(setting *s)
{
    fill_both(s);
    size_t v = (size_t)s->t.model.hp.n_vocab;
    double bound = bound_of(sp_kv_pool_shape(s->t.pool)->type);
    float *want = malloc(v * 4), *full = malloc(v * 4), *got = malloc(v * 4);
    plain(s, &s->p, want);
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

/* The first chunk behind the head is exact whoever computes it: with one chunk, full reuse is the
 * plain pass. */
static void check_single(setting *s)
{
    fill_both(s);
    size_t v = (size_t)s->t.model.hp.n_vocab;
    float *want = malloc(v * 4), *full = malloc(v * 4);
    s->p.segs[2] = s->p.segs[s->p.n_segs - 1];
    memcpy(s->p.tokens[2], s->p.tokens[s->p.n_segs - 1], sizeof s->p.tokens[2]);
    s->p.n_segs = 3;
    set_ids(&s->p);
    plain(s, &s->p, want);
    answer(s, "full", 0, full);
    close_to(full, want, v, bound_of(sp_kv_pool_shape(s->t.pool)->type), "one chunk");
    free(want);
    free(full);
}

/* -- heavy tokens ---------------------------------------------------------------------------- */

static void add_mass(void *user, const sp_gate_view *v)
{
    double *received = user;
    for (int i = 0; i < v->n * v->n_heads; i++)
        for (int k = 0; k < v->plan->n_spans; k++)
            received[k] += (double)v->mass[i * v->plan->n_spans + k];
}

/* received_by -- attention by key of a chunk behind the head, summed over layers, heads and tokens:
 * every token is a span of its own, so that the mass of a span is that of a token. */
static void received_by(setting *s, const sp_segment *seg, double *received)
{
    const sp_segment *head = &s->p.segs[0];
    sp_plan plan;
    int span, see;
    sp_plan_init(&plan, s->t.pool);
    assert_ok(sp_plan_add_span(&plan,
                               &(sp_span_spec){.n = head->n,
                                               .known = sp_node_blocks(s->match.path[0]),
                                               .n_known = head->n},
                               &span));
    for (int32_t t = 0; t < seg->n; t++)
        assert_ok(sp_plan_add_span(&plan, &(sp_span_spec){.n = 1, .at = head->n + t}, &span));
    assert_ok(sp_plan_add_sight(&plan, NULL, plan.n_spans, &see));
    for (int32_t t = 0; t < seg->n; t++)
        assert_ok(sp_plan_add_todo(&plan, (sp_todo){.token = seg->tokens[t],
                                                    .pos = head->n + t,
                                                    .span = (uint16_t)(1 + t),
                                                    .see = (uint16_t)see}));
    plan.gate = (sp_gate){.after_layer = add_mass, .user = received, .wants_mass = true};
    run(&s->t, &plan, NULL);
    sp_plan_fini(&plan);
}

static void check_heavy(setting *s)
{
    fill_both(s);
    look_up(s, &s->p);
    for (int i = 1; i < s->p.n_segs - 1; i++) {
        double received[1 + MAX_LEN] = {0};
        bool seen[MAX_LEN] = {false};
        const int32_t *heavy = s->chunks[i]->heavy;
        assert_non_null(heavy);
        received_by(s, &s->p.segs[i], received);
        for (int32_t k = 0; k < s->p.segs[i].n; k++) {
            assert_in_range(heavy[k], 0, s->p.segs[i].n - 1);
            assert_false(seen[heavy[k]]);
            seen[heavy[k]] = true;
            if (k) assert_true(received[1 + heavy[k - 1]] >= received[1 + heavy[k]] - 1e-3);
        }
    }
    let_go(s);
}

/* -- the set cache --------------------------------------------------------------------------- */

/* learn -- computes a prompt and enters all but its question into the tree. */
static void learn(setting *s, const prompt *p)
{
    const sp_reuse_policy *off;
    sp_plan plan;
    bool added;
    assert_ok(sp_reuse_find("off", &off));
    assert_ok(sp_tree_match(s->cache.tree, p->segs, p->n_segs, 1, &s->arena, &s->match));
    sp_reuse_input in = input_of(s, p, 0);
    sp_plan_init(&plan, s->t.pool);
    assert_ok(off->plan(&in, &plan));
    run(&s->t, &plan, NULL);
    for (int i = 0; i < p->n_segs - 1; i++) {
        sp_kv_seal(s->t.pool, plan.spans[i].blocks, SP_DIV_UP(p->segs[i].n, SP_BLOCK_TOKENS));
        assert_ok(
            sp_tree_extend(s->cache.tree, &s->match, &p->segs[i], plan.spans[i].blocks, 1, &added));
    }
    sp_plan_fini(&plan);
    let_go(s);
}

/* answer_set -- as serve/ does; returns how many tokens were computed. */
static int answer_set(setting *s, const prompt *p, float *logits)
{
    const sp_reuse_policy *set;
    sp_plan plan;
    sp_segment segs[MAX_SEGS];
    int32_t order[MAX_SEGS];
    assert_ok(sp_reuse_find("set", &set));
    assert_ok(sp_tree_order(s->cache.tree, p->segs, p->n_segs, 1, order));
    for (int i = 0; i < p->n_segs; i++) segs[i] = p->segs[order[i]];
    assert_ok(sp_tree_match(s->cache.tree, segs, p->n_segs, 2, &s->arena, &s->match));
    sp_reuse_input in = input_of(s, p, 0);
    in.order = order;
    sp_plan_init(&plan, s->t.pool);
    assert_ok(set->plan(&in, &plan));
    run(&s->t, &plan, logits);
    int n = plan.n_todo;
    sp_plan_fini(&plan);
    let_go(s);
    return n;
}

/* In the order that was computed: the bits of the plain pass. In another one all is reused, and
 * with one chunk that is still exact. */
static void check_set(setting *s)
{
    size_t v = (size_t)s->t.model.hp.n_vocab;
    float *want = malloc(v * 4), *got = malloc(v * 4);
    int last = s->p.n_segs - 1;
    prompt other = s->p;
    learn(s, &s->p);
    plain(s, &s->p, want);
    assert_int_equal(answer_set(s, &s->p, got), s->p.segs[last].n);
    assert_memory_equal(got, want, v * sizeof *got);
    for (int i = 1; i < last; i++) {
        other.segs[i] = s->p.segs[last - i];
        memcpy(other.tokens[i], s->p.tokens[last - i], sizeof other.tokens[i]);
    }
    set_ids(&other);
    assert_int_equal(answer_set(s, &other, got), s->p.segs[last].n);
    plain(s, &other, want);
    if (last == 2) assert_memory_equal(got, want, v * sizeof *got);
    free(want);
    free(got);
}

static void test_policies(void **state)
{
    everywhere(check_policies);
}
static void test_single_chunk(void **state)
{
    everywhere(check_single);
}
static void test_heavy_tokens(void **state)
{
    everywhere(check_heavy);
}
static void test_set_in_order(void **state)
{
    everywhere(check_set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies),
        cmocka_unit_test(test_single_chunk),
        cmocka_unit_test(test_heavy_tokens),
        cmocka_unit_test(test_set_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
