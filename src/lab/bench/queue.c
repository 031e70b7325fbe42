/* queue.c -- `spolia bench queue`: what the order of the queue does to many waiting requests, and
 * what choosing costs.
 *
 * Requests of a few documents, drawn from a Zipf distribution, arrive at once or as a Poisson
 * process. Every order gets the same requests in turn, on an empty cache. TTFT is from submission to
 * the first token. "sched" is the time of all steps without the model's own: look-ups, the choice,
 * plans, eviction, keeping; for each request. Source: RAGCache figure 18, table 4 (R5, R10). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "lab/bench/bench.h"
#include "lab/bench/prompts.h"
#include "serve/check/measure.h"

typedef struct bench {
    model_options m;
    int n_requests, n_documents, chunk_tokens, n_chunks, rounds, answer;
    float zipf, rate; /* requests a second; 0: all at once */
    uint64_t random;
    char **documents; /* [n_documents] */
    double *weights;  /* [n_documents] cumulative */
    char **questions; /* [n_requests] */
    int *drawn;       /* [n_requests, n_chunks] */
    int64_t *due_us;  /* [n_requests] after the start */
} bench;

typedef struct outcome {
    double ttft_us, p95_us, all_us, sched_us,
        cached; /* means, but for p95; cached: share of tokens */
} outcome;

static double uniform(bench *b)
{
    return (double)(bench_random(&b->random) >> 11) / 9007199254740992.0;
}

/* draw_one -- a document that `taken` [n] does not have. */
static int draw_one(bench *b, const int *taken, int n)
{
    for (;;) {
        double at = uniform(b) * b->weights[b->n_documents - 1];
        int low = 0, high = b->n_documents - 1;
        while (low < high) {
            int middle = (low + high) / 2;
            if (b->weights[middle] < at)
                low = middle + 1;
            else
                high = middle;
        }
        bool again = false;
        for (int i = 0; i < n; i++) again |= taken[i] == low;
        if (!again) return low;
    }
}

static bool draw(bench *b, sp_context *c)
{
    bench_words *w = bench_words_create(c, b->random);
    size_t n = (size_t)b->n_requests, k = (size_t)b->n_chunks;
    b->documents = w ? bench_chunk_texts(w, b->n_documents, b->chunk_tokens) : NULL;
    b->weights = calloc((size_t)b->n_documents, sizeof *b->weights);
    b->questions = calloc(n, sizeof *b->questions);
    b->drawn = calloc(n * k, sizeof *b->drawn);
    b->due_us = calloc(n, sizeof *b->due_us);
    bool good = b->documents && b->weights && b->questions && b->drawn && b->due_us;
    double sum = 0, at = 0;
    for (int i = 0; good && i < b->n_documents; i++)
        b->weights[i] = sum += pow(i + 1, -(double)b->zipf);
    for (int r = 0; good && r < b->n_requests; r++) {
        for (int i = 0; i < b->n_chunks; i++)
            b->drawn[(size_t)r * k + (size_t)i] = draw_one(b, b->drawn + (size_t)r * k, i);
        if (b->rate > 0) at -= log(1 - uniform(b)) / (double)b->rate * 1e6;
        b->due_us[r] = (int64_t)at;
        good = (b->questions[r] = bench_question_text(w, 32)) != NULL;
    }
    bench_words_destroy(w);
    return good;
}

static sp_err submit(const bench *b, sp_context *c, int i, sp_request **out)
{
    sp_prompt *p = NULL;
    sp_err err = sp_prompt_create(c, &p);
    if (err == SP_OK) err = sp_prompt_system(p, CLI_SYSTEM_TEXT);
    for (int k = 0; err == SP_OK && k < b->n_chunks; k++)
        err = sp_prompt_chunk(p, "", b->documents[b->drawn[i * b->n_chunks + k]]);
    if (err == SP_OK) err = sp_prompt_question(p, b->questions[i]);
    if (err == SP_OK)
        err = sp_request_submit(c, p,
                                &(sp_request_opts){.sampling = sp_sampling_default(),
                                                   .max_tokens = b->answer,
                                                   .ignore_end = true},
                                out);
    sp_prompt_destroy(p);
    return err;
}

/* serve -- submits what is due between steps, until all are answered. */
static sp_err serve(const bench *b, sp_context *c, sp_request **r)
{
    sp_err err = SP_OK;
    int64_t start = sp_clock_us();
    bool busy = true;
    for (int n = 0; err == SP_OK && (busy || n < b->n_requests);) {
        while (err == SP_OK && n < b->n_requests && sp_clock_us() - start >= b->due_us[n]) {
            err = submit(b, c, n, &r[n]);
            n += err == SP_OK;
        }
        if (err == SP_OK) err = sp_context_step(c, &busy);
    }
    return err;
}

static void summarize(const bench *b, sp_request *const *r, outcome *out)
{
    double *us = calloc((size_t)b->n_requests, sizeof *us), cached = 0, prompt = 0;
    for (int i = 0; us && i < b->n_requests; i++) {
        const sp_result *res = sp_request_result(r[i]);
        us[i] = (double)res->ttft_us;
        out->ttft_us += us[i] / b->n_requests;
        cached += res->n_reused + res->n_recomputed;
        prompt += res->n_prompt;
    }
    if (us) out->p95_us = bench_quantile(us, b->n_requests, 0.95);
    out->cached = prompt > 0 ? cached / prompt : 0;
    free(us);
}

