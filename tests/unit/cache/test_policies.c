/* test_policies.c -- every replacement policy against a model of a few lines: the same random
 * sequence of uses, pins and looks leaves the same copies; and what "hazard" learns. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/ledger_bench.h"

#include "cache/by_content.h"
#include "cache/evict.h"
#include "cache/past.h"
#include "spolia_context.h"

enum { DOCS = 40, ROOM = 24 };

static const sp_digest head = {{9}};

/* What the model knows of a document. */
typedef struct doc {
    sp_segment seg;
    bool in;
    int n_pins;
    int64_t uses, last, order;
    double worth, recent, priority, expected;
    double cost, n_costs; /* of a token: sum, count */
} doc;

/* A profile that rises with cached tokens: a token after 4,000 cached ones costs five times as much as a first. */
static const sp_cost rising = {.n_cached = 3,
                               .n_new = 2,
                               .cached = {0, 1000, 4000},
                               .fresh = {1, 1001},
                               .us = {2, 2002, 4, 4004, 10, 10010}};

enum { AGES = 20, USES = 8, STEPS = 3000 };

static const int least_uses[USES] = {1, 2, 3, 4, 8, 16, 32, 64}; /* of each class */

typedef struct tally {
    double seen, expected;
} tally;

/* What "hazard" learned: all uses, and the tallies of its three factors (evict_hazard.c). */
typedef struct learned {
    struct {
        const doc *of;
        int64_t tick;
        int uses; /* class */
    } log[STEPS];
    int n, passed[AGES]; /* entries; those of each age that were judged */
    int64_t now;         /* of the last use */
    tally all, age[AGES], uses[USES], depth;
} learned;

typedef struct world {
    bench b;
    doc d[DOCS];
    learned l;
    const char *policy;
    bool ghosts;
    const sp_cost *profile;
    int64_t order;
    double clock, most_recent;
    uint64_t random;
} world;

static uint32_t dice(world *w, uint32_t n)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->random >> 33) % n;
}

static bool is(const world *w, const char *name)
{
    size_t n = strlen(name);
    return strncmp(w->policy, name, n) == 0 && (w->policy[n] == 0 || w->policy[n] == '+');
}

static double factor(const tally *t, double prior)
{
    return (t->seen + 3 * prior) / (t->expected + 3);
}

static double by_age(const learned *l, int k)
{
    return factor(&l->age[k], (l->all.seen + 1) / (l->all.expected + 1) * 8 * exp2(-0.8 * k));
}

static int uses_class(int64_t n)
{
    int c = 0;
    while (c + 1 < USES && n >= least_uses[c + 1]) c++;
    return c;
}

static void count(tally *t, bool used, double expected)
{
    t->seen += used;
    t->expected += expected;
}

static void learn(learned *l, int uses, int k, bool used)
{
    const double base = 1e-3 * least_uses[uses] * exp2(k), a = by_age(l, k), u = factor(&l->uses[uses], 1),
                 d = factor(&l->depth, 1);
    count(&l->all, used, base * u * d);
    count(&l->age[k], used, fmin(base * u * d, 1 / a));
    count(&l->uses[uses], used, fmin(base * a * d, 1));
    count(&l->depth, used, fmin(base * a * u, 1));
}

/* learn_use -- of a document at w->b.now, before it is counted: entries that are 2^(k+1) ticks old and were not used
 * since survived age 2^k. */
static void learn_use(world *w, const doc *d)
{
    learned *l = &w->l;
    l->now = w->b.now;
    for (int k = 0; k < AGES; k++)
        for (int *i = &l->passed[k]; *i < l->n && w->b.now - l->log[*i].tick >= 2 << k; ++*i)
            if (l->log[*i].of->last == l->log[*i].tick) learn(l, l->log[*i].uses, k, false);
    if (d->uses) learn(l, uses_class(d->uses), SP_MIN(ilogb((double)(w->b.now - d->last)), AGES - 1), true);
    l->log[l->n].of = d;
    l->log[l->n].tick = w->b.now;
    l->log[l->n++].uses = uses_class(d->uses + 1);
}

/* hazard -- how likely a use is, times what it saves; between two ages by the line through them. */
static double hazard(const world *w, const doc *d)
{
    const double age = fmax(1, (double)(w->l.now - d->last));
    const int k = SP_MIN(ilogb(age), AGES - 1);
    const double a = by_age(&w->l, k), b = by_age(&w->l, SP_MIN(k + 1, AGES - 1));
    const double at = a + (b - a) * (age / exp2(k) - 1), by_uses = factor(&w->l.uses[uses_class(d->uses)], 1);
    const double chance = 1e-3 * (double)d->uses * at * by_uses * factor(&w->l.depth, 1);
    return (chance + d->expected) * d->cost / d->n_costs;
}

