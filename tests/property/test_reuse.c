/* test_reuse.c -- policies that reuse chunks at any position, run through the engine.
 *
 *   recompute 1 = the plain forward pass, within rounding;  recompute 0 = full reuse, bit for bit
 *   exactly ceil(r * n) tokens are recomputed, and the cached copies are never written
 *   heavy tokens are those that receive most attention;  the set cache in order = the plain pass
 *
 * Random prompts whose chunks were computed elsewhere, in other orders and positions, with repeats.
 */
#include "support/tiny_rag.h"

/* selective -- whether the policy chooses a share of the tokens of plain copies. craft keeps copies of its own
 * (test_craft.c). */
static bool selective(const sp_reuse_policy *p)
{
    return p->recomputes && p->anywhere && !p->keeps_placed;
}

/* fill -- computes and keeps what is missing of head and chunks, and measures heavy tokens. */
static void fill(setting *s, const prompt *p)
{
    asked a;
    sp_plan plan;
    asked_begin(&a, s, p, "h2o", 0);
    a.in.warm = true;
    sp_plan_role role = asked_plan(&a, &plan);
    assert_int_equal(role, plan.n_todo ? SP_PLAN_FILL : SP_PLAN_DONE);
    if (role == SP_PLAN_FILL) {
        run(&s->t, &plan, NULL);
        asked_keep(&a, &plan, role);
    }
    sp_plan_fini(&plan);
    asked_end(&a);
}

/* answer -- the logits that begin the answer; checks how many tokens were recomputed. */
static void answer(setting *s, const char *name, float recompute, float *logits)
{
    asked a;
    sp_plan plan, last = {0};
    sp_plan_role role;
    asked_begin(&a, s, &s->p, name, recompute);
    while ((role = asked_plan(&a, &plan)) == SP_PLAN_PROBE) {
        run(&s->t, &plan, NULL);
        sp_plan_fini(&last);
        last = plan;
        a.in.last = &last;
        a.in.n_done[SP_PLAN_PROBE]++;
    }
    assert_int_equal(role, SP_PLAN_ANSWER);
    run(&s->t, &plan, logits);
    int chunk_tokens = 0, question = s->p.segs[s->p.n_segs - 1].n;
    for (int i = 1; i < s->p.n_segs - 1; i++) chunk_tokens += s->p.segs[i].n;
    assert_int_equal(plan.n_todo, question + (int)ceilf(a.in.recompute * (float)chunk_tokens));
    sp_plan_fini(&plan);
    sp_plan_fini(&last);
    asked_end(&a);
}

static uint64_t cached_bytes(setting *s)
{
    asked a;
    uint64_t h = 0;
    asked_begin(&a, s, &s->p, "full", 0);
    for (int i = 1; i < s->p.n_segs - 1; i++)
        for (int l = 0; l < s->t.model.hp.n_layers; l++) {
            const sp_copy *c = a.found[i].copy;
            for (int32_t b = 0; b < sp_blocks_for(c->n); b++) {
                uint8_t *kv = tiny_block(s->t.pool, l, c->blocks[b]);
                h = h * 31 + sp_hash64(kv, sp_kv_pool_layer_block_bytes(s->t.pool));
                free(kv);
            }
        }
    asked_end(&a);
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
    int n, n_checked = 0;
    const sp_reuse_policy *const *all = sp_reuse_policy_list(&n);
    for (int i = 0; i < n; i++) {
        if (!selective(all[i])) continue;
        answer(s, all[i]->name, 0, got);
        assert_memory_equal(got, full, v * sizeof *got);
        answer(s, all[i]->name, 0.3f, got);
        answer(s, all[i]->name, 1, got);
        close_to(got, want, v, bound, all[i]->name);
        n_checked++;
    }
    assert_true(n_checked >= 5);
    assert_true(cached_bytes(s) == before);
    free(want);
    free(full);
    free(got);
}

