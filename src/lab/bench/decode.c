/* decode.c -- `spolia bench decode`: how fast answers are decoded, of one or several requests at
 * a time, after contexts of given lengths.
 *
 *   hold      each request has its own context in memory, so that no keys are shared
 *   start     one new token each; steps until all have their first answer token
 *   measure   `predict` steps, each of which gives every request a token
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lab/bench/model.h"
#include "lab/bench/speed.h"
#include "cli/cli.h"
#include "serve/check/measure.h"

#define MAX_BATCH 256

typedef struct setting {
    bench_model *model;
    int depth, batch;
} setting;

typedef struct bench {
    speed_bench s;
    bench_model *models;
    int n_models, predict;
    bench_list batches, depths;
    setting *settings; /* [s.n_rows] */
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static sp_err count_token(int position, const float *logits, int n_vocab, void *user)
{
    ++*(int *)user;
    return SP_OK;
}

/* submit -- the answer may be longer than measured, so that no request ends while timed. */
static sp_request *submit(const setting *c, int request, int predict, int *count)
{
    bench_model *m = c->model;
    sp_prompt *p = bench_model_prompt(m, request, c->depth, 1);
    if (!p) return NULL;
    sp_reuse_opts reuse = bench_model_reuse(c->depth);
    sp_request *r = NULL;
    const sp_measure counter = {.on_logits = count_token, .user = count};
    sp_err err = sp_measure_submit(m->ctx, p,
                                   &(sp_request_opts){.reuse = &reuse,
                                                      .sampling = sp_sampling_default(),
                                                      .max_tokens = predict + 2,
                                                      .ignore_end = true},
                                   &counter, &r);
    sp_prompt_destroy(p);
    if (err != SP_OK) cli_fail(err);
    return r;
}

static int fewest(const int *counts, int n)
{
    int least = counts[0];
    for (int i = 1; i < n; i++)
        if (counts[i] < least) least = counts[i];
    return least;
}

/* step_until -- steps until every request has `wanted` answer tokens. */
static bool step_until(sp_context *ctx, const int *counts, int n, int wanted)
{
    bool busy = true;
    while (busy && fewest(counts, n) < wanted) {
        sp_err err = sp_context_step(ctx, &busy);
        if (err != SP_OK) return cli_fail(err), false;
    }
    return fewest(counts, n) >= wanted ||
           (cli_fail_with("a request ended before it had %d tokens", wanted), false);
}

static bool measure(const setting *c, int predict, int *counts, double *seconds)
{
    sp_context *ctx = c->model->ctx;
    if (!step_until(ctx, counts, c->batch, 1)) return false;
    for (int i = 0; i < c->batch; i++)
        if (counts[i] != 1)
            return cli_fail_with("%d requests did not start together; increase --kv-memory",
                                 c->batch),
                   false;
    double start = now();
    bool good = step_until(ctx, counts, c->batch, 1 + predict);
    *seconds = now() - start;
    return good;
}

static bool run(void *user, int index, double *seconds)
{
    bench *b = user;
    const setting *c = &b->settings[index];
    sp_request *requests[MAX_BATCH] = {0};
    int counts[MAX_BATCH] = {0};
    bool good = true;
    for (int i = 0; i < c->batch && good; i++) good = bench_model_hold(c->model, i, c->depth);
    for (int i = 0; i < c->batch && good; i++)
        good = (requests[i] = submit(c, i, b->predict, &counts[i])) != NULL;
    good = good && measure(c, b->predict, counts, seconds);
    for (int i = 0; i < c->batch; i++) sp_request_destroy(requests[i]);
    return good;
}

static bool add(bench *b, bench_model *m, int depth, int batch)
{
    char at_once[16], before[16], why[128];
    snprintf(at_once, sizeof at_once, "%d", batch);
    snprintf(before, sizeof before, "%d", depth);
    const char *const values[] = {m->path, at_once, before};
    const bench_load load = {
        .n_requests = batch, .depth = depth, .fresh = 1, .answer = b->predict + 2};
    if (!bench_model_fits(m, &load, why, sizeof why))
        return speed_skip(&b->s, values, "%s", why), true;
    setting *settings = realloc(b->settings, (size_t)(b->s.n_rows + 1) * sizeof *settings);
    if (!settings) return cli_fail_with("out of memory"), false;
    b->settings = settings;
    settings[b->s.n_rows] = (setting){m, depth, batch};
    bench_work step = bench_model_step_work(m, batch, depth + 1 + ((double)b->predict + 1) / 2),
               work = {0};
    bench_work_add(&work, &step, b->predict);
    return speed_add(&b->s, values, (double)batch * b->predict, &work);
}

/* warn_of_caches -- a small model stays in the caches. */
static void warn_of_caches(const bench *b)
{
    size_t larger = b->s.machine.best.read_bytes;
    for (int i = 0; i < b->n_models; i++)
        if (b->models[i].weight_bytes < (double)larger / 2)
            printf(
                "%s: %.1f MB of weights may stay in the caches and exceed the bound of reading\n",
                b->models[i].path, b->models[i].weight_bytes / 1e6);
}

static bool add_all(bench *b)
{
    warn_of_caches(b);
    for (int d = 0; d < b->depths.n; d++)
        for (int n = 0; n < b->batches.n; n++)
            for (int m = 0; m < b->n_models; m++)
                if (!add(b, &b->models[m], (int)b->depths.v[d], (int)b->batches.v[n])) return false;
    return true;
}

static int largest(const bench_list *l)
{
    double v = 0;
    for (int i = 0; i < l->n; i++)
        if (l->v[i] > v) v = l->v[i];
    return (int)v;
}

static int run_all(bench *b, bench_model_options *mo, const speed_options *o)
{
    b->s = (speed_bench){.o = o, .unit = "tok/s", .columns = {"model", "batch", "depth"}};
    b->n_models = mo->models.n;
    b->models = bench_models_open(mo, o->n_threads, o->cpu, largest(&b->batches), &b->depths);
    bool good = b->models && speed_open(&b->s) && add_all(b) && speed_measure(&b->s, run, b);
    bench_models_close(b->models, b->n_models);
    free(b->settings);
    return speed_close(&b->s, good);
}

int bench_decode(int argc, char **argv)
{
    const char *batches = "1,4", *depths = "0,512";
    speed_options o;
    bench_model_options mo;
    bench b = {.predict = 16};
    speed_options_init(&o, 3);
    bench_model_options_init(&mo);
    const opt own[] = {
        {OPT_STRING, "batches", 0, "LIST", &batches, "numbers of requests decoded together (1,4)"},
        {OPT_STRING, "depths", 0, "LIST", &depths, "tokens of context of each request (0,512)"},
        {OPT_INT, "predict", 'n', "N", &b.predict, "timed tokens of each request (16)"},
        {0},
    };
    const opt *const tables[] = {own, mo.table, o.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"bench decode -m MODEL [-m MODEL ...] [options]",
                                    "Tokens per second of answers, of all requests together. "
                                    "Columns: model, batch, depth."},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("bench decode: unexpected argument \"%s\"", argv[at]), 2;
    if (b.predict < 1 || b.predict > 1 << 20)
        return cli_fail_with("--predict: %d is not in 1..%d", b.predict, 1 << 20), 2;
    if (!speed_options_check(&o) || !bench_model_options_check(&mo) ||
        !bench_list_parse("batches", batches, 1, MAX_BATCH, true, &b.batches) ||
        !bench_list_parse("depths", depths, 0, 1 << 20, true, &b.depths))
        return 2;
    return run_all(&b, &mo, &o);
}
