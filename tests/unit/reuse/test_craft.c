/* test_craft.c -- plans of Cache-Craft for chunks with random copies, whole ones and patches: which
 * copy, how many tokens, which ones, and that every position is held by one live slot. */
#include <math.h>
#include <stdlib.h>

#include "support/policies.h"

#include "reuse/craft/gate.h"
#include "reuse/craft/overlap.h"

enum { N_COPIES = 4, HEAD = 1 };

typedef struct world {
    bench b;
    uint64_t seed;
} world;

static void permutation(uint64_t *seed, int32_t *v, int32_t n)
{
    for (int32_t i = 0; i < n; i++) v[i] = i;
    for (int32_t i = n - 1; i > 0; i--) {
        int32_t k = check_random(seed, i + 1), x = v[i];
        v[i] = v[k], v[k] = x;
    }
}

static int ascending(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

/* know_some_copy -- of segment i, after the head and some other chunks in some order; over `base`,
 * a patch of some of its tokens. */
static void know_some_copy(world *w, int i, const sp_copy *base)
{
    bench *b = &w->b;
    int32_t order[MAX_TOKENS], patch[MAX_TOKENS], others[MAX_SEGS], n = b->segs[i].n;
    sp_digest before[MAX_SEGS] = {b->ids[0]};
    float inter[MAX_SEGS] = {0};
    int n_before = HEAD;
    permutation(&w->seed, others, b->n_segs);
    for (int k = 0; k < b->n_segs; k++)
        if (b->segs[others[k]].kind == SP_SEG_CHUNK && others[k] != i &&
            check_random(&w->seed, 2)) {
            inter[n_before] = (float)check_random(&w->seed, 50);
            before[n_before++] = b->ids[others[k]];
        }
    permutation(&w->seed, order, n);
    sp_copy_stats stats = {inter, 0.5f + 0.05f * (float)check_random(&w->seed, 10), order};
    sp_copy_spec v = {.facts.kind = n_before == HEAD && !base ? SP_COPY_PLAIN : SP_COPY_PLACED,
                      .facts.before = before,
                      .facts.n_before = n_before,
                      .facts.at = base ? base->facts.at : check_random(&w->seed, 300),
                      .facts.stats = stats,
                      .base = base};
    if (!base && check_random(&w->seed, 5) == 0) v.facts.kind = SP_COPY_FUSED;
    if (base) {
        permutation(&w->seed, patch, n);
        v.patch.tokens = patch;
        v.patch.n = 1 + check_random(&w->seed, n);
        qsort(patch, (size_t)v.patch.n, sizeof *patch, ascending);
    }
    know_copy(b, i, v);
}

/* measured -- all copies that the policy may choose from, not pinned. */
static int measured(world *w, int i, const sp_copy ***all)
{
    bench *b = &w->b;
    const sp_content_query q = {.seg = &b->segs[i], .head = b->ids, .n_head = HEAD};
    int n;
    assert_ok(sp_by_content_all(b->ledger, &q, &b->arena, all, &n));
    for (int k = 0; k < n; k++) sp_ledger_unpin(b->ledger, (*all)[k]);
    return n;
}

static const sp_copy *any_whole(world *w, int i)
{
    const sp_copy **all, *found = NULL;
    int n = measured(w, i, &all);
    for (int k = 0; k < n; k++)
        if (!all[k]->base) found = all[k];
    return found;
}

static void world_open(world *w, uint64_t seed)
{
    bench *b = &w->b;
    *w = (world){.seed = seed};
    int32_t sizes[MAX_SEGS];
    for (int i = 0; i < MAX_SEGS; i++) sizes[i] = 1 + check_random(&w->seed, MAX_TOKENS);
    bench_begin(b, check_random(&w->seed, 2) ? "scccctcq" : "scccq", sizes);
    if (check_random(&w->seed, 2)) twin(b, 3, 1);
    know_head(b, HEAD);
    for (int i = HEAD; i < b->n_segs; i++)
        for (int k = 0; b->segs[i].kind == SP_SEG_CHUNK && k < check_random(&w->seed, N_COPIES);
             k++)
            know_some_copy(w, i, k > 0 && check_random(&w->seed, 2) ? any_whole(w, i) : NULL);
}

/* beta -- overlap of a copy of segment i with what precedes it now. */
static float beta(const world *w, int i, const sp_copy *v)
{
    return sp_overlap_beta(v, HEAD, w->b.ids + HEAD, i - HEAD);
}

/* find -- as serve/ does; and what the policy chooses is the least CFO. */
static void find(world *w, bool unfused)
{
    bench *b = &w->b;
    find_as(b, policy("craft"),
            (sp_reuse_input){.answer_room = ROOM, .n_layers = 4, .params[SP_CRAFT_FOCUS] = 3, .unfused = unfused});
    for (int i = HEAD; i < b->n_segs; i++) {
        const sp_copy **all;
        const sp_found *f = &b->found[i];
        int n = b->segs[i].kind == SP_SEG_CHUNK ? measured(w, i, &all) : 0, n_allowed = 0;
        for (int k = 0; k < n; k++) {
            if (unfused && all[k]->facts.kind == SP_COPY_FUSED) continue;
            float cfo = all[k]->facts.stats.cci * (1 - beta(w, i, all[k]));
            n_allowed++;
            assert_non_null(f->copy);
            assert_true(cfo >= f->cfo);
            if (all[k] == f->copy) assert_true(cfo == f->cfo);
        }
        assert_int_equal(f->copy != NULL, n_allowed > 0);
        if (f->copy && unfused) assert_int_not_equal(f->copy->facts.kind, SP_COPY_FUSED);
        if (!f->copy && b->segs[i].kind == SP_SEG_CHUNK)
            assert_int_not_equal(f->miss, SP_MISS_NONE);
    }
}

/* -- what a plan must be --------------------------------------------------------------------- */

static int32_t place_of(const bench *b, int i)
{
    int32_t place = 0;
    while (i > 0) place += b->segs[--i].n;
    return place;
}

static int32_t pos_of(const sp_span *s, int32_t i)
{
    return (s->pos ? s->pos[i] : s->at + i) + s->shift;
}

/* Exactly one slot that may be read holds each position of the prompt. */
static void assert_every_position_once(const bench *b)
{
    int32_t end = place_of(b, b->n_segs);
    int held[MAX_SEGS * MAX_TOKENS] = {0};
    for (int s = 0; s < b->plan.n_spans; s++)
        for (int32_t i = 0; i < b->plan.spans[s].n; i++) {
            if (stale(&b->plan.spans[s], i)) continue;
            assert_in_range(pos_of(&b->plan.spans[s], i), 0, end - 1);
            held[pos_of(&b->plan.spans[s], i)]++;
        }
    for (int32_t p = 0; p < end; p++) assert_int_equal(held[p], 1);
}

/* recomputed -- marks the tokens of segment i that are computed although a copy has them; returns
 * how many. */
static int32_t recomputed(const bench *b, int i, bool *of)
{
    int32_t n = 0, place = place_of(b, i);
    memset(of, 0, MAX_TOKENS * sizeof *of);
    for (int t = 0; t < b->plan.n_todo; t++) {
        const sp_todo *d = &b->plan.todo[t];
        if (d->pos < place || d->pos >= place + b->segs[i].n) continue;
        assert_int_equal(d->token, b->segs[i].tokens[d->pos - place]);
        n += of[d->pos - place] = d->span >= b->n_segs;
    }
    return n;
}

/* The first tokens in the order of the copy, as many as equation 12 gives. */
static void assert_tokens(const world *w)
{
    const bench *b = &w->b;
    float weight[MAX_SEGS] = {0};
    int32_t n[MAX_SEGS] = {0}, want[MAX_SEGS];
    for (int i = 0; i < b->n_segs; i++)
        if (is_chunk(&b->in, i)) {
            const sp_copy *v = b->found[i].copy;
            weight[i] = v->facts.stats.cci * (1 - beta(w, i, v));
            n[i] = b->segs[i].n;
        }
    sp_overlap_share(weight, n, b->n_segs, (float)b->in.params[SP_CRAFT_ALPHA], b->in.recompute, want);
    for (int i = 0; i < b->n_segs; i++) {
        bool of[MAX_TOKENS];
        assert_int_equal(recomputed(b, i, of), want[i]);
        for (int32_t k = 0; k < want[i]; k++)
            assert_true(of[b->found[i].copy->facts.stats.order[k]]);
    }
}

static uint32_t block_of(const sp_span *s, int32_t i)
{
    return s->blocks[i / B];
}

/* Each recomputed token has the cached token that replaces it when it is dropped: the patch's if
 * there is one. */
static void assert_twins(const bench *b)
{
    const sp_plan *p = &b->plan;
    assert_int_equal(p->n_twins, p->n_todo);
    for (int t = 0; t < p->n_todo; t++) {
        const sp_todo *d = &p->todo[t];
        if (d->span < b->n_segs) {
            assert_int_equal(p->twins[t].span, -1);
            continue;
        }
        const sp_span *twin = &p->spans[p->twins[t].span], *own = &p->spans[d->span];
        int i = 0;
        while (place_of(b, i + 1) <= d->pos) i++;
        const sp_copy *v = b->found[i].copy;
        int32_t token = d->pos - place_of(b, i), k = 0;
        assert_int_equal(pos_of(twin, p->twins[t].index), d->pos);
        assert_int_equal(twin->shift, own->shift); /* keys rotated alike */
        while (k < v->patch.n && v->patch.tokens[k] != token) k++;
        assert_int_equal(block_of(twin, p->twins[t].index),
                         k < v->patch.n ? v->patch.blocks[k / B] : v->blocks[token / B]);
    }
}

static void check_plan(world *w)
{
    bench *b = &w->b;
    make_plan(b, "craft");
    assert_every_position_once(b);
    assert_tokens(w);
    assert_twins(b);
    int n_fresh = 0;
    for (int i = HEAD; i < b->n_segs; i++)
        if (!b->found[i].copy) n_fresh += b->segs[i].n;
    for (int t = 0; t < b->plan.n_todo; t++) n_fresh -= b->plan.todo[t].span < b->n_segs;
    assert_int_equal(n_fresh, 0);
    assert_int_equal(b->plan.n_sights, 1);
    assert_int_equal(b->plan.sights[0].n, b->plan.n_spans);
    assert_int_equal(b->plan.slots[b->plan.n_spans - 1].room, ROOM);
    assert_int_equal(b->plan.spans[b->plan.n_spans - 1].at, place_of(b, b->n_segs));
    assert_true(b->plan.gate.wants_mass);
    assert_ok(sp_plan_bind(&b->plan));
    assert_ok(sp_plan_check(&b->plan));
}

/* -- tests ---------------------------------------------------------------------------------- */

static void random_plans_equal_the_definition(void **state)
{
    static const float shares[] = {0, 0.1f, 0.15f, 0.5f, 1};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        world w;
        world_open(&w, seed);
        find(&w, seed % 3 == 0);
        for (size_t k = 0; k < SP_COUNT(shares); k++) {
            w.b.in.recompute = shares[k];
            w.b.in.params[SP_CRAFT_ALPHA] = 0;
            check_plan(&w);
            w.b.in.params[SP_CRAFT_ALPHA] = 0.1f + shares[k];
            check_plan(&w);
        }
        bench_end(&w.b);
    }
}

