/* submit.h -- a new request: its own copy of the prompt, its place in the queue, the settings it takes from the
 * context. */
#ifndef SP_SERVE_SUBMIT_H
#define SP_SERVE_SUBMIT_H

#include "kv/segment.h"
#include "reuse/reuse.h"
#include "serve/queue/order.h"
#include "serve/queue/share.h"
#include "spolia.h"

/* The request's own copy of the prompt. */
typedef struct sp_request_prompt {
    sp_segment *segs; /* [n_segs] */
    sp_digest *ids;   /* [n_segs] of the segments */
    int n_segs, n_tokens;
    int n_head;       /* segments before the first chunk */
    int32_t end;      /* position after the prompt; below n_tokens where branches share positions */
    const char *salt; /* or NULL */
} sp_request_prompt;

/* Its place in the queue. */
typedef struct sp_request_place {
    sp_waiting waiting;  /* the queue fills in the rest */
    sp_share *share;     /* of its tenant, once it is in the queue */
    int64_t counted_at;  /* the ledger's n_added when waiting.n_cached was counted; -1: never */
} sp_request_place;

/* The settings that it takes from the context when it enters the queue. */
typedef struct sp_request_follow {
    bool reuse, decode;
} sp_request_follow;

/* sp_request_create -- creates a request, not yet in the queue, with an internal policy; NULL: that of the options.
 * Thread: any. Errors: those of sp_request_submit. */
sp_err sp_request_create(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                         const sp_reuse_policy *policy, sp_request **out) SP_MUST_CHECK;
/* sp_request_discard -- destroys a request that has not entered the queue. */
void sp_request_discard(sp_request *r);
/* sp_request_enter -- adds it to the queue. */
void sp_request_enter(sp_request *r);

#endif
