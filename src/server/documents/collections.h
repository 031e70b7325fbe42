/* collections.h -- named sets of documents that requests are answered from: those of `serve --collection NAME=PATH`,
 * which all keys may read and none may change, and those created over HTTP, which belong to the key that created
 * them. */
#ifndef SP_SERVER_DOCUMENTS_COLLECTIONS_H
#define SP_SERVER_DOCUMENTS_COLLECTIONS_H

#include "server/body/fields.h"
#include "server/documents/ahead.h"
#include "server/http/call.h"

enum { SRV_MAX_NAME = 64, SRV_MAX_CREATED = 1000 /* of a key */ };

/* One of --collection. */
typedef struct srv_collection {
    char *name, *path; /* of the index */
    sp_retriever *retriever;
    srv_ahead_notes searches; /* of it */
} srv_collection;

/* What a name means to a key. */
typedef struct srv_found {
    char name[SRV_MAX_NAME + 1]; /* "": nothing */
    srv_collection *served;      /* NULL: the key has created it */
    srv_ahead_notes *searches;   /* notes on searches in it */
} srv_found;

/* srv_collections_open -- of s->o.collections, which srv_collections_check has passed: "NAME=PATH", where PATH is an
 * index of `spolia index`, or a folder or file whose index is made, or brought up to date, in the user's cache. False
 * after an error message. */
bool srv_collections_open(srv_server *s);
void srv_collections_close(srv_server *s);
/* srv_index_progress -- of sp_index_embed, while collections are opened: prints a line per minute. told_us: int64_t *,
 * when it last did, or when it began. */
bool srv_index_progress(int64_t done, int64_t total, void *told_us);
/* srv_collections_served -- those of --collection, [*n]. */
const srv_collection *srv_collections_served(const srv_server *s, int *n);

/* srv_collection_find -- by a name of n bytes. srv_collection_of_model -- the collection in "docs@model". Errors, with
 * out unchanged: SP_E_NOTFOUND; what failed when the key's collections were looked up. */
sp_err srv_collection_find(const srv_call *call, const char *name, size_t n, srv_found *out);
sp_err srv_collection_of_model(const srv_call *call, const char *model, srv_found *out);
/* srv_collection_read -- the same for the field "collection" of a body. False: after an error in *f. */
bool srv_collection_read(const srv_call *call, srv_fields *f, const char *name, srv_found *out);
/* srv_collections_models -- adds "NAME@MODEL" to a list of models for each collection that the caller may use. */
sp_err srv_collections_models(const srv_call *call, json_t *list);

/* srv_collection_search -- as sp_retriever_search. srv_collection_count -- these passages answered a question. */
sp_err srv_collection_search(const srv_call *call, const srv_found *in, const sp_retrieve_query *q, sp_hits *out);
void srv_collection_count(const srv_call *call, const srv_found *in, const sp_hits *hits);

/* Handlers (collection_calls.c).
 *
 *   GET, POST    /v1/collections                     the list; creates one
 *   GET, DELETE  /v1/collections/NAME                one; erases it with its documents
 *   GET, POST    /v1/collections/NAME/documents      as /v1/documents; for --collection: its files, GET only
 *   any          /v1/collections/NAME/documents/ID   as /v1/documents/ID */
srv_sent srv_collections_all(srv_call *call);
srv_sent srv_collections_one(srv_call *call);
/* srv_collection_files -- the list of a --collection's files (collection_files.c), or one of them. */
srv_sent srv_collection_files(const srv_call *call, const srv_collection *c, const char *name);

#endif
