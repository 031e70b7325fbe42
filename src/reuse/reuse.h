/* reuse.h -- policies: a prompt and a snapshot of the cache become plans. Pure: no I/O, no locks,
 * no device. One file a policy.
 *
 * A request goes through three kinds of plans:
 *
 *   fill     head and chunks that are not cached, each chunk behind the head alone   (reuse/fill.c)
 *   probe    measures which tokens matter, if the policy wants to know; some measure twice
 *   answer   what the answer is decoded from
 *
 * The head is the segments before the first chunk: the system prompt. Every plan that answers has
 * one span for each segment in prompt order, then perhaps some with recomputed tokens, and the
 * answer's span last (empty, with room to grow); the last sight is the answer's. A policy that
 * places chunks has the last plan only. */
#ifndef SP_REUSE_REUSE_H
#define SP_REUSE_REUSE_H

#include "cache/chunks.h"
#include "cache/tree.h"
#include "kv/plan.h"

/* All measured copies of a chunk. */
typedef struct sp_copies {
    const sp_variant *const *v; /* [n] */
    int n;
} sp_copies;

typedef struct sp_reuse_input {
    const sp_segment *segs;
    int n_segs;
    const sp_digest *ids;  /* [n_segs] of the segments */
    int n_head;            /* segments before the first chunk; n_segs when there is none */
    const sp_match *match; /* what the knowledge tree knows of the prompt */
    const sp_variant *const *chunks; /* [n_segs] the copies to use; NULL where there is none */
    const int32_t *order;   /* set: [n_segs] segments in the order that the match is of; or NULL */
    const sp_copies *known; /* [n_segs] what `choose` may choose from; or NULL */
    int32_t answer_room;    /* tokens that decoding may add */
    int n_layers;
    float recompute;       /* share of the chunks' tokens to compute again, 0 .. 1 */
    float alpha;           /* craft: factor of CFO, or 0: as `recompute` says */
    int focus;             /* craft: layers that focused chunks must be stable; 0: never drop */
    bool unfused;          /* leave fused copies alone */
    bool wants_heavy;      /* fill: measure the attention that tokens receive */
    const sp_plan *probed; /* the last probe plan after it ran, or NULL */
} sp_reuse_input;

typedef struct sp_reuse_policy {
    const char *name;
    const char *summary;
    bool uses_tree;   /* looks prompts up in the knowledge tree, and stores them there */
    bool uses_chunks; /* reuses chunks at any position; approximate */
    bool selects;     /* computes a share of the chunks' tokens again */
    bool places;      /* a chunk without a copy is computed where it stands, behind what is there,
                         and measured; the others compute a plain copy first (fill) */
    bool reorders;    /* the tree may know the chunks in another order */
    bool wants_heavy; /* plain copies must know which tokens received most attention */
    int n_probes;     /* how often `probe` is asked, each time with the plan before as `probed` */
    /* Which of in->known[i] to use, and how much of it is to be mended; -1: none. May be NULL. */
    int (*choose)(const sp_reuse_input *in, int i, float *cfo);
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
/* sp_reuse_learned -- what a plan of a policy that places chunks, or of sp_reuse_fuse, has computed
 * of chunk i: `out` is a copy to keep, its arrays belong to the plan. false: nothing. */
bool sp_reuse_learned(const sp_reuse_input *in, const sp_plan *plan, int i, sp_variant *out);
/* sp_reuse_heavy -- after a fill that measured it: the tokens of chunk i by falling attention
 * received, in the plan's arena; NULL when it was not measured. */
const int32_t *sp_reuse_heavy(const sp_plan *plan, int i);
/* sp_reuse_fuse -- of a prompt that ends with a chunk: that chunk alone, seeing the head and the
 * copies of the chunks before it. Source: FusionRAG eq. 10 (row F3). */
sp_err sp_reuse_fuse(const sp_reuse_input *in, sp_plan *plan) SP_MUST_CHECK;
/* sp_reuse_fill -- computes what is missing of head and chunks. Chunks see the head and themselves
 * only, so their KV is the canonical copy. Source: FusionRAG eq. 5 (row F1). */
sp_err sp_reuse_fill(const sp_reuse_input *in, sp_plan *plan) SP_MUST_CHECK;

#endif
