/* test_attend.c -- span attention: every variant against ref and against the definition of what a
 * query sees, on random prompts; and the invariants of x86/attend.c.
 *
 * A prompt has random spans: consecutive and scattered, shifted, with stale tokens, in blocks in
 * random order. Everything that must not be read (free slots, stale tokens, tokens after the last
 * query) is NaN, so that reading it shows.
 */
#include "base/threads.h"
#include "compute/attend_int.h"
#include "kernel/kernels.h"

enum {
    N_SPANS = 6,
    SPAN_MAX = 75, /* tokens, in short prompts */
    LONG_MAX = 1100,
    N_SIGHTS = 3,
    M = 41,
    N_POS = 2048, /* least positions in the tables */
    B = SP_BLOCK_TOKENS
};

typedef struct shape {
    int H, G, D, n_rot;
    bool adjacent;
} shape;

static const shape shapes[] = {
    {4, 4, 8, 8, false},    {14, 2, 64, 64, false}, {8, 1, 16, 8, true},    {4, 2, 80, 80, true},
    {2, 2, 96, 48, false},  {6, 3, 128, 128, true}, {2, 1, 256, 64, false}, {3, 3, 2, 2, true},
    {40, 1, 32, 32, false}, {5, 5, 6, 0, false},    {12, 4, 32, 32, true},  {7, 1, 22, 20, false},
};

typedef struct world {
    shape s;
    sp_kv_view kv;
    sp_rope rope;
    uint32_t n_blocks, next_block;
    uint32_t order[N_SPANS * SP_DIV_UP(LONG_MAX, B)]; /* random order of the blocks */
    sp_span spans[N_SPANS];
    uint32_t blocks[N_SPANS][SP_DIV_UP(LONG_MAX, B)];
    int32_t pos[N_SPANS][LONG_MAX];
    uint64_t stale[N_SPANS][SP_DIV_UP(LONG_MAX, 64)];
    sp_sight sights[N_SIGHTS];
    uint16_t list[N_SPANS];
    int32_t query_pos[M];
    uint16_t see[M];
    float *angles; /* of rope */
    float *q, *out, *expected, *mass, *expected_mass, *lse, *expected_lse;
} world;

/* -- making a prompt --------------------------------------------------------------------------- */

static void world_open(world *w, uint64_t *seed, sp_dtype type, const shape *s, uint32_t n_blocks)
{
    memset(w, 0, sizeof *w);
    w->s = *s;
    w->n_blocks = n_blocks;
    for (uint32_t i = 0; i < n_blocks; i++) w->order[i] = i;
    for (uint32_t i = n_blocks - 1; i > 0; i--) {
        uint32_t j = (uint32_t)below(seed, (int)i + 1), t = w->order[i];
        w->order[i] = w->order[j];
        w->order[j] = t;
    }
    size_t block_bytes = 2 * (size_t)s->G * sp_kv_head_bytes(type, s->D);
    uint8_t *base = sp_alloc(n_blocks, block_bytes);
    assert_non_null(base);
    memset(base, 0xff, n_blocks * block_bytes); /* NaN in every type */
    w->kv = (sp_kv_view){type, s->G, s->D, base, block_bytes};
}

static void world_close(world *w)
{
    sp_free(w->angles);
    sp_free(w->kv.base);
    sp_free(w->q);
    sp_free(w->out);
    sp_free(w->expected);
    sp_free(w->mass);
    sp_free(w->expected_mass);
    sp_free(w->lse);
    sp_free(w->expected_lse);
}

/* Stores token i of a span, its key rotated for position `rot`; k and v are [G, D]. */
static void store(world *w, const sp_span *s, int i, int32_t rot, const float *k, const float *v)
{
    uint8_t slot = (uint8_t)(i % B);
    sp_kv_store_args a = {&w->kv, &w->rope, k, v, 1, &s->blocks[i / B], &slot, &rot};
    reference()->kv_store(&a, 0, 1);
}

static bool is_stale(const sp_span *s, int i)
{
    return s->stale && (s->stale[i / 64] >> (i % 64) & 1);
}

static int32_t at(const sp_span *s, int i)
{
    return s->pos ? s->pos[i] : s->at + i;
}

/* A random span at *end in the prompt; a scattered one may also be between earlier tokens. The
 * first key of span 0 is at 0 and live: every query sees it. */
