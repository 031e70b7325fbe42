/* gate.h -- measures attention between chunks while a plan runs, and drops recomputed tokens of chunks that the
 * question does not look at.
 *
 * Measuring: for each token of a measured chunk, the attention to chunks before it and to its own
 * chunk, from the mass that span attention keeps for each span. Sums over tokens, means over layers
 * and heads.
 * Focus: after each layer, the chunks that the question has looked at most so far. When their set
 * has stayed the same for `focus` layers, recomputed tokens of the other chunks are dropped from
 * the remaining layers, where their cached copies replace them (plan.h: twins). It acts on the
 * tokens that are computed in one step with the question. Where they take several steps, a probe
 * finds the focus first: the question alone over the cached copies, until the set is stable.
 *
 * Source: Cache-Craft sections 3.1 and 3.2.2. */
#ifndef SP_REUSE_CRAFT_GATE_H
#define SP_REUSE_CRAFT_GATE_H

#include "reuse/reuse.h"

/* Parameters of the policy craft: indices of sp_reuse_input.params. */
enum { SP_CRAFT_ALPHA, SP_CRAFT_FOCUS, SP_CRAFT_N_PARAMS };

/* What is measured of one chunk. */
typedef struct sp_craft_measured {
    bool on;         /* some of its tokens are computed */
    bool dropped;    /* some of its tokens were dropped: the measurement is incomplete */
    float *to_prior; /* [n] attention of each token to chunks before it */
    float *inter;    /* [index of the segment] attention to each segment before it */
    float intra;     /* attention within the chunk */
} sp_craft_measured;

/* Is in the arena of its plan. */
typedef struct sp_craft_gate {
    int n_segs, n_layers, focus;
    const int32_t *seg_of;       /* [n_spans] segment of each span of the plan; -1: none */
    const int32_t *first_of;     /* [n_segs] `at` of the segment's span */
    const bool *is_chunk;        /* [n_segs] */
    sp_craft_measured *chunks;   /* [n_segs] */
    float *looks;                /* [n_segs] attention of the last segment to each, so far */
    bool *focused, *was_focused; /* [n_segs] after this layer, and after the one before */
    int n_same;                  /* layers for which the set has not changed */
    bool probes, stable;         /* this is a probe; the set is stable */
} sp_craft_gate;

/* sp_craft_gate_begin -- the gate of a plan that has all its spans. seg_of [n_spans] and recomputed
 * [n_segs] (the span of the recomputed tokens; -1: none) belong to the arena of the plan. Measures
 * chunks with fresh or recomputed tokens. focus: layers; 0: no token is dropped. recomputed NULL: a
 * probe, which measures no chunk, compares those with a copy, and ends when their focus is stable.
 * Errors: SP_E_NOMEM. */
sp_err sp_craft_gate_begin(const sp_reuse_input *in, sp_plan *plan, const int32_t *seg_of,
                           const int32_t *recomputed, int focus) SP_MUST_CHECK;

/* sp_craft_gate_of -- the measurements of a plan's gate; NULL if it has another gate or none. */
const sp_craft_gate *sp_craft_gate_of(const sp_plan *plan);

/* sp_craft_is_unfocused -- whether a probe has found that the question does not look at segment i. */
bool sp_craft_is_unfocused(const sp_plan *probe, int i);

/* sp_craft_focus -- marks the focused among n chunks by their cumulated attention: the scores in
 * falling order are cut where the entropy of their differences grows most (Algorithm 1). Fewer
 * than three chunks are all focused. order: scratch [n]. */
void sp_craft_focus(const float *score, int n, int32_t *order, bool *focused);

/* sp_craft_keep_chunk -- the copy of chunk i that a measured plan has computed, with its statistics; its arrays
 * belong to the plan. false: there is none, or no memory (statistics.c). */
bool sp_craft_keep_chunk(const sp_reuse_input *in, sp_plan *plan, int i, sp_copy_spec *out);

#endif
