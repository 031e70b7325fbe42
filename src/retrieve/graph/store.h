/* store.h -- the interface of a store of triples, as graph retrieval uses it, and its two implementations.
 *
 * Nodes and relations are numbers, valid for one open graph. The SQLite store uses its row ids; the SPARQL
 * store numbers IRIs and literals as it sees them. */
#ifndef SP_RETRIEVE_GRAPH_STORE_H
#define SP_RETRIEVE_GRAPH_STORE_H

#include "retrieve/graph/names_int.h"
#include "spolia.h"

typedef struct sp_graph_edge {
    uint32_t from; /* index in the list of nodes that was expanded */
    bool inverse;  /* the triple is (node, relation, expanded) */
    int64_t relation, node;
} sp_graph_edge;

typedef SP_VEC(sp_graph_edge) sp_graph_edges;

/* A node whose name or alias is a run of words of the question. */
typedef struct sp_graph_mention {
    int64_t node;
    uint32_t from, to; /* words [from, to) */
    bool alias;
} sp_graph_mention;

typedef SP_VEC(sp_graph_mention) sp_graph_mentions;

/* A node whose name has letters in common with a text. */
typedef struct sp_graph_candidate {
    int64_t node;
    const char *key; /* in the arena of the call */
} sp_graph_candidate;

typedef SP_VEC(sp_graph_candidate) sp_graph_candidates;

typedef struct sp_graph_question {
    const char *text;
    sp_bytes key;
    sp_name_words words;
} sp_graph_question;

/* What to expand, and how far. */
typedef struct sp_graph_expand {
    const int64_t *nodes;
    size_t n;
    int most;  /* edges in one direction */
    bool each; /* a node with more than `most` edges yields `most` of each relation and direction;
                  otherwise it yields none and counts as a hub */
} sp_graph_expand;

typedef struct sp_graph_ops {
    const char *name;
    void (*close)(sp_graph *g);
    /* Bracket the calls for one question, which then see one state of the store (may be NULL). */
    sp_err (*begin)(sp_graph *g);
    void (*end)(sp_graph *g);
    /* Counts and relations; strings in the arena. */
    sp_err (*describe)(sp_graph *g, sp_graph_info *out, sp_arena *strings);
    /* Nodes that a run of words of the question names exactly, in any order. */
    sp_err (*mentions)(sp_graph *g, const sp_graph_question *q, sp_graph_mentions *out);
    /* At most k nodes whose names are most like a key, for the caller to score. */
    sp_err (*candidates)(sp_graph *g, const sp_bytes *key, int k, sp_arena *strings,
                         sp_graph_candidates *out);
    /* Edges of nodes: sorted by `from`, direction, relation, node. Adds to *n_hubs. */
    sp_err (*expand)(sp_graph *g, const sp_graph_expand *e, sp_graph_edges *out, int64_t *n_hubs);
    /* Texts in the arena; an unknown number is an error. ident may be NULL. */
    sp_err (*node)(sp_graph *g, int64_t node, sp_arena *strings, const char **name,
                   const char **ident);
    sp_err (*relation)(sp_graph *g, int64_t relation, sp_arena *strings, const char **name);
    /* Where a triple came from; "" when that is unknown. */
    sp_err (*source)(sp_graph *g, int64_t subject, int64_t relation, int64_t object,
                     sp_arena *strings, const char **name);
} sp_graph_ops;

struct sp_graph {
    const sp_graph_ops *ops;
};

/* The stores. Errors as in sp_graph_open. */
sp_err sp_graph_sqlite_open(const sp_graph_open_opts *o, sp_graph **out) SP_MUST_CHECK;
sp_err sp_graph_sparql_open(const sp_graph_open_opts *o, sp_graph **out) SP_MUST_CHECK;

/* sp_graph_is_url -- whether `where` names an endpoint. */
bool sp_graph_is_url(const char *where);

/* sp_graph_begin, sp_graph_end -- around the calls for one question, where the store needs it. */
sp_err sp_graph_begin(sp_graph *g) SP_MUST_CHECK;
void sp_graph_end(sp_graph *g);

/* sp_graph_copy -- n bytes as a C string in the arena; SP_E_NOMEM. */
sp_err sp_graph_copy(sp_arena *strings, const char *s, size_t n, const char **out) SP_MUST_CHECK;

#endif
