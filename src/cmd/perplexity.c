/* perplexity.c -- `spolia perplexity`: exp of the mean negative log-likelihood of a text, in
 * windows of the context; the first half of each window but the first is context only. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/logprob.h"
#include "cli/options/model_options.h"
#include "cmd/commands.h"

typedef struct tally {
    const int32_t *ids; /* of this window */
    size_t n;
    int first;  /* positions before it are context only */
    double nll; /* sum */
    int64_t count;
} tally;

static sp_err add(int position, const float *logits, int n_vocab, void *user)
{
    tally *t = user;
    if (position + 1 >= (int)t->n || position < t->first) return SP_OK;
    t->nll += log_sum_exp(logits, n_vocab) - (double)logits[t->ids[position + 1]];
    t->count++;
    return SP_OK;
}

static int measure(sp_context *c, const int32_t *ids, size_t n, bool as_json)
{
    size_t window = (size_t)sp_context_describe(c).n_ctx, step = window / 2;
    tally t = {0};
    if (window < 2) return cli_fail_with("perplexity: a context of 1 token predicts none; give at least -c 2");
    if (n < 2) return cli_fail_with("perplexity: the text has %zu tokens; it needs at least 2", n);
    for (size_t from = 0; from + 1 < n; from += step) {
        t.ids = ids + from;
        t.n = n - from < window ? n - from : window;
        t.first = from ? (int)(window - step) - 1 : 0;
        sp_err err = sp_tokens_score(c, t.ids, t.n, 0, add, &t);
        if (err != SP_OK) return cli_fail(err);
        if (isatty(2))
            fprintf(stderr, "\r%zu of %zu tokens, perplexity %.4f ", from + t.n, n,
                    exp(t.nll / (double)t.count));
        if (from + t.n >= n) break;
    }
    if (isatty(2)) fputc('\n', stderr);
    double ppl = exp(t.nll / (double)t.count);
    if (as_json)
        printf("{\"perplexity\":%.9g,\"n_tokens\":%lld}\n", ppl, (long long)t.count);
    else
        printf("perplexity %.4f over %lld tokens\n", ppl, (long long)t.count);
    return 0;
}

int cmd_perplexity(int argc, char **argv)
{
    model_options m;
    const char *file = NULL;
    bool as_json = false;
    model_options_init(&m);
    const opt own[] = {
        {OPT_STRING, "file", 'f', "FILE", &file, "the text, - for standard input"},
        {OPT_FLAG, "json", 0, NULL, &as_json, "print JSON"},
        {0},
    };
    const opt *const tables[] = {own, m.table, NULL};
    int at = opt_parse(
        argc, argv,
        &(opt_usage){"perplexity -m MODEL -f FILE [--json]",
                     "Measures how well the model predicts a text, in windows of the context."},
        tables);
    if (at < 0) return -1 - at;
    if (at != argc || !file) return cli_fail_with("perplexity: give the text with -f"), 2;
    const int wrong = model_options_check(&m);
    if (wrong) return wrong;
    size_t n, n_ids;
    int32_t *ids = NULL;
    char *text = cli_read_file(file, &n);
    if (!text) return 1;
    sp_context *c = model_options_open(&m);
    int code = c ? 0 : 1;
    if (c) {
        sp_err err = sp_vocab_encode(sp_context_vocab(c), text, n, true, &ids, &n_ids);
        code = err == SP_OK ? measure(c, ids, n_ids, as_json) : cli_fail(err);
    }
    sp_context_close(c);
    sp_buffer_free(ids);
    free(text);
    return code;
}
