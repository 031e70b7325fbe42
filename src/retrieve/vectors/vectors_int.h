/* vectors_int.h -- the parts of vectors.h: distances, clusters (clusters.c), the graph (hnsw.cc, in C++), a collection
 * of a Chroma server (chroma.c). */
#ifndef SP_RETRIEVE_VECTORS_VECTORS_INT_H
#define SP_RETRIEVE_VECTORS_VECTORS_INT_H

#include "retrieve/vectors/vectors.h"

/* sp_product -- the inner product of a, b [n]; the same bits on every CPU. sp_product_best: the fastest one here. */
typedef float sp_product_fn(const float *a, const float *b, size_t n);
sp_product_fn *sp_product_best(void);

/* sp_is_allowed -- whether a query may find an id. */
bool sp_is_allowed(const sp_vectors_query *q, int64_t id);

/* The best k so far: a heap, the farthest first. */
typedef struct sp_best {
    sp_near *v; /* [k] */
    int n, k;
} sp_best;

void sp_best_add(sp_best *b, sp_near x);
/* sp_best_sort -- out [b->n], nearest first; b is unchanged. Returns b->n. */
int sp_best_sort(const sp_best *b, sp_near *out);

/* Vectors in clusters: flat is one cluster. */
typedef struct sp_clusters sp_clusters;

sp_err sp_clusters_create(const sp_vectors_opts *o, sp_clusters **out) SP_MUST_CHECK;
void sp_clusters_destroy(sp_clusters *c);
size_t sp_clusters_count(const sp_clusters *c);
sp_err sp_clusters_train(sp_clusters *c, const float *v, size_t n, sp_team *team) SP_MUST_CHECK;
const float *sp_clusters_centroids(const sp_clusters *c, size_t *n);
sp_err sp_clusters_use(sp_clusters *c, const float *centroids, size_t n) SP_MUST_CHECK;
/* sp_clusters_add -- into the lists that sp_clusters_assign names; flat: all in the one list. */
void sp_clusters_assign(const sp_clusters *c, const float *v, size_t n, sp_team *team, uint32_t *lists);
sp_err sp_clusters_add(sp_clusters *c, const int64_t *ids, const float *v, size_t n,
                       const uint32_t *lists) SP_MUST_CHECK;
void sp_clusters_remove(sp_clusters *c, const int64_t *ids, size_t n);
sp_err sp_clusters_ids(const sp_clusters *c, sp_vector_ids *out) SP_MUST_CHECK;
sp_err sp_clusters_search(const sp_clusters *c, const sp_vectors_query *q, sp_best *best,
                          sp_near *sorted) SP_MUST_CHECK;

/* hnswlib's graph. No exception leaves these functions. */
typedef struct sp_hnsw sp_hnsw;

sp_err sp_hnsw_create(const sp_vectors_opts *o, sp_hnsw **out) SP_MUST_CHECK;
void sp_hnsw_destroy(sp_hnsw *h);
size_t sp_hnsw_count(const sp_hnsw *h); /* without those removed */
/* sp_hnsw_reserve -- room for n more; a graph grows by a quarter at least, so that it is seldom moved. sp_hnsw_add --
 * Thread: several, once there is one vector. */
sp_err sp_hnsw_reserve(sp_hnsw *h, size_t n) SP_MUST_CHECK;
sp_err sp_hnsw_add(sp_hnsw *h, int64_t id, const float *v) SP_MUST_CHECK;
sp_err sp_hnsw_remove(sp_hnsw *h, int64_t id) SP_MUST_CHECK;
sp_err sp_hnsw_ids(const sp_hnsw *h, sp_vector_ids *out) SP_MUST_CHECK;
/* sp_hnsw_search -- the staged search. sp_hnsw_plain -- hnswlib's own, for queries without stages and allowed ids. */
sp_err sp_hnsw_search(const sp_hnsw *h, const sp_vectors_query *q, sp_best *best, sp_near *sorted) SP_MUST_CHECK;
sp_err sp_hnsw_plain(const sp_hnsw *h, const sp_vectors_query *q, sp_best *best) SP_MUST_CHECK;
sp_err sp_hnsw_write(const sp_hnsw *h, const char *path) SP_MUST_CHECK;
sp_err sp_hnsw_read(sp_hnsw *h, const char *path) SP_MUST_CHECK;

/* A collection of a Chroma server. Thread: searches of several threads at the same time, changes alone. */
typedef struct sp_chroma sp_chroma;

sp_err sp_chroma_open(const sp_vectors_opts *o, sp_chroma **out) SP_MUST_CHECK;
void sp_chroma_close(sp_chroma *c);
size_t sp_chroma_count(const sp_chroma *c); /* as of the last change */
/* sp_chroma_add -- replaces a vector whose id exists. sp_chroma_clear -- deletes the collection. */
sp_err sp_chroma_add(sp_chroma *c, const int64_t *ids, const float *v, size_t n) SP_MUST_CHECK;
sp_err sp_chroma_remove(sp_chroma *c, const int64_t *ids, size_t n) SP_MUST_CHECK;
sp_err sp_chroma_clear(sp_chroma *c) SP_MUST_CHECK;
sp_err sp_chroma_ids(sp_chroma *c, sp_vector_ids *out) SP_MUST_CHECK;
sp_err sp_chroma_search(sp_chroma *c, const sp_vectors_query *q, sp_best *best, sp_near *sorted) SP_MUST_CHECK;

#endif
