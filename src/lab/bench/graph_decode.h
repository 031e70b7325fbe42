/* graph_decode.h -- the rate of an answer over nodes that other questions have left. */
#ifndef SP_LAB_BENCH_GRAPH_DECODE_H
#define SP_LAB_BENCH_GRAPH_DECODE_H

#include "lab/bench/subgraphs.h"

typedef struct graph_decode {
    sp_context *ctx;
    const bench_subgraphs *from;
    int n_rounds, n_entities, n_paths;
    sp_tree_mode mode;
    int n_tokens; /* of the answer */
    bool as_json, first;
} graph_decode;

/* graph_decode_measure -- prints a row; false after an error message. */
bool graph_decode_measure(const graph_decode *o);

#endif
