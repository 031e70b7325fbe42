/* test_attend.c -- span attention: every variant against ref and against the definition of what a
 * query sees, on random prompts; and the invariants of x86/attend.c.
 *
 * A prompt has random spans: consecutive and scattered, shifted, with stale tokens, in blocks in
 * random order. Everything that must not be read (free slots, stale tokens, tokens after the last
 * query) is NaN, so that reading it shows.
 */
#include "kernel/attend_world.h"

/* -- checks ------------------------------------------------------------------------------------ */

/* Whether operands are rounded to 8 bits. */
static bool is_rounded(const sp_ops *ops, sp_dtype type)
{
    return type == SP_Q16 && strcmp(ops->name, "amx-attend") == 0;
}

/* NMSE to ref. */
static double bound_of(const sp_ops *ops, sp_dtype type)
{
    return is_rounded(ops, type) ? 1e-4 : 1e-6;
}

static void check_ref(const sp_ops *ops, world *w, uint64_t *seed)
{
    const int64_t n = M * w->s.H * w->s.D, n_mass = M * w->s.H * N_SPANS;
    /* Integer products also round the query: errors of 1e-4 in a score are usual at D = 256. */
    const float lse_bound = is_rounded(ops, w->kv.type) ? 0.1f : w->kv.type == SP_Q16 ? 1e-3f : 1e-4f;
    SP_UNUSED(seed);
    expect_ref(w, 0, M);
    attend_all(ops, w, w->out, w->mass, 1);
    assert_within(bound_of(ops, w->kv.type), w->out, w->expected, n);
    assert_within(bound_of(ops, w->kv.type), w->mass, w->expected_mass, n_mass);
    for (int64_t qh = 0; qh < M * w->s.H; qh++) {
        assert_true(fabsf(w->lse[qh] - w->expected_lse[qh]) < lse_bound);
    }
    for (int64_t i = 0; i < n_mass; i++) {
        if (w->expected_mass[i] == 0) assert_true(w->mass[i] == 0);
    }
    for (int64_t qh = 0; qh < M * w->s.H; qh++) {
        double sum = 0;
        for (int i = 0; i < N_SPANS; i++) sum += (double)w->mass[qh * N_SPANS + i];
        assert_true(fabs(sum - 1) < 1e-5);
    }
}

static void equals_ref(void **state)
{
    for_every_world(variant(state), check_ref, 3);
}

/* Queries in groups of at most `longest`: the same bits as all together, which are in w->expected. */
static void check_groups(const sp_ops *ops, world *w, uint64_t *seed, int longest)
{
    const int64_t n = M * w->s.H * w->s.D, n_mass = M * w->s.H * N_SPANS;
    memset(w->out, 0xff, (size_t)n * sizeof(float));
    memset(w->mass, 0xff, (size_t)n_mass * sizeof(float));
    for (int64_t m = 0, piece; m < M; m += piece) {
        piece = 1 + below(seed, longest);
        piece = SP_MIN(piece, M - m);
        sp_attend_req req = request(w, m, piece, w->out, w->mass);
        attend(ops, w, &req, 1, 1);
    }
    assert_same_bits(w->out, w->expected, n);
    assert_same_bits(w->mass, w->expected_mass, n_mass);
}

static const int groups[] = {1, 6, 11};

/* Queries alone and in groups of any size: the same bits as all together, with and without
 * masses. */
static void check_pieces(const sp_ops *ops, world *w, uint64_t *seed)
{
    attend_all(ops, w, w->expected, w->expected_mass, 1);
    for (size_t i = 0; i < SP_COUNT(groups); i++) check_groups(ops, w, seed, groups[i]);
    attend_all(ops, w, w->out, NULL, 1);
    assert_same_bits(w->out, w->expected, M * w->s.H * w->s.D);
}

static void query_does_not_depend_on_others(void **state)
{
    for_every_world(variant(state), check_pieces, SP_EMULATED ? 1 : 2);
}

