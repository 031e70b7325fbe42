/* reuse_int.h -- the policies, and what they share. */
#ifndef SP_REUSE_REUSE_INT_H
#define SP_REUSE_REUSE_INT_H

#include "reuse/reuse.h"

extern const sp_reuse_policy sp_reuse_off;
extern const sp_reuse_policy sp_reuse_prefix;
extern const sp_reuse_policy sp_reuse_full;
extern const sp_reuse_policy sp_reuse_random;
extern const sp_reuse_policy sp_reuse_blend;
extern const sp_reuse_policy sp_reuse_fusion;
extern const sp_reuse_policy sp_reuse_flow;
extern const sp_reuse_policy sp_reuse_craft;
extern const sp_reuse_policy sp_reuse_h2o;
extern const sp_reuse_policy sp_reuse_set;

/* One token of a chunk that a policy may choose. */
typedef struct sp_choice {
    float score; /* higher: sooner */
    int32_t seg, index;
} sp_choice;

/* sp_reuse_n_chunk_tokens -- tokens of all chunks together. */
int32_t sp_reuse_n_chunk_tokens(const sp_reuse_input *in);

/* sp_reuse_n_to_last_chunk -- segments up to the last one that is reused as a chunk. */
int sp_reuse_n_to_last_chunk(const sp_reuse_input *in);
/* sp_reuse_n_again -- how many of n tokens in->recompute says. */
int32_t sp_reuse_n_again(const sp_reuse_input *in, int32_t n);

/* sp_reuse_known_spans -- one span a segment: head and chunks with their cached KV, the rest
 * fresh. */
sp_err sp_reuse_known_spans(const sp_reuse_input *in, sp_plan *plan) SP_MUST_CHECK;
/* sp_reuse_add_tokens -- all tokens of segment i as todo of its own span. */
sp_err sp_reuse_add_tokens(const sp_reuse_input *in, int i, int see, sp_plan *plan) SP_MUST_CHECK;

/* sp_reuse_answer -- the answer plan: of the candidates (one for each chunk token, in order) the
 * ceil(recompute * n) with the highest scores, ties to the earlier token, are stale in their spans
 * and computed again in a private one. candidates may be NULL when n is 0. */
sp_err sp_reuse_answer(const sp_reuse_input *in, sp_choice *candidates, int32_t n,
                       sp_plan *plan) SP_MUST_CHECK;

/* sp_reuse_candidates -- the chunks' tokens in prompt order with score 0, in the plan's arena. */
sp_err sp_reuse_candidates(const sp_reuse_input *in, sp_plan *plan, sp_choice **out,
                           int32_t *n) SP_MUST_CHECK;

/* -- attention as a measure ----------------------------------------------------------------- */

/* sp_reuse_want_columns -- the plan becomes a probe: the attention that its todo tokens give to
 * each token of the chunks, at that layer. */
sp_err sp_reuse_want_columns(const sp_reuse_input *in, int layer, sp_plan *plan) SP_MUST_CHECK;
/* sp_reuse_score_columns -- what such a probe has measured, as the candidates' scores. */
void sp_reuse_score_columns(const sp_plan *probed, sp_choice *c, int32_t n);
/* sp_reuse_probe_question -- the question, and whatever else is in no cache, over the reused
 * chunks; its attention in the last layer. */
sp_err sp_reuse_probe_question(const sp_reuse_input *in, sp_plan *plan) SP_MUST_CHECK;

#endif
