/* test_exact.c -- the signature property: cold equals reused.
 *
 *   whole = in pieces = after any reused prefix = in company of other requests, bit for bit
 *   a chunk cached at base b and used at p = computed at p under the same sight, within rounding
 *   every token recomputed beside a stale copy = the plain forward pass, within rounding
 *
 * Random prompts, cuts and orders; every kernel variant of this CPU and every KV type; and a device
 * whose memory the host cannot reach.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "cache/by_path.h"
#include "reuse/reuse.h"
#include "support/tiny_prompt.h"

/* make_plan -- of all tokens, or of what the ledger does not know as a prefix: found [n_segs]. */
static void make_plan(tiny *t, const prompt *p, sp_found *found, sp_plan *plan)
{
    sp_found nothing[MAX_SEGS] = {{0}};
    const sp_reuse_policy *policy = found ? sp_reuse_policy_default() : &sp_reuse_off;
    sp_plan_role role;
    sp_plan_init(plan, t->pool);
    sp_reuse_input in = {.segs = p->segs,
                         .n_segs = p->n_segs,
                         .n_head = p->n_segs,
                         .found = found ? found : nothing,
                         .answer_room = 32};
    assert_int_equal(policy->next_plan(&in, plan, &role), SP_OK);
    assert_int_equal(role, SP_PLAN_ANSWER);
    assert_int_equal(sp_plan_bind(plan), SP_OK);
    assert_int_equal(sp_plan_check(plan), SP_OK);
}

/* find -- as "prefix" does; let_go unpins. */
static void find(sp_ledger *ledger, const prompt *p, int64_t now, sp_found *found)
{
    sp_arena arena;
    sp_arena_init(&arena);
    memset(found, 0, MAX_SEGS * sizeof *found);
    sp_reuse_input in = {.segs = p->segs, .n_segs = p->n_segs, .n_head = p->n_segs, .found = found};
    sp_finder f = {.in = &in, .ledger = ledger, .arena = &arena, .now = now};
    assert_int_equal(sp_reuse_policy_default()->find(&f), SP_OK);
    sp_arena_fini(&arena);
}

static void let_go(sp_ledger *ledger, const sp_found *found)
{
    for (int i = 0; i < MAX_SEGS; i++)
        if (found[i].copy) sp_ledger_unpin(ledger, found[i].copy);
}

#define WHOLE 0
/* run -- executes a plan whole, or in random pieces of at most `piece` tokens; logits [n_todo, V].
 */
static void run(tiny *t, sp_plan *plan, int piece, uint64_t *rng, float *logits)
{
    for (int from = 0; from < plan->n_todo;) {
        int left = plan->n_todo - from;
        int n = piece == WHOLE ? left : 1 + tiny_below(rng, SP_MIN(piece, left));
        sp_slice s = {plan, from, n, SP_WANT_ALL,
                      logits + (size_t)from * (size_t)t->model.hp.n_vocab};
        assert_int_equal(sp_engine_step(t->engine, &s, 1), SP_OK);
        from += n;
    }
}

static float *plain(tiny *t, const prompt *p)
{
    sp_plan plan;
    float *logits = malloc((size_t)p->n * (size_t)t->model.hp.n_vocab * sizeof *logits);
    make_plan(t, p, NULL, &plan);
    run(t, &plan, WHOLE, NULL, logits);
    sp_plan_fini(&plan);
    return logits;
}

static void same_bits(const float *a, const float *b, size_t n, const char *what)
{
    if (memcmp(a, b, n * sizeof *a) == 0) return;
    size_t i = 0;
    while (a[i] == b[i]) i++;
    fail_msg("%s: logit %zu is %.9g, was %.9g", what, i, (double)a[i], (double)b[i]);
}

/* -- one model, one property ---------------------------------------------------------------- */

