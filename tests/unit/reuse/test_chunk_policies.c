/* test_chunk_policies.c -- chunks at any position: which plans the policies make that take plain copies; all of
 * the list, in its order. */
#include <float.h>
#include <math.h>

#include "support/policies.h"

static const sp_reuse_policy *chunk_policies[32]; /* filled by main */
static size_t n_chunk_policies;

static void list_chunk_policies(void)
{
    int n;
    const sp_reuse_policy *const *all = sp_reuse_policy_list(&n);
    for (int i = 0; i < n; i++)
        if (all[i]->anywhere && !all[i]->keeps_placed) chunk_policies[n_chunk_policies++] = all[i];
    assert(n_chunk_policies >= 6);
}

/* -- what every plan that answers must be ----------------------------------------------------- */

typedef struct choice {
    bool of[MAX_SEGS][MAX_TOKENS];
    int n;
} choice;

/* assert_known_span -- segment i at its place, with the KV that the caches have of it. */
static void assert_known_span(const sp_reuse_input *in, const sp_plan *p, int i, int32_t place)
{
    const sp_span *s = &p->spans[i];
    assert_int_equal(s->n, in->segs[i].n);
    assert_int_equal(p->slots[i].room, s->n);
    assert_null(s->pos);
    assert_int_equal(s->at + s->shift, place);
    const sp_copy *copy = in->found[i].copy;
    if (copy) {
        assert_int_equal(s->at, copy->facts.at);
        assert_blocks(p, i, copy->blocks);
    } else {
        assert_int_equal(p->slots[i].n_known, 0);
    }
    if (!is_chunk(in, i)) assert_int_equal(s->shift, 0);
}

static void assert_todo(const sp_plan *p, int t, int32_t token, int32_t pos, int span,
                        int32_t index)
{
    assert_in_range(t, 0, p->n_todo - 1);
    assert_int_equal(p->todo[t].token, token);
    assert_int_equal(p->todo[t].pos, pos);
    assert_int_equal(p->todo[t].span, span);
    assert_int_equal(p->todo[t].index, index);
    assert_int_equal(p->todo[t].see, 0);
}

/* assert_todos -- whatever is in no cache in its own span, the chosen in the private one, by
 * position. */
static void assert_todos(const sp_reuse_input *in, const sp_plan *p, const choice *c)
{
    int again = in->n_segs, t = 0;
    int32_t place = 0, k = 0;
    for (int i = 0; i < in->n_segs; i++) {
        for (int32_t x = 0; x < in->segs[i].n; x++, place++) {
            assert_int_equal(stale(&p->spans[i], x), c->of[i][x]);
            if (c->of[i][x]) {
                assert_int_equal(p->spans[again].pos[k], place);
                assert_todo(p, t++, in->segs[i].tokens[x], place, again, k++);
            } else if (p->slots[i].n_known == 0) {
                assert_todo(p, t++, in->segs[i].tokens[x], place, i, x);
            }
        }
    }
    assert_int_equal(p->n_todo, t);
    assert_int_equal(k, c->n);
}

static void assert_answer(bench *b, const choice *c)
{
    const sp_plan *p = &b->plan;
    int32_t place = 0;
    assert_int_equal(p->n_spans, b->n_segs + 1 + (c->n > 0));
    for (int i = 0; i < b->n_segs; i++) {
        assert_known_span(&b->in, p, i, place);
        place += b->segs[i].n;
    }
    if (c->n) {
        assert_int_equal(p->spans[b->n_segs].n, c->n);
        assert_int_equal(p->spans[b->n_segs].shift, 0);
        assert_int_equal(p->slots[b->n_segs].n_known, 0);
    }
    assert_int_equal(p->spans[p->n_spans - 1].n, 0);
    assert_int_equal(p->spans[p->n_spans - 1].at, place);
    assert_int_equal(p->slots[p->n_spans - 1].room, ROOM);
    assert_int_equal(p->n_sights, 1);
    assert_null(p->sights[0].list);
    assert_int_equal(p->sights[0].n, p->n_spans);
    assert_int_equal(p->probe.kind, SP_PROBE_NONE);
    assert_todos(&b->in, p, c);
    assert_ok(sp_plan_bind(&b->plan));
    assert_ok(sp_plan_check(p));
}

