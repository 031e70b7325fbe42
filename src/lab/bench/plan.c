/* plan.c -- `spolia bench plan`: the time to look up and plan a prompt of cached chunks, when
 * many chunks are cached.
 *
 * Many small chunks are computed first, as many per prompt as fit the context. Then prompts of a few
 * random ones are run to the first token. Only sp_result.plan_us counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/bench/bench.h"
#include "lab/bench/prompts.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "cli/policies.h"

#define TARGET_US 100

typedef struct bench {
    model_options m;
    sp_context *ctx;
    bench_words *words;
    int n_known, chunk_tokens, n_chunks, rounds;
    uint64_t random;
    char **known;         /* [n_known] */
    const char *known_by; /* the policy that computed them */
} bench;

/* limit_known -- to three quarters of KV memory; running prompts need the rest. */
static bool limit_known(bench *b)
{
    sp_context_info info = sp_context_describe(b->ctx);
    int64_t most = info.kv_blocks * 3 / 4 / ((b->chunk_tokens + 15) / 16);
    if (most < b->n_chunks)
        return cli_fail_with("KV memory holds %lld chunks of %d tokens; increase --kv-memory",
                             (long long)most, b->chunk_tokens),
               false;
    if (b->n_known <= most) return true;
    printf("KV memory holds %lld of %d chunks; increase --kv-memory\n", (long long)most,
           b->n_known);
    b->n_known = (int)most;
    return true;
}

/* maker_of -- the policy whose copies a policy can use: one that keeps statistics needs its own. */
static const char *maker_of(const char *policy)
{
    const cli_policy *p = cli_policy_find(policy, NULL);
    return p && p->own_statistics ? p->name : "full";
}

/* compute_known -- caches all chunks as copies that the policy can use. */
static bool compute_known(bench *b, const char *policy)
{
    const sp_reuse_opts maker = {.policy = maker_of(policy)};
    if (b->known_by && strcmp(b->known_by, maker.policy) == 0) return true;
    b->known_by = maker.policy;
    sp_context_forget(b->ctx);
    int room = sp_context_describe(b->ctx).n_ctx - bench_words_n_head(b->words);
    int piece = room / b->chunk_tokens < 64 ? room / b->chunk_tokens : 64;
    if (piece < 1)
        return cli_fail_with("a chunk of %d tokens does not fit the context", b->chunk_tokens),
               false;
    for (int at = 0; at < b->n_known; at += piece) {
        int n = b->n_known - at < piece ? b->n_known - at : piece;
        sp_request *r =
            bench_ask(b->ctx, &(bench_prompt){.chunks = b->known + at, .n = n}, &maker, 0);
        if (!r) return false;
        sp_request_destroy(r);
        if (isatty(2)) fprintf(stderr, "\r%d of %d chunks cached ", at + n, b->n_known);
    }
    if (isatty(2)) fputs("\r\033[K", stderr);
    return true;
}

/* draw -- runs one prompt of random chunks and a new question. */
static bool draw(bench *b, const sp_reuse_opts *reuse, double *plan_us, int *n_reused)
{
    char **chunks = calloc((size_t)b->n_chunks, sizeof *chunks);
    char *question = bench_question_text(b->words, 32);
    bool good = chunks && question;
    for (int i = 0; good && i < b->n_chunks; i++) {
        int k;
        do k = (int)(bench_random(&b->random) % (uint64_t)b->n_known);
        while (b->known[k] == (i ? chunks[i - 1] : NULL));
        chunks[i] = b->known[k];
    }
    bench_prompt p = {.chunks = chunks, .n = b->n_chunks, .question = question};
    sp_request *r = good ? bench_ask(b->ctx, &p, reuse, 1) : NULL;
    if (r) {
        *plan_us = (double)sp_request_result(r)->plan_us;
        *n_reused = sp_request_result(r)->n_reused;
    }
    sp_request_destroy(r);
    free(question);
    free(chunks);
    return r != NULL;
}

