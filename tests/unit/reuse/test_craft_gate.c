/* test_craft_gate.c -- the gate of Cache-Craft without a model: which chunks are in focus, for how
 * long, what is dropped then, and what is measured of invented attention. */
#include <math.h>

#include "support/policies.h"

#include "reuse/craft/gate.h"

/* -- Algorithm 1 ---------------------------------------------------------------------------- */

/* assert_focus -- of scores; want has a 1 for each that is in focus. */
static void assert_focus(const char *want, const float *score)
{
    int32_t order[32];
    bool focused[32];
    int n = (int)strlen(want);
    for (int i = 0; i < n; i++) focused[i] = want[i] == '0';
    sp_craft_focus(score, n, order, focused);
    for (int i = 0; i < n; i++)
        if (focused[i] != (want[i] == '1')) fail_msg("%s: chunk %d", want, i);
}

static void focus_is_as_counted_by_hand(void **state)
{
    /* differences 1 5 1, shares 1/7 5/7 1/7; the entropy grows by 0.240 and 0.278: two */
    assert_focus("1100", (float[]){8, 7, 2, 1});
    assert_focus("0011", (float[]){1, 2, 8, 7});
    assert_focus("1001", (float[]){7, 1, 2, 8});
    /* differences 3 3 1: by 0.363 and 0.278: one */
    assert_focus("1000", (float[]){8, 5, 2, 1});
    /* differences 2 2 12 1: by 0.252, 0.246 and 0.167: one */
    assert_focus("00100", (float[]){18, 16, 20, 4, 3});
    /* differences 4 0 1 3: by 0, 0.260 and 0.368: three */
    assert_focus("11100", (float[]){12, 8, 8, 7, 4});
}

static void few_chunks_are_all_in_focus(void **state)
{
    assert_focus("", (float[]){0});
    assert_focus("1", (float[]){3});
    assert_focus("11", (float[]){9, 1});
    assert_focus("010", (float[]){4, 10, 1}); /* of three there is one place to cut */
    assert_focus("100", (float[]){5, 1, 1});
}

static void equals_are_all_in_focus(void **state)
{
    assert_focus("1111", (float[]){3, 3, 3, 3});
    assert_focus("1111", (float[]){0, 0, 0, 0});
    assert_focus("1000", (float[]){5, 1, 1, 1});
    assert_focus("1000", (float[]){5, 5, 5, 1}); /* of equals the earlier one */
    assert_focus("1000", (float[]){5, 5, 4, 1}); /* differences 0 1 3: by 0.347 and 0.216 */
}

/* The algorithm as the paper writes it, on counted sums. */
static void focus_of_random_scores_is_the_papers(void **state)
{
    uint64_t seed = 8;
    for (int round = 0; round < 2000; round++) {
        float score[12], sorted[12];
        char want[13] = {0};
        int n = 3 + check_random(&seed, 10);
        for (int i = 0; i < n; i++) score[i] = sorted[i] = (float)check_random(&seed, 1 << 20);
        for (int i = 0; i < n; i++)
            for (int k = i + 1; k < n; k++)
                if (sorted[k] > sorted[i]) {
                    float x = sorted[i];
                    sorted[i] = sorted[k], sorted[k] = x;
                }
        double all = (double)(sorted[0] - sorted[n - 1]), h[12] = {0}, most = -1;
        int best = n;
        for (int i = 1; i < n; i++) { /* h(i) of the differences 1 .. i */
            double p = (double)(sorted[i - 1] - sorted[i]) / all;
            h[i] = h[i - 1] - (p > 0 ? p * log(p) : 0);
        }
        for (int i = 1; i <= n - 2; i++)
            if (h[i + 1] - h[i] > most + 1e-12) most = h[i + 1] - h[i], best = i;
        for (int i = 0; i < n; i++) want[i] = score[i] >= sorted[best - 1] ? '1' : '0';
        assert_focus(want, score);
    }
}

/* -- the gate ------------------------------------------------------------------------------- */

enum { HEADS = 2, LAYERS = 6, MAX_ROWS = 256, MAX_SPANS = 24 };

/* A head, chunks 1 to 4 of which 3 is new, a question; the others are recomputed in part. */
typedef struct scene {
    bench b;
    float mass[MAX_ROWS * HEADS * MAX_SPANS];
    bool keep[MAX_ROWS];
    int32_t id[MAX_ROWS];
    int n;
} scene;

