/* measure.h -- what the laboratory asks of requests beyond the public interface: prescribed
 * answers, logits, keys and values to compare. The guard uses it, too. */
#ifndef SP_SERVE_MEASURE_H
#define SP_SERVE_MEASURE_H

#include "engine/sparse/heads.h"
#include "serve/request/measured.h"

/* sp_measure_submit -- sp_request_submit with measurements. Errors: those of sp_request_submit;
 * SP_E_ARG when a forced token is not in the vocabulary. */
sp_err sp_measure_submit(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                         const sp_measure *m, sp_request **out) SP_MUST_CHECK;

/* sp_measure_swap_out -- all copies that no request holds leave the device: what the host tier takes of them is
 * loaded from there when it is used next. Errors: SP_E_ARG when there is no host tier. */
sp_err sp_measure_swap_out(sp_context *c) SP_MUST_CHECK;

/* sp_measure_heads -- sparse decoding takes these heads from the next request on, not those of the model's file; h is
 * copied. Errors: SP_E_NOMEM. Pre: no request runs. */
sp_err sp_measure_heads(sp_context *c, const sp_heads *h) SP_MUST_CHECK;

/* sp_measure_sights -- of a finished request: chunks that had a copy when it came, and those of them whose copy was
 * computed after another chunk of this prompt. */
void sp_measure_sights(const sp_request *r, int *n_had, int *n_saw);

/* sp_request_kv_deviation -- distance of the keys and values of the chunks in a finished request
 * from those in another one with the same prompt, by layer: |KV - KV'| / |KV'| over all chunk
 * tokens. Both were run with keep_kv. out [n_layers]. Source: FusionRAG sections 2.2.2 and 5.1.
 * Errors: SP_E_ARG when KV is not held or the prompts differ. */
sp_err sp_request_kv_deviation(const sp_request *r, const sp_request *reference,
                               float *out) SP_MUST_CHECK;

#endif
