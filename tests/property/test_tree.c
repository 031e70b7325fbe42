/* test_tree.c -- prompts with dependency trees: cold equals reused.
 *
 *   a tree at once = node by node = partly reused = reused in another question, bit for bit
 *   positions by depth, and in pre-order = a dense mask in float64 (tests/golden/trees.json)
 *   nodes where they are stored = moved together, for each token of the answer, bit for bit
 *   nodes that move: at their positions exact; elsewhere found, and nearer to the plain forward pass than
 *   without rotation (DepCache section 4.1)
 *
 * On every kernel variant of this CPU and every KV type. */
#include "support/tiny_rag.h"

#include <jansson.h>

#include "engine/pack.h"

#define GOLDEN "tests/golden/trees.json"
enum { SEED = 20, N_LAYERS = 5, N_VOCAB = 101 }; /* as in make-trees.py */
#define LOGITS 1e-10                             /* NMSE, with keys and values in f32 */

/* place_all -- every node after its parent, the question after all. */
static void place_all(prompt *p)
{
    for (int i = 1; i < p->n_segs; i++) {
        sp_segment *seg = &p->segs[i];
        int parent = seg->parent - 1;
        seg->place = 1 + (parent >= 0 ? sp_segment_at(p->segs, parent) + p->segs[parent].n
                                      : sp_segments_end(p->segs, i));
    }
}

/* random_tree -- a system text, nodes, a question. */
static void random_tree(prompt *p, uint64_t *rng)
{
    do random_prompt(p, rng, N_VOCAB);
    while (p->n_segs < MAX_SEGS);
    p->segs[0].kind = SP_SEG_SYSTEM;
    for (int i = 1; i < p->n_segs; i++) {
        p->segs[i].kind = SP_SEG_NODE;
        p->segs[i].parent = 1 + tiny_below(rng, i);
    }
    p->segs[p->n_segs - 1].kind = SP_SEG_QUESTION;
    p->segs[p->n_segs - 1].parent = SP_PARENT_ALL;
    place_all(p);
}

/* ask -- as a request does: finds, computes, keeps; logits of the last token. Returns how many
 * segments were found whole. */
static int ask(setting *s, const prompt *p, const char *policy, float *logits)
{
    asked a;
    sp_plan plan;
    int n_found = 0;
    asked_begin(&a, s, p, policy, 0);
    for (int i = 0; i < p->n_segs; i++) n_found += a.found[i].n_known == p->segs[i].n;
    assert_int_equal(asked_plan(&a, &plan), SP_PLAN_ANSWER);
    run(&s->t, &plan, logits);
    asked_keep(&a, &plan, SP_PLAN_ANSWER);
    sp_plan_fini(&plan);
    asked_end(&a);
    return n_found;
}

/* branch -- the path to node i as a prompt: what warming up one node computes. */
static void branch(prompt *out, const prompt *p, int i)
{
    uint16_t path[MAX_SEGS];
    int n = sp_segment_sight(p->segs, i, path);
    *out = (prompt){.n_segs = n};
    for (int k = 0; k < n; k++) {
        out->segs[k] = p->segs[path[k]];
        out->segs[k].parent = k; /* 1 + k - 1; 0: none */
        memcpy(out->tokens[k], p->tokens[path[k]], sizeof out->tokens[k]);
    }
    set_ids(out);
}

/* other_question -- some of the trees' branches among strangers, at other places of the prompt. */
static void other_question(prompt *out, const prompt *p, int keep, uint64_t *rng)
{
    branch(out, p, keep);
    while (out->n_segs < MAX_SEGS) {
        int i = out->n_segs++;
        out->segs[i] = (sp_segment){.kind = SP_SEG_NODE, .n = 1 + tiny_below(rng, MAX_LEN)};
        out->segs[i].parent = 1 + tiny_below(rng, i);
        for (int t = 0; t < out->segs[i].n; t++) out->tokens[i][t] = tiny_below(rng, N_VOCAB);
    }
    sp_segment *last = &out->segs[MAX_SEGS - 1];
    if (keep < MAX_SEGS - 1) {
        last->kind = SP_SEG_QUESTION;
        last->parent = SP_PARENT_ALL;
    }
    set_ids(out);
    place_all(out);
}