static double priority(const world *w, const doc *d, double most_expected)
{
    if (is(w, "hazard")) return hazard(w, d);
    if (is(w, "lru")) return 0;
    if (is(w, "lfu")) return (double)d->uses;
    if (is(w, "fr")) return d->worth;
    if (is(w, "lacr"))
        return 0.2 * exp2(d->recent - w->most_recent) +
               0.8 * (most_expected > 0 ? d->expected / most_expected : 0);
    return d->priority; /* it was set when the document was used */
}

static void make_room(world *w, int n_blocks)
{
    for (;;) {
        int used = 0, least = -1;
        double most = 0;
        for (int i = 0; i < DOCS; i++) {
            used += w->d[i].in ? sp_blocks_for(w->d[i].seg.n) : 0;
            most = fmax(most, w->d[i].expected);
        }
        if (used + n_blocks <= ROOM) return;
        for (int i = 0; i < DOCS; i++) {
            const doc *d = &w->d[i], *l = least < 0 ? NULL : &w->d[least];
            if (!d->in || d->n_pins) continue;
            double p = priority(w, d, most), q = l ? priority(w, l, most) : 0;
            if (!l || p < q || (p == q && d->order < l->order)) least = i;
        }
        assert_true(least >= 0);
        if (is(w, "gdsf") || is(w, "pgdsf")) w->clock = fmax(w->clock, w->d[least].priority);
        w->d[least].in = false;
        w->d[least].expected = 0;
        if (w->ghosts) continue;
        w->d[least].uses = 0;
        w->d[least].worth = 1;
        w->d[least].recent = -INFINITY;
        w->d[least].cost = w->d[least].n_costs = 0;
    }
}

/* use -- one request counts once. token_cost: 0 of what was found. */
static void use(world *w, doc *d, double token_cost, double worth)
{
    int64_t now = w->b.now;
    d->cost += token_cost;
    d->n_costs += token_cost > 0;
    d->worth += worth;
    d->order = ++w->order;
    if (!d->uses || d->last != now) {
        if (is(w, "hazard")) learn_use(w, d);
        d->uses++;
        double x = (double)now / SP_EVICT_HALF_LIFE;
        d->recent = d->recent == -INFINITY ? x : x + log2(1 + exp2(d->recent - x));
        w->most_recent = fmax(w->most_recent, d->recent);
    }
    d->last = now;
    double in_window = exp2(d->recent - (double)now / SP_EVICT_HALF_LIFE);
    d->priority =
        w->clock + (is(w, "pgdsf") ? in_window * d->cost / d->n_costs : (double)d->uses);
}

static const sp_copy *look_up(world *w, const doc *d)
{
    sp_content_query q = {.seg = &d->seg, .head = &head, .n_head = 1};
    return sp_by_content_find(w->b.ledger, &q, SP_COPY_PLAIN, w->b.now);
}

static void read_or_add(world *w, doc *d)
{
    w->b.now += 1 + dice(w, 3);
    const sp_copy *c = look_up(w, d);
    assert_int_equal(c != NULL, d->in);
    if (c) {
        float cfo = 0.005f * (float)(1 + dice(w, 200));
        use(w, d, 0, 0);
        sp_ledger_use(w->b.ledger, c, cfo, w->b.now);
        use(w, d, 0, fmin(1 / (double)cfo, 100));
        sp_ledger_unpin(w->b.ledger, c);
        return;
    }
    uint32_t blocks[MAX_BLOCKS];
    sealed(w->b.pool, d->seg.n, blocks);
    sp_copy_spec spec = {.seg = &d->seg,
                         .facts.kind = SP_COPY_PLAIN,
                         .facts.exact = true,
                         .facts.at = 3,
                         .facts.before = &head,
                         .facts.n_before = 1,
                         .facts.n_head = 1,
                         .blocks = blocks,
                         .n_cached = (int32_t)dice(w, 4000),
                         .n_fresh = dice(w, 4) ? d->seg.n + (int32_t)dice(w, 500) : 0};
    int32_t fresh = spec.n_fresh ? spec.n_fresh : d->seg.n;
    if (!spec.n_fresh) spec.n_cached = 0; /* it is computed alone, after its head of 3 tokens */
    make_room(w, sp_blocks_for(d->seg.n));
    assert_ok(sp_ledger_add(w->b.ledger, &spec, w->b.now, &c));
    assert_non_null(c);
    sp_kv_release(w->b.pool, blocks, small_blocks(d->seg.n));
    d->in = true;
    use(w, d, sp_cost_us(w->profile, spec.n_fresh ? spec.n_cached : 3, fresh) / fresh, 0);
}

