/* eval.c -- `spolia graph eval`: how often a path holds the answer of a question, and how
 * long finding the paths takes. Questions are JSON lines: {"question", "answers", "hops"}. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "cli/alloc.h"
#include "cli/json.h"
#include "cmd/graph/graph.h"

#define MAX_GROUPS 10

/* Questions of one number of hops (0: not said). */
typedef struct group {
    int n, n_found, n_named; /* questions; with an answer on a path; with an entity */
    double share;            /* sum of the share of answers on paths */
} group;

typedef struct evaluation {
    group groups[MAX_GROUPS];
    double *ms, *cpu_ms; /* of each question: elapsed, and of the processor */
    size_t n_ms, cap_ms, cap_cpu;
    double n_paths;
} evaluation;

static double now_ms(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static bool on_a_path(const sp_graph_answer *a, const char *answer)
{
    for (int i = 0; i < a->n_paths; i++)
        for (int j = 1; j <= a->paths[i].n_hops; j++)
            if (strcasecmp(a->paths[i].nodes[j], answer) == 0) return true;
    return false;
}

static void count(evaluation *e, const sp_graph_answer *a, const json_t *answers, int hops)
{
    group *g = &e->groups[hops];
    const json_t *answer;
    size_t i;
    int n_on = 0;
    json_array_foreach(answers, i, answer)
    {
        const char *text = json_string_value(answer);
        n_on += text && on_a_path(a, text);
    }
    g->n++;
    g->n_found += n_on > 0;
    g->n_named += a->n_entities > 0;
    g->share += json_array_size(answers) ? (double)n_on / (double)json_array_size(answers) : 0;
    e->n_paths += a->n_paths;
}

/* one -- a line of the file. */
static int one(evaluation *e, sp_graph *graph, const graph_path_options *p, const char *where,
               const char *line)
{
    json_t *q = cli_read_json(where, line, 0);
    if (!q) return 1;
    const char *question = json_string_value(json_object_get(q, "question"));
    const json_t *answers = json_object_get(q, "answers");
    if (!question || !json_is_array(answers)) {
        json_decref(q);
        return cli_fail_with("%s: no \"question\" or no \"answers\"", where);
    }
    json_int_t hops = json_integer_value(json_object_get(q, "hops"));
    sp_graph_answer a = {0};
    e->ms = cli_grow(e->ms, e->n_ms, &e->cap_ms, sizeof *e->ms);
    e->cpu_ms = cli_grow(e->cpu_ms, e->n_ms, &e->cap_cpu, sizeof *e->cpu_ms);
    double start = now_ms(CLOCK_MONOTONIC), cpu = now_ms(CLOCK_THREAD_CPUTIME_ID);
    sp_err err = sp_graph_find_paths(graph, question, &p->paths, &a);
    e->cpu_ms[e->n_ms] = now_ms(CLOCK_THREAD_CPUTIME_ID) - cpu;
    e->ms[e->n_ms++] = now_ms(CLOCK_MONOTONIC) - start;
    if (err == SP_OK) count(e, &a, answers, hops > 0 && hops < MAX_GROUPS ? (int)hops : 0);
    sp_graph_answer_fini(&a);
    json_decref(q);
    return err == SP_OK ? 0 : cli_fail(err);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print_json(const evaluation *e)
{
    json_t *groups = json_array();
    for (int h = 0; h < MAX_GROUPS; h++) {
        const group *g = &e->groups[h];
        if (!g->n) continue;
        json_array_append_new(groups,
                              json_pack("{s:i, s:i, s:f, s:f, s:f}", "hops", h, "questions", g->n,
                                        "named", (double)g->n_named / g->n, "recall",
                                        (double)g->n_found / g->n, "answers", g->share / g->n));
    }
    size_t median = e->n_ms / 2, p99 = e->n_ms * 99 / 100;
    json_t *o = json_pack("{s:o, s:f, s:f, s:f, s:f, s:f}", "groups", groups, "median_ms",
                          e->ms[median], "p99_ms", e->ms[p99], "median_cpu_ms", e->cpu_ms[median],
                          "p99_cpu_ms", e->cpu_ms[p99], "paths", e->n_paths / (double)e->n_ms);
    cli_print_json(o, JSON_REAL_PRECISION(6));
}

static void print_table(const evaluation *e)
{
    puts("hops  questions  entity found  an answer on a path  share of answers");
    for (int h = 0; h < MAX_GROUPS; h++) {
        const group *g = &e->groups[h];
        if (g->n)
            printf("%4d  %9d  %11.1f%%  %18.1f%%  %15.1f%%\n", h, g->n, 100.0 * g->n_named / g->n,
                   100.0 * g->n_found / g->n, 100.0 * g->share / g->n);
    }
    size_t median = e->n_ms / 2, p99 = e->n_ms * 99 / 100;
    printf("%.1f paths a question; median %.2f ms, p99 %.2f ms; of CPU time %.2f and %.2f ms\n",
           e->n_paths / (double)e->n_ms, e->ms[median], e->ms[p99], e->cpu_ms[median],
           e->cpu_ms[p99]);
}

/* all -- every line, or `limit` of them spread evenly over the file. */
static int all(evaluation *e, sp_graph *graph, const graph_path_options *p, const char *path,
               int limit)
{
    size_t n;
    char *text = cli_read_text(path, &n), where[512], *rest = text;
    if (!text) return 1;
    int n_lines = 0, line = 0, code = 0;
    for (const char *c = text; *c; c++) n_lines += *c == '\n' || !c[1];
    for (char *s; code == 0 && (s = strsep(&rest, "\n"));) {
        line++;
        bool chosen = !limit || n_lines <= limit ||
                      (int64_t)line * limit / n_lines != (int64_t)(line - 1) * limit / n_lines;
        snprintf(where, sizeof where, "%.400s:%d", path, line);
        if (*s && chosen) code = one(e, graph, p, where, s);
    }
    free(text);
    return code;
}

int cmd_graph_eval(int argc, char **argv)
{
    graph_options g;
    graph_path_options p;
    bool as_json = false;
    int limit = 0;
    graph_options_init(&g);
    graph_path_options_init(&p);
    const opt own[] = {
        {OPT_INT, "limit", 'n', "N", &limit, "questions, spread over the file (all)", .limits = {0, INT32_MAX}},
        {OPT_FLAG, "json", 0, NULL, &as_json, "print JSON"},
        {0},
    };
    const opt *const tables[] = {g.table, p.table, own, NULL};
    int at =
        opt_parse(argc, argv,
                  &(opt_usage){"graph eval -g WHERE [options] QUESTIONS.jsonl",
                               "Finds paths for questions with known answers: how often a "
                               "path contains an answer, by\nhops, and how long it takes. A line "
                               "is {\"question\", \"answers\", \"hops\"}."},
                  tables);
    if (at < 0) return -1 - at;
    if (at + 1 != argc) return cli_fail_with("graph eval: give one file of questions"), 2;
    if (!graph_path_options_check(&p)) return 2;
    evaluation e = {0};
    sp_graph *graph;
    sp_err err = sp_graph_open(&g.open, &graph);
    if (err != SP_OK) return cli_fail(err);
    int code = all(&e, graph, &p, argv[at], limit);
    if (code == 0 && !e.n_ms) code = cli_fail_with("%s: contains no question", argv[at]);
    if (code == 0) {
        qsort(e.ms, e.n_ms, sizeof *e.ms, by_size);
        qsort(e.cpu_ms, e.n_ms, sizeof *e.cpu_ms, by_size);
        (as_json ? print_json : print_table)(&e);
    }
    free(e.ms);
    free(e.cpu_ms);
    sp_graph_close(graph);
    return code;
}