static void pieces(tiny *t, uint64_t *rng)
{
    prompt p;
    random_prompt(&p, rng, t->model.hp.n_vocab);
    size_t n = (size_t)p.n * (size_t)t->model.hp.n_vocab;
    float *whole = plain(t, &p), *cut = malloc(n * sizeof *cut);
    const int sizes[] = {1, 7, 64};
    for (size_t i = 0; i < SP_COUNT(sizes); i++) {
        sp_plan plan;
        make_plan(t, &p, NULL, &plan);
        run(t, &plan, sizes[i], rng, cut);
        same_bits(cut, whole, n, "in pieces");
        sp_plan_fini(&plan);
    }
    free(whole);
    free(cut);
}

/* remember -- computes a prompt and keeps it by path. */
static void remember(tiny *t, sp_ledger *ledger, const prompt *p, uint64_t *rng)
{
    sp_found found[MAX_SEGS];
    const sp_copy *parent = NULL;
    sp_plan plan;
    find(ledger, p, 1, found);
    make_plan(t, p, found, &plan);
    float *logits = malloc((size_t)p->n * (size_t)t->model.hp.n_vocab * sizeof *logits);
    run(t, &plan, 40, rng, logits);
    for (int i = 0; i < p->n_segs; i++) {
        sp_kv_seal(t->pool, plan.spans[i].blocks, SP_DIV_UP(plan.spans[i].n, SP_BLOCK_TOKENS));
        sp_copy_spec spec = {.seg = &p->segs[i],
                             .facts.kind = SP_COPY_PATH,
                             .facts.exact = true,
                             .parent = parent,
                             .blocks = plan.spans[i].blocks};
        assert_int_equal(sp_ledger_add(ledger, &spec, 1, &parent), SP_OK);
        assert_non_null(parent);
    }
    let_go(ledger, found);
    sp_plan_fini(&plan);
    free(logits);
}

/* relative -- a prompt that shares a random prefix with p: whole segments, then part of one. */
static void relative(prompt *out, const prompt *p, uint64_t *rng, int n_vocab)
{
    random_prompt(out, rng, n_vocab);
    int shared = tiny_below(rng, p->n_segs + 1);
    out->n_segs = SP_MAX(out->n_segs, shared);
    for (int i = 0; i < shared; i++) {
        out->segs[i] = p->segs[i];
        memcpy(out->tokens[i], p->tokens[i], sizeof out->tokens[i]);
    }
    if (shared < p->n_segs && shared < out->n_segs) {
        int common = tiny_below(rng, SP_MIN(p->segs[shared].n, out->segs[shared].n) + 1);
        memcpy(out->tokens[shared], p->tokens[shared], (size_t)common * sizeof **out->tokens);
    }
    set_ids(out);
}

static void prefixes(tiny *t, uint64_t *rng)
{
    prompt p, q;
    sp_ledger *ledger;
    int n_vocab = t->model.hp.n_vocab;
    assert_int_equal(
        sp_ledger_create(&(sp_ledger_opts){.pool = t->pool, .max_blocks = 128}, &ledger), SP_OK);
    random_prompt(&p, rng, n_vocab);
    remember(t, ledger, &p, rng);
    for (int i = 0; i < 4; i++) {
        relative(&q, &p, rng, n_vocab);
        float *cold = plain(t, &q), *warm = malloc((size_t)q.n * (size_t)n_vocab * sizeof *warm);
        sp_found found[MAX_SEGS];
        sp_plan plan;
        find(ledger, &q, 2, found);
        make_plan(t, &q, found, &plan);
        run(t, &plan, 20, rng, warm);
        for (int k = 0; k < plan.n_todo; k++)
            same_bits(warm + (size_t)k * (size_t)n_vocab,
                      cold + (size_t)plan.todo[k].pos * (size_t)n_vocab, (size_t)n_vocab,
                      "after a prefix");
        sp_plan_fini(&plan);
        let_go(ledger, found);
        remember(t, ledger, &q, rng);
        free(cold);
        free(warm);
    }
    sp_ledger_destroy(ledger);
    assert_int_equal(sp_kv_pool_n_free(t->pool), sp_kv_pool_n_blocks(t->pool));
}

