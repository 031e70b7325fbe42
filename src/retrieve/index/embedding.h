/* embedding.h -- vectors of an index's chunks, stored in the index's file; an HNSW graph is in a file beside it.
 *
 *   embedding  one row: the encoder's id, the length of its vectors, the kind of search, centroids (IVF), the number
 *              of the last build, and the checksum of the graph's file and the build that wrote it
 *   vectors    a chunk: SHA-256 of the embedded text, its cluster, the build that added it, and the vector:
 *              f32 [n_dims], or nothing if a database has it
 *
 * The rows are authoritative: a missing, older or damaged graph is rebuilt from them. A chunk whose text is already
 * embedded gets the same vector. An index without these tables has no vectors. */
#ifndef SP_RETRIEVE_INDEX_EMBEDDING_H
#define SP_RETRIEVE_INDEX_EMBEDDING_H

#include "retrieve/index/pick.h"
#include "retrieve/vectors/vectors.h"
#include "spolia.h"

/* Computes the vectors of n texts, of length 1. out [n, n_dims]. */
typedef sp_err sp_embed_texts_fn(const char *const *texts, int n, float *out, void *user);

typedef struct sp_embedding_build {
    const char *id; /* of the encoder */
    int n_dims;
    const char *kind; /* "flat", "ivf", "hnsw", "chroma:URL"; NULL: the index's kind, or one that suits its size */
    sp_embed_texts_fn *embed;
    sp_index_embed_progress *progress; /* or NULL */
    void *user;
    int n_threads;
} sp_embedding_build;

/* sp_embedding_update -- brings the vectors of an index up to date. If interrupted, finished vectors are kept.
 * *stats may be NULL. Errors: SP_E_IO, SP_E_FORMAT, SP_E_ARG (kind), SP_E_CANCELED, SP_E_NOMEM, and those of embed. */
sp_err sp_embedding_update(const char *path, const sp_embedding_build *b, sp_index_embed_stats *stats) SP_MUST_CHECK;

/* sp_embedding_open -- the vectors of an open index, for searches. id: of the
 * encoder that embeds questions; NULL: any. Errors: SP_E_NOTFOUND (no
 * vectors), SP_E_ARG (vectors of another encoder), SP_E_FORMAT, SP_E_NOMEM. */
sp_err sp_embedding_open(sp_index *ix, const char *id, sp_vectors **out, sp_vectors_kind *kind) SP_MUST_CHECK;

/* sp_embedding_near -- the k chunks whose vectors are nearest to that of `chunk`, itself among them, best first;
 * score: the inner product. The first call reads the vectors. Errors: SP_E_NOTFOUND when the index or the chunk has
 * none; SP_E_FORMAT, SP_E_NOMEM. */
sp_err sp_embedding_near(sp_index *ix, int64_t chunk, int k, sp_ranking *out) SP_MUST_CHECK;

#endif