static void check_parts(const sp_ops *ops, world *w, uint64_t *seed)
{
    static const int parts[] = {2, 3, 7};
    const int64_t n = M * w->s.H * w->s.D, n_mass = M * w->s.H * N_SPANS;
    SP_UNUSED(seed);
    attend_all(ops, w, w->expected, w->expected_mass, 1);
    for (size_t i = 0; i < SP_COUNT(parts); i++) {
        memset(w->out, 0xff, (size_t)n * sizeof(float));
        memset(w->mass, 0xff, (size_t)n_mass * sizeof(float));
        attend_all(ops, w, w->out, w->mass, parts[i]);
        assert_same_bits(w->out, w->expected, n);
        assert_same_bits(w->mass, w->expected_mass, n_mass);
    }
}

static void parts_make_the_whole(void **state)
{
    for_every_world(variant(state), check_parts, 1);
}

/* Several requests in one call, one of them empty: the same results as alone. */
static void check_requests(const sp_ops *ops, world *w, uint64_t *seed)
{
    const int64_t n = M * w->s.H * w->s.D;
    const int64_t a = 1 + below(seed, 10), b = a + 1 + below(seed, 10);
    attend_all(ops, w, w->expected, NULL, 1);
    memset(w->out, 0xff, (size_t)n * sizeof(float));
    sp_attend_req reqs[] = {
        request(w, b, M - b, w->out, NULL),
        request(w, 0, 0, w->out, NULL),
        request(w, a, b - a, w->out, w->mass),
        request(w, 0, a, w->out, NULL),
    };
    attend(ops, w, reqs, 4, 3);
    assert_same_bits(w->out, w->expected, n);
}

static void requests_do_not_mix(void **state)
{
    for_every_world(variant(state), check_requests, 1);
}

/* -- windows and caps --------------------------------------------------------------------------- */

typedef struct view {
    int32_t window;
    float cap;
} view;

/* As ref, and a query does not depend on others: the i-th view with the i-th size of groups. */
static void check_views(const sp_ops *ops, world *w, uint64_t *seed, const view *views, size_t n_views)
{
    const int64_t n = M * w->s.H * w->s.D, n_mass = M * w->s.H * N_SPANS;
    for (size_t i = 0; i < n_views; i++) {
        w->window = views[i].window;
        w->cap = views[i].cap;
        expect_ref(w, 0, M);
        attend_all(ops, w, w->out, w->mass, 1);
        assert_within(bound_of(ops, w->kv.type), w->out, w->expected, n);
        assert_within(bound_of(ops, w->kv.type), w->mass, w->expected_mass, n_mass);
        memcpy(w->expected, w->out, (size_t)n * sizeof(float));
        memcpy(w->expected_mass, w->mass, (size_t)n_mass * sizeof(float));
        check_groups(ops, w, seed, groups[i % SP_COUNT(groups)]);
        attend_all(ops, w, w->out, NULL, 1);
        assert_same_bits(w->out, w->expected, n);
    }
}

/* Every window and cap. A window may leave a query without any key: its result is 0. */
static void check_windows(const sp_ops *ops, world *w, uint64_t *seed)
{
    static const view some[] = {{1, 0}, {17, 0}, {64, 0.5f}, {300, 0}, {0, 2}};
    check_views(ops, w, seed, some, SP_COUNT(some));
}

/* A window that hides whole pieces and begins inside one, and one of the last step alone. */
static void check_windows_of_long(const sp_ops *ops, world *w, uint64_t *seed)
{
    static const view some[] = {{300, 0}, {17, 2}};
    check_views(ops, w, seed, some, SP_COUNT(some));
}

static void windows_and_caps_equal_ref(void **state)
{
    for_every_world(variant(state), check_windows, 1);
}