static void company(tiny *t, uint64_t *rng)
{
    enum { N = 4 };
    prompt p[N];
    sp_plan plan[N];
    float *alone[N], *together[N];
    int done[N] = {0}, left = 0;
    size_t v = (size_t)t->model.hp.n_vocab;
    for (int i = 0; i < N; i++) {
        random_prompt(&p[i], rng, t->model.hp.n_vocab);
        alone[i] = plain(t, &p[i]);
        together[i] = malloc((size_t)p[i].n * v * sizeof(float));
        make_plan(t, &p[i], NULL, &plan[i]);
        left += p[i].n;
    }
    while (left) {
        sp_slice s[N];
        int n_slices = 0;
        for (int i = 0; i < N; i++) {
            if (done[i] == p[i].n || tiny_below(rng, 4) == 0) continue;
            int n = 1 + tiny_below(rng, SP_MIN(90, p[i].n - done[i]));
            s[n_slices++] =
                (sp_slice){&plan[i], done[i], n, SP_WANT_ALL, together[i] + (size_t)done[i] * v};
            done[i] += n;
            left -= n;
        }
        if (n_slices) assert_int_equal(sp_engine_step(t->engine, s, n_slices), SP_OK);
    }
    for (int i = 0; i < N; i++) {
        same_bits(together[i], alone[i], (size_t)p[i].n * v, "in company");
        sp_plan_fini(&plan[i]);
        free(alone[i]);
        free(together[i]);
    }
}

/* -- positions ------------------------------------------------------------------------------ */

static void add_tokens(sp_plan *plan, const sp_segment *seg, int span, int see, int32_t pos)
{
    for (int32_t i = 0; i < seg->n; i++)
        assert_int_equal(sp_plan_add_todo(plan, (sp_todo){.token = seg->tokens[i],
                                                          .pos = pos + i,
                                                          .span = (uint16_t)span,
                                                          .see = (uint16_t)see,
                                                          .index = i}),
                         SP_OK);
}

/* chunk_alone -- the blocks of a chunk computed at base `at` with only itself in sight. */
static void chunk_alone(tiny *t, const sp_segment *seg, int32_t at, sp_plan *plan)
{
    int span, see;
    sp_plan_init(plan, t->pool);
    assert_int_equal(sp_plan_add_span(plan, &(sp_span_spec){.n = seg->n, .at = at}, &span), SP_OK);
    assert_int_equal(sp_plan_add_sight(plan, &(uint16_t){0}, 1, &see), SP_OK);
    add_tokens(plan, seg, span, see, at);
    assert_int_equal(sp_plan_bind(plan), SP_OK);
    sp_slice s = {plan, 0, seg->n, SP_WANT_NONE, NULL};
    assert_int_equal(sp_engine_step(t->engine, &s, 1), SP_OK);
    sp_kv_seal(t->pool, plan->spans[0].blocks, SP_DIV_UP(seg->n, SP_BLOCK_TOKENS));
}

/* ask_behind -- the logits of a question that sees chunks at their places; bases[i] is where chunk
 * i was computed, places[i] where it stands now. */
static float *ask_behind(tiny *t, const sp_plan *chunks, const prompt *p, const int32_t *bases,
                         const int32_t *places)
{
    int last = p->n_segs - 1, span, see;
    const sp_segment *q = &p->segs[last];
    sp_plan plan;
    sp_plan_init(&plan, t->pool);
    for (int i = 0; i < last; i++)
        assert_int_equal(sp_plan_add_span(&plan,
                                          &(sp_span_spec){.n = p->segs[i].n,
                                                          .at = bases[i],
                                                          .shift = places[i] - bases[i],
                                                          .known = chunks[i].spans[0].blocks,
                                                          .n_known = p->segs[i].n},
                                          &span),
                         SP_OK);
    assert_int_equal(sp_plan_add_span(&plan, &(sp_span_spec){.n = q->n, .at = places[last]}, &span),
                     SP_OK);
    assert_int_equal(sp_plan_add_sight(&plan, NULL, p->n_segs, &see), SP_OK);
    add_tokens(&plan, q, span, see, places[last]);
    assert_int_equal(sp_plan_bind(&plan), SP_OK);
    assert_int_equal(sp_plan_check(&plan), SP_OK);
    float *logits = malloc((size_t)q->n * (size_t)t->model.hp.n_vocab * sizeof *logits);
    run(t, &plan, WHOLE, NULL, logits);
    sp_plan_fini(&plan);
    return logits;
}

