/* guard.h -- checks whether reuse changes answers, and reduces reuse where it does.
 *
 *   sampled request --first token--> noted { prompt, logits } --idle--> check: the same prompt, off
 *                                                                          | logits
 *                                            KL(off || reuse), same best token, for the policy
 *                                                                          |
 *        mean KL above the bound:  ratio 0 -> 0.15 -> 0.3 -> 0.5 -> "prefix" |
 *
 * Sparse decoding is checked in the same way, as the "policy" named sparse: the first tokens that an
 * answer decoded sparsely, once more with full attention after the same tokens and over the same
 * reuse. Above the bound, answers are decoded with full attention.
 *
 * Only requests that follow the context's own settings are sampled and steered; one that names its
 * policy gets that policy. Checks run one at a time, when the engine is idle.
 *
 * Invariants
 *  I1  at most WAITING prompts are noted; further ones are skipped.
 *  I2  a ratio only rises; a policy that has fallen back stays so until the context is closed.
 */
#ifndef SP_SERVE_GUARD_H
#define SP_SERVE_GUARD_H

#include "reuse/choice.h"
#include "serve/prompt/prompt.h"

typedef struct sp_guard sp_guard;

/* sp_guard_create -- share: of requests to check, above 0, at most 1. bound: the largest acceptable mean KL, nats.
 * Errors: SP_E_ARG, SP_E_NOMEM. */
sp_err sp_guard_create(float share, float bound, sp_guard **out) SP_MUST_CHECK;
void sp_guard_destroy(sp_guard *g);

/* sp_guard_steer -- raises the ratio or replaces the policy, depending on the checks so far. */
void sp_guard_steer(const sp_guard *g, sp_reuse_choice *choice);
/* sp_guard_samples -- returns whether to check this request. */
bool sp_guard_samples(sp_guard *g, const sp_reuse_choice *choice);
/* sp_guard_steer_decode -- for a request that follows the context: whether it may be decoded sparsely
 * and, if so, whether it is one to check. */
bool sp_guard_steer_decode(sp_guard *g, bool *sampled);
/* A request to check. */
typedef struct sp_guarded {
    const sp_prompt_space *space;
    const sp_reuse_policy *policy;
    const sp_segment *segs; /* [n_segs] */
    int n_segs, n_tokens, n_vocab;
} sp_guarded;

/* sp_guard_forget -- drops notes of prompts with one of these segments [n, sorted], whose requests have ended. NULL is
 * allowed. */
void sp_guard_forget(sp_guard *g, const sp_digest *ids, size_t n);
/* sp_guard_note -- notes the logits [V] of its first token; does nothing if memory is exhausted. */
void sp_guard_note(sp_guard *g, const sp_guarded *of, const float *logits);

typedef struct sp_guard_noted sp_guard_noted;
/* sp_guard_begin_sparse -- begins notes of sparsely decoded tokens; NULL: out of memory or no room. They are not
 * checked while the request runs. */
sp_guard_noted *sp_guard_begin_sparse(sp_guard *g, const sp_guarded *of);
/* sp_guard_add_sparse -- notes the logits [V] of the token after `before`; false: no more are needed. */
bool sp_guard_add_sparse(sp_guard_noted *n, int32_t before, const float *logits, int n_vocab);

/* sp_guard_reports -- [*n], borrowed until the next check; g NULL: none. */
const sp_guard_report *sp_guard_reports(const sp_guard *g, int *n);

#endif
