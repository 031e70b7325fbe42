/* bench.h -- `spolia bench`: its subcommands, and what they share.
 *
 * Functions that return false, NULL or a negative number have explained why, in one line on
 * standard error. */
#ifndef SP_CMD_BENCH_H
#define SP_CMD_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A subcommand gets argv[0] = its own name. */
int bench_reuse(int argc, char **argv);
int bench_plan(int argc, char **argv);
int bench_trace(int argc, char **argv);
int bench_prefill(int argc, char **argv);
int bench_decode(int argc, char **argv);
int bench_recompute(int argc, char **argv);
int bench_attend(int argc, char **argv);
int bench_gemm(int argc, char **argv);

/* -- lists on the command line -------------------------------------------------------------- */

#define BENCH_MAX_LIST 32

typedef struct bench_list {
    double v[BENCH_MAX_LIST];
    int n;
} bench_list;

/* bench_list_parse -- numbers between commas, each in min .. max; `option` is named in errors. */
bool bench_list_parse(const char *option, const char *text, double min, double max, bool whole,
                      bench_list *out);

typedef struct bench_names {
    char text[256];
    const char *v[BENCH_MAX_LIST]; /* into text */
    int n;
} bench_names;

/* bench_names_parse -- words between commas. allowed: NULL-terminated, or NULL for any. */
bool bench_names_parse(const char *option, const char *text, const char *const *allowed,
                       bench_names *out);

/* -- numbers -------------------------------------------------------------------------------- */

/* bench_random -- the next of a stream; any state is a good one. */
uint64_t bench_random(uint64_t *state);
void bench_shuffle(int *v, int n, uint64_t *state);

/* bench_quantile -- of v[n], n > 0, which is sorted by this; q = 0.5 is the median. */
double bench_quantile(double *v, int n, double q);

#endif
