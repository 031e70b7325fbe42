/* test_probe_ops.c -- the measurements of policies: attention by key, and the distance of stored
 * copies.
 *
 * Attention by key is compared with attention: the sum of a span's columns is the mass that
 * sp_attend gives it. Everything that must not be read (free slots, stale and future tokens) is
 * NaN. */
#include "kernel/span_world.h"

enum { N_SPANS = 5, SPAN_MAX = 70, M = 9, N_POS = 1024, N_BLOCKS = 32 };

static const shape shapes[] = {
    {4, 2, 32, 32, false}, {4, 4, 64, 64, true}, {6, 1, 16, 8, false},
    {3, 3, 10, 10, true},  {2, 1, 96, 0, false}, {14, 2, 64, 32, true},
};

typedef struct world {
    shape s;
    sp_kv_view kv;
    sp_rope rope;
    uint32_t next_block;
    sp_span spans[N_SPANS];
    uint32_t blocks[N_SPANS][SP_DIV_UP(SPAN_MAX, B)];
    int32_t pos[N_SPANS][SPAN_MAX];
    uint64_t stale[N_SPANS][SP_DIV_UP(SPAN_MAX, 64)];
    sp_sight sight;
    uint16_t list[N_SPANS], see[M];
    int32_t query_pos[M];
    float *angles; /* of rope */
    float *q, *out, *mass, *lse;
    float columns[N_SPANS][SPAN_MAX], *wanted[N_SPANS];
    float cap;      /* of columns(): what attend() left in lse is without them */
    int32_t window;
} world;

/* -- making a prompt ------------------------------------------------------------------------- */

static void world_open(world *w, const shape *s, sp_dtype type, float magnitude)
{
    memset(w, 0, sizeof *w);
    w->s = *s;
    w->rope = make_rope(s->n_rot, s->adjacent, N_POS, magnitude, &w->angles);
    w->kv = open_kv(s, type, N_BLOCKS);
}

static void world_close(world *w)
{
    sp_free(w->angles);
    sp_free(w->kv.base);
    sp_free(w->q);
    sp_free(w->out);
    sp_free(w->mass);
    sp_free(w->lse);
}

/* make_span -- a span at *end, computed at another position, with random gaps and stale tokens. The
 * first token of span 0 is at 0 and live: every query sees it. */
static void make_span(world *w, uint64_t *seed, int index, int32_t *end)
{
    sp_span *s = &w->spans[index];
    const bool scattered = index && below(seed, 3) == 0;
    int32_t gap = 0;
    s->n = 1 + below(seed, SPAN_MAX);
    s->blocks = w->blocks[index];
    for (int b = 0; b * B < s->n; b++) w->blocks[index][b] = w->next_block++;
    s->shift = index && below(seed, 3) ? below(seed, *end + 1) : 0;
    s->at = *end - s->shift;
    for (int i = 0; i < s->n; i++)
        w->pos[index][i] = s->at + i + (gap += scattered && i ? below(seed, 3) : 0);
    if (scattered) s->pos = w->pos[index];
    if (below(seed, 2)) s->stale = w->stale[index];
    for (int i = index == 0; s->stale && i < s->n; i++)
        if (below(seed, 3) == 0 || (i >= B && i < 2 * B))
            w->stale[index][i / 64] |= 1ull << (i % 64);
    *end = at(s, s->n - 1) + s->shift + 1;
}

static void attend(world *w)
{
    size_t bytes = sp_attend_scratch_bytes(w->s.H, w->s.G, w->s.D, N_SPANS);
    void *scratch = sp_alloc(1, bytes);
    assert_non_null(scratch);
    sp_attend_req req = {.q = w->q,
                         .out = w->out,
                         .pos = w->query_pos,
                         .see = w->see,
                         .m = M,
                         .spans = w->spans,
                         .n_spans = N_SPANS,
                         .sights = &w->sight,
                         .mass = w->mass,
                         .lse = w->lse};
    sp_attend_args a = {&w->kv, &w->rope, w->s.H,  1 / sqrtf((float)w->s.D),
                        &req,   1,        scratch, bytes};
    reference()->attend(&a, 0, 1);
    sp_free(scratch);
}