/* By the definition: a query at p sees what it would see if keys at or before p - window were stale. */
static void check_window_is_stale(const sp_ops *ops, world *w, uint64_t *seed)
{
    const int64_t n = (int64_t)w->s.H * w->s.D;
    const int q = M - 1 - below(seed, 5);
    sp_attend_req req = request(w, q, 1, w->out, NULL);
    w->window = 1 + below(seed, 200);
    attend(ops, w, &req, 1, 1);
    for (int s = 0; s < N_SPANS; s++) {
        for (int i = 0; i < w->spans[s].n; i++) {
            if (at(&w->spans[s], i) + w->spans[s].shift <= w->query_pos[q] - w->window)
                w->stale[s][i / 64] |= (uint64_t)1 << (i % 64);
        }
        w->spans[s].stale = w->stale[s];
    }
    w->window = 0;
    req.out = w->expected + q * n;
    attend(ops, w, &req, 1, 1);
    assert_within(bound_of(ops, w->kv.type), w->out + q * n, w->expected + q * n, n);
}

static void a_window_hides_what_is_before_it(void **state)
{
    for_every_world(variant(state), check_window_is_stale, 2);
}

/* -- sinks ------------------------------------------------------------------------------------- */

/* By the definition: with s, the sum of exp(score), and a sink z, everything is scaled by s / (s + exp(z)). */
static void check_sinks(const sp_ops *ops, world *w, uint64_t *seed)
{
    const int64_t n = M * w->s.H * w->s.D, n_mass = M * w->s.H * N_SPANS;
    float *sinks = random_floats(seed, w->s.H, 6);
    attend_all(ops, w, w->expected, w->expected_mass, 1);
    w->sinks = sinks;
    attend_all(ops, w, w->out, w->mass, 1);
    for (int64_t qh = 0; qh < M * w->s.H; qh++) {
        const double z = (double)sinks[qh % w->s.H], lse = (double)w->expected_lse[qh];
        const double all = lse > z ? lse + log1p(exp(z - lse)) : z + log1p(exp(lse - z));
        const float share = (float)exp(lse - all);
        assert_true(fabs((double)w->lse[qh] - all) < 1e-4);
        for (int d = 0; d < w->s.D; d++) w->expected[qh * w->s.D + d] *= share;
        for (int i = 0; i < N_SPANS; i++) w->expected_mass[qh * N_SPANS + i] *= share;
    }
    assert_within(bound_of(ops, w->kv.type), w->out, w->expected, n);
    assert_within(bound_of(ops, w->kv.type), w->mass, w->expected_mass, n_mass);
    memcpy(w->expected, w->out, (size_t)n * sizeof(float));
    memcpy(w->expected_mass, w->mass, (size_t)n_mass * sizeof(float));
    check_groups(ops, w, seed, groups[2]);
    /* no key but the sink; and with a cap */
    check_views(ops, w, seed, (const view[]){{1, 0}, {64, 0.5f}}, 2);
    sp_free(sinks);
}

static void a_sink_takes_its_share(void **state)
{
    for_every_world(variant(state), check_sinks, 1);
}

/* -- long contexts ----------------------------------------------------------------------------- */

static void for_every_long_world(const sp_ops *ops, check *fn)
{
    static const shape some[] = {
        {14, 2, 64, 64, false}, {8, 1, 16, 8, true}, {3, 3, 32, 32, false}, {10, 1, 96, 48, true}};
    static const sp_dtype kinds[] = {SP_F32, SP_F16, SP_Q8_0};
    uint64_t seed = 5;
    for (size_t i = 0; i < SP_COUNT(some); i++) {
        for (size_t k = 0; k < SP_COUNT(kinds); k++) {
            if (some[i].D % sp_dtype_of(kinds[k])->n_group != 0) continue;
            world *w = SP_NEW(world);
            assert_non_null(w);
            world_make_long(w, &seed, kinds[k], &some[i]);
            fn(ops, w, &seed);
            world_close(w);
            sp_free(w);
        }
    }
}

