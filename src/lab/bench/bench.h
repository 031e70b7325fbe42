/* bench.h -- `spolia bench`: its subcommands, and what they share.
 *
 * Functions that return false, NULL or a negative number have printed an error message. */
#ifndef SP_LAB_BENCH_BENCH_H
#define SP_LAB_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options/model_options.h"
#include "lab/numbers.h"

/* A subcommand gets argv[0] = its own name. */
int bench_reuse(int argc, char **argv);
int bench_prefill(int argc, char **argv);
int bench_decode(int argc, char **argv);

/* -- lists on the command line -------------------------------------------------------------- */

#define BENCH_MAX_LIST 32

typedef struct bench_list {
    double v[BENCH_MAX_LIST];
    int n;
} bench_list;

/* bench_list_parse -- parses comma-separated numbers in min .. max; errors name `option`. */
bool bench_list_parse(const char *option, const char *text, double min, double max, bool whole,
                      bench_list *out);

typedef struct bench_policies {
    char v[BENCH_MAX_LIST][CLI_SPEC];
    int n;
} bench_policies;

/* bench_policies_parse -- the list of --policies, with --alpha and --focus added. False after an error message. */
bool bench_policies_parse(const char *text, const model_options *m, bench_policies *out);

#endif
