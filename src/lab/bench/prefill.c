/* prefill.c -- `spolia bench prefill`: how fast prompts are computed, at the beginning of a
 * context and after a cached one.
 *
 * The time is the time to first token. A cached context is an exact prefix, so the same is computed
 * as without reuse. */
#include "lab/bench/speed.h"

static bench_load load_of(const speed_bench *b, int depth, int size)
{
    return (bench_load){.n_requests = 1, .depth = depth, .fresh = size, .answer = 1};
}

static void prepare(const speed_bench *b, speed_row *r)
{
    r->tokens = r->size;
    r->work = bench_model_prefill_work(r->model, r->depth, r->size);
}

static bool run(speed_bench *b, const speed_row *r, double *seconds)
{
    *seconds = bench_model_prefill(r->model, r->depth, r->size);
    return *seconds > 0;
}

int bench_prefill(int argc, char **argv)
{
    static const speed_kind kind = {.name = "prefill",
                                    .usage = "bench prefill -m MODEL [-m MODEL ...] [options]",
                                    .help = "Tokens per second of prompts. Columns: model, tokens, depth.",
                                    .column = "tokens",
                                    .sizes_option = "sizes",
                                    .sizes = "128,512",
                                    .sizes_help = "prompt sizes in tokens (128,512)",
                                    .depths = "0",
                                    .depths_help = "tokens of context before the prompt (0)",
                                    .most = 1 << 20,
                                    .load = load_of,
                                    .prepare = prepare,
                                    .run = run};
    speed_bench b = {0};
    return speed_bench_run(&b, &kind, NULL, argc, argv);
}
