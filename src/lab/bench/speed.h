/* speed.h -- `spolia bench prefill` and `decode`: models, depths and sizes as rows of a table, measured in rounds that
 * alternate with the machine's peaks.
 *
 *   round 1   probe   row 1   row 2   ...        each run is a line of the CSV
 *   round 2   probe   row 1   row 2   ...
 *   table     medians over the rounds; shares of the bound by the best probe of all
 */
#ifndef SP_LAB_BENCH_SPEED_H
#define SP_LAB_BENCH_SPEED_H

#include <stdio.h>

#include "lab/bench/machine.h"
#include "lab/bench/model.h"

enum { SPEED_COLUMNS = 3 /* model, size, depth */ };

/* One setting. */
typedef struct speed_row {
    bench_model *model;
    int depth, size; /* size: tokens of a prompt, or requests at a time */
    char value[SPEED_COLUMNS][32];
    double tokens;   /* of one run */
    bench_work work; /* of one run */
    double *seconds; /* [rounds] */
} speed_row;

typedef struct speed_bench speed_bench;

/* What differs between the two. */
typedef struct speed_kind {
    const char *name, *usage, *help;
    const char *column;                  /* of the size */
    const char *sizes, *depths;          /* defaults, also in the help */
    const char *sizes_option, *sizes_help, *depths_help;
    int most;                            /* largest size */
    bool at_once;                        /* the size counts requests */
    bench_load (*load)(const speed_bench *b, int depth, int size);
    /* prepare -- fills tokens and work of a row. */
    void (*prepare)(const speed_bench *b, speed_row *r);
    /* run -- false after an error message. */
    bool (*run)(speed_bench *b, const speed_row *r, double *seconds);
} speed_kind;

struct speed_bench {
    const speed_kind *kind;
    bench_model_options mo;
    int rounds, n_threads, predict;
    const char *cpu, *csv_path;
    bench_list sizes, depths;
    bench_machine machine;
    bench_model *models;
    FILE *csv; /* or NULL */
    speed_row *rows;
    size_t n_rows, cap_rows;
};

/* speed_bench_run -- the command. own: more options of its kind, or NULL. Returns the exit code. */
int speed_bench_run(speed_bench *b, const speed_kind *kind, const opt *own, int argc, char **argv);

#endif
