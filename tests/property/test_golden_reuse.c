/* test_golden_reuse.c -- blend, fusion, flow and craft through the engine against another
 * implementation, in float64 from the papers' equations: tests/golden/reuse.json, which
 * make-reuse.py has made.
 *
 *   scores      of every token, and the tokens that are recomputed
 *   craft       attention between and within chunks, CCI, beta', CFO, the order of tokens
 *   logits      that begin the answer
 *
 * On the kernels of each variant with keys and values in f32, so that only the order of sums
 * differs.
 */
#include "support/tiny_rag.h"

#include <jansson.h>

#include "reuse/craft/gate.h"
#include "reuse/craft/overlap.h"

#define GOLDEN "tests/golden/reuse.json"
enum { SEED = 20, N_LAYERS = 5, MOST = MAX_SEGS * MAX_LEN }; /* as in make-reuse.py */
#define NEAR   1e-5  /* of the largest; choices in the file are ten times clearer */
#define LOGITS 1e-10 /* NMSE */

/* -- what the file says ---------------------------------------------------------------------- */

static json_t *field(const json_t *o, const char *name)
{
    json_t *v = json_object_get(o, name);
    if (!v) fail_msg(GOLDEN ": no field %s", name);
    return v;
}

static float number(const json_t *o, const char *name)
{
    return (float)json_number_value(json_object_get(o, name));
}

/* numbers -- returns how many. null is infinite. */
static size_t numbers(const json_t *list, float *out, size_t most)
{
    size_t n = json_array_size(list);
    assert_in_range(n, 0, most);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        out[i] = json_is_null(v) ? INFINITY : (float)json_number_value(v);
    }
    return n;
}

/* read_prompt -- head, chunks, question. */
static void read_prompt(const json_t *o, prompt *p)
{
    const json_t *segs = field(o, "segs");
    p->n_segs = (int)json_array_size(segs);
    assert_in_range(p->n_segs, 3, MAX_SEGS);
    for (int i = 0; i < p->n_segs; i++) {
        const json_t *tokens = json_array_get(segs, (size_t)i);
        sp_segment_kind kind = i == 0              ? SP_SEG_SYSTEM
                               : i < p->n_segs - 1 ? SP_SEG_CHUNK
                                                   : SP_SEG_QUESTION;
        p->segs[i] = (sp_segment){.kind = kind, .n = (int32_t)json_array_size(tokens)};
        assert_in_range(p->segs[i].n, 1, MAX_LEN);
        for (int t = 0; t < p->segs[i].n; t++)
            p->tokens[i][t] = (int32_t)json_integer_value(json_array_get(tokens, (size_t)t));
    }
    set_ids(p);
}

/* -- comparing ------------------------------------------------------------------------------- */

static void assert_near(float got, float want, float scale, const char *what)
{
    if (got != want && !(fabsf(got - want) <= (float)NEAR * scale))
        fail_msg("%s: %g, golden %g", what, (double)got, (double)want);
}

static void assert_logits(const setting *s, const float *got, const json_t *o)
{
    float want[101];
    assert_int_equal(numbers(field(o, "logits"), want, SP_COUNT(want)), SP_COUNT(want));
    assert_int_equal(s->t.model.hp.n_vocab, SP_COUNT(want));
    close_to(got, want, SP_COUNT(want), LOGITS, "logits");
}

static float largest(const float *v, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(v[i])) most = fmaxf(most, fabsf(v[i]));
    return most;
}

/* chosen_of -- tokens of the prompt that a plan's spans hold as stale. */
static void chosen_of(const prompt *p, const sp_plan *plan, bool *out)
{
    memset(out, 0, MOST * sizeof *out);
    for (int i = 0, at = 0; i < p->n_segs; at += p->segs[i++].n)
        for (int32_t t = 0; plan->spans[i].stale && t < p->segs[i].n; t++)
            out[at + t] = plan->spans[i].stale[t / 64] >> (t % 64) & 1;
}

/* assert_chosen -- none of golden's choices is close. */
static void assert_chosen(const prompt *p, const sp_plan *plan, const json_t *golden)
{
    size_t i;
    const json_t *place;
    bool got[MOST], want[MOST] = {false};
    json_array_foreach(field(golden, "chosen"), i, place)
    {
        assert_in_range(json_integer_value(place), 0, MOST - 1);
        want[json_integer_value(place)] = true;
    }
    chosen_of(p, plan, got);
    for (int k = 0; k < p->n; k++)
        if (got[k] != want[k]) fail_msg("token %d is %schosen", k, got[k] ? "" : "not ");
}

