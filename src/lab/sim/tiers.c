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

/* Without a profile the default cost is a count of tokens, nearly. */
double sim_compute_s(const sim_opts *o, const sim_plan *p, double cached, double fresh)
{
    if (fresh <= 0) return 0;
    double us = sp_cost_us(o->cost, (int32_t)cached, (int32_t)fresh);
    return o->cost ? us / 1e6 : us / p->tokens_per_s;
}

sim_needs sim_serve(const sim_scene *s, int64_t r)
{
    sim_needs out = {0};
    double loading = 0, cached = 0, fresh = 0;
    for (int64_t i = 0; i < s->t->first[r + 1] - s->t->first[r]; i++) {
        const int32_t doc = s->t->docs[s->t->first[r] + i];
        const double n = s->t->size[doc];
        int k = 0;
        while (k < s->p->n_tiers && !s->hit[k][i]) k++;
        const bool own = k < s->p->n_tiers, shared = s->known ? s->known[doc] : s->shared_hit && s->shared_hit[i];
        const double rate = own ? s->p->tier[k].bytes_per_s : s->shared->bytes_per_s;
        const double load = (own || shared) && rate > 0 ? n * s->p->kv_bytes / rate : 0;
        const bool found = (own || shared) && load <= sim_compute_s(s->o, s->p, cached, n);
        out.n_hits[k] += found;
        out.n_refused += (own || shared) && !found;
        if (found && !own) out.tokens_read += n;
        if (!found && !shared) out.tokens_new += n;
        if (s->known) s->known[doc] = 1;
        loading += found ? load : 0;
        *(found ? &cached : &fresh) += n;
    }
    if (out.n_hits[s->p->n_tiers]) loading += s->shared->latency;
    out.tokens_hit = cached;
    out.tokens = cached + fresh;
    out.seconds = loading + sim_compute_s(s->o, s->p, cached, fresh);
    out.cold = sim_compute_s(s->o, s->p, 0, out.tokens);
    return out;
}

int64_t sim_memory(const sim_trace *t, const sim_opts *o, double tokens)
{
    return (int64_t)fmin(tokens, 2.0 * (double)(o->by_path ? sim_trace_read_tokens(t) : sim_trace_tokens(t)));
}

bool sim_tier_open(const sim_scene *s, double bytes, sim_cache **out)
{
    sim_opts o = *s->o;
    o.memory = sim_memory(s->t, &o, bytes / s->p->kv_bytes);
    if (sim_cache_open(s->t, &o, out)) return true;
    *out = NULL;
    return false;
}

static void add(sim_planned *out, const sim_needs *needs, double n_requests)
{
    for (int k = 0; k < SIM_TIERS; k++) out->hit_rate[k] += needs->n_hits[k];
    out->n_refused += needs->n_refused;
    out->ttft += needs->seconds / n_requests;
    out->ttft_cold += needs->cold / n_requests;
}

bool sim_tiers(const sim_trace *t, const sim_opts *o, const sim_plan *p, sim_planned *out)
{
    static const sim_shared none;
    sim_scene s = {.t = t, .o = o, .p = p, .shared = &none};
    sim_cache *cache[SIM_TIERS] = {0};
    const int64_t n = t->n_requests, began = sp_clock_us();
    double *ttft = cli_alloc((size_t)n, sizeof *ttft);
    bool good = true;
    *out = (sim_planned){0};
    for (int k = 0; k < p->n_tiers; k++) {
        s.hit[k] = cli_alloc((size_t)t->most, sizeof **s.hit);
        good = good && sim_tier_open(&s, p->tier[k].bytes, &cache[k]);
    }
    for (int64_t r = 0; good && r < n; r++) {
        for (int k = 0; good && k < p->n_tiers; k++) good = sim_cache_request(cache[k], r, s.hit[k]);
        if (!good) break;
        const sim_needs needs = sim_serve(&s, r);
        ttft[r] = needs.seconds;
        add(out, &needs, (double)n);
    }
    for (int k = 0; k < p->n_tiers; k++) {
        out->all_hits += out->hit_rate[k] /= (double)t->n_refs;
        if (cache[k]) sim_cache_close(cache[k]);
        free(s.hit[k]);
    }
    lab_sort(ttft, (size_t)n);
    out->ttft_p99 = ttft[(n - 1) * 99 / 100];
    out->seconds = (double)(sp_clock_us() - began) / 1e6;
    free(ttft);
    return good;
}
