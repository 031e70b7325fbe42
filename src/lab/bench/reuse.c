/* reuse.c -- `spolia bench reuse`: time to the first token with reused chunks.
 *
 * For each size (chunks x tokens per chunk) there are two sets of cached texts: one for policies
 * that reuse chunks at any position and one for the others, so that neither finds the other's
 * copies. Both are computed once before the rounds. A policy that keeps copies of every prompt (craft) has
 * texts of its own for each cell and round, computed just before in their first order: so no cell
 * finds what another has left. Then, in rounds:
 *
 *   off     a prompt of new chunks through full attention
 *   cells   policy x ratio x order, in random sequence, each with a new question:
 *             same      the cached chunks in their first order
 *             shuffled  in a random order, drawn for the round
 *             half-new  the same, every other chunk replaced by a new text
 *
 * A cell's gain is the median over rounds of off / cell, both from the same round, so that a slow
 * moment of the machine affects both. It is compared with the bound that the number of tokens sets:
 * with a share r of the chunks' tokens recomputed, a share h of all tokens in new chunks, and q of n
 * tokens in the question, 1 / (r + h + q/n). Attention is not linear in tokens: a chunk that is new
 * to a policy attends to less than under full attention, so long prompts with half new chunks may
 * exceed their bound. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/alloc.h"
#include "kv/pool.h"
#include "lab/bench/reuse.h"
#include "lab/bench/prompts.h"
#include "cli/cli.h"
#include "cli/options/model_options.h"
#include "cli/options/policies.h"

/* Two sets of cached texts. */
enum { ANYWHERE, EXACT, N_SETS };

/* One of the measured sizes. */
typedef struct size {
    int n_chunks, n_tokens;
    int *perm;            /* [n_chunks] order of the round */
    char **known[N_SETS]; /* [n_chunks], or NULL when no policy needs the set */
} size;

typedef struct bench {
    model_options m;
    bench_list chunks, chunk_tokens, ratios;
    bench_policies policies;
    reuse_order orders[BENCH_MAX_LIST];
    int n_orders;
    uint64_t random;
    sp_context *ctx;
    bench_words *words;
    reuse_csv csv;
    reuse_cells cells;
    bool has_set[N_SETS];
    int64_t end_us; /* no round begins later; 0: no limit */
    bool ended;     /* the limit was reached */
} bench;

/* -- the cells ------------------------------------------------------------------------------ */

/* parse_orders -- false after an error message. */
static bool parse_orders(const char *text, bench *b)
{
    char *copy = cli_copy(text), *rest = copy;
    bool good = true;
    for (char *name; good && (name = strsep(&rest, ",")) != NULL;) {
        reuse_order o = REUSE_SAME;
        while (o < REUSE_NEW && strcmp(reuse_order_name(o), name) != 0) o++;
        good = o < REUSE_NEW && b->n_orders < BENCH_MAX_LIST;
        if (good)
            b->orders[b->n_orders++] = o;
        else
            cli_fail_with("--orders: \"%s\" in \"%s\" is unknown", name, text);
    }
    free(copy);
    return good;
}

static void add_cell(bench *b, const char *policy, double ratio, reuse_order how)
{
    reuse_cell *c = &b->cells.v[b->cells.n++];
    c->reuse = b->m.ctx.reuse;
    c->reuse.policy = policy;
    c->reuse.recompute = reuse_has_ratio(&c->reuse) ? (float)ratio : 0;
    c->order = how;
    c->rows = cli_alloc((size_t)b->cells.n_rounds, sizeof *c->rows);
    if (how != REUSE_NEW && !reuse_keeps_placed(policy)) /* off reuses no chunks */
        b->has_set[reuse_is_exact(policy) ? EXACT : ANYWHERE] = true;
}

static void make_cells(bench *b)
{
    int most = 1 + b->policies.n * b->n_orders * b->ratios.n;
    b->cells.v = cli_alloc((size_t)most, sizeof *b->cells.v);
    add_cell(b, "off", 0, REUSE_NEW);
    for (int p = 0; p < b->policies.n; p++)
        for (int o = 0; o < b->n_orders; o++)
            for (int r = 0; r < b->ratios.n; r++) {
                add_cell(b, b->policies.v[p], b->ratios.v[r], b->orders[o]);
                if (!reuse_has_ratio(&b->cells.v[b->cells.n - 1].reuse)) break;
            }
}

