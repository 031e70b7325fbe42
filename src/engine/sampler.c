#include "engine/sampler.h"

#include <math.h>

static sp_err check(const sp_sampling *p)
{
    if (!(p->temperature >= 0 && p->temperature < INFINITY))
        return sp_fail(SP_E_ARG, "temperature %g is not in [0, inf)", p->temperature);
    if (p->top_k < 0) return sp_fail(SP_E_ARG, "top-k %d is below 0", p->top_k);
    if (!(p->top_p > 0 && p->top_p <= 1))
        return sp_fail(SP_E_ARG, "top-p %g is not in (0, 1]", p->top_p);
    if (!(p->min_p >= 0 && p->min_p <= 1))
        return sp_fail(SP_E_ARG, "min-p %g is not in [0, 1]", p->min_p);
    if (!(p->repeat_penalty > 0 && p->repeat_penalty < INFINITY))
        return sp_fail(SP_E_ARG, "repeat penalty %g is not in (0, inf)", p->repeat_penalty);
    if (!isfinite(p->frequency_penalty) || !isfinite(p->presence_penalty))
        return sp_fail(SP_E_ARG, "a frequency or presence penalty is not a number");
    if (p->n_bias < 0 || (p->n_bias && !p->bias))
        return sp_fail(SP_E_ARG, "a list of %d logit biases", p->n_bias);
    if (p->repeat_last < 0) return sp_fail(SP_E_ARG, "repeat window %d is below 0", p->repeat_last);
    return SP_OK;
}

sp_err sp_sampler_init(sp_sampler *s, const sp_sampling *p, int n_vocab)
{
    SP_TRY(check(p));
    bool counts = p->frequency_penalty != 0 || p->presence_penalty != 0;
    for (int i = 0; i < p->n_bias; i++)
        if (p->bias[i].id < 0 || p->bias[i].id >= n_vocab || isnan(p->bias[i].bias))
            return sp_fail(SP_E_ARG, "logit bias %d: token %d or its bias is out of range", i,
                           p->bias[i].id);
    *s = (sp_sampler){.p = *p, .n_vocab = n_vocab, .rng = p->seed};
    size_t v = (size_t)n_vocab;
    s->heap = sp_alloc(v, sizeof *s->heap);
    s->kept = sp_alloc(v, sizeof *s->kept);
    s->prob = sp_alloc(v, sizeof *s->prob);
    s->recent = sp_alloc((size_t)p->repeat_last, sizeof *s->recent);
    if (counts) s->n_uses = sp_alloc_zero(v, sizeof *s->n_uses);
    if (!s->heap || !s->kept || !s->prob || !s->recent || (counts && !s->n_uses)) {
        sp_sampler_fini(s);
        return sp_fail_nomem("the sampler");
    }
    return SP_OK;
}

void sp_sampler_fini(sp_sampler *s)
{
    sp_free(s->heap);
    sp_free(s->kept);
    sp_free(s->prob);
    sp_free(s->recent);
    sp_free(s->n_uses);
    *s = (sp_sampler){0};
}

void sp_sampler_accept(sp_sampler *s, int32_t id)
{
    if (s->p.repeat_last == 0) return;
    s->recent[s->next_recent] = id;
    s->next_recent = (s->next_recent + 1) % s->p.repeat_last;
    s->n_recent = SP_MIN(s->n_recent + 1, s->p.repeat_last);
}

bool sp_sampler_answer(sp_sampler *s, int32_t id)
{
    sp_sampler_accept(s, id);
    if (s->n_uses && id >= 0 && id < s->n_vocab) s->n_uses[id]++;
    return !s->grammar || sp_grammar_accept(s->grammar, id);
}

/* uniform -- splitmix64, the top 53 bits as a number in [0, 1). */
static double uniform(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void penalise(sp_sampler *s)
{
    if (s->p.repeat_penalty == 1) return;
    for (int i = 0; i < s->n_recent; i++) {
        int32_t id = s->recent[i];
        bool again = false; /* a token is penalised once, however often it occurs in the window */
        for (int j = 0; j < i && !again; j++) again = s->recent[j] == id;
        if (again || id < 0 || id >= s->n_vocab) continue;
        float *l = &s->heap[id].logit;
        *l = *l > 0 ? *l / s->p.repeat_penalty : *l * s->p.repeat_penalty;
    }
}

/* adjust -- banned tokens, the caller's biases, and uses in the answer. */
static void adjust(sp_sampler *s)
{
    for (int i = 0; i < s->n_banned; i++) s->heap[s->banned[i]].logit = -INFINITY;
    for (int i = 0; i < s->p.n_bias; i++) s->heap[s->p.bias[i].id].logit += s->p.bias[i].bias;
    for (int i = 0; s->n_uses && i < s->n_vocab; i++)
        if (s->n_uses[i])
            s->heap[i].logit -=
                (float)s->n_uses[i] * s->p.frequency_penalty + s->p.presence_penalty;
}

/* constrain -- removes what the grammar forbids. */
static void constrain(sp_sampler *s)
{
    const uint64_t *mask = sp_grammar_mask(s->grammar);
    int n_known = (int)sp_grammar_n_tokens(s->grammar); /* embeddings may have more rows */
    for (int i = 0; i < s->n_vocab; i++)
        if (i >= n_known || !(mask[i >> 6] >> (i & 63) & 1)) s->heap[i].logit = -INFINITY;
}

static bool before(const sp_candidate *a, const sp_candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

/* best_of -- index of the best candidate. */
static int best_of(const sp_sampler *s)
{
    int best = 0;
    for (int i = 1; i < s->n_vocab; i++)
        if (before(&s->heap[i], &s->heap[best])) best = i;
    return best;
}

/* greedy -- the best token. The mask is found only if the grammar does not allow the best of all tokens. */
static int32_t greedy(sp_sampler *s)
{
    int best = best_of(s);
    if (!s->grammar || sp_grammar_allows(s->grammar, best)) return best;
    constrain(s);
    return best_of(s);
}

/* above_min_p -- without top-k and top-p no sorting is needed: the best candidate, then all
 * others that min-p allows. */
static int above_min_p(sp_sampler *s)
{
    int best = best_of(s), n_kept = 0;
    float least = s->heap[best].logit + logf(s->p.min_p);
    s->kept[n_kept++] = s->heap[best];
    for (int i = 0; i < s->n_vocab; i++)
        if (i != best && s->heap[i].logit >= least) s->kept[n_kept++] = s->heap[i];
    return n_kept;
}

static void sift_down(sp_candidate *v, int n, int i)
{
    sp_candidate x = v[i];
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&v[child + 1], &v[child])) child++;
        if (!before(&v[child], &x)) break;
        v[i] = v[child];
    }
    v[i] = x;
}

