/* reuse.h -- the measurements of `spolia bench reuse` and their output: CSV lines, which a later run
 * reads, and a table for each size. */
#ifndef SP_LAB_BENCH_REUSE_H
#define SP_LAB_BENCH_REUSE_H

#include <stdio.h>

#include "lab/bench/bench.h"
#include "spolia.h"

typedef enum reuse_order {
    REUSE_SAME,
    REUSE_SHUFFLED,
    REUSE_HALF_NEW,
    REUSE_NEW, /* only of off */
} reuse_order;

/* Results of one run; 0: unknown. */
typedef enum reuse_field {
    TTFT_US,
    PLAN_US,
    N_PROMPT,
    N_REUSED,
    N_RECOMPUTED,
    N_COMPUTED,
    GAIN, /* off / this */
    BOUND,
    OF_BOUND, /* GAIN / BOUND */
    REUSED,   /* shares of the prompt */
    RECOMPUTED,
    N_FIELDS
} reuse_field;

typedef struct reuse_row {
    double v[N_FIELDS];
} reuse_row;

/* One line of the table. */
typedef struct reuse_cell {
    sp_reuse_opts reuse;
    reuse_order order;
    reuse_row *rows; /* [n_rounds] */
} reuse_cell;

/* The cells of the current size; the first is off. */
typedef struct reuse_cells {
    reuse_cell *v;
    int n, n_rounds, question_tokens;
} reuse_cells;

const char *reuse_order_name(reuse_order o);
/* reuse_is_exact -- a policy that reuses no chunk at a new position. */
bool reuse_is_exact(const char *policy);
/* reuse_has_ratio -- the policy recomputes a given share of the chunks' tokens. */
bool reuse_has_ratio(const sp_reuse_opts *o);
/* reuse_keeps_placed -- a policy that keeps copies of the chunks of every prompt. */
bool reuse_keeps_placed(const char *policy);
/* reuse_n_fresh -- of n chunks in a cell's prompt, how many are new. */
int reuse_n_fresh(reuse_order o, int n_chunks);
/* reuse_derive -- gains and shares of a round, from what was measured. */
void reuse_derive(const reuse_cells *c, int n_chunks, int chunk_tokens, int round);

/* -- CSV: a line for each run ----------------------------------------------------------------- */

typedef struct reuse_csv {
    FILE *f;          /* or NULL */
    char *text;       /* earlier contents of the file, when it is continued */
    uint64_t n_lines; /* of it */
} reuse_csv;

/* reuse_csv_open -- creates the file, or with `resume` continues it. Close it even after a failure. */
bool reuse_csv_open(reuse_csv *csv, const char *path, bool resume);
/* reuse_csv_close -- false when a write failed; accepts an all-zero struct. */
bool reuse_csv_close(reuse_csv *csv);
/* reuse_csv_load -- loads the complete rounds of a size from the file; returns how many. */
int reuse_csv_load(const reuse_csv *csv, reuse_cells *c, int n_chunks, int chunk_tokens);
void reuse_csv_add(reuse_csv *csv, const reuse_cells *c, int n_chunks, int chunk_tokens, int round);

/* -- tables ----------------------------------------------------------------------------------- */

/* reuse_print -- medians over the rounds. */
void reuse_print(const reuse_cells *c, int n_chunks, int chunk_tokens);

#endif
