/* queue.c -- `spolia bench queue`: what the order of the queue does to many waiting requests, and
 * what choosing costs.
 *
 * Requests of a few documents, drawn from a Zipf distribution, arrive at once or as a Poisson
 * process. Every order gets the same requests in turn, on an empty cache. TTFT is from submission to
 * the first token. "sched" is the time of all steps without the model's own: look-ups, the choice,
 * plans, eviction, keeping; for each request.
 *
 * The clock is time, or the tokens that the model has computed (--clock tokens): then arrivals and
 * TTFT depend on the orders alone, and two runs are equal on any machine.
 * Source: RAGCache figure 18, table 4 (R5, R10). */
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
    float zipf, rate, load; /* requests a second, or in terms of what the first order sustains; 0:
                               all at once */
    bool by_tokens;         /* the clock: tokens that the model has computed, else us */
    bool json;
    uint64_t random;
    char **documents; /* [n_documents] */
    double *weights;  /* [n_documents] cumulative */
    char **questions; /* [n_requests] */
    int *drawn;       /* [n_requests, n_chunks] */
    double *gaps;     /* [n_requests] before each arrival, in mean gaps */
} bench;

/* A request of a run, and when it was there and answered, by the clock. */
typedef struct asked {
    struct sitting *sitting;
    sp_request *request;
    int64_t due, first;
} asked;

typedef struct sitting {
    const bench *b;
    sp_context *c;
    int64_t start; /* of the clock */
    asked *asked;  /* [n_requests] */
} sitting;

/* Times by the clock; means, but for p95. */
typedef struct outcome {
    double ttft, p95, all, sched_us;
    double cached; /* share of tokens */
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
    b->gaps = calloc(n, sizeof *b->gaps);
    bool good = b->documents && b->weights && b->questions && b->drawn && b->gaps;
    double sum = 0;
    for (int i = 0; good && i < b->n_documents; i++)
        b->weights[i] = sum += pow(i + 1, -(double)b->zipf);
    for (int r = 0; good && r < b->n_requests; r++) {
        for (int i = 0; i < b->n_chunks; i++)
            b->drawn[(size_t)r * k + (size_t)i] = draw_one(b, b->drawn + (size_t)r * k, i);
        b->gaps[r] = -log(1 - uniform(b));
        good = (b->questions[r] = bench_question_text(w, 32)) != NULL;
    }
    bench_words_destroy(w);
    return good;
}

static int64_t now(const sitting *s)
{
    int64_t at = s->b->by_tokens ? sp_measure_steps(s->c).n_tokens : sp_clock_us();
    return at - s->start;
}

static void note_first(const sp_token_logprob *v, int n, void *user)
{
    asked *a = user;
    SP_UNUSED(v);
    SP_UNUSED(n);
    if (a->first < 0) a->first = now(a->sitting);
}

static sp_err submit(sitting *s, int i)
{
    const bench *b = s->b;
    asked *a = &s->asked[i];
    sp_prompt *p = NULL;
    sp_err err = sp_prompt_create(s->c, &p);
    if (err == SP_OK) err = sp_prompt_system(p, CLI_SYSTEM_TEXT);
    for (int k = 0; err == SP_OK && k < b->n_chunks; k++)
        err = sp_prompt_chunk(p, "", b->documents[b->drawn[i * b->n_chunks + k]]);
    if (err == SP_OK) err = sp_prompt_question(p, b->questions[i]);
    if (err == SP_OK)
        err = sp_request_submit(s->c, p,
                                &(sp_request_opts){.sampling = sp_sampling_default(),
                                                   .max_tokens = b->answer,
                                                   .ignore_end = true,
                                                   .on_token = note_first,
                                                   .user = a},
                                &a->request);
    sp_prompt_destroy(p);
    return err;
}

/* serve -- submits what is due between steps, until all are answered. */
static sp_err serve(sitting *s)
{
    const int n = s->b->n_requests;
    sp_err err = SP_OK;
    bool busy = false;
    s->start = now(s);
    for (int i = 0; err == SP_OK && (busy || i < n);) {
        if (!busy && s->b->by_tokens) /* tokens do not pass while nothing is computed */
            s->start -= SP_MAX(s->asked[i].due - now(s), 0);
        for (; err == SP_OK && i < n && now(s) >= s->asked[i].due; i++) err = submit(s, i);
        if (err == SP_OK) err = sp_context_step(s->c, &busy);
    }
    return err;
}

static void summarize(const sitting *s, outcome *out)
{
    const int n = s->b->n_requests;
    double *ttft = calloc((size_t)n, sizeof *ttft), cached = 0, prompt = 0;
    for (int i = 0; ttft && i < n; i++) {
        const sp_result *res = sp_request_result(s->asked[i].request);
        ttft[i] = (double)(s->asked[i].first - s->asked[i].due);
        out->ttft += ttft[i] / n;
        cached += res->n_reused + res->n_recomputed;
        prompt += res->n_prompt;
    }
    if (ttft) out->p95 = bench_quantile(ttft, n, 0.95);
    out->cached = prompt > 0 ? cached / prompt : 0;
    sp_measured_steps t = sp_measure_steps(s->c);
    out->sched_us = (double)(t.step_us - t.compute_us) / n;
    out->all = (double)now(s);
    free(ttft);
}

