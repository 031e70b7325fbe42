/* graph_decode.c -- `spolia bench graph --answer N`: tokens a second of an answer of N tokens over the same nodes.
 *
 *   linear   the texts of the nodes in pre-order, full attention: a span a subgraph
 *   fresh    trees that this prompt has computed
 *   apart    trees whose nodes other prompts have computed, a path at a time; they stay where they are
 *   packed   the same, moved together (serve/request/pack.c); the rate includes the time that this takes
 */
#include "lab/bench/graph_decode.h"

#include <stdio.h>

#include "cli/cli.h"
#include "serve/check/measure.h"

enum { N_FORMS = 4, LINEAR = 0, FRESH, APART, PACKED, MAX_ROUNDS = 32 };
static const char *const names[N_FORMS] = {"linear", "fresh", "apart", "packed"};

typedef struct outcome {
    double rate[N_FORMS][MAX_ROUNDS];
    double pack_ms[MAX_ROUNDS];
    int n_tokens, n_nodes, n_packed;
} outcome;

/* ask -- NULL after an error message. */
static sp_request *ask(const graph_decode *o, const subgraph_prompt *what, bool apart,
                       int max_tokens)
{
    sp_request *r = NULL;
    sp_prompt *p = bench_subgraph_prompt(o->ctx, what);
    if (!p) return NULL;
    const sp_reuse_opts reuse = {.policy = "prefix"};
    const sp_request_opts opts = {.reuse = &reuse,
                                  .sampling = sp_sampling_default(),
                                  .max_tokens = max_tokens,
                                  .ignore_end = true};
    sp_err err = sp_measure_submit(o->ctx, p, &opts, &(sp_measure){.apart = apart}, &r);
    sp_prompt_destroy(p);
    while (err == SP_OK && sp_request_result(r)->finish == SP_FINISH_NONE)
        err = sp_context_step(o->ctx, NULL);
    if (err != SP_OK) {
        cli_fail(err);
    } else if (sp_request_result(r)->finish == SP_FINISH_ERROR) {
        cli_fail_with("%s", sp_request_result(r)->detail);
    } else {
        return r;
    }
    sp_request_destroy(r);
    return NULL;
}

/* scatter -- prompts of 1, 2, 3 ... paths of each subgraph: each leaves the nodes that it adds. */
static bool scatter(const graph_decode *o, subgraph_prompt what)
{
    what.question = NULL;
    for (what.n_paths = 1; what.n_paths <= o->n_paths; what.n_paths++) {
        sp_request *r = ask(o, &what, true, 0);
        if (!r) return false;
        sp_request_destroy(r);
    }
    return true;
}

static bool measure(const graph_decode *o, int form, int round, outcome *out)
{
    const subgraph_prompt what = {.from = o->from,
                                  .n = o->n_entities,
                                  .n_paths = o->n_paths,
                                  .form = form == LINEAR ? SUBGRAPH_PREORDER : SUBGRAPH_TREES,
                                  .mode = o->mode,
                                  .question = "Which of them have something in common?"};
    sp_context_forget(o->ctx);
    if (form >= APART && !scatter(o, what)) return false;
    sp_request *r = ask(o, &what, form != PACKED, o->n_tokens);
    if (!r) return false;
    const sp_result *res = sp_request_result(r);
    out->rate[form][round] = (res->n_generated - 1) * 1e6 / (double)res->decode_us;
    out->n_tokens = res->n_prompt;
    out->n_nodes = res->n_segments - 2;
    out->n_packed = res->decode.n_packed;
    out->pack_ms[round] = (double)res->decode.pack_us / 1e3;
    sp_request_destroy(r);
    return true;
}

static void print(const graph_decode *o, outcome *out)
{
    double rate[N_FORMS], ms = bench_quantile(out->pack_ms, o->n_rounds, 0.5);
    for (int f = 0; f < N_FORMS; f++) rate[f] = bench_quantile(out->rate[f], o->n_rounds, 0.5);
    if (o->as_json) {
        printf("{\"tokens\": %d, \"nodes\": %d, \"packed_tokens\": %d, \"pack_ms\": %.3f",
               out->n_tokens, out->n_nodes, out->n_packed, ms);
        for (int f = 0; f < N_FORMS; f++) printf(", \"%s\": %.6g", names[f], rate[f]);
        printf("}\n");
        return;
    }
    if (o->first)
        printf("%8s %8s %8s %8s   tokens a second: %8s %8s %8s %8s\n", "tokens", "nodes", "packed",
               "in ms", names[0], names[1], names[2], names[3]);
    printf("%8d %8d %8d %8.2f   %25.1f %8.1f %8.1f %8.1f\n", out->n_tokens, out->n_nodes,
           out->n_packed, ms, rate[0], rate[1], rate[2], rate[3]);
}

bool graph_decode_measure(const graph_decode *o)
{
    outcome out = {.n_tokens = 0};
    for (int round = 0; round < o->n_rounds; round++)
        for (int form = 0; form < N_FORMS; form++)
            if (!measure(o, form, round, &out)) return false;
    print(o, &out);
    return true;
}