/* best -- the n chunk tokens of the highest scores, the earlier one of equals, found one by one. */
static choice best(const sp_reuse_input *in, float scores[MAX_SEGS][MAX_TOKENS], int n)
{
    choice c = {.n = n};
    for (int k = 0; k < n; k++) {
        int seg = -1, index = -1;
        for (int i = 0; i < in->n_segs; i++)
            for (int32_t t = 0; is_chunk(in, i) && t < in->segs[i].n; t++)
                if (!c.of[i][t] && (seg < 0 || scores[i][t] > scores[seg][index])) {
                    seg = i;
                    index = t;
                }
        assert_true(seg >= 0);
        c.of[seg][index] = true;
    }
    return c;
}

/* -- full ----------------------------------------------------------------------------------- */

static void full_reuses_every_chunk_as_it_is(void **state)
{
    bench b;
    usual(&b, 0.5f); /* which full does not heed */
    assert_false(sp_reuse_wants_fill(&b.in));
    make_plan(&b, "full");
    assert_answer(&b, &(choice){0});
    assert_int_equal(b.plan.n_todo, 6 + 9);
    for (int i = 0; i < b.n_segs; i++) assert_null(b.plan.spans[i].stale);
    assert_int_equal(b.plan.spans[3].shift, 18);
    assert_int_equal(b.plan.spans[6].shift, 18 + 33 + 6 + 70);
    assert_ptr_equal(b.found[2].copy, b.found[6].copy);
    bench_end(&b);
}

/* Whatever could not be cached is computed where it stands; no policy chooses among it. */
static void unknown_is_computed(void **state)
{
    for (size_t i = 0; i < n_chunk_policies; i++)
        for (int head = 0; head <= 2; head++) {
            bench b;
            bench_begin(&b, "ssccq", (const int32_t[]){20, 5, 18, 33, 9});
            know_head(&b, head);
            if (head) know_chunk(&b, 3, 25);
            look_up(&b, 1);
            assert_true(sp_reuse_wants_fill(&b.in));
            make_plan(&b, chunk_policies[i]->name);
            choice c = {.n = head && chunk_policies[i]->recomputes ? 33 : 0};
            for (int t = 0; t < c.n; t++) c.of[3][t] = true;
            assert_answer(&b, &c);
            bench_end(&b);
        }
}

static void a_prompt_may_have_no_head(void **state)
{
    bench b;
    bench_begin(&b, "cq", (const int32_t[]){18, 9});
    assert_int_equal(sp_reuse_n_head(b.segs, 2), 0);
    assert_int_equal(sp_reuse_n_head(b.segs, 0), 0);
    assert_int_equal(sp_reuse_n_head(b.segs + 1, 1), 1);
    look_up(&b, 0);
    assert_true(sp_reuse_wants_fill(&b.in));
    sp_plan_init(&b.plan, b.pool);
    assert_ok(sp_reuse_plan_fill(&b.in, &b.plan));
    assert_int_equal(b.plan.n_todo, 18);
    assert_int_equal(b.plan.sights[0].n, 1);
    assert_int_equal(b.plan.spans[0].at, 0);
    assert_ok(sp_plan_bind(&b.plan));
    assert_ok(sp_plan_check(&b.plan));
    make_plan(&b, "full");
    assert_answer(&b, &(choice){0});
    bench_end(&b);
}

/* -- choosing ------------------------------------------------------------------------------- */

static const float shares[] = {0, 0.001f, 0.125f, 0.25f, 0.5f, 0.75f, 0.999f, 1};

static int n_chosen_of(float share)
{
    return (int)ceil((double)share * USUAL_TOKENS - 1e-4);
}

/* Scores of few values, so that many are equal. */
static void random_scores(uint64_t *seed, float scores[MAX_SEGS][MAX_TOKENS])
{
    for (int i = 0; i < MAX_SEGS; i++)
        for (int t = 0; t < MAX_TOKENS; t++) scores[i][t] = (float)check_random(seed, 9) - 4;
}

