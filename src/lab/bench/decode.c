/* decode.c -- `spolia bench decode`: how fast answers are decoded, of one or several requests at
 * a time, after contexts of given lengths.
 *
 *   hold      each request has its own context in memory, so that no keys are shared
 *   start     one new token each; steps until all have their first answer token
 *   measure   `predict` steps, each of which gives every request a token
 */
#include "lab/bench/speed.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "serve/check/measure.h"

#define MAX_BATCH 256

static sp_err count_token(int position, const float *logits, int n_vocab, void *user)
{
    ++*(int *)user;
    return SP_OK;
}

/* submit -- the answer may be longer than measured, so that no request ends while timed. */
static sp_request *submit(const speed_row *c, int request, int predict, int *count)
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

static bool measure(const speed_row *c, int predict, int *counts, double *seconds)
{
    sp_context *ctx = c->model->ctx;
    if (!step_until(ctx, counts, c->size, 1)) return false;
    for (int i = 0; i < c->size; i++)
        if (counts[i] != 1)
            return cli_fail_with("%d requests did not start together; increase --kv-memory",
                                 c->size),
                   false;
    const int64_t start = sp_clock_us();
    bool good = step_until(ctx, counts, c->size, 1 + predict);
    *seconds = (double)(sp_clock_us() - start) * 1e-6;
    return good;
}

static bool run(speed_bench *b, const speed_row *c, double *seconds)
{
    sp_request *requests[MAX_BATCH] = {0};
    int counts[MAX_BATCH] = {0};
    bool good = true;
    for (int i = 0; i < c->size && good; i++) good = bench_model_hold(c->model, i, c->depth);
    for (int i = 0; i < c->size && good; i++) good = (requests[i] = submit(c, i, b->predict, &counts[i])) != NULL;
    good = good && measure(c, b->predict, counts, seconds);
    for (int i = 0; i < c->size; i++) sp_request_destroy(requests[i]);
    return good;
}

static bench_load load_of(const speed_bench *b, int depth, int size)
{
    return (bench_load){.n_requests = size, .depth = depth, .fresh = 1, .answer = b->predict + 2};
}

static void prepare(const speed_bench *b, speed_row *r)
{
    const bench_work step =
        bench_model_step_work(r->model, r->size, r->depth + 1 + ((double)b->predict + 1) / 2);
    r->tokens = (double)r->size * b->predict;
    bench_work_add(&r->work, &step, b->predict);
}

int bench_decode(int argc, char **argv)
{
    static const speed_kind kind = {.name = "decode",
                                    .usage = "bench decode -m MODEL [-m MODEL ...] [options]",
                                    .help = "Tokens per second of answers, of all requests together. "
                                            "Columns: model, batch, depth.",
                                    .column = "batch",
                                    .sizes_option = "batches",
                                    .sizes = "1,4",
                                    .sizes_help = "numbers of requests decoded together (1,4)",
                                    .depths = "0,512",
                                    .depths_help = "tokens of context of each request (0,512)",
                                    .most = MAX_BATCH,
                                    .at_once = true,
                                    .load = load_of,
                                    .prepare = prepare,
                                    .run = run};
    speed_bench b = {.predict = 16};
    const opt own[] = {{OPT_INT, "predict", 'n', "N", &b.predict, "timed tokens of each request (16)",
                        .limits = {1, 1048576}}, {0}};
    return speed_bench_run(&b, &kind, own, argc, argv);
}
