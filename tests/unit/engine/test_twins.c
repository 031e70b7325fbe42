/* test_twins.c -- a token that a gate drops keeps, in the layers that remain, the keys and values
 * of its twin: the cached copy below it, or the patch over that. */
#include <stdio.h>

#include "support/check.h"
#include "support/tiny_model.h"

#include "kv/plan.h"

enum { B = SP_BLOCK_TOKENS, N = 40, AT = 7, PLACE = 30, LAYERS = 4, V = 101 };

static const sp_dtype kv_types[] = {SP_F32, SP_F16, SP_BF16, SP_Q16, SP_Q8_0};

/* A chunk of N tokens computed alone at AT, a patch of some of its tokens computed behind a head of
 * PLACE tokens, and a plan that computes others once more: spans head | chunk | patch | again. */
typedef struct scene {
    tiny t;
    int32_t tokens[PLACE + N];
    sp_plan head, copy, patch, again;
    int drop_after; /* this layer ... */
    int keep_every; /* ... all but each so-manieth row; 0: none are dropped */
    int alone;      /* this row has no twin; 0: all have */
    struct {
        int there_to;     /* the copy is loaded while `again` is computed, up to this layer; 0: it is there before */
        int n_there;      /* layers */
        int n_asked_late; /* for a layer that does not come, and after that */
        uint8_t kv[4][3][1 << 15]; /* [layer, block of the copy] */
    } load;
} scene;

static const int32_t patched[] = {1, 4, 5, 17, 18, 31}, redone[] = {0, 4, 9, 16, 17, 30, 31, 39};
enum { N_PATCHED = SP_COUNT(patched), N_REDONE = SP_COUNT(redone) };

static void add(scene *s, sp_plan *p, int span, int32_t token, int32_t pos, int32_t index)
{
    assert_ok(sp_plan_add_todo(p, (sp_todo){.token = s->tokens[token],
                                            .pos = pos,
                                            .span = (uint16_t)span,
                                            .see = 0,
                                            .index = index}));
}

static void compute(scene *s, sp_plan *p, sp_await await)
{
    assert_ok(sp_plan_bind(p));
    assert_ok(sp_plan_check(p));
    assert_ok(sp_engine_step(s->t.engine, &(sp_slice){p, 0, p->n_todo, SP_WANT_NONE, NULL, await}, 1));
}

static void add_sight(sp_plan *p)
{
    int see;
    assert_ok(sp_plan_add_sight(p, NULL, p->n_spans, &see));
}

/* make_run -- n tokens from `first` in one span at `at`. */
static void make_run(scene *s, sp_plan *p, int32_t first, int32_t n, int32_t at)
{
    int span;
    sp_plan_init(p, s->t.pool);
    assert_ok(sp_plan_add_span(p, &(sp_span_spec){.n = n, .at = at}, &span));
    add_sight(p);
    for (int32_t i = 0; i < n; i++) add(s, p, span, first + i, at + i, i);
    compute(s, p, (sp_await){0});
    sp_kv_seal(s->t.pool, p->spans[0].blocks, SP_DIV_UP(n, B));
}

/* add_known -- head and chunk, the chunk at its place. */
static void add_known(scene *s, sp_plan *p)
{
    int span;
    sp_plan_init(p, s->t.pool);
    assert_ok(sp_plan_add_span(
        p, &(sp_span_spec){.n = PLACE, .known = s->head.spans[0].blocks, .n_known = PLACE}, &span));
    assert_ok(sp_plan_add_span(
        p,
        &(sp_span_spec){
            .n = N, .at = AT, .shift = PLACE - AT, .known = s->copy.spans[0].blocks, .n_known = N},
        &span));
}

static int add_scattered(sp_plan *p, const int32_t *tokens, int32_t n, const uint32_t *known)
{
    int32_t pos[N];
    int span;
    for (int32_t i = 0; i < n; i++) {
        pos[i] = AT + tokens[i];
        assert_ok(sp_plan_mark_stale(p, 1, tokens[i]));
    }
    assert_ok(sp_plan_add_span(
        p,
        &(sp_span_spec){
            .n = n, .pos = pos, .shift = PLACE - AT, .known = known, .n_known = known ? n : 0},
        &span));
    return span;
}

static void make_patch(scene *s)
{
    sp_plan *p = &s->patch;
    add_known(s, p);
    int span = add_scattered(p, patched, N_PATCHED, NULL);
    add_sight(p);
    for (int32_t i = 0; i < N_PATCHED; i++)
        add(s, p, span, PLACE + patched[i], PLACE + patched[i], i);
    compute(s, p, (sp_await){0});
    sp_kv_seal(s->t.pool, p->spans[span].blocks, SP_DIV_UP(N_PATCHED, B));
}

static int32_t patch_index(int32_t token)
{
    for (int32_t i = 0; i < N_PATCHED; i++)
        if (patched[i] == token) return i;
    return -1;
}