static void scene_open(scene *s, int focus)
{
    bench *b = &s->b;
    int32_t order[MAX_TOKENS];
    float inter[MAX_SEGS] = {0};
    for (int32_t i = 0; i < MAX_TOKENS; i++) order[i] = i;
    bench_begin(b, "sccccq", (const int32_t[]){20, 18, 33, 20, 17, 9});
    know_head(b, 1);
    for (int i = 1; i <= 4; i++) {
        sp_copy_stats stats = {inter, 0.6f, order};
        sp_digest before[] = {b->ids[0], {{99}}}; /* after a stranger: all are recomputed */
        if (i == 3) continue;
        inter[1] = 1;
        know_copy(b, i,
                  (sp_copy_spec){.facts.kind = SP_COPY_PLACED,
                                 .facts.before = before,
                                 .facts.n_before = 2,
                                 .facts.at = 20,
                                 .facts.stats = stats});
    }
    find_as(b, policy("craft"),
            (sp_reuse_input){
                .answer_room = ROOM, .recompute = 0.5f, .params = {[SP_CRAFT_FOCUS] = focus}, .n_layers = LAYERS});
    make_plan(b, "craft");
    s->n = b->plan.n_todo;
    for (int i = 0; i < s->n; i++) s->id[i] = i;
}

static const sp_craft_gate *gate_of(const scene *s)
{
    const sp_craft_gate *w = sp_craft_gate_of(&s->b.plan);
    assert_non_null(w);
    return w;
}

static float *mass_at(scene *s, int row, int head)
{
    return s->mass + (row * HEADS + head) * s->b.plan.n_spans;
}

/* layer -- shows the gate a layer with the rows that are left, and takes out what it drops. Returns
 * how many those were. */
static int layer(scene *s, int l)
{
    const sp_plan *p = &s->b.plan;
    int n = 0;
    for (int i = 0; i < s->n; i++) s->keep[i] = true;
    p->gate.after_layer(p->gate.user, &(sp_gate_view){.plan = p,
                                                      .layer = l,
                                                      .n_heads = HEADS,
                                                      .n = s->n,
                                                      .id = s->id,
                                                      .mass = s->mass,
                                                      .keep = s->keep});
    for (int i = 0; i < s->n; i++)
        if (s->keep[i]) s->id[n++] = s->id[i];
    int dropped = s->n - n;
    s->n = n;
    return dropped;
}

/* look -- the question gives these masses to chunks 1 .. 4, all other rows nothing. */
static void look(scene *s, const float *to)
{
    const sp_craft_gate *w = gate_of(s);
    memset(s->mass, 0, sizeof s->mass);
    for (int r = 0; r < s->n; r++) {
        if (w->seg_of[s->b.plan.todo[s->id[r]].span] != 5) continue;
        for (int h = 0; h < HEADS; h++)
            for (int i = 1; i <= 4; i++) mass_at(s, r, h)[i] = to[i - 1];
    }
}

static void assert_rows(const scene *s, const char *segs)
{
    const sp_craft_gate *w = gate_of(s);
    bool there[MAX_SEGS] = {false};
    for (int r = 0; r < s->n; r++) there[w->seg_of[s->b.plan.todo[s->id[r]].span]] = true;
    for (int i = 0; i < 6; i++) assert_int_equal(there[i], strchr(segs, '0' + i) != NULL);
}

static const float on_first[] = {0.8f, 0.1f, 0.04f, 0.03f}, on_last[] = {0.01f, 0.03f, 0.02f, 5};

static void tokens_are_dropped_when_the_focus_is_stable(void **state)
{
    for (int focus = 1; focus <= 4; focus++) {
        scene s = {0};
        scene_open(&s, focus);
        int again = s.n - 20 - 9;
        assert_rows(&s, "12345");
        for (int l = 0; l < LAYERS; l++) {
            look(&s, on_first);
            int dropped = layer(&s, l);
            assert_int_equal(dropped > 0, l == focus - 1);
            if (l < focus - 1) assert_int_equal(s.n, again + 20 + 9);
        }
        assert_rows(&s, "135"); /* the focused, the new one, the question */
        for (int i = 1; i <= 4; i++)
            assert_int_equal(gate_of(&s)->chunks[i].dropped, i == 2 || i == 4);
        bench_end(&s.b);
    }
}

