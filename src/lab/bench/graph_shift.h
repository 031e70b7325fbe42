/* graph_shift.h -- how far an answer over shifted trees is from one that computes them in place. */
#ifndef SP_LAB_BENCH_GRAPH_SHIFT_H
#define SP_LAB_BENCH_GRAPH_SHIFT_H

#include "lab/bench/subgraphs.h"

typedef struct graph_shift {
    sp_context *ctx;
    const bench_subgraphs *from;
    int n_rounds, n_entities, n_paths;
    uint64_t seed;
    bool as_json;
} graph_shift;

/* graph_shift_measure -- prints a row for each way in which the nodes became known; false after an error
 * message. */
bool graph_shift_measure(const graph_shift *o);

#endif