static void set_columns(bench *b, float scores[MAX_SEGS][MAX_TOKENS])
{
    for (int i = 0; i < b->n_segs; i++)
        for (int32_t t = 0; b->probe.probe.columns[i] && t < b->segs[i].n; t++)
            b->probe.probe.columns[i][t] += scores[i][t]; /* as the engine does */
}

static void fusion_chooses_the_highest_columns(void **state)
{
    uint64_t seed = 1;
    for (size_t k = 0; k < SP_COUNT(shares); k++) {
        bench b;
        float scores[MAX_SEGS][MAX_TOKENS];
        usual(&b, shares[k]);
        bool probed = make_probe(&b, "fusion");
        random_scores(&seed, scores);
        if (probed) set_columns(&b, scores);
        make_plan(&b, "fusion");
        choice c = best(&b.in, scores, n_chosen_of(shares[k]));
        assert_answer(&b, &c);
        bench_end(&b);
    }
}

/* The same number of tokens from the beginning of each chunk; a chunk that is shorter leaves its share to others. */
static void link_takes_the_beginnings_of_all_chunks(void **state)
{
    for (size_t k = 0; k < SP_COUNT(shares); k++) {
        bench b;
        float scores[MAX_SEGS][MAX_TOKENS];
        usual(&b, shares[k]);
        make_plan(&b, "link");
        for (int i = 0; i < MAX_SEGS; i++)
            for (int t = 0; t < MAX_TOKENS; t++) scores[i][t] = -(float)t;
        choice c = best(&b.in, scores, n_chosen_of(shares[k]));
        assert_answer(&b, &c);
        bench_end(&b);
    }
}

