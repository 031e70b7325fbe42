/* speed.h -- the speed that a model will have, from a few of its layers. */
#ifndef SP_DOCTOR_SPEED_H
#define SP_DOCTOR_SPEED_H

#include "kv/pool.h"
#include "model/model.h"

typedef struct doctor_run {
    const char *cpu;        /* kernels, as in sp_context_opts */
    int n_threads;
    sp_dtype kv_type;
    int n_prompt, n_batch;  /* tokens of a prompt, and of a step of it */
} doctor_run;

typedef struct doctor_speed {
    double prefill, decode; /* seconds: of the prompt, of a token after it */
} doctor_speed;

/* doctor_step_bytes -- weights that a decode step reads: all but the embedding. */
size_t doctor_step_bytes(sp_model *m);

/* doctor_measure -- loads the first layers of the model, runs a prompt of random tokens through them, then a few
 * tokens of an answer, and multiplies. Changes m->hp.n_layers: close the model after it. */
sp_err doctor_measure(sp_model *m, const doctor_run *run, doctor_speed *out) SP_MUST_CHECK;

#endif
