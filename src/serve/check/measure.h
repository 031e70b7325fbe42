/* measure.h -- what the laboratory asks of requests beyond the public interface: prescribed
 * answers, logits, keys and values to compare. The guard uses it, too. */
#ifndef SP_SERVE_MEASURE_H
#define SP_SERVE_MEASURE_H

#include "engine/sparse/study.h"
#include "spolia.h"

typedef struct sp_measure {
    const int32_t *forced; /* [n_forced] the answer's first tokens, instead of sampled ones; an end
                              token among them ends the answer as usual. Copied. */
    int n_forced;
    sp_logits_fn *on_logits; /* called before each token of the answer is chosen; an error ends the
                                request with it */
    void *user;              /* of on_logits */
    sp_study *study;         /* of the decode steps (engine/sparse/study.h); NULL: none */
    bool apart;   /* nodes of trees stay where they are stored: serve/pack.c does nothing */
    bool keep_kv; /* holds KV memory until the request is destroyed, for sp_request_kv_deviation */
} sp_measure;

/* sp_measure_submit -- sp_request_submit with measurements. Errors: those of sp_request_submit;
 * SP_E_ARG when a forced token is not in the vocabulary. */
sp_err sp_measure_submit(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                         const sp_measure *m, sp_request **out) SP_MUST_CHECK;

/* Time of all steps so far, the part of it that the model took, and the tokens that it computed. */
typedef struct sp_measured_steps {
    int64_t step_us, compute_us, n_tokens;
} sp_measured_steps;

sp_measured_steps sp_measure_steps(const sp_context *c);

/* sp_measure_swap_out -- all copies that no request holds leave the device: what the host tier takes of them is
 * loaded from there when it is used next. Errors: SP_E_ARG when there is no host tier. */
sp_err sp_measure_swap_out(sp_context *c) SP_MUST_CHECK;

/* sp_request_kv_deviation -- distance of the keys and values of the chunks in a finished request
 * from those in another one with the same prompt, by layer: |KV - KV'| / |KV'| over all chunk
 * tokens. Both were run with keep_kv. out [n_layers]. Source: FusionRAG sections 2.2.2 and 5.1
 * (row F8). Errors: SP_E_ARG when KV is not held or the prompts differ. */
sp_err sp_request_kv_deviation(const sp_request *r, const sp_request *reference,
                               float *out) SP_MUST_CHECK;

#endif
