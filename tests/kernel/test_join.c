/* test_join.c -- joined spans give the bits of one span that has their keys: every variant, type of
 * cache and shape; and equal ref.
 *
 *   one      | before | run                        | after |
 *   joined   | before | 3 | 1 | 17 | ...           | after |   parts in slots of other blocks
 *
 * Joined spans of two shifts are two runs: close to each span by itself.
 * Slots that no span has are NaN. */
#include "compute/kernel/attend.h"
#include "kernel/kernels.h"

enum {
    B = SP_BLOCK_TOKENS,
    N_BEFORE = 37,
    N_AFTER = 9,
    M = 23,
    MOST = 90,
    N_POS = 2048,
    SLOW = 100
};

typedef struct shape {
    int H, G, D;
    bool adjacent;
} shape;

static const shape shapes[] = {
    {14, 2, 64, false}, {4, 4, 80, true}, {8, 1, 32, true}, {3, 3, 6, false}, {2, 1, 256, true}};

/* A prompt in two forms. */
typedef struct world {
    shape s;
    sp_kv_view kv;
    sp_rope rope;
    float *angles, *q;
    int32_t n;     /* tokens of the run */
    int n_parts;   /* joined spans */
    bool in_place; /* parts follow each other in consecutive slots */
    uint32_t *blocks, next_block;
    sp_span one[3], joined[2 + MOST];
    int32_t pos[M];
    uint16_t see[M];
} world;

static void put(world *w, const sp_span *s, int32_t i, const float *k, const float *v)
{
    const int32_t j = s->first + i, rot = s->at + i;
    const uint8_t slot = (uint8_t)(j % B);
    reference()->kv_store(
        &(sp_kv_store_args){&w->kv, &w->rope, k, v, 1, &s->blocks[j / B], &slot, &rot}, 0, 1);
}

/* take -- a span of n tokens from position `at` on, in blocks of its own. */
static sp_span take(world *w, int32_t n, int32_t first, int32_t at, int32_t shift)
{
    sp_span s = {.blocks = w->blocks + w->next_block, .n = n, .first = first};
    s.at = at - shift;
    s.shift = shift;
    w->next_block += (uint32_t)SP_DIV_UP(first + n, B);
    return s;
}

static int32_t window, apart; /* of the calls to come; apart: between the shifts of the run's two halves */

/* lay_parts -- spans of the run; some share a block with the one before. */
static void lay_parts(world *w, uint64_t *seed, int32_t shift)
{
    int32_t at = 0;
    for (w->n_parts = 0; at < w->n; w->n_parts++) {
        sp_span *s = &w->joined[1 + w->n_parts], *last = s - 1;
        int32_t n = 1 + below(seed, below(seed, 4) ? 9 : 40);
        if (n > w->n - at || w->n_parts == MOST - 1) n = w->n - at;
        const int32_t own = at > w->n / 2 ? shift - apart : shift;
        const int32_t end = w->n_parts ? last->first + last->n : 0;
        if (w->n_parts && (w->in_place || below(seed, 2))) { /* after it */
            *s = take(w, 0, 0, N_BEFORE + at, own);
            s->n = n;
            s->first = end % B;
            s->blocks = last->blocks + end / B;
            w->next_block =
                (uint32_t)(s->blocks - w->blocks) + (uint32_t)SP_DIV_UP(s->first + n, B);
        } else {
            *s = take(w, n, w->in_place ? 0 : below(seed, B), N_BEFORE + at, own);
        }
        s->joined = true;
        at += n;
    }
}

static void fill_keys(world *w, uint64_t *seed)
{
    const int width = w->s.G * w->s.D;
    float *k = random_floats(seed, width, 1), *v = random_floats(seed, width, 1);
    int part = 0;
    int32_t from = 0; /* the part's first token */
    for (int s = 0; s < 3; s++) {
        for (int32_t t = 0; t < w->one[s].n; t++) {
            fill(seed, k, width, 2);
            fill(seed, v, width, 1);
            put(w, &w->one[s], t, k, v);
            if (s != 1) continue;
            if (t - from == w->joined[1 + part].n) from += w->joined[1 + part++].n;
            put(w, &w->joined[1 + part], t - from, k, v);
        }
    }
    sp_free(k);
    sp_free(v);
}