static void assert_same(const float *got, const float *want, const char *what)
{
    if (memcmp(got, want, N_VOCAB * sizeof *got)) fail_msg("%s: other logits", what);
}

static void forget(setting *s)
{
    sp_ledger_clear(s->ledger);
}

static void check_reuse(setting *s)
{
    uint64_t rng = 77 + (uint64_t)s->p.n;
    float cold[N_VOCAB], warm[N_VOCAB];
    prompt p, q;
    random_tree(&p, &rng);
    assert_int_equal(ask(s, &p, "off", cold), 0);
    assert_int_equal(ask(s, &p, "prefix", warm), 0);
    assert_same(warm, cold, "at once");
    assert_int_equal(ask(s, &p, "prefix", warm), p.n_segs - 1); /* all but the question */
    assert_same(warm, cold, "once more");
    forget(s);
    for (int i = 1; i < p.n_segs - 1; i++) {
        branch(&q, &p, i);
        ask(s, &q, "prefix", NULL);
    }
    assert_int_equal(ask(s, &p, "prefix", warm), p.n_segs - 1);
    assert_same(warm, cold, "node by node");
    for (int i = 1; i < p.n_segs - 1; i++) {
        forget(s);
        other_question(&q, &p, i, &rng);
        ask(s, &q, "prefix", NULL);
        assert_in_range(ask(s, &p, "prefix", warm), sp_segment_n_seen(p.segs, i), p.n_segs - 1);
        assert_same(warm, cold, "partly reused, from another question");
    }
}

static void reused_nodes_equal_computed_ones(void **state)
{
    everywhere(check_reuse);
}

/* The same nodes at other positions are other nodes: nothing inexact is found or kept. */
static void check_positions(setting *s)
{
    uint64_t rng = 99 + (uint64_t)s->p.n;
    float cold[N_VOCAB], warm[N_VOCAB];
    prompt p, q;
    random_tree(&p, &rng);
    ask(s, &p, "prefix", NULL);
    q = p;
    for (int i = 1; i < q.n_segs; i++) q.segs[i].place += 3;
    ask(s, &q, "off", cold);
    assert_int_equal(ask(s, &q, "prefix", warm), 1); /* the system text */
    assert_same(warm, cold, "at other positions");
    forget(s);
    ask(s, &q, "prefix", NULL);
    ask(s, &p, "off", cold);
    ask(s, &p, "prefix", warm);
    assert_same(warm, cold, "after other positions");
}

static void positions_follow_the_path(void **state)
{
    everywhere(check_positions);
}

/* Windows are by position, which a node has from its path: every way of reuse is as exact with them. */
static void windows_are_by_position(void **state)
{
    rag_window = 9;
    everywhere(check_reuse);
    rag_window = 0;
}

/* -- nodes that share blocks ------------------------------------------------------------------ */

/* chain -- a system text, nodes of five tokens, each under the node that `parents` says, a question. */
static void chain(prompt *p, const int *parents, int n, const int *texts)
{
    *p = (prompt){.n_segs = n + 2};
    p->segs[0] = (sp_segment){.kind = SP_SEG_SYSTEM, .n = 7};
    for (int t = 0; t < 7; t++) p->tokens[0][t] = t;
    for (int i = 1; i <= n; i++) {
        p->segs[i] = (sp_segment){.kind = SP_SEG_NODE, .n = 5, .parent = parents[i - 1]};
        for (int t = 0; t < 5; t++) p->tokens[i][t] = 10 * texts[i - 1] + t;
    }
    p->segs[n + 1] = (sp_segment){.kind = SP_SEG_QUESTION, .n = 3, .parent = SP_PARENT_ALL};
    set_ids(p);
    place_all(p);
}

/* blocks_of -- what the ledger counts; the pool has no others in use. */
static int64_t blocks_of(const setting *s)
{
    int64_t n = sp_ledger_stats_of(s->ledger).n_blocks;
    assert_int_equal(sp_kv_pool_n_blocks(s->t.pool) - sp_kv_pool_n_free(s->t.pool), n);
    return n;
}

