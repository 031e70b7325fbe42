/* replicas.c -- several servers behind a router, with or without a tier that they share.
 *
 *   requests   arrive at random (Poisson) at a given rate; the router chooses the server
 *   a server   serves one request after another: it loads what its own tiers or the shared one have, computes the rest
 *              of the prompt, and is free for the next; decoding is not part of it
 *   shared     has what any server has computed, from then on; loads are at latency + bytes / bandwidth, without
 *              contention
 *
 * Routers: random; least, the server that is free first; hash, consistent by the request's first document;
 * bounded-hash, the same, and the next one on the ring while a server has BOUND times the average of requests. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "cli/alloc.h"
#include "cli/cli.h"
#include "lab/numbers.h"
#include "lab/sim/sim.h"

#define BOUND 2.0 /* examples/haproxy.cfg: hash-balance-factor 200 */
enum { POINTS = 64 /* of a server on the ring */ };

/* -- options ---------------------------------------------------------------------------------------------- */

/* number_with -- "2ms": a number, then one of the units; *v is in seconds or bytes. False: neither. */
static bool number_with(const char *text, size_t n, const char *const *units, const double *worth, double *v)
{
    char copy[32], *after;
    if (n == 0 || n >= sizeof copy) return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    *v = strtod(copy, &after);
    if (after == copy || !(*v >= 0) || !isfinite(*v)) return false;
    for (int i = 0; units[i]; i++)
        if (strcmp(after, units[i]) == 0) return *v *= worth[i], true;
    return false;
}

static bool read_part(const char *name, size_t n_name, const char *text, size_t n, sim_shared *out)
{
    static const char *const times[] = {"s", "ms", "us", NULL};
    static const double seconds[] = {1, 1e-3, 1e-6};
    static const char *const sizes[] = {"",     "K",    "M",    "G",    "T",    "B/s", "KB/s",
                                        "MB/s", "GB/s", "TB/s", "KiB/s", "MiB/s", "GiB/s", NULL};
    static const double bytes[] = {1,   1024, 1048576, 1073741824, 1099511627776.0, 1,         1e3,
                                   1e6, 1e9,  1e12,    1024,       1048576,         1073741824};
    if (n_name == 7 && memcmp(name, "latency", 7) == 0) return number_with(text, n, times, seconds, &out->latency);
    if (n_name == 9 && memcmp(name, "bandwidth", 9) == 0)
        return number_with(text, n, sizes, bytes, &out->bytes_per_s) && out->bytes_per_s > 0;
    return n_name == 4 && memcmp(name, "size", 4) == 0 && number_with(text, n, sizes, bytes, &out->bytes) &&
           out->bytes > 0;
}

bool sim_shared_parse(const char *text, sim_shared *out)
{
    *out = (sim_shared){.there = true, .latency = 0.002, .bytes_per_s = 1e9};
    for (const char *at = text; *at;) {
        const size_t n = strcspn(at, ","), n_name = strcspn(at, "=");
        if (n_name >= n || !read_part(at, n_name, at + n_name + 1, n - n_name - 1, out))
            return cli_fail_with("sim: --remote %s: latency=2ms,bandwidth=1GB/s, and size=1T if it has a limit", text),
                   false;
        at += n + (at[n] == ',');
    }
    return true;
}

static const char *const router_names[SIM_ROUTERS] = {"random", "least", "hash", "bounded-hash"};

bool sim_router_parse(const char *name, sim_router *out)
{
    for (int i = 0; i < SIM_ROUTERS; i++)
        if (strcmp(name, router_names[i]) == 0) return *out = (sim_router)i, true;
    return cli_fail_with("sim: --router %s: random, least, hash or bounded-hash", name), false;
}

const char *sim_router_name(sim_router r)
{
    return router_names[r];
}

/* -- servers ---------------------------------------------------------------------------------------------- */

typedef struct server {
    sim_cache *tier[SIM_TIERS];
    double free_at;
    int n_waiting; /* requests that it has not finished, or begun */
    int64_t n_requests;
} server;

/* When a request is over, and whose it is: a heap, the earliest on top. */
typedef struct ending {
    double at;
    int server;
} ending;

typedef struct point {
    uint64_t hash;
    int server;
} point;

typedef struct world {
    const sim_trace *t;
    const sim_opts *o;
    const sim_plan *p;
    const sim_fleet *f;
    server *servers;
    point *ring;     /* [n_servers * POINTS], by hash */
    ending *heap;    /* [n_requests] at most */
    int64_t n_heap;
    bool *hit[SIM_TIERS], *shared_hit; /* [most] of the present request */
    sim_cache *shared;                 /* with a limit; else: */
    uint8_t *known;                    /* [n_docs] the shared tier has it */
    double *ttft;
    uint64_t random;
    sim_fleet_result r;
} world;

static void push_ending(world *w, double at, int whose)
{
    int64_t i = w->n_heap++;
    while (i > 0 && w->heap[(i - 1) / 2].at > at) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = (ending){at, whose};
}

