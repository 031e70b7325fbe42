/* graph.c -- `spolia bench graph`: prompts of relation paths as dependency trees, against linear ones on the
 * same engine.
 *
 *   paths      linear, a line a path, full attention
 *   preorder   linear, the texts of the nodes in pre-order, full attention
 *   trees      dependency attention, nothing known
 *   known      dependency attention, all nodes known: the question is computed
 *
 * The time to first token by prompt length (DepCache, figure 12); with --answer the rate of an answer by it
 * (graph_decode.c), with --deviation that of shifted trees (graph_shift.c). With --workload: requests over
 * entities that are drawn as the workload says, all waiting at the start; the rate and the share of reused
 * tokens (figures 10, 11 and 13) of linear prompts, of linear prompts with prefix reuse, and of trees. The
 * cache has --kv-memory; replacement and order of the queue are --evict and --queue-order. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/bench/graph_decode.h"
#include "lab/bench/graph_shift.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/model_options.h"

enum { MAX_ROUNDS = 32, N_FORMS = 4, N_SYSTEMS = 3, N_RECENT = 8 };
static const char *const form_names[N_FORMS] = {"paths", "preorder", "trees", "known"};
static const char *const system_names[N_SYSTEMS + 1] = {"linear", "prefix", "trees", NULL};

typedef struct bench {
    sp_context *ctx;
    bench_subgraphs graphs;
    sp_tree_mode mode;
    int n_rounds, n_entities, max_paths, n_requests, n_decode;
    uint64_t random;
    const char *workload;
    bool as_json, deviation;
} bench;

/* run -- to the first token, or without one; false after an error message. */
static bool run(bench *b, const subgraph_prompt *o, const char *policy, int max_tokens,
                sp_request **out)
{
    sp_prompt *p = bench_subgraph_prompt(b->ctx, o);
    if (!p) return false;
    const sp_reuse_opts reuse = {.policy = policy};
    sp_err err = sp_generate(b->ctx, p,
                             &(sp_request_opts){.reuse = &reuse,
                                                .sampling = sp_sampling_default(),
                                                .max_tokens = max_tokens,
                                                .ignore_end = true},
                             out);
    sp_prompt_destroy(p);
    return err == SP_OK || (cli_fail(err), false);
}

/* -- by length ------------------------------------------------------------------------------ */

typedef struct length_row {
    int n_paths;
    int n_tokens[N_FORMS], n_computed[N_FORMS], n_nodes;
    double seconds[N_FORMS][MAX_ROUNDS];
} length_row;

static subgraph_prompt prompt_of(const bench *b, int form, int n_paths)
{
    static const subgraph_form forms[N_FORMS] = {SUBGRAPH_PATHS, SUBGRAPH_PREORDER, SUBGRAPH_TREES,
                                                 SUBGRAPH_TREES};
    return (subgraph_prompt){.from = &b->graphs,
                             .n = b->n_entities,
                             .n_paths = n_paths,
                             .form = forms[form],
                             .mode = b->mode,
                             .question = "Which of them have something in common?"};
}

/* count -- tokens of the prompt as lines; negative after an error message. */
static int count(bench *b, int n_paths)
{
    subgraph_prompt o = prompt_of(b, 0, n_paths);
    sp_prompt *p = bench_subgraph_prompt(b->ctx, &o);
    int n = p ? sp_prompt_n_tokens(p) : -1;
    sp_prompt_destroy(p);
    return n;
}