static void make_span(world *w, uint64_t *seed, int index, int32_t *end)
{
    sp_span *s = &w->spans[index];
    const bool scattered = index > 0 && below(seed, 3) == 0;
    s->n = 1 + below(seed, SPAN_MAX);
    s->blocks = w->blocks[index];
    for (int b = 0; b < SP_DIV_UP(s->n, B); b++) w->blocks[index][b] = w->order[w->next_block++];
    int32_t from = index == 0 ? 0 : *end, step = 0;
    if (scattered) from = below(seed, *end + 1);
    s->shift = below(seed, 3) == 0 ? 0 : -below(seed, 500);
    s->at = from - s->shift;
    for (int i = 0; i < s->n; i++) {
        w->pos[index][i] = s->at + i + (step += scattered ? below(seed, 3) : 0);
    }
    if (scattered) s->pos = w->pos[index];
    if (below(seed, 2) == 0) {
        for (int i = index == 0; i < s->n; i++) {
            bool run = below(seed, 2) && i / 20 % 2; /* so that whole blocks are stale as well */
            if (run || below(seed, 4) == 0) w->stale[index][i / 64] |= 1ull << (i % 64);
        }
        if (below(seed, 2) == 0 && s->n > 40) w->stale[index][0] |= 0xffffffff0000;
        s->stale = w->stale[index];
    }
    *end = SP_MAX(*end, w->pos[index][s->n - 1] + s->shift + 1);
}

static void fill_kv(world *w, uint64_t *seed)
{
    const int n = w->s.G * w->s.D;
    float *k = random_floats(seed, n, 1), *v = random_floats(seed, n, 1);
    for (int i = 0; i < N_SPANS; i++) {
        const sp_span *s = &w->spans[i];
        for (int t = 0; t < s->n; t++) {
            if (is_stale(s, t) || at(s, t) + s->shift > w->query_pos[M - 1]) continue;
            fill(seed, k, n, 2);
            fill(seed, v, n, 1);
            store(w, s, t, at(s, t), k, v);
        }
    }
    sp_free(k);
    sp_free(v);
}

/* Makes keys, sights and queries for given spans and positions of queries. */
static void world_fill(world *w, uint64_t *seed, int32_t end)
{
    const shape *s = &w->s;
    w->rope = make_rope(s->n_rot, s->adjacent, SP_MAX(N_POS, end + 1000), 1, &w->angles);
    fill_kv(w, seed);
    int n_list = 0;
    for (int i = 0; i < N_SPANS; i += 1 + below(seed, 2)) w->list[n_list++] = (uint16_t)i;
    w->sights[0] = (sp_sight){NULL, N_SPANS};
    w->sights[1] = (sp_sight){w->list, n_list};
    w->sights[2] = (sp_sight){NULL, 1 + below(seed, N_SPANS)};
    const int64_t n = M * s->H * s->D, n_mass = M * s->H * N_SPANS;
    w->q = random_floats(seed, n, 2);
    w->out = random_floats(seed, n, 1);
    w->expected = random_floats(seed, n, 1);
    w->mass = random_floats(seed, n_mass, 1);
    w->expected_mass = random_floats(seed, n_mass, 1);
    w->lse = random_floats(seed, M * s->H, 1);
    w->expected_lse = random_floats(seed, M * s->H, 1);
}

static void world_make(world *w, uint64_t *seed, sp_dtype type, const shape *s)
{
    int32_t end = 0, p = 0;
    world_open(w, seed, type, s, N_SPANS * SP_DIV_UP(SPAN_MAX, B));
    for (int i = 0; i < N_SPANS; i++) make_span(w, seed, i, &end);
    for (int m = 0; m < M; m++) {
        p += below(seed, SP_MAX(2, 2 * end / M));
        w->query_pos[m] = p;
        w->see[m] = (uint16_t)below(seed, N_SIGHTS);
        if (m > 0 && below(seed, 4)) w->see[m] = w->see[m - 1];
    }
    world_fill(w, seed, end);
}

/* A long prompt, which attend_int.h divides into seven pieces of eight steps:
 *
 *   span     0     1              2      3           4       5
 *   tokens   512   1100           70     600         576     300
 *   steps    0-7   8-25           26-27  28-37       38-46   47-51
 *   cuts        |8       16    24             32    40         48
 *
 * So pieces end between spans and inside spans. In span 1, all keys before step 16 are stale, and
 * some later ones. Span 4 is at the end of the prompt: the first queries see nothing of it, so of
 * the piece 40-47 only its last step. The queries are at the end, some between keys. */
