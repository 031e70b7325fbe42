/* similar_int.h -- sources of similarity. Each gives at most k other chunks, the most similar first. */
#ifndef SP_RETRIEVE_INDEX_SIMILAR_INT_H
#define SP_RETRIEVE_INDEX_SIMILAR_INT_H

#include "retrieve/index/open.h"

typedef sp_err sp_similar_fn(sp_index *ix, const sp_hit *chunk, int k, sp_hits *out);

sp_similar_fn sp_similar_bm25, sp_similar_together, sp_similar_linked;

/* sp_similar_select -- hits of a statement over SP_HIT_COLUMNS; ?1: the chunk, ?2: k. */
sp_err sp_similar_select(sp_index *ix, const char *sql, int64_t id, int k, sp_hits *out) SP_MUST_CHECK;

#endif