/* -- one run -------------------------------------------------------------------------------- */

static bool measure(bench *b, const bench_prompt *p, const sp_reuse_opts *reuse, reuse_row *out)
{
    sp_request *r = bench_ask(b->ctx, p, reuse, 1);
    if (!r) return false;
    const sp_result *res = sp_request_result(r);
    *out = (reuse_row){.v = {[TTFT_US] = (double)res->ttft_us,
                             [PLAN_US] = (double)res->plan_us,
                             [N_PROMPT] = res->n_prompt,
                             [N_REUSED] = res->n_reused,
                             [N_RECOMPUTED] = res->n_recomputed,
                             [N_COMPUTED] = res->n_computed}};
    sp_request_destroy(r);
    return true;
}

/* Texts of one prompt. */
typedef struct texts {
    char *const *known; /* [n_chunks] cached; NULL when all are new */
    char **fresh;       /* [n_fresh] new */
    int n_fresh;
    char *question; /* new */
} texts;

/* arrange -- the cached chunks in the order of a cell, with new ones where it has them. */
static void arrange(const size *s, const reuse_cell *c, const texts *t, char **out)
{
    for (int i = 0; i < s->n_chunks; i++)
        if (c->order == REUSE_NEW)
            out[i] = t->fresh[i];
        else if (c->order == REUSE_HALF_NEW && i % 2 == 1)
            out[i] = t->fresh[i / 2];
        else
            out[i] = t->known[c->order == REUSE_SAME ? i : s->perm[i]];
}

/* ask -- one prompt of these texts. */
static bool ask(bench *b, const size *s, const reuse_cell *c, const texts *t, reuse_row *out)
{
    char **chunks = cli_alloc((size_t)s->n_chunks, sizeof *chunks);
    arrange(s, c, t, chunks);
    bench_prompt p = {.chunks = chunks, .n = s->n_chunks, .question = t->question};
    bool good = measure(b, &p, &c->reuse, out);
    free(chunks);
    return good;
}

/* run_cell -- runs one prompt with a new question. */
static bool run_cell(bench *b, const size *s, const reuse_cell *c, reuse_row *out)
{
    texts t = {.known = s->known[reuse_is_exact(c->reuse.policy) ? EXACT : ANYWHERE],
               .n_fresh = reuse_n_fresh(c->order, s->n_chunks)};
    t.question = bench_question_text(b->words, b->cells.question_tokens);
    if (t.n_fresh) t.fresh = bench_chunk_texts(b->words, t.n_fresh, s->n_tokens);
    bool good = t.question && (t.fresh || !t.n_fresh) && ask(b, s, c, &t, out);
    bench_texts_free(t.fresh, t.n_fresh);
    free(t.question);
    return good;
}

/* run_own -- run_cell over texts that no other cell has, cached by a prompt in their first order. */
static bool run_own(bench *b, const size *s, const reuse_cell *c, reuse_row *out)
{
    size own = *s;
    reuse_cell first = {.reuse = c->reuse, .order = REUSE_SAME};
    reuse_row unused;
    char **known = bench_chunk_texts(b->words, s->n_chunks, s->n_tokens);
    own.known[ANYWHERE] = known;
    bool good = known && run_cell(b, &own, &first, &unused) && run_cell(b, &own, c, out);
    bench_texts_free(known, s->n_chunks);
    return good;
}

/* -- rounds --------------------------------------------------------------------------------- */

/* warm_up -- runs each policy that shares texts once over the cached texts. */
static bool warm_up(bench *b, const size *s)
{
    reuse_row unused;
    for (int i = 1; i < b->cells.n; i++) {
        reuse_cell c = b->cells.v[i];
        if (strcmp(c.reuse.policy, b->cells.v[i - 1].reuse.policy) == 0) continue;
        if (reuse_keeps_placed(c.reuse.policy)) continue; /* it has no texts yet */
        c.order = REUSE_SAME;
        if (!run_cell(b, s, &c, &unused)) return false;
    }
    return true;
}

static bool run_cells(bench *b, const size *s, int round, const int *sequence)
{
    reuse_cell *off = b->cells.v;
    bool good = run_cell(b, s, off, &off->rows[round]);
    for (int i = 0; i < b->cells.n - 1 && good; i++) {
        const reuse_cell *c = &b->cells.v[1 + sequence[i]];
        good = reuse_keeps_placed(c->reuse.policy) ? run_own(b, s, c, &c->rows[round])
                                                   : run_cell(b, s, c, &c->rows[round]);
    }
    return good;
}

