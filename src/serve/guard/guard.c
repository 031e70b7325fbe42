/* guard.c -- see guard.h: noting, judging and steering. */
#include "serve/guard/guard.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "serve/guard/checks.h"
#include "store/sweep.h"

enum { ENOUGH = 8 }; /* checks before a change */

static const float ratios[] = {0.15f, 0.3f, 0.5f}; /* steps of a policy that recomputes */
static const sp_reuse_policy sparse = {.name = "sparse"}; /* of the report */
#define MEMORY 0.8                                 /* weight of the past in the mean */

sp_err sp_guard_create(float share, float bound, sp_guard **out)
{
    if (!(share > 0 && share <= 1))
        return sp_fail(SP_E_ARG, "guard: a share of %g is not in 0..1", (double)share);
    if (!(bound > 0))
        return sp_fail(SP_E_ARG, "guard: a bound of %g nats is not above 0", (double)bound);
    sp_guard *g = SP_NEW(sp_guard);
    if (!g) return sp_fail_nomem("the guard");
    g->share = share;
    g->bound = bound;
    *out = g;
    return SP_OK;
}

void sp_guard_free_noted(sp_guard_noted *n)
{
    if (!n) return;
    sp_vec_fini(&n->prompt.segs);
    sp_arena_fini(&n->prompt.arena);
    sp_free(n->logits);
    sp_free(n);
}

void sp_guard_destroy(sp_guard *g)
{
    if (!g) return;
    assert(!g->check);
    sp_guard_free_noted(g->now);
    for (int i = 0; i < g->n_waiting; i++) sp_guard_free_noted(g->waiting[i]);
    sp_free(g);
}

/* -- steering ------------------------------------------------------------------------------- */

static int find_policy(const sp_guard *g, const sp_reuse_policy *p)
{
    for (int i = 0; i < g->n_policies; i++)
        if (g->policies[i].policy == p) return i;
    return -1;
}

void sp_guard_steer(const sp_guard *g, sp_reuse_choice *choice)
{
    int i = find_policy(g, choice->policy);
    if (i < 0) return;
    const sp_guard_report *r = &g->reports[i];
    choice->recompute = SP_MAX(choice->recompute, r->recompute);
    const sp_reuse_policy *p = choice->policy;
    for (int k = 0; r->n_raised && k < p->n_params; k++)
        if (p->params[k].replaces_share) choice->params[k] = 0; /* the share decides */
    if (r->fallen_back) choice->policy = sp_reuse_policy_default();
}

static bool is_due(const sp_guard *g, float *due)
{
    *due += g->share;
    if (*due < 1) return false;
    *due -= 1;
    return true;
}

bool sp_guard_samples(sp_guard *g, const sp_reuse_choice *choice)
{
    return !choice->policy->exact && is_due(g, &g->due);
}

bool sp_guard_steer_decode(sp_guard *g, bool *sampled)
{
    const int i = find_policy(g, &sparse);
    *sampled = false;
    if (i >= 0 && g->reports[i].fallen_back) return false;
    *sampled = is_due(g, &g->due_sparse);
    return true;
}

/* -- noting --------------------------------------------------------------------------------- */

static bool copy_prompt(const sp_guarded *of, sp_prompt *out)
{
    size_t n = (size_t)of->n_segs;
    if (sp_vec_reserve(&out->segs, n) != SP_OK) return false;
    for (size_t i = 0; i < n; i++) {
        sp_segment seg = of->segs[i];
        int32_t *tokens = sp_arena_take(&out->arena, (size_t)seg.n, sizeof *tokens);
        if (!tokens) return false;
        memcpy(tokens, seg.tokens, (size_t)seg.n * sizeof *tokens);
        seg.tokens = tokens;
        out->segs.v[out->segs.n++] = seg;
    }
    out->space = of->space;
    out->n_tokens = of->n_tokens;
    return true;
}

/* begin_note -- starts a note of up to n_rows tokens; NULL: no room. */
static sp_guard_noted *begin_note(sp_guard *g, const sp_guarded *of, int n_rows)
{
    if (g->n_waiting == SP_GUARD_WAITING) return NULL; /* I1 */
    sp_guard_noted *n = SP_NEW(sp_guard_noted);
    if (!n) return NULL;
    sp_arena_init(&n->prompt.arena);
    n->logits = sp_alloc((size_t)n_rows * (size_t)of->n_vocab, sizeof *n->logits);
    if (!n->logits || !copy_prompt(of, &n->prompt)) {
        sp_guard_free_noted(n);
        return NULL;
    }
    n->policy = of->policy;
    g->waiting[g->n_waiting++] = n;
    return n;
}

static void add_row(sp_guard_noted *n, const float *logits, int n_vocab)
{
    const size_t row = (size_t)n_vocab;
    memcpy(n->logits + (size_t)n->n_rows++ * row, logits, row * sizeof *logits);
}

