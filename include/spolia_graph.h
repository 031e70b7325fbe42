/* spolia_graph.h -- knowledge graphs: import, search, relation paths, trees.
 * spolia.h includes it. */
#ifndef SPOLIA_GRAPH_H
#define SPOLIA_GRAPH_H

#include "spolia_prompt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* sp_graph_import -- adds the triples of files to the graph in the SQLite file `out_path`, created if missing. It may
 * also be an index of documents, which keeps its chunks. Formats:
 *   "tsv"       subject, relation, object, optional source; one triple a line
 *   "csv"       the same with quotes; a header names the columns; exports of Neo4j (neo4j-admin's
 *               :ID, :START_ID, :END_ID, :TYPE and APOC's _id, _start, _end, _type)
 *   "jsonl"     {"subject", "relation", "object", "source"}, ["s", "r", "o"], or
 *               {"entity", "aliases"}
 *   "graphml"   nodes and edges (NetworkX, LightRAG, Gephi)
 *   "lightrag"  {"entities", "relationships"} or {"nodes", "edges"}
 *   "ntriples", "turtle"  RDF: rdfs:label, skos:prefLabel, schema:name and foaf:name are names (aliases if not in
 *               English, as skos:altLabel is); a relation is named by the last part of its IRI
 * If format is NULL, the file name decides. Equal triples are merged. A line that cannot be read is logged as
 * FILE:LINE and counted; with `strict` it is an error, and a file without a single readable line always is. Each
 * `batch` of triples is one transaction: an interrupted import keeps what it has added, and the next one continues
 * there; an unchanged file is not read again with the same format and columns. *stats is current while it runs.
 * Errors: SP_E_IO, SP_E_FORMAT, SP_E_CANCELED, SP_E_ARG, SP_E_NOMEM. */
typedef struct sp_graph_stats {
    int64_t n_triples, n_duplicates, n_entities, n_aliases, n_bad; /* new, but for duplicates */
    int64_t n_files, n_unchanged, n_lines, n_bytes;                /* of the files */
} sp_graph_stats;

/* Called now and then; done and total in bytes of one file. Return false to cancel. */
typedef bool sp_graph_progress(const char *file, int64_t done, int64_t total, void *user);

/* Columns of a CSV file, by the names in its header, which must have them; NULL: the usual names. relation "=text":
 * every row has this relation. */
typedef struct sp_graph_columns {
    const char *subject, *relation, *object, *source;
} sp_graph_columns;

typedef struct sp_graph_import_opts {
    const char *format;
    bool strict;
    sp_graph_columns columns;
    int batch;                   /* triples in one transaction; 0: 100,000 */
    bool capitals; /* capitalize new names without capital letters: "charles_i" becomes "Charles I", which models
                      recognise better */
    sp_graph_progress *progress; /* NULL: none */
    void *user;                  /* of progress */
} sp_graph_import_opts;

SP_API sp_err sp_graph_import(const char *const *paths, int n_paths, const char *out_path,
                              const sp_graph_import_opts *o, sp_graph_stats *stats);

typedef struct sp_graph sp_graph;

typedef struct sp_graph_open_opts {
    const char *where;     /* file of sp_graph_import, or URL of a SPARQL 1.1 endpoint */
    const char *rdf_graph; /* SPARQL: IRI of the graph; NULL: the endpoint's default */
    const char *rdf_label; /* SPARQL: IRI of the property with names; NULL: rdfs:label */
    int timeout_ms;        /* SPARQL: of one query; 0: 10,000 */
} sp_graph_open_opts;

/* sp_graph_open -- read-only. An endpoint is not contacted before the first query.
 * Errors: SP_E_IO; SP_E_FORMAT when the file holds no graph; SP_E_ARG for a bad URL or IRI. */
SP_API sp_err sp_graph_open(const sp_graph_open_opts *o, sp_graph **out);
SP_API void sp_graph_close(sp_graph *g);

typedef struct sp_graph_relation {
    const char *name;
    int64_t n_triples;
} sp_graph_relation;

typedef struct sp_graph_info {
    const char *backend; /* "sqlite", "sparql" */
    int64_t n_entities, n_aliases, n_triples;
    sp_graph_relation *relations; /* most triples first */
    int n_relations;
    void *strings;
} sp_graph_info;

/* sp_graph_describe -- counts. Owns: sp_graph_info_fini. */
SP_API sp_err sp_graph_describe(sp_graph *g, sp_graph_info *out);
SP_API void sp_graph_info_fini(sp_graph_info *i);

typedef enum sp_graph_match {
    SP_GRAPH_EXACT, /* the name, up to case and punctuation */
    SP_GRAPH_ALIAS, /* another name of the entity */
    SP_GRAPH_FUZZY, /* a name within a small edit distance */
} sp_graph_match;

typedef struct sp_graph_entity {
    int64_t id; /* of this graph; with a SPARQL endpoint, of this sp_graph object */
    const char *name;
    const char *ident;   /* what tells entities of one name apart: the id in the file, an IRI */
    const char *mention; /* the words of the question that name it */
    sp_graph_match match;
    int distance; /* fuzzy: edit distance in bytes */
} sp_graph_entity;

/* A path of relations from an entity: nodes[0] relations[0] nodes[1] ... nodes[n_hops]. */
typedef struct sp_graph_path {
    int entity; /* where it starts: index in sp_graph_answer.entities */
    int n_hops;
    const char *const *nodes;     /* [n_hops + 1] */
    const char *const *relations; /* [n_hops] */
    const bool *inverse;        /* [n_hops] the triple is (nodes[i + 1], relations[i], nodes[i]) */
    const char *const *sources; /* [n_hops] where the triple came from; "" when unknown */
    double score;               /* similarity to the question, higher is better */
    const char *text;           /* in the style that was asked for */
    const char *why;            /* the words that matched, to be shown; "" without `explain` */
} sp_graph_path;

typedef enum sp_graph_style {
    SP_GRAPH_ARROWS,    /* "A -rel-> B <-rel- C" */
    SP_GRAPH_SENTENCES, /* "A rel B. B is rel of C." */
    SP_GRAPH_TRIPLETS,  /* "(A, rel, B) (C, rel, B)": trees have each triple once, after its subject. Source: DepCache
                           section 7 */
} sp_graph_style;

typedef struct sp_graph_paths_opts {
    int k;            /* most paths for each entity; 0: 30 */
    int hops;         /* longest path; 0: 2; at most 8 */
    int max_entities; /* of the question; 0: 8 */
    int max_degree;   /* a path ends at a node with more edges than this in one direction; of the entity itself, this
                         many edges of each relation are followed; 0: 128 */
    int max_steps;    /* most edges followed from one entity; 0: 20,000 */
    sp_graph_style style;
    bool explain;
} sp_graph_paths_opts;

typedef struct sp_graph_answer {
    sp_graph_entity *entities; /* in the order of the question */
    int n_entities;
    sp_graph_path *paths; /* by entity, then the most similar first */
    int n_paths;
    int64_t n_steps;    /* edges followed */
    int64_t n_patterns; /* different sequences of relations on the paths */
    int64_t n_hubs;     /* nodes at which paths ended because of max_degree */
    bool cut;           /* max_steps was reached */
    void *strings;      /* what all of it points into */
} sp_graph_answer;

/* sp_graph_search -- at most k entities with this name: exact matches, else aliases, else fuzzy ones. Entities that
 * share a name are all returned. Owns: sp_graph_answer_fini. */
SP_API sp_err sp_graph_search(sp_graph *g, const char *name, int k, sp_graph_answer *out);

/* sp_graph_find_paths -- the entities that a question names, and for each the k simple relation
 * paths most similar to the question (BM25 over the words of relations and nodes; letter trigrams
 * match inflected forms). The same graph and question always give the same answer. A path that is the beginning of
 * another chosen path is left out. No entity: an empty answer.
 * Thread: one at a time for one sp_graph. Owns: sp_graph_answer_fini.
 * Errors: SP_E_ARG, SP_E_IO, SP_E_FORMAT, SP_E_NOMEM.
 * Source: DepCache sections 2.2 and 6.1. */
SP_API sp_err sp_graph_find_paths(sp_graph *g, const char *question, const sp_graph_paths_opts *o,
                                  sp_graph_answer *out);
SP_API void sp_graph_answer_fini(sp_graph_answer *a);

/* A node of a dependency tree: an entity or a relation of some path. */
typedef struct sp_graph_node {
    const char *text; /* its own words; after those of its ancestors they form the beginning
                         of a path's text */
    int parent; /* index, less than its own; -1: a root */
    int depth;  /* 0: a root */
} sp_graph_node;

typedef struct sp_graph_tree {
    sp_graph_node *v; /* in pre-order */
    int n;
    void *strings;
} sp_graph_tree;

/* sp_graph_tree_build -- merges paths by their common beginnings. A path is a list of segments:
 * entity, relation, entity, ...; a relation with its direction is one segment. Trees and children
 * keep the order of the paths. Paths with equal texts merge.
 * Cost: linear in the segments. Owns: sp_graph_tree_fini.
 * Source: DepCache section 3.1, algorithm 1, lines 1 to 5. */
SP_API sp_err sp_graph_tree_build(const sp_graph_path *paths, int n_paths, sp_graph_style style,
                                  sp_graph_tree *out);
SP_API void sp_graph_tree_fini(sp_graph_tree *t);
/* sp_prompt_graph -- sp_prompt_tree of all nodes of t. A tree without nodes adds nothing. */
SP_API sp_err sp_prompt_graph(sp_prompt *p, const sp_graph_tree *t);

#ifdef __cplusplus
}
#endif
#endif
