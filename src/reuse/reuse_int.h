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

/* sp_reuse_scores -- one for each chunk token, in prompt order, all 0; in the plan's arena. */
sp_err sp_reuse_scores(const sp_reuse_input *in, sp_plan *plan, float **score) SP_MUST_CHECK;
/* sp_reuse_answer -- the answer plan: the ceil(recompute * n) of the n chunk tokens with the
 * highest scores, of equal ones the earlier, are stale in their spans and computed again in a
 * private one. NaN is lowest. score: as sp_reuse_scores has it; NULL: none is computed again. */
sp_err sp_reuse_answer(const sp_reuse_input *in, const float *score, sp_plan *plan) SP_MUST_CHECK;

/* -- attention as a measure ----------------------------------------------------------------- */

/* sp_reuse_want_columns -- the plan becomes a probe: the attention that its todo tokens give to
 * each token of the chunks, at that layer. */
sp_err sp_reuse_want_columns(const sp_reuse_input *in, int layer, sp_plan *plan) SP_MUST_CHECK;
/* sp_reuse_score_columns -- scores that are what such a probe has measured: in->probed, if any. */
sp_err sp_reuse_score_columns(const sp_reuse_input *in, sp_plan *plan, float **score) SP_MUST_CHECK;
/* sp_reuse_probe_question -- the question, and whatever else is in no cache, over the reused
 * chunks; its attention in the last layer. */
sp_err sp_reuse_probe_question(const sp_reuse_input *in, sp_plan *plan) SP_MUST_CHECK;

#endif