/* -- policies that probe --------------------------------------------------------------------- */

static void fill(setting *s, const prompt *p)
{
    asked a;
    sp_plan plan;
    asked_begin(&a, s, p, "full", 0);
    assert_int_equal(asked_plan(&a, &plan), SP_PLAN_FILL);
    run(&s->t, &plan, NULL);
    asked_keep(&a, &plan, SP_PLAN_FILL);
    sp_plan_fini(&plan);
    asked_end(&a);
}

/* scores_of -- what a probe has measured of each token of the prompt; 0 beside the chunks. */
static void scores_of(const prompt *p, const sp_plan *probe, float *out)
{
    int32_t start[MAX_SEGS], at = 0;
    memset(out, 0, MOST * sizeof *out);
    for (int i = 0; i < p->n_segs; at += p->segs[i++].n) start[i] = at;
    if (probe->probe.kind == SP_PROBE_DEVIATION) {
        for (int t = 0; t < probe->n_todo; t++)
            out[start[probe->twins[t].span] + probe->twins[t].index] = probe->probe.deviation[t];
        return;
    }
    for (int i = 1; i < p->n_segs - 1; i++)
        memcpy(out + start[i], probe->probe.columns[i], (size_t)p->segs[i].n * sizeof *out);
}

static void check_probing(setting *s, const prompt *p, const char *name, const json_t *golden)
{
    asked a;
    sp_plan plan, last = {0};
    float want[MOST], got[MOST], logits[101];
    asked_begin(&a, s, p, name, number(golden, "share"));
    while (asked_plan(&a, &plan) == SP_PLAN_PROBE) {
        run(&s->t, &plan, NULL);
        sp_plan_fini(&last);
        last = plan;
        a.in.last = &last;
        a.in.n_done[SP_PLAN_PROBE]++;
    }
    assert_in_range(a.in.n_done[SP_PLAN_PROBE], 1, 2);
    scores_of(p, &last, got);
    assert_int_equal(numbers(field(golden, "score"), want, MOST), p->n);
    for (int i = 0, k = 0; i < p->n_segs; k += p->segs[i++].n)
        for (int32_t t = 0; i > 0 && i < p->n_segs - 1 && t < p->segs[i].n; t++)
            assert_near(got[k + t], want[k + t], largest(want, (size_t)p->n), name);
    assert_chosen(p, &plan, golden);
    run(&s->t, &plan, logits);
    assert_logits(s, logits, golden);
    sp_plan_fini(&last);
    sp_plan_fini(&plan);
    asked_end(&a);
}

static void check_probes(setting *s, const json_t *golden)
{
    read_prompt(golden, &s->p);
    fill(s, &s->p);
    check_probing(s, &s->p, "blend", field(golden, "blend"));
    check_probing(s, &s->p, "fusion", field(golden, "fusion"));
    check_probing(s, &s->p, "flow", field(golden, "flow"));
}

/* -- craft ----------------------------------------------------------------------------------- */

/* assert_measured -- attention of what was computed of each chunk. */
static void assert_measured(const prompt *p, const sp_plan *plan, const json_t *golden)
{
    const sp_craft_gate *w = sp_craft_gate_of(plan);
    for (int i = 1; i < p->n_segs - 1; i++) {
        const json_t *want = json_array_get(field(golden, "measured"), (size_t)i);
        const sp_craft_measured *c = &w->chunks[i];
        float inter[MAX_SEGS], prior[MAX_LEN];
        assert_int_equal(c->on, !json_is_null(want));
        if (!c->on) continue;
        assert_int_equal(numbers(field(want, "inter"), inter, MAX_SEGS), i);
        assert_int_equal(numbers(field(want, "prior"), prior, MAX_LEN), p->segs[i].n);
        float n = (float)p->segs[i].n;
        for (int k = 0; k < i; k++) assert_near(c->inter[k], inter[k], n, "attention between");
        for (int32_t t = 0; t < p->segs[i].n; t++)
            assert_near(c->to_prior[t], prior[t], 1, "attention of a token");
        assert_near(c->intra, number(want, "intra"), n, "attention within");
    }
}

