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
    double *ends; /* [n_requests] when each is over, ascending */
    size_t n_requests, n_over, cap;
} server;

typedef struct point {
    uint64_t hash;
    int server;
} point;

typedef struct world {
    sim_scene scene;
    const sim_fleet *f;
    server *servers;
    point *ring;       /* [n_servers * POINTS], by hash */
    sim_cache *shared; /* with a limit, or by path */
    double *ttft;
    uint64_t random;
    sim_fleet_result r;
} world;

static double free_at(const server *s)
{
    return s->n_requests ? s->ends[s->n_requests - 1] : 0;
}

/* n_waiting -- requests that the server has not finished, or begun. */
static size_t n_waiting(server *s, double now)
{
    while (s->n_over < s->n_requests && s->ends[s->n_over] <= now) s->n_over++;
    return s->n_requests - s->n_over;
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
static int by_hash(world *w, int64_t r, double now, bool bounded)
{
    const sim_trace *t = w->scene.t;
    const int n = w->f->n_servers * POINTS;
    const int64_t first = t->first[r], end = t->first[r + 1];
    uint64_t seed = (uint64_t)(first < end ? t->docs[first] : 0) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    const uint64_t hash = lab_random(&seed);
    int low = 0, high = n;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (w->ring[mid].hash < hash)
            low = mid + 1;
        else
            high = mid;
    }
    size_t all = 1;
    for (int i = 0; bounded && i < w->f->n_servers; i++) all += n_waiting(&w->servers[i], now);
    const double most = ceil(BOUND * (double)all / w->f->n_servers);
    for (int i = 0; bounded && i < n; i++) {
        const int s = w->ring[(low + i) % n].server;
        if ((double)n_waiting(&w->servers[s], now) < most) return s;
    }
    return w->ring[low % n].server;
}

static int first_free(const world *w)
{
    int best = 0;
    for (int i = 1; i < w->f->n_servers; i++)
        if (free_at(&w->servers[i]) < free_at(&w->servers[best])) best = i;
    return best;
}

static int choose(world *w, int64_t r, double now)
{
    switch (w->f->router) {
    case SIM_RANDOM: return (int)(lab_random(&w->random) % (uint64_t)w->f->n_servers);
    case SIM_LEAST:  return first_free(w);
    default:         return by_hash(w, r, now, w->f->router == SIM_BOUNDED_HASH);
    }
}

/* -- one request ------------------------------------------------------------------------------------------ */

static void add(sim_fleet_result *r, const sim_needs *needs, const world *w)
{
    for (int k = 0; k <= SIM_TIERS; k++) r->n_hits[k] += needs->n_hits[k];
    r->tokens += (int64_t)needs->tokens;
    r->tokens_hit += (int64_t)needs->tokens_hit;
    r->bytes_read += needs->tokens_read * w->scene.p->kv_bytes;
    if (w->f->shared.there) r->bytes_written += needs->tokens_new * w->scene.p->kv_bytes;
    r->cold += needs->cold;
    r->busy += needs->seconds;
}

static bool take(world *w, int64_t r, double now)
{
    server *at = &w->servers[choose(w, r, now)];
    for (int k = 0; k < w->scene.p->n_tiers; k++)
        if (!sim_cache_request(at->tier[k], r, w->scene.hit[k])) return false;
    if (w->shared && !sim_cache_request(w->shared, r, w->scene.shared_hit)) return false;
    const sim_needs needs = sim_serve(&w->scene, r);
    const double end = fmax(free_at(at), now) + needs.seconds;
    at->ends = cli_grow(at->ends, at->n_requests, &at->cap, sizeof *at->ends);
    at->ends[at->n_requests++] = end;
    w->ttft[r] = end - now;
    add(&w->r, &needs, w);
    return true;
}

/* -- all of them ------------------------------------------------------------------------------------------ */

static bool open_world(world *w)
{
    bool good = true;
    sim_scene *s = &w->scene;
    const size_t n = (size_t)w->f->n_servers;
    const sim_shared *shared = s->shared;
    const double room = shared->bytes > 0 ? shared->bytes : INFINITY;
    w->servers = cli_alloc(n, sizeof *w->servers);
    w->ttft = cli_alloc((size_t)s->t->n_requests, sizeof *w->ttft);
    for (int k = 0; k < s->p->n_tiers; k++) s->hit[k] = cli_alloc((size_t)s->t->most, sizeof **s->hit);
    for (size_t i = 0; good && i < n; i++)
        for (int k = 0; good && k < s->p->n_tiers; k++)
            good = sim_tier_open(s, s->p->tier[k].bytes, &w->servers[i].tier[k]);
    if (shared->there && (s->o->by_path || room / s->p->kv_bytes < (double)sim_trace_tokens(s->t))) {
        s->shared_hit = cli_alloc((size_t)s->t->most, sizeof *s->shared_hit);
        good = good && sim_tier_open(s, room, &w->shared);
    } else if (shared->there) {
        s->known = cli_alloc((size_t)s->t->n_docs, 1);
    }
    make_ring(w);
    return good;
}

static void close_world(world *w)
{
    for (int i = 0; i < w->f->n_servers; i++) {
        for (int k = 0; k < w->scene.p->n_tiers; k++)
            if (w->servers[i].tier[k]) sim_cache_close(w->servers[i].tier[k]);
        free(w->servers[i].ends);
    }
    if (w->shared) sim_cache_close(w->shared);
    for (int k = 0; k < w->scene.p->n_tiers; k++) free(w->scene.hit[k]);
    free(w->scene.shared_hit);
    free(w->scene.known);
    free(w->servers);
    free(w->ring);
    free(w->ttft);
}

static void add_up(world *w, double last)
{
    const int n = (int)w->scene.t->n_requests;
    size_t most = 0;
    double end = last;
    for (int i = 0; i < w->f->n_servers; i++) {
        most = SP_MAX(most, w->servers[i].n_requests);
        end = fmax(end, free_at(&w->servers[i]));
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
    const sim_scene *s = &w->scene;
    const int64_t n = SP_MIN(s->t->n_requests, INT64_C(10000));
    for (int64_t r = 0; r < n; r++) {
        double tokens = 0;
        for (int64_t i = s->t->first[r]; i < s->t->first[r + 1]; i++) tokens += s->t->size[s->t->docs[i]];
        cold += sim_compute_s(s->o, s->p, 0, tokens) / (double)n;
    }
    return 0.7 * w->f->n_servers / cold;
}

bool sim_fleet_run(const sim_trace *t, const sim_opts *o, const sim_plan *p, const sim_fleet *f, sim_fleet_result *out)
{
    world w = {.scene = {.t = t, .o = o, .p = p, .shared = &f->shared},
               .f = f,
               .random = f->seed};
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