static bool run_order(bench *b, const char *order, outcome *out)
{
    b->m.ctx.order = order;
    sp_context *c = model_options_open(&b->m);
    sp_request **r = c ? calloc((size_t)b->n_requests, sizeof *r) : NULL;
    bool good = r && (b->documents || draw(b, c));
    if (good) {
        int64_t start = sp_clock_us();
        sp_err err = serve(b, c, r);
        good = err == SP_OK || (cli_fail(err), false);
        *out = (outcome){.all_us = (double)(sp_clock_us() - start)};
        sp_measured_steps t = sp_measure_steps(c);
        out->sched_us = (double)(t.step_us - t.compute_us) / b->n_requests;
        if (good) summarize(b, r, out);
    }
    for (int i = 0; r && i < b->n_requests; i++) sp_request_destroy(r[i]);
    free(r);
    sp_context_close(c);
    return good;
}

static void print(const char *order, int round, const outcome *o, double first_us, bool json)
{
    if (json)
        printf("{\"order\": \"%s\", \"round\": %d, \"ttft_ms\": %.3f, \"ttft_p95_ms\": %.3f, "
               "\"seconds\": %.3f, \"cached\": %.4f, \"sched_us\": %.1f, \"ttft_ratio\": %.4f}\n",
               order, round, o->ttft_us / 1e3, o->p95_us / 1e3, o->all_us / 1e6, o->cached,
               o->sched_us, first_us / o->ttft_us);
    else
        printf("%-8s %5d %12.1f %12.1f %9.2f %8.1f %% %9.1f %8.2fx\n", order, round,
               o->ttft_us / 1e3, o->p95_us / 1e3, o->all_us / 1e6, 100 * o->cached, o->sched_us,
               first_us / o->ttft_us);
    fflush(stdout);
}

static bool run(bench *b, const bench_names *orders, bool json)
{
    if (!json)
        printf("%-8s %5s %12s %12s %9s %10s %9s %9s\n", "order", "round", "TTFT ms", "95 % ms",
               "seconds", "cached", "sched us", "TTFT");
    for (int round = 0; round < b->rounds; round++) {
        double first_us = 0;
        for (int i = 0; i < orders->n; i++) {
            outcome o;
            if (!run_order(b, orders->v[i], &o)) return false;
            if (i == 0) first_us = o.ttft_us;
            print(orders->v[i], round, &o, first_us, json);
        }
    }
    return true;
}

static bool in_range(const bench *b)
{
    return b->n_requests >= 1 && b->n_requests <= 1 << 20 && b->n_chunks >= 1 &&
           b->n_chunks <= b->n_documents && b->n_documents <= 1 << 20 && b->chunk_tokens >= 1 &&
           b->rounds >= 1 && b->answer >= 1 && b->zipf >= 0 && b->rate >= 0;
}

int bench_queue(int argc, char **argv)
{
    bench b = {.n_requests = 1000,
               .n_documents = 2000,
               .chunk_tokens = 64,
               .n_chunks = 4,
               .rounds = 3,
               .answer = 1,
               .zipf = 1,
               .random = 1};
    const char *names = "fcfs,reorder,lpm,lsp";
    bool json = false;
    bench_names orders;
    model_options_init(&b.m);
    const opt own[] = {
        {OPT_INT, "requests", 'n', "N", &b.n_requests, "requests (1000)", .common = true},
        {OPT_INT, "documents", 0, "N", &b.n_documents, "different documents (2000)",
         .common = true},
        {OPT_INT, "chunk-tokens", 0, "N", &b.chunk_tokens, "tokens in each (64)", .common = true},
        {OPT_INT, "chunks", 0, "N", &b.n_chunks, "documents in a prompt (4)", .common = true},
        {OPT_FLOAT, "zipf", 0, "S", &b.zipf, "document i is drawn in proportion to i^-S (1)"},
        {OPT_FLOAT, "rate", 0, "R", &b.rate, "requests a second; 0: all at once (0)"},
        {OPT_INT, "predict", 0, "N", &b.answer, "tokens of an answer (1)"},
        {OPT_STRING, "orders", 0, "LIST", &names,
         "orders, the first is what the others are compared with (fcfs,reorder,lpm,lsp)"},
        {OPT_INT, "rounds", 0, "N", &b.rounds, "times that each order runs, in turn (3)"},
        {OPT_U64, "seed", 's', "N", &b.random, "random seed (1)"},
        {OPT_FLAG, "json", 0, NULL, &json, "one JSON line for each run"},
        {0},
    };
    const opt *const tables[] = {own, b.m.table, NULL};
    int at =
        opt_parse(argc, argv,
                  &(opt_usage){"bench queue -m MODEL [options]",
                               "Measures what the order of waiting requests does to their time "
                               "to the first token,\nand what choosing costs."},
                  tables);
    if (at < 0) return -1 - at;
    if (at != argc || !in_range(&b))
        return cli_fail_with("bench queue: a number is out of range, or a prompt has more "
                             "documents than there are"),
               2;
    if (!bench_names_parse("orders", names, NULL, &orders)) return 2;
    b.m.ctx.guard = 0; /* it would compute between the requests */
    bool good = run(&b, &orders, json);
    bench_texts_free(b.documents, b.n_documents);
    bench_texts_free(b.questions, b.n_requests);
    free(b.weights);
    free(b.drawn);
    free(b.due_us);
    return good ? 0 : 1;
}
