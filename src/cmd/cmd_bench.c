/* cmd_bench.c -- `spolia bench`: finds the measurement and runs it; what measurements share. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/bench.h"
#include "cmd/cmd.h"

static const struct bench {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} benches[] = {
    {"reuse", bench_reuse, "time to the first token with reused chunks, against full attention"},
    {"plan", bench_plan, "time that looking up and planning take, with many chunks known"},
    {"trace", bench_trace, "prompts from standard input, one account of reuse for each"},
    {"prefill", bench_prefill, "tokens a second of prompts"},
    {"decode", bench_decode, "tokens a second of answers, one or several at once"},
    {"recompute", bench_recompute,
     "tokens computed again here and there, against new ones behind the same context"},
    {"attend", bench_attend, "span attention of one layer"},
    {"gemm", bench_gemm, "products with a weight matrix"},
};
#define N_BENCHES (sizeof benches / sizeof *benches)

static void usage(FILE *to)
{
    fputs("usage: spolia bench NAME [options]\n\nMeasures the engine on this machine.\n\nnames:\n",
          to);
    for (size_t i = 0; i < N_BENCHES; i++)
        fprintf(to, "  %-12s %s\n", benches[i].name, benches[i].summary);
    fputs("\nspolia bench NAME --help explains one of them.\n", to);
}

int cmd_bench(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        usage(stdout);
        return 0;
    }
    for (size_t i = 0; i < N_BENCHES; i++)
        if (strcmp(argv[1], benches[i].name) == 0) return benches[i].run(argc - 1, argv + 1);
    return cmd_fail_with("bench: there is no \"%s\"; spolia bench --help lists them", argv[1]), 2;
}

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
            return cmd_fail_with("--%s: \"%s\" is not a list of at most %d %s from %g to %g",
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

static bool is_allowed(const char *name, const char *const *allowed)
{
    for (; *allowed; allowed++)
        if (strcmp(name, *allowed) == 0) return true;
    return false;
}

bool bench_names_parse(const char *option, const char *text, const char *const *allowed,
                       bench_names *out)
{
    *out = (bench_names){.n = 0};
    if (strlen(text) >= sizeof out->text)
        return cmd_fail_with("--%s: the list is too long", option), false;
    strcpy(out->text, text);
    char *rest = out->text;
    for (char *name; (name = strsep(&rest, ",")) != NULL;) {
        if (!*name || out->n == BENCH_MAX_LIST || (allowed && !is_allowed(name, allowed)))
            return cmd_fail_with("--%s: \"%s\" in \"%s\" is unknown", option, name, text), false;
        out->v[out->n++] = name;
    }
    return true;
}

/* -- numbers -------------------------------------------------------------------------------- */

/* Source: Steele, Lea, Flood: Fast splittable pseudorandom number generators (SplitMix64). */
uint64_t bench_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void bench_shuffle(int *v, int n, uint64_t *state)
{
    for (int i = n - 1; i > 0; i--) {
        int k = (int)(bench_random(state) % (uint64_t)(i + 1)), held = v[i];
        v[i] = v[k];
        v[k] = held;
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(double *v, int n, double q)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    double at = q * (n - 1);
    int i = (int)at;
    return i + 1 < n ? v[i] + (at - i) * (v[i + 1] - v[i]) : v[i];
}