static const sp_copy *copy_of(const world *w, const doc *d)
{
    for (const sp_copy *c = NULL; (c = sp_ledger_next(w->b.ledger, c));)
        if (c->state == SP_COPY_READY && sp_digest_eq(&c->facts.id, &d->seg.id)) return c;
    return NULL;
}

static void pin_or_unpin(world *w, doc *d)
{
    int pinned = 0;
    for (int i = 0; i < DOCS; i++) pinned += w->d[i].n_pins;
    if (!d->in || (!d->n_pins && pinned > 3)) return;
    const sp_copy *c = copy_of(w, d);
    d->n_pins ? sp_ledger_unpin(w->b.ledger, c) : sp_ledger_pin(w->b.ledger, c);
    d->n_pins = !d->n_pins;
}

static void look_ahead(world *w)
{
    sp_ledger_look(w->b.ledger);
    for (int i = 0; i < DOCS; i++) w->d[i].expected = 0;
    for (int k = 0; k < 6; k++) {
        doc *d = &w->d[dice(w, DOCS)];
        const sp_copy *c = copy_of(w, d);
        if (!c) continue;
        float weight = 1 - (float)k / 8;
        d->expected = (float)d->expected + weight;
        sp_ledger_expect(w->b.ledger, c, weight);
    }
}

static void assert_same(const world *w)
{
    for (int i = 0; i < DOCS; i++) assert_int_equal(copy_of(w, &w->d[i]) != NULL, w->d[i].in);
}

static void compare(const char *policy, bool ghosts, const sp_cost *profile, uint64_t seed)
{
    static int32_t tokens[DOCS][3 * B];
    world w = {.policy = policy, .ghosts = ghosts, .profile = profile, .random = seed, .most_recent = -INFINITY};
    w.b.pool = small_pool(ROOM + 8);
    sp_ledger_opts o = {.pool = w.b.pool, .max_blocks = ROOM, .evict = policy, .cost = profile};
    assert_ok(sp_ledger_create(&o, &w.b.ledger));
    for (int i = 0; i < DOCS; i++) {
        int32_t n = 1 + (int32_t)dice(&w, 3 * B - 1);
        for (int32_t k = 0; k < n; k++) tokens[i][k] = i;
        w.d[i] = (doc){.seg = small_segment(tokens[i], n), .worth = 1, .recent = -INFINITY};
    }
    for (int step = 0; step < STEPS; step++) {
        uint32_t first = dice(&w, DOCS), second = dice(&w, DOCS);
        doc *d = &w.d[SP_MIN(first, second)]; /* low numbers are used more */
        uint32_t what = dice(&w, 10);
        if (what == 0)
            pin_or_unpin(&w, d);
        else if (what == 1)
            look_ahead(&w);
        else
            read_or_add(&w, d);
        assert_same(&w);
    }
    assert_true(stats_of(&w.b).n_evicted > 100);
    for (int i = 0; i < DOCS; i++)
        if (w.d[i].n_pins) pin_or_unpin(&w, &w.d[i]);
    bench_end(&w.b);
}

static void policies_equal_their_definitions(void **state)
{
    static const struct {
        const char *name;
        bool ghosts;
    } all[] = {{"lru", false},       {"lfu", false},        {"lfu+ghosts", true},
               {"gdsf", false},      {"gdsf+ghosts", true}, {"pgdsf", true},
               {"fr", false},        {"fr+ghosts", true},   {"lacr", false},
               {"lacr+ghosts", true}, {"hazard", true}};
    for (size_t i = 0; i < SP_COUNT(all); i++)
        for (uint64_t seed = 1; seed <= 4; seed++)
            compare(all[i].name, all[i].ghosts, seed % 2 ? NULL : &rising, seed);
    int n;
    const sp_evict_info *list = sp_evict_policies(&n);
    for (int k = 0; k < n; k++) {
        bool compared = false;
        for (size_t i = 0; i < SP_COUNT(all); i++) compared |= strcmp(all[i].name, list[k].name) == 0;
        if (!compared) fail_msg("%s is compared with nothing", list[k].name);
    }
}

/* -- hazard ---------------------------------------------------------------------------------- */