/* paths_for -- the most paths a subgraph with which the linear prompt has at most n_tokens. */
static int paths_for(bench *b, int n_tokens)
{
    int low = 1, high = b->max_paths;
    while (low < high) {
        int middle = (low + high + 1) / 2, n = count(b, middle);
        if (n < 0) return -1;
        if (n <= n_tokens)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static bool measure_form(bench *b, length_row *row, int form, int round)
{
    sp_request *r = NULL;
    subgraph_prompt o = prompt_of(b, form, row->n_paths), ahead = o;
    bool known = form == N_FORMS - 1;
    ahead.question = NULL;
    if (known && !run(b, &ahead, "prefix", 0, &r)) return false;
    sp_request_destroy(r);
    if (!run(b, &o, known ? "prefix" : "off", 1, &r)) return false;
    const sp_result *res = sp_request_result(r);
    row->seconds[form][round] = (double)res->ttft_us * 1e-6;
    row->n_tokens[form] = res->n_prompt;
    row->n_computed[form] = res->n_computed;
    row->n_nodes = res->n_segments - 2;
    sp_request_destroy(r);
    return true;
}

static void print_length(const bench *b, length_row *row, bool first)
{
    double s[N_FORMS];
    for (int f = 0; f < N_FORMS; f++) s[f] = bench_quantile(row->seconds[f], b->n_rounds, 0.5);
    if (b->as_json) {
        json_t *o = json_pack("{s:i, s:i, s:i}", "subgraphs", b->n_entities, "paths", row->n_paths,
                              "nodes", row->n_nodes);
        for (int f = 0; f < N_FORMS; f++)
            json_object_set_new(o, form_names[f],
                                json_pack("{s:i, s:i, s:f, s:f}", "tokens", row->n_tokens[f],
                                          "computed", row->n_computed[f], "ttft_s", s[f], "best_s",
                                          row->seconds[f][0])); /* sorted by the median */
        json_dumpf(o, stdout, JSON_PRESERVE_ORDER);
        putchar('\n');
        json_decref(o);
        return;
    }
    if (first)
        printf("tokens    paths of     of      nodes  TTFT, ms: "
               "paths   preorder      trees      known   dependency  reuse  known\n"
               "of paths  an entity    trees\n");
    printf("%8d  %9d  %7d  %9d  %15.1f %10.1f %10.1f %10.1f %11.2fx %5.1fx %5.1fx\n",
           row->n_tokens[0], row->n_paths, row->n_tokens[2], row->n_nodes, 1e3 * s[0], 1e3 * s[1],
           1e3 * s[2], 1e3 * s[3], s[1] / s[2], s[2] / s[3], s[0] / s[3]);
}

static bool decode(const bench *b, int n_paths, bool first)
{
    return graph_decode_measure(&(graph_decode){.ctx = b->ctx,
                                                .from = &b->graphs,
                                                .n_rounds = b->n_rounds,
                                                .n_entities = b->n_entities,
                                                .n_paths = n_paths,
                                                .mode = b->mode,
                                                .n_tokens = b->n_decode,
                                                .as_json = b->as_json,
                                                .first = first});
}

static bool by_length(bench *b, const bench_list *lengths)
{
    for (int i = 0; i < lengths->n; i++) {
        length_row row = {.n_paths = paths_for(b, (int)lengths->v[i])};
        if (row.n_paths < 0) return false;
        if (b->n_decode) {
            if (!decode(b, row.n_paths, i == 0)) return false;
            continue;
        }
        for (int round = 0; round < b->n_rounds; round++)
            for (int f = 0; f < N_FORMS; f++)
                if (!measure_form(b, &row, f, round)) return false;
        print_length(b, &row, i == 0);
        fflush(stdout);
    }
    return true;
}

/* -- workloads ------------------------------------------------------------------------------ */

/* zipf -- a rank below n with weight 1 / (1 + rank). */
static int zipf(uint64_t *random, int n)
{
    double all = 0, at;
    for (int i = 0; i < n; i++) all += 1.0 / (1 + i);
    at = (double)(bench_random(random) >> 11) * 0x1p-53 * all;
    for (int i = 0; i < n; i++)
        if ((at -= 1.0 / (1 + i)) < 0) return i;
    return n - 1;
}

/* draw_entity -- temporal: three of four come from the last requests. Source: DepCache section 6.1 (D11). */
static int draw_entity(bench *b, const int *recent, int n_recent)
{
    int n = b->graphs.n;
    if (strcmp(b->workload, "zipf") == 0) return zipf(&b->random, n);
    bool again = strcmp(b->workload, "temporal") == 0 && n_recent && bench_random(&b->random) % 4;
    uint64_t v = bench_random(&b->random);
    return again ? recent[v % (uint64_t)n_recent] : (int)(v % (uint64_t)n);
}

/* draw_requests -- the entities of each, all different: [n_requests][n_entities]. */
static void draw_requests(bench *b, int *out)
{
    for (int r = 0; r < b->n_requests; r++) {
        int *mine = out + r * b->n_entities, from = r > N_RECENT ? r - N_RECENT : 0;
        for (int i = 0; i < b->n_entities;) {
            bool twice = false;
            mine[i] = draw_entity(b, out + from * b->n_entities, (r - from) * b->n_entities);
            for (int k = 0; k < i; k++) twice |= mine[k] == mine[i];
            i += !twice;
        }
    }
}

static sp_request *submit(bench *b, const int *which, int system)
{
    sp_request *r = NULL;
    subgraph_prompt o = prompt_of(b, system < 2 ? 0 : 2, b->max_paths);
    o.which = which;
    sp_prompt *p = bench_subgraph_prompt(b->ctx, &o);
    if (!p) return NULL;
    const sp_reuse_opts reuse = {.policy = system ? "prefix" : "off"};
    sp_err err = sp_request_submit(b->ctx, p,
                                   &(sp_request_opts){.reuse = &reuse,
                                                      .sampling = sp_sampling_default(),
                                                      .max_tokens = 1,
                                                      .ignore_end = true},
                                   &r);
    sp_prompt_destroy(p);
    return err == SP_OK ? r : (cli_fail(err), NULL);
}

static bool finish_all(bench *b, sp_request **requests, int64_t *n_tokens, int64_t *n_reused)
{
    bool busy = true;
    while (busy) {
        sp_err err = sp_context_step(b->ctx, &busy);
        if (err != SP_OK) return cli_fail(err), false;
    }
    for (int i = 0; i < b->n_requests; i++) {
        const sp_result *res = sp_request_result(requests[i]);
        if (res->finish == SP_FINISH_ERROR) return cli_fail_with("%s", res->detail), false;
        *n_tokens += res->n_prompt;
        *n_reused += res->n_reused;
    }
    return true;
}

/* run_system -- all requests at once, from an empty cache. */
static bool run_system(bench *b, const int *which, int system, const char *queue)
{
    int64_t n_tokens = 0, n_reused = 0;
    sp_request **requests = calloc((size_t)b->n_requests, sizeof *requests);
    bool good = requests || (cli_fail_with("out of memory"), false);
    sp_context_forget(b->ctx);
    int64_t start = sp_clock_us();
    for (int i = 0; i < b->n_requests && good; i++)
        good = (requests[i] = submit(b, which + i * b->n_entities, system)) != NULL;
    good = good && finish_all(b, requests, &n_tokens, &n_reused);
    double seconds = (double)(sp_clock_us() - start) * 1e-6;
    for (int i = 0; requests && i < b->n_requests; i++) sp_request_destroy(requests[i]);
    free(requests);
    if (!good) return false;
    double rate = b->n_requests / seconds, hit = (double)n_reused / (double)n_tokens;
    if (b->as_json)
        printf("{\"workload\": \"%s\", \"system\": \"%s\", \"queue\": \"%s\", \"requests\": %d, "
               "\"tokens\": %lld, \"seconds\": %.6g, \"hit_rate\": %.4f}\n",
               b->workload, system_names[system], queue, b->n_requests, (long long)n_tokens,
               seconds, hit);
    else
        printf("%-10s %-16s %-14s %8lld tokens %10.2f requests/s %7.1f %% reused\n", b->workload,
               system_names[system], queue, (long long)n_tokens, rate, 100 * hit);
    fflush(stdout);
    return true;
}

static bool is_wanted(const bench_names *systems, int system)
{
    for (int i = 0; i < systems->n; i++)
        if (strcmp(systems->v[i], system_names[system]) == 0) return true;
    return false;
}

static bool by_workload(bench *b, const bench_names *workloads, const bench_names *systems,
                        const char *queue)
{
    int *which = calloc((size_t)b->n_requests * (size_t)b->n_entities, sizeof *which);
    bool good = which || (cli_fail_with("out of memory"), false);
    for (int w = 0; w < workloads->n && good; w++) {
        b->workload = workloads->v[w];
        draw_requests(b, which);
        for (int s = 0; s < N_SYSTEMS && good; s++)
            good = !is_wanted(systems, s) || run_system(b, which, s, queue);
    }
    free(which);
    return good;
}

/* -- options -------------------------------------------------------------------------------- */

typedef struct settings {
    const char *tree, *lengths_text, *workloads_text, *systems_text;
    bench_list lengths;
    bench_names workloads, systems;
    bench_subgraphs_opts from;
} settings;

static const opt_usage usage = {
    "bench graph -m MODEL --graph FILE --triples FILE [options]",
    "Prompts of relation paths as dependency trees against linear prompts: time to first token by\n"
    "prompt length, or with --answer the rate of an answer, or with --workload rate and reuse of\n"
    "requests over drawn entities."};

static bool check(bench *b, settings *s)
{
    static const char *const known[] = {"temporal", "zipf", "uniform", NULL};
    b->mode = strcmp(s->tree, "shifted") == 0 ? SP_TREE_SHIFTED : SP_TREE_EXACT;
    if (!s->from.graph || !s->from.triples)
        return cli_fail_with("bench graph: give --graph and --triples"), false;
    if (b->mode == SP_TREE_EXACT && strcmp(s->tree, "exact") != 0)
        return cli_fail_with("bench graph: --tree is exact or shifted, not \"%s\"", s->tree), false;
    if (b->n_rounds < 1 || b->n_rounds > MAX_ROUNDS || b->n_entities < 1 || b->max_paths < 1 ||
        b->n_requests < 1 || b->n_requests > 100000 || b->n_entities > 1000)
        return cli_fail_with(
                   "bench graph: 1 to %d rounds, entities, paths and requests are positive",
                   MAX_ROUNDS),
               false;
    if (b->n_decode && b->n_decode < 2)
        return cli_fail_with("bench graph: --answer is 2 tokens or more"), false;
    bool draws = s->workloads_text || b->deviation;
    if (draws && s->from.n < b->n_entities)
        return cli_fail_with("bench graph: --pool is smaller than --entities"), false;
    if (!draws) s->from.n = b->n_entities;
    s->from.max_paths = b->max_paths;
    s->from.seed = b->random;
    if (s->from.min_paths > b->max_paths) s->from.min_paths = b->max_paths;
    if (s->workloads_text)
        return bench_names_parse("workload", s->workloads_text, known, &s->workloads) &&
               bench_names_parse("systems", s->systems_text, system_names, &s->systems);
    return bench_list_parse("lengths", s->lengths_text, 1, 1 << 20, true, &s->lengths);
}

static bool measure(bench *b, const settings *s, const char *queue)
{
    if (s->workloads_text) return by_workload(b, &s->workloads, &s->systems, queue);
    if (!b->deviation) return by_length(b, &s->lengths);
    return graph_shift_measure(&(graph_shift){.ctx = b->ctx,
                                              .from = &b->graphs,
                                              .n_rounds = b->n_rounds,
                                              .n_entities = b->n_entities,
                                              .n_paths = (b->max_paths + 1) / 2,
                                              .seed = b->random,
                                              .as_json = b->as_json});
}

int bench_graph(int argc, char **argv)
{
    model_options m;
    bench b = {.n_rounds = 3, .n_entities = 20, .max_paths = 50, .n_requests = 64, .random = 1};
    settings s = {.tree = "exact",
                  .lengths_text = "1024,2048,4096",
                  .systems_text = "linear,prefix,trees",
                  .from = {.n = 200, .hops = 2, .min_paths = 20}};
    model_options_init(&m);
    const opt own[] = {
        {OPT_STRING, "graph", 'g', "FILE", &s.from.graph, "graph written by spolia graph import"},
        {OPT_STRING, "triples", 0, "FILE", &s.from.triples,
         "its TSV file; entities are drawn from it"},
        {OPT_STRING, "tree", 0, "MODE", &s.tree, "positions: exact, shifted (exact)"},
        {OPT_STRING, "lengths", 0, "LIST", &s.lengths_text,
         "tokens of the linear prompt at most (1024,2048,4096)"},
        {OPT_INT, "entities", 0, "N", &b.n_entities, "subgraphs of a prompt (20)"},
        {OPT_INT, "paths", 0, "N", &b.max_paths, "paths of a subgraph at most (50)"},
        {OPT_INT, "min-paths", 0, "N", &s.from.min_paths, "entities with fewer are not drawn (20)"},
        {OPT_INT, "hops", 0, "N", &s.from.hops, "relations in a path at most (2)"},
        {OPT_INT, "rounds", 0, "N", &b.n_rounds,
         "alternating runs of each form; medians count (3)"},
        {OPT_STRING, "workload", 0, "LIST", &s.workloads_text,
         "temporal, zipf, uniform: requests instead"},
        {OPT_STRING, "systems", 0, "LIST", &s.systems_text,
         "of the workload (linear,prefix,trees)"},
        {OPT_INT, "pool", 0, "N", &s.from.n, "entities of the workload (200)"},
        {OPT_INT, "requests", 0, "N", &b.n_requests, "requests of the workload (64)"},
        {OPT_U64, "seed", 0, "N", &b.random, "random seed (1)"},
        {OPT_INT, "answer", 0, "N", &b.n_decode,
         "the rate of an answer of N tokens instead, over nodes of other prompts"},
        {OPT_FLAG, "deviation", 0, NULL, &b.deviation,
         "shifted trees of other prompts against computing in place: KL of the first token"},
        {OPT_FLAG, "json", 0, NULL, &b.as_json, "a JSON object a line"},
        {0},
    };
    const opt *const tables[] = {own, m.table, NULL};
    int at = opt_parse(argc, argv, &usage, tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("bench graph: unexpected argument \"%s\"", argv[at]), 2;
    if (!check(&b, &s)) return 2;
    m.ctx.guard.share = 0; /* it would compute between the measurements */
    bool good =
        bench_subgraphs_open(&s.from, &b.graphs) && (b.ctx = model_options_open(&m)) != NULL;
    good = good && measure(&b, &s, m.ctx.queue.order ? m.ctx.queue.order : "reorder");
    sp_context_close(b.ctx);
    bench_subgraphs_close(&b.graphs);
    return good ? 0 : 1;
}
