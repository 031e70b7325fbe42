/* tiers.c -- capacity planning: hit rates and the time to the first token for tiers of given sizes.
 *
 * Each tier keeps its own choice of copies, by the policy, from all requests; a document is found in
 * the first tier that has it. Nothing overlaps: a request waits for what it loads, then computes the
 * rest. A document that is computed in less time than it loads is computed. Sizes are bytes divided
 * by the KV bytes of a token, so the model and the corpus may be of any size.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "cli/alloc.h"
#include "cli/cli.h"
#include "lab/numbers.h"
#include "lab/sim/sim.h"

/* size_of -- "64G": a number and K, M, G or T of 1,024; negative: none. Sets *end. */
static double size_of(const char *text, const char **end)
{
    static const char units[] = "KMGT";
    char *after;
    double v = strtod(text, &after);
    if (after == text || !(v > 0) || !isfinite(v)) return -1;
    const char *unit = *after ? strchr(units, *after) : NULL;
    for (const char *u = units; unit && u <= unit; u++) v *= 1024;
    *end = after + (unit != NULL);
    return v;
}

static bool parse_tier(const char **at, sim_tier *t)
{
    size_t n = strcspn(*at, ":,");
    if (n < 1 || n >= sizeof t->name || (*at)[n] != ':') return false;
    *t = (sim_tier){0};
    memcpy(t->name, *at, n);
    t->bytes = size_of(*at + n + 1, at);
    if (t->bytes > 0 && **at == '@') t->bytes_per_s = size_of(*at + 1, at);
    return t->bytes > 0 && t->bytes_per_s >= 0 && (**at == 0 || **at == ',');
}

bool sim_plan_parse(const char *text, sim_plan *out)
{
    const char *at = text;
    out->n_tiers = 0;
    while (out->n_tiers < SIM_TIERS) {
        if (!parse_tier(&at, &out->tier[out->n_tiers])) break;
        out->n_tiers++;
        if (!*at) return true;
        at++;
    }
    cli_fail_with("sim: --tiers %s: up to 4 of NAME:SIZE or NAME:SIZE@BYTES-A-SECOND, such as "
                  "device:8G,host:64G@25G,disk:1T@3G",
                  text);
    return false;
}

/* What the requests add up to. */
typedef struct sums {
    const sim_trace *t;
    const sim_opts *o;
    const sim_plan *p;
    sim_cache *cache[SIM_TIERS];
    bool *hit[SIM_TIERS]; /* [most] of the present request */
    int64_t n_hits[SIM_TIERS], n_refused;
    double *ttft; /* [n_requests] seconds */
    double cold;
} sums;

/* Without a profile the default cost is a count of tokens, nearly. */
double sim_compute_s(const sim_opts *o, const sim_plan *p, double cached, double fresh)
{
    if (fresh <= 0) return 0;
    double us = sp_cost_us(o->cost, (int32_t)cached, (int32_t)fresh);
    return o->cost ? us / 1e6 : us / p->tokens_per_s;
}

static void count_request(sums *s, int64_t r)
{
    double loading = 0, cached = 0, fresh = 0;
    for (int64_t i = s->t->first[r]; i < s->t->first[r + 1]; i++) {
        int k = 0, tier = 0;
        double n = s->t->size[s->t->docs[i]];
        while (tier < s->p->n_tiers && !s->hit[tier][i - s->t->first[r]]) tier++;
        bool found = tier < s->p->n_tiers;
        double rate = found ? s->p->tier[tier].bytes_per_s : 0;
        double load = rate > 0 ? n * s->p->kv_bytes / rate : 0;
        if (found && load > sim_compute_s(s->o, s->p, cached, n)) {
            s->n_refused++;
            found = false;
        }
        for (k = 0; found && k < SIM_TIERS; k++) s->n_hits[k] += k == tier;
        loading += found ? load : 0;
        *(found ? &cached : &fresh) += n;
    }
    s->ttft[r] = loading + sim_compute_s(s->o, s->p, cached, fresh);
    s->cold += sim_compute_s(s->o, s->p, 0, cached + fresh);
}

static void add_up(sums *s, sim_planned *out)
{
    int64_t n = s->t->n_requests;
    for (int k = 0; k < s->p->n_tiers; k++) {
        out->hit_rate[k] = (double)s->n_hits[k] / (double)s->t->n_refs;
        out->all_hits += out->hit_rate[k];
    }
    for (int64_t r = 0; r < n; r++) out->ttft += s->ttft[r] / (double)n;
    lab_sort(s->ttft, (size_t)n);
    out->ttft_p99 = s->ttft[(n - 1) * 99 / 100];
    out->ttft_cold = s->cold / (double)n;
    out->n_refused = s->n_refused;
}

bool sim_tiers(const sim_trace *t, const sim_opts *o, const sim_plan *p, sim_planned *out)
{
    sums s = {.t = t, .o = o, .p = p};
    bool good = true;
    int64_t began = sp_clock_us();
    *out = (sim_planned){0};
    s.ttft = cli_alloc((size_t)t->n_requests, sizeof *s.ttft);
    for (int k = 0; k < p->n_tiers; k++) s.hit[k] = cli_alloc((size_t)t->most, sizeof **s.hit);
    int64_t all = sim_trace_tokens(t);
    for (int k = 0; good && k < p->n_tiers; k++) {
        sim_opts tier = *o;
        tier.memory = (int64_t)fmin(p->tier[k].bytes / p->kv_bytes, 2.0 * (double)all);
        good = sim_cache_open(t, &tier, &s.cache[k]);
        if (!good) s.cache[k] = NULL;
    }
    for (int64_t r = 0; good && r < t->n_requests; r++) {
        for (int k = 0; good && k < p->n_tiers; k++)
            good = sim_cache_request(s.cache[k], r, s.hit[k]);
        if (good) count_request(&s, r);
    }
    if (good) add_up(&s, out);
    for (int k = 0; k < p->n_tiers; k++) {
        if (s.cache[k]) sim_cache_close(s.cache[k]);
        free(s.hit[k]);
    }
    free(s.ttft);
    out->seconds = (double)(sp_clock_us() - began) / 1e6;
    return good;
}
