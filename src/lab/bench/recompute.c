/* recompute.c -- `spolia bench recompute`: the cost of recomputed tokens at scattered positions of a
 * context, compared with as many new tokens after it.
 *
 * The context is cached chunks. Both prompts reuse the same copies of them, so both attend to the
 * same keys and values, in the same number of spans:
 *
 *     scattered     n random tokens of the chunks (policy random), and a question
 *     consecutive   none of them (policy full), and a question that is n tokens longer
 *
 * The time is the time to first token. A scattered token attends to half of the context on average
 * and a new one to all of it, so scattered tokens should not be slower. */
#include <stdio.h>
#include <stdlib.h>

#include "lab/bench/model.h"
#include "lab/bench/speed.h"
#include "lab/bench/prompts.h"
#include "cli/cli.h"

/* A model with its cached chunks. */
typedef struct place {
    bench_model *model;
    bench_words *words;
    char **chunks; /* [bench.n_chunks] */
} place;

typedef struct setting {
    place *at;
    int tokens;
    bool scattered;
} setting;

typedef struct bench {
    speed_bench s;
    bench_model *models;
    place *places; /* [n_models] */
    int n_models, context, chunk_tokens, question_tokens, n_chunks;
    bench_list sizes, depths;
    setting *settings; /* [s.n_rows]: scattered and consecutive, alternating */
} bench;

/* -- the context ---------------------------------------------------------------------------- */

/* hold -- computes the chunks unless they are cached. */
static bool hold(const bench *b, const place *at)
{
    const sp_reuse_opts full = {.policy = "full"};
    sp_request *r = bench_ask(at->model->ctx,
                              &(bench_prompt){.chunks = at->chunks, .n = b->n_chunks}, &full, 0);
    sp_request_destroy(r);
    return r != NULL;
}

static bool open_place(const bench *b, bench_model *m, place *out)
{
    out->model = m;
    out->words = bench_words_create(m->ctx, m->random);
    if (out->words) out->chunks = bench_chunk_texts(out->words, b->n_chunks, b->chunk_tokens);
    return out->chunks && hold(b, out);
}

static void close_places(bench *b)
{
    for (int i = 0; b->places && i < b->n_models; i++) {
        bench_texts_free(b->places[i].chunks, b->n_chunks);
        bench_words_destroy(b->places[i].words);
    }
    free(b->places);
}

/* -- a run ---------------------------------------------------------------------------------- */

static bool run(void *user, int index, double *seconds)
{
    const bench *b = user;
    const setting *c = &b->settings[index];
    const int again = c->scattered ? c->tokens : 0;
    const sp_reuse_opts reuse = {/* the share is rounded up to whole tokens */
                                 .policy = c->scattered ? "random" : "full",
                                 .recompute =
                                     again ? ((float)again - 0.5f) / (float)b->context : 0};
    bench_prompt p = {.chunks = c->at->chunks, .n = b->n_chunks};
    char *question = bench_question_text(c->at->words, b->question_tokens + c->tokens - again);
    p.question = question;
    sp_request *r = question && hold(b, c->at) ? bench_ask(c->at->model->ctx, &p, &reuse, 1) : NULL;
    free(question);
    if (!r) return false;
    const sp_result *res = sp_request_result(r);
    const int computed = res->n_computed, recomputed = res->n_recomputed;
    *seconds = (double)(res->ttft_us > 0 ? res->ttft_us : 1) * 1e-6;
    sp_request_destroy(r);
    return (computed == b->question_tokens + c->tokens && recomputed == again) ||
           (cli_fail_with(
                "%s: %d tokens were computed, %d of them recomputed, instead of %d and %d; "
                "increase --kv-memory",
                c->at->model->path, computed, recomputed, b->question_tokens + c->tokens, again),
            false);
}

/* -- settings ------------------------------------------------------------------------------- */

static bool add(bench *b, place *at, int tokens, bool scattered)
{
    char size[16], before[16], why[128];
    snprintf(size, sizeof size, "%d", tokens);
    snprintf(before, sizeof before, "%d", b->context);
    const char *const values[] = {at->model->path, size, before,
                                  scattered ? "scattered" : "consecutive"};
    const int fresh = tokens + b->question_tokens;
    const int head = bench_words_n_head(at->words);
    if (tokens > b->context)
        return speed_skip(&b->s, values, "the context has only %d tokens", b->context), true;
    const bench_load load = {
        .n_requests = 1, .fresh = head + b->context + fresh, .answer = tokens + 1};
    if (!bench_model_fits(at->model, &load, why, sizeof why))
        return speed_skip(&b->s, values, "%s", why), true;
    setting *settings = realloc(b->settings, (size_t)(b->s.n_rows + 1) * sizeof *settings);
    if (!settings) return cli_fail_with("out of memory"), false;
    b->settings = settings;
    settings[b->s.n_rows] = (setting){at, tokens, scattered};
    bench_work work =
        bench_model_prefill_work(at->model, scattered ? b->context / 2 : b->context, fresh);
    return speed_add(&b->s, values, fresh, &work);
}

