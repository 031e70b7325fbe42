/* bench_reuse.c -- `spolia bench reuse`: time to the first token with reused chunks.
 *
 * For each size (chunks x tokens of a chunk) there are two sets of known texts: one for policies
 * that reuse chunks at any position, one for exact ones, so that neither finds what the other has
 * cached. Both are computed once before. Then, round by round in one process:
 *
 *   off     a prompt of new chunks through full attention        another server: the same prompt
 *   cells   policy x ratio x order, in random sequence, each with a new question:
 *             same      the known chunks as they were
 *             shuffled  in an order that is drawn for the round  another server: the same order
 *             half-new  the same, every other chunk replaced by a new text
 *
 * A cell's gain is the median over rounds of off / cell, both of one round, so what slows the
 * machine for a while slows both. It is held against the bound that the number of tokens sets: with
 * a share r of the chunks' tokens computed again, h of all tokens in new chunks and q of n in the
 * question, 1 / (r + h + q/n). Attention is not linear in tokens: a chunk that is new to a policy
 * sees less than under full attention, so long prompts half of new chunks may pass their bound. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/bench.h"
#include "cmd/bench_peer.h"
#include "cmd/bench_text.h"
#include "cmd/cmd.h"

typedef enum order { SAME, SHUFFLED, HALF_NEW, NEW } order;
static const char *const order_names[] = {"same", "shuffled", "half-new", "new"};

/* Two sets of known texts. */
enum { ANYWHERE, EXACT, N_SETS };

/* What is known of one run; 0 where it is not. */
typedef enum field {
    TTFT_US,
    PLAN_US,
    PEER_US, /* of the same prompt */
    N_PROMPT,
    N_REUSED,
    N_RECOMPUTED,
    N_COMPUTED,
    GAIN, /* off / this */
    BOUND,
    OF_BOUND, /* GAIN / BOUND */
    REUSED,   /* shares of the prompt */
    RECOMPUTED,
    PEER_GAIN, /* peer / this */
    N_FIELDS
} field;

typedef struct row {
    double v[N_FIELDS];
} row;

/* One line of the table. */
typedef struct cell {
    sp_reuse_opts reuse;
    order order;
    row *rows; /* [rounds] */
} cell;

/* One of the sizes that are measured. */
typedef struct size {
    int n_chunks, n_tokens;
    int *perm;            /* [n_chunks] order of the round */
    char **known[N_SETS]; /* [n_chunks], or NULL when no policy needs that set */
} size;

typedef struct bench {
    model_options m;
    bench_list chunks, chunk_tokens, ratios;
    bench_names policies, orders;
    int question_tokens, rounds;
    uint64_t random;
    sp_context *ctx;
    bench_words *words;
    bench_peer *peer; /* NULL: none, or it has failed */
    FILE *csv;        /* or NULL */
    cell *cells;      /* the first is off */
    int n_cells;
    bool has_set[N_SETS];
    double *scratch; /* [rounds] */
} bench;

/* -- what is measured ----------------------------------------------------------------------- */

static bool is_exact(const char *policy)
{
    return strcmp(policy, "off") == 0 || strcmp(policy, "prefix") == 0 ||
           strcmp(policy, "set") == 0;
}

/* has_ratio -- the policy computes a given share of the chunks' tokens again. */
static bool has_ratio(const sp_reuse_opts *o)
{
    bool by_alpha = strcmp(o->policy, "craft") == 0 && o->alpha > 0;
    return !is_exact(o->policy) && strcmp(o->policy, "full") != 0 && !by_alpha;
}

static order order_of(const char *name)
{
    int i = 0;
    while (strcmp(order_names[i], name) != 0) i++;
    return (order)i;
}

static bool add_cell(bench *b, const char *policy, double ratio, order how)
{
    cell *c = &b->cells[b->n_cells];
    c->reuse = b->m.ctx.reuse;
    c->reuse.policy = policy;
    c->reuse.recompute = has_ratio(&c->reuse) ? (float)ratio : 0;
    c->order = how;
    c->rows = calloc((size_t)b->rounds, sizeof *c->rows);
    if (!c->rows) return false;
    if (how != NEW) /* off has no known chunks */
        b->has_set[is_exact(policy) ? EXACT : ANYWHERE] = true;
    b->n_cells++;
    return true;
}

