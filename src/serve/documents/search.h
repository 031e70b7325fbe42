/* search.h -- a search over a tenant's registered documents: an index in memory for each tenant that searches. */
#ifndef SP_SERVE_DOCUMENTS_SEARCH_H
#define SP_SERVE_DOCUMENTS_SEARCH_H

#include "retrieve/shelf.h"

/* One shelf's indexes, the tenants that searched last. An index is rebuilt when the shelf has changed. Thread: any;
 * searches of one tenant run one after another. */
typedef struct sp_searches sp_searches;

sp_err sp_searches_create(sp_shelf *shelf, sp_searches **out) SP_MUST_CHECK;
void sp_searches_destroy(sp_searches *s);
/* sp_searches_drop_stale -- frees indexes older than the shelf's last change, except those being searched, so that
 * deleted text does not stay in memory. */
void sp_searches_drop_stale(sp_searches *s);
/* sp_searches_run -- the k best chunks of the tenant's documents, of those in `ids` alone if n_ids > 0. */
sp_err sp_searches_run(sp_searches *s, const char *tenant, const sp_documents_query *q, sp_hits *out) SP_MUST_CHECK;

#endif
