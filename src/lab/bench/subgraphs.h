/* subgraphs.h -- the relation paths of entities of a real graph, and prompts of them. */
#ifndef SP_LAB_BENCH_SUBGRAPHS_H
#define SP_LAB_BENCH_SUBGRAPHS_H

#include "lab/bench/bench.h"
#include "spolia.h"

/* The paths of n entities, one subgraph each. */
typedef struct bench_subgraphs {
    sp_graph_answer *v; /* [n] */
    int n;
} bench_subgraphs;

typedef struct bench_subgraphs_opts {
    const char *graph;   /* of spolia graph import */
    const char *triples; /* TSV file that the graph was imported from: entities are drawn from it */
    int n, hops;
    int min_paths, max_paths; /* of an entity; those with fewer are passed over */
    uint64_t seed;
} bench_subgraphs_opts;

/* bench_subgraphs_open -- false after an error message. */
bool bench_subgraphs_open(const bench_subgraphs_opts *o, bench_subgraphs *out);
void bench_subgraphs_close(bench_subgraphs *s);

/* How a prompt has the paths. */
typedef enum subgraph_form {
    SUBGRAPH_PATHS,    /* linear: a line a path; a segment a subgraph */
    SUBGRAPH_PREORDER, /* linear: the texts of the nodes, a segment a subgraph */
    SUBGRAPH_TREES,    /* dependency attention */
} subgraph_form;

typedef struct subgraph_prompt {
    const bench_subgraphs *from;
    const int *which; /* [n] subgraphs; NULL: the first n */
    int n;
    int n_paths; /* of each at most */
    subgraph_form form;
    sp_tree_mode mode;
    const char *question; /* NULL: none */
} subgraph_prompt;

/* bench_subgraph_prompt -- the system text, the paths, the question; NULL after an error message. */
sp_prompt *bench_subgraph_prompt(sp_context *c, const subgraph_prompt *o);

#endif
