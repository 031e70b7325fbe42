/* graph_shift.c -- `spolia bench graph --deviation`: shifted trees that were computed in another prompt, against
 * computing them in place (DepCache, section 4.1).
 *
 *   moved      known from a prompt with the same trees in another order: the distance to the system text differs
 *   siblings   known from a prompt with twice as many paths: distances within the trees differ
 *   both
 *
 * KL is of the first token of the answer, in nats: over the most likely tokens in place, the rest as one. */
#include "lab/bench/graph_shift.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

enum { N_TOP = SP_MAX_TOP_LOGPROBS, N_CASES = 3 };
static const char *const case_names[N_CASES] = {"moved", "siblings", "both"};

typedef struct top {
    sp_token_logprob v[N_TOP];
    int n;
} top;

static void take(const sp_token_logprob *v, int n, void *user)
{
    top *t = user;
    if (t->n) return; /* the first token of the answer */
    for (int i = 1; i < n && t->n < N_TOP; i++) t->v[t->n++] = v[i];
}

static bool ask(const graph_shift *o, const subgraph_prompt *what, const char *policy, top *out,
                sp_request **r)
{
    sp_prompt *p = bench_subgraph_prompt(o->ctx, what);
    if (!p) return false;
    const sp_reuse_opts reuse = {.policy = policy};
    sp_err err = sp_generate(o->ctx, p,
                             &(sp_request_opts){.reuse = &reuse,
                                                .sampling = sp_sampling_default(),
                                                .max_tokens = out ? 1 : 0,
                                                .ignore_end = true,
                                                .on_token = out ? take : NULL,
                                                .top_logprobs = out ? N_TOP : 0,
                                                .user = out},
                             r);
    sp_prompt_destroy(p);
    return err == SP_OK || (cli_fail(err), false);
}

/* logprob_of -- of a token that is not among the likely ones: that of the last one, which it does not exceed. */
static double logprob_of(const top *t, int32_t id)
{
    for (int i = 0; i < t->n; i++)
        if (t->v[i].id == id) return t->v[i].logprob;
    return t->n ? t->v[t->n - 1].logprob : 0;
}

static double divergence(const top *want, const top *got)
{
    double kl = 0, p_rest = 1, q_rest = 1;
    for (int i = 0; i < want->n; i++) {
        double p = want->v[i].logprob, q = logprob_of(got, want->v[i].id);
        kl += exp(p) * (p - q);
        p_rest -= exp(p);
        q_rest -= exp(q);
    }
    if (p_rest > 1e-9 && q_rest > 1e-9) kl += p_rest * log(p_rest / q_rest);
    return kl > 0 ? kl : 0;
}

typedef struct outcome {
    double kl[32];
    int n_same, n_reused, n_tokens;
} outcome;

static bool measure(const graph_shift *o, int which_case, const int *order, const int *other,
                    outcome *out)
{
    subgraph_prompt in_place = {.from = o->from,
                                .which = order,
                                .n = o->n_entities,
                                .n_paths = o->n_paths,
                                .form = SUBGRAPH_TREES,
                                .mode = SP_TREE_SHIFTED,
                                .question = "Which of them have something in common?"};
    subgraph_prompt ahead = in_place;
    top want = {.n = 0}, got = {.n = 0};
    sp_request *r = NULL;
    ahead.question = NULL;
    if (which_case != 1) ahead.which = other;
    if (which_case != 0) ahead.n_paths = 2 * o->n_paths;
    sp_context_forget(o->ctx);
    if (!ask(o, &in_place, "off", &want, &r)) return false;
    sp_request_destroy(r);
    r = NULL;
    if (!ask(o, &ahead, "prefix", NULL, &r)) return false;
    sp_request_destroy(r);
    r = NULL;
    if (!ask(o, &in_place, "prefix", &got, &r)) return false;
    out->n_reused += sp_request_result(r)->n_reused;
    out->n_tokens += sp_request_result(r)->n_prompt;
    sp_request_destroy(r);
    out->n_same += want.n && got.n && want.v[0].id == got.v[0].id;
    out->kl[0] = divergence(&want, &got);
    return true;
}

static void print(const graph_shift *o, int which_case, outcome *out)
{
    double all = 0;
    for (int i = 0; i < o->n_rounds; i++) all += out->kl[i];
    double median = bench_quantile(out->kl, o->n_rounds, 0.5), mean = all / o->n_rounds;
    double reused = (double)out->n_reused / out->n_tokens;
    if (o->as_json)
        printf("{\"nodes\": \"%s\", \"prompts\": %d, \"kl_mean\": %.6g, \"kl_median\": %.6g, "
               "\"same_token\": %d, "
               "\"reused\": %.4f}\n",
               case_names[which_case], o->n_rounds, mean, median, out->n_same, reused);
    else
        printf("%-9s KL mean %.4f median %.4f, same first token %d of %d, %.0f %% reused\n",
               case_names[which_case], mean, median, out->n_same, o->n_rounds, 100 * reused);
}

bool graph_shift_measure(const graph_shift *o)
{
    int n = o->from->n;
    int *order = calloc(2 * (size_t)n, sizeof *order), *other = order ? order + n : NULL;
    bool good = order || (cli_fail_with("out of memory"), false);
    for (int k = 0; k < N_CASES && good; k++) {
        outcome all = {0}, one;
        uint64_t random = o->seed;
        for (int round = 0; round < o->n_rounds && good; round++) {
            for (int i = 0; i < n; i++) order[i] = i;
            bench_shuffle(order, n, &random);
            for (int i = 0; i < o->n_entities; i++) other[i] = order[i];
            bench_shuffle(other, o->n_entities, &random);
            one = (outcome){0};
            good = measure(o, k, order, other, &one);
            all.kl[round] = one.kl[0];
            all.n_same += one.n_same;
            all.n_reused += one.n_reused;
            all.n_tokens += one.n_tokens;
        }
        if (good) print(o, k, &all);
    }
    free(order);
    return good;
}