/* run_order -- all requests, gap apart on average, by the clock. */
static bool run_order(bench *b, const char *order, double gap, outcome *out)
{
    double at = 0;
    b->m.ctx.queue.order = order;
    sitting s = {.b = b, .c = model_options_open(&b->m)};
    s.asked = s.c ? calloc((size_t)b->n_requests, sizeof *s.asked) : NULL;
    bool good = s.asked && (b->documents || draw(b, s.c));
    for (int i = 0; good && i < b->n_requests; i++)
        s.asked[i] = (asked){.sitting = &s, .due = (int64_t)(at += gap * b->gaps[i]), .first = -1};
    *out = (outcome){0};
    if (good) {
        sp_err err = serve(&s);
        good = err == SP_OK || (cli_fail(err), false);
        if (good) summarize(&s, out);
    }
    for (int i = 0; s.asked && i < b->n_requests; i++) sp_request_destroy(s.asked[i].request);
    free(s.asked);
    sp_context_close(s.c);
    return good;
}

static void print(const bench *b, const char *order, int round, const outcome *o, double first)
{
    double ttft = b->by_tokens ? o->ttft : o->ttft / 1e3;
    double p95 = b->by_tokens ? o->p95 : o->p95 / 1e3, all = b->by_tokens ? o->all : o->all / 1e6;
    const char *unit = b->by_tokens ? "tokens" : "ms", *long_unit = b->by_tokens ? "tokens" : "seconds";
    if (b->json)
        printf("{\"order\": \"%s\", \"round\": %d, \"ttft_%s\": %.3f, \"ttft_p95_%s\": %.3f, "
               "\"%s\": %.3f, \"cached\": %.4f, \"sched_us\": %.1f, \"ttft_ratio\": %.4f}\n",
               order, round, unit, ttft, unit, p95, long_unit, all, o->cached, o->sched_us,
               first / o->ttft);
    else
        printf("%-8s %5d %12.1f %12.1f %9.*f %8.1f %% %9.1f %8.2fx\n", order, round, ttft, p95,
               b->by_tokens ? 0 : 2, all, 100 * o->cached, o->sched_us, first / o->ttft);
    fflush(stdout);
}

/* find_gap -- by the clock, between arrivals on average. */
static bool find_gap(bench *b, const char *order, double *gap)
{
    outcome all_at_once;
    *gap = b->rate > 0 ? 1e6 / (double)b->rate : 0;
    if (b->load <= 0) return true;
    if (!run_order(b, order, 0, &all_at_once)) return false;
    *gap = all_at_once.all / b->n_requests / (double)b->load;
    return true;
}

static bool run(bench *b, const bench_names *orders)
{
    double gap;
    if (!find_gap(b, orders->v[0], &gap)) return false;
    if (!b->json)
        printf("%-8s %5s %12s %12s %9s %10s %9s %9s\n", "order", "round",
               b->by_tokens ? "TTFT tokens" : "TTFT ms", b->by_tokens ? "95 % tokens" : "95 % ms",
               b->by_tokens ? "computed" : "seconds", "cached", "sched us", "TTFT");
    for (int round = 0; round < b->rounds; round++) {
        double first = 0;
        for (int i = 0; i < orders->n; i++) {
            outcome o;
            if (!run_order(b, orders->v[i], gap, &o)) return false;
            if (i == 0) first = o.ttft;
            print(b, orders->v[i], round, &o, first);
        }
    }
    return true;
}

static bool in_range(const bench *b)
{
    return b->n_requests >= 1 && b->n_requests <= 1 << 20 && b->n_chunks >= 1 &&
           b->n_chunks <= b->n_documents && b->n_documents <= 1 << 20 && b->chunk_tokens >= 1 &&
           b->rounds >= 1 && b->answer >= 1 && b->zipf >= 0 && b->rate >= 0 && b->load >= 0 &&
           !(b->rate > 0 && (b->load > 0 || b->by_tokens));
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
    const char *names = "fcfs,reorder,lpm,lsp", *clock = "time";
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
        {OPT_FLOAT, "load", 0, "F",
         &b.load, "instead: F times the rate that the first order sustains, which is measured first"},
        {OPT_STRING, "clock", 0, "NAME", &clock,
         "time, or tokens: computed ones, so two runs are equal on any machine (time)"},
        {OPT_INT, "predict", 0, "N", &b.answer, "tokens of an answer (1)"},
        {OPT_STRING, "orders", 0, "LIST", &names,
         "orders, the first is what the others are compared with (fcfs,reorder,lpm,lsp)"},
        {OPT_INT, "rounds", 0, "N", &b.rounds, "times that each order runs, in turn (3)"},
        {OPT_U64, "seed", 's', "N", &b.random, "random seed (1)"},
        {OPT_FLAG, "json", 0, NULL, &b.json, "one JSON line for each run"},
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
    b.by_tokens = strcmp(clock, "tokens") == 0;
    if (!b.by_tokens && strcmp(clock, "time") != 0)
        return cli_fail_with("--clock %s: time or tokens", clock), 2;
    if (at != argc || !in_range(&b))
        return cli_fail_with("bench queue: a number is out of range, a prompt has more documents than there are, "
                             "or --rate goes with --load or with --clock tokens"),
               2;
    if (!bench_names_parse("orders", names, NULL, &orders)) return 2;
    b.m.ctx.guard.share = 0; /* it would compute between the requests */
    bool good = run(&b, &orders);
    bench_texts_free(b.documents, b.n_documents);
    bench_texts_free(b.questions, b.n_requests);
    free(b.weights);
    free(b.drawn);
    free(b.gaps);
    return good ? 0 : 1;
}