static void positions(tiny *t, uint64_t *rng)
{
    prompt p;
    do random_prompt(&p, rng, t->model.hp.n_vocab);
    while (p.n_segs < 2);
    int32_t bases[MAX_SEGS], places[MAX_SEGS], at = 0;
    sp_plan here[MAX_SEGS], there[MAX_SEGS];
    for (int i = 0; i < p.n_segs; i++, at += p.segs[i - 1].n) {
        places[i] = at;
        bases[i] = tiny_below(rng, t->model.hp.n_ctx - MAX_LEN);
    }
    for (int i = 0; i < p.n_segs - 1; i++) {
        chunk_alone(t, &p.segs[i], places[i], &here[i]);
        chunk_alone(t, &p.segs[i], bases[i], &there[i]);
    }
    float *want = ask_behind(t, here, &p, places, places),
          *got = ask_behind(t, there, &p, bases, places);
    double nmse =
        tiny_nmse(got, want, (size_t)p.segs[p.n_segs - 1].n * (size_t)t->model.hp.n_vocab);
    if (!(nmse <= bound_of(sp_kv_pool_shape(t->pool)->type)))
        fail_msg("moved chunk: NMSE %g", nmse);
    for (int i = 0; i < p.n_segs - 1; i++) {
        sp_plan_fini(&here[i]);
        sp_plan_fini(&there[i]);
    }
    free(want);
    free(got);
}

/* -- recomputation -------------------------------------------------------------------------- */

/* Every chunk was computed alone and elsewhere; all of its tokens are stale and computed again in
 * one private span of scattered positions, as selective recomputation at 100 % does. */
static void recomputed(tiny *t, uint64_t *rng)
{
    prompt p;
    random_prompt(&p, rng, t->model.hp.n_vocab);
    size_t v = (size_t)t->model.hp.n_vocab;
    sp_plan chunk[MAX_SEGS], plan;
    int32_t at = 0, *pos = malloc((size_t)p.n * sizeof *pos);
    for (int32_t i = 0; i < p.n; i++) pos[i] = i;
    sp_plan_init(&plan, t->pool);
    int span, see;
    for (int i = 0; i < p.n_segs; at += p.segs[i++].n) {
        int32_t base = tiny_below(rng, t->model.hp.n_ctx - MAX_LEN), n = p.segs[i].n;
        chunk_alone(t, &p.segs[i], base, &chunk[i]);
        assert_int_equal(sp_plan_add_span(&plan,
                                          &(sp_span_spec){.n = n,
                                                          .at = base,
                                                          .shift = at - base,
                                                          .known = chunk[i].spans[0].blocks,
                                                          .n_known = n},
                                          &span),
                         SP_OK);
        for (int32_t k = 0; k < n; k++) assert_int_equal(sp_plan_mark_stale(&plan, span, k), SP_OK);
    }
    assert_int_equal(sp_plan_add_span(&plan, &(sp_span_spec){.n = p.n, .pos = pos}, &span), SP_OK);
    assert_int_equal(sp_plan_add_sight(&plan, NULL, span + 1, &see), SP_OK);
    at = 0;
    for (int i = 0; i < p.n_segs; i++)
        for (int32_t k = 0; k < p.segs[i].n; k++, at++)
            assert_int_equal(sp_plan_add_todo(&plan, (sp_todo){.token = p.segs[i].tokens[k],
                                                               .pos = at,
                                                               .span = (uint16_t)span,
                                                               .see = (uint16_t)see,
                                                               .index = at}),
                             SP_OK);
    assert_int_equal(sp_plan_bind(&plan), SP_OK);
    assert_int_equal(sp_plan_check(&plan), SP_OK);
    float *want = plain(t, &p), *got = malloc((size_t)p.n * v * sizeof *got);
    run(t, &plan, 33, rng, got);
    double nmse = tiny_nmse(got, want, (size_t)p.n * v);
    if (!(nmse <= bound_of(sp_kv_pool_shape(t->pool)->type)))
        fail_msg("all recomputed: NMSE %g", nmse);
    sp_plan_fini(&plan);
    for (int i = 0; i < p.n_segs; i++) sp_plan_fini(&chunk[i]);
    free(want);
    free(got);
    free(pos);
}