static bool make_cells(bench *b)
{
    int most = 1 + b->policies.n * b->orders.n * b->ratios.n;
    b->cells = calloc((size_t)most, sizeof *b->cells);
    b->scratch = calloc((size_t)b->rounds, sizeof *b->scratch);
    bool good = b->cells && b->scratch && add_cell(b, "off", 0, NEW);
    for (int p = 0; p < b->policies.n; p++)
        for (int o = 0; o < b->orders.n; o++)
            for (int r = 0; r < b->ratios.n && good; r++) {
                good = add_cell(b, b->policies.v[p], b->ratios.v[r], order_of(b->orders.v[o]));
                if (good && !has_ratio(&b->cells[b->n_cells - 1].reuse)) break;
            }
    b->has_set[ANYWHERE] |= b->peer != NULL; /* the peer is asked in any case */
    return good || (cmd_fail_with("out of memory"), false);
}

/* -- one run -------------------------------------------------------------------------------- */

static bool measure(bench *b, const bench_prompt *p, const sp_reuse_opts *reuse, row *out)
{
    sp_request *r = bench_ask(b->ctx, p, reuse, 1);
    if (!r) return false;
    const sp_result *res = sp_request_result(r);
    *out = (row){.v = {[TTFT_US] = (double)res->ttft_us,
                       [PLAN_US] = (double)res->plan_us,
                       [N_PROMPT] = res->n_prompt,
                       [N_REUSED] = res->n_reused,
                       [N_RECOMPUTED] = res->n_recomputed,
                       [N_COMPUTED] = res->n_computed}};
    sp_request_destroy(r);
    return true;
}

/* ask_peer -- microseconds to its first token. Its first failure is the end of it; 0 from then. */
static double ask_peer(bench *b, const bench_prompt *p)
{
    int64_t us = 0;
    if (!b->peer || bench_peer_ask(b->peer, p, &us)) return (double)us;
    fprintf(stderr, "spolia: going on without the peer\n");
    bench_peer_close(b->peer);
    b->peer = NULL;
    return 0;
}

/* n_fresh_of -- how many chunks of a cell's prompt are new. */
static int n_fresh_of(const cell *c, const size *s)
{
    return c->order == NEW ? s->n_chunks : c->order == HALF_NEW ? s->n_chunks / 2 : 0;
}

/* arrange -- the known chunks of a set in the order of a cell; `fresh` ones in their places. */
static void arrange(const size *s, const cell *c, char *const *fresh, char **out)
{
    char *const *known = s->known[is_exact(c->reuse.policy) ? EXACT : ANYWHERE];
    for (int i = 0; i < s->n_chunks; i++)
        if (c->order == NEW)
            out[i] = fresh[i];
        else if (c->order == HALF_NEW && i % 2 == 1)
            out[i] = fresh[i / 2];
        else
            out[i] = known[c->order == SAME ? i : s->perm[i]];
}

/* run_cell -- one prompt with a new question through this engine (out), the peer (peer_us), or one
 * after the other. */
static bool run_cell(bench *b, const size *s, const cell *c, row *out, double *peer_us)
{
    int n_fresh = n_fresh_of(c, s);
    char *question = bench_question_text(b->words, b->question_tokens);
    char **fresh = n_fresh ? bench_chunk_texts(b->words, n_fresh, s->n_tokens) : NULL;
    char **chunks = calloc((size_t)s->n_chunks, sizeof *chunks);
    bool good = chunks && question && (fresh || !n_fresh);
    if (good) {
        arrange(s, c, fresh, chunks);
        bench_prompt p = {.chunks = chunks, .n = s->n_chunks, .question = question};
        good = !out || measure(b, &p, &c->reuse, out);
        if (good && peer_us) *peer_us = ask_peer(b, &p);
    }
    free(chunks);
    bench_texts_free(fresh, n_fresh);
    free(question);
    return good;
}

/* -- rounds --------------------------------------------------------------------------------- */

/* warm_up -- each policy, and the peer, once over the known texts. */
static bool warm_up(bench *b, const size *s)
{
    row unused;
    double unused_us;
    for (int i = 1; i < b->n_cells; i++) {
        cell c = b->cells[i];
        if (strcmp(c.reuse.policy, b->cells[i - 1].reuse.policy) == 0) continue;
        c.order = SAME;
        if (!run_cell(b, s, &c, &unused, NULL)) return false;
    }
    const cell known = {.reuse.policy = "full", .order = SAME};
    return !b->peer || run_cell(b, s, &known, NULL, &unused_us);
}

/* bound_of -- the gain that the number of tokens allows; without a given ratio, of those that were
 * computed. */