static void drop(void *user, const sp_gate_view *v)
{
    const scene *s = user;
    for (int i = 0; v->layer == s->drop_after && s->keep_every && i < v->n; i++)
        v->keep[i] = v->id[i] % s->keep_every == 0;
}

/* take_away -- the copy's KV waits in load.kv, and its blocks have another text's. */
static void take_away(scene *s)
{
    const size_t bytes = sp_kv_pool_layer_block_bytes(s->t.pool);
    const uint32_t *blocks = s->copy.spans[0].blocks;
    assert_true(bytes <= sizeof s->load.kv[0][0]);
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < (int)SP_DIV_UP(N, B); i++) {
            const uint8_t *from;
            sp_kv_run here = {.layer = l, .first = blocks[i], .n = 1};
            assert_ok(sp_kv_pool_read(s->t.pool, here, s->load.kv[l][i], &from));
            if (from != s->load.kv[l][i]) memcpy(s->load.kv[l][i], from, bytes);
            uint8_t other[1 << 15] = {0};
            assert_ok(sp_kv_pool_write(s->t.pool, here, other));
        }
}

/* arrive -- the layers up to this one are loaded, if they come. */
static bool arrive(void *user, int layer)
{
    scene *s = user;
    for (int l = s->load.n_there; l <= layer && l <= s->load.there_to; l++, s->load.n_there++)
        for (int i = 0; i < (int)SP_DIV_UP(N, B); i++)
            assert_ok(sp_kv_pool_write(
                s->t.pool, (sp_kv_run){.layer = l, .first = s->copy.spans[0].blocks[i], .n = 1}, s->load.kv[l][i]));
    s->load.n_asked_late += layer > s->load.there_to || s->load.n_asked_late;
    return layer <= s->load.there_to;
}

static void make_again(scene *s)
{
    sp_plan *p = &s->again;
    add_known(s, p);
    int patch = add_scattered(p, patched, N_PATCHED, s->patch.spans[2].blocks);
    for (int i = 0; i < N_REDONE; i++)
        if (patch_index(redone[i]) >= 0)
            assert_ok(sp_plan_mark_stale(p, patch, patch_index(redone[i])));
    int span = add_scattered(p, redone, N_REDONE, NULL);
    add_sight(p);
    p->twins = sp_arena_take(&p->arena, N_REDONE, sizeof *p->twins);
    p->n_twins = N_REDONE;
    for (int32_t i = 0; i < N_REDONE; i++) {
        int32_t at = patch_index(redone[i]);
        p->twins[i] = at >= 0 ? (sp_twin){patch, at} : (sp_twin){1, redone[i]};
        if (s->alone && i == s->alone) p->twins[i] = (sp_twin){.span = -1};
        add(s, p, span, PLACE + redone[i], PLACE + redone[i], i);
    }
    p->gate = (sp_gate){.after_layer = drop, .user = s};
    if (s->load.there_to) take_away(s);
    compute(s, p, s->load.there_to ? (sp_await){arrive, s} : (sp_await){0});
}

static const char *device; /* of the scenes */

/* scene_run -- of a scene whose fields say what is to happen. */
static void scene_run(scene *s, sp_dtype type)
{
    tiny_spec spec = TINY_SPEC_DEFAULT;
    spec.device = device;
    spec.n_layers = LAYERS;
    spec.kv_type = type;
    spec.cpu = NULL;
    assert_ok(tiny_open(&s->t, &spec, 5));
    for (int i = 0; i < PLACE + N; i++) s->tokens[i] = tiny_below(&s->t.rng, V);
    make_run(s, &s->head, 0, PLACE, 0);
    make_run(s, &s->copy, PLACE, N, AT);
    make_patch(s);
    make_again(s);
}

static void scene_open_with(scene *s, sp_dtype type, int drop_after, int keep_every, int alone)
{
    *s = (scene){.drop_after = drop_after, .keep_every = keep_every, .alone = alone};
    scene_run(s, type);
}

static void scene_open(scene *s, sp_dtype type, int drop_after, int keep_every)
{
    scene_open_with(s, type, drop_after, keep_every, 0);
}

static void scene_close(scene *s)
{
    sp_plan_fini(&s->again);
    sp_plan_fini(&s->patch);
    sp_plan_fini(&s->copy);
    sp_plan_fini(&s->head);
    assert_int_equal(sp_kv_pool_n_free(s->t.pool), sp_kv_pool_n_blocks(s->t.pool));
    tiny_close(&s->t);
}

typedef struct kv {
    float k[2][32], v[2][32];
} kv;

static kv read_slot(const scene *s, int layer, sp_kv_slot at)
{
    kv out;
    for (int g = 0; g < 2; g++) tiny_kv_read(s->t.pool, layer, &at, g, out.k[g], out.v[g]);
    return out;
}