static void world_open(world *w, uint64_t *seed, sp_dtype type, const shape *s)
{
    const uint32_t n_blocks = 3 * MOST + 64;
    const size_t block_bytes = 2 * (size_t)s->G * sp_kv_head_bytes(type, s->D);
    const int32_t shift = below(seed, 2) ? -below(seed, 300) : 0;
    *w = (world){
        .s = *s, .n = 1 + below(seed, below(seed, 2) ? 40 : 700), .in_place = below(seed, 2)};
    uint8_t *base = sp_alloc(n_blocks, block_bytes);
    w->blocks = sp_alloc(n_blocks, sizeof *w->blocks);
    assert_true(base && w->blocks);
    memset(base, 0xff, n_blocks * block_bytes);
    w->kv = (sp_kv_view){type, s->G, s->D, base, block_bytes};
    for (uint32_t i = 0; i < n_blocks; i++) w->blocks[i] = (i * 7) % n_blocks;
    w->rope = make_rope(s->D, s->adjacent, N_POS, 1, &w->angles);
    w->one[0] = w->joined[0] = take(w, N_BEFORE, 0, 0, 0);
    w->one[2] = take(w, N_AFTER, 0, N_BEFORE + w->n, 0);
    w->one[1] = take(w, w->n, 0, N_BEFORE, shift);
    lay_parts(w, seed, shift);
    assert_in_range(w->next_block, 0, n_blocks);
    w->joined[1 + w->n_parts] = w->one[2];
    fill_keys(w, seed);
    w->q = random_floats(seed, M * s->H * s->D, 2);
    for (int i = 0; i < M; i++) w->pos[i] = N_BEFORE + w->n + N_AFTER - M + i;
    if (below(seed, 2)) /* in the run as well */
        for (int i = 0; i < M; i++) w->pos[i] = i * (N_BEFORE + w->n + N_AFTER) / M;
}

static void world_close(world *w)
{
    sp_free(w->kv.base);
    sp_free(w->blocks);
    sp_free(w->angles);
    sp_free(w->q);
}

static void attend(const sp_ops *ops, const world *w, bool joined, int n_parts, float *out,
                   float *mass)
{
    const int n_spans = joined ? w->n_parts + 2 : 3;
    const size_t bytes = sp_attend_scratch_bytes(w->s.H, w->s.G, w->s.D, n_spans);
    uint8_t *scratch = sp_alloc_zero((size_t)n_parts, bytes);
    assert_non_null(scratch);
    const sp_sight sight = {.n = n_spans};
    const sp_attend_req req = {.q = w->q,
                               .out = out,
                               .pos = w->pos,
                               .see = w->see,
                               .m = M,
                               .spans = joined ? w->joined : w->one,
                               .n_spans = n_spans,
                               .sights = &sight,
                               .mass = mass};
    const sp_attend_args a = {&w->kv, &w->rope, w->s.H,  1 / sqrtf((float)w->s.D),
                              &req,   1,        scratch, bytes, 0, window};
    for (int part = 0; part < n_parts; part++) ops->attend(&a, part, n_parts);
    sp_free(scratch);
}

static void check(const sp_ops *ops, const world *w, bool is_ref)
{
    const int64_t n = M * w->s.H * w->s.D, n_mass = (int64_t)M * w->s.H * (w->n_parts + 2);
    float *want = sp_alloc((size_t)n, 4), *got = sp_alloc((size_t)n, 4);
    float *mass = sp_alloc((size_t)n_mass, 4);
    assert_true(want && got && mass);
    attend(ops, w, apart != 0, 1, want, NULL);
    attend(ops, w, true, 1, got, NULL);
    assert_same_bits(got, want, n);
    attend(ops, w, true, 3, got, NULL);
    if (!is_ref) assert_same_bits(got, want, n);
    attend(ops, w, true, 1, got, mass); /* each span by itself */
    assert_close(got, want, n);
    for (int64_t qh = 0; qh < M * w->s.H; qh++) {
        double sum = 0;
        for (int i = 0; i < w->n_parts + 2; i++) {
            const float own = mass[qh * (w->n_parts + 2) + i];
            if (!window) assert_int_equal(own > 0, sp_span_visible(&w->joined[i], w->pos[qh / w->s.H]) > 0);
            sum += (double)own;
        }
        assert_true(fabs(sum - 1) < 1e-5);
    }
    if (w->n < SLOW) {
        attend(reference(), w, true, 1, want, NULL);
        assert_close(got, want, n);
    }
    sp_free(want);
    sp_free(got);
    sp_free(mass);
}

