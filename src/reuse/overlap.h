/* overlap.h -- how well a copy computed behind some chunks serves behind others.
 * Source: Cache-Craft sections 3.1 and 3.2 (rows C3, C4). */
#ifndef SP_REUSE_OVERLAP_H
#define SP_REUSE_OVERLAP_H

#include "cache/chunks.h"

/* sp_overlap_beta -- beta' = beta (1 - gamma), 0 .. 1 (eq. 6 to 8): the share of the attention
 * that the copy gave to chunks before it which went to chunks that stand before it now, less the
 * share of their pairs whose order has changed (Kendall's tau distance).
 * The first n_head of v->before are the head: no chunks. Nothing before then and now: 1; nothing
 * then, something now: 0. Pre: v->stats. Cost: O(n_before * n_now). */
float sp_overlap_beta(const sp_variant *v, int n_head, const sp_digest *now, int n_now);

/* sp_overlap_cci -- Cache Context Impact, 0.5 .. 1 (eq. 9 to 11), of a chunk with n tokens: inter
 * and n_of [n_before] are attention to, and tokens of, the chunks before it. */
float sp_overlap_cci(const float *inter, const int32_t *n_of, int n_before, float intra, int32_t n);

/* sp_overlap_share -- how many of n[i] tokens to compute again of each chunk (eq. 12), out [count].
 *   alpha > 0    ceil(min(1, alpha * weight[i]) * n[i]), weight = CCI (1 - beta')
 *   alpha == 0   the alpha for which they are ceil(share * sum of n) together; fewer where chunks
 *                of weight 0, which need nothing, leave no room for that. share 1: all */
void sp_overlap_share(const float *weight, const int32_t *n, int count, float alpha, float share,
                      int32_t *out);

#endif