static void an_unknown_prompt_is_computed_in_its_place(void **state)
{
    bench b;
    bench_begin(&b, "sccq", (const int32_t[]){20, 18, 33, 9});
    find_as(&b, policy("craft"),
            (sp_reuse_input){.answer_room = ROOM, .n_layers = 4, .recompute = 0.5f});
    for (int i = 0; i < 4; i++) assert_null(b.found[i].copy);
    assert_int_equal(b.found[1].miss, SP_MISS_NEVER_SEEN);
    make_plan(&b, "craft");
    assert_int_equal(b.plan.n_todo, 20 + 18 + 33 + 9);
    assert_every_position_once(&b);
    assert_int_equal(b.plan.n_spans, 5);
    assert_ok(sp_plan_bind(&b.plan));
    assert_ok(sp_plan_check(&b.plan));
    bench_end(&b);
}

/* -- copies of one CFO ------------------------------------------------------------------------- */

/* other_ids -- the head, then ids that no prompt here has. */
static void other_ids(const bench *b, int first, sp_digest out[3])
{
    out[0] = b->ids[0];
    out[1] = (sp_digest){{(uint8_t)first, 77}};
    out[2] = (sp_digest){{(uint8_t)(first + 1), 77}};
}

/* Of two copies that this prompt would recompute to the same share, the one that has seen more chunks is taken. */
static void of_equal_copies_the_one_that_saw_more_is_used(void **state)
{
    static const float inter[3] = {0, 1, 1};
    static int32_t order[18];
    for (int more_first = 0; more_first < 2; more_first++) {
        bench b;
        bench_begin(&b, "sccq", (const int32_t[]){20, 6, 18, 9});
        know_head(&b, 1);
        for (int k = 0; k < 2; k++) {
            const int n_others = k == more_first ? 1 : 2;
            sp_digest ids[3];
            other_ids(&b, 10 * n_others, ids);
            know_copy(&b, 2, (sp_copy_spec){.facts.kind = SP_COPY_PLACED, .facts.before = ids,
                                            .facts.n_before = HEAD + n_others, .facts.stats = {inter, 0.5f, order}});
        }
        find_as(&b, policy("craft"), (sp_reuse_input){.n_layers = 4});
        assert_non_null(b.found[2].copy);
        assert_int_equal(b.found[2].copy->facts.n_before, HEAD + 2);
        bench_end(&b);
    }
}