/* What passes the last layer is whole. */
static void nothing_is_dropped_in_the_last_layer(void **state)
{
    scene s = {0};
    scene_open(&s, LAYERS);
    for (int l = 0; l < LAYERS; l++) {
        look(&s, on_first);
        assert_int_equal(layer(&s, l), 0);
    }
    for (int i = 1; i <= 4; i++) assert_false(gate_of(&s)->chunks[i].dropped);
    bench_end(&s.b);
}

/* Layers of two pieces of a plan do not follow each other. */
static void each_piece_counts_its_own_layers(void **state)
{
    scene s = {0};
    scene_open(&s, 3);
    for (int k = 0; k < 5; k++) {
        look(&s, on_first);
        assert_int_equal(layer(&s, k < 2 ? k : k - 2) > 0, k == 4);
    }
    bench_end(&s.b);
}

static void another_focus_starts_from_the_beginning(void **state)
{
    scene s = {0};
    scene_open(&s, 3);
    for (int l = 0; l < LAYERS; l++) {
        look(&s, l < 2 ? on_first : on_last); /* sums decide: 1.6 against 5 from layer 2 on */
        int dropped = layer(&s, l);
        assert_int_equal(dropped > 0, l == 4);
    }
    assert_rows(&s, "345");
    bench_end(&s.b);
}

static void nothing_is_dropped_without_a_focus(void **state)
{
    for (int how = 0; how < 3; how++) {
        scene s = {0};
        scene_open(&s, how == 0 ? 0 : 1);
        if (how == 1) s.n -= 9; /* a piece without the question */
        for (int l = 0; l < LAYERS; l++) {
            look(&s, how == 2 ? (float[]){1, 1, 1, 1} : on_first); /* equals are all in focus */
            assert_int_equal(layer(&s, l), 0);
        }
        bench_end(&s.b);
    }
}

static void all_again_means_all(void **state)
{
    scene s = {0};
    scene_open(&s, 1);
    s.b.in.recompute = 1;
    make_plan(&s.b, "craft");
    assert_int_equal(gate_of(&s)->focus, 0);
    bench_end(&s.b);
}

/* -- the question first ---------------------------------------------------------------------- */

/* probe -- the tokens take several steps: the question alone sees the copies, not what is new. */
static void probe(scene *s, int focus)
{
    scene_open(s, focus);
    s->b.in.max_rows = 30;
    assert_true(make_probe(&s->b, "craft"));
    const sp_plan *p = &s->b.probe;
    assert_int_equal(p->n_todo, 9);
    bool seen[MAX_SPANS] = {false};
    const sp_sight *sight = &p->sights[p->todo[0].see];
    for (int i = 0; i < sight->n; i++) seen[sight->list[i]] = true;
    assert_true(seen[0] && seen[1] && seen[2] && !seen[3] && seen[4] && seen[5]);
    sp_plan answer = s->b.plan; /* the scene shows the probe to its gate */
    s->b.plan = *p;
    s->n = p->n_todo;
    for (int l = 0; l < LAYERS && s->n; l++) {
        look(s, l < 2 ? (float[]){0.1f, 0.8f, 9, 0.03f} : (float[]){0.9f, 0.1f, 9, 0.03f});
        assert_int_equal(layer(s, l), l == 5 ? 0 : l == focus - 1 ? 9 : 0);
    }
    s->b.plan = answer;
}

static int n_again(const scene *s, int seg)
{
    const sp_plan *p = &s->b.plan;
    int n = 0;
    for (int i = 0; i < p->n_todo; i++) n += gate_of(s)->seg_of[p->todo[i].span] == seg;
    return n;
}

static void of_several_steps_the_question_is_first(void **state)
{
    scene s = {0};
    probe(&s, 2);
    make_plan(&s.b, "craft");
    assert_int_equal(gate_of(&s)->focus, 0);
    assert_int_equal(n_again(&s, 1), 0);
    assert_true(n_again(&s, 2) > 10); /* in focus in the first two layers */
    assert_int_equal(n_again(&s, 3), 20);
    assert_int_equal(n_again(&s, 4), 0);
    assert_int_equal(n_again(&s, 5), 9);
    bench_end(&s.b);
}