/* world_make -- a random prompt, its last span partly after all queries, and its attention. All
 * queries have one sight: everything, or every second span. */
static void world_make(world *w, uint64_t *seed, const shape *s, sp_dtype type)
{
    int32_t end = 0;
    world_open(w, s, type, 1);
    for (int i = 0; i < N_SPANS; i++) make_span(w, seed, i, &end);
    for (int m = 0; m < M; m++) w->query_pos[m] = SP_MAX(0, end - 8) * (m + 1) / M;
    fill_spans(&w->kv, &w->rope, w->spans, N_SPANS, w->query_pos[M - 1], seed);
    for (int i = 0; i < N_SPANS; i++) w->list[i] = (uint16_t)(2 * i);
    w->sight = below(seed, 2) ? (sp_sight){NULL, N_SPANS} : (sp_sight){w->list, 3};
    w->q = random_floats(seed, M * s->H * s->D, 2);
    w->out = random_floats(seed, M * s->H * s->D, 1);
    w->mass = random_floats(seed, M * s->H * N_SPANS, 1);
    w->lse = random_floats(seed, M * s->H, 1);
    attend(w);
    for (int i = 0; i < N_SPANS; i++) w->wanted[i] = w->columns[i];
}

/* columns -- runs queries first .. first + m - 1, in parts. */
static void columns(world *w, int first, int m, int n_parts)
{
    size_t scratch = sp_columns_scratch(m, w->s.H, w->s.D);
    float *room = sp_alloc((size_t)n_parts * scratch, sizeof *room);
    assert_non_null(room);
    memset(room, 0xff, (size_t)n_parts * scratch * sizeof *room);
    sp_attend_req req = {.q = w->q + first * w->s.H * w->s.D,
                         .pos = w->query_pos + first,
                         .see = w->see + first,
                         .m = m,
                         .spans = w->spans,
                         .n_spans = N_SPANS,
                         .sights = &w->sight,
                         .lse = w->lse + first * w->s.H};
    sp_columns_args a = {.kv = &w->kv,
                         .rope = &w->rope,
                         .n_heads = w->s.H,
                         .scale = 1 / sqrtf((float)w->s.D),
                         .cap = w->cap,
                         .window = w->window,
                         .req = &req,
                         .columns = w->wanted,
                         .scratch = room};
    for (int part = n_parts - 1; part >= 0; part--) {
        reference()->columns(&a, part, n_parts);
        for (size_t i = 0; i < (size_t)part * scratch; i++)
            assert_true(isnan(room[i])); /* of other parts */
    }
    sp_free(room);
}

typedef void check(world *w, uint64_t *seed);

static void for_every_world(check *fn)
{
    uint64_t seed = 5;
    world *w = SP_NEW(world);
    assert_non_null(w);
    for (size_t i = 0; i < SP_COUNT(shapes); i++)
        for (size_t k = 0; k < SP_COUNT(kv_types); k++) {
            if (shapes[i].D % sp_dtype_of(kv_types[k])->n_group) continue;
            for (int round = 0; round < 4; round++) {
                world_make(w, &seed, &shapes[i], kv_types[k]);
                fn(w, &seed);
                world_close(w);
            }
        }
    sp_free(w);
}

/* -- attention by key ------------------------------------------------------------------------ */

static void check_mass(world *w, uint64_t *seed)
{
    SP_UNUSED(seed);
    columns(w, 0, M, 1);
    double all = 0;
    for (int i = 0; i < N_SPANS; i++) {
        double sum = 0, mass = 0;
        for (int t = 0; t < w->spans[i].n; t++) sum += w->columns[i][t];
        for (int qh = 0; qh < M * w->s.H; qh++) mass += w->mass[qh * N_SPANS + i];
        if (!(fabs(sum - mass) < 1e-4 * M * w->s.H)) fail_msg("span %d: %g of %g", i, sum, mass);
        all += sum;
    }
    assert_true(fabs(all - M * w->s.H) < 1e-4 * M * w->s.H);
}