/* Outputs, masses and log-sums over seven pieces; for a few queries only, because ref is slow. */
static void check_long(const sp_ops *ops, world *w, uint64_t *seed)
{
    static const int64_t queries[] = {0, 19, 20, M - 1};
    const int64_t n = w->s.H * w->s.D, n_mass = w->s.H * N_SPANS;
    SP_UNUSED(seed);
    attend_all(ops, w, w->out, w->mass, 3);
    for (size_t i = 0; i < SP_COUNT(queries); i++) {
        const int64_t q = queries[i];
        expect_ref(w, q, 1);
        assert_within(bound_of(ops, w->kv.type), w->out + q * n, w->expected + q * n, n);
        assert_within(bound_of(ops, w->kv.type), w->mass + q * n_mass, w->expected_mass + q * n_mass, n_mass);
        for (int64_t h = q * w->s.H; h < (q + 1) * w->s.H; h++) {
            double sum = 0;
            for (int s = 0; s < N_SPANS; s++) sum += (double)w->mass[h * N_SPANS + s];
            assert_true(fabs(sum - 1) < 1e-5);
            assert_true(fabsf(w->lse[h] - w->expected_lse[h]) < (is_rounded(ops, w->kv.type) ? 0.1f : 1e-4f));
        }
    }
}

static void long_equals_ref(void **state)
{
    for_every_long_world(variant(state), check_long);
    for_every_long_world(variant(state), check_windows_of_long);
}

/* Any number of threads, all queries or a single one (whose pieces then run on different threads):
 * the same bits, without masses, with them, or both. */
static void check_threads(const sp_ops *ops, world *w, uint64_t *seed)
{
    static const struct {
        int n, masses, end; /* masses .. end-1: 0 without, 1 with */
    } teams[] = {{2, 0, 1}, {3, 1, 2}, {7, 0, 2}};
    const int64_t n = w->s.H * w->s.D, n_mass = w->s.H * N_SPANS;
    SP_UNUSED(seed);
    attend_all(ops, w, w->expected, w->expected_mass, 1);
    for (size_t i = SP_EMULATED ? SP_COUNT(teams) - 1 : 0; i < SP_COUNT(teams); i++) {
        sp_team *team;
        assert_int_equal(sp_team_create(&team, teams[i].n), SP_OK);
        for (int masses = teams[i].masses; masses < teams[i].end; masses++) {
            sp_attend_req req = request(w, 0, M, w->out, masses ? w->mass : NULL);
            if (!masses) req.lse = w->lse;
            attend_on_team(ops, w, &req, team);
            assert_same_bits(w->out, w->expected, M * n);
            assert_same_bits(w->lse, w->expected_lse, M * w->s.H);
            if (masses) assert_same_bits(w->mass, w->expected_mass, M * n_mass);
        }
        for (int64_t q = 0; q < M; q += 5) {
            sp_attend_req req = request(w, q, 1, w->out, NULL);
            req.lse = w->lse + q * w->s.H;
            attend_on_team(ops, w, &req, team);
            assert_same_bits(w->out + q * n, w->expected + q * n, n);
            assert_same_bits(req.lse, w->expected_lse + q * w->s.H, w->s.H);
        }
        sp_team_destroy(team);
    }
}

static void threads_give_equal_bits(void **state)
{
    for_every_long_world(variant(state), check_threads);
}

/* -- visibility
 * --------------------------------------------------------------------------------- */

/* The definition, which uses nothing of the kernels: query q sees the keys of the spans in its
 * sight that are not stale and whose position in the prompt is not after its own. */
static bool sees(const world *w, int q, int span, int t)
{
    const sp_span *s = &w->spans[span];
    const sp_sight *sight = &w->sights[w->see[q]];
    bool in_sight = !sight->list && span < sight->n;
    for (int i = 0; sight->list && i < sight->n; i++) in_sight |= sight->list[i] == span;
    const int32_t position = (s->pos ? s->pos[t] : s->at + t) + s->shift;
    const bool stale = s->stale && (s->stale[t / 64] >> t % 64 & 1) == 1;
    return in_sight && !stale && position <= w->query_pos[q];
}

/* Values of all tokens, [G, D] each, whose elements are random signs. */
typedef struct marks {
    float *of; /* [N_SPANS][LONG_MAX][n] */
    int n;
} marks;

static float *mark(const marks *x, int span, int t)
{
    return x->of + ((size_t)span * LONG_MAX + (size_t)t) * (size_t)x->n;
}

