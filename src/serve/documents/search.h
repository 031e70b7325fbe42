/* search.h -- searches in registered documents: for each collection that is searched an index in memory. */
#ifndef SP_SERVE_DOCUMENTS_SEARCH_H
#define SP_SERVE_DOCUMENTS_SEARCH_H

#include "retrieve/shelf/collections.h"
#include "serve/search/search.h"

/* One shelf's indexes, those of the collections that were searched last. An index is immutable: after a change of its
 * collection the next search makes another one. Thread: any; searches run at the same time. */
typedef struct sp_searches sp_searches;

/* e: of the vectors; NULL: words alone. */
sp_err sp_searches_create(sp_shelf *shelf, sp_embedder *e, sp_searches **out) SP_MUST_CHECK;
void sp_searches_destroy(sp_searches *s);
/* sp_searches_drop_stale -- frees indexes older than the last change of their collection, and those with a document
 * that has expired (if in use, when their searches end), so that deleted text does not stay in memory. */
void sp_searches_drop_stale(sp_searches *s, int64_t now_s);

/* What is searched: documents that have not expired. */
typedef struct sp_searched {
    const char *tenant, *collection; /* "": its documents outside all collections */
    int64_t now_s;
} sp_searched;

sp_err sp_searches_run(sp_searches *s, const sp_searched *in, const sp_retrieve_query *q, sp_hits *out) SP_MUST_CHECK;
/* sp_searches_each -- calls fn with all chunks, in order. */
sp_err sp_searches_each(sp_searches *s, const sp_searched *in, sp_chunk_fn *fn, void *user) SP_MUST_CHECK;

#endif