/* hits -- of 120 reads for each of the `size` copies that fit; a document is among the most popular ones, or
 * among the latest. */
static int hits(const char *policy, bool local, int size)
{
    static int32_t tokens[B];
    world w = {.random = 7};
    w.b.pool = small_pool(size + 14);
    sp_ledger_opts o = {.pool = w.b.pool, .max_blocks = size, .evict = policy};
    assert_ok(sp_ledger_create(&o, &w.b.ledger));
    int n_hits = 0;
    for (int t = 0; t < 120 * size; t++) {
        double x = dice(&w, 1 << 20) / (double)(1 << 20);
        int which = local ? t / 10 + (int)(0.8 * size * x) : (int)(20 * size * x * x * x);
        for (int k = 0; k < B; k++) tokens[k] = which;
        doc d = {.seg = small_segment(tokens, B)};
        const sp_copy *c = look_up(&w, &d);
        n_hits += c != NULL;
        d.in = c != NULL;
        if (c) sp_ledger_unpin(w.b.ledger, c);
        w.b.now++;
        uint32_t block;
        sealed(w.b.pool, B, &block);
        sp_copy_spec spec = {.seg = &d.seg,
                             .facts.kind = SP_COPY_PLAIN,
                             .facts.exact = true,
                             .facts.before = &head,
                             .facts.n_before = 1,
                             .facts.n_head = 1,
                             .blocks = &block};
        if (!d.in) assert_ok(sp_ledger_add(w.b.ledger, &spec, w.b.now, &c));
        sp_kv_release(w.b.pool, &block, 1);
    }
    bench_end(&w.b);
    return n_hits;
}

/* Of 50 copies all are compared, of 600 a sample. */
static void hazard_learns_what_matters(void **state)
{
    static const int sizes[] = {50, 600};
    for (size_t i = 0; i < SP_COUNT(sizes); i++) {
        const int n = sizes[i];
        int lru = hits("lru", false, n), lfu = hits("lfu+ghosts", false, n);
        assert_true(lfu > lru * 11 / 10); /* popular documents: frequency matters */
        assert_true(hits("hazard", false, n) > lfu * 95 / 100);
        lru = hits("lru", true, n), lfu = hits("lfu+ghosts", true, n);
        int own = hits("hazard", true, n);
        assert_true(lru > lfu * 11 / 10); /* recent documents: frequency misleads */
        assert_true(own > lru * 95 / 100);
        assert_int_equal(hits("hazard", true, n), own); /* no chance in it */
    }
}

/* A block saves what its tokens cost to compute, whatever the size of the copy; of equal ones the older goes. */
static void hazard_keeps_what_saves_time(void **state)
{
    sp_copy dear = {.facts.kind = SP_COPY_PLAIN, .state = SP_COPY_READY, .n = B, .name = 1};
    sp_copy small = dear, large = dear;
    sp_evict e = {0};
    small.name = 3;
    large.name = 5;
    large.n = 10 * B;
    assert_ok(sp_evict_init(&e, &(sp_evict_opts){.name = "hazard", .max_copies = 8}));
    assert_ok(sp_evict_reserve(&e, 3));
    sp_evict_add(&e, &dear, 1.5, 1);
    sp_evict_add(&e, &small, 1, 1);
    sp_evict_add(&e, &large, 1, 1);
    assert_ptr_equal(sp_evict_victim(&e), &small);
    sp_evict_drop(&e, &small);
    assert_ptr_equal(sp_evict_victim(&e), &large);
    sp_evict_look(&e);
    sp_evict_expect(&e, &large, 0.5F); /* a use in the queue outweighs half as much cost */
    assert_ptr_equal(sp_evict_victim(&e), &dear);
    sp_evict_drop(&e, &large);
    sp_evict_drop(&e, &dear);
    sp_evict_fini(&e);
}

/* Of up to 256 copies none is passed over: the cheapest goes, wherever it is. */
static void hazard_compares_all_of_few_copies(void **state)
{
    enum { N = 200 };
    static sp_copy c[N];
    sp_evict e = {0};
    assert_ok(sp_evict_init(&e, &(sp_evict_opts){.name = "hazard", .max_copies = N}));
    assert_ok(sp_evict_reserve(&e, N));
    for (int i = 0; i < N; i++) {
        c[i] = (sp_copy){.facts.kind = SP_COPY_PLAIN, .state = SP_COPY_READY, .n = B, .name = 1 + 2 * (uint64_t)i};
        sp_evict_add(&e, &c[i], i % 10 == 5 ? 0.1 + 0.001 * i : 1, 1);
    }
    for (int i = 5; i < N; i += 10) {
        assert_ptr_equal(sp_evict_victim(&e), &c[i]);
        sp_evict_drop(&e, &c[i]);
    }
    for (int i = 0; i < N; i++)
        if (i % 10 != 5) sp_evict_drop(&e, &c[i]);
    sp_evict_fini(&e);
}