/* Replaces the values of all stored tokens by signs. */
static void store_marks(world *w, marks *x, uint64_t *seed)
{
    x->n = w->s.G * w->s.D;
    x->of = sp_alloc(N_SPANS * LONG_MAX, (size_t)x->n * sizeof *x->of);
    float *k = sp_alloc_zero((size_t)x->n, sizeof *k);
    assert_true(x->of && k);
    for (int i = 0; i < N_SPANS; i++) {
        const sp_span *s = &w->spans[i];
        for (int t = 0; t < s->n; t++) {
            float *v = mark(x, i, t);
            for (int c = 0; c < x->n; c++) v[c] = below(seed, 2) ? 1 : -1;
            if (is_stale(s, t) || at(s, t) + s->shift > w->query_pos[M - 1]) continue;
            store_key(&w->kv, &w->rope, (sp_kv_slot){s->blocks[t / B], (uint8_t)(t % B), at(s, t)}, k, v);
        }
    }
    sp_free(k);
}

/* Compares the outputs and masses of one query with the sum of the values that it sees. */
static void check_query(const world *w, int q, const marks *x, float *sum)
{
    const int group = w->s.H / w->s.G, D = w->s.D;
    int in_span[N_SPANS] = {0}, all = 0;
    memset(sum, 0, (size_t)x->n * sizeof *sum);
    for (int i = 0; i < N_SPANS; i++) {
        for (int t = 0; t < w->spans[i].n; t++) {
            if (!sees(w, q, i, t)) continue;
            const float *v = mark(x, i, t);
            for (int c = 0; c < x->n; c++) sum[c] += v[c];
            in_span[i]++;
        }
        all += in_span[i];
    }
    for (int h = 0; h < w->s.H; h++) {
        const int row = q * w->s.H + h;
        for (int d = 0; d < D; d++) {
            const float got = w->out[row * D + d] * (float)all;
            assert_true(fabsf(got - sum[h / group * D + d]) < 0.4f);
        }
        for (int i = 0; i < N_SPANS; i++) {
            const float got = w->mass[row * N_SPANS + i] * (float)all;
            assert_true(fabsf(got - (float)in_span[i]) < 0.1f);
        }
    }
}

/* With a query of zeros, all visible keys have the same probability. So an output times the number
 * of visible keys is the sum of their values, and a mass times that number counts the keys of the
 * span: one key too many or too few changes every channel by about 1. */
static void check_visibility(const sp_ops *ops, world *w, uint64_t *seed)
{
    marks x;
    memset(w->q, 0, (size_t)(M * w->s.H * w->s.D) * sizeof *w->q);
    store_marks(w, &x, seed);
    float *sum = sp_alloc((size_t)x.n, sizeof *sum);
    assert_non_null(sum);
    attend_all(ops, w, w->out, w->mass, 2);
    attend_all(ops, w, w->expected, NULL, 1);
    assert_same_bits(w->out, w->expected, M * w->s.H * w->s.D);
    for (int q = 0; q < M; q++) check_query(w, q, &x, sum);
    sp_free(sum);
    sp_free(x.of);
}

static void sees_what_the_definition_says(void **state)
{
    for_every_world(variant(state), check_visibility, 1);
    if (strcmp(*state, "ref") != 0) /* ref is slow */
        for_every_long_world(variant(state), check_visibility);
}

/* One query over 3,000 keys, as in decoding, together with requests of many queries: pieces and
 * whole tiles in one call. */
static void check_mixture(const sp_ops *ops, world *w, uint64_t *seed)
{
    const int64_t n = M * w->s.H * w->s.D;
    SP_UNUSED(seed);
    attend_all(ops, w, w->expected, w->expected_mass, 1);
    memset(w->out, 0xff, (size_t)n * sizeof(float));
    sp_attend_req reqs[] = {
        request(w, M - 1, 1, w->out, NULL),
        request(w, 0, 11, w->out, NULL),
        request(w, 11, 1, w->out, w->mass),
        request(w, 12, M - 13, w->out, NULL),
    };
    attend(ops, w, reqs, 4, 2);
    assert_same_bits(w->out, w->expected, n);
}

