/* reuse.h -- policies: a prompt and a snapshot of the cache become a plan. Pure: no I/O, no locks, no
 * device. One file a policy.
 *
 * Every plan that a policy makes has one span for each segment, in prompt order, and the answer's span
 * after them (empty, with room to grow); segment i may see spans 0 .. i.
 */
#ifndef SP_REUSE_REUSE_H
#define SP_REUSE_REUSE_H

#include "cache/tree.h"
#include "kv/plan.h"

typedef struct sp_reuse_input {
    const sp_segment *segs;
    int n_segs;
    const sp_match *match; /* what the knowledge tree knows of the prompt */
    int32_t answer_room;   /* tokens that decoding may add */
} sp_reuse_input;

typedef struct sp_reuse_policy {
    const char *name;
    const char *summary;
    bool uses_tree; /* looks prompts up in the knowledge tree, and stores them there */
    /* Fills an initialised plan. The last token of the prompt is always computed: its logits begin the
     * answer. Errors: SP_E_NOMEM, SP_E_LIMIT. */
    sp_err (*plan)(const sp_reuse_input *in, sp_plan *plan);
} sp_reuse_policy;

/* sp_reuse_find -- by name ("off", "prefix"). Errors: SP_E_ARG lists the names. */
sp_err sp_reuse_find(const char *name, const sp_reuse_policy **out) SP_MUST_CHECK;

#endif
