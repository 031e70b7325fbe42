/* retrieval.h -- a chat that is answered from a collection.
 *
 *   "collection": "docs", "top_k": 5        in the body of a chat, or
 *   "collection": {"name": "docs", "top_k": 5}
 *   "model": "docs@smollm2"                 for clients that have no such field
 *   "filter": {"file": "a.md"}              of some documents alone (filter.h)
 *   "rerank": true                          the best of four times as many passages, by rank.h
 *
 * The passages that match the last message of the user best become documents of the chat, in the order of the index,
 * so that equal sets share a prefix. */
#ifndef SP_SERVER_API_RETRIEVAL_H
#define SP_SERVER_API_RETRIEVAL_H

#include "server/api/messages.h"
#include "server/body/filter.h"
#include "server/documents/collections.h"

enum { SRV_MAX_PASSAGES = 1000 };

typedef enum srv_ahead { SRV_AHEAD_SOMETIMES, SRV_AHEAD_NEVER, SRV_AHEAD_ALWAYS } srv_ahead;

/* What a request wants from a collection, and what the search took. */
typedef struct srv_retrieval {
    srv_found from;    /* name "": it asks for none */
    srv_filter filter; /* its strings are the body's */
    int k;             /* passages, at most */
    bool rerank;
    int n_ranked;      /* passages that were ranked; they took ... */
    int64_t rank_us;
    srv_ahead ahead;      /* whether answers begin before the search ends; sometimes: by ahead.h */
    const sp_hits *now;   /* passages that a prompt is made of, borrowed; in the order of the index */
    int n_found, n_stages;
    int n_begun, n_wrong; /* answers that began before the search ended, and those of them that were given up */
    int64_t search_us, exposed_us; /* time of the search; the part of it before the right answer began */
} srv_retrieval;

/* srv_retrieval_read -- the fields of a body; a top_k that counts passages is taken out of it. Errors are in *f. */
void srv_retrieval_read(const srv_call *call, srv_fields *f, srv_retrieval *out);
/* Called after each stage with the passages found so far, in the order of the index. False: the search ends. */
typedef bool srv_passages_fn(const sp_hits *h, bool changed, bool last, void *user);
/* srv_retrieval_search -- what call->retrieval asks for. False after an error in *f, where a library's is *err, or
 * when fn ended it. */
bool srv_retrieval_search(const srv_call *call, srv_fields *f, const char *question, srv_passages_fn *fn, void *user,
                          sp_err *err);
/* srv_retrieval_gains -- whether beginning the answer after the current stage is expected to gain time. */
bool srv_retrieval_gains(const srv_call *call);
/* srv_retrieval_take -- adds copies of the passages r->now to the documents of a chat. False: out of memory. */
bool srv_retrieval_take(const srv_retrieval *r, srv_documents *d);
/* srv_retrieval_json -- for the account of an answer. */
json_t *srv_retrieval_json(const srv_retrieval *r);

#endif
