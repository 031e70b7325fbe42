/* bench_speed.h -- what `spolia bench prefill, decode, attend, gemm` share: settings as rows of a
 * table, measured round by round beside the machine's peaks and another program.
 *
 *   round 1   probe   row 1, peer   row 2, peer   ...        each run is a line of the CSV
 *   round 2   probe   row 1, peer   row 2, peer   ...
 *   table     medians over the rounds; shares of the bound by the best probe of all
 */
#ifndef SP_CMD_BENCH_SPEED_H
#define SP_CMD_BENCH_SPEED_H

#include <stdio.h>

#include "cmd/bench_machine.h"
#include "cmd/bench_peerbench.h"
#include "cmd/options.h"

#define SPEED_COLUMNS 6

typedef struct speed_options {
    int rounds, n_threads;
    const char *cpu, *csv, *peer, *match;
    opt table[8];
} speed_options;

void speed_options_init(speed_options *o, int rounds);
/* speed_options_check -- false after explaining. */
bool speed_options_check(const speed_options *o);

/* One setting. */
typedef struct speed_row {
    char *value[SPEED_COLUMNS];
    double units;    /* that one run gets through: tokens, GFLOP */
    bench_work work; /* of one run */
    double *seconds; /* [rounds] */
    double *peer;    /* [rounds] units a second; 0: not known */
} speed_row;

typedef struct speed_bench {
    const speed_options *o;
    const char *unit;                   /* of a rate: "tok/s" */
    const char *columns[SPEED_COLUMNS]; /* names: in the table, the CSV, and as {name} in the peer's
                                           command; NULL behind the last */
    bench_machine machine;
    bench_peerbench *peer; /* or NULL */
    FILE *csv;             /* or NULL */
    speed_row *rows;
    int n_rows;
} speed_bench;

/* speed_open -- probes the machine, opens the CSV file, prepares the peer. False after
 * explaining. Pre: o, unit and columns are set. */
bool speed_open(speed_bench *b);
/* speed_add -- one more row; values in the order of the columns. */
bool speed_add(speed_bench *b, const char *const *values, double units, const bench_work *work);

/* speed_skip -- says why a setting is not measured. */
void speed_skip(const speed_bench *b, const char *const *values, const char *why, ...)
    __attribute__((format(printf, 3, 4)));

/* One run of row `index`; false after explaining. */
typedef bool speed_run(void *user, int index, double *seconds);

/* speed_measure -- all rounds, and the table. False after explaining, also when there are no
 * rows. */
bool speed_measure(speed_bench *b, speed_run *run, void *user);

/* speed_close -- and the exit code of the command. */
int speed_close(speed_bench *b, bool good);

#endif