/* pop_endings -- of requests that are over by now. */
static void pop_endings(world *w, double now)
{
    while (w->n_heap > 0 && w->heap[0].at <= now) {
        w->servers[w->heap[0].server].n_waiting--;
        const ending last = w->heap[--w->n_heap];
        int64_t i = 0;
        for (;;) {
            int64_t k = 2 * i + 1;
            if (k >= w->n_heap) break;
            if (k + 1 < w->n_heap && w->heap[k + 1].at < w->heap[k].at) k++;
            if (w->heap[k].at >= last.at) break;
            w->heap[i] = w->heap[k];
            i = k;
        }
        w->heap[i] = last;
    }
}

/* -- routers ---------------------------------------------------------------------------------------------- */

static int compare_points(const void *a, const void *b)
{
    const point *x = a, *y = b;
    return (x->hash > y->hash) - (x->hash < y->hash);
}

static void make_ring(world *w)
{
    const int n = w->f->n_servers * POINTS;
    w->ring = cli_alloc((size_t)n, sizeof *w->ring);
    for (int i = 0; i < n; i++) {
        uint64_t seed = (uint64_t)i + 1;
        w->ring[i] = (point){lab_random(&seed), i / POINTS};
    }
    qsort(w->ring, (size_t)n, sizeof *w->ring, compare_points);
}

/* by_hash -- the first server after the document's point that is within the bound. */
static int by_hash(const world *w, int64_t r, bool bounded)
{
    const int n = w->f->n_servers * POINTS;
    uint64_t seed = (uint64_t)w->t->docs[w->t->first[r]] * UINT64_C(0x9e3779b97f4a7c15) + 1;
    const uint64_t hash = lab_random(&seed);
    const double most = ceil(BOUND * (double)(w->n_heap + 1) / w->f->n_servers);
    int low = 0, high = n;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (w->ring[mid].hash < hash)
            low = mid + 1;
        else
            high = mid;
    }
    for (int i = 0; bounded && i < n; i++) {
        const int s = w->ring[(low + i) % n].server;
        if (w->servers[s].n_waiting < most) return s;
    }
    return w->ring[low % n].server;
}

static int first_free(const world *w)
{
    int best = 0;
    for (int i = 1; i < w->f->n_servers; i++)
        if (w->servers[i].free_at < w->servers[best].free_at) best = i;
    return best;
}

static int choose(world *w, int64_t r)
{
    switch (w->f->router) {
    case SIM_RANDOM:
        return (int)(lab_random(&w->random) % (uint64_t)w->f->n_servers);
    case SIM_LEAST:
        return first_free(w);
    default:
        return by_hash(w, r, w->f->router == SIM_BOUNDED_HASH);
    }
}

/* -- one request ------------------------------------------------------------------------------------------ */

static bool is_shared(const world *w, int64_t r, int64_t i)
{
    if (!w->f->shared.there) return false;
    return w->shared ? w->shared_hit[i - w->t->first[r]] : w->known[w->t->docs[i]];
}

/* place_of -- the first tier that has document i of request r; n_tiers: the shared one; -1: none, or computing is
 * sooner. *load: seconds. */
static int place_of(const world *w, int64_t r, int64_t i, double compute, double *load)
{
    const double bytes = w->t->size[w->t->docs[i]] * w->p->kv_bytes;
    int k = 0;
    while (k < w->p->n_tiers && !w->hit[k][i - w->t->first[r]]) k++;
    const bool own = k < w->p->n_tiers;
    const double rate = own ? w->p->tier[k].bytes_per_s : w->f->shared.bytes_per_s;
    if (!own && !is_shared(w, r, i)) return -1;
    *load = rate > 0 ? bytes / rate : 0;
    return *load > compute ? -1 : k;
}

/* serve -- seconds that the server needs for the request. */
static double serve(world *w, int64_t r)
{
    double loading = 0, cached = 0, fresh = 0;
    bool asked = false;
    for (int64_t i = w->t->first[r]; i < w->t->first[r + 1]; i++) {
        const double n = w->t->size[w->t->docs[i]];
        double load = 0;
        const int k = place_of(w, r, i, sim_compute_s(w->o, w->p, cached, n), &load);
        if (k >= 0) {
            w->r.n_hits[k]++;
            w->r.tokens_hit += (int64_t)n;
        }
        if (k == w->p->n_tiers) w->r.bytes_read += n * w->p->kv_bytes;
        if (k < 0 && w->f->shared.there && !is_shared(w, r, i)) w->r.bytes_written += n * w->p->kv_bytes;
        if (w->known) w->known[w->t->docs[i]] = 1;
        asked |= k == w->p->n_tiers;
        loading += load * (k >= 0);
        w->r.tokens += (int64_t)n;
        *(k >= 0 ? &cached : &fresh) += n;
    }
    w->r.cold += sim_compute_s(w->o, w->p, 0, cached + fresh);
    return (asked ? w->f->shared.latency : 0) + loading + sim_compute_s(w->o, w->p, cached, fresh);
}