static void sum_is_attention_mass(void **state)
{
    for_every_world(check_mass);
}

/* probability -- of a key for query q and head h, in double, from the definition. */
static double probability(const world *w, int q, int h, const sp_span *s, int t)
{
    float k[SP_BLOCK_TOKENS * 16], v[SP_BLOCK_TOKENS * 16], query[SP_BLOCK_TOKENS * 16];
    const sp_kv_slot slot = {.block = s->blocks[t / B], .slot = (uint8_t)(t % B)};
    if (at(s, t) + s->shift > w->query_pos[q] || is_stale(s, t)) return 0;
    if (w->window && at(s, t) + s->shift <= w->query_pos[q] - w->window) return 0;
    sp_kv_read(&w->kv, &slot, h * w->s.G / w->s.H, k, v);
    memcpy(query, w->q + (q * w->s.H + h) * w->s.D, (size_t)w->s.D * sizeof *query);
    sp_rope_rotate(&w->rope, query, w->query_pos[q] - s->shift);
    double score = 0;
    for (int d = 0; d < w->s.D; d++) score += (double)query[d] * k[d];
    score /= sqrt(w->s.D);
    if (w->cap > 0) score = w->cap * tanh(score / w->cap);
    return exp(score - (double)w->lse[q * w->s.H + h]);
}

static bool sees(const world *w, int span)
{
    return !w->sight.list || (span % 2 == 0 && span / 2 < w->sight.n);
}

/* Key by key; columns of stale, future and unseen keys do not change. */
static void check_keys(world *w, uint64_t *seed)
{
    for (int i = 0; i < N_SPANS; i++)
        for (int t = 0; t < SPAN_MAX; t++) w->columns[i][t] = 3; /* added to */
    columns(w, 0, M, 1 + below(seed, 3));
    for (int i = 0; i < N_SPANS; i++)
        for (int t = 0; t < SPAN_MAX; t++) {
            double want = 0;
            for (int qh = 0; t < w->spans[i].n && sees(w, i) && qh < M * w->s.H; qh++)
                want += probability(w, qh / w->s.H, qh % w->s.H, &w->spans[i], t);
            if (want == 0) assert_true(w->columns[i][t] == 3);
            if (!(fabs(w->columns[i][t] - 3 - want) < 1e-4))
                fail_msg("%g, not %g", w->columns[i][t] - 3., want);
        }
}

static void every_key_by_the_definition(void **state)
{
    for_every_world(check_keys);
}

static void check_window_and_cap(world *w, uint64_t *seed)
{
    w->window = 1 + below(seed, 100);
    check_keys(w, seed);
    w->cap = 0.5f + (float)below(seed, 3);
    check_keys(w, seed);
    w->window = 0;
    check_keys(w, seed);
}

static void keys_out_of_the_window_and_capped_scores(void **state)
{
    for_every_world(check_window_and_cap);
}

/* Any number of parts gives the same bits; groups of queries add up to the whole, up to
 * rounding. */
static void check_parts(world *w, uint64_t *seed)
{
    float whole[N_SPANS][SPAN_MAX];
    SP_UNUSED(seed);
    columns(w, 0, M, 1);
    memcpy(whole, w->columns, sizeof whole);
    for (int n_parts = 2; n_parts <= 30; n_parts = n_parts * 2 + 1) {
        memset(w->columns, 0, sizeof w->columns);
        columns(w, 0, M, n_parts);
        assert_same_bits(w->columns, whole, N_SPANS * SPAN_MAX);
    }
    memset(w->columns, 0, sizeof w->columns);
    columns(w, 0, 4, 2);
    columns(w, 4, 0, 2);
    columns(w, 4, M - 4, 1);
    assert_true(nmse(&w->columns[0][0], &whole[0][0], N_SPANS * SPAN_MAX) < 1e-12);
}

