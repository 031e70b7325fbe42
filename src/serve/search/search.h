/* search.h -- a retriever over an index and vectors of the caller, and searches among given chunks. */
#ifndef SP_SERVE_SEARCH_H
#define SP_SERVE_SEARCH_H

#include "retrieve/index/pick.h"
#include "retrieve/vectors/vectors.h"
#include "spolia.h"

/* sp_retriever_of -- over an open index and vectors with the ids of its chunks; takes ownership of both, also after an
 * error. x NULL: by words only. */
sp_err sp_retriever_of(sp_index *ix, sp_embedder *e, sp_vectors *x, sp_retriever **out) SP_MUST_CHECK;
/* sp_retriever_search_among -- as sp_retriever_search, but among `allowed`, ascending ids, instead of q->files and
 * q->tags. */
sp_err sp_retriever_search_among(sp_retriever *f, const sp_retrieve_query *q, const sp_ids *allowed,
                                 sp_hits *out) SP_MUST_CHECK;
/* sp_retriever_each -- calls fn with the first `most` chunks, in order. */
typedef sp_err sp_chunk_fn(const sp_hit *chunk, void *user);
sp_err sp_retriever_each(sp_retriever *f, int64_t most, sp_chunk_fn *fn, void *user) SP_MUST_CHECK;

#endif
