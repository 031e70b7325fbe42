/* evict_hazard.c -- this project's policy: evicts first what is least likely to save time soon, for its size. The
 * likelihood of a use is learned from the uses of all copies, dropped ones included.
 *
 *     hazard(copy) = (BASE * uses * by_age[k] * by_uses[u] * by_depth[d] + expected) * cost
 *     k     log2 of the ticks since its last use       u, d  classes of its uses, of its depth in a path
 *     cost  of computing a token of the copy, mean: a use saves size * cost, so a block of memory saves
 *           cost, however large the copy is
 *
 * Each factor is observed / expected, where "expected" has all the other factors in it, with a few
 * pseudo-counts towards a prior: by_age falls with age^0.8, the others are 1. Under
 * independent references by_age becomes flat, and the policy is LFU per block with a past; under
 * temporal locality by_age falls steeply, and it is LRU. What there is to observe:
 *
 *     log  | ... e ......................... now |     an entry a use, oldest first
 *                ^ cursor[k], 2^(k+1) ticks ago        not used since: survived ages 2^k .. 2^(k+1)
 *                                                      a use at age a: one event in k = log2 a
 *
 * Expected uses (sp_ledger_expect) are added to the chance: a weight of 1 is a use in the next tick.
 * Victims: up to MOST_EXACT copies are all compared; of more, the least recently used one and a random
 * sample, with its own seed, so that equal calls give equal victims. Cost: O(1) a victim except for
 * the heap; O(AGES) look-ups a use, 40 bytes for each remembered copy. Among a million copies, cache
 * misses dominate: memory is prefetched in rounds, so that the misses overlap.
 * Source: the hazard view of replacement is LHD's (Beckmann, Chen, Cidon, NSDI 2018); the factors,
 * their prior and the depth are this file's.
 */
#include <math.h>

#include "cache/evict.h"

enum {
    AGES = 20,
    USES = 8,
    DEPTHS = 4,
    WAYS = 4,
    LEAST_SLOTS = 4096,
    MOST_SLOTS = 1 << 20,
    MOST_EXACT = 256,
    SAMPLE = 64,
};

#define BASE       1e-3 /* uses per tick of a copy with one use, before anything is learned */
#define PSEUDO     3.0  /* expected events that the prior counts for */
#define PRIOR_RATE 8.0  /* of age 1, over the mean; falls with age^0.8 */

typedef struct tally {
    double observed, expected;
} tally;

typedef struct track {
    uint64_t name; /* 0: empty */
    int64_t last;
} track;

typedef struct seen {
    uint64_t name;
    int64_t tick;
    int32_t uses, depth; /* classes */
} seen;

typedef struct hazard {
    track *tracks; /* [n_slots] */
    seen *log;     /* [n_slots] a ring */
    size_t n_slots;
    int64_t n_log;        /* uses logged so far */
    int64_t cursor[AGES]; /* of n_log */
    tally all, age[AGES], uses[USES], depth[DEPTHS];
    double fall[AGES]; /* of the prior by age */
    uint64_t seed;
} hazard;

/* -- what is learned ------------------------------------------------------------------------ */

static int class_of_uses(int64_t n)
{
    if (n <= 3) return (int)n - 1;
    int log = 63 - __builtin_clzll((uint64_t)n);
    return SP_MIN(log + 1, USES - 1);
}

/* weight_of -- the least number of uses in each class. */
static double weight_of(int uses)
{
    return uses < 3 ? uses + 1 : (double)(1 << (uses - 1));
}

static int class_of_age(int64_t age)
{
    return age < 2 ? 0 : SP_MIN(63 - __builtin_clzll((uint64_t)age), AGES - 1);
}

static int class_of_depth(const sp_copy *c)
{
    int d = 0;
    for (const sp_copy *p = c->parent; p && d < DEPTHS - 1; p = p->parent) d++;
    return d;
}

static double factor(const tally *t, double prior)
{
    return (t->observed + PSEUDO * prior) / (t->expected + PSEUDO);
}

static double by_age(const hazard *h, int k)
{
    double mean = (h->all.observed + 1) / (h->all.expected + 1);
    return factor(&h->age[k], mean * PRIOR_RATE * h->fall[k]);
}

static void note(tally *t, bool used, double expected)
{
    t->observed += used;
    t->expected += expected;
}

