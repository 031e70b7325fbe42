/* embed_int.h -- what vectors and scores share: the embedder, and steps of which callers take turns. For serve/embed/
 * alone. */
#ifndef SP_SERVE_EMBED_INT_H
#define SP_SERVE_EMBED_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/encoder/encode.h"
#include "spolia_embed.h"

struct sp_embedder {
    sp_device *device;
    sp_encoder *encoder;
    sp_encode_pass *pass;
    pthread_mutex_t lock; /* of device and pass */
    pthread_mutex_t turn; /* held by the next thread to take `lock`, so that no call takes it twice in a row */
    atomic_int n_urgent;  /* calls without sp_embed_opts.rests that wait for `lock` */
    double token_us;      /* recent time of a token, without rests; 0: unknown. Under `lock` */
    int64_t rested_us;    /* time rested in the current step. Under `lock` */
};

/* The inputs of a call. */
typedef struct sp_embed_job {
    sp_embedder *e;
    const sp_embed_opts *o;
    sp_tokens ids;         /* of all inputs, one after the other */
    sp_encode_text *texts; /* [n]; `ids` is set by sp_embed_job_run */
    size_t n;
} sp_embed_job;

/* sp_embed_job_init -- for n inputs; results go to out, `width` floats each. Owns: sp_embed_job_fini. */
sp_err sp_embed_job_init(sp_embed_job *j, size_t n, float *out, int width) SP_MUST_CHECK;
void sp_embed_job_fini(sp_embed_job *j);
/* sp_embed_too_long -- the error of input i with n tokens. */
sp_err sp_embed_too_long(const sp_embed_job *j, size_t i, size_t n) SP_MUST_CHECK;
/* sp_embed_job_run -- computes all inputs, a step at a time; n_tokens [n] or NULL: tokens of each. */
sp_err sp_embed_job_run(sp_embed_job *j, int32_t *n_tokens) SP_MUST_CHECK;

#endif