static void parts_make_the_whole(void **state)
{
    for_every_world(check_parts);
}

static void check_some(world *w, uint64_t *seed)
{
    float whole[N_SPANS][SPAN_MAX];
    columns(w, 0, M, 1);
    memcpy(whole, w->columns, sizeof whole);
    memset(w->columns, 0, sizeof w->columns);
    for (int i = 0; i < N_SPANS; i++)
        if (below(seed, 2)) w->wanted[i] = NULL;
    columns(w, 0, M, 2);
    for (int i = 0; i < N_SPANS; i++) {
        if (!w->wanted[i]) memset(whole[i], 0, sizeof whole[i]);
        assert_same_bits(w->columns[i], whole[i], SPAN_MAX);
    }
}

static void spans_without_columns_are_passed_over(void **state)
{
    for_every_world(check_some);
}

/* -- the distance of copies ------------------------------------------------------------------- */

enum { N = 45 };

/* pairs -- N tokens stored twice, in blocks 0 .. and in blocks 8 .., the second copies other ones
 * by `change`. */
static void pairs(world *w, uint64_t *seed, sp_kv_slot *a, sp_kv_slot *b, float change)
{
    const int n = w->s.G * w->s.D;
    float *k = random_floats(seed, n, 1), *v = random_floats(seed, n, 1),
          *more = random_floats(seed, n, 1);
    for (int i = 0; i < N; i++) {
        int other = (i * 7 + 3) % N; /* the copies are in another order */
        a[i] = (sp_kv_slot){(uint32_t)(i / B), (uint8_t)(i % B), below(seed, 500)};
        b[i] = (sp_kv_slot){8 + (uint32_t)(other / B), (uint8_t)(other % B), below(seed, 500)};
        if (i % 5 == 0) b[i].rot = a[i].rot;
        fill(seed, k, n, 2);
        fill(seed, v, n, 2);
        store_key(&w->kv, &w->rope, a[i], k, v);
        fill(seed, more, n, change);
        for (int d = 0; d < n; d++) k[d] += more[d];
        fill(seed, more, n, change);
        for (int d = 0; d < n; d++) v[d] += more[d];
        store_key(&w->kv, &w->rope, b[i], k, v);
    }
    sp_free(k);
    sp_free(v);
    sp_free(more);
}

static void differ(const world *w, const sp_kv_slot *a, const sp_kv_slot *b, int m, float *out,
                   int n_parts)
{
    sp_kv_differ_args args = {.kv = &w->kv, .rope = &w->rope, .a = a, .b = b, .m = m, .out = out};
    for (int part = 0; part < n_parts; part++) reference()->kv_differ(&args, part, n_parts);
}

/* unrotated -- the key as it was before it was turned to its position, in double. */
static void unrotated(const world *w, const float *key, int32_t rot, double *out)
{
    const int half = w->s.n_rot / 2;
    for (int d = 0; d < w->s.D; d++) out[d] = key[d];
    for (int i = 0; i < half; i++) {
        int x = w->s.adjacent ? 2 * i : i, y = w->s.adjacent ? 2 * i + 1 : i + half;
        double angle = rot * pow(10000, -2.0 * i / w->s.n_rot), c = cos(angle), s = sin(angle);
        out[x] = key[x] * c + key[y] * s;
        out[y] = key[y] * c - key[x] * s;
    }
}

/* size_of -- |K|^2 + |V|^2 of one stored copy. */
static double size_of(const world *w, const sp_kv_slot *x)
{
    float k[96], v[96];
    double sum = 0;
    for (int g = 0; g < w->s.G; g++) {
        sp_kv_read(&w->kv, x, g, k, v);
        for (int d = 0; d < w->s.D; d++) sum += (double)k[d] * k[d] + (double)v[d] * v[d];
    }
    return sum;
}

