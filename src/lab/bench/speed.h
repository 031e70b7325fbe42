/* speed.h -- what `spolia bench prefill` and `decode` share: settings as rows of a
 * table, measured in rounds that alternate with the machine's peaks.
 *
 *   round 1   probe   row 1   row 2   ...        each run is a line of the CSV
 *   round 2   probe   row 1   row 2   ...
 *   table     medians over the rounds; shares of the bound by the best probe of all
 */
#ifndef SP_LAB_BENCH_SPEED_H
#define SP_LAB_BENCH_SPEED_H

#include <stdio.h>

#include "lab/bench/machine.h"
#include "cli/options.h"

#define SPEED_COLUMNS 6

typedef struct speed_options {
    int rounds, n_threads;
    const char *cpu, *csv;
    char rounds_help[64];
    opt table[10];
} speed_options;

void speed_options_init(speed_options *o, int rounds);
/* speed_options_check -- false after an error message. */
bool speed_options_check(const speed_options *o);

/* One setting. */
typedef struct speed_row {
    char *value[SPEED_COLUMNS];
    double units;    /* work of one run: tokens, GFLOP */
    bench_work work; /* of one run */
    double *seconds; /* [rounds] */
} speed_row;

typedef struct speed_bench {
    const speed_options *o;
    const char *unit;                   /* of a rate: "tok/s" */
    const char *columns[SPEED_COLUMNS]; /* names in the table and the CSV; NULL after the last */
    bench_machine machine;
    FILE *csv; /* or NULL */
    speed_row *rows;
    int n_rows;
} speed_bench;

/* speed_open -- probes the machine, opens the CSV file. False after an error message.
 * Pre: o, unit and columns are set. */
bool speed_open(speed_bench *b);
/* speed_add -- one more row; values in the order of the columns. */
bool speed_add(speed_bench *b, const char *const *values, double units, const bench_work *work);

/* speed_skip -- prints why a setting is not measured. */
void speed_skip(const speed_bench *b, const char *const *values, const char *why, ...)
    __attribute__((format(printf, 3, 4)));

/* One run of row `index`; false after an error message. */
typedef bool speed_run(void *user, int index, double *seconds);

/* speed_measure -- all rounds, then the table. False after an error message, also without rows. */
bool speed_measure(speed_bench *b, speed_run *run, void *user);

/* speed_close -- returns the exit code of the command. */
int speed_close(speed_bench *b, bool good);

#endif