/* learn -- a copy of age 2^k was used before age 2^(k+1), or was not. A chance is at most 1. */
static void learn(hazard *h, const seen *s, int k, bool used)
{
    double base = weight_of(s->uses) * (double)(INT64_C(1) << k) * BASE;
    double a = by_age(h, k), u = factor(&h->uses[s->uses], 1), d = factor(&h->depth[s->depth], 1);
    note(&h->all, used, base * u * d);
    note(&h->age[k], used, fmin(base * u * d, 1 / a));
    note(&h->uses[s->uses], used, fmin(base * a * d, 1));
    note(&h->depth[s->depth], used, fmin(base * a * u, 1));
}

/* -- the log -------------------------------------------------------------------------------- */

static track *bucket_of(const hazard *h, uint64_t name)
{
    return &h->tracks[name & (h->n_slots - 1) & ~(size_t)(WAYS - 1)];
}

static track *find_track(const hazard *h, uint64_t name)
{
    track *b = bucket_of(h, name);
    for (int i = 0; i < WAYS; i++)
        if (b[i].name == name) return &b[i];
    return NULL;
}

/* new_track -- in a full bucket the one that was used longest ago is forgotten. */
static track *new_track(hazard *h, uint64_t name)
{
    track *b = bucket_of(h, name), *to = b;
    for (int i = 0; i < WAYS && to->name; i++)
        if (!b[i].name || b[i].last < to->last) to = &b[i];
    *to = (track){.name = name};
    return to;
}

static seen *log_at(const hazard *h, int64_t i)
{
    return &h->log[(size_t)i & (h->n_slots - 1)];
}

/* due -- the end of the entries that cursor k passes at `now`; prefetches their tracks. */
static int64_t due(const hazard *h, int k, int64_t now)
{
    const int64_t until = now - (INT64_C(2) << k);
    int64_t i = h->cursor[k];
    for (; i < h->n_log && log_at(h, i)->tick <= until; i++)
        __builtin_prefetch(bucket_of(h, log_at(h, i)->name));
    return i;
}

/* survive -- moves the cursors to `now`. */
static void survive(hazard *h, int64_t now)
{
    int64_t end[AGES];
    for (int k = 0; k < AGES; k++) {
        h->cursor[k] = SP_MAX(h->cursor[k], h->n_log - (int64_t)h->n_slots);
        end[k] = due(h, k, now);
    }
    for (int k = 0; k < AGES; k++)
        for (; h->cursor[k] < end[k]; h->cursor[k]++) {
            const seen *s = log_at(h, h->cursor[k]);
            const track *t = find_track(h, s->name);
            if (t && t->last == s->tick) learn(h, s, k, false);
        }
}

static void hazard_use(sp_evict *e, sp_copy *c, int64_t now)
{
    hazard *h = e->state;
    track *t = find_track(h, c->name);
    if (t && t->last == now) return;
    survive(h, now);
    seen s = {.name = c->name, .tick = now, .depth = class_of_depth(c)};
    if (t && now > t->last && c->uses.n > 1) {
        s.uses = class_of_uses(c->uses.n - 1);
        learn(h, &s, class_of_age(now - t->last), true);
    }
    if (!t) t = new_track(h, c->name);
    t->last = now;
    s.uses = class_of_uses(c->uses.n);
    *log_at(h, h->n_log++) = s;
}

/* -- victims -------------------------------------------------------------------------------- */

/* Values shared by all copies that are compared. */
typedef struct factors {
    double age[AGES], uses[USES], depth[DEPTHS];
} factors;

static void make_factors(const hazard *h, factors *f)
{
    for (int k = 0; k < AGES; k++) f->age[k] = by_age(h, k);
    for (int u = 0; u < USES; u++) f->uses[u] = factor(&h->uses[u], 1);
    for (int d = 0; d < DEPTHS; d++) f->depth[d] = factor(&h->depth[d], 1);
}

/* at_age -- by_age, interpolated between classes so that the older of two copies ranks lower. */
static double at_age(const factors *f, int64_t age)
{
    int k = class_of_age(age);
    double share = age < 2 ? 0 : (double)age / (double)(INT64_C(1) << k) - 1;
    return f->age[k] + (f->age[SP_MIN(k + 1, AGES - 1)] - f->age[k]) * fmin(share, 1);
}