/* any_score -- of all magnitudes, signs and zeros; now and then none at all. */
static float any_score(uint64_t *seed)
{
    uint32_t bits = (uint32_t)check_random(seed, 1 << 16) << 16;
    bits |= (uint32_t)check_random(seed, 1 << 16);
    bits &= check_random(seed, 8) ? UINT32_MAX : UINT32_C(1) << 31;
    float score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

static void scores_of_all_magnitudes(void **state)
{
    uint64_t seed = 4;
    for (int round = 0; round < 200; round++) {
        bench b;
        float scores[MAX_SEGS][MAX_TOKENS];
        float share = shares[check_random(&seed, SP_COUNT(shares))];
        usual(&b, share);
        if (!make_probe(&b, "fusion")) {
            bench_end(&b);
            continue;
        }
        for (int i = 0; i < b.n_segs; i++)
            for (int32_t t = 0; b.probe.probe.columns[i] && t < b.segs[i].n; t++) {
                float score = any_score(&seed);
                b.probe.probe.columns[i][t] = score;
                scores[i][t] = isnan(score) ? -INFINITY : fmaxf(score, -FLT_MAX);
            }
        make_plan(&b, "fusion");
        choice c = best(&b.in, scores, n_chosen_of(share));
        assert_answer(&b, &c);
        bench_end(&b);
    }
}

/* The order of a chunk's tokens is the same on every machine, also where their scores are equal. */
static void tokens_of_equal_scores_keep_their_order(void **state)
{
    static const float scores[] = {1, 3, 3, 2, 3, 1};
    static const int32_t wanted[] = {1, 2, 4, 3, 0, 5};
    sp_arena arena;
    sp_arena_init(&arena);
    const int32_t *order = sp_reuse_falling(scores, SP_COUNT(scores), &arena);
    assert_non_null(order);
    assert_memory_equal(order, wanted, sizeof wanted);
    sp_arena_fini(&arena);
}

/* Half by the question's attention, then by that of the first half. */
static void flow_chooses_in_two_steps(void **state)
{
    uint64_t seed = 4;
    for (size_t k = 1; k + 1 < SP_COUNT(shares); k++) {
        bench b;
        float question[MAX_SEGS][MAX_TOKENS], first[MAX_SEGS][MAX_TOKENS];
        usual(&b, shares[k]);
        random_scores(&seed, question);
        random_scores(&seed, first);
        make_probe(&b, "flow");
        set_columns(&b, question);
        choice half = best(&b.in, question, n_chosen_of(shares[k] / 2));
        sp_plan second;
        sp_plan_init(&second, b.pool);
        sp_plan_role role;
        b.in.n_done[SP_PLAN_PROBE] = 1;
        b.in.last = &b.probe;
        assert_ok(policy("flow")->next_plan(&b.in, &second, &role));
        assert_int_equal(role, SP_PLAN_PROBE);
        sp_reuse_input front = b.in;
        front.n_segs = 7; /* what stands behind the last chunk sees no more than the first probe */
        assert_todos(&front, &second, &half);
        assert_int_equal(second.probe.kind, SP_PROBE_COLUMNS);
        assert_int_equal(second.probe.layer, 2);
        assert_int_equal(second.slots[second.n_spans - 1].room, 0); /* the answer takes no memory twice */
        assert_ok(sp_plan_bind(&second));
        assert_ok(sp_plan_check(&second));
        sp_plan_fini(&b.probe);
        b.probe = second;
        set_columns(&b, first);
        for (int i = 0; i < b.n_segs; i++)
            for (int t = 0; t < MAX_TOKENS; t++)
                if (half.of[i][t]) first[i][t] = 1000;
        make_plan(&b, "flow");
        choice c = best(&b.in, first, n_chosen_of(shares[k]));
        assert_answer(&b, &c);
        bench_end(&b);
    }
}

static void blend_chooses_the_largest_deviations(void **state)
{
    uint64_t seed = 2;
    for (size_t k = 0; k < SP_COUNT(shares); k++) {
        bench b;
        float scores[MAX_SEGS][MAX_TOKENS];
        usual(&b, shares[k]);
        make_probe(&b, "blend");
        random_scores(&seed, scores);
        for (int t = 0; t < b.probe.n_todo; t++) { /* none where the share needs no probe */
            sp_twin w = b.probe.twins[t];
            b.probe.probe.deviation[t] = w.span < 0 ? 1000 : scores[w.span][w.index];
        }
        make_plan(&b, "blend");
        choice c = best(&b.in, scores, n_chosen_of(shares[k]));
        assert_answer(&b, &c);
        bench_end(&b);
    }
}

static bool measures(const sp_reuse_policy *p)
{
    return p->recomputes && p != policy("random") && p != policy("link");
}

/* Without measures all tokens are equal, and the earlier ones go first; of the policies that measure. */
static void without_a_probe_the_earlier_tokens_go_first(void **state)
{
    for (size_t i = 0; i < n_chunk_policies; i++)
        for (size_t k = 0; k < SP_COUNT(shares); k++) {
            bench b;
            float scores[MAX_SEGS][MAX_TOKENS] = {{0}};
            if (!measures(chunk_policies[i])) continue;
            usual(&b, shares[k]);
            make_plan(&b, chunk_policies[i]->name);
            choice c = best(&b.in, scores, n_chosen_of(shares[k]));
            assert_answer(&b, &c);
            bench_end(&b);
        }
}

static choice chosen_of(const bench *b)
{
    choice c = {0};
    for (int i = 0; i < b->n_segs; i++)
        for (int32_t t = 0; t < b->segs[i].n; t++) c.n += c.of[i][t] = stale(&b->plan.spans[i], t);
    return c;
}

static void random_is_spread_and_repeatable(void **state)
{
    choice smaller = {0};
    for (size_t k = 0; k < SP_COUNT(shares); k++) {
        bench b;
        usual(&b, shares[k]);
        make_plan(&b, "random");
        choice first = chosen_of(&b);
        assert_int_equal(first.n, n_chosen_of(shares[k]));
        assert_answer(&b, &first);
        make_plan(&b, "random");
        choice again = chosen_of(&b);
        assert_memory_equal(&first, &again, sizeof first);
        for (int i = 0; i < MAX_SEGS; i++)
            for (int t = 0; t < MAX_TOKENS; t++)
                if (smaller.of[i][t]) assert_true(first.of[i][t]); /* one order, cut at the share */
        smaller = first;
        if (shares[k] == 0.5f) { /* of a chunk of 70: about half, in both halves of it */
            int n[2] = {0};
            for (int t = 0; t < 70; t++) n[t / 35] += first.of[5][t];
            assert_in_range(n[0], 8, 27);
            assert_in_range(n[1], 8, 27);
            assert_memory_not_equal(first.of[5], first.of[3], 18 * sizeof first.of[3][0]); /* each chunk has its own */
        }
        bench_end(&b);
    }
}

/* Where attention to each segment is measured, the recomputed tokens of each have a span of their own. */
static void recomputed_tokens_are_told_apart_where_they_are_measured(void **state)
{
    for (int apart = 0; apart < 2; apart++) {
        bench b;
        bench_begin(&b, "sccq", (const int32_t[]){20, 18, 33, 9});
        know_head(&b, 1);
        know_chunk(&b, 1, 20);
        know_chunk(&b, 2, 20);
        find_as(&b, policy("random"),
                (sp_reuse_input){.answer_room = ROOM, .n_layers = 4, .recompute = 0.5f, .by_segment = apart});
        make_plan(&b, "random");
        assert_int_equal(b.plan.n_spans, 4 + 1 + apart + 1); /* those, and the answer's */
        for (int t = 0; t < b.plan.n_todo; t++) {
            const sp_todo *d = &b.plan.todo[t];
            const int seg = d->pos < 20 + 18 ? 1 : 2;
            if (d->span >= 4) assert_int_equal(d->span, apart ? 3 + seg : 4);
        }
        assert_ok(sp_plan_bind(&b.plan));
        assert_ok(sp_plan_check(&b.plan));
        bench_end(&b);
    }
}

/* Another seed takes other tokens, as many of them; seed 0 is the default. */
static void random_takes_other_tokens_with_another_seed(void **state)
{
    choice of[3];
    for (int seed = 0; seed < 3; seed++) {
        bench b;
        usual(&b, 0.25f);
        if (seed) b.in.params[0] = seed;
        make_plan(&b, "random");
        of[seed] = chosen_of(&b);
        assert_int_equal(of[seed].n, n_chosen_of(0.25f));
        bench_end(&b);
    }
    assert_memory_not_equal(&of[0], &of[1], sizeof *of);
    assert_memory_not_equal(&of[1], &of[2], sizeof *of);
}

/* Chunks take part by their size; within one the most attended go first. */
/* n_looked_at -- tokens of the pieces in the sight of a todo, up to itself, without the first four. */
static int32_t n_looked_at(const sp_plan *p, const sp_todo *t, int first_piece)
{
    const sp_sight *see = &p->sights[t->see];
    int32_t n = 0;
    for (int32_t k = 0; k < see->n; k++) {
        const int s = see->list ? see->list[k] : k;
        if (s >= first_piece && s < t->span) n += p->spans[s].n;
    }
    return n + t->index + 1;
}

static void a_window_is_as_wide_as_it_says(void **state)
{
    enum { WINDOW = 8 * SP_BLOCK_TOKENS, SINK = 4 };
    bench b;
    sp_plan_role role;
    bench_begin(&b, "ttt", (const int32_t[]){70, 70, 70});
    find_as(&b, &sp_reuse_window, (sp_reuse_input){.n_layers = 4, .window = WINDOW, .answer_room = ROOM});
    sp_plan_init(&b.plan, b.pool);
    assert_ok(sp_reuse_window.next_plan(&b.in, &b.plan, &role));
    const int first_piece = b.n_segs + 1;
    for (int i = 0; i < b.plan.n_todo; i++) {
        const sp_todo *t = &b.plan.todo[i];
        const sp_sight *see = &b.plan.sights[t->see];
        if (t->span < first_piece) continue;
        const int32_t n = n_looked_at(&b.plan, t, first_piece), all = t->pos + 1 - SINK;
        assert_true(n <= WINDOW && n >= SP_MIN(all, WINDOW - SP_BLOCK_TOKENS));
        assert_true(see->list && see->list[0] == first_piece - 1); /* the first tokens */
    }
    bench_end(&b);
}

static void h2o_finds_what_is_measured_alone(void **state)
{
    static const char *const names[] = {"h2o", "full"};
    for (int i = 0; i < 2; i++) {
        bench b;
        bench_begin(&b, "sccq", (const int32_t[]){20, 18, 33, 9});
        know_head(&b, 1);
        know_chunk(&b, 1, 20);
        find_as(&b, policy(names[i]), (sp_reuse_input){.n_layers = 4});
        assert_int_equal(b.found[1].copy != NULL, i);
        bench_end(&b);
    }
}

/* What a chunk's tokens receive is summed over all layers. */
static void h2o_measures_what_it_fills(void **state)
{
    bench b;
    sp_plan_role role;
    bench_begin(&b, "sccq", (const int32_t[]){20, 18, 33, 9});
    find_as(&b, policy("h2o"), (sp_reuse_input){.n_layers = 4});
    sp_plan_init(&b.plan, b.pool);
    assert_ok(policy("h2o")->next_plan(&b.in, &b.plan, &role));
    assert_int_equal(role, SP_PLAN_FILL);
    assert_int_equal(b.plan.probe.kind, SP_PROBE_COLUMNS);
    assert_int_equal(b.plan.probe.layer, SP_EVERY_LAYER);
    assert_true(!b.plan.probe.columns[0] && b.plan.probe.columns[1] && b.plan.probe.columns[2]);
    bench_end(&b);
}

static void h2o_takes_the_heavy(void **state)
{
    uint64_t seed = 3;
    for (size_t k = 0; k < SP_COUNT(shares); k++) {
        bench b;
        float scores[MAX_SEGS][MAX_TOKENS] = {{0}};
        bench_begin(&b, "ssctccq", (const int32_t[]){20, 5, 18, 6, 70, 51, 9});
        know_head(&b, 2);
        for (int i = 2; i < 6; i++) {
            int32_t heavy[MAX_TOKENS], n = b.segs[i].n;
            if (i == 3) continue;
            for (int32_t t = 0; t < n; t++) heavy[t] = t;
            for (int32_t t = n - 1; t > 0; t--) {
                int32_t other = check_random(&seed, t + 1), x = heavy[t];
                heavy[t] = heavy[other], heavy[other] = x;
            }
            for (int32_t r = 0; r < n; r++) scores[i][heavy[r]] = -(float)r / (float)n;
            sp_copy_spec spec = plain_spec(&b, 25);
            spec.facts.heavy = heavy;
            know_copy(&b, i, spec);
        }
        look_up(&b, shares[k]);
        make_plan(&b, "h2o");
        choice c =
            best(&b.in, scores, n_chosen_of(shares[k])); /* as many tokens as the usual one */
        assert_answer(&b, &c);
        bench_end(&b);
    }
}

/* -- probes --------------------------------------------------------------------------------- */

static void fusion_probes_with_the_question(void **state)
{
    bench b;
    usual(&b, 0.5f);
    make_probe(&b, "fusion");
    const sp_plan *p = &b.probe;
    int32_t place = 0;
    assert_int_equal(p->probe.kind, SP_PROBE_COLUMNS);
    assert_int_equal(p->probe.layer, 3);
    assert_int_equal(p->n_spans, b.n_segs);
    assert_int_equal(p->n_sights, 1);
    assert_null(p->sights[0].list);
    assert_int_equal(p->sights[0].n, b.n_segs);
    for (int i = 0; i < b.n_segs; i++) {
        assert_known_span(&b.in, p, i, place);
        place += b.segs[i].n;
        assert_int_equal(p->probe.columns[i] != NULL, is_chunk(&b.in, i));
        for (int32_t t = 0; p->probe.columns[i] && t < b.segs[i].n; t++)
            assert_true(p->probe.columns[i][t] == 0); /* the engine adds to it */
    }
    assert_todos(&b.in, p, &(choice){0}); /* the question, and the text between */
    assert_int_equal(p->n_todo, 6 + 9);
    assert_ok(sp_plan_bind(&b.probe));
    assert_ok(sp_plan_check(p));
    bench_end(&b);
}

static void blend_probes_with_all_chunk_tokens(void **state)
{
    bench b;
    usual(&b, 0.5f);
    make_probe(&b, "blend");
    const sp_plan *p = &b.probe;
    choice all = {.n = USUAL_TOKENS};
    int t = 0;
    assert_int_equal(p->probe.kind, SP_PROBE_DEVIATION);
    assert_int_equal(p->probe.layer, 1);
    assert_int_equal(p->n_spans, 8); /* without the question, with the private one */
    assert_int_equal(p->spans[7].n, USUAL_TOKENS);
    assert_int_equal(p->slots[7].n_known, 0);
    assert_int_equal(p->sights[0].n, 8);
    for (int i = 0; i < 7; i++)
        for (int32_t x = 0; x < b.segs[i].n; x++) {
            all.of[i][x] = is_chunk(&b.in, i);
            if (i < 2) continue; /* the head is known and has nothing to compute */
            assert_int_equal(p->twins[t].span, is_chunk(&b.in, i) ? i : -1);
            if (is_chunk(&b.in, i)) assert_int_equal(p->twins[t].index, x);
            t++;
        }
    sp_reuse_input front = b.in;
    front.n_segs = 7;
    assert_todos(&front, p, &all);
    assert_int_equal(p->n_todo, t);
    assert_ok(sp_plan_bind(&b.probe));
    assert_ok(sp_plan_check(p));
    bench_end(&b);
}

/* The layer that a prompt names, counted from 1; of a model with fewer layers the last. */
static void blend_probes_at_the_layer_that_is_named(void **state)
{
    static const struct {
        int named, n_layers, expected;
    } cases[] = {{1, 4, 0}, {2, 4, 1}, {3, 4, 2}, {4, 4, 3}, {5, 4, 3}, {2, 1, 0}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        bench b;
        usual(&b, 0.5f);
        b.in.n_layers = cases[i].n_layers;
        b.in.params[0] = cases[i].named;
        assert_true(make_probe(&b, "blend"));
        assert_int_equal(b.probe.probe.layer, cases[i].expected);
        bench_end(&b);
    }
}

/* -- out of memory -------------------------------------------------------------------------- */

static void every_allocation_may_fail(void **state)
{
    bench b;
    usual(&b, 0.5f);
    uint64_t before = refs(&b);
    for (size_t i = 0; i < n_chunk_policies; i++) {
        const sp_reuse_policy *p = policy_with(&b, chunk_policies[i]->name);
        assert_false(p->exact);
        for (int k = 0; k < 2; k++) { /* before and after probes */
            b.in.n_done[SP_PLAN_PROBE] = 2 * k;
            assert_survives_faults(made(&b, p), refs(&b) == before);
        }
    }
    b.in.n_done[SP_PLAN_PROBE] = 0;
    make_probe(&b, "flow");
    before = refs(&b);
    b.in.n_done[SP_PLAN_PROBE] = 1;
    b.in.last = &b.probe;
    assert_survives_faults(made(&b, policy("flow")), refs(&b) == before);
    assert_true(refs(&b) == before);
    bench_end(&b);
}

int main(void)
{
    list_chunk_policies();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_reuses_every_chunk_as_it_is),
        cmocka_unit_test(unknown_is_computed),
        cmocka_unit_test(a_prompt_may_have_no_head),
        cmocka_unit_test(fusion_chooses_the_highest_columns),
        cmocka_unit_test(link_takes_the_beginnings_of_all_chunks),
        cmocka_unit_test(tokens_of_equal_scores_keep_their_order),
        cmocka_unit_test(flow_chooses_in_two_steps),
        cmocka_unit_test(scores_of_all_magnitudes),
        cmocka_unit_test(blend_chooses_the_largest_deviations),
        cmocka_unit_test(without_a_probe_the_earlier_tokens_go_first),
        cmocka_unit_test(random_is_spread_and_repeatable),
        cmocka_unit_test(random_takes_other_tokens_with_another_seed),
        cmocka_unit_test(recomputed_tokens_are_told_apart_where_they_are_measured),
        cmocka_unit_test(a_window_is_as_wide_as_it_says),
        cmocka_unit_test(h2o_finds_what_is_measured_alone),
        cmocka_unit_test(h2o_measures_what_it_fills),
        cmocka_unit_test(h2o_takes_the_heavy),
        cmocka_unit_test(fusion_probes_with_the_question),
        cmocka_unit_test(blend_probes_with_all_chunk_tokens),
        cmocka_unit_test(blend_probes_at_the_layer_that_is_named),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
