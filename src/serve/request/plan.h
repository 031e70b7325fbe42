/* plan.h -- the plans of a request, and the KV memory reserved for them. */
#ifndef SP_SERVE_PLAN_H
#define SP_SERVE_PLAN_H

#include "kv/plan.h"
#include "reuse/reuse.h"
#include "spolia.h"

typedef struct sp_request_plans {
    sp_plan now;              /* waiting, running, or computed */
    sp_plan_role role;        /* of `now` */
    sp_plan last;             /* the previous plan, until the next is made */
    int n_done[SP_PLAN_DONE]; /* plans that have run, by role */
    int next_todo;            /* first of now.todo that is not computed */
    int n_computed;           /* tokens of the last plan of the prompt that has run */
    int answer_span;          /* of the answer's plan */
    int64_t reserved;         /* blocks: request.h, I2 */
    int64_t us;               /* spent on looking up and planning */
} sp_request_plans;

/* sp_request_plan_first -- its first plan, unless there is one. */
sp_err sp_request_plan_first(sp_request *r) SP_MUST_CHECK;
/* sp_request_reserve -- reserves blocks for all of its plans and its answer, and binds the first plan; *fits is false
 * if it must wait for others to release KV memory. If no other request holds any and the policy needs more than there
 * is, everything is computed, at last as by the default policy. Errors then: SP_E_CONTEXT (all of it is too little),
 * SP_E_NOKV (pinned copies have the rest). */
sp_err sp_request_reserve(sp_request *r, bool *fits) SP_MUST_CHECK;
/* sp_request_fail_to_fit -- the error of a request that needs more blocks than the KV memory has. */
sp_err sp_request_fail_to_fit(const sp_request *r, int64_t n_blocks) SP_MUST_CHECK;
/* sp_request_plan_next -- after a plan has run: makes and binds the next one, and releases the
 * last. */
sp_err sp_request_plan_next(sp_request *r) SP_MUST_CHECK;
/* sp_request_took_block -- a reserved block became a held one. */
void sp_request_took_block(sp_request *r);
/* sp_request_gave_blocks -- n held blocks became reserved ones. */
void sp_request_gave_blocks(sp_request *r, int32_t n);
/* sp_request_unreserve -- releases its reserved blocks. */
void sp_request_unreserve(sp_request *r);

#endif
