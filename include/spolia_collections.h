/* spolia_collections.h -- collections: named sets of registered documents that are searched by words and by meaning.
 * spolia.h includes it.
 *
 *   sp_collection_create --> sp_documents_put with the id "NAME/ID" --> sp_documents_search in it
 *
 * A document in a collection is an ordinary document: sp_documents_get, _pin, _expire, _precompute and _remove take
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
    int64_t n_embedded; /* chunks that have a vector from the encoder in sp_documents_opts */
    int64_t n_retrieved; /* passages that were found for questions: sp_collection_count */
} sp_collection_info;

typedef struct sp_collection_list {
    sp_collection_info *v;
    int n;
    void *strings; /* what v points into */
} sp_collection_list;

SP_API void sp_collection_list_fini(sp_collection_list *l);

/* sp_collection_create -- creates an empty collection. name: 1 to 64 letters, digits, '.', '_' and '-'. Errors:
 * SP_E_ARG (a bad name, or it exists), SP_E_UNSUPPORTED (the file system is read-only), SP_E_IO, SP_E_NOMEM. */
SP_API sp_err sp_collection_create(sp_documents *d, const char *salt, const char *name);
/* sp_collections -- lists the tenant's collections in the order of their names. name: only this one; NULL: all. Owns:
 * sp_collection_list_fini. Errors: SP_E_NOTFOUND (name). */
SP_API sp_err sp_collections(sp_documents *d, const char *salt, const char *name, sp_collection_list *out);
/* sp_collection_documents -- lists a collection's documents as sp_documents_list does. Ids are "NAME/ID"; `after` is
 * an ID without NAME. */
SP_API sp_err sp_collection_documents(sp_documents *d, const char *salt, const char *name, const char *after,
                                      int limit, sp_document_list *out);
/* sp_collection_remove -- removes a collection and erases all its documents, as sp_documents_remove does, and their
 * vectors. *out may be NULL. Errors: those of sp_documents_remove. */
SP_API sp_err sp_collection_remove(sp_documents *d, const char *salt, const char *name, int64_t timeout_us,
                                   sp_documents_removed *out);

/* sp_collection_embed -- computes the missing vectors of chunks in collections: of the document `id` ("NAME/ID") of
 * the tenant `salt`, or, if id is NULL, of all tenants. o (may be NULL): stop, step_us and rests; vectors computed
 * before `stop` ends it are kept. *n (may be NULL): chunks that were embedded. Does nothing without an encoder.
 * Errors: SP_E_CANCELED (stop), those of sp_embedder_embed, SP_E_IO. */
SP_API sp_err sp_collection_embed(sp_documents *d, const char *salt, const char *id, const sp_embed_opts *o,
                                  int64_t *n);

/* sp_collection_count -- counts these passages as retrieved for a question. salt and name select a collection; if salt
 * is NULL, name is the caller's name for an index. sp_documents_tick writes the counts. Errors: SP_E_NOMEM. */
SP_API sp_err sp_collection_count(sp_documents *d, const char *salt, const char *name, const sp_hits *hits);
/* sp_collection_n_retrieved -- the sum of the counts of sp_collection_count. */
SP_API sp_err sp_collection_n_retrieved(sp_documents *d, const char *salt, const char *name, int64_t *out);

/* sp_collection_ahead -- up to `most` passages whose copies are worth computing before a question arrives: the most
 * retrieved ones, then others in order; `score` is how often each was retrieved. of: the index that the caller calls
 * `name`; NULL: a collection of `salt`. Owns: sp_hits_fini. Cost: reads the collection, or up to 50,000 chunks of an
 * index. */
SP_API sp_err sp_collection_ahead(sp_documents *d, const char *salt, const char *name, sp_retriever *of, int most,
                                  sp_hits *out);

typedef struct sp_collection_computed {
    bool fresh;   /* computed now; false: the copy existed */
    int n_tokens; /* of the passage */
} sp_collection_computed;

/* A copy to compute. */
typedef struct sp_collection_copy {
    const char *salt, *system; /* of the prompts that it will serve */
    const sp_hit *passage;
    bool registered;      /* it is of a document, not of an index: once that is deleted, nothing is computed */
    sp_go_on_fn *go_on; /* asked between layers; or NULL */
    void *user;
} sp_collection_copy;

/* sp_collection_compute -- computes the copy of a passage in the background (sp_request_opts.background). Errors:
 * SP_E_NOTFOUND (its document is deleted), SP_E_CANCELED (go_on), those of requests. */
SP_API sp_err sp_collection_compute(sp_documents *d, const sp_collection_copy *o, sp_collection_computed *out);

#ifdef __cplusplus
}
#endif
#endif
