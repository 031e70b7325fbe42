/* test_ledger_random.c -- a long random life of copies of chunks beside a list that is kept the simple
 * way: copies of every kind, patches, pins, worth, eviction, and why chunks are missing. */
#include "support/copy_bench.h"

enum {
    CHUNKS = 12,
    ENTRIES = 64,
    BUDGET = 24,
    MOST_PLACED = 6,
    PINS = 12,
    BLOCKS = BUDGET + 8,
    PLACES = 5
};

/* What copies are computed after: two heads, and one or two chunks after them. */
static const sp_digest prior[PLACES][3] = {
    {{{1}}}, {{{1}}, {{11}}}, {{{1}}, {{12}}, {{11}}}, {{{2}}}, {{{2}}, {{11}}}};
static const int n_prior[PLACES] = {1, 2, 3, 1, 2};

static int head_of(int place)
{
    return place < 3 ? 1 : 2;
}

/* A copy as it should be. */
typedef struct model {
    bool in, measured, heavy, is_patch;
    sp_copy_kind kind;
    int chunk, place, base; /* index of the entry below a patch */
    int32_t n_blocks;
    int64_t order; /* of use */
    int64_t used;  /* logical time of it */
    int64_t since; /* order in which copies came */
    float worth;
    int n_pins;       /* by the test, and by patches */
    const sp_copy *v; /* seen while pinned */
} model;

typedef struct life {
    bench b;
    model e[ENTRIES];
    bool seen[CHUNKS]; /* was cached once */
    int64_t tick, n_lookups, n_hits, n_evicted;
    int pinned[PINS], n_pinned;
    uint64_t seed;
} life;

/* Chunks 2 i and 2 i + 1 begin with the same block. */
static sp_segment chunk(int i)
{
    return numbered(1000 * (i / 2), 17 + i * 7 % 60);
}

static int random_below(life *l, int n)
{
    return check_random(&l->seed, n);
}

/* -- the simple way ------------------------------------------------------------------------- */

static int n_blocks(const life *l)
{
    int n = 0;
    for (int i = 0; i < ENTRIES; i++) n += l->e[i].in ? l->e[i].n_blocks : 0;
    return n;
}

static int n_of(const life *l, bool only_placed)
{
    int n = 0;
    for (int i = 0; i < ENTRIES; i++)
        n += l->e[i].in && (!only_placed || l->e[i].kind == SP_COPY_PLACED);
    return n;
}

/* newest -- of the copies that match, the one that came last; -1: none. fused: whether it is a
 * fused one that is looked for; place < 0: any after head -place. */
static int newest(const life *l, int which, bool fused, bool patch, int place)
{
    int best = -1;
    for (int i = 0; i < ENTRIES; i++) {
        const model *e = &l->e[i];
        bool there = place < 0 ? head_of(e->place) == -place : e->place == place;
        if (e->in && e->chunk == which && (e->kind == SP_COPY_FUSED) == fused &&
            e->is_patch == patch && there && (best < 0 || e->since > l->e[best].since))
            best = i;
    }
    return best;
}

static int oldest_of(const life *l)
{
    int best = -1;
    for (int i = 0; i < ENTRIES; i++)
        if (l->e[i].in && !l->e[i].n_pins && (best < 0 || l->e[i].order < l->e[best].order))
            best = i;
    return best;
}

static int least_worth(const life *l)
{
    int best = -1;
    for (int i = 0; i < ENTRIES; i++) {
        const model *e = &l->e[i];
        if (!e->in || e->n_pins || e->kind != SP_COPY_PLACED) continue;
        if (best < 0 || e->worth < l->e[best].worth ||
            (e->worth == l->e[best].worth && e->order < l->e[best].order))
            best = i;
    }
    return best;
}

static void leave(life *l, int i)
{
    if (l->e[i].is_patch) l->e[l->e[i].base].n_pins--;
    l->e[i] = (model){0};
}

static bool evict(life *l, int i)
{
    if (i < 0) return false;
    leave(l, i);
    l->n_evicted++;
    return true;
}

static void touch(life *l, int i)
{
    l->e[i].order = ++l->tick;
    l->e[i].used = l->b.now;
}