static double bound_of(const bench *b, const cell *c, const double *v, const size *s)
{
    if (!has_ratio(&c->reuse)) return v[N_PROMPT] / (v[N_COMPUTED] > 1 ? v[N_COMPUTED] : 1);
    int always = n_fresh_of(c, s) * s->n_tokens + b->question_tokens;
    return 1 / ((double)c->reuse.recompute + always / v[N_PROMPT]);
}

static void derive(const bench *b, const size *s, int round)
{
    double off_us = b->cells[0].rows[round].v[TTFT_US];
    for (int i = 0; i < b->n_cells; i++) {
        double *v = b->cells[i].rows[round].v;
        double us = v[TTFT_US] > 1 ? v[TTFT_US] : 1;
        v[GAIN] = off_us / us;
        v[BOUND] = bound_of(b, &b->cells[i], v, s);
        v[OF_BOUND] = v[GAIN] / v[BOUND];
        v[REUSED] = v[N_REUSED] / v[N_PROMPT];
        v[RECOMPUTED] = v[N_RECOMPUTED] / v[N_PROMPT];
        v[PEER_GAIN] = v[PEER_US] / us;
    }
}

static bool run_cells(bench *b, const size *s, int round, const int *sequence)
{
    const cell known = {.reuse.policy = "full", .order = SHUFFLED};
    double us = 0;
    bool good = run_cell(b, s, &b->cells[0], &b->cells[0].rows[round], &us);
    b->cells[0].rows[round].v[PEER_US] = us;
    for (int i = 0; i < b->n_cells - 1 && good; i++) {
        const cell *c = &b->cells[1 + sequence[i]];
        good = run_cell(b, s, c, &c->rows[round], NULL);
    }
    if (good && b->peer) good = run_cell(b, s, &known, NULL, &us);
    for (int i = 1; i < b->n_cells; i++)
        if (b->cells[i].order == SHUFFLED) b->cells[i].rows[round].v[PEER_US] = b->peer ? us : 0;
    return good;
}

static bool run_round(bench *b, const size *s, int round)
{
    int n = b->n_cells - 1, *sequence = calloc((size_t)n + 1, sizeof *sequence);
    if (!sequence) return cmd_fail_with("out of memory"), false;
    for (int i = 0; i < n; i++) sequence[i] = i;
    bench_shuffle(sequence, n, &b->random);
    bench_shuffle(s->perm, s->n_chunks, &b->random);
    bool good = run_cells(b, s, round, sequence);
    if (good) derive(b, s, round);
    free(sequence);
    return good;
}

/* -- results -------------------------------------------------------------------------------- */

static void write_csv(const bench *b, const size *s, int round)
{
    for (int i = 0; i < b->n_cells && b->csv; i++) {
        const cell *c = &b->cells[i];
        const double *v = c->rows[round].v;
        fprintf(b->csv, "%d,%d,%d,%s,%s,%g,%.0f,%d,%.0f,%.0f,%.0f,%.0f,%.0f,%.3f,%.3f\n",
                s->n_chunks, s->n_tokens, round + 1, c->reuse.policy, order_names[c->order],
                (double)c->reuse.recompute, v[N_PROMPT], b->question_tokens, v[N_REUSED],
                v[N_RECOMPUTED], v[TTFT_US], v[PLAN_US], v[PEER_US], v[GAIN], v[BOUND]);
    }
    if (b->csv) fflush(b->csv);
}

/* median -- of a field over the rounds that know it; 0 when there is none. */
static double median(bench *b, const cell *c, field f)
{
    int n = 0;
    for (int i = 0; i < b->rounds; i++)
        if (c->rows[i].v[f] > 0) b->scratch[n++] = c->rows[i].v[f];
    return n ? bench_quantile(b->scratch, n, 0.5) : 0;
}

static double mean(const bench *b, const cell *c, field f)
{
    double sum = 0;
    for (int i = 0; i < b->rounds; i++) sum += c->rows[i].v[f];
    return sum / b->rounds;
}

static void print_cell(bench *b, const cell *c)
{
    char ratio[16] = "-";
    if (has_ratio(&c->reuse))
        snprintf(ratio, sizeof ratio, "%.3g %%", 100 * (double)c->reuse.recompute);
    printf("%-8s %-9s %7s %10.1f %8.2fx %8.2fx %6.0f %% %7.1f %% %9.1f %% %8.0f us",
           c->reuse.policy, order_names[c->order], ratio, median(b, c, TTFT_US) / 1e3,
           median(b, c, GAIN), median(b, c, BOUND), 100 * median(b, c, OF_BOUND),
           100 * mean(b, c, REUSED), 100 * mean(b, c, RECOMPUTED), median(b, c, PLAN_US));
    double peer = median(b, c, PEER_GAIN);
    if (peer > 0) printf(" %9.1f %8.2fx", median(b, c, PEER_US) / 1e3, peer);
    putchar('\n');
}