/* -- every variant -------------------------------------------------------------------------- */

typedef void property(tiny *t, uint64_t *rng);

static void rope_variant(tiny_spec *s, int i)
{
    s->adjacent = i & 1;
    if (i % 3 == 1) s->n_rot = s->head / 2;
    if (i % 3 == 2) s->rope_stretch = 8; /* per-pair factors, as llama3 scaling has */
    s->rope_base = i & 2 ? 500000 : 10000;
    s->bias = i & 1;
    s->head_norm = i & 2;
    s->n_kv_heads = i % 3 == 0 ? s->n_heads : i % 3 == 1 ? 2 : 1;
}

/* arch_variant -- what Llama does not have. The choice of experts may change where keys are rounded
 * differently: only for what holds bit for bit. */
static void arch_variant(tiny_spec *s, int i, bool bit_for_bit)
{
    if (i % 3 == 1) {
        s->window = 5 + 17 * (i % 4);
        s->norms_after = i & 1;
        s->scaled = true;
    }
    s->sinks = i % 3 == 1 || i % 5 == 0;
    s->parallel = i % 3 == 0 && i & 1;
    if (i % 3 == 2) s->scaled = i & 1;
    if (i % 3 == 2 && bit_for_bit) s->n_experts = 3;
    s->grows = bit_for_bit && i % 4 == 3;
}

/* everywhere -- `weights`: what every second model has. Q8_0 is multiplied in integers, where x is
 * rounded: only for what holds bit for bit. */
static void everywhere(property *check, sp_dtype weights)
{
    int ran = 0;
    for (size_t v = 0; v < SP_COUNT(variants); v++)
        for (size_t k = 0; k < SP_COUNT(kv_types); k++)
            for (int round = 0; round < variants[v].rounds; round++) {
                const int i = round + (int)k; /* each type of cache begins with another model */
                tiny t;
                tiny_spec s = TINY_SPEC_DEFAULT;
                s.cpu = variants[v].name;
                s.device = variants[v].device;
                s.weight_type = i % 2 ? weights : SP_F32;
                s.kv_type = kv_types[k];
                s.n_threads = 1 + i % 3;
                rope_variant(&s, i);
                arch_variant(&s, i + (int)k, weights != SP_F32);
                uint64_t rng = 1000 * v + 100 * k + (uint64_t)round + 1;
                sp_err err = tiny_open(&t, &s, rng);
                if (err == SP_E_UNSUPPORTED) break;
                assert_int_equal(err, SP_OK);
                check(&t, &rng);
                assert_int_equal(sp_kv_pool_n_free(t.pool), sp_kv_pool_n_blocks(t.pool));
                tiny_close(&t);
                ran++;
            }
    assert_true(ran >= variants[0].rounds * (int)SP_COUNT(kv_types));
}

static void pieces_of_any_length_equal_the_whole(void **state)
{
    everywhere(pieces, SP_Q8_0);
}
static void a_reused_prefix_equals_a_cold_prompt(void **state)
{
    everywhere(prefixes, SP_Q8_0);
}
static void company_changes_no_answer(void **state)
{
    everywhere(company, SP_Q8_0);
}
static void positions_shift_without_effect(void **state)
{
    everywhere(positions, SP_F32);
}
static void recomputing_everything_is_exact(void **state)
{
    everywhere(recomputed, SP_F32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_any_length_equal_the_whole),
        cmocka_unit_test(a_reused_prefix_equals_a_cold_prompt),
        cmocka_unit_test(company_changes_no_answer),
        cmocka_unit_test(positions_shift_without_effect),
        cmocka_unit_test(recomputing_everything_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