void sp_guard_note(sp_guard *g, const sp_guarded *of, const float *logits)
{
    sp_guard_noted *n = begin_note(g, of, 1);
    if (n) add_row(n, logits, of->n_vocab);
}

sp_guard_noted *sp_guard_begin_sparse(sp_guard *g, const sp_guarded *of)
{
    sp_guard_noted *n = begin_note(g, of, SP_GUARD_ROWS);
    if (!n) return NULL;
    n->sparse = true;
    n->policy = &sparse;
    return n;
}

bool sp_guard_add_sparse(sp_guard_noted *n, int32_t before, const float *logits, int n_vocab)
{
    if (n->n_rows == SP_GUARD_ROWS) return false;
    n->tokens[n->n_rows] = before;
    add_row(n, logits, n_vocab);
    return true;
}

static bool has_any(const sp_guard_noted *n, const sp_digest *ids, size_t n_ids)
{
    for (size_t i = 0; i < n->prompt.segs.n; i++)
        if (sp_digest_among(&n->prompt.segs.v[i].id, ids, n_ids)) return true;
    return false;
}

void sp_guard_forget(sp_guard *g, const sp_digest *ids, size_t n)
{
    int left = 0;
    for (int i = 0; g && i < g->n_waiting; i++) {
        if (has_any(g->waiting[i], ids, n))
            sp_guard_free_noted(g->waiting[i]);
        else
            g->waiting[left++] = g->waiting[i];
    }
    if (g) g->n_waiting = left;
}

/* -- judging -------------------------------------------------------------------------------- */

static double log_sum_exp(const float *x, int n)
{
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmax(max, (double)x[i]);
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - max);
    return max + log(sum);
}

static int best_of(const float *x, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* divergence -- KL(p || q) of two rows of logits, in nats. */
static double divergence(const float *p, const float *q, int n)
{
    double zp = log_sum_exp(p, n), zq = log_sum_exp(q, n), kl = 0;
    for (int i = 0; i < n; i++) {
        double lp = (double)p[i] - zp;
        kl += exp(lp) * (lp - ((double)q[i] - zq));
    }
    return SP_MAX(kl, 0);
}

/* raise -- moves to the next ratio, or ends the policy. */
static void raise_ratio(sp_guard *g, int i)
{
    sp_guard_report *r = &g->reports[i];
    size_t step = 0;
    while (step < SP_COUNT(ratios) && ratios[step] <= r->recompute) step++;
    bool can = g->policies[i].policy->recomputes && step < SP_COUNT(ratios);
    g->policies[i].n_since = 0;
    if (can) {
        r->recompute = ratios[step];
        r->n_raised++;
        sp_log(SP_LOG_WARN, "guard: %s diverges by %.3f nats: recomputing %.0f %% from now on",
               r->policy, r->mean_kl, 100 * (double)r->recompute);
    } else {
        r->fallen_back = true;
        const char *now = g->policies[i].policy == &sparse ? "full attention" : "prefixes only";
        sp_log(SP_LOG_WARN, "guard: %s diverges by %.3f nats: %s from now on", r->policy,
               r->mean_kl, now);
    }
    r->mean_kl = 0;
}

static void judge(sp_guard *g, const sp_reuse_policy *policy, double kl, bool agrees)
{
    int i = find_policy(g, policy);
    if (i < 0 && g->n_policies == SP_GUARD_POLICIES) return;
    if (i < 0) {
        i = g->n_policies++;
        g->policies[i].policy = policy;
        g->reports[i].policy = policy->name;
    }
    sp_guard_report *r = &g->reports[i];
    r->mean_kl = g->policies[i].n_since ? MEMORY * r->mean_kl + (1 - MEMORY) * kl : kl;
    r->n_checked++;
    r->n_agreed += agrees;
    if (++g->policies[i].n_since >= ENOUGH && r->mean_kl > (double)g->bound && !r->fallen_back)
        raise_ratio(g, i);
}

void sp_guard_judge(sp_guard *g, const float *logits, int n_vocab)
{
    const sp_guard_noted *n = g->now;
    const int i = g->n_seen++ - n->sparse; /* the first token is never decoded sparsely */
    if (i < 0 || i >= n->n_rows) return;
    const float *noted = n->logits + (size_t)i * (size_t)n_vocab;
    if (i == 0) {
        g->kl = 0;
        g->agrees = true;
    }
    g->kl += divergence(logits, noted, n_vocab) / n->n_rows;
    g->agrees &= best_of(logits, n_vocab) == best_of(noted, n_vocab);
    if (i == n->n_rows - 1) judge(g, n->policy, g->kl, g->agrees);
}

const sp_guard_report *sp_guard_reports(const sp_guard *g, int *n)
{
    if (n) *n = g ? g->n_policies : 0;
    return g ? g->reports : NULL;
}
