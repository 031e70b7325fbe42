/* bench_reuse.h -- what is measured by `spolia bench reuse`, and what becomes of it: lines of CSV,
 * which a later run reads again, a table for each size, a picture of all. */
#ifndef SP_CMD_BENCH_REUSE_H
#define SP_CMD_BENCH_REUSE_H

#include <stdio.h>

#include "cmd/bench.h"
#include "spolia.h"

typedef enum reuse_order {
    REUSE_SAME,
    REUSE_SHUFFLED,
    REUSE_HALF_NEW,
    REUSE_NEW, /* of off alone */
} reuse_order;

/* What is known of one run; 0 where it is not. */
typedef enum reuse_field {
    TTFT_US,
    PLAN_US,
    PEER_US, /* of the same prompt */
    N_PROMPT,
    N_REUSED,
    N_RECOMPUTED,
    N_COMPUTED,
    GAIN, /* off / this */
    BOUND,
    OF_BOUND, /* GAIN / BOUND */
    REUSED,   /* shares of the prompt */
    RECOMPUTED,
    PEER_GAIN, /* peer / this */
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

/* The cells of the size that is being measured; the first is off. */
typedef struct reuse_cells {
    reuse_cell *v;
    int n, n_rounds, question_tokens;
} reuse_cells;

const char *reuse_order_name(reuse_order o);
/* reuse_is_exact -- a policy that finds nothing but what stood where it stands now. */
bool reuse_is_exact(const char *policy);
/* reuse_has_ratio -- the policy computes a given share of the chunks' tokens again. */
bool reuse_has_ratio(const sp_reuse_opts *o);
/* reuse_n_fresh -- of n chunks in a cell's prompt, how many are new. */
int reuse_n_fresh(reuse_order o, int n_chunks);
/* reuse_derive -- gains and shares of a round, from what was measured. */
void reuse_derive(const reuse_cells *c, int n_chunks, int chunk_tokens, int round);

/* -- CSV: a line for each run ----------------------------------------------------------------- */

typedef struct reuse_csv {
    FILE *f;          /* or NULL */
    char *text;       /* what the file held, when it was opened to go on */
    uint64_t n_lines; /* of it */
} reuse_csv;

/* reuse_csv_open -- creates the file, or opens it to `go_on` at its end; closing is due either way.
 */
bool reuse_csv_open(reuse_csv *csv, const char *path, bool go_on);
/* reuse_csv_close -- false when not all could be written; fine with one that is all zero. */
bool reuse_csv_close(reuse_csv *csv);
/* reuse_csv_load -- the first rounds of a size that the file held with all cells; how many. */
int reuse_csv_load(const reuse_csv *csv, reuse_cells *c, int n_chunks, int chunk_tokens);
void reuse_csv_add(reuse_csv *csv, const reuse_cells *c, int n_chunks, int chunk_tokens, int round);

/* -- tables and picture ----------------------------------------------------------------------- */

/* reuse_print -- over the rounds. */
void reuse_print(const reuse_cells *c, int n_chunks, int chunk_tokens);

/* Gains over the share computed again: a panel for each size and order. */
typedef struct reuse_plot reuse_plot;

reuse_plot *reuse_plot_create(void);
void reuse_plot_destroy(reuse_plot *p);
void reuse_plot_add(reuse_plot *p, const reuse_cells *c, int n_chunks, int chunk_tokens);
/* reuse_plot_write -- what was added so far; nothing when that is nothing. */
bool reuse_plot_write(const reuse_plot *p, const char *path);

#endif