static void world_make_long(world *w, uint64_t *seed, sp_dtype type, const shape *s)
{
    static const int32_t n[N_SPANS] = {512, 1100, 70, 600, 576, 300};
    static const int32_t from[N_SPANS] = {0, 512, 1612, 1682, 2582, 2282}; /* in the prompt */
    const int32_t end = 3158;
    world_open(w, seed, type, s, N_SPANS * SP_DIV_UP(LONG_MAX, B));
    for (int i = 0; i < N_SPANS; i++) {
        for (int b = 0; b < SP_DIV_UP(n[i], B); b++) w->blocks[i][b] = w->order[w->next_block++];
        int32_t shift = i % 2 ? -below(seed, 500) : 0;
        w->spans[i] =
            (sp_span){.blocks = w->blocks[i], .n = n[i], .at = from[i] - shift, .shift = shift};
    }
    for (int i = 0; i < 512; i++) w->stale[1][i / 64] |= 1ull << (i % 64);
    for (int i = 512; i < 1100; i += 1 + below(seed, 9)) w->stale[1][i / 64] |= 1ull << (i % 64);
    w->spans[1].stale = w->stale[1];
    for (int m = 0; m < M; m++) w->query_pos[m] = m < M / 2 ? 2562 + m : end - M + m;
    world_fill(w, seed, end);
}

/* -- running it -------------------------------------------------------------------------------- */

/* With masses, the log-sums go to w->lse or w->expected_lse. */
static sp_attend_req request(const world *w, int64_t first, int64_t m, float *out, float *mass)
{
    const int64_t width = w->s.H * w->s.D;
    return (sp_attend_req){
        .q = w->q + first * width,
        .out = out + first * width,
        .pos = w->query_pos + first,
        .see = w->see + first,
        .m = m,
        .spans = w->spans,
        .n_spans = N_SPANS,
        .sights = w->sights,
        .mass = mass ? mass + first * w->s.H * N_SPANS : NULL,
        .lse = mass ? (mass == w->mass ? w->lse : w->expected_lse) + first * w->s.H : NULL,
    };
}

static void attend(const sp_ops *ops, const world *w, const sp_attend_req *reqs, int n_reqs,
                   int n_parts)
{
    size_t bytes = sp_attend_scratch_bytes(w->s.H, w->s.G, w->s.D, N_SPANS);
    void *scratch = sp_alloc((size_t)n_parts, bytes);
    assert_non_null(scratch);
    memset(scratch, 0xff, (size_t)n_parts * bytes);
    memset(scratch, 0, SP_TURNS_BYTES);
    sp_attend_args a = {&w->kv, &w->rope, w->s.H,  1 / sqrtf((float)w->s.D),
                        reqs,   n_reqs,   scratch, bytes};
    for (int part = 0; part < n_parts; part++) ops->attend(&a, part, n_parts);
    sp_free(scratch);
}

typedef struct team_job {
    const sp_ops *ops;
    sp_attend_args args;
} team_job;

static void team_part(void *arg, int part, int n_parts)
{
    const team_job *j = arg;
    j->ops->attend(&j->args, part, n_parts);
}

/* Runs a request on a team of threads, twice with one scratch: a call must leave it ready for the
 * next. */
static void attend_on_team(const sp_ops *ops, const world *w, const sp_attend_req *req,
                           sp_team *team)
{
    size_t bytes = sp_attend_scratch_bytes(w->s.H, w->s.G, w->s.D, N_SPANS);
    void *scratch = sp_alloc((size_t)sp_team_size(team), bytes);
    assert_non_null(scratch);
    memset(scratch, 0xff, (size_t)sp_team_size(team) * bytes);
    memset(scratch, 0, SP_TURNS_BYTES);
    team_job j = {ops,
                  {&w->kv, &w->rope, w->s.H, 1 / sqrtf((float)w->s.D), req, 1, scratch, bytes}};
    for (int i = 0; i < 2; i++) {
        memset(req->out, 0xff, (size_t)(req->m * w->s.H * w->s.D) * sizeof(float));
        sp_team_run(team, team_part, &j);
    }
    for (int i = 0; i < SP_TURNS_BYTES; i++) assert_int_equal(((uint8_t *)scratch)[i], 0);
    sp_free(scratch);
}

static void attend_all(const sp_ops *ops, const world *w, float *out, float *mass, int n_parts)
{
    sp_attend_req req = request(w, 0, M, out, mass);
    attend(ops, w, &req, 1, n_parts);
}

typedef void check(const sp_ops *ops, world *w, uint64_t *seed);