/* leaf -- the path copy whose first token is `token`. */
static const sp_copy *leaf(const setting *s, int token)
{
    const sp_copy *c = NULL;
    while ((c = sp_ledger_next(s->ledger, c)) && c->tokens[0] != token) continue;
    assert_non_null(c);
    return c;
}

/* A run of three nodes is one block; a branch inside it takes another one, and moves nothing; each
 * block lives as long as a node in it. */
static void check_shared(setting *s)
{
    float cold[N_VOCAB], warm[N_VOCAB];
    prompt p, q;
    chain(&p, (int[]){1, 2, 3}, 3, (int[]){1, 2, 3});
    chain(&q, (int[]){1, 2, 2, 1}, 4, (int[]){1, 2, 4, 6}); /* 2 and 4 under 1; 6 is another tree */
    ask(s, &q, "off", cold);
    ask(s, &p, "prefix", NULL);
    const int64_t n = blocks_of(s);
    assert_int_equal(n, 2); /* the system text, the nodes; questions over trees are not kept */
    assert_int_equal(leaf(s, 20)->first, 5);
    const uint32_t block = leaf(s, 30)->blocks[0];
    assert_int_equal(sp_kv_refs(s->t.pool, block), 3);
    assert_int_equal(ask(s, &q, "prefix", warm), 3); /* the system text, 1 and 2 */
    assert_same(warm, cold, "a branch inside a run");
    assert_int_equal(blocks_of(s), n + 2); /* 4; 6 */
    assert_int_equal(leaf(s, 20)->blocks[0], block);
    sp_ledger_drop(s->ledger, leaf(s, 30));
    assert_int_equal(sp_kv_refs(s->t.pool, block), 2);
    assert_int_equal(blocks_of(s), n + 2);
    assert_int_equal(ask(s, &q, "prefix", warm), 5);
    assert_same(warm, cold, "after a node has left a block");
    forget(s);
    assert_int_equal(blocks_of(s), 0);
}

static void nodes_that_share_blocks_are_exact(void **state)
{
    everywhere(check_shared);
}

/* -- nodes that move -------------------------------------------------------------------------- */

/* move_all -- consecutive positions; keys as if each tree came right after the system text. */
static void move_all(prompt *p)
{
    int32_t root = 0, at = p->segs[0].n;
    for (int i = 1; i < p->n_segs; at += p->segs[i++].n) {
        sp_segment *seg = &p->segs[i];
        seg->place = 1 + at;
        if (seg->kind != SP_SEG_NODE) continue;
        if (seg->parent == 1) root = at;
        seg->origin = 1 + p->segs[0].n + at - root;
    }
}

/* two_trees -- A, its child, B, its child; or B first. */
static void two_trees(prompt *out, const prompt *p, bool swapped)
{
    static const int order[2][4] = {{1, 2, 3, 4}, {3, 4, 1, 2}};
    *out = *p;
    for (int k = 0; k < 4; k++) {
        int from = order[swapped][k], i = k + 1;
        out->segs[i] = p->segs[from];
        out->segs[i].parent = i % 2 ? 1 : i;
        memcpy(out->tokens[i], p->tokens[from], sizeof out->tokens[i]);
    }
    set_ids(out);
    move_all(out);
}

/* ask_moved -- all nodes are known, at other positions; without `rotate` their keys are read as if they
 * were rotated for this prompt. */
static void ask_moved(setting *s, const prompt *p, bool rotate, float *logits)
{
    asked a;
    sp_plan plan;
    int n_moved = 0;
    asked_begin(&a, s, p, "prefix", 0);
    assert_int_equal(asked_plan(&a, &plan), SP_PLAN_ANSWER);
    for (int i = 1; i < p->n_segs - 1; i++) {
        sp_span *span = &plan.spans[i];
        assert_int_equal(a.found[i].n_known, p->segs[i].n);
        assert_int_equal(span->at + span->shift, sp_segment_at(p->segs, i));
        n_moved += span->shift != 0;
        if (rotate) continue;
        span->at += span->shift;
        span->shift = 0;
    }
    assert_int_equal(n_moved, 2); /* the second tree */
    run(&s->t, &plan, logits);
    sp_plan_fini(&plan);
    asked_end(&a);
}

