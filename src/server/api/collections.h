/* collections.h -- named sets of documents that a request is answered from: `serve --collection NAME=PATH`.
 *
 *   "collection": "docs", "top_k": 5        in the body of a chat, or
 *   "collection": {"name": "docs", "top_k": 5}
 *   "model": "docs@smollm2"                 for clients that have no such field
 *
 * The passages that match the last message of the user best become documents of the chat, in the order of the index,
 * so that equal sets share a prefix. */
#ifndef SP_SERVER_API_COLLECTIONS_H
#define SP_SERVER_API_COLLECTIONS_H

#include "server/api/messages.h"
#include "server/http/call.h"

enum { SRV_MAX_PASSAGES = 1000 };

/* What a request asks of a collection, and what that took. */
typedef struct srv_retrieval {
    struct srv_collection *from; /* NULL: it asks for none */
    int k;                       /* passages, at most */
    int n_found;
    int64_t search_us;
} srv_retrieval;

/* srv_collections_open -- of s->o.collections: "NAME=PATH", where PATH is an index of `spolia index`, or a folder or
 * file whose index is made, or brought up to date, in the user's cache. False after an error message. */
bool srv_collections_open(srv_server *s);
void srv_collections_close(srv_server *s);

/* srv_retrieval_read -- the fields of a body; a top_k that counts passages is taken out of it. Errors are in *f. */
void srv_retrieval_read(const srv_call *call, srv_fields *f, srv_retrieval *out);
/* srv_retrieval_run -- adds the best passages for a question to *d. Errors are in *f, a library's is *err. */
void srv_retrieval_run(srv_retrieval *r, srv_fields *f, const char *question, srv_documents *d, sp_err *err);

/* srv_retrieval_json -- for the account of an answer. */
json_t *srv_retrieval_json(const srv_retrieval *r);
/* srv_collections_models -- adds "NAME@MODEL" of each collection to a list of models. */
void srv_collections_models(const srv_server *s, json_t *list);
/* srv_collections_names -- whether a model's name is one of those. */
bool srv_collections_names(const srv_server *s, const char *model);

#endif