static double hazard_of(const sp_evict *e, const factors *f, const sp_copy *c)
{
    double rate = BASE * (double)c->uses.n * at_age(f, e->now - c->uses.last) *
                  f->uses[class_of_uses(c->uses.n)] * f->depth[class_of_depth(c)];
    rate += (double)sp_evict_expected(e, c);
    return rate * (double)c->uses.mean_cost;
}

static uint64_t next_random(hazard *h)
{
    h->seed ^= h->seed << 13;
    h->seed ^= h->seed >> 7;
    return h->seed ^= h->seed << 17;
}

/* A copy that may be the victim, and its hazard. */
typedef struct candidate {
    sp_copy *copy;
    double hazard;
} candidate;

static void consider(const sp_evict *e, const factors *f, sp_copy *c, candidate *best)
{
    if (!sp_copy_evictable(c)) return;
    double x = hazard_of(e, f, c);
    if (best->copy && (x > best->hazard || (x == best->hazard && c->used.order >= best->copy->used.order)))
        return;
    *best = (candidate){c, x};
}

/* prefetch -- the lines of a copy that `consider` reads. */
static void prefetch(const sp_copy *c)
{
    __builtin_prefetch(&c->n);
    __builtin_prefetch(&c->first);
    __builtin_prefetch(&c->state);
    __builtin_prefetch(&c->uses.last);
    __builtin_prefetch(&c->expected.look);
    __builtin_prefetch(&c->used.order);
}

/* draw -- n copies of the heap at random. */
static void draw(hazard *h, const sp_rank *r, sp_copy **out, size_t n)
{
    sp_copy *const *from[SAMPLE];
    for (size_t i = 0; i < n; i++) {
        from[i] = &r->heap.v[next_random(h) % r->heap.n];
        __builtin_prefetch(from[i]);
    }
    for (size_t i = 0; i < n; i++) prefetch(out[i] = *from[i]);
    for (size_t i = 0; i < n; i++)
        if (out[i]->parent) __builtin_prefetch(&out[i]->parent->parent);
}

static sp_copy *hazard_victim(sp_evict *e)
{
    hazard *h = e->state;
    factors f;
    sp_copy *drawn[SAMPLE];
    candidate best = {0};
    make_factors(h, &f);
    sp_copy *oldest = sp_rank_least(&e->rank); /* the least recently used */
    if (oldest) consider(e, &f, oldest, &best);
    const bool exact = e->rank.heap.n <= MOST_EXACT;
    if (!exact) draw(h, &e->rank, drawn, SAMPLE);
    const size_t n = exact ? e->rank.heap.n : SAMPLE;
    for (size_t i = 0; i < n; i++) consider(e, &f, exact ? e->rank.heap.v[i] : drawn[i], &best);
    for (size_t i = 0; i < e->expected.n; i++) consider(e, &f, e->expected.v[i], &best);
    return best.copy;
}

/* All are equal, so the heap is in the order of use. */
static double hazard_priority(const sp_evict *e, const sp_copy *c)
{
    return 0;
}

/* -- create and destroy --------------------------------------------------------------------- */

static void hazard_close(sp_evict *e)
{
    hazard *h = e->state;
    if (!h) return;
    sp_free(h->tracks);
    sp_free(h->log);
    sp_free(h);
    e->state = NULL;
}

static sp_err hazard_open(sp_evict *e, int64_t max_copies)
{
    hazard *h = SP_NEW(hazard);
    if (!h) return sp_fail_nomem("a replacement policy");
    e->state = h;
    h->seed = 1;
    for (int k = 0; k < AGES; k++) h->fall[k] = exp2(-0.8 * k);
    h->n_slots = LEAST_SLOTS;
    while ((int64_t)h->n_slots < 2 * max_copies && h->n_slots < MOST_SLOTS) h->n_slots *= 2;
    h->tracks = SP_NEW_N(track, h->n_slots);
    h->log = SP_NEW_N(seen, h->n_slots);
    return h->tracks && h->log ? SP_OK : sp_fail_nomem("a replacement policy");
}

const sp_evict_policy sp_evict_hazard = {
    .name = "hazard",
    .help = "drops what is least likely to save time soon, for its size; learns from past uses",
    .looks_ahead = true,
    .remembers = true,
    .open = hazard_open,
    .close = hazard_close,
    .use = hazard_use,
    .priority = hazard_priority,
    .victim = hazard_victim};
