/* bench.c -- the table of `spolia bench NAME`, and what benchmarks share. */
#include "lab/bench/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc.h"
#include "lab/lab.h"

const cli_command lab_benches[] = {
    {"reuse", "Requests", "time to first token with reused chunks, against full attention",
     bench_reuse},
    {"prefill", "Model", "tokens per second of prompts", bench_prefill},
    {"decode", "Model", "tokens per second of answers, one or several at a time", bench_decode},
    {0},
};

/* -- lists on the command line -------------------------------------------------------------- */

bool bench_list_parse(const char *option, const char *text, double min, double max, bool whole,
                      bench_list *out)
{
    bench_list list = {.n = 0};
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        double v = strtod(at, &end);
        bool good = end != at && !errno && v >= min && v <= max && (*end == ',' || !*end);
        if (good && whole) good = v == (double)(int)v;
        if (!good || list.n == BENCH_MAX_LIST)
            return cli_fail_with("--%s: \"%s\" is not a list of at most %d %s from %g to %g",
                                 option, text, BENCH_MAX_LIST, whole ? "whole numbers" : "numbers",
                                 min, max),
                   false;
        list.v[list.n++] = v;
        at = end;
        if (!*at) break;
    }
    *out = list;
    return true;
}

bool bench_policies_parse(const char *text, const model_options *m, bench_policies *out)
{
    char *copy = cli_copy(text), *rest = copy;
    bool good = true;
    out->n = 0;
    for (char *item; good && (item = cli_policy_next(&rest)) != NULL;) {
        bool fused = false;
        good = out->n < BENCH_MAX_LIST && cli_policy_find(item, &fused) && !fused;
        if (!good) cli_fail_with("--policies: \"%s\" is unknown: %s", item, cli_policy_names(CLI_ALL));
        good = good && cli_policy_read("--policies", item, out->v[out->n]);
        if (good) model_options_policy(m, out->v[out->n++]);
    }
    free(copy);
    return good;
}
