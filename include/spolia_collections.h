/* spolia_collections.h -- collections: named sets of registered documents that are searched by words and by meaning.
 * spolia.h includes it.
 *
 *   sp_collection_create --> sp_documents_put with the id "NAME/ID" --> sp_documents_search in it
 *
 * A document of a collection is a document like others: sp_documents_get, _pin, _expire, _precompute and _remove take
 * "NAME/ID". A collection belongs to a tenant and is kept in the file of registered documents. */
#ifndef SPOLIA_COLLECTIONS_H
#define SPOLIA_COLLECTIONS_H

#include "spolia_documents.h"
#include "spolia_request.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sp_collection_info {
    const char *name, *tenant; /* tenant: a hash of the salt, "" for none */
    int64_t created_s;         /* since 1970 */
    int64_t n_documents, n_chunks, n_bytes;
    int64_t n_embedded; /* chunks with a vector of the encoder of sp_documents_opts */
    int64_t n_retrieved; /* passages that were found for questions: sp_collection_count */
} sp_collection_info;

typedef struct sp_collection_list {
    sp_collection_info *v;
    int n;
    void *strings; /* what v points into */
} sp_collection_list;

SP_API void sp_collection_list_fini(sp_collection_list *l);

/* sp_collection_create -- an empty one. name: 1 to 64 letters, digits, '.', '_' and '-'. Errors: SP_E_ARG (the name,
 * or there is one), SP_E_UNSUPPORTED (the file system is read-only), SP_E_IO, SP_E_NOMEM. */
SP_API sp_err sp_collection_create(sp_documents *d, const char *salt, const char *name);
/* sp_collections -- of the tenant, by name. name: that one alone; NULL: all. Owns: sp_collection_list_fini. Errors:
 * SP_E_NOTFOUND (name). */
SP_API sp_err sp_collections(sp_documents *d, const char *salt, const char *name, sp_collection_list *out);
/* sp_collection_documents -- as sp_documents_list; ids are "NAME/ID", `after` is without the name. */
SP_API sp_err sp_collection_documents(sp_documents *d, const char *salt, const char *name, const char *after,
                                      int limit, sp_document_list *out);
/* sp_collection_remove -- with all its documents, which are erased as by sp_documents_remove, vectors included. *out
 * may be NULL. Errors: as there. */
SP_API sp_err sp_collection_remove(sp_documents *d, const char *salt, const char *name, int64_t timeout_us,
                                   sp_documents_removed *out);

/* sp_collection_embed -- vectors of the chunks of documents in collections that have none of the encoder: of the
 * document `id` ("NAME/ID") of `salt`, or, id NULL, of all tenants. o (may be NULL): stop, step_us and rests; what is
 * done is kept when `stop` ends it. *n (may be NULL): chunks that were embedded. Without an encoder it does nothing.
 * Errors: SP_E_CANCELED (stop), those of sp_embed, SP_E_IO. */
SP_API sp_err sp_collection_embed(sp_documents *d, const char *salt, const char *id, const sp_embed_opts *o,
                                  int64_t *n);

/* sp_collection_count -- these passages were found for a question; the counts are kept. salt and name: of a
 * collection, or, salt NULL, of an index that the caller calls `name`. Written by sp_documents_tick. Errors:
 * SP_E_NOMEM. */
SP_API sp_err sp_collection_count(sp_documents *d, const char *salt, const char *name, const sp_hits *hits);
/* sp_collection_n_retrieved -- the sum of these counts. */
SP_API sp_err sp_collection_n_retrieved(sp_documents *d, const char *salt, const char *name, int64_t *out);

/* sp_collection_ahead -- the passages whose copies are worth computing before a question comes: those that were
 * retrieved most, then the first others, `most` in all; `score` is their count. of: the index that the caller calls
 * `name`; NULL: a collection of `salt`. Owns: sp_hits_fini. Cost: reads the collection, of an index 50,000 chunks at
 * most. */
SP_API sp_err sp_collection_ahead(sp_documents *d, const char *salt, const char *name, sp_retriever *of, int most,
                                  sp_hits *out);

typedef struct sp_collection_computed {
    bool fresh;   /* false: it was there */
    int n_tokens; /* of the passage */
} sp_collection_computed;

/* A copy to compute. */
typedef struct sp_collection_order {
    const char *salt, *system; /* of the prompts that it will serve */
    const sp_hit *passage;
    sp_go_on_fn *go_on; /* asked between layers; or NULL */
    void *user;
} sp_collection_order;

/* sp_collection_compute -- the copy of a passage, in the background (sp_request_opts). Errors: SP_E_CANCELED (go_on),
 * those of requests. */
SP_API sp_err sp_collection_compute(sp_documents *d, const sp_collection_order *o, sp_collection_computed *out);

#ifdef __cplusplus
}
#endif
#endif