/* A copy that goes while it is expected, the first or another, is not expected any more. */
static void what_goes_is_not_expected(void **state)
{
    for (int gone = 0; gone < 3; gone++) {
        sp_copy c[3];
        sp_evict e = {0};
        assert_ok(sp_evict_init(&e, &(sp_evict_opts){.name = "hazard", .max_copies = 8}));
        assert_ok(sp_evict_reserve(&e, 3));
        sp_evict_look(&e);
        for (int i = 0; i < 3; i++) {
            c[i] = (sp_copy){.facts.kind = SP_COPY_PLAIN, .state = SP_COPY_READY, .n = B, .name = 1 + 2 * (uint64_t)i};
            sp_evict_add(&e, &c[i], 1, 1 + i);
            sp_evict_expect(&e, &c[i], 0.5f);
        }
        sp_evict_drop(&e, &c[gone]);
        assert_int_equal(e.expected.n, 2);
        sp_evict_look(&e);
        for (int left = 2; left > 0; left--) {
            sp_copy *victim = sp_evict_victim(&e);
            assert_non_null(victim);
            assert_ptr_not_equal(victim, &c[gone]);
            sp_evict_drop(&e, victim);
        }
        assert_null(sp_evict_victim(&e));
        sp_evict_fini(&e);
    }
}

/* What copies of 1,000 prompts did depends on their depth alone: those that begin a prompt are used again, those that
 * continue one are not. Then the older of two goes if it is the deeper one, too. */
static void hazard_learns_by_depth(void **state)
{
    enum { N = 1000 };
    static sp_copy c[2 * N];
    sp_evict e = {0};
    int64_t now = 0;
    assert_ok(sp_evict_init(&e, &(sp_evict_opts){.name = "hazard", .max_copies = 2 * N}));
    assert_ok(sp_evict_reserve(&e, 2 * N));
    for (int i = 0; i < 2 * N; i++) {
        c[i] = (sp_copy){.state = SP_COPY_READY, .n = B, .name = 1 + 2 * (uint64_t)i};
        c[i].parent = i % 2 ? &c[i - 1] : NULL;
        sp_evict_add(&e, &c[i], 1, ++now);
        if (i >= 40 && i % 2 == 0) sp_evict_use(&e, &c[i - 40], ++now);
    }
    for (int i = 0; i < 2 * N - 2; i++) sp_evict_drop(&e, &c[i]);
    assert_ptr_equal(sp_evict_victim(&e), &c[2 * N - 1]); /* the newest */
    c[2 * N - 1].parent = NULL;
    assert_ptr_equal(sp_evict_victim(&e), &c[2 * N - 2]);
    sp_evict_fini(&e);
}

/* There is room for four copies whose names fall together: 1,000 that pass by do not make the policy forget one that
 * is always used, and it learns that those that pass by are not used again. */
static void hazard_forgets_what_was_used_longest_ago(void **state)
{
    enum { N = 1000, TOGETHER = 1 << 20 };
    static sp_copy c[N], always, other;
    sp_evict e = {0};
    int64_t now = 0;
    always = other = (sp_copy){.state = SP_COPY_READY, .n = B, .name = 1};
    other.name = 5;
    assert_ok(sp_evict_init(&e, &(sp_evict_opts){.name = "hazard", .max_copies = 8}));
    assert_ok(sp_evict_reserve(&e, N + 2));
    sp_evict_add(&e, &always, 1, ++now);
    for (int i = 0; i < N; i++) {
        c[i] = (sp_copy){.state = SP_COPY_READY, .n = B, .name = 1 + TOGETHER * (uint64_t)(i + 1), .parent = &always};
        if (i == N - 12) sp_evict_add(&e, &other, 1, ++now);
        sp_evict_add(&e, &c[i], 1, ++now);
        sp_evict_use(&e, &always, ++now);
    }
    for (int i = 0; i < N - 1; i++) sp_evict_drop(&e, &c[i]);
    sp_evict_drop(&e, &always);
    assert_ptr_equal(sp_evict_victim(&e), &c[N - 1]); /* the newer one */
    sp_evict_fini(&e);
}