/* come -- what an insertion should do; false: no room. */
static bool come(life *l, model c)
{
    int old = newest(l, c.chunk, c.kind == SP_COPY_FUSED, c.is_patch, c.place), to = 0;
    if (old >= 0 && (l->e[old].measured || !c.measured) && (l->e[old].heavy || !c.heavy)) {
        if (c.is_patch) touch(l, l->e[old].base);
        touch(l, old);
        return true;
    }
    const bool replaces = old >= 0 && !l->e[old].n_pins; /* in one place in the ledger: its worth stays */
    c.worth = replaces ? l->e[old].worth : 1;
    if (replaces) leave(l, old);
    while (c.kind == SP_COPY_PLACED && n_of(l, true) >= MOST_PLACED)
        if (!evict(l, least_worth(l))) return false;
    while (n_blocks(l) + c.n_blocks > BUDGET)
        if (!evict(l, oldest_of(l))) return false;
    while (l->e[to].in) assert_in_range(++to, 0, ENTRIES - 1);
    c.in = true;
    c.since = ++l->tick;
    l->e[to] = c;
    touch(l, to);
    if (c.is_patch) l->e[c.base].n_pins++;
    l->seen[c.chunk] = true;
    for (int i = 0; c.kind == SP_COPY_FUSED && i < ENTRIES; i++)
        if (i != to && l->e[i].in && l->e[i].chunk == c.chunk && l->e[i].kind == SP_COPY_FUSED &&
            !l->e[i].n_pins && head_of(l->e[i].place) == head_of(c.place))
            leave(l, i);
    return true;
}

/* -- both ----------------------------------------------------------------------------------- */

static void pin(life *l, int i, const sp_copy *v)
{
    l->e[i].v = v;
    if (l->n_pinned < PINS) {
        l->pinned[l->n_pinned++] = i;
        l->e[i].n_pins++;
    } else {
        sp_ledger_unpin(l->b.ledger, v);
    }
}

static void assert_is(const life *l, int i, const sp_copy *v)
{
    const model *e = &l->e[i];
    assert_int_equal(v->facts.kind, e->kind);
    assert_int_equal(v->facts.n_before, n_prior[e->place]);
    assert_memory_equal(v->facts.before, prior[e->place],
                        (size_t)v->facts.n_before * sizeof *v->facts.before);
    assert_int_equal(sp_copy_is_measured(&v->facts), e->measured);
    assert_int_equal(v->facts.heavy != NULL, e->heavy);
    assert_int_equal(v->base != NULL, e->is_patch);
    assert_true(sp_kv_is_sealed(l->b.pool, v->blocks[0]));
}

/* random_insert -- of some kind; a patch over a copy that is pinned. */
static void random_insert(life *l)
{
    static int32_t some[MAX_BLOCKS * B];
    static const float inter[3] = {1, 1, 1};
    int i = random_below(l, CHUNKS), place = random_below(l, PLACES), base = -1;
    sp_segment seg = chunk(i);
    for (int32_t t = 0; t < MAX_BLOCKS * B; t++) some[t] = t;
    for (int k = 0; k < l->n_pinned; k++)
        if (l->e[l->pinned[k]].chunk == i && !l->e[l->pinned[k]].is_patch && random_below(l, 2))
            base = l->pinned[k];
    model c = {.chunk = i,
               .place = place,
               .kind = base >= 0 || n_prior[place] > 1 ? SP_COPY_PLACED : SP_COPY_PLAIN,
               .measured = base >= 0 || random_below(l, 2),
               .heavy = base < 0 && random_below(l, 3) == 0,
               .is_patch = base >= 0,
               .base = base};
    if (base < 0 && random_below(l, 4) == 0) c.kind = SP_COPY_FUSED;
    int32_t n = base >= 0 ? 1 + random_below(l, seg.n) : seg.n;
    c.n_blocks = small_blocks(n);
    sp_copy_spec v = {.facts.kind = c.kind,
                      .facts.before = prior[place],
                      .facts.n_before = n_prior[place],
                      .facts.n_head = 1,
                      .facts.stats =
                          c.measured ? (sp_copy_stats){inter, 0.75f, some} : (sp_copy_stats){0},
                      .facts.heavy = c.heavy ? some : NULL,
                      .base = base >= 0 ? l->e[base].v : NULL,
                      .patch.n = base >= 0 ? n : 0,
                      .patch.tokens = base >= 0 ? some : NULL};
    l->b.now++; /* as enter() will count */
    bool want = come(l, c);
    l->b.now--;
    assert_int_equal(enter(&l->b, &seg, v), want);
}

static void random_find(life *l)
{
    int i = random_below(l, CHUNKS), place = random_below(l, PLACES);
    bool fused = random_below(l, 3) == 0;
    sp_segment seg = chunk(i);
    int want = newest(l, i, fused, false, fused ? -head_of(place) : place);
    if (!fused && n_prior[place] > 1) want = -1; /* placed copies serve policies that compare them */
    const sp_copy *v = fused ? find_fused(&l->b, &seg, prior[place])
                             : find_plain(&l->b, &seg, prior[place], n_prior[place]);
    assert_int_equal(v != NULL, want >= 0);
    l->n_lookups++;
    l->n_hits += v != NULL;
    if (!v) return;
    assert_is(l, want, v);
    touch(l, want);
    pin(l, want, v);
}