/* The first chunk after the head is exact whoever computes it: with one chunk, full reuse is the
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

/* received_by -- attention by key of a chunk after the head, summed over layers, heads and tokens:
 * every token is a span of its own, so that the mass of a span is that of a token. */
static void received_by(setting *s, const sp_copy *head_copy, const sp_segment *seg,
                        double *received)
{
    const sp_segment *head = &s->p.segs[0];
    sp_plan plan;
    int span, see;
    sp_plan_init(&plan, s->t.pool);
    assert_ok(sp_plan_add_span(
        &plan, &(sp_span_spec){.n = head->n, .known = head_copy->blocks, .n_known = head->n},
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
    asked a;
    asked_begin(&a, s, &s->p, "h2o", 0);
    for (int i = 1; i < s->p.n_segs - 1; i++) {
        double received[1 + MAX_LEN] = {0};
        bool seen[MAX_LEN] = {false};
        const int32_t *heavy = a.found[i].copy->facts.heavy;
        assert_non_null(heavy);
        received_by(s, a.found[0].copy, &s->p.segs[i], received);
        for (int32_t k = 0; k < s->p.segs[i].n; k++) {
            assert_in_range(heavy[k], 0, s->p.segs[i].n - 1);
            assert_false(seen[heavy[k]]);
            seen[heavy[k]] = true;
            if (k) assert_true(received[1 + heavy[k - 1]] >= received[1 + heavy[k]] - 1e-3);
        }
    }
    asked_end(&a);
}

/* -- the set cache --------------------------------------------------------------------------- */

/* learn -- computes a prompt and keeps all but its question by path. */
static void learn(setting *s, const prompt *p)
{
    asked a;
    sp_plan plan;
    sp_kept kept[MAX_SEGS];
    sp_kept_list list = {.v = kept};
    asked_begin(&a, s, p, "off", 0);
    asked_plan(&a, &plan);
    run(&s->t, &plan, NULL);
    sp_reuse_keep_path(&a.in, &plan, p->n_segs - 1, &list);
    for (int i = 0; i < list.n; i++) asked_add(&a, &kept[i]);
    sp_plan_fini(&plan);
    asked_end(&a);
}

/* answer_set -- returns how many tokens were computed. */
static int answer_set(setting *s, const prompt *p, bool in_order, float *logits)
{
    asked a;
    sp_plan plan;
    asked_begin(&a, s, p, "set", 0);
    for (int i = 0; i < p->n_segs - 1; i++) {
        assert_non_null(a.found[i].copy);
        if (in_order) assert_true(a.found[i].exact);
    }
    assert_int_equal(asked_plan(&a, &plan), SP_PLAN_ANSWER);
    run(&s->t, &plan, logits);
    int n = plan.n_todo;
    sp_plan_fini(&plan);
    asked_end(&a);
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
    assert_int_equal(answer_set(s, &s->p, true, got), s->p.segs[last].n);
    assert_memory_equal(got, want, v * sizeof *got);
    for (int i = 1; i < last; i++) {
        other.segs[i] = s->p.segs[last - i];
        memcpy(other.tokens[i], s->p.tokens[last - i], sizeof other.tokens[i]);
    }
    set_ids(&other);
    assert_int_equal(answer_set(s, &other, false, got), s->p.segs[last].n);
    plain(s, &other, want);
    if (last == 2) assert_memory_equal(got, want, v * sizeof *got);
    free(want);
    free(got);
}

static void every_policy_keeps_to_its_two_ends(void **state)
{
    everywhere(check_policies);
}
static void a_single_chunk_is_exact(void **state)
{
    everywhere(check_single);
}
static void heavy_tokens_receive_most_attention(void **state)
{
    everywhere(check_heavy);
}
static void a_set_in_order_is_exact(void **state)
{
    everywhere(check_set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_keeps_to_its_two_ends),
        cmocka_unit_test(a_single_chunk_is_exact),
        cmocka_unit_test(heavy_tokens_receive_most_attention),
        cmocka_unit_test(a_set_in_order_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
