/* measure.h -- what the laboratory needs of requests beyond the public interface: forced answers, logits, keys and
 * values to compare. The guard uses it, too. */
#ifndef SP_SERVE_MEASURE_H
#define SP_SERVE_MEASURE_H

#include "engine/sparse/heads.h"
#include "serve/request/measured.h"

/* sp_measure_submit -- sp_request_submit with measurements. Errors: those of sp_request_submit;
 * SP_E_ARG when a forced token is not in the vocabulary. */
sp_err sp_measure_submit(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                         const sp_measure *m, sp_request **out) SP_MUST_CHECK;

/* sp_measure_swap_out -- evicts all copies that no request holds to the host tier, from which they are loaded at their
 * next use. Errors: SP_E_ARG without a host tier. */
sp_err sp_measure_swap_out(sp_context *c) SP_MUST_CHECK;

/* sp_measure_heads -- from the next request on, sparse decoding uses these heads instead of those of the model's file;
 * h is copied. Errors: SP_E_NOMEM. Pre: no request runs. */
sp_err sp_measure_heads(sp_context *c, const sp_heads *h) SP_MUST_CHECK;

/* sp_measure_sights -- for a finished request: *n_had, chunks that had a copy when it arrived; *n_saw, those of them
 * whose copy was computed after another chunk of this prompt. */
void sp_measure_sights(const sp_request *r, int *n_had, int *n_saw);

/* sp_request_kv_deviation -- distance of the keys and values of the chunks in a finished request
 * from those of another one with the same prompt, by layer: |KV - KV'| / |KV'| over all chunk
 * tokens. Both were run with keep_kv. out [n_layers]. Source: FusionRAG sections 2.2.2 and 5.1.
 * Errors: SP_E_ARG if KV was not kept or the prompts differ. */
sp_err sp_request_kv_deviation(const sp_request *r, const sp_request *reference,
                               float *out) SP_MUST_CHECK;

#endif
