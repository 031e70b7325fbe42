/* measured.h -- measurements of a request. */
#ifndef SP_SERVE_MEASURED_H
#define SP_SERVE_MEASURED_H

#include "kv/plan.h"
#include "spolia.h"

typedef struct sp_measure {
    const int32_t *forced; /* [n_forced] the answer's first tokens, instead of sampled ones; an end
                              token among them ends the answer as usual. Copied. */
    int n_forced;
    bool rewinds; /* the forced tokens are not part of the answer: after the last, the answer begins at the end of the
                     prompt, without on_logits. Needs n_forced > 0 and room for them in max_tokens; not with sparse
                     decoding or contexts in a file. */
    sp_logits_fn *on_logits; /* called before each token of the answer is chosen; an error ends the
                                request with it */
    void *user;              /* of on_logits */
    sp_observer observer;    /* of the decode steps; look NULL: none */
    bool keep_kv; /* holds KV memory until the request is destroyed, for sp_request_kv_deviation */
} sp_measure;

#endif
