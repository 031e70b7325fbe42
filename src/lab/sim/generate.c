/* generate.c -- workloads of the kinds that the papers use.
 *
 *   zipf      documents by rank, with chance 1 / rank^exponent
 *   uniform   all alike
 *   temporal  four of five documents were used by one of the last 64 requests, the fifth is uniform
 *   novel     sets of documents by Zipf, each time in another order (LMCache issue 4663)
 *
 * A request has top_k different documents. Sizes are log-normal, with a long tail. With drift, a
 * tenth of the ranks change places after so many requests. Source: DepCache section 6.1 (D11).
 */
#include <math.h>
#include <string.h>

#include "cli/alloc.h"
#include "cli/cli.h"
#include "lab/numbers.h"
#include "lab/sim/sim.h"

enum { RECENT = 64, MOST_TOKENS = 8192, TRIES = 1000 };

typedef struct maker {
    const sim_workload *w;
    sim_trace *t;
    double *chance; /* [n_docs] cumulated, of ranks */
    int32_t *at;    /* [n_docs] document of a rank */
    uint64_t random;
} maker;

static int32_t below(maker *m, int32_t n)
{
    return (int32_t)(lab_unit(&m->random) * n);
}

static double normal(maker *m)
{
    double radius = sqrt(-2 * log(lab_unit(&m->random)));
    return radius * cos(2 * 3.14159265358979323846 * lab_unit(&m->random));
}

static int32_t by_zipf(maker *m, int32_t n)
{
    double x = lab_unit(&m->random) * m->chance[n - 1];
    int32_t low = 0, high = n - 1;
    while (low < high) {
        int32_t mid = (low + high) / 2;
        if (m->chance[mid] < x)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int32_t by_recency(maker *m, int64_t request)
{
    const sim_trace *t = m->t;
    if (request == 0 || lab_unit(&m->random) < 0.2) return below(m, m->w->n_docs);
    int64_t from = t->first[SP_MAX(request - RECENT, 0)], to = t->first[request];
    return t->docs[from + (int64_t)(lab_unit(&m->random) * (double)(to - from))];
}

static bool taken(const sim_trace *t, int64_t from, int32_t doc)
{
    for (int64_t i = from; i < t->n_refs; i++)
        if (t->docs[i] == doc) return true;
    return false;
}

/* most_popular -- of those that the request does not have. */
static int32_t most_popular(const maker *m, int64_t from)
{
    int32_t rank = 0;
    while (taken(m->t, from, m->at[rank])) rank++;
    return m->at[rank];
}

/* add_set -- one of the sets of top_k neighbouring documents, shuffled. */
static void add_set(maker *m)
{
    sim_trace *t = m->t;
    int k = m->w->top_k;
    int32_t set = by_zipf(m, SP_MAX(m->w->n_docs / k, 1)), *docs = t->docs + t->n_refs;
    for (int32_t i = 0; i < k; i++) docs[i] = set * k + i;
    for (int32_t i = k - 1; i > 0; i--) {
        int32_t j = below(m, i + 1), doc = docs[i];
        docs[i] = docs[j];
        docs[j] = doc;
    }
    t->n_refs += k;
}

static void add_one_by_one(maker *m, int64_t request)
{
    sim_trace *t = m->t;
    int64_t from = t->n_refs;
    int n_tries = 0;
    while (t->n_refs < from + m->w->top_k) {
        int32_t doc;
        if (strcmp(m->w->kind, "zipf") == 0)
            doc = m->at[by_zipf(m, m->w->n_docs)];
        else
            doc = *m->w->kind == 't' ? by_recency(m, request) : below(m, m->w->n_docs);
        const bool again = taken(t, from, doc);
        if (again && ++n_tries < TRIES) continue;
        t->docs[t->n_refs++] = again ? most_popular(m, from) : doc; /* a steep curve draws hardly any other */
        n_tries = 0;
    }
}

static void drift(maker *m)
{
    for (int32_t i = 0; i < m->w->n_docs / 20; i++) {
        int32_t a = below(m, m->w->n_docs), b = below(m, m->w->n_docs), doc = m->at[a];
        m->at[a] = m->at[b];
        m->at[b] = doc;
    }
}

bool sim_workload_check(const sim_workload *w)
{
    static const char *const kinds[] = {"zipf", "temporal", "uniform", "novel"};
    bool known = false;
    for (size_t i = 0; i < SP_COUNT(kinds); i++) known |= strcmp(w->kind, kinds[i]) == 0;
    if (!known)
        cli_fail_with("sim: --generate %s: zipf, temporal, uniform or novel", w->kind);
    else if (w->n_docs / 2 < w->top_k)
        cli_fail_with("sim: --docs must be at least twice --top-k");
    else
        return true;
    return false;
}

bool sim_generate(const sim_workload *w, sim_trace *out)
{
    if (!sim_workload_check(w)) return false;
    size_t docs = (size_t)w->n_docs, requests = (size_t)w->n_requests;
    *out = (sim_trace){.docs = cli_alloc(requests * (size_t)w->top_k, sizeof *out->docs),
                       .first = cli_alloc(requests + 1, sizeof *out->first),
                       .size = cli_alloc(docs, sizeof *out->size),
                       .n_requests = w->n_requests,
                       .n_docs = w->n_docs,
                       .most = w->top_k};
    maker m = {.w = w, .t = out, .random = w->seed};
    m.chance = cli_alloc(docs, sizeof *m.chance);
    m.at = cli_alloc(docs, sizeof *m.at);
    double sum = 0, sigma = 0.8; /* the mean of exp(N(mu, sigma)) is exp(mu + sigma^2 / 2) */
    for (size_t i = 0; i < docs; i++) {
        double n = exp(log(w->mean_tokens) - sigma * sigma / 2 + sigma * normal(&m));
        out->size[i] = (int32_t)fmin(fmax(n, 1), MOST_TOKENS);
        out->largest = SP_MAX(out->largest, out->size[i]);
        m.chance[i] = sum += pow((double)i + 1, -(double)w->exponent);
        m.at[i] = (int32_t)i;
    }
    for (int64_t r = 0; r < w->n_requests; r++) {
        if (w->drift && r && r % w->drift == 0) drift(&m);
        out->first[r] = out->n_refs;
        if (strcmp(w->kind, "novel") == 0)
            add_set(&m);
        else
            add_one_by_one(&m, r);
        out->first[r + 1] = out->n_refs;
    }
    free(m.chance);
    free(m.at);
    return true;
}