static bool run_policy(bench *b, const char *policy)
{
    sp_reuse_opts reuse = b->m.ctx.reuse;
    reuse.policy = policy;
    double *us = calloc((size_t)b->rounds, sizeof *us);
    bool good = us != NULL;
    int64_t reused = 0;
    long long segments = (long long)sp_context_describe(b->ctx).cached_segments;
    for (int i = 0, n = 0; i < b->rounds && good; i++) {
        good = draw(b, &reuse, &us[i], &n);
        reused += n;
    }
    if (good) {
        double median = bench_quantile(us, b->rounds, 0.5),
               p99 = bench_quantile(us, b->rounds, 0.99);
        printf("%-8s %10lld %10.0f us %10.0f us %10.1f %10s\n", policy, segments, median, p99,
               (double)reused / b->rounds, median < TARGET_US ? "yes" : "no");
        fflush(stdout);
    }
    free(us);
    return good;
}

static bool run(bench *b, const bench_names *policies)
{
    if (!limit_known(b)) return false;
    b->known = bench_chunk_texts(b->words, b->n_known, b->chunk_tokens);
    if (!b->known) return false;
    printf("%d chunks cached, %d of %d tokens in a prompt, %d prompts\n", b->n_known, b->n_chunks,
           b->chunk_tokens, b->rounds);
    printf("%-8s %10s %13s %13s %10s %10s\n", "policy", "segments", "median", "99 %", "reused",
           "< 100 us");
    for (int i = 0; i < policies->n; i++)
        if (!compute_known(b, policies->v[i]) || !run_policy(b, policies->v[i])) return false;
    return true;
}

int bench_plan(int argc, char **argv)
{
    bench b = {.n_known = 10000, .chunk_tokens = 16, .n_chunks = 8, .rounds = 1000, .random = 1};
    const char *names = "full,fusion,prefix"; /* the path index does not help the first two */
    bench_names policies;
    model_options_init(&b.m);
    model_options_compares(&b.m);
    b.m.ctx.reuse.recompute = 0.15f;
    const opt own[] = {
        {OPT_INT, "known", 0, "N", &b.n_known, "cached chunks (10000)"},
        {OPT_INT, "chunk-tokens", 0, "N", &b.chunk_tokens, "tokens in each chunk (16)"},
        {OPT_INT, "chunks", 0, "N", &b.n_chunks, "chunks in a prompt (8)"},
        {OPT_INT, "rounds", 0, "N", &b.rounds, "number of prompts (1000)"},
        {OPT_STRING, "policies", 0, "LIST", &names,
         "reuse policies (full,fusion,prefix); --recompute defaults to 0.15"},
        {OPT_U64, "seed", 's', "N", &b.random, "random seed of texts and orders (1)"},
        {0},
    };
    const opt *const tables[] = {own, b.m.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"bench plan -m MODEL [options]",
                                    "Measures the time to look up and plan a request whose chunks "
                                    "are cached among many."},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc || b.n_known < 2 || b.n_known > 1 << 24 || b.chunk_tokens < 1 ||
        b.chunk_tokens > 1 << 20 || b.n_chunks < 1 || b.n_chunks > b.n_known || b.rounds < 1 ||
        b.rounds > 1 << 24)
        return cli_fail_with(
                   "bench plan: a number is out of range, or fewer chunks are cached than "
                   "a prompt has"),
               2;
    if (!bench_names_parse("policies", names, NULL, &policies)) return 2;
    b.m.ctx.guard.share = 0; /* it would run between the prompts */
    if (b.m.ctx.cache.max_placed == 0)
        b.m.ctx.cache.max_placed = b.n_known + 1024; /* craft's copies are limited by number */
    b.ctx = model_options_open(&b.m);
    b.words = b.ctx ? bench_words_create(b.ctx, b.random) : NULL;
    bool good = b.words && run(&b, &policies);
    bench_texts_free(b.known, b.n_known);
    bench_words_destroy(b.words);
    sp_context_close(b.ctx);
    return good ? 0 : 1;
}