/* The focus changes with the fourth layer and is not stable for six. */
static void without_a_stable_focus_all_are_recomputed(void **state)
{
    scene s = {0};
    probe(&s, 6);
    make_plan(&s.b, "craft");
    for (int i = 1; i <= 4; i++) assert_true(n_again(&s, i) > 5);
    bench_end(&s.b);
}

static void one_step_needs_no_probe(void **state)
{
    scene s = {0};
    sp_plan_role role;
    for (int how = 0; how < 4; how++) {
        scene_open(&s, how == 1 ? 0 : 3);
        s.b.in.max_rows = how == 0 ? s.n : 30;
        s.b.in.n_done[SP_PLAN_PROBE] = 0;
        s.b.in.last = NULL;
        if (how == 2) s.b.in.recompute = 0;
        if (how == 3) s.b.in.recompute = 1;
        sp_plan_fini(&s.b.plan);
        sp_plan_init(&s.b.plan, s.b.pool);
        assert_ok(policy("craft")->next_plan(&s.b.in, &s.b.plan, &role));
        assert_int_equal(role, SP_PLAN_ANSWER);
        bench_end(&s.b);
    }
}

/* -- measuring ------------------------------------------------------------------------------ */

/* invent -- masses that sum to one over the spans of segments up to the row's own. */
static void invent(scene *s, uint64_t *seed)
{
    const sp_craft_gate *w = gate_of(s);
    const sp_plan *p = &s->b.plan;
    for (int r = 0; r < s->n; r++)
        for (int h = 0; h < HEADS; h++) {
            float *m = mass_at(s, r, h), sum = 0;
            for (int k = 0; k < p->n_spans; k++) {
                int to = w->seg_of[k], from = w->seg_of[p->todo[s->id[r]].span];
                sum += m[k] = to < 0 || to > from ? 0 : (float)check_random(seed, 100);
            }
            for (int k = 0; k < p->n_spans && sum > 0; k++) m[k] /= sum;
        }
}

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-5 * (1 + fabs(want)))) fail_msg("%.9g, not %.9g", got, want);
}

/* Sums over tokens, means over layers and heads, to chunks only; the same from any pieces. */
static void attention_is_summed_over_tokens(void **state)
{
    for (int piece = 7; piece <= 200; piece += 61) {
        uint64_t seed = 11;
        scene s = {0};
        double inter[MAX_SEGS][MAX_SEGS] = {{0}}, prior[MAX_SEGS][MAX_TOKENS] = {{0}};
        scene_open(&s, 0);
        const sp_craft_gate *w = gate_of(&s);
        const sp_plan *p = &s.b.plan;
        int all = s.n;
        for (int from = 0; from < all; from += piece)
            for (int l = 0; l < LAYERS; l++) {
                s.n = SP_MIN(piece, all - from);
                for (int r = 0; r < s.n; r++) s.id[r] = from + r;
                invent(&s, &seed);
                for (int r = 0; r < s.n * HEADS; r++)
                    for (int k = 0; k < p->n_spans - 1; k++) {
                        const sp_todo *d = &p->todo[s.id[r / HEADS]];
                        int seg = w->seg_of[d->span], to = w->seg_of[k];
                        double m = (double)s.mass[r * p->n_spans + k] / HEADS / LAYERS;
                        int32_t first = p->spans[seg].at + p->spans[seg].shift;
                        inter[seg][to] += m;
                        if (to >= 1 && to < seg) prior[seg][d->pos - first] += m;
                    }
                layer(&s, l);
            }
        for (int i = 1; i <= 4; i++) {
            assert_true(w->chunks[i].on);
            assert_near((double)w->chunks[i].intra, inter[i][i]);
            assert_true(w->chunks[i].inter[0] == 0); /* the head is no chunk */
            for (int k = 1; k < i; k++) assert_near((double)w->chunks[i].inter[k], inter[i][k]);
            for (int32_t t = 0; t < s.b.segs[i].n; t++)
                assert_near((double)w->chunks[i].to_prior[t], prior[i][t]);
        }
        assert_false(w->chunks[0].on || w->chunks[5].on);
        bench_end(&s.b);
    }
}

