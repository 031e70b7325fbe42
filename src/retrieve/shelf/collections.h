/* collections.h -- collections on the shelf: named sets of a tenant's documents, whose passages have vectors,
 * tags and a count of how often they were retrieved.
 *
 *   collections  a tenant's; its documents have ids "NAME/ID"
 *   members      facts of such a document: file, tags, sizes, the encoder once all its chunks have its vectors
 *   vectors      of a chunk, f32 [n_dims]; removed with its document
 *   retrieved    how often a chunk was found for a question, by the hash of its text; `place` is the collection
 *
 * Thread: any. */
#ifndef SP_RETRIEVE_SHELF_COLLECTIONS_H
#define SP_RETRIEVE_SHELF_COLLECTIONS_H

#include "retrieve/shelf/shelf.h"
#include "spolia_collections.h"

enum { SP_PLACE_BYTES = 2 * sizeof(sp_digest) + 72 }; /* of a tenant's name, a slash, a collection's */

/* sp_shelf_add_collection -- Errors: SP_E_ARG (the tenant has a collection of this name). */
sp_err sp_shelf_add_collection(sp_shelf *s, const char *tenant, const char *name, int64_t now_s) SP_MUST_CHECK;
/* sp_shelf_drop_collection -- its documents become doomed. Errors: SP_E_NOTFOUND. */
sp_err sp_shelf_drop_collection(sp_shelf *s, const char *tenant, const char *name) SP_MUST_CHECK;
/* sp_shelf_collections -- the collections of a tenant (NULL: of all), by name, or only `name` (NULL: all). encoder:
 * whose vectors are counted. Expired documents are not counted. Owns: sp_collection_list_fini. Errors:
 * SP_E_NOTFOUND (name). */
typedef struct sp_collections_query {
    const char *tenant, *name, *encoder;
    int64_t now_s;
} sp_collections_query;
sp_err sp_shelf_collections(sp_shelf *s, const sp_collections_query *q, sp_collection_list *out) SP_MUST_CHECK;

/* The passages of a collection in the order of their documents' ids. */
typedef struct sp_shelf_passage {
    const char *file, *tags; /* of its document */
    const float *v;          /* [n_dims]; NULL: it has no vector */
} sp_shelf_passage;

typedef struct sp_shelf_passages {
    sp_hits chunks; /* `file` is the id of the document, without the collection; `id` the number in it */
    SP_VEC(sp_shelf_passage) v; /* [chunks.n] */
    int64_t until_s; /* when the first of its documents expires; 0: none does */
} sp_shelf_passages;

/* The encoder whose vectors are meant. */
typedef struct sp_shelf_encoder {
    const char *id; /* NULL: none */
    int n_dims;
} sp_shelf_encoder;

/* sp_shelf_passages_read -- of documents that have not expired. Owns: sp_shelf_passages_fini. */
typedef struct sp_passages_query {
    const char *tenant, *collection; /* "": documents outside all */
    sp_shelf_encoder encoder;
    int64_t now_s;
} sp_passages_query;
sp_err sp_shelf_passages_read(sp_shelf *s, const sp_passages_query *query, sp_shelf_passages *out) SP_MUST_CHECK;
void sp_shelf_passages_fini(sp_shelf_passages *p);

/* sp_shelf_unembedded -- a document in a collection that lacks vectors of an encoder: the tenant's with this id, or
 * any (id NULL); *document 0: there is none. */
sp_err sp_shelf_unembedded(sp_shelf *s, const char *encoder, const char *tenant, const char *id,
                           int64_t *document) SP_MUST_CHECK;
/* sp_shelf_slice -- at most n chunks of a document from number `at` on; none if it is gone. Owns: sp_hits_fini. */
sp_err sp_shelf_slice(sp_shelf *s, int64_t document, int64_t at, int n, sp_hits *out) SP_MUST_CHECK;
/* sp_shelf_put_vectors -- stores n chunks' vectors from `at` on, if the document exists; last: it now has all.
 * Shape: v [n, n_dims]. */
typedef struct sp_shelf_vectors {
    int64_t document, at;
    const float *v;
    int n;
    bool last;
} sp_shelf_vectors;
sp_err sp_shelf_put_vectors(sp_shelf *s, const sp_shelf_encoder *e, const sp_shelf_vectors *v) SP_MUST_CHECK;

/* A passage, and how often it was retrieved. */
typedef struct sp_shelf_count {
    char place[SP_PLACE_BYTES]; /* "TENANT/COLLECTION"; of an index "/NAME" */
    sp_digest chunk;            /* sp_shelf_chunk_hash */
    int64_t n;
} sp_shelf_count;
typedef SP_VEC(sp_shelf_count) sp_shelf_counts;

/* sp_shelf_chunk_hash -- of title and text. Errors: SP_E_NOMEM. */
sp_err sp_shelf_chunk_hash(const char *title, const char *text, sp_digest *out) SP_MUST_CHECK;
/* sp_shelf_count_all -- adds to the counts. sp_shelf_counted -- the `most` largest of a place, largest first. */
sp_err sp_shelf_count_all(sp_shelf *s, const sp_shelf_count *v, size_t n) SP_MUST_CHECK;
sp_err sp_shelf_count_of(sp_shelf *s, const char *place, int64_t *out) SP_MUST_CHECK; /* their sum */
sp_err sp_shelf_counted(sp_shelf *s, const char *place, int most, sp_shelf_counts *out) SP_MUST_CHECK;

#endif
