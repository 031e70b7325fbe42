/* vectors.h -- nearest-neighbour search, in stages: over all vectors (flat), those of the nearest clusters (IVF), or
 * along a graph (HNSW). Or a Chroma server searches them, in one stage.
 *
 * The caller gives each vector an id. Distances are 1 - inner product: the cosine distance, for vectors of length 1.
 * Their bits do not depend on the CPU, the number of threads, or other searches.
 *
 *   stages   A search calls on_stage with the best k so far: after a group of clusters (flat: after a slice of the
 *            vectors), or after a number of visited nodes of the graph. The last stage has the same ids and distances
 *            as the search without stages.
 *
 * Source: RAGCache section 6 (R6). Thread: searches of several threads run at the same time, changes alone. */
#ifndef SP_RETRIEVE_VECTORS_VECTORS_H
#define SP_RETRIEVE_VECTORS_VECTORS_H

#include "base/mem.h"
#include "base/threads.h"

typedef enum sp_vectors_kind { SP_VECTORS_FLAT, SP_VECTORS_IVF, SP_VECTORS_HNSW, SP_VECTORS_CHROMA } sp_vectors_kind;

typedef struct sp_vectors_opts {
    sp_vectors_kind kind;
    int n_dims;
    int n_clusters; /* IVF: most clusters; 0: twice the square root of the number of vectors */
    int links;      /* HNSW: links of a node, M; 0: 16 */
    int effort;     /* HNSW: candidates for them, efConstruction; 0: 200 */
    const char *url;  /* Chroma: http://HOST:PORT/COLLECTION, or .../TENANT/DATABASE/COLLECTION */
    int64_t mark;     /* Chroma: a number that the caller chooses; a collection with another mark is SP_E_ARG */
} sp_vectors_opts;

typedef struct sp_near {
    int64_t id;
    float distance;
} sp_near;

/* Called after each stage: v [n], nearest first, ties by id. Return false to end the search. */
typedef bool sp_near_fn(const sp_near *v, int n, bool last, void *user);

typedef struct sp_vectors_query {
    const float *v; /* [n_dims] */
    int k;
    int breadth;            /* IVF: clusters, HNSW: candidates (ef); 0: 1/16 of the clusters and 8 at least, 64 */
    const int64_t *allowed; /* [n_allowed], ascending: only these are found; NULL: all */
    size_t n_allowed;
    int n_stages; /* approximate number; 0: one */
    sp_near_fn *on_stage; /* or NULL */
    void *user;
} sp_vectors_query;

typedef struct sp_vectors sp_vectors;

/* sp_vectors_create -- Chroma: includes the vectors that the collection has. Errors: SP_E_ARG, SP_E_NOMEM; with
 * Chroma, in every function: SP_E_IO (no answer within 30 s, or a status: with its first line), SP_E_FORMAT. */
sp_err sp_vectors_create(const sp_vectors_opts *o, sp_vectors **out) SP_MUST_CHECK;
void sp_vectors_destroy(sp_vectors *x);
size_t sp_vectors_count(const sp_vectors *x);

/* sp_vectors_train -- IVF: finds the clusters of a sample, before anything is added; others: does nothing.
 * Shape: v [n, n_dims]. Cost: 10 n clusters n_dims multiplications. */
sp_err sp_vectors_train(sp_vectors *x, const float *v, size_t n, sp_team *team) SP_MUST_CHECK;
/* sp_vectors_centroids -- [*n, n_dims] of IVF, borrowed. sp_vectors_use -- takes those of an earlier training. */
const float *sp_vectors_centroids(const sp_vectors *x, size_t *n);
sp_err sp_vectors_use(sp_vectors *x, const float *centroids, size_t n) SP_MUST_CHECK;

/* sp_vectors_add -- the ids must be new. sp_vectors_add_to -- IVF: into clusters chosen by sp_vectors_assign.
 * Shape: v [n, n_dims], clusters [n]. */
sp_err sp_vectors_add(sp_vectors *x, const int64_t *ids, const float *v, size_t n, sp_team *team) SP_MUST_CHECK;
void sp_vectors_assign(const sp_vectors *x, const float *v, size_t n, sp_team *team, uint32_t *clusters);
sp_err sp_vectors_add_to(sp_vectors *x, const int64_t *ids, const float *v, size_t n,
                         const uint32_t *clusters) SP_MUST_CHECK;
/* sp_vectors_reserve -- reserves room for n more, so that a graph need not be moved as it grows. */
sp_err sp_vectors_reserve(sp_vectors *x, size_t n) SP_MUST_CHECK;
/* sp_vectors_remove -- ids [n], ascending; unknown ids are ignored. */
sp_err sp_vectors_remove(sp_vectors *x, const int64_t *ids, size_t n) SP_MUST_CHECK;
/* sp_vectors_clear -- removes all vectors; Chroma: deletes the collection. */
sp_err sp_vectors_clear(sp_vectors *x) SP_MUST_CHECK;
/* sp_vectors_ids -- all ids, ascending. */
typedef SP_VEC(int64_t) sp_vector_ids;
sp_err sp_vectors_ids(const sp_vectors *x, sp_vector_ids *out) SP_MUST_CHECK;

/* sp_vectors_search -- out [q->k], nearest first, ties by id; *n of them. Errors: SP_E_ARG, SP_E_CANCELED (on_stage),
 * SP_E_NOMEM. */
sp_err sp_vectors_search(const sp_vectors *x, const sp_vectors_query *q, sp_near *out, int *n) SP_MUST_CHECK;

/* sp_vectors_write, sp_vectors_read -- HNSW: the graph with its vectors as a file, in hnswlib's format. Errors:
 * SP_E_FORMAT (sizes or links that no such graph has). */
sp_err sp_vectors_write(const sp_vectors *x, const char *path) SP_MUST_CHECK;
sp_err sp_vectors_read(sp_vectors *x, const char *path) SP_MUST_CHECK;

#endif