static bool take(world *w, int64_t r, double now)
{
    pop_endings(w, now);
    const int s = choose(w, r);
    server *at = &w->servers[s];
    for (int k = 0; k < w->p->n_tiers; k++)
        if (!sim_cache_request(at->tier[k], r, w->hit[k])) return false;
    if (w->shared && !sim_cache_request(w->shared, r, w->shared_hit)) return false;
    const double took = serve(w, r);
    at->free_at = fmax(at->free_at, now) + took;
    at->n_waiting++;
    at->n_requests++;
    w->r.busy += took;
    w->ttft[r] = at->free_at - now;
    push_ending(w, at->free_at, s);
    return true;
}

/* -- all of them ------------------------------------------------------------------------------------------ */

static bool open_tier(const world *w, double bytes, sim_cache **out)
{
    sim_opts o = *w->o;
    o.memory = (int64_t)fmin(bytes / w->p->kv_bytes, 2.0 * (double)w->f->all_tokens);
    if (sim_cache_open(w->t, &o, out)) return true;
    *out = NULL;
    return false;
}

static bool open_world(world *w)
{
    bool good = true;
    const size_t n = (size_t)w->f->n_servers, most = (size_t)w->t->most;
    const sim_shared *shared = &w->f->shared;
    w->servers = cli_alloc(n, sizeof *w->servers);
    w->ttft = cli_alloc((size_t)w->t->n_requests, sizeof *w->ttft);
    w->heap = cli_alloc((size_t)w->t->n_requests, sizeof *w->heap);
    w->shared_hit = cli_alloc(most, sizeof *w->shared_hit);
    for (int k = 0; k < w->p->n_tiers; k++) w->hit[k] = cli_alloc(most, sizeof **w->hit);
    for (size_t i = 0; good && i < n; i++)
        for (int k = 0; good && k < w->p->n_tiers; k++)
            good = open_tier(w, w->p->tier[k].bytes, &w->servers[i].tier[k]);
    const bool limited = shared->bytes > 0 && shared->bytes / w->p->kv_bytes < (double)w->f->all_tokens;
    if (good && shared->there && limited) good = open_tier(w, shared->bytes, &w->shared);
    if (shared->there && !limited) w->known = cli_alloc((size_t)w->t->n_docs, 1);
    make_ring(w);
    return good;
}

static void close_world(world *w)
{
    for (int i = 0; i < w->f->n_servers; i++)
        for (int k = 0; k < w->p->n_tiers; k++)
            if (w->servers[i].tier[k]) sim_cache_close(w->servers[i].tier[k]);
    if (w->shared) sim_cache_close(w->shared);
    for (int k = 0; k < w->p->n_tiers; k++) free(w->hit[k]);
    free(w->shared_hit);
    free(w->known);
    free(w->servers);
    free(w->ring);
    free(w->heap);
    free(w->ttft);
}

static void add_up(world *w, double last)
{
    const int n = (int)w->t->n_requests;
    int64_t most = 0;
    double end = last;
    for (int i = 0; i < w->f->n_servers; i++) {
        most = SP_MAX(most, w->servers[i].n_requests);
        end = fmax(end, w->servers[i].free_at);
    }
    for (int64_t r = 0; r < n; r++) w->r.ttft += w->ttft[r] / n;
    w->r.ttft_p50 = lab_quantile(w->ttft, n, 0.5);
    w->r.ttft_p99 = lab_quantile(w->ttft, n, 0.99);
    w->r.busy /= end * w->f->n_servers;
    w->r.busiest = (double)most * w->f->n_servers / n;
    w->r.cold /= n;
}

/* default_rate -- requests a second that keep the servers busy for 70 % of the time without any cache. */
static double default_rate(const world *w)
{
    double cold = 0;
    const int64_t n = SP_MIN(w->t->n_requests, INT64_C(10000));
    for (int64_t r = 0; r < n; r++) {
        double tokens = 0;
        for (int64_t i = w->t->first[r]; i < w->t->first[r + 1]; i++) tokens += w->t->size[w->t->docs[i]];
        cold += sim_compute_s(w->o, w->p, 0, tokens) / (double)n;
    }
    return 0.7 * w->f->n_servers / cold;
}

bool sim_fleet_run(const sim_trace *t, const sim_opts *o, const sim_plan *p, const sim_fleet *f, sim_fleet_result *out)
{
    world w = {.t = t, .o = o, .p = p, .f = f, .random = f->seed};
    const int64_t began = sp_clock_us();
    double now = 0;
    bool good = open_world(&w);
    w.r.rate = f->rate > 0 ? f->rate : default_rate(&w);
    for (int64_t r = 0; good && r < t->n_requests; r++) {
        now -= log(lab_unit(&w.random)) / w.r.rate;
        good = take(&w, r, now);
    }
    if (good) add_up(&w, now);
    *out = w.r;
    out->seconds = (double)(sp_clock_us() - began) / 1e6;
    close_world(&w);
    return good;
}