/* ... and of those that saw as many, one in host memory rather than one on disk. */
static void of_equal_copies_the_nearer_is_used(void **state)
{
    static const float inter[3] = {0, 1, 1};
    static const sp_place places[] = {SP_AT_HOST, SP_AT_DISK};
    for (int disk_first = 0; disk_first < 2; disk_first++) {
        bench b;
        bench_begin(&b, "sccq", (const int32_t[]){20, 6, 18, 9});
        for (int k = 0; k < 2; k++) {
            sp_digest ids[3];
            other_ids(&b, 10 * (k + 1), ids);
            const sp_adopted a = {.facts = {.kind = SP_COPY_PLACED, .id = b.ids[2], .before = ids, .n_before = 3,
                                            .n_head = HEAD, .head = sp_head_key(b.ids, HEAD),
                                            .stats = {.inter = inter, .cci = 0.5f}},
                                  .n = 18, .measured = true, .place = places[k ^ disk_first]};
            assert_ok(sp_ledger_adopt(b.ledger, &a));
        }
        find_as(&b, policy("craft"), (sp_reuse_input){.n_layers = 4});
        assert_non_null(b.found[2].copy);
        assert_int_equal(b.found[2].source, SP_AT_HOST);
        bench_end(&b);
    }
}

static void every_allocation_may_fail(void **state)
{
    world w;
    world_open(&w, 4);
    find(&w, false);
    w.b.in.recompute = 0.5f;
    uint64_t before = refs(&w.b);
    assert_survives_faults(made(&w.b, policy("craft")), refs(&w.b) == before);
    assert_true(refs(&w.b) == before);
    bench_end(&w.b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans_equal_the_definition),
        cmocka_unit_test(an_unknown_prompt_is_computed_in_its_place),
        cmocka_unit_test(of_equal_copies_the_one_that_saw_more_is_used),
        cmocka_unit_test(of_equal_copies_the_nearer_is_used),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