static bool run_round(bench *b, const size *s, int round)
{
    int n = b->cells.n - 1, *sequence = cli_alloc((size_t)n + 1, sizeof *sequence);
    for (int i = 0; i < n; i++) sequence[i] = i;
    lab_shuffle(sequence, n, &b->random);
    lab_shuffle(s->perm, s->n_chunks, &b->random);
    bool good = run_cells(b, s, round, sequence);
    if (good) reuse_derive(&b->cells, s->n_chunks, s->n_tokens, round);
    free(sequence);
    return good;
}

static void progress(const bench *b, const size *s, int round)
{
    if (!isatty(2)) return;
    if (round < b->cells.n_rounds)
        fprintf(stderr, "\r%d x %d tokens, round %d of %d ", s->n_chunks, s->n_tokens, round + 1,
                b->cells.n_rounds);
    else
        fputs("\r\033[K", stderr);
}

/* -- sizes ---------------------------------------------------------------------------------- */

/* fits -- whether the prompt fits the context, and everything of a round KV memory: the cached texts,
 * a running prompt, new chunks, what exact policies keep of each order. Texts of one cell may be evicted
 * after it. */
static bool fits(const bench *b, const size *s)
{
    sp_context_info info = sp_context_describe(b->ctx);
    int head = bench_words_n_head(b->words);
    int64_t n = head + (int64_t)s->n_chunks * s->n_tokens + b->cells.question_tokens + 1;
    int64_t prompt = sp_blocks_for(head) + s->n_chunks * sp_blocks_for(s->n_tokens) +
                     sp_blocks_for(b->cells.question_tokens + 1);
    int64_t need = prompt * (2 + b->has_set[ANYWHERE] + b->has_set[EXACT] * (1 + b->n_orders));
    if (n > info.n_ctx)
        printf("\n%d x %d tokens: skipped, %lld tokens do not fit the context of %d (-c)\n",
               s->n_chunks, s->n_tokens, (long long)n, info.n_ctx);
    else if (need > info.kv_blocks)
        printf("\n%d x %d tokens: skipped, it needs %lld MiB of KV memory (--kv-memory)\n",
               s->n_chunks, s->n_tokens,
               (long long)(need * (int64_t)info.kv_block_bytes / (1 << 20) + 1));
    else
        return true;
    fflush(stdout);
    return false;
}

static bool make_size(bench *b, size *s)
{
    s->perm = cli_alloc((size_t)s->n_chunks, sizeof *s->perm);
    for (int i = 0; i < s->n_chunks; i++) s->perm[i] = i;
    for (int k = 0; k < N_SETS; k++) {
        if (!b->has_set[k]) continue;
        s->known[k] = bench_chunk_texts(b->words, s->n_chunks, s->n_tokens);
        if (!s->known[k]) return false;
    }
    return true;
}

/* is_late -- whether the time limit has passed. */
static bool is_late(bench *b)
{
    return b->ended |= b->end_us && sp_clock_us() > b->end_us;
}

static bool run_rounds(bench *b, size *s, int from)
{
    sp_context_forget(b->ctx);
    bool good = make_size(b, s) && warm_up(b, s);
    for (int round = from; round < b->cells.n_rounds && good && !is_late(b); round++) {
        progress(b, s, round);
        good = run_round(b, s, round);
        if (good) reuse_csv_add(&b->csv, &b->cells, s->n_chunks, s->n_tokens, round);
    }
    progress(b, s, b->cells.n_rounds);
    for (int k = 0; k < N_SETS; k++) bench_texts_free(s->known[k], s->n_chunks);
    free(s->perm);
    return good;
}

/* run_size -- the rounds that the CSV file does not have. */
static bool run_size(bench *b, int n_chunks, int n_tokens)
{
    size s = {.n_chunks = n_chunks, .n_tokens = n_tokens};
    int n_known = reuse_csv_load(&b->csv, &b->cells, n_chunks, n_tokens);
    if (n_known < b->cells.n_rounds) {
        if (!fits(b, &s)) return true;
        if (is_late(b)) return true;
        if (!run_rounds(b, &s, n_known)) return false;
        if (b->ended) return true;
    }
    reuse_print(&b->cells, n_chunks, n_tokens);
    return true;
}

/* -- the command ---------------------------------------------------------------------------- */