static void pieces_and_tiles_do_not_mix(void **state)
{
    for_every_long_world(variant(state), check_mixture);
}

/* A span computed at another position and used with a shift equals the span computed in place. */
static void position_is_free(void **state)
{
    const sp_ops *ops = variant(state);
    uint64_t seed = 11;
    for (size_t i = 0; i < SP_COUNT(shapes); i++) {
        world *w = SP_NEW(world);
        assert_non_null(w);
        world_make(w, &seed, SP_F32, &shapes[i]);
        /* The same keys, rotated for other positions: both rounds use the same random numbers. */
        for (int round = 0; round < 2; round++) {
            uint64_t same = 99;
            for (int s = 0; s < N_SPANS; s++) {
                int32_t move = round == 0 ? 0 : below(&seed, 900) - w->spans[s].shift - 500;
                move = SP_MAX(move, -at(&w->spans[s], 0));
                w->spans[s].at += move;
                w->spans[s].shift -= move;
                for (int t = 0; t < w->spans[s].n; t++) w->pos[s][t] += move;
            }
            fill_spans(&w->kv, &w->rope, w->spans, N_SPANS, w->query_pos[M - 1], &same);
            attend_all(ops, w, round == 0 ? w->expected : w->out, NULL, 1);
        }
        assert_true(nmse(w->out, w->expected, M * w->s.H * w->s.D) < 1e-9);
        world_close(w);
        sp_free(w);
    }
}

/* Keys and values of Q16 at the largest sums that its rounding allows: parallel queries and keys,
 * with norms of any size, in few channels or all; equal values, with equal probabilities or that of
 * one key only. */
static void words_do_not_overflow(void **state)
{
    enum { D = 256, N = 150 };
    static const int used[] = {1, 2, 64, D}; /* channels that are not 0 */
    static const float sizes[] = {1e-9f, 1, 3e8f};
    const sp_ops *ops = variant(state);
    const sp_rope rope = {.n_pos = N + 1};
    uint32_t blocks[SP_DIV_UP(N, B)];
    for (uint32_t b = 0; b < SP_COUNT(blocks); b++) blocks[b] = b;
    const size_t block_bytes = 2 * sp_kv_head_bytes(SP_Q16, D);
    uint8_t *base = sp_alloc(SP_COUNT(blocks), block_bytes);
    assert_non_null(base);
    memset(base, 0xff, SP_COUNT(blocks) * block_bytes);
    const sp_kv_view kv = {SP_Q16, 1, D, base, block_bytes};
    const sp_span span = {.blocks = blocks, .n = N};
    const sp_sight sight = {NULL, 1};
    const int32_t pos = N - 1;
    const uint16_t see = 0;
    size_t bytes = sp_attend_scratch_bytes(1, 1, D, 1);
    void *scratch = sp_alloc(1, bytes);
    assert_non_null(scratch);
    memset(scratch, 0, bytes);
    for (size_t i = 0; i < SP_COUNT(used) * SP_COUNT(sizes) * 2; i++) {
        const int n = used[i / 2 / SP_COUNT(sizes)];
        const float size = sizes[i / 2 % SP_COUNT(sizes)];
        const bool one = i % 2; /* one key has all the probability */
        float q[D] = {0}, k[D] = {0}, v[D], out[D], want[D];
        for (int d = 0; d < n; d++) q[d] = (d % 3 ? 1 : -1) / size;
        for (int d = 0; d < D; d++) v[d] = -size;
        for (int32_t t = 0; t < N; t++) {
            const uint8_t slot = (uint8_t)(t % B);
            for (int d = 0; d < n; d++) k[d] = (d % 3 ? size : -size) * (one && t == 77 ? 100 : 1);
            reference()->kv_store(
                &(sp_kv_store_args){&kv, &rope, k, v, 1, &blocks[t / B], &slot, &t}, 0, 1);
        }
        sp_attend_req req = {q, out, &pos, &see, 1, &span, 1, &sight, NULL, NULL};
        sp_attend_args a = {&kv, &rope, 1, 1, &req, 1, scratch, bytes};
        ops->attend(&a, 0, 1);
        req.out = want;
        reference()->attend(&a, 0, 1);
        assert_within(bound_of(ops, SP_Q16), out, want, D);
        for (int d = 0; d < D; d++) assert_true(fabsf(out[d] + size) < 1e-3f * size);
    }
    sp_free(scratch);
    sp_free(base);
}

