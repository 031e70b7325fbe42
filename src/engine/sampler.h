/* sampler.h -- from logits to the next token.
 *
 * Order: banned tokens, logit bias, frequency and presence penalty, repeat penalty, grammar, top-k, top-p, min-p,
 * temperature, draw. Temperature 0 is greedy (ties: the lower id). The random stream is the
 * sampler's own: one seed gives one text. */
#ifndef SP_ENGINE_SAMPLER_H
#define SP_ENGINE_SAMPLER_H

#include "engine/grammar/grammar.h"
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
    int32_t *n_uses;           /* [V] uses in the answer; NULL without the penalties that need it */
    sp_grammar_state *grammar; /* borrowed, advanced by sp_sampler_answer; NULL: none */
    const int32_t *banned;     /* [n_banned] tokens that are not chosen now; borrowed */
    int n_banned;
} sp_sampler;

/* sp_sampler_init -- Errors: SP_E_ARG names the parameter; SP_E_NOMEM. Owns: sp_sampler_fini. */
sp_err sp_sampler_init(sp_sampler *s, const sp_sampling *p, int n_vocab) SP_MUST_CHECK;
void sp_sampler_fini(sp_sampler *s);
/* sp_sampler_accept -- remembers a token for the repeat penalty. */
void sp_sampler_accept(sp_sampler *s, int32_t id);
/* sp_sampler_answer -- as accept, for a token of the answer: also updates frequency and presence penalty and
 * the grammar. false: the grammar does not allow the token. */
bool sp_sampler_answer(sp_sampler *s, int32_t id);
/* sp_sampler_logprobs -- out[0] is token `id`, out[1 .. n] the n most likely tokens, best first.
 * Cost: O(V n). Pre: 0 <= n <= V. */
void sp_sampler_logprobs(const sp_sampler *s, const float *logits, int32_t id, int n,
                         sp_token_logprob *out);
/* sp_sampler_pick -- the next token; logits [V] are not changed; NaN is chosen only if all are NaN. Cost:
 * O(V), plus O(log V) for each candidate kept by top-k or top-p. */
int32_t sp_sampler_pick(sp_sampler *s, const float *logits);

#endif