static double deviation(const float *got, const float *want)
{
    double d = 0, all = 0;
    for (int i = 0; i < N_VOCAB; i++) {
        d += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        all += (double)want[i] * want[i];
    }
    return d / all;
}

/* How far logits are from those of the plain forward pass; summed over prompts. */
static struct {
    double rotated, unrotated;
} away;

static void check_moved(setting *s)
{
    uint64_t rng = 31 + (uint64_t)s->p.n;
    float cold[N_VOCAB], warm[N_VOCAB];
    prompt p, a, b;
    random_tree(&p, &rng);
    two_trees(&a, &p, false);
    two_trees(&b, &p, true);
    ask(s, &a, "off", cold);
    ask(s, &a, "prefix", warm);
    assert_same(warm, cold, "shifted, at once");
    assert_int_equal(ask(s, &a, "prefix", warm), a.n_segs - 1);
    assert_same(warm, cold, "shifted, at the same positions");
    forget(s);
    ask(s, &b, "prefix", NULL);
    ask_moved(s, &a, true, warm);
    away.rotated += deviation(warm, cold);
    ask_moved(s, &a, false, warm);
    away.unrotated += deviation(warm, cold);
}

static void moved_trees_are_as_computed_there(void **state)
{
    away.rotated = away.unrotated = 0;
    everywhere(check_moved);
    print_message("NMSE of logits, summed: rotated %.3g, not rotated %.3g\n", away.rotated,
                  away.unrotated);
    assert_true(away.rotated > 0);
    assert_true(away.rotated < away.unrotated);
}

/* -- nodes that are packed for the answer ----------------------------------------------------- */

enum { N_ANSWER = 3 };

/* answer -- the logits of N_ANSWER tokens after the prompt; `packs`: once its nodes have moved together. */
static void answer(setting *s, const prompt *p, bool packs, float *logits)
{
    asked a;
    sp_plan plan;
    asked_begin(&a, s, p, "prefix", 0);
    assert_int_equal(asked_plan(&a, &plan), SP_PLAN_ANSWER);
    run(&s->t, &plan, logits);
    if (packs) {
        const sp_packing what = sp_plan_packing(&plan);
        assert_true(what.n_tokens > 0);
        assert_ok(sp_engine_pack(s->t.engine, &plan, &what));
        assert_int_equal(sp_plan_packing(&plan).n_tokens, 0);
    }
    for (int k = 0; k < N_ANSWER; k++, logits += N_VOCAB) {
        const sp_slice slice = {&plan, plan.n_todo, 1, SP_WANT_LAST, logits};
        assert_ok(sp_plan_grow(&plan, plan.n_spans - 1, 7 * k + 1,
                               sp_segments_end(p->segs, p->n_segs) + k,
                               (uint16_t)(plan.n_sights - 1)));
        assert_ok(sp_engine_step(s->t.engine, &slice, 1));
    }
    sp_plan_fini(&plan);
    asked_end(&a);
}

/* check_answers -- all nodes are known. */
static void check_answers(setting *s, const prompt *p)
{
    float apart[N_ANSWER * N_VOCAB], packed[N_ANSWER * N_VOCAB];
    answer(s, p, false, apart);
    answer(s, p, true, packed);
    for (int k = 0; k < N_ANSWER; k++)
        assert_same(packed + k * N_VOCAB, apart + k * N_VOCAB, "an answer over packed nodes");
}

/* node_by_node -- each path as a prompt: every node in blocks of its own. */
static void node_by_node(setting *s, const prompt *p)
{
    prompt path;
    forget(s);
    for (int i = 1; i < p->n_segs - 1; i++) {
        branch(&path, p, i);
        ask(s, &path, "prefix", NULL);
    }
}