/* best_first -- moves the best candidates from the heap to `kept`, descending: top_k of them, or
 * (top_k 0, so top_p < 1) until those left carry no more than 1 - top_p of the mass. */
static int best_first(sp_sampler *s)
{
    int n = s->n_vocab, n_kept = 0;
    int limit = s->p.top_k > 0 ? SP_MIN(s->p.top_k, n) : n;
    for (int i = n / 2 - 1; i >= 0; i--) sift_down(s->heap, n, i);
    float max = s->heap[0].logit;
    double total = 0, got = 0;
    if (s->p.top_k == 0)
        for (int i = 0; i < n; i++) total += exp((double)(s->heap[i].logit - max));
    while (n_kept < limit) {
        sp_candidate best = s->heap[0];
        s->kept[n_kept++] = best;
        s->heap[0] = s->heap[--n];
        sift_down(s->heap, n, 0);
        got += exp((double)(best.logit - max));
        if (s->p.top_k == 0 && got >= s->p.top_p * total) break;
        if (exp((double)(best.logit - max)) < s->p.min_p) break;
    }
    return n_kept;
}

/* cut -- top-p (of the top k) and min-p over candidates in descending order; at least one stays. A
 * top_p of 1 cuts nothing, though rounding may have the first few carry the whole mass: a high
 * temperature still draws from the rest. */
static int cut(const sp_sampler *s, int n)
{
    float max = s->kept[0].logit;
    double total = 0, got = 0;
    for (int i = 0; i < n; i++) total += exp((double)(s->kept[i].logit - max));
    int stay = 0;
    while (stay < n) {
        double p = exp((double)(s->kept[stay].logit - max));
        if (p < s->p.min_p) break; /* not at the best, whose p is 1 */
        got += p;
        stay++;
        if (s->p.top_k > 0 && s->p.top_p < 1 && got >= s->p.top_p * total) break;
    }
    return stay;
}

/* draw -- one of kept[0 .. n-1], of which the first is the best. */
static int32_t draw(sp_sampler *s, int n)
{
    float max = s->kept[0].logit;
    double total = 0;
    for (int i = 0; i < n; i++) {
        s->prob[i] = expf((s->kept[i].logit - max) / s->p.temperature);
        total += s->prob[i];
    }
    double at = uniform(&s->rng) * total;
    for (int i = 0; i < n; i++) {
        at -= s->prob[i];
        if (at < 0) return s->kept[i].id;
    }
    return s->kept[0].id; /* rounding, or no finite maximum: the best */
}

int32_t sp_sampler_pick(sp_sampler *s, const float *logits)
{
    for (int i = 0; i < s->n_vocab; i++)
        s->heap[i] = (sp_candidate){isnan(logits[i]) ? -INFINITY : logits[i], i};
    adjust(s);
    penalise(s);
    if (s->p.temperature == 0) return greedy(s);
    if (s->grammar) constrain(s);
    bool sorted = s->p.top_k > 0 || s->p.top_p < 1;
    return draw(s, sorted ? cut(s, best_first(s)) : above_min_p(s));
}

void sp_sampler_logprobs(const sp_sampler *s, const float *logits, int32_t id, int n,
                         sp_token_logprob *out)
{
    float max = -INFINITY;
    double total = 0;
    for (int i = 0; i < s->n_vocab; i++) max = logits[i] > max ? logits[i] : max;
    for (int i = 0; i < s->n_vocab; i++)
        total += isnan(logits[i]) ? 0 : exp((double)(logits[i] - max));
    double norm = (double)max + log(total);
    out[0] = (sp_token_logprob){id, (float)(logits[id] - norm)};
    int filled = 0;
    for (int i = 0; i < s->n_vocab && n; i++) { /* insertion into the best so far */
        float l = (float)(logits[i] - norm);
        if (isnan(l) || (filled == n && l <= out[n].logprob)) continue;
        int k = filled < n ? ++filled : n;
        for (; k > 1 && out[k - 1].logprob < l; k--) out[k] = out[k - 1];
        out[k] = (sp_token_logprob){i, l};
    }
    for (int i = filled; i < n; i++) out[i + 1] = (sp_token_logprob){-1, -INFINITY};
}