static double distance_of(const world *w, const sp_kv_slot *a, const sp_kv_slot *b)
{
    float ka[96], kb[96], va[96], vb[96];
    double ua[96], ub[96], sum = 0;
    for (int g = 0; g < w->s.G; g++) {
        sp_kv_read(&w->kv, a, g, ka, va);
        sp_kv_read(&w->kv, b, g, kb, vb);
        unrotated(w, ka, a->rot, ua);
        unrotated(w, kb, b->rot, ub);
        for (int d = 0; d < w->s.D; d++)
            sum += (ua[d] - ub[d]) * (ua[d] - ub[d]) +
                   ((double)va[d] - vb[d]) * ((double)va[d] - vb[d]);
    }
    return sum;
}

/* The largest squared relative error of a stored element. */
static double rounding(sp_dtype t)
{
    return t == SP_F32 ? 1e-11 : t == SP_F16 ? 1e-6 : t == SP_BF16 ? 1e-4 : 1e-3;
}

static void check_differ(const shape *s, sp_dtype type, uint64_t *seed, float magnitude)
{
    world *w = SP_NEW(world);
    assert_non_null(w);
    world_open(w, s, type, magnitude);
    sp_kv_slot a[N], b[N];
    float out[N], turned[N], parts[N];
    pairs(w, seed, a, b, 0); /* only turned: no distance, but for rounding */
    differ(w, a, b, N, out, 1);
    for (int i = 0; i < N; i++) {
        assert_true(out[i] <= rounding(type) * 4 * 2 * s->G * s->D * magnitude * magnitude);
        if (a[i].rot == b[i].rot) assert_true(out[i] == 0);
    }
    pairs(w, seed, a, b, 1);
    differ(w, a, b, N, out, 1);
    memset(parts, 0xff, sizeof parts);
    differ(w, a, b, N, parts, 4);
    assert_same_bits(parts, out, N);
    sp_kv_differ_args sized = {&w->kv, &w->rope, a, b, N, turned, parts}; /* sizes into parts */
    for (int part = 0; part < 3; part++) reference()->kv_differ(&sized, part, 3);
    assert_same_bits(turned, out, N);
    for (int i = 0; i < N; i++) assert_true(fabs(parts[i] / size_of(w, &b[i]) - 1) < 1e-5);
    differ(w, b, a, N, turned, 1);
    for (int i = 0; i < N; i++) {
        double want = distance_of(w, &a[i], &b[i]);
        assert_true(want > 0);
        assert_true(fabs(turned[i] - out[i]) <= 1e-5 * out[i]);
        if (magnitude == 1 && !(fabs(out[i] - want) <= 1e-4 * want))
            fail_msg("%g, not %g", out[i], want);
    }
    world_close(w);
    sp_free(w);
}

static void distance_of_copies(void **state)
{
    uint64_t seed = 9;
    for (size_t i = 0; i < SP_COUNT(shapes); i++)
        for (size_t k = 0; k < SP_COUNT(kv_types); k++)
            if (shapes[i].D % sp_dtype_of(kv_types[k])->n_group == 0) {
                check_differ(&shapes[i], kv_types[k], &seed, 1);
                check_differ(&shapes[i], kv_types[k], &seed, 1.2f); /* as long-context models scale */
            }
}

/* -- reading back ----------------------------------------------------------------------------- */