static void check_packed(setting *s)
{
    uint64_t rng = 55 + (uint64_t)s->p.n;
    prompt p, a, b;
    random_tree(&p, &rng);
    for (int i = 1; i < p.n_segs - 1; i++) p.segs[i].n = 1 + (p.segs[i].n - 1) % 12;
    set_ids(&p);
    place_all(&p);
    node_by_node(s, &p);
    check_answers(s, &p);
    two_trees(&a, &p, false);
    two_trees(&b, &p, true);
    node_by_node(s, &b);
    check_answers(s, &a); /* spans of two shifts */
}

static void packed_nodes_are_exact(void **state)
{
    everywhere(check_packed);
}

/* -- golden ---------------------------------------------------------------------------------- */

static void read_tree(const json_t *o, prompt *p, float *logits)
{
    const json_t *segs = json_object_get(o, "segs"), *want = json_object_get(o, "logits");
    *p = (prompt){.n_segs = (int)json_array_size(segs)};
    assert_in_range(p->n_segs, 3, MAX_SEGS);
    assert_int_equal(json_array_size(want), N_VOCAB);
    for (int i = 0; i < p->n_segs; i++) {
        const json_t *tokens = json_array_get(segs, (size_t)i);
        sp_segment *seg = &p->segs[i];
        int parent =
            (int)json_integer_value(json_array_get(json_object_get(o, "parents"), (size_t)i));
        *seg = (sp_segment){.kind = i ? SP_SEG_NODE : SP_SEG_SYSTEM,
                            .n = (int32_t)json_array_size(tokens)};
        assert_in_range(seg->n, 1, MAX_LEN);
        if (i) seg->parent = parent < 0 ? SP_PARENT_ALL : 1 + parent;
        seg->place = 1 + (int32_t)json_integer_value(
                             json_array_get(json_object_get(o, "places"), (size_t)i));
        for (int t = 0; t < seg->n; t++)
            p->tokens[i][t] = (int32_t)json_integer_value(json_array_get(tokens, (size_t)t));
    }
    for (size_t i = 0; i < N_VOCAB; i++)
        logits[i] = (float)json_number_value(json_array_get(want, i));
    set_ids(p);
}

/* Every second case has consecutive positions: its nodes move. */
static void check_golden(const tiny_spec *spec, const json_t *cases)
{
    for (size_t k = 0; k < json_array_size(cases); k++) {
        setting s = {0};
        float want[N_VOCAB], got[N_VOCAB];
        sp_err err = tiny_open(&s.t, spec, SEED);
        if (err == SP_E_UNSUPPORTED) return;
        assert_ok(err);
        s.ledger = tiny_ledger(&s.t);
        sp_arena_init(&s.arena);
        read_tree(json_array_get(cases, k), &s.p, want);
        s.p.segs[s.p.n_segs - 1].kind = SP_SEG_QUESTION;
        if (k % 2) move_all(&s.p);
        for (int round = 0; round < 2; round++) { /* computed, then reused */
            int n_found = ask(&s, &s.p, "prefix", got);
            assert_int_equal(n_found, round ? s.p.n_segs - 1 : 0);
            close_to(got, want, N_VOCAB, LOGITS, "a tree");
        }
        sp_ledger_destroy(s.ledger);
        sp_arena_fini(&s.arena);
        tiny_close(&s.t);
    }
}

static void trees_equal_a_dense_mask(void **state)
{
    json_t *cases = json_load_file(GOLDEN, 0, NULL);
    assert_true(json_array_size(cases) > 0);
    for (size_t v = 0; v < SP_COUNT(variants); v++) {
        tiny_spec spec = TINY_SPEC_DEFAULT;
        spec.cpu = variants[v].name;
        spec.device = variants[v].device;
        spec.kv_type = SP_F32;
        spec.n_layers = N_LAYERS;
        check_golden(&spec, cases);
    }
    json_decref(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reused_nodes_equal_computed_ones),
        cmocka_unit_test(windows_are_by_position),
        cmocka_unit_test(positions_follow_the_path),
        cmocka_unit_test(nodes_that_share_blocks_are_exact),
        cmocka_unit_test(moved_trees_are_as_computed_there),
        cmocka_unit_test(packed_nodes_are_exact),
        cmocka_unit_test(trees_equal_a_dense_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
