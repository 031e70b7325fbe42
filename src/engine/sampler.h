/* sampler.h -- from logits to the next token.
 *
 * Order: repeat penalty, top-k, top-p, min-p, temperature, draw. Temperature 0 is greedy (ties: the
 * lower id). The random stream is the sampler's own: one seed gives one text. */
#ifndef SP_ENGINE_SAMPLER_H
#define SP_ENGINE_SAMPLER_H

#include "base/mem.h"
#include "spolia.h"

typedef struct sp_candidate {
    float logit;
    int32_t id;
} sp_candidate;

typedef struct sp_sampler {
    sp_sampling p;
    int n_vocab;
    uint64_t rng;
    sp_candidate *heap, *kept; /* [V] each */
    float *prob;               /* [V] */
    int32_t *recent;           /* ring of the last p.repeat_last tokens */
    int n_recent, next_recent;
} sp_sampler;

/* sp_sampler_init -- Errors: SP_E_ARG names the parameter; SP_E_NOMEM. Owns: sp_sampler_fini. */
sp_err sp_sampler_init(sp_sampler *s, const sp_sampling *p, int n_vocab) SP_MUST_CHECK;
void sp_sampler_fini(sp_sampler *s);
/* sp_sampler_accept -- remembers a token for the repeat penalty. */
void sp_sampler_accept(sp_sampler *s, int32_t id);
/* sp_sampler_pick -- logits [V] are read only; NaN is never chosen while another is left. Cost:
 * O(V), plus O(log V) for each candidate kept by top-k or top-p. */
int32_t sp_sampler_pick(sp_sampler *s, const float *logits);

#endif