/* What a plan leaves behind: a copy of the new chunk, patches over those that were recomputed. */
static void a_plan_leaves_copies_and_patches(void **state)
{
    scene s = {0};
    uint64_t seed = 3;
    scene_open(&s, 0);
    sp_copy_spec v;
    for (int l = 0; l < LAYERS; l++) {
        invent(&s, &seed);
        layer(&s, l);
    }
    sp_plan *p = &s.b.plan;
    assert_ok(sp_plan_bind(p));
    assert_true(sp_craft_keep_chunk(&s.b.in, p, 3, &v));
    assert_int_equal(v.facts.kind, SP_COPY_PLACED);
    assert_null(v.base);
    assert_int_equal(v.facts.n_before, 3);
    assert_int_equal(v.facts.at, 20 + 18 + 33);
    assert_ptr_equal(v.blocks, p->spans[3].blocks);
    const sp_craft_measured *w = &gate_of(&s)->chunks[3];
    bool seen[MAX_TOKENS] = {false};
    for (int32_t t = 0; t < 20; t++) {
        assert_false(seen[v.facts.stats.order[t]]);
        seen[v.facts.stats.order[t]] = true;
        if (t)
            assert_true(w->to_prior[v.facts.stats.order[t - 1]] >=
                        w->to_prior[v.facts.stats.order[t]]);
    }
    double a = (double)w->inter[1] / (20 * 18) + (double)w->inter[2] / (20 * 33);
    assert_near((double)v.facts.stats.cci, 1 / (1 + exp(-a / ((double)w->intra / 400))));
    for (int i = 1; i <= 4; i++) {
        if (i == 3) continue;
        assert_true(sp_craft_keep_chunk(&s.b.in, p, i, &v));
        assert_int_equal(v.facts.kind, SP_COPY_PLACED);
        assert_ptr_equal(v.base, s.b.found[i].copy);
        assert_int_equal(v.facts.n_before, i);
        assert_int_equal(v.facts.at, s.b.found[i].copy->facts.at);
        assert_true(v.facts.stats.cci == s.b.found[i].copy->facts.stats.cci);
        assert_ptr_equal(v.facts.stats.order, s.b.found[i].copy->facts.stats.order);
        for (int32_t k = 0; k < v.patch.n; k++) {
            assert_true(stale(&p->spans[i], v.patch.tokens[k]));
            if (k) assert_true(v.patch.tokens[k] > v.patch.tokens[k - 1]);
        }
    }
    assert_false(sp_craft_keep_chunk(&s.b.in, p, 0, &v));
    sp_copy patched = *s.b.found[4].copy;
    const sp_copy *whole = s.b.found[4].copy;
    patched.base = (sp_copy *)whole;
    s.b.found[4].copy = &patched;
    assert_false(sp_craft_keep_chunk(&s.b.in, p, 4, &v)); /* a patch is not patched */
    s.b.found[4].copy = whole;
    ((sp_craft_gate *)gate_of(&s))->chunks[2].dropped = true;
    assert_false(sp_craft_keep_chunk(&s.b.in, p, 2, &v)); /* not complete */
    bench_end(&s.b);
}

static void other_gates_are_none_of_these(void **state)
{
    sp_plan p = {0};
    assert_null(sp_craft_gate_of(&p));
    sp_copy_spec v;
    sp_found found = {0};
    assert_false(sp_craft_keep_chunk(&(sp_reuse_input){.found = &found}, &p, 0, &v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(focus_is_as_counted_by_hand),
        cmocka_unit_test(few_chunks_are_all_in_focus),
        cmocka_unit_test(equals_are_all_in_focus),
        cmocka_unit_test(focus_of_random_scores_is_the_papers),
        cmocka_unit_test(tokens_are_dropped_when_the_focus_is_stable),
        cmocka_unit_test(nothing_is_dropped_in_the_last_layer),
        cmocka_unit_test(each_piece_counts_its_own_layers),
        cmocka_unit_test(another_focus_starts_from_the_beginning),
        cmocka_unit_test(nothing_is_dropped_without_a_focus),
        cmocka_unit_test(of_several_steps_the_question_is_first),
        cmocka_unit_test(without_a_stable_focus_all_are_recomputed),
        cmocka_unit_test(one_step_needs_no_probe),
        cmocka_unit_test(all_again_means_all),
        cmocka_unit_test(attention_is_summed_over_tokens),
        cmocka_unit_test(a_plan_leaves_copies_and_patches),
        cmocka_unit_test(other_gates_are_none_of_these),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