static void print_table(bench *b, const size *s)
{
    bool has_peer = median(b, &b->cells[0], PEER_US) > 0;
    printf("\n%d x %d tokens: prompt of %.0f, question of %d, median of %d rounds\n", s->n_chunks,
           s->n_tokens, b->cells[0].rows[0].v[N_PROMPT], b->question_tokens, b->rounds);
    printf("%-8s %-9s %7s %10s %9s %9s %8s %9s %11s %11s%s\n", "policy", "order", "again",
           "first ms", "off/this", "bound", "of bound", "reused", "recomputed", "planning",
           has_peer ? "   peer ms peer/this" : "");
    for (int i = 0; i < b->n_cells; i++) print_cell(b, &b->cells[i]);
    fflush(stdout);
}

static void progress(const bench *b, const size *s, int round)
{
    if (!isatty(2)) return;
    if (round < b->rounds)
        fprintf(stderr, "\r%d x %d tokens, round %d of %d ", s->n_chunks, s->n_tokens, round + 1,
                b->rounds);
    else
        fputs("\r\033[K", stderr);
}

/* -- sizes ---------------------------------------------------------------------------------- */

static int64_t blocks_for(int n)
{
    return (n + 15) / 16;
}

/* fits -- the prompt into the context, and all that is alive in a round into KV memory: the known
 * texts, a prompt in work, new chunks, what exact policies keep of each order. */
static bool fits(const bench *b, const size *s)
{
    sp_context_info info = sp_context_describe(b->ctx);
    int head = bench_words_n_head(b->words);
    int64_t n = head + (int64_t)s->n_chunks * s->n_tokens + b->question_tokens + 1;
    int64_t prompt = blocks_for(head) + s->n_chunks * blocks_for(s->n_tokens) +
                     blocks_for(b->question_tokens + 1);
    int64_t need = prompt * (2 + b->has_set[ANYWHERE] + b->has_set[EXACT] * (1 + b->orders.n));
    if (n > info.n_ctx)
        printf("\n%d x %d tokens: skipped, %lld tokens do not fit the context of %d (-c)\n",
               s->n_chunks, s->n_tokens, (long long)n, info.n_ctx);
    else if (need > info.kv_blocks)
        printf("\n%d x %d tokens: skipped, %lld MiB of KV memory are needed (--kv-memory)\n",
               s->n_chunks, s->n_tokens,
               (long long)(need * (int64_t)info.kv_block_bytes / (1 << 20) + 1));
    else
        return true;
    fflush(stdout);
    return false;
}

static bool make_size(bench *b, size *s)
{
    s->perm = calloc((size_t)s->n_chunks, sizeof *s->perm);
    if (!s->perm) return cmd_fail_with("out of memory"), false;
    for (int i = 0; i < s->n_chunks; i++) s->perm[i] = i;
    for (int k = 0; k < N_SETS; k++) {
        if (!b->has_set[k]) continue;
        s->known[k] = bench_chunk_texts(b->words, s->n_chunks, s->n_tokens);
        if (!s->known[k]) return false;
    }
    return true;
}

static bool run_size(bench *b, int n_chunks, int n_tokens)
{
    size s = {.n_chunks = n_chunks, .n_tokens = n_tokens};
    if (!fits(b, &s)) return true;
    sp_context_forget(b->ctx);
    bool good = make_size(b, &s) && warm_up(b, &s);
    for (int round = 0; round < b->rounds && good; round++) {
        progress(b, &s, round);
        good = run_round(b, &s, round);
        if (good) write_csv(b, &s, round);
    }
    progress(b, &s, b->rounds);
    if (good) print_table(b, &s);
    for (int k = 0; k < N_SETS; k++) bench_texts_free(s.known[k], n_chunks);
    free(s.perm);
    return good;
}

/* -- the command ---------------------------------------------------------------------------- */