/* A copy that a request reads or a child continues is no victim, expected or not. */
static void what_is_in_use_is_no_victim(void **state)
{
    int n;
    const sp_evict_info *list = sp_evict_policies(&n);
    for (int p = 0; p < 2 * n; p++) {
        sp_copy c[3];
        sp_evict e = {0};
        assert_ok(sp_evict_init(&e, &(sp_evict_opts){.name = list[p / 2].name, .max_copies = 8}));
        assert_ok(sp_evict_reserve(&e, 3));
        sp_evict_look(&e);
        for (int i = 0; i < 3; i++) {
            c[i] = (sp_copy){.facts.kind = SP_COPY_PLAIN, .state = SP_COPY_READY, .n = B, .name = 1 + 2 * (uint64_t)i};
            sp_evict_add(&e, &c[i], 1, 1 + i);
            if (p % 2) sp_evict_expect(&e, &c[i], 0.1f);
        }
        c[0].n_pins = c[1].children.n = 1;
        assert_ptr_equal(sp_evict_victim(&e), &c[2]);
        c[2].n_pins = 1;
        assert_null(sp_evict_victim(&e));
        sp_evict_fini(&e);
    }
}

/* Of more copies than are compared, a sample is: the least recently used one is always in it. */
static void hazard_always_considers_the_oldest(void **state)
{
    enum { N = 400 };
    static sp_copy c[N];
    sp_evict e = {0};
    assert_ok(sp_evict_init(&e, &(sp_evict_opts){.name = "hazard", .max_copies = N}));
    assert_ok(sp_evict_reserve(&e, N));
    for (int i = 0; i < N; i++) {
        c[i] = (sp_copy){.state = SP_COPY_READY, .n = B, .name = 1 + 2 * (uint64_t)i};
        sp_evict_add(&e, &c[i], 1, 1 + i);
    }
    for (int i = 0; i < 20; i++) {
        assert_ptr_equal(sp_evict_victim(&e), &c[i]);
        sp_evict_drop(&e, &c[i]);
    }
    sp_evict_fini(&e);
}

/* Of equals that are all expected, the least recently used. */
static void of_equals_the_oldest_goes(void **state)
{
    static const char *const names[] = {"lacr", "hazard"};
    for (size_t p = 0; p < SP_COUNT(names); p++) {
        sp_copy c[3];
        sp_evict e = {0};
        assert_ok(sp_evict_init(&e, &(sp_evict_opts){.name = names[p], .max_copies = 8}));
        assert_ok(sp_evict_reserve(&e, 3));
        sp_evict_look(&e);
        for (int i = 0; i < 3; i++) {
            c[i] = (sp_copy){.facts.kind = SP_COPY_PLAIN, .state = SP_COPY_READY, .n = B, .name = 1 + 2 * (uint64_t)i};
            sp_evict_add(&e, &c[i], 1, 1);
        }
        for (int i = 0; i < 3; i++) sp_evict_expect(&e, &c[(i + 1) % 3], 0.5f);
        assert_ptr_equal(sp_evict_victim(&e), &c[0]);
        sp_evict_fini(&e);
    }
}

/* A copy without KV is no victim: what waits for it takes nothing of the others' shares. */
static void a_copy_that_is_not_there_is_not_expected(void **state)
{
    sp_copy c = {.facts.kind = SP_COPY_PLAIN, .state = SP_COPY_FREE, .n = B, .name = 1};
    sp_evict e = {0};
    assert_ok(sp_evict_init(&e, &(sp_evict_opts){.name = "lacr", .max_copies = 8}));
    assert_ok(sp_evict_reserve(&e, 1));
    sp_evict_look(&e);
    sp_evict_expect(&e, &c, 4);
    assert_int_equal(e.expected.n, 0);
    assert_true(e.most_expected == 0);
    sp_evict_fini(&e);
}

/* What is remembered of a copy does not replace what it still knows: a lower tier kept it meanwhile. */
static void a_copy_that_stayed_keeps_its_counts(void **state)
{
    sp_copy c = {.facts.kind = SP_COPY_PLAIN, .state = SP_COPY_READY, .n = B, .name = 1};
    sp_evict e = {0};
    assert_ok(sp_evict_init(&e, &(sp_evict_opts){.name = "lfu+ghosts", .max_copies = 8}));
    assert_ok(sp_evict_reserve(&e, 1));
    sp_evict_add(&e, &c, 1, 1);
    sp_evict_drop(&e, &c);
    c.uses.n = 5;
    sp_evict_add(&e, &c, SP_EVICT_NOT_COMPUTED, 2);
    assert_int_equal(c.uses.n, 6);
    sp_evict_drop(&e, &c);
    c.uses = (sp_copy_uses){0}; /* no tier has it: what is remembered counts */
    sp_evict_add(&e, &c, 1, 3);
    assert_int_equal(c.uses.n, 7);
    sp_evict_fini(&e);
}

