/* reuse.h -- reuse policies: from a prompt and the ledger's copies to plans. Pure: no I/O,
 * no device, no locks. One file a policy; SP_REUSE_POLICIES (parts.h) lists them.
 *
 *   find        which copy serves each segment: fills found[]; copies that are only in a lower tier
 *               are loaded before the first plan is made
 *   next_plan   what to compute next; called after each plan has run, until the answer's plan:
 *                 fill     head and chunks that no copy serves, each chunk after the head alone
 *                 probe    measures which tokens matter; some policies measure twice
 *                 answer   the plan that the answer is decoded with
 *                 done     nothing is left to compute, and no answer is wanted
 *   keep        which copies to keep from the plan that has just run
 *
 * The head is the segments before the first chunk: the system prompt. Every plan that answers has
 * one span a segment in prompt order, then perhaps spans of recomputed tokens, and the answer's
 * span last (empty, with room to grow); the last sight is the answer's. The last token of the
 * prompt is always computed in the answer plan: its logits begin the answer. */
#ifndef SP_REUSE_REUSE_H
#define SP_REUSE_REUSE_H

#include "cache/by_content.h"
#include "cache/by_path.h"
#include "kv/plan.h"
#include "spolia_context.h"

/* Where the KV of a segment is: policies, loading, the account and keep all read this. */
typedef struct sp_found {
    const sp_copy *copy; /* pinned by the request; NULL: none */
    int32_t n_known;     /* leading tokens of the segment that the copy serves */
    int32_t at;          /* position that the first of them was rotated for; known once loaded */
    bool exact;          /* found by path, in the prompt's own order */
    float cfo;           /* craft: share of the copy to recompute */
    uint8_t source;      /* sp_place: the copy's tier when the request arrived; 0: none, or computed by the request */
    uint8_t miss;        /* sp_miss: why a chunk has no copy */
} sp_found;

typedef enum sp_plan_role {
    SP_PLAN_FILL,
    SP_PLAN_PROBE,
    SP_PLAN_ANSWER,
    SP_PLAN_DONE, /* the plan is empty */
} sp_plan_role;

/* What policies see of a request. */
typedef struct sp_reuse_input {
    const sp_segment *segs;
    int n_segs;
    const sp_digest *ids; /* [n_segs] of the segments */
    int n_head;           /* sp_reuse_n_head */
    sp_found *found;      /* [n_segs] */
    float recompute;      /* share of the chunks' tokens to recompute, 0 .. 1; 0 unless the policy
                             recomputes */
    bool by_segment;      /* attention to each segment is measured: recomputed tokens of each segment have their own
                             span, and all of the last segment is computed */
    bool unfused;         /* do not use fused copies */
    bool exact_first;     /* prefer an exact prefix to copies of chunks */
    int keep_chunks;      /* keep only the first n chunks; 0: all */
    bool warm;            /* no answer is wanted, only copies */
    int32_t answer_room;  /* tokens that decoding may add */
    int32_t window;       /* sp_reuse_window: tokens that a token looks at */
    double params[SP_REUSE_PARAMS]; /* of the policy, in the order of its list */
    int n_layers;
    int max_rows; /* tokens of a step, at most; 0: any */
    int n_done[SP_PLAN_DONE]; /* plans that have run, by role */
    const sp_plan *last;      /* the plan that ran last, kept until the next is made; or NULL */
} sp_reuse_input;

/* The input of `find`: a snapshot of the ledger at time `now`. */
typedef struct sp_finder {
    const sp_reuse_input *in; /* with an empty found[] */
    sp_ledger *ledger;
    sp_arena *arena; /* scratch */
    int64_t now;
    bool ready_only; /* leave out copies that would have to be loaded */
} sp_finder;

/* A copy to keep from a plan. serve/ sets spec.parent of path copies to the copy of the segment's parent. */
typedef struct sp_kept {
    int seg;
    sp_copy_spec spec; /* its arrays belong to the plan */
    bool must;         /* the request exists to make it: failing to keep it is an error */
} sp_kept;

typedef struct sp_kept_list {
    sp_kept *v; /* room for one a segment */
    int n;
} sp_kept_list;

/* A policy: one file, and its name in SP_REUSE_POLICIES (parts.h). */
typedef struct sp_reuse_policy {
    const char *name, *help;
    const sp_reuse_param *params; /* [n_params], at most SP_REUSE_PARAMS */
    int n_params;
    bool exact;          /* logits equal those of "off" */
    bool recomputes;     /* computes the share `recompute` of the chunks' tokens */
    bool by_path;        /* takes copies only by path, so path copies are worth storing */
    bool anywhere;       /* takes chunks at any position, fused copies too */
    bool own_statistics; /* reads statistics of copies that only its own requests record */
    bool keeps_placed;   /* keeps placed copies */
    /* Fills found[] with pinned copies; what it has filled on failure is unpinned by the caller.
     * Errors: SP_E_NOMEM. */
    sp_err (*find)(const sp_finder *f);
    /* The copy that `find` may take for the chunk of a query; pins and uses nothing. NULL: takes none by content. */
    const sp_copy *(*peek)(const sp_ledger *l, const sp_content_query *q, bool unfused);
    /* Fills an initialised plan. Errors: SP_E_NOMEM, SP_E_LIMIT. */
    sp_err (*next_plan)(const sp_reuse_input *in, sp_plan *plan, sp_plan_role *role);
    /* Adds to `out` after `plan` has run. NULL: keeps nothing. Errors: those of a copy that must
     * be kept; failures of others are ignored. */
    sp_err (*keep)(const sp_reuse_input *in, sp_plan *plan, sp_plan_role role, sp_kept_list *out);
    /* A bound on the blocks that all plans of a request take, without its answer, when it has several. NULL: segments
     * that are not found, and once the prompt if the policy recomputes. */
    int64_t (*room)(const sp_reuse_input *in);
} sp_reuse_policy;

/* sp_reuse_n_missing -- blocks of the segments that no copy serves. */
int64_t sp_reuse_n_missing(const sp_reuse_input *in);
/* sp_reuse_policy_list -- all policies that a user can name. */
const sp_reuse_policy *const *sp_reuse_policy_list(int *n);
/* sp_reuse_policy_find -- of "NAME" or "NAME:key=value[,key=value]"; params [SP_REUSE_PARAMS]: the values of its
 * parameters. Errors: SP_E_ARG names the mistake and lists the known names or keys. */
sp_err sp_reuse_policy_find(const char *spec, const sp_reuse_policy **out,
                            double *params) SP_MUST_CHECK;
/* sp_reuse_policy_default -- "prefix", which is exact and serves every prompt. */
const sp_reuse_policy *sp_reuse_policy_default(void);
extern const sp_reuse_policy sp_reuse_off;
/* For sp_chunk_fuse; users cannot name it. */
extern const sp_reuse_policy sp_reuse_fuse;
/* For `decode` "window:N"; users cannot name it. Refuses prompts that are not a list. */
extern const sp_reuse_policy sp_reuse_window;

/* sp_reuse_n_head -- length of the head: the system segments that begin the prompt, or, without any, the segments
 * before the first chunk; all segments if there is no chunk. So a copy serves every conversation and message with
 * the chunk, whatever comes between the system prompt and the chunk. */
int sp_reuse_n_head(const sp_segment *segs, int n_segs);
/* sp_reuse_may_keep -- false for chunks after the first in->keep_chunks. Source: RAGCache section 8: for a large top-k
 * only the leading documents are cached (R9). */
bool sp_reuse_may_keep(const sp_reuse_input *in, int i);

#endif