static bool run_sizes(bench *b)
{
    if (!make_cells(b)) return false;
    if (b->csv)
        fputs("chunks,chunk_tokens,round,policy,order,recompute,prompt_tokens,question_tokens,"
              "reused_tokens,recomputed_tokens,ttft_us,plan_us,peer_us,gain,bound\n",
              b->csv);
    for (int t = 0; t < b->chunk_tokens.n; t++)
        for (int c = 0; c < b->chunks.n; c++)
            if (!run_size(b, (int)b->chunks.v[c], (int)b->chunk_tokens.v[t])) return false;
    return true;
}

static void close_bench(bench *b)
{
    for (int i = 0; i < b->n_cells; i++) free(b->cells[i].rows);
    free(b->cells);
    free(b->scratch);
    bench_peer_close(b->peer);
    bench_words_destroy(b->words);
    sp_context_close(b->ctx);
}

static int run_bench(bench *b, const bench_peer_opts *peer, const char *csv)
{
    b->m.ctx.guard = 0; /* it would work between the runs */
    b->ctx = model_options_open(&b->m);
    b->words = b->ctx ? bench_words_create(b->ctx, b->random) : NULL;
    bool good = b->words != NULL;
    if (good && peer->url && !(b->peer = bench_peer_open(peer)))
        fprintf(stderr, "spolia: going on without the peer\n");
    if (good && csv && !(b->csv = fopen(csv, "w")))
        good = (cmd_fail_with("%s: cannot be written", csv), false);
    good = good && run_sizes(b);
    if (b->csv && fclose(b->csv) != 0 && good)
        good = (cmd_fail_with("%s: cannot be written", csv), false);
    close_bench(b);
    return good ? 0 : 1;
}

int bench_reuse(int argc, char **argv)
{
    static const char *const policies[] = {"prefix", "set",   "full",   "random", "h2o",
                                           "blend",  "craft", "fusion", NULL};
    static const char *const orders[] = {"same", "shuffled", "half-new", NULL};
    bench b = {.question_tokens = 32, .rounds = 5, .random = 1};
    bench_peer_opts peer = {0};
    const char *chunks = "4,8,16,32", *tokens = "256,512", *ratios = "0,0.05,0.15,0.3,0.5";
    const char *names = "prefix,fusion", *arrangements = "same,shuffled,half-new", *csv = NULL;
    model_options_init(&b.m);
    const opt own[] = {
        {OPT_STRING, "chunks", 0, "LIST", &chunks, "chunks in a prompt (4,8,16,32)"},
        {OPT_STRING, "chunk-tokens", 0, "LIST", &tokens, "tokens in a chunk (256,512)"},
        {OPT_STRING, "ratios", 0, "LIST", &ratios,
         "shares of the chunks' tokens computed again (0,0.05,0.15,0.3,0.5)"},
        {OPT_STRING, "policies", 0, "LIST", &names,
         "prefix, set, full, random, h2o, blend, craft, fusion (prefix,fusion)"},
        {OPT_STRING, "orders", 0, "LIST", &arrangements, "same, shuffled, half-new (all)"},
        {OPT_INT, "question-tokens", 0, "N", &b.question_tokens, "tokens in a question (32)"},
        {OPT_INT, "rounds", 0, "N", &b.rounds, "runs of each setting (5)"},
        {OPT_STRING, "csv", 0, "FILE", &csv, "write each run as a line"},
        {OPT_STRING, "peer", 0, "URL", &peer.url, "another OpenAI-compatible server to compare"},
        {OPT_STRING, "peer-model", 0, "NAME", &peer.model, "its model (the first that it lists)"},
        {OPT_STRING, "peer-key", 0, "KEY", &peer.key, "its API key"},
        {OPT_U64, "seed", 's', "N", &b.random, "of texts and orders (1)"},
        {0},
    };
    const opt *const tables[] = {own, b.m.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"bench reuse -m MODEL [options]",
                                    "Time to the first token with reused chunks against full "
                                    "attention, in alternating runs."},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc || b.rounds < 1 || b.rounds > 100000 || b.question_tokens < 1 ||
        b.question_tokens > 1 << 20)
        return cmd_fail_with("bench reuse: rounds and question tokens are at least 1"), 2;
    if (!bench_list_parse("chunks", chunks, 1, 4096, true, &b.chunks) ||
        !bench_list_parse("chunk-tokens", tokens, 1, 1 << 20, true, &b.chunk_tokens) ||
        !bench_list_parse("ratios", ratios, 0, 1, false, &b.ratios) ||
        !bench_names_parse("policies", names, policies, &b.policies) ||
        !bench_names_parse("orders", arrangements, orders, &b.orders))
        return 2;
    return run_bench(&b, &peer, csv);
}
