/* study.h -- measures heads of a model, and choices of blocks, in decode steps.
 *
 * While a study observes a plan, each layer of its steps of one token also computes full attention with a
 * span for each block, whose masses are the attention to each block by each query head. From them:
 *
 *   importance, similarity    of heads (engine/sparse/heads.h)
 *   recall                    mass of the blocks that sparse decoding reads; of as many blocks, sink
 *                             and recent ones among them, whose others have the largest mass: what an
 *                             exact choice has; and of as many blocks with the largest mass
 *   overlap                   of the tenth of the blocks with the largest mass, between neighbouring
 *                             tokens, by the cosine of their queries (LiteCache figure 5)
 *
 * Slow, and for devices whose memory the host reaches. */
#ifndef SP_LAB_STUDY_H
#define SP_LAB_STUDY_H

#include "engine/sparse/heads.h"
#include "kv/plan.h"

typedef struct sp_study sp_study;

#define SP_STUDY_BINS 20 /* of cosines -1 .. 1 */

typedef struct sp_study_result {
    int64_t n_steps;
    double read, exact, best;       /* mean masses: what was read, two best choices */
    int64_t n_pairs[SP_STUDY_BINS]; /* neighbouring queries of a head */
    double overlap[SP_STUDY_BINS];  /* mean share of their largest blocks that are the same */
} sp_study_result;

/* sp_study_create -- Errors: SP_E_NOMEM. */
sp_err sp_study_create(int n_layers, int n_heads, int n_kv_heads, sp_study **out) SP_MUST_CHECK;
void sp_study_destroy(sp_study *s);
/* sp_study_observer -- of one plan at a time; s NULL: none. Its errors: SP_E_UNSUPPORTED on a device whose memory the
 * host does not reach, SP_E_NOMEM. */
sp_observer sp_study_observer(sp_study *s);
/* sp_study_next -- another answer begins: its first query has no neighbour. */
void sp_study_next(sp_study *s);
sp_study_result sp_study_result_of(const sp_study *s);
/* sp_study_heads -- the means so far. */
void sp_study_heads(const sp_study *s, sp_heads *out);

#endif