static bool run_sizes(bench *b)
{
    make_cells(b);
    for (int t = 0; t < b->chunk_tokens.n; t++)
        for (int c = 0; c < b->chunks.n; c++)
            if (!run_size(b, (int)b->chunks.v[c], (int)b->chunk_tokens.v[t])) return false;
    if (b->ended) puts("\nthe time limit is reached; --resume continues");
    return true;
}

static void close_bench(bench *b)
{
    for (int i = 0; i < b->cells.n; i++) free(b->cells.v[i].rows);
    free(b->cells.v);
    bench_words_destroy(b->words);
    sp_context_close(b->ctx);
}

/* run_bench -- a continued run draws other texts. */
static int run_bench(bench *b, const char *csv, bool resume)
{
    b->m.ctx.guard.share = 0; /* it would run between the measurements */
    b->ctx = model_options_open(&b->m);
    bool good = b->ctx && (!csv || reuse_csv_open(&b->csv, csv, resume));
    b->random += b->csv.n_lines;
    good = good && (b->words = bench_words_create(b->ctx, b->random));
    good = good && run_sizes(b);
    if (!reuse_csv_close(&b->csv) && good)
        good = (cli_fail_with("%s: cannot be written", csv), false);
    close_bench(b);
    return good ? 0 : 1;
}

int bench_reuse(int argc, char **argv)
{
    static char help[160];
    bench b = {.cells = {.question_tokens = 32, .n_rounds = 5}, .random = 1};
    const char *chunks = "4,8,16,32", *tokens = "256,512", *ratios = "0,0.05,0.15,0.3,0.5";
    const char *names = "prefix,fusion", *arrangements = "same,shuffled,half-new", *csv = NULL;
    bool resume = false;
    int minutes = 0;
    model_options_init(&b.m);
    model_options_compares(&b.m);
    snprintf(help, sizeof help, "%s (prefix,fusion)", cli_policy_names(CLI_BUT_OFF));
    const opt own[] = {
        {OPT_STRING, "chunks", 0, "LIST", &chunks, "chunks in a prompt (4,8,16,32)"},
        {OPT_STRING, "chunk-tokens", 0, "LIST", &tokens, "tokens in a chunk (256,512)"},
        {OPT_STRING, "ratios", 0, "LIST", &ratios,
         "shares of chunk tokens to recompute (0,0.05,0.15,0.3,0.5)"},
        {OPT_STRING, "policies", 0, "LIST", &names, help},
        {OPT_STRING, "orders", 0, "LIST", &arrangements,
         "orders of the chunks: same, shuffled, half-new (all)"},
        {OPT_INT, "question-tokens", 0, "N", &b.cells.question_tokens, "tokens in a question (32)",
         .limits = {1, 1048576}},
        {OPT_INT, "rounds", 0, "N", &b.cells.n_rounds, "runs of each setting (5)", .limits = {1, 100000}},
        {OPT_STRING, "csv", 0, "FILE", &csv, "write a line for each run"},
        {OPT_FLAG, "resume", 0, NULL, &resume, "continue: skip rounds that the CSV file has"},
        {OPT_INT, "minutes", 0, "N", &minutes, "begin no round after N minutes; 0: no limit (0)",
         .limits = {0, INT32_MAX}},
        {OPT_U64, "seed", 's', "N", &b.random, "random seed of texts and orders (1)"},
        {0},
    };
    const opt *const tables[] = {own, b.m.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"bench reuse -m MODEL [options]",
                                    "Compares the time to first token with reused chunks and with "
                                    "full attention, in alternating runs."},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("bench reuse: unexpected argument \"%s\"", argv[at]), 2;
    if (!bench_list_parse("chunks", chunks, 1, 4096, true, &b.chunks) ||
        !bench_list_parse("chunk-tokens", tokens, 1, 1 << 20, true, &b.chunk_tokens) ||
        !bench_list_parse("ratios", ratios, 0, 1, false, &b.ratios) ||
        !bench_policies_parse(names, &b.m, &b.policies) ||
        !parse_orders(arrangements, &b))
        return 2;
    if (resume && !csv) return cli_fail_with("bench reuse: --resume needs --csv"), 2;
    const int wrong = model_options_check(&b.m);
    if (wrong) return wrong;
    if (minutes > 0) b.end_us = sp_clock_us() + (int64_t)minutes * 60000000;
    return run_bench(&b, csv, resume);
}
