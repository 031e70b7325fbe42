/* logits.c -- `spolia logits`: the best log-probabilities of every position, to compare engines; with
 * --raw all logits as float32 [tokens, vocab]. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "cli/logprob.h"
#include "cli/options/model_options.h"
#include "cmd/commands.h"

#define TOP 10

typedef struct sink {
    FILE *raw;
    json_t *rows; /* NULL: print lines */
    const int32_t *ids;
    bool raw_failed;
} sink;

typedef struct scored {
    float logit;
    int id;
} scored;

/* best -- the TOP best of n logits in descending order, ties by id. Returns how many there are. */
static int best(const float *logits, int n, scored out[TOP])
{
    int have = 0;
    for (int i = 0; i < n; i++) {
        if (have == TOP && !(logits[i] > out[TOP - 1].logit)) continue;
        int at = have < TOP ? have++ : TOP - 1;
        for (; at > 0 && out[at - 1].logit < logits[i]; at--) out[at] = out[at - 1];
        out[at] = (scored){logits[i], i};
    }
    return have;
}

static sp_err take(int position, const float *logits, int n_vocab, void *user)
{
    sink *s = user;
    if (s->raw && fwrite(logits, sizeof *logits, (size_t)n_vocab, s->raw) != (size_t)n_vocab) {
        s->raw_failed = true;
        return SP_E_IO;
    }
    scored top[TOP];
    int n = best(logits, n_vocab, top);
    double norm = log_sum_exp(logits, n_vocab);
    json_t *row = s->rows ? json_array() : NULL;
    if (!row) printf("%6d  id %-7d ->", position, s->ids[position]);
    for (int i = 0; i < n; i++) {
        double lp = (double)top[i].logit - norm;
        if (row)
            json_array_append_new(row, json_pack("{s:i, s:f}", "id", top[i].id, "logprob", lp));
        else if (i < 5)
            printf("  %d (%.3f)", top[i].id, lp);
    }
    if (row)
        json_array_append_new(s->rows, row);
    else
        putchar('\n');
    return SP_OK;
}

/* parse_ids -- "1,2,3"; NULL after an error message. */
static int32_t *parse_ids(const char *text, size_t *n)
{
    size_t cap = strlen(text) / 2 + 1;
    int32_t *ids = malloc(cap * sizeof *ids);
    *n = 0;
    if (!*text) return cli_fail_with("--tokens: the list is empty"), free(ids), NULL;
    for (const char *p = text; ids && *p;) {
        char *end;
        errno = 0;
        long v = strtol(p, &end, 10);
        if (end == p || errno || v < INT32_MIN || v > INT32_MAX || (*end && *end != ',') ||
            (*end == ',' && !end[1])) {
            cli_fail_with("--tokens: \"%s\" is not a list of ids like 1,2,3", text);
            free(ids);
            return NULL;
        }
        ids[(*n)++] = (int32_t)v;
        p = *end ? end + 1 : end;
    }
    return ids;
}

static void print_rows(sink *s, size_t n)
{
    json_t *ids = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(ids, json_integer(s->ids[i]));
    json_t *out = json_pack("{s:o, s:o}", "tokens", ids, "logprobs", s->rows);
    cli_print_json(out, JSON_COMPACT | JSON_REAL_PRECISION(9));
}

static int score(sp_context *c, const int32_t *ids, size_t n, int piece, const char *raw,
                 bool as_json)
{
    sink s = {.ids = ids, .rows = as_json ? json_array() : NULL};
    if (raw && !(s.raw = fopen(raw, "wb"))) return cli_fail_with("%s: %s", raw, strerror(errno));
    sp_err err = sp_tokens_score(c, ids, n, piece, take, &s);
    if (s.raw && fclose(s.raw) != 0) s.raw_failed = true;
    if (s.raw_failed) return cli_fail_with("%s: %s", raw, strerror(errno));
    if (err != SP_OK) return cli_fail(err);
    if (as_json) print_rows(&s, n);
    return 0;
}

int cmd_logits(int argc, char **argv)
{
    model_options m;
    const char *list = NULL, *prompt = NULL, *raw = NULL;
    bool as_json = false;
    model_options_init(&m);
    const opt own[] = {
        {OPT_STRING, "tokens", 0, "IDS", &list, "token ids, 1,2,3"},
        {OPT_STRING, "prompt", 'p', "TEXT", &prompt, "text to tokenize"},
        {OPT_STRING, "raw", 0, "FILE", &raw, "write all logits as float32 [tokens, vocab]"},
        {OPT_FLAG, "json", 0, NULL, &as_json, "print JSON"},
        {0},
    };
    const opt *const tables[] = {own, m.table, NULL};
    int at =
        opt_parse(argc, argv,
                  &(opt_usage){"logits -m MODEL (--tokens IDS | -p TEXT) [--raw FILE] [--json]",
                               "Prints the most likely next tokens after every position."},
                  tables);
    if (at < 0) return -1 - at;
    if (at != argc || !list == !prompt) return cli_fail_with("logits: give --tokens or -p"), 2;
    size_t n;
    int32_t *ids = list ? parse_ids(list, &n) : NULL;
    if (list && !ids) return 2;
    int code = model_options_check(&m);
    sp_context *c = code ? NULL : model_options_open(&m);
    if (!c && !code) code = 1;
    if (c && prompt) {
        sp_err err = sp_vocab_encode(sp_context_vocab(c), prompt, strlen(prompt), true, &ids, &n);
        if (err != SP_OK) code = cli_fail(err);
    }
    if (code == 0) code = score(c, ids, n, m.ctx.n_batch, raw, as_json);
    sp_context_close(c);
    free(ids);
    return code;
}
