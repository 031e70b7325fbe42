/* attend_world.h -- random prompts for tests of span attention, and how attention runs over them. */
#ifndef SP_TESTS_ATTEND_WORLD_H
#define SP_TESTS_ATTEND_WORLD_H

#include "base/hash.h"
#include "base/threads.h"
#include "compute/kernel/attend.h"
#include "kernel/span_world.h"

enum {
    N_SPANS = 6,
    SPAN_MAX = 75, /* tokens, in short prompts */
    LONG_MAX = 1100,
    N_SIGHTS = 3,
    M = 41,
    N_POS = 2048 /* least positions in the tables */
};

static const shape shapes[] = {
    {4, 4, 8, 8, false},    {14, 2, 64, 64, false}, {8, 1, 16, 8, true},    {4, 2, 80, 80, true},
    {2, 2, 96, 48, false},  {6, 3, 128, 128, true}, {2, 1, 256, 64, false}, {3, 3, 2, 2, true},
    {40, 1, 32, 32, false}, {5, 5, 6, 0, false},    {12, 4, 32, 32, true},  {7, 1, 22, 20, false},
};

typedef struct world {
    uint64_t born; /* the seed that it was made from */
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
    int32_t window; /* as in sp_attend_args */
    float cap;
    const float *sinks;
    float *angles; /* of rope */
    float *q, *out, *expected, *mass, *expected_mass, *lse, *expected_lse;
} world;

/* -- making a prompt --------------------------------------------------------------------------- */

static void world_open(world *w, uint64_t *seed, sp_dtype type, const shape *s, uint32_t n_blocks)
{
    memset(w, 0, sizeof *w);
    w->born = *seed;
    w->s = *s;
    w->n_blocks = n_blocks;
    for (uint32_t i = 0; i < n_blocks; i++) w->order[i] = i;
    for (uint32_t i = n_blocks - 1; i > 0; i--) {
        uint32_t j = (uint32_t)below(seed, (int)i + 1), t = w->order[i];
        w->order[i] = w->order[j];
        w->order[j] = t;
    }
    w->kv = open_kv(s, type, n_blocks);
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

/* Makes keys, sights and queries for given spans and positions of queries. */
static void world_fill(world *w, uint64_t *seed, int32_t end)
{
    const shape *s = &w->s;
    w->rope = make_rope(s->n_rot, s->adjacent, SP_MAX(N_POS, end + 1000), 1, &w->angles);
    fill_spans(&w->kv, &w->rope, w->spans, N_SPANS, w->query_pos[M - 1], seed);
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

/* A long prompt, which kernel/attend.h divides into seven pieces of eight steps:
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
                        reqs,   n_reqs,   scratch, bytes, w->cap, w->window, w->sinks};
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
                  {&w->kv, &w->rope, w->s.H, 1 / sqrtf((float)w->s.D), req, 1, scratch, bytes,
                   w->cap, w->window, w->sinks}};
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

/* What ref says of a prompt, kept: all variants are asked about the same prompts, and ref is slow. */
typedef struct said_of {
    uint64_t born;
    shape s;
    sp_dtype type;
    int32_t window;
    float cap;
    uint64_t sinks; /* a hash; 0: none */
    int64_t first, m;
} said_of;

typedef struct said {
    said_of of;
    float *out, *mass, *lse;
} said;

static void take_floats(float **to, const float *from, int64_t n)
{
    *to = sp_alloc((size_t)n, sizeof **to);
    assert_non_null(*to);
    memcpy(*to, from, (size_t)n * sizeof **to);
}

/* expect_ref -- fills w->expected, expected_mass and expected_lse of queries first .. first + m - 1. */
static void expect_ref(world *w, int64_t first, int64_t m)
{
    static said *all; /* to the end of the program */
    static size_t n_all, room;
    const int64_t rows = m * w->s.H, n = rows * w->s.D, n_mass = rows * N_SPANS, at_row = first * w->s.H;
    float *out = w->expected + at_row * w->s.D, *mass = w->expected_mass + at_row * N_SPANS;
    float *lse = w->expected_lse + at_row;
    said_of of;
    memset(&of, 0, sizeof of);
    of.born = w->born;
    of.s = w->s;
    of.type = w->kv.type;
    of.window = w->window;
    of.cap = w->cap;
    of.sinks = w->sinks ? sp_hash64(w->sinks, (size_t)w->s.H * sizeof *w->sinks) : 0;
    of.first = first;
    of.m = m;
    for (const said *s = all; s < all + n_all; s++) {
        if (memcmp(&s->of, &of, sizeof of) != 0) continue;
        memcpy(out, s->out, (size_t)n * sizeof *out);
        memcpy(mass, s->mass, (size_t)n_mass * sizeof *mass);
        memcpy(lse, s->lse, (size_t)rows * sizeof *lse);
        return;
    }
    sp_attend_req req = request(w, first, m, w->expected, w->expected_mass);
    attend(reference(), w, &req, 1, 1);
    if (n_all == room) {
        room = SP_MAX(64, 2 * room);
        all = realloc(all, room * sizeof *all);
        assert_non_null(all);
    }
    said *s = &all[n_all++];
    s->of = of;
    take_floats(&s->out, out, n);
    take_floats(&s->mass, mass, n_mass);
    take_floats(&s->lse, lse, rows);
}

typedef void check(const sp_ops *ops, world *w, uint64_t *seed);

/* Emulated kernels are slow, and share what divides the work with those of the CPU: fewer rounds, threads, worlds. */
#if SP_EMULATE
#define SP_EMULATED 1
#else
#define SP_EMULATED 0
#endif

/* Runs a check for every shape and type of cache; of emulated kernels for half of these pairs. */
static void for_every_world(const sp_ops *ops, check *fn, int rounds)
{
    uint64_t seed = 7;
    int n = 0;
    for (size_t i = 0; i < SP_COUNT(shapes); i++) {
        for (size_t k = 0; k < SP_COUNT(kv_types); k++) {
            if (shapes[i].D % sp_dtype_of(kv_types[k])->n_group != 0) continue;
            if (SP_EMULATED && (i + k) % 2) continue;
            for (int r = 0; r < rounds; r++) {
                if (is_left_out(&n)) continue;
                world *w = SP_NEW(world);
                assert_non_null(w);
                world_make(w, &seed, kv_types[k], &shapes[i]);
                fn(ops, w, &seed);
                world_close(w);
                sp_free(w);
            }
        }
    }
}

#endif