/* Of many copies uses halve more slowly: two uses long ago outweigh one that is half a half-life younger. */
static void uses_of_many_copies_fade_slowly(void **state)
{
    for (int many = 0; many < 2; many++) {
        const int64_t half_life = many ? 8 * SP_EVICT_HALF_LIFE : SP_EVICT_HALF_LIFE;
        sp_copy old = {.state = SP_COPY_READY, .n = B, .name = 1}, new = {.state = SP_COPY_READY, .n = B, .name = 3};
        sp_evict e = {0};
        assert_ok(sp_evict_init(&e, &(sp_evict_opts){.name = "lacr", .max_copies = many ? half_life : 8}));
        assert_ok(sp_evict_reserve(&e, 2));
        sp_evict_add(&e, &old, 1, 1);
        sp_evict_use(&e, &old, 2);
        sp_evict_add(&e, &new, 1, half_life / 2);
        assert_ptr_equal(sp_evict_victim(&e), &new);
        sp_evict_use(&e, &new, 3 * half_life / 2);
        assert_ptr_equal(sp_evict_victim(&e), &old);
        sp_evict_fini(&e);
    }
}

/* -- what they are made of ------------------------------------------------------------------- */

static void the_past_forgets_what_is_oldest(void **state)
{
    sp_past p;
    assert_ok(sp_past_init(&p, 4096));
    for (int64_t i = 0; i < 5; i++) /* one bucket of four */
        sp_past_put(&p, &(sp_past_copy){.name = 1 + (uint64_t)i * 4096, .uses.last = 10 + i % 4});
    assert_null(sp_past_find(&p, 1));
    for (uint64_t i = 1; i < 5; i++) assert_non_null(sp_past_find(&p, 1 + i * 4096));
    sp_past_put(&p, &(sp_past_copy){.name = 1 + 4096, .uses.n = 7});
    assert_int_equal(sp_past_find(&p, 1 + 4096)->uses.n, 7);
    for (uint64_t i = 0; i < 4; i++) /* another bucket, whose third is the oldest */
        sp_past_put(&p, &(sp_past_copy){.name = 3 + i * 4096, .uses.last = i == 2 ? 5 : 9});
    sp_past_put(&p, &(sp_past_copy){.name = 3 + 4 * 4096, .uses.last = 9});
    for (uint64_t i = 0; i < 5; i++) assert_int_equal(sp_past_find(&p, 3 + i * 4096) != NULL, i != 2);
    sp_past_fini(&p);
}

/* As many as it is made for, when their names are spread evenly. */
static void the_past_has_room_for_all(void **state)
{
    enum { N = 16384 };
    sp_past p;
    assert_ok(sp_past_init(&p, N));
    for (uint64_t i = 0; i < N; i++) sp_past_put(&p, &(sp_past_copy){.name = 1 + 2 * i, .uses.last = 1});
    for (uint64_t i = 0; i < N; i++) assert_non_null(sp_past_find(&p, 1 + 2 * i));
    sp_past_fini(&p);
}

static void costs_are_interpolated(void **state)
{
    sp_cost p = {.n_cached = 2,
                 .n_new = 3,
                 .cached = {0, 100},
                 .fresh = {1, 11, 21},
                 .us = {10, 20, 40, 110, 120, 140}};
    assert_true(fabs(sp_cost_us(&p, 0, 1) - 10) < 1e-9);
    assert_true(fabs(sp_cost_us(&p, 0, 6) - 15) < 1e-9);
    assert_true(fabs(sp_cost_us(&p, 50, 16) - 80) < 1e-9);
    assert_true(fabs(sp_cost_us(&p, 100, 31) - 160) < 1e-9); /* beyond the end: linear */
    assert_true(fabs(sp_cost_us(&p, 200, 1) - 210) < 1e-9);
    assert_true(sp_cost_us(&p, 0, 0) > 8.9 && sp_cost_us(&p, 0, -100) == 0); /* no time is negative */
    assert_true(sp_cost_us(NULL, 100, 10) > sp_cost_us(NULL, 0, 10));
    const double whole = sp_cost_us(NULL, 0, 2000), halves = sp_cost_us(NULL, 0, 1000) + sp_cost_us(NULL, 1000, 1000);
    assert_true(fabs(whole - halves) < 1e-6 * whole); /* each token looks at those before it */
}