/* assert_copies -- statistics of the copies that the cold plan leaves behind. */
static void assert_copies(const asked *a, sp_plan *plan, const json_t *golden)
{
    for (int i = 1; i < a->p->n_segs - 1; i++) {
        float prior[MAX_LEN];
        sp_copy_spec copy;
        const json_t *measured = json_array_get(field(golden, "measured"), (size_t)i);
        numbers(field(measured, "prior"), prior, MAX_LEN);
        assert_true(sp_craft_keep_chunk(&a->in, plan, i, &copy));
        assert_near(copy.facts.stats.cci,
                    (float)json_number_value(json_array_get(field(golden, "cci"), (size_t)i)), 1,
                    "CCI");
        for (int32_t t = 1; t < a->p->segs[i].n; t++)
            assert_true(prior[copy.facts.stats.order[t]] <=
                        prior[copy.facts.stats.order[t - 1]] + (float)NEAR);
    }
}

/* check_cold -- nothing is known, and what the prompt leaves behind. */
static void check_cold(setting *s, const json_t *golden)
{
    asked a;
    sp_plan plan;
    float logits[101];
    asked_begin(&a, s, &s->p, "craft:focus=0", 0.25f);
    assert_int_equal(asked_plan(&a, &plan), SP_PLAN_ANSWER);
    run(&s->t, &plan, logits);
    assert_logits(s, logits, golden);
    assert_measured(&s->p, &plan, golden);
    assert_copies(&a, &plan, golden);
    asked_keep(&a, &plan, SP_PLAN_ANSWER);
    sp_plan_fini(&plan);
    asked_end(&a);
}

/* assert_overlap -- beta' and CFO of the copies in use. */
static void assert_overlap(const asked *a, const json_t *golden)
{
    for (int i = 1; i < a->p->n_segs - 1; i++) {
        const json_t *want = json_array_get(field(golden, "beta"), (size_t)i);
        const sp_copy *c = a->found[i].copy;
        assert_int_equal(c == NULL, json_is_null(want));
        if (!c) continue;
        assert_near(sp_overlap_beta(c, 1, a->ids + 1, i - 1), (float)json_number_value(want), 1,
                    "beta'");
        assert_near(a->found[i].cfo,
                    (float)json_number_value(json_array_get(field(golden, "weight"), (size_t)i)), 1,
                    "CFO");
    }
}

/* check_again -- other chunks before the known ones. What it leaves behind is not kept. */
static void check_again(setting *s, const json_t *golden)
{
    asked a;
    sp_plan plan;
    prompt now;
    float logits[101];
    read_prompt(golden, &now);
    asked_begin(&a, s, &now, "craft:focus=0", number(golden, "share"));
    a.in.params[SP_CRAFT_ALPHA] = number(golden, "alpha");
    assert_overlap(&a, golden);
    assert_int_equal(asked_plan(&a, &plan), SP_PLAN_ANSWER);
    assert_chosen(&now, &plan, golden);
    run(&s->t, &plan, logits);
    assert_logits(s, logits, golden);
    assert_measured(&now, &plan, golden);
    sp_plan_fini(&plan);
    asked_end(&a);
}

static void check_craft(setting *s, const json_t *golden)
{
    size_t k;
    const json_t *cold = field(golden, "craft"), *again;
    read_prompt(golden, &s->p);
    check_cold(s, cold);
    json_array_foreach(field(cold, "again"), k, again) check_again(s, again);
}

/* -- everywhere ------------------------------------------------------------------------------ */

static void of_all(void (*check)(setting *s, const json_t *golden))
{
    json_t *cases = json_load_file(GOLDEN, 0, NULL);
    assert_true(json_array_size(cases) > 0);
    for (size_t v = 0; v < SP_COUNT(variants); v++)
        for (size_t k = 0; k < json_array_size(cases); k++) {
            setting s = {0};
            tiny_spec spec = TINY_SPEC_DEFAULT;
            spec.cpu = variants[v].name;
            spec.device = variants[v].device;
            spec.kv_type = SP_F32;
            spec.n_layers = N_LAYERS;
            sp_err err = tiny_open(&s.t, &spec, SEED);
            if (err == SP_E_UNSUPPORTED) break;
            assert_ok(err);
            s.ledger = tiny_ledger(&s.t);
            sp_arena_init(&s.arena);
            check(&s, json_array_get(cases, k));
            sp_ledger_destroy(s.ledger);
            sp_arena_fini(&s.arena);
            assert_int_equal(sp_kv_pool_n_free(s.t.pool), sp_kv_pool_n_blocks(s.t.pool));
            tiny_close(&s.t);
        }
    json_decref(cases);
}

static void probing_policies_equal_the_reference(void **state)
{
    of_all(check_probes);
}
static void craft_equals_the_reference(void **state)
{
    of_all(check_craft);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probing_policies_equal_the_reference),
        cmocka_unit_test(craft_equals_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