static bool add_all(bench *b)
{
    b->places = calloc((size_t)b->n_models, sizeof *b->places);
    if (!b->places) return cli_fail_with("out of memory"), false;
    for (int m = 0; m < b->n_models; m++) {
        if (!open_place(b, &b->models[m], &b->places[m])) return false;
        for (int s = 0; s < b->sizes.n; s++)
            for (int scattered = 1; scattered >= 0; scattered--)
                if (!add(b, &b->places[m], (int)b->sizes.v[s], scattered)) return false;
    }
    return true;
}

/* print_ratios -- time of scattered over consecutive tokens, round by round. */
static void print_ratios(const bench *b)
{
    double *ratio = calloc((size_t)b->s.o->rounds, sizeof *ratio);
    puts("time of scattered / consecutive: median, and by round");
    for (int i = 0; ratio && i + 1 < b->s.n_rows; i += 2) {
        const speed_row *x = &b->s.rows[i], *y = &b->s.rows[i + 1];
        for (int k = 0; k < b->s.o->rounds; k++) ratio[k] = x->seconds[k] / y->seconds[k];
        printf("%s  %s tokens", x->value[0], x->value[1]);
        printf("  %.3f ", bench_quantile(ratio, b->s.o->rounds, 0.5));
        for (int k = 0; k < b->s.o->rounds; k++) printf(" %.3f", x->seconds[k] / y->seconds[k]);
        putchar('\n');
    }
    free(ratio);
}

static bool check(bench *b)
{
    if (b->chunk_tokens < 1 || b->chunk_tokens > 1 << 20)
        return cli_fail_with("--chunk-tokens: %d is not in 1..%d", b->chunk_tokens, 1 << 20), false;
    if (b->context < b->chunk_tokens || b->context > 1 << 20 || b->context % b->chunk_tokens)
        return cli_fail_with("--context: %d is not a multiple of %d up to %d", b->context,
                             b->chunk_tokens, 1 << 20),
               false;
    if (b->question_tokens < 1 || b->question_tokens > 1 << 20)
        return cli_fail_with("--question-tokens: %d is not in 1..%d", b->question_tokens, 1 << 20),
               false;
    b->n_chunks = b->context / b->chunk_tokens;
    return true;
}

int bench_recompute(int argc, char **argv)
{
    const char *sizes = "64,128,256";
    speed_options o;
    bench_model_options mo;
    bench b = {
        .context = 4096, .chunk_tokens = 512, .question_tokens = 32, .depths = {.v = {0}, .n = 1}};
    speed_options_init(&o, 5);
    bench_model_options_init(&mo);
    const opt own[] = {
        {OPT_STRING, "sizes", 0, "LIST", &sizes, "recomputed or new tokens (64,128,256)"},
        {OPT_INT, "context", 0, "N", &b.context, "tokens of the cached chunks (4096)"},
        {OPT_INT, "chunk-tokens", 0, "N", &b.chunk_tokens, "tokens in each of them (512)"},
        {OPT_INT, "question-tokens", 0, "N", &b.question_tokens, "tokens of the question (32)"},
        {0},
    };
    const opt *const tables[] = {own, mo.table, o.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"bench recompute -m MODEL [-m MODEL ...] [options]",
                                    "Recomputed tokens at scattered positions of a context, "
                                    "compared with new tokens after it.\nColumns: model, tokens, "
                                    "context, how."},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc)
        return cli_fail_with("bench recompute: unexpected argument \"%s\"", argv[at]), 2;
    if (!check(&b) || !speed_options_check(&o) || !bench_model_options_check(&mo) ||
        !bench_list_parse("sizes", sizes, 1, 1 << 20, true, &b.sizes))
        return 2;
    b.s = (speed_bench){.o = &o, .unit = "tok/s", .columns = {"model", "tokens", "context", "how"}};
    b.n_models = mo.models.n;
    b.models = bench_models_open(&mo, o.n_threads, o.cpu, 1, &b.depths);
    bool good = b.models && speed_open(&b.s) && add_all(&b) && speed_measure(&b.s, run, &b);
    if (good) print_ratios(&b);
    close_places(&b);
    bench_models_close(b.models, b.n_models);
    free(b.settings);
    return speed_close(&b.s, good);
}