static void profiles_are_checked(void **state)
{
    static const char good[] = "{\"cached\": [0, 100], \"new\": [1, 11, 21], \"us\": [[1, 2, 3], [4, 5, 6]]}";
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"{\"cached\": [0], \"new\": [1, 11], \"us\": [[1, 2]]}", "cached: a list of 2 to 16"},
        {"{\"cached\": [0, 9], \"new\": [1], \"us\": [[1], [2]]}", "new: a list of 2 to 16"},
        {"{\"cached\": [0, 9], \"new\": [1, 1], \"us\": [[1, 2], [3, 4]]}", "new: token counts must rise"},
        {"{\"cached\": [-1, 9], \"new\": [1, 2], \"us\": [[1, 2], [3, 4]]}", "cached: token counts must rise"},
        {"{\"cached\": [0, 9], \"new\": [1, 2], \"us\": [[1, 2]]}", "us: one row"},
        {"{\"cached\": [0, 9], \"new\": [1, 2], \"us\": [[1, 2], [3, 4, 5]]}", "us: one number"},
        {"{\"cached\": [0, 9], \"new\": [1, 2], \"us\": [[1, 2], [3, 0]]}", "us: times are positive"},
        {"{\"cached\": [0, 9], \"new\": [1, 2],\n \"us\": }", "line 2"},
    };
    char path[] = "/tmp/test_policies-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    sp_cost p;
    for (size_t i = 0; i <= SP_COUNT(bad); i++) {
        const char *text = i < SP_COUNT(bad) ? bad[i].text : good;
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
        if (i < SP_COUNT(bad)) assert_fails(sp_cost_read(path, &p), SP_E_FORMAT, bad[i].why);
    }
    assert_ok(sp_cost_read(path, &p));
    for (int cached = 0; cached < 2; cached++)
        for (int fresh = 0; fresh < 3; fresh++) /* a row for each number of cached tokens */
            assert_true(sp_cost_us(&p, 100 * cached, 1 + 10 * fresh) == 1 + 3 * cached + fresh);
    close(fd);
    remove(path);
    assert_fails(sp_cost_read(path, &p), SP_E_IO, path);
}

static void names_may_ask_for_ghosts(void **state)
{
    sp_kv_pool *pool = small_pool(1);
    sp_ledger *ledger = NULL;
    sp_ledger_opts o = {.pool = pool, .max_blocks = 1, .evict = "lfu+ghost"};
    assert_fails(sp_ledger_create(&o, &ledger), SP_E_ARG, "\"lfu+ghost\" is unknown");
    o.evict = "lf"; /* and no beginning of a name */
    assert_fails(sp_ledger_create(&o, &ledger), SP_E_ARG, "\"lf\" is unknown");
    o.evict = "+ghosts";
    assert_fails(sp_ledger_create(&o, &ledger), SP_E_ARG, "is unknown");
    int n_evict;
    const sp_evict_info *evict = sp_evict_policies(&n_evict);
    for (int i = 0; i < n_evict; i++) {
        o.evict = evict[i].name;
        assert_survives_faults(sp_ledger_create(&o, &ledger), ledger == NULL);
        sp_ledger_destroy(ledger);
        ledger = NULL;
    }
    small_pool_end(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_equal_their_definitions),
        cmocka_unit_test(hazard_learns_what_matters),
        cmocka_unit_test(hazard_keeps_what_saves_time),
        cmocka_unit_test(hazard_compares_all_of_few_copies),
        cmocka_unit_test(hazard_learns_by_depth),
        cmocka_unit_test(hazard_forgets_what_was_used_longest_ago),
        cmocka_unit_test(hazard_always_considers_the_oldest),
        cmocka_unit_test(what_goes_is_not_expected),
        cmocka_unit_test(what_is_in_use_is_no_victim),
        cmocka_unit_test(of_equals_the_oldest_goes),
        cmocka_unit_test(a_copy_that_is_not_there_is_not_expected),
        cmocka_unit_test(a_copy_that_stayed_keeps_its_counts),
        cmocka_unit_test(uses_of_many_copies_fade_slowly),
        cmocka_unit_test(the_past_forgets_what_is_oldest),
        cmocka_unit_test(the_past_has_room_for_all),
        cmocka_unit_test(costs_are_interpolated),
        cmocka_unit_test(profiles_are_checked),
        cmocka_unit_test(names_may_ask_for_ghosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