static void read_gives_what_was_stored(void **state)
{
    uint64_t seed = 4;
    for (size_t i = 0; i < SP_COUNT(shapes); i++)
        for (size_t k = 0; k < SP_COUNT(kv_types); k++) {
            const shape *s = &shapes[i];
            if (s->D % sp_dtype_of(kv_types[k])->n_group) continue;
            world *w = SP_NEW(world);
            assert_non_null(w);
            world_open(w, s, kv_types[k], 1);
            float *key = random_floats(&seed, s->G * s->D, 2),
                  *value = random_floats(&seed, s->G * s->D, 2);
            sp_kv_slot at_slot = {5, 11, 77};
            float kk[96], vv[96];
            store_key(&w->kv, &w->rope, (sp_kv_slot){5, 11, 77}, key, value);
            for (int g = 0; g < s->G; g++) {
                sp_kv_read(&w->kv, &at_slot, g, kk, vv);
                sp_rope_rotate(&w->rope, key + g * s->D, 77);
                double bound = kv_types[k] == SP_F32 ? 0 : rounding(kv_types[k]);
                assert_true(nmse(kk, key + g * s->D, s->D) <= bound);
                assert_true(nmse(vv, value + g * s->D, s->D) <= bound);
            }
            sp_free(key);
            sp_free(value);
            world_close(w);
            sp_free(w);
        }
}

/* A copy is the same bytes in another slot, and no other slot is touched. */
static void copies_are_bit_for_bit(void **state)
{
    enum { BLOCKS = 3, SLOTS = BLOCKS * B };
    uint64_t seed = 6;
    for (size_t i = 0; i < SP_COUNT(shapes); i++)
        for (size_t k = 0; k < SP_COUNT(kv_types); k++) {
            const shape *s = &shapes[i];
            if (s->D % sp_dtype_of(kv_types[k])->n_group) continue;
            world *w = SP_NEW(world);
            assert_non_null(w);
            world_open(w, s, kv_types[k], 1);
            size_t row = (size_t)s->G * (size_t)s->D;
            float *key = random_floats(&seed, s->G * s->D, 2),
                  *value = random_floats(&seed, s->G * s->D, 2);
            for (uint32_t at_slot = 0; at_slot < SLOTS; at_slot++) {
                fill(&seed, key, s->G * s->D, 2);
                fill(&seed, value, s->G * s->D, 2);
                const sp_kv_slot to = {at_slot / B, (uint8_t)(at_slot % B), below(&seed, 500)};
                store_key(&w->kv, &w->rope, to, key, value);
            }
            float *was = sp_alloc(2 * SLOTS * row, sizeof *was),
                  *is = sp_alloc(2 * row, sizeof *is);
            for (uint32_t x = 0; x < SLOTS; x++)
                for (int g = 0; g < s->G; g++)
                    sp_kv_read(&w->kv, &(sp_kv_slot){x / B, (uint8_t)(x % B), 0}, g,
                               was + 2 * x * row + g * s->D, was + (2 * x + 1) * row + g * s->D);
            for (int round = 0; round < 20; round++) {
                uint32_t from = (uint32_t)below(&seed, SLOTS), to = (uint32_t)below(&seed, SLOTS);
                if (from == to) continue;
                sp_kv_copy(&w->kv, &(sp_kv_slot){from / B, (uint8_t)(from % B), 9},
                           &(sp_kv_slot){to / B, (uint8_t)(to % B), 9});
                memcpy(was + 2 * to * row, was + 2 * from * row, 2 * row * sizeof *was);
                for (uint32_t x = 0; x < SLOTS; x++) {
                    for (int g = 0; g < s->G; g++)
                        sp_kv_read(&w->kv, &(sp_kv_slot){x / B, (uint8_t)(x % B), 0}, g,
                                   is + g * s->D, is + row + g * s->D);
                    assert_same_bits(is, was + 2 * x * row, 2 * row);
                }
            }
            sp_free(key);
            sp_free(value);
            sp_free(was);
            sp_free(is);
            world_close(w);
            sp_free(w);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum_is_attention_mass),
        cmocka_unit_test(every_key_by_the_definition),
        cmocka_unit_test(keys_out_of_the_window_and_capped_scores),
        cmocka_unit_test(parts_make_the_whole),
        cmocka_unit_test(spans_without_columns_are_passed_over),
        cmocka_unit_test(distance_of_copies),
        cmocka_unit_test(read_gives_what_was_stored),
        cmocka_unit_test(copies_are_bit_for_bit),
    };
    return cmocka_run_group_tests_name("probe_ops", tests, NULL, NULL);
}
