/* rank.h -- scores how well documents answer questions: with the cross-encoder of --reranker, or, without one, with
 * the chat model, as the likelihood of the question given the document. This work yields to streaming answers
 * (side.h). */
#ifndef SP_SERVER_API_RANK_H
#define SP_SERVER_API_RANK_H

#include "server/body/fields.h"
#include "server/http/call.h"

#define SRV_MOST_RANKED 2048 /* pairs of a call */

typedef struct srv_ranking {
    const sp_pair *pairs; /* [n] borrowed; texts end with NUL */
    const char *const *titles; /* [n] of the documents, "" or NULL: none; NULL: none has one. The chat model reads a
                                  document as in a chat, whose copies serve both; a cross-encoder reads the text */
    size_t n;
    int document_tokens;  /* each document is cut to so many tokens; 0: none is */
    float *scores;        /* [n] out: higher is better */
    int64_t n_tokens;     /* out: of all pairs */
    int64_t n_reused;     /* out: of these, cached */
    sp_err err;           /* out: of an error, and its status */
    int status;
    const char *code;
    bool left;            /* out: the client hung up: no reply */
} srv_ranking;

/* srv_rank -- false after an error in *f, with its status. Charges the key's tokens. */
bool srv_rank(srv_call *call, srv_ranking *r, srv_fields *f);
/* srv_ranker_name -- of the model that ranks. */
const char *srv_ranker_name(const srv_server *s);

/* The handlers of rerank.c. */
srv_sent srv_rerank(srv_call *call);
srv_sent srv_score(srv_call *call);

#endif