/* A value that is not finite, or too large, makes the rows that see it NaN; neither it nor such a
 * key changes any other row. (Softmax ignores a key that is NaN, in every type.) */
static void words_that_are_not_finite_stay_apart(void **state)
{
    enum { D = 32, N = 20 };
    const sp_ops *ops = variant(state);
    const sp_rope rope = {.n_pos = N + 1};
    const uint32_t blocks[2] = {0, 1};
    const size_t block_bytes = 2 * sp_kv_head_bytes(SP_Q16, D);
    const sp_span span = {.blocks = blocks, .n = N};
    const sp_sight sight = {NULL, 1};
    static const int32_t pos[2] = {16, 17}; /* queries before and at the bad token */
    static const uint16_t see[2] = {0};
    static const float broken[] = {NAN, INFINITY, -INFINITY, 3e38f};
    size_t bytes = sp_attend_scratch_bytes(1, 1, D, 1);
    uint8_t *base = sp_alloc(2, block_bytes), *scratch = sp_alloc(1, bytes);
    assert_true(base && scratch);
    const sp_kv_view kv = {SP_Q16, 1, D, base, block_bytes};
    memset(scratch, 0, bytes);
    for (size_t i = 0; i < 2 * SP_COUNT(broken); i++) {
        float q[2 * D], k[D], v[D], out[2 * D];
        for (int d = 0; d < 2 * D; d++) q[d] = 0.1f * (float)(d % 7);
        for (int32_t t = 0; t < N; t++) {
            const uint8_t slot = (uint8_t)(t % B);
            for (int d = 0; d < D; d++) k[d] = v[d] = (float)(d % 5 - t % 3);
            if (t == 17) (i % 2 ? k : v)[3] = broken[i / 2];
            ops->kv_store(&(sp_kv_store_args){&kv, &rope, k, v, 1, &blocks[t / B], &slot, &t}, 0,
                          1);
        }
        sp_attend_req req = {q, out, pos, see, 2, &span, 1, &sight, NULL, NULL};
        sp_attend_args a = {&kv, &rope, 1, 1, &req, 1, scratch, bytes};
        ops->attend(&a, 0, 1);
        for (int d = 0; d < D; d++) {
            assert_true(isfinite(out[d]));
            if (i % 2 == 0) assert_true(isnan(out[D + d]));
        }
    }
    sp_free(scratch);
    sp_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_ATTEND(equals_ref),
        {"ref: sees_what_the_definition_says", sees_what_the_definition_says, NULL, NULL, "ref"},
        ON_EVERY_ATTEND(sees_what_the_definition_says),
        ON_EVERY_ATTEND(query_does_not_depend_on_others),
        ON_EVERY_ATTEND(parts_make_the_whole),
        ON_EVERY_ATTEND(requests_do_not_mix),
        ON_EVERY_ATTEND(windows_and_caps_equal_ref),
        ON_EVERY_ATTEND(a_window_hides_what_is_before_it),
        ON_EVERY_ATTEND(a_sink_takes_its_share),
        ON_EVERY_ATTEND(long_equals_ref),
        ON_EVERY_ATTEND(threads_give_equal_bits),
        ON_EVERY_ATTEND(pieces_and_tiles_do_not_mix),
        ON_EVERY_ATTEND(words_do_not_overflow),
        ON_EVERY_ATTEND(words_that_are_not_finite_stay_apart),
        {"ref: position_is_free", position_is_free, NULL, NULL, "ref"},
        ON_EVERY_ATTEND(position_is_free),
    };
    return cmocka_run_group_tests_name("attend", tests, NULL, NULL);
}
