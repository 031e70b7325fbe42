/* ffn.h -- the feed-forward part of a layer: x += FFN(h), one function for each sp_ffn_kind.
 *
 * To add a kind: its weights in sp_layer (model/model.h) and the table of model/weights.c, a function in
 * the table of ffn.c, and what it needs of scratch in sp_ffn_create. Mixtures are in experts.c. */
#ifndef SP_ENGINE_FFN_H
#define SP_ENGINE_FFN_H

#include "model/model.h"

/* Scratch of mixtures. Rows of an expert are computed together: the host lists them from the router's
 * logits. */
typedef struct sp_ffn_experts {
    int max_rows;
    sp_mirror logits; /* [M, X], then [M] of the shared expert's gate */
    sp_mirror rows;   /* [n_used M] which rows an expert computes, expert after expert, then weights */
    sp_mirror all;    /* [M] every row, then weights: of the shared expert */
    int *first;       /* [X + 1] where the rows of an expert begin */
    int *chosen;      /* [n_used M] */
    float *weight;    /* [n_used M] */
    float *scores;    /* [2 X] of a row: weights, and what the choice goes by */
    sp_mem in, result; /* [M, E] of an expert's rows */
} sp_ffn_experts;

/* Scratch on the device, for the model's widest kind. */
typedef struct sp_ffn {
    sp_device *device;
    const sp_hparams *hp;
    sp_mem gate, up, out; /* [M, F], [M, F or E], [M, E] where it is not added at once */
    sp_ffn_experts experts;
} sp_ffn;

/* Rows of a step. */
typedef struct sp_ffn_rows {
    const float *h; /* [m, E] */
    int64_t m;
    float *x; /* [m, E] */
    bool add; /* add to x instead of overwriting it */
} sp_ffn_rows;

sp_err sp_ffn_create(const sp_model *m, sp_device *d, int max_rows, sp_ffn *out) SP_MUST_CHECK;
void sp_ffn_destroy(sp_ffn *f);

/* sp_ffn_run -- x (+)= FFN(h). Pre: h feeds products (ops.h). Errors: of the device. */
sp_err sp_ffn_run(sp_ffn *f, const sp_layer *w, const sp_ffn_rows *rows) SP_MUST_CHECK;

/* sp_ffn_out -- [M, E] for what is not added at once. */
static inline float *sp_ffn_out(const sp_ffn *f)
{
    return f->out.p;
}

/* -- for ffn.c and experts.c ------------------------------------------------------------------ */

/* sp_ffn_mlp -- x (+)= w_down (act(w_gate h) * (w_up h)), or w_down act(w_up h) without a gate. */
void sp_ffn_mlp(const sp_ffn *f, const sp_mlp *w, const sp_ffn_rows *rows);
sp_err sp_ffn_experts_create(sp_ffn *f, int max_rows) SP_MUST_CHECK;
void sp_ffn_experts_destroy(sp_ffn *f);
sp_err sp_ffn_experts_run(sp_ffn *f, const sp_layer *w, const sp_ffn_rows *rows) SP_MUST_CHECK;

#endif
