/* reuse.h -- policies: a prompt and a snapshot of the cache become plans. Pure: no I/O, no locks,
 * no device. One file a policy.
 *
 * A request goes through at most three plans:
 *
 *   fill     head and chunks that are not cached, each chunk behind the head alone    (reuse/fill.c)
 *   probe    measures which tokens matter, if the policy wants to know
 *   answer   what the answer is decoded from
 *
 * The head is the segments before the first chunk: the system prompt. Every plan that answers has
 * one span for each segment in prompt order, then perhaps one with recomputed tokens, and the
 * answer's span last (empty, with room to grow); the last sight is the answer's. / */
#ifndef SP_REUSE_REUSE_H
#define SP_REUSE_REUSE_H

#include "cache/chunks.h"
#include "cache/tree.h"
#include "kv/plan.h"

typedef struct sp_reuse_input {
    const sp_segment *segs;
    int n_segs;
    int n_head;            /* segments before the first chunk; n_segs when there is none */
    const sp_match *match; /* what the knowledge tree knows of the prompt */
    const sp_variant *const *chunks; /* [n_segs] canonical copies of chunks; NULL where unknown */
    int32_t answer_room;             /* tokens that decoding may add */
    int n_layers;
    float recompute;       /* share of the chunks' tokens to compute again, 0 .. 1 */
    const sp_plan *probed; /* the probe plan after it ran, or NULL */
} sp_reuse_input;

typedef struct sp_reuse_policy {
    const char *name;
    const char *summary;
    bool uses_tree;   /* looks prompts up in the knowledge tree, and stores them there */
    bool uses_chunks; /* reuses chunks at any position; approximate */
    bool selects;     /* computes a share of the chunks' tokens again */
    /* Both fill an initialised plan. Errors: SP_E_NOMEM, SP_E_LIMIT. probe may be NULL. The last
     * token of the prompt is always computed in the answer plan: its logits begin the answer. */
    sp_err (*probe)(const sp_reuse_input *in, sp_plan *plan);
    sp_err (*plan)(const sp_reuse_input *in, sp_plan *plan);
} sp_reuse_policy;

/* sp_reuse_find -- by name. Errors: SP_E_ARG lists the names. */
sp_err sp_reuse_find(const char *name, const sp_reuse_policy **out) SP_MUST_CHECK;

/* sp_reuse_n_head -- segments before the first chunk. */
int sp_reuse_n_head(const sp_segment *segs, int n_segs);
/* sp_reuse_needs_fill -- something of head or chunks is not cached. */
bool sp_reuse_needs_fill(const sp_reuse_input *in);
/* sp_reuse_fill -- the plan that computes it. Chunks see the head and themselves only, so their KV
 * is the canonical copy. Source: FusionRAG eq. 5 (row F1). */
sp_err sp_reuse_fill(const sp_reuse_input *in, sp_plan *plan) SP_MUST_CHECK;

#endif