static bool same(kv a, kv b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static kv again_kv(const scene *s, int layer, int i)
{
    return read_slot(s, layer, sp_span_slot(&s->again.spans[3], i));
}

static kv twin_kv(const scene *s, int layer, int i)
{
    sp_twin t = s->again.twins[i];
    return read_slot(s, layer, sp_span_slot(&s->again.spans[t.span], t.index));
}

/* Up to the layer they were dropped after, dropped tokens have what was computed; from then on what
 * was cached, bit for bit. */
static void dropped_tokens_fall_back(void)
{
    for (size_t k = 0; k < SP_COUNT(kv_types); k++)
        for (int after = 0; after < LAYERS; after++)
            for (int every = 0; every <= 3; every += 3) {
                scene s, whole;
                scene_open(&s, kv_types[k], after, every ? every : N_REDONE + 1);
                scene_open(&whole, kv_types[k], 0, 0);
                for (int l = 0; l < LAYERS; l++)
                    for (int i = 0; i < N_REDONE; i++) {
                        bool dropped = i % (every ? every : N_REDONE + 1) != 0;
                        if (l > after && dropped)
                            assert_true(same(again_kv(&s, l, i), twin_kv(&s, l, i)));
                        else if (l > 0 && patch_index(redone[i]) < 0) /* it was alone then */
                            assert_false(same(again_kv(&s, l, i), twin_kv(&s, l, i)));
                        if (l <= after) /* before that, nothing was different */
                            assert_true(same(again_kv(&s, l, i), again_kv(&whole, l, i)));
                        assert_true(same(twin_kv(&s, l, i), twin_kv(&whole, l, i)));
                    }
                scene_close(&s);
                scene_close(&whole);
            }
}

static void dropped_tokens_fall_back_on_their_twins(void **state)
{
    device = "cpu";
    dropped_tokens_fall_back();
}

static void dropped_tokens_fall_back_on_a_far_device(void **state)
{
    device = "far";
    dropped_tokens_fall_back();
}

/* A dropped token of a new text has no older copy: nothing is copied into its slot. */
static void a_dropped_token_without_a_twin_is_left_alone(void **state)
{
    scene s;
    device = "cpu";
    for (int alone = 1; alone < N_REDONE; alone++) {
        scene_open_with(&s, SP_F32, 0, N_REDONE, alone);
        assert_int_equal(s.again.n_dropped, N_REDONE - 1);
        for (int l = 1; l < LAYERS; l++)
            for (int i = 1; i < N_REDONE; i++) {
                if (i != alone) assert_true(same(again_kv(&s, l, i), twin_kv(&s, l, i)));
                for (int j = 1; j < N_REDONE && i == alone; j++)
                    if (j != alone) assert_false(same(again_kv(&s, l, i), twin_kv(&s, l, j)));
            }
        scene_close(&s);
    }
}

/* After the last layer nothing is left to save. */
static void what_a_gate_drops_after_the_last_layer_is_not_counted(void **state)
{
    scene s;
    device = "cpu";
    for (int after = 0; after < LAYERS; after++) {
        scene_open(&s, SP_F32, after, N_REDONE);
        assert_int_equal(s.again.n_dropped, after + 1 < LAYERS ? N_REDONE - 1 : 0);
        scene_close(&s);
    }
}

/* Twins of a copy whose layers arrive while the rows are computed: all that remain are waited for. */
static void twins_that_are_being_loaded_are_waited_for(void **state)
{
    device = "cpu";
    for (int after = 0; after + 1 < LAYERS; after++) {
        scene s = {.drop_after = after, .keep_every = N_REDONE, .load.there_to = LAYERS - 1};
        scene_run(&s, SP_F16);
        assert_int_equal(s.load.n_there, LAYERS);
        for (int l = after + 1; l < LAYERS; l++)
            for (int i = 1; i < N_REDONE; i++) assert_true(same(again_kv(&s, l, i), twin_kv(&s, l, i)));
        scene_close(&s);
    }
}

/* The last layer never comes: the slice ends after the gate, and nothing is asked once more. */
static void twins_that_do_not_arrive_end_the_slice(void **state)
{
    device = "cpu";
    scene s = {.drop_after = 0, .keep_every = N_REDONE, .load.there_to = LAYERS - 2};
    scene_run(&s, SP_F16);
    assert_int_equal(s.load.n_there, LAYERS - 1);
    assert_int_equal(s.load.n_asked_late, 1);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropped_tokens_fall_back_on_their_twins),
        cmocka_unit_test(dropped_tokens_fall_back_on_a_far_device),
        cmocka_unit_test(a_dropped_token_without_a_twin_is_left_alone),
        cmocka_unit_test(what_a_gate_drops_after_the_last_layer_is_not_counted),
        cmocka_unit_test(twins_that_are_being_loaded_are_waited_for),
        cmocka_unit_test(twins_that_do_not_arrive_end_the_slice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
