/* watch.h -- a gate that measures attention between chunks while a plan runs, and drops what the
 * question does not look at.
 *
 * Measuring: for each token of a watched chunk, the attention to chunks before it and to its own
 * chunk, from the mass that span attention keeps for each span. Sums over tokens, means over layers
 * and heads.
 * Focus: after each layer, the chunks that the question has looked at most so far. When their set
 * has stayed the same for `focus` layers, tokens computed again in the other chunks are dropped
 * from the layers that remain, where their cached copies stand in (plan.h: twins). It works on the
 * tokens that are computed in one step with the question.
 *
 * Source: Cache-Craft sections 3.1 and 3.2.2 (rows C2, C6). */
#ifndef SP_REUSE_WATCH_H
#define SP_REUSE_WATCH_H

#include "reuse/reuse.h"

/* What is measured of one chunk. */
typedef struct sp_watched {
    bool on;         /* it is computed, whole or in part */
    bool dropped;    /* its tokens were dropped on the way: what is measured is not whole */
    float *to_prior; /* [n] attention of each token to chunks before it */
    float *inter;    /* [index of the segment] attention to each segment before it */
    float intra;     /* attention within the chunk */
} sp_watched;

/* Lives in the arena of its plan. */
typedef struct sp_watch {
    int n_segs, n_layers, focus;
    const int32_t *seg_of;   /* [n_spans] segment of each span of the plan; -1: none */
    const int32_t *first_of; /* [n_segs] `at` of the segment's span */
    const bool *is_chunk;    /* [n_segs] */
    sp_watched *chunks;      /* [n_segs] */
    float *looks;            /* [n_segs] attention of the last segment to each, so far */
    bool *focused, *before;  /* [n_segs] this layer's set, and the last one's */
    int n_same;              /* layers for which the set has not changed */
} sp_watch;

/* sp_watch_begin -- the gate of a plan whose spans all stand. seg_of [n_spans] and again [n_segs]
 * (the span that holds tokens computed again; -1: none) belong to the arena of the plan. Chunks
 * with fresh tokens, or tokens computed again, are watched. Errors: SP_E_NOMEM. */
sp_err sp_watch_begin(const sp_reuse_input *in, sp_plan *plan, const int32_t *seg_of,
                      const int32_t *again) SP_MUST_CHECK;

/* sp_watch_of -- what the gate of a plan has seen; NULL when it has none of these. */
const sp_watch *sp_watch_of(const sp_plan *plan);

/* sp_watch_focus -- marks the focused among n chunks by their cumulated attention: the scores in
 * falling order are cut where the entropy of their differences grows most (Algorithm 1). Fewer
 * than three chunks are all focused. order: scratch [n]. */
void sp_watch_focus(const float *score, int n, int32_t *order, bool *focused);

#endif