/* Runs a check for every shape and type of cache. */
static void for_every_world(const sp_ops *ops, check *fn, int rounds)
{
    static const sp_dtype kinds[] = {SP_F32, SP_F16, SP_BF16, SP_Q16, SP_Q8_0};
    uint64_t seed = 7;
    for (size_t i = 0; i < SP_COUNT(shapes); i++) {
        for (size_t k = 0; k < SP_COUNT(kinds); k++) {
            if (shapes[i].D % sp_dtype_of(kinds[k])->n_group != 0) continue;
            for (int r = 0; r < rounds; r++) {
                world *w = SP_NEW(world);
                assert_non_null(w);
                world_make(w, &seed, kinds[k], &shapes[i]);
                fn(ops, w, &seed);
                world_close(w);
                sp_free(w);
            }
        }
    }
}

/* -- checks ------------------------------------------------------------------------------------ */

static void check_ref(const sp_ops *ops, world *w, uint64_t *seed)
{
    const int64_t n = M * w->s.H * w->s.D, n_mass = M * w->s.H * N_SPANS;
    /* Integer products also round the query: errors of 1e-4 in a score are usual at D = 256. */
    const float lse_bound = w->kv.type == SP_Q16 ? 1e-3f : 1e-4f;
    SP_UNUSED(seed);
    attend_all(reference(), w, w->expected, w->expected_mass, 1);
    attend_all(ops, w, w->out, w->mass, 1);
    assert_close(w->out, w->expected, n);
    assert_close(w->mass, w->expected_mass, n_mass);
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

/* Queries alone and in groups of any size: the same bits as all together, with and without
 * masses. */
static void check_pieces(const sp_ops *ops, world *w, uint64_t *seed)
{
    const int64_t n = M * w->s.H * w->s.D, n_mass = M * w->s.H * N_SPANS;
    attend_all(ops, w, w->expected, w->expected_mass, 1);
    for (int longest = 1; longest <= 11; longest += 5) {
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
    attend_all(ops, w, w->out, NULL, 1);
    assert_same_bits(w->out, w->expected, n);
}

static void query_does_not_depend_on_others(void **state)
{
    for_every_world(variant(state), check_pieces, 2);
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
        sp_attend_req req = request(w, q, 1, w->expected, w->expected_mass);
        attend(reference(), w, &req, 1, 1);
        assert_close(w->out + q * n, w->expected + q * n, n);
        assert_close(w->mass + q * n_mass, w->expected_mass + q * n_mass, n_mass);
        for (int64_t h = q * w->s.H; h < (q + 1) * w->s.H; h++) {
            double sum = 0;
            for (int s = 0; s < N_SPANS; s++) sum += (double)w->mass[h * N_SPANS + s];
            assert_true(fabs(sum - 1) < 1e-5);
            assert_true(fabsf(w->lse[h] - w->expected_lse[h]) < 1e-4f);
        }
    }
}

static void long_equals_ref(void **state)
{
    for_every_long_world(variant(state), check_long);
}

/* Any number of threads, all queries or a single one (whose pieces then run on different threads):
 * the same bits, with and without masses. */
static void check_threads(const sp_ops *ops, world *w, uint64_t *seed)
{
    static const int counts[] = {1, 2, 3, 7};
    const int64_t n = w->s.H * w->s.D, n_mass = w->s.H * N_SPANS;
    SP_UNUSED(seed);
    attend_all(ops, w, w->expected, w->expected_mass, 1);
    for (size_t i = 0; i < SP_COUNT(counts); i++) {
        sp_team *team;
        assert_int_equal(sp_team_create(&team, counts[i]), SP_OK);
        for (int masses = 0; masses < 2; masses++) {
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
            store(w, s, t, at(s, t), k, v);
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
            fill_kv(w, &same);
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
        assert_close(out, want, D);
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
        ON_EVERY_VARIANT(equals_ref),
        {"ref: sees_what_the_definition_says", sees_what_the_definition_says, NULL, NULL, "ref"},
        ON_EVERY_VARIANT(sees_what_the_definition_says),
        ON_EVERY_VARIANT(query_does_not_depend_on_others),
        ON_EVERY_VARIANT(parts_make_the_whole),
        ON_EVERY_VARIANT(requests_do_not_mix),
        ON_EVERY_VARIANT(long_equals_ref),
        ON_EVERY_VARIANT(threads_give_equal_bits),
        ON_EVERY_VARIANT(pieces_and_tiles_do_not_mix),
        ON_EVERY_VARIANT(words_do_not_overflow),
        ON_EVERY_VARIANT(words_that_are_not_finite_stay_apart),
        {"ref: position_is_free", position_is_free, NULL, NULL, "ref"},
        ON_EVERY_VARIANT(position_is_free),
    };
    return cmocka_run_group_tests_name("attend", tests, NULL, NULL);
}
