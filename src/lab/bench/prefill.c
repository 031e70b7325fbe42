/* prefill.c -- `spolia bench prefill`: how fast prompts are computed, at the beginning of a
 * context and after a cached one.
 *
 * The time is the time to first token. A cached context is an exact prefix, so the same is computed
 * as without reuse. */
#include <stdio.h>
#include <stdlib.h>

#include "lab/bench/model.h"
#include "lab/bench/speed.h"
#include "cli/cli.h"

typedef struct setting {
    bench_model *model;
    int depth, tokens;
} setting;

typedef struct bench {
    speed_bench s;
    bench_model *models;
    int n_models;
    bench_list sizes, depths;
    setting *settings; /* [s.n_rows] */
} bench;

/* run -- an evicted context is recomputed first, untimed. */
static bool run(void *user, int index, double *seconds)
{
    setting *c = &((bench *)user)->settings[index];
    sp_prompt *p = NULL;
    if (bench_model_hold(c->model, 0, c->depth))
        p = bench_model_prompt(c->model, 0, c->depth, c->tokens);
    if (!p) return false;
    sp_reuse_opts reuse = bench_model_reuse(c->depth);
    sp_request *r = NULL;
    sp_err err = sp_generate(c->model->ctx, p,
                             &(sp_request_opts){.reuse = &reuse,
                                                .sampling = sp_sampling_default(),
                                                .max_tokens = 1,
                                                .ignore_end = true},
                             &r);
    sp_prompt_destroy(p);
    if (err != SP_OK) return cli_fail(err), false;
    const sp_result *res = sp_request_result(r);
    int computed = res->n_computed;
    *seconds = (double)(res->ttft_us > 0 ? res->ttft_us : 1) * 1e-6;
    sp_request_destroy(r);
    return computed == c->tokens ||
           (cli_fail_with("%s: %d tokens were computed for a prompt of %d; increase --kv-memory",
                          c->model->path, computed, c->tokens),
            false);
}

static bool add(bench *b, bench_model *m, int depth, int tokens)
{
    char size[16], before[16], why[128];
    snprintf(size, sizeof size, "%d", tokens);
    snprintf(before, sizeof before, "%d", depth);
    const char *const values[] = {m->path, size, before};
    const bench_load load = {.n_requests = 1, .depth = depth, .fresh = tokens, .answer = 1};
    if (!bench_model_fits(m, &load, why, sizeof why))
        return speed_skip(&b->s, values, "%s", why), true;
    setting *settings = realloc(b->settings, (size_t)(b->s.n_rows + 1) * sizeof *settings);
    if (!settings) return cli_fail_with("out of memory"), false;
    b->settings = settings;
    settings[b->s.n_rows] = (setting){m, depth, tokens};
    bench_work work = bench_model_prefill_work(m, depth, tokens);
    return speed_add(&b->s, values, tokens, &work);
}

static bool add_all(bench *b)
{
    for (int d = 0; d < b->depths.n; d++)
        for (int s = 0; s < b->sizes.n; s++)
            for (int m = 0; m < b->n_models; m++)
                if (!add(b, &b->models[m], (int)b->depths.v[d], (int)b->sizes.v[s])) return false;
    return true;
}

int bench_prefill(int argc, char **argv)
{
    const char *sizes = "128,512", *depths = "0";
    speed_options o;
    bench_model_options mo;
    bench b = {0};
    speed_options_init(&o, 3);
    bench_model_options_init(&mo);
    const opt own[] = {
        {OPT_STRING, "sizes", 0, "LIST", &sizes, "prompt sizes in tokens (128,512)"},
        {OPT_STRING, "depths", 0, "LIST", &depths, "tokens of context before the prompt (0)"},
        {0},
    };
    const opt *const tables[] = {own, mo.table, o.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"bench prefill -m MODEL [-m MODEL ...] [options]",
                                    "Tokens per second of prompts. Columns: model, tokens, depth."},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("bench prefill: unexpected argument \"%s\"", argv[at]), 2;
    if (!speed_options_check(&o) || !bench_model_options_check(&mo) ||
        !bench_list_parse("sizes", sizes, 1, 1 << 20, true, &b.sizes) ||
        !bench_list_parse("depths", depths, 0, 1 << 20, true, &b.depths))
        return 2;
    b.s = (speed_bench){.o = &o, .unit = "tok/s", .columns = {"model", "tokens", "depth"}};
    b.n_models = mo.models.n;
    b.models = bench_models_open(&mo, o.n_threads, o.cpu, 1, &b.depths);
    bool good = b.models && speed_open(&b.s) && add_all(&b) && speed_measure(&b.s, run, &b);
    bench_models_close(b.models, b.n_models);
    free(b.settings);
    return speed_close(&b.s, good);
}
