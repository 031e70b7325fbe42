/* offload_prefill.c -- what it costs a prompt that its blocks leave memory while it is computed.
 *
 *     build/bench/offload_prefill MODEL DIR [TOKENS] [ROUNDS] [THREADS]
 *
 * Prompts of TOKENS new tokens (2,048), in chunks of 512 that are cached. Each round computes one with all
 * keys and values in memory and one in a context whose memory holds no whole prompt, so that blocks leave
 * for a file in DIR meanwhile; which is first alternates. Printed: seconds to the first token, their ratio by
 * token, how many blocks left and what the engine's thread spent on that, and the median of the ratios. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve/request/context.h"
#include "spolia.h"

enum { CHUNK = 512, MOST_ROUNDS = 64 };

typedef struct bench {
    sp_context *contexts[2]; /* in memory; with a file */
    int n_tokens;
    uint64_t random;
} bench;

static void check(sp_err err)
{
    if (err == SP_OK) return;
    fprintf(stderr, "%s\n", sp_error_detail());
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* add_chunk -- new tokens. */
static void add_chunk(bench *b, sp_prompt *p, int n)
{
    static const char *const words[] = {"harbour", "keeper", "winter",
                                        "letter",  "bridge", "garden"};
    char text[CHUNK * 8] = "";
    size_t at = 0;
    for (int i = 0; i < n / 4 && at + 32 < sizeof text; i++) {
        b->random = b->random * 6364136223846793005u + 1442695040888963407u;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s %u ", words[b->random >> 40 & 3],
                               (unsigned)(b->random >> 33) % 1000);
    }
    check(sp_prompt_chunk(p, "chunk", text));
}

/* prefill -- seconds for one token of a new prompt; *n: tokens computed. */
static double prefill(bench *b, int which, int *n)
{
    sp_prompt *p;
    sp_request *r;
    const sp_request_opts o = {
        .sampling = sp_sampling_default(), .max_tokens = 1, .ignore_end = true};
    check(sp_prompt_create(b->contexts[which], &p));
    check(sp_prompt_system(p, "Answer."));
    for (int at = 0; at < b->n_tokens; at += CHUNK) add_chunk(b, p, CHUNK);
    check(sp_prompt_question(p, "Which?"));
    const double start = now();
    check(sp_generate(b->contexts[which], p, &o, &r));
    const double seconds = now() - start;
    *n = sp_request_result(r)->n_computed;
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    return seconds;
}

static void open_contexts(bench *b, const char *model, const char *dir, int n_threads)
{
    sp_context_opts o = {.model = model,
                         .n_ctx = 3 * b->n_tokens,
                         .machine.n_threads = n_threads,
                         .cache.kv_bytes = (size_t)1 << 30,
                         .reuse.policy = "full"};
    check(sp_context_open(&o, &b->contexts[0]));
    const sp_context_info info = sp_context_describe(b->contexts[0]);
    const size_t token = info.kv_block_bytes / 16;
    o.decode.context_dir = dir;
    /* what is near beside seats is a quarter of this; the index of all blocks comes on top */
    const size_t index = (size_t)info.n_layers * (size_t)info.n_kv_heads * (size_t)info.kv_blocks *
                         (sp_summary_bytes(SP_SUMMARY_BOUNDS, info.head) + 16);
    o.decode.context_bytes = (int64_t)(token * (size_t)b->n_tokens * 4 + index);
    check(sp_context_open(&o, &b->contexts[1]));
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return fprintf(stderr, "usage: %s MODEL DIR [TOKENS] [ROUNDS] [THREADS]\n", argv[0]), 2;
    bench b = {.n_tokens = argc > 3 ? atoi(argv[3]) : 2048, .random = 5};
    const int n_rounds = argc > 4 ? atoi(argv[4]) : 5;
    double ratios[MOST_ROUNDS];
    int n[2];
    if (b.n_tokens < CHUNK || n_rounds < 1 || n_rounds > MOST_ROUNDS)
        return fprintf(stderr, "at least %d tokens, 1 to %d rounds\n", CHUNK, MOST_ROUNDS), 2;
    open_contexts(&b, argv[1], argv[2], argc > 5 ? atoi(argv[5]) : 0);
    for (int i = 0; i < 2; i++)
        prefill(&b, i, &n[i]), prefill(&b, i, &n[i]); /* memory is touched */
    sp_offload_stats then = sp_offload_stats_of(b.contexts[1]->offload);
    printf("%8s %10s %10s %8s %8s %8s\n", "tokens", "memory s", "file s", "ratio", "left", "ms");
    for (int i = 0; i < n_rounds; i++) {
        double s[2];
        for (int k = 0; k < 2; k++) s[(i + k) % 2] = prefill(&b, (i + k) % 2, &n[(i + k) % 2]);
        ratios[i] = s[1] / n[1] / (s[0] / n[0]);
        const sp_offload_stats a = sp_offload_stats_of(b.contexts[1]->offload);
        printf("%8d %10.3f %10.3f %8.3f %8lld %8.1f\n", n[1], s[0], s[1], ratios[i],
               (long long)(a.n_left - then.n_left), (double)(a.leave_us - then.leave_us) / 1e3);
        then = a;
        fflush(stdout);
    }
    qsort(ratios, (size_t)n_rounds, sizeof *ratios, by_value);
    printf("median ratio %.3f of %d rounds\n", ratios[n_rounds / 2], n_rounds);
    for (int i = 0; i < 2; i++) sp_context_close(b.contexts[i]);
    return 0;
}
