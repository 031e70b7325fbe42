/* walk_int.h -- the parts of graph retrieval: entities of a question, paths around them, the best paths. */
#ifndef SP_RETRIEVE_GRAPH_WALK_INT_H
#define SP_RETRIEVE_GRAPH_WALK_INT_H

#include "base/dict.h"
#include "retrieve/graph/store.h"

/* -- entities (mentions.c) ------------------------------------------------------------------ */

/* A node that words [from, to) of the question name. */
typedef struct sp_graph_named {
    int64_t node;
    uint32_t from, to;
    sp_graph_match match;
    int distance;
} sp_graph_named;

typedef SP_VEC(sp_graph_named) sp_graph_named_list;

sp_err sp_graph_question_init(sp_graph_question *q, const char *text) SP_MUST_CHECK;
void sp_graph_question_fini(sp_graph_question *q);

/* sp_graph_find_named -- at most `most` nodes, in the order of the
 * question. Longer names win; a run of words that names several
 * nodes yields all of them. Exact names win over misspelt ones. */
sp_err sp_graph_find_named(sp_graph *g, const sp_graph_question *q, int most,
                           sp_graph_named_list *out) SP_MUST_CHECK;

/* sp_graph_drop_roles -- removes names that the question uses for a relation (roles.c). */
sp_err sp_graph_drop_roles(sp_graph *g, const sp_graph_question *q,
                           sp_graph_named_list *named) SP_MUST_CHECK;

/* sp_graph_find_name -- nodes whose name is the whole text, else those most like it. */
sp_err sp_graph_find_name(sp_graph *g, const sp_graph_question *q, int most,
                          sp_graph_named_list *out) SP_MUST_CHECK;

/* -- paths (walk.c) ------------------------------------------------------------------------- */

/* Paths are a tree of steps: step 0 is the root, any other is a path that ends with it. Steps of a
 * depth are consecutive, sorted by parent, then as the store gives edges. */
typedef struct sp_graph_step {
    int parent;  /* step; -1: the root */
    int pattern; /* the relations from the root to here */
    int64_t node;
} sp_graph_step;

/* A sequence of relations and directions: pattern 0 is empty, any other adds one to its parent. */
typedef struct sp_graph_pattern {
    int parent, depth;
    bool inverse;
    int64_t relation;
    int n_steps;
} sp_graph_pattern;

typedef struct sp_graph_walk {
    SP_VEC(sp_graph_step) steps;
    SP_VEC(sp_graph_pattern) patterns;
    int64_t n_hubs;
    bool cut;
    sp_dict pattern_of; /* parent, relation, direction -> pattern */
    sp_arena keys;      /* of it */
} sp_graph_walk;

typedef struct sp_graph_walk_opts {
    int hops, max_degree, max_steps;
} sp_graph_walk_opts;

/* sp_graph_walk_from -- all simple paths from a node, up to the limits. */
sp_err sp_graph_walk_from(sp_graph *g, int64_t root, const sp_graph_walk_opts *o,
                          sp_graph_walk *out) SP_MUST_CHECK;
void sp_graph_walk_fini(sp_graph_walk *w);

/* -- the best paths (rank.c) ---------------------------------------------------------------- */

typedef struct sp_graph_choice {
    int step;
    double score;
    const char *why; /* "" unless asked for */
} sp_graph_choice;

typedef SP_VEC(sp_graph_choice) sp_graph_choices;

typedef struct sp_graph_rank_opts {
    const sp_graph_question *question;
    const sp_graph_named_list *named; /* their words are not terms; paths through them score higher */
    int k;
    bool explain;
} sp_graph_rank_opts;

/* sp_graph_rank -- the k best paths of a walk, best first; none of them extends another. */
sp_err sp_graph_rank(sp_graph *g, const sp_graph_walk *w, const sp_graph_rank_opts *o,
                     sp_arena *strings, sp_graph_choices *out) SP_MUST_CHECK;

#endif