/* index_of -- which entry a measured copy is. */
static int index_of(const life *l, int which, const sp_copy *v, const bool *taken)
{
    for (int i = 0; i < ENTRIES; i++) {
        const model *e = &l->e[i];
        if (e->in && !taken[i] && e->chunk == which && e->measured && e->kind == v->facts.kind &&
            e->is_patch == (v->base != NULL) && e->heavy == (v->facts.heavy != NULL) &&
            n_prior[e->place] == v->facts.n_before &&
            memcmp(prior[e->place], v->facts.before,
                   (size_t)v->facts.n_before * sizeof *v->facts.before) == 0 &&
            (!e->v || e->v == v))
            return i;
    }
    fail_msg("chunk %d has a copy that should not be there", which);
    return -1;
}

/* random_choice -- of all measured copies one is used, as Cache-Craft does. */
static void random_choice(life *l)
{
    static const float cfos[] = {0, 0.005f, 0.25f, 0.5f, 1};
    int i = random_below(l, CHUNKS), place = random_below(l, PLACES), n, want = 0;
    sp_segment seg = chunk(i);
    const sp_copy **all;
    bool taken[ENTRIES] = {false};
    sp_arena arena = {0};
    for (int k = 0; k < ENTRIES; k++)
        want += l->e[k].in && l->e[k].chunk == i && l->e[k].measured &&
                head_of(l->e[k].place) == head_of(place);
    sp_content_query q = query(&seg, prior[place], 1);
    assert_ok(sp_by_content_all(l->b.ledger, &q, &arena, &all, &n));
    assert_int_equal(n, want);
    l->n_lookups++;
    l->n_hits += n > 0;
    int chosen = n ? random_below(l, n) : -1;
    for (int k = 0; k < n; k++) {
        int at = index_of(l, i, all[k], taken);
        taken[at] = true;
        l->e[at].v = all[k];
        if (k != chosen) {
            sp_ledger_unpin(l->b.ledger, all[k]);
            continue;
        }
        float cfo = cfos[random_below(l, SP_COUNT(cfos))];
        sp_ledger_use(l->b.ledger, all[k], cfo, ++l->b.now);
        l->e[at].worth += cfo > 1 / 100.f ? 1 / cfo : 100;
        if (l->e[at].is_patch) touch(l, l->e[at].base);
        touch(l, at);
        pin(l, at, all[k]);
    }
    sp_arena_fini(&arena);
}

static void random_unpin(life *l)
{
    if (l->n_pinned == 0) return;
    int k = random_below(l, l->n_pinned), i = l->pinned[k];
    sp_ledger_unpin(l->b.ledger, l->e[i].v);
    l->e[i].n_pins--;
    l->pinned[k] = l->pinned[--l->n_pinned];
}

static void assert_why(const life *l, int i)
{
    static const sp_digest nobodys_head = {{99}};
    sp_segment seg = chunk(i);
    sp_miss want = l->seen[i]       ? SP_MISS_EVICTED
                   : l->seen[i ^ 1] ? SP_MISS_EDITED
                                    : SP_MISS_NEVER_SEEN;
    for (int k = 0; k < ENTRIES; k++)
        if (l->e[k].in && l->e[k].chunk == i) want = SP_MISS_OTHER_HEAD;
    assert_int_equal(why(&l->b, &seg, &nobodys_head), want);
}

static void assert_equal(const life *l)
{
    sp_ledger_stats got = stats_of(&l->b);
    int victim = oldest_of(l);
    assert_int_equal(got.n_copies, n_of(l, false));
    assert_int_equal(got.n_placed, n_of(l, true));
    assert_int_equal(got.n_blocks, n_blocks(l));
    assert_in_range(got.n_blocks, 0, BUDGET);
    assert_in_range(got.n_placed, 0, MOST_PLACED);
    assert_int_equal(got.n_lookups, l->n_lookups);
    assert_int_equal(got.n_hits, l->n_hits);
    assert_int_equal(got.n_evicted, l->n_evicted);
    assert_int_equal(sp_kv_pool_n_free(l->b.pool), BLOCKS - n_blocks(l));
    assert_int_equal(oldest(&l->b), victim < 0 ? INT64_MAX : l->e[victim].used);
}

static void random_lives_keep_the_invariants(void **state)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        life *l = SP_NEW(life);
        assert_non_null(l);
        l->seed = seed;
        bench_placed(&l->b, BLOCKS, BUDGET, MOST_PLACED);
        for (int round = 0; round < 6000; round++) {
            int what = random_below(l, 20);
            if (what < 7) {
                random_insert(l);
            } else if (what < 10) {
                random_find(l);
            } else if (what < 13) {
                random_choice(l);
            } else if (what < 18) {
                random_unpin(l);
            } else if (what == 18) {
                assert_int_equal(evict_one(&l->b), evict(l, oldest_of(l)));
            } else {
                assert_why(l, random_below(l, CHUNKS));
            }
            assert_equal(l);
        }
        while (l->n_pinned) random_unpin(l);
        bench_end(&l->b);
        sp_free(l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lives_keep_the_invariants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