static void joined_spans_are_one(void **state)
{
    static const sp_dtype types[] = {SP_F32, SP_F16, SP_BF16, SP_Q16, SP_Q8_0};
    const sp_ops *ops = variant(state);
    uint64_t seed = 17;
    for (size_t i = 0; i < SP_COUNT(shapes); i++) {
        for (size_t k = 0; k < SP_COUNT(types); k++) {
            if (shapes[i].D % sp_dtype_of(types[k])->n_group != 0) continue;
            for (int round = ops == reference() ? 2 : 0; round < 3; round++) {
                world w;
                world_open(&w, &seed, types[k], &shapes[i]);
                check(ops, &w, ops == reference());
                window = 1 + below(&seed, 40 + w.n);
                check(ops, &w, ops == reference());
                window = 0;
                world_close(&w);
            }
        }
    }
}

static void shifts_part_a_run(void **state)
{
    apart = 60;
    joined_spans_are_one(state);
    apart = 0;
}

/* attend_lists -- to the spans that each KV head has in lists, in three parts. */
static void attend_lists(const sp_ops *ops, const world *w, const sp_span *const *lists, float *out)
{
    enum { PARTS = 3 };
    const size_t bytes = sp_attend_scratch_bytes(w->s.H, w->s.G, w->s.D, 3);
    uint8_t *scratch = sp_alloc_zero(PARTS, bytes);
    assert_non_null(scratch);
    const sp_sight sight = {.n = 3};
    const sp_attend_req req = {.q = w->q, .out = out, .pos = w->pos, .see = w->see, .m = M, .spans = lists[0],
                               .n_spans = 3, .sights = &sight, .spans_of_head = lists};
    const sp_attend_args a = {&w->kv, &w->rope, w->s.H,  1 / sqrtf((float)w->s.D),
                              &req,   1,        scratch, bytes, 0, 0};
    for (int part = 0; part < PARTS; part++) ops->attend(&a, part, PARTS);
    sp_free(scratch);
}

/* Each KV head attends to its own list, as if all had it: the first has the shortest. */
static void heads_have_lists_of_their_own(void **state)
{
    const sp_ops *ops = variant(state);
    uint64_t seed = 23;
    for (int round = 0; round < 8; round++) {
        world w;
        world_open(&w, &seed, SP_F16, &shapes[round % 2]); /* of several KV heads */
        const int64_t n = M * w.s.H * w.s.D, group = w.s.H / w.s.G;
        sp_span spans[4][3];
        const sp_span *lists[4], *same[4];
        float *got = sp_alloc((size_t)n, sizeof *got), *want = sp_alloc((size_t)n, sizeof *want);
        assert_true(got && want);
        for (int g = 0; g < w.s.G; g++) {
            memcpy(spans[g], w.one, sizeof spans[g]);
            spans[g][1].n = SP_MAX(1, w.n * g / (w.s.G - 1));
            lists[g] = spans[g];
        }
        attend_lists(ops, &w, lists, got);
        for (int g = 0; g < w.s.G; g++) {
            for (int k = 0; k < w.s.G; k++) same[k] = spans[g];
            attend_lists(ops, &w, same, want);
            for (int64_t q = 0; q < M; q++)
                assert_close(got + (q * w.s.H + g * group) * w.s.D, want + (q * w.s.H + g * group) * w.s.D,
                             group * w.s.D);
            attend(ops, &w, false, 1, want, NULL);
            const double off = nmse(got + g * group * w.s.D, want + g * group * w.s.D, group * w.s.D);
            if (g == w.s.G - 1) assert_true(off < 1e-6); /* it has all there is */
        }
        sp_free(got);
        sp_free(want);
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"ref: joined_spans_are_one", joined_spans_are_one, NULL, NULL, "ref"},
        ON_EVERY_VARIANT(joined_spans_are_one),
        {"ref: shifts_part_a_run", shifts_part_a_run, NULL, NULL, "ref"},
        ON_EVERY_VARIANT(shifts_part_a_run),
        {"ref: heads_have_lists_of_their_own", heads_have_lists_of_their_own, NULL, NULL, "ref"},
        ON_EVERY_VARIANT(heads_have_lists_of_their_own),
    };
    return cmocka_run_group_tests_name("join", tests, NULL, NULL);
}
