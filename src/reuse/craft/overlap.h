/* overlap.h -- how well a copy computed after some chunks serves after other chunks.
 * Source: Cache-Craft sections 3.1 and 3.2. */
#ifndef SP_REUSE_CRAFT_OVERLAP_H
#define SP_REUSE_CRAFT_OVERLAP_H

#include "cache/copy.h"

/* sp_overlap_beta -- beta' = beta (1 - gamma), 0 .. 1 (eq. 6 to 8). beta: of the attention that the
 * copy gave to chunks before it, the share that went to chunks that precede it now. gamma: the
 * share of pairs of those whose order has changed (Kendall's tau distance).
 * The first n_head of c->before are the head, not chunks. Without chunks before it then and now: 1; none
 * then but some now: 0. Pre: the copy is measured. Cost: O(n_before * n_now). */
float sp_overlap_beta(const sp_copy *c, int n_head, const sp_digest *now, int n_now);

/* sp_overlap_cci -- Cache Context Impact, 0.5 .. 1 (eq. 9 to 11), of a chunk with n tokens: inter
 * and n_of [n_before] are attention to, and tokens of, the chunks before it. */
float sp_overlap_cci(const float *inter, const int32_t *n_of, int n_before, float intra, int32_t n);

/* sp_overlap_share -- how many of the n[i] tokens of each chunk to recompute (eq. 12), out [count].
 *   alpha > 0    ceil(min(1, alpha * weight[i]) * n[i]), weight = CCI (1 - beta')
 *   alpha == 0   the alpha that makes their sum ceil(share * sum of n); fewer when the chunks of
 *                weight above 0 have fewer tokens. share 1: all */
void sp_overlap_share(const float *weight, const int32_t *n, int count, float alpha, float share,
                      int32_t *out);

#endif
