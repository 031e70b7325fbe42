/* ffn.h -- the feed-forward part of a layer: x += FFN(h), one function for each sp_ffn_kind.
 *
 * To add a kind (a mixture of experts): its weights in sp_layer (model/model.h) and the table of
 * model/weights.c, a function in the table of ffn.c, and what it needs of scratch in
 * sp_ffn_create. */
#ifndef SP_ENGINE_FFN_H
#define SP_ENGINE_FFN_H

#include "model/model.h"

/* Scratch on the device, for the widest kind that the model has. */
typedef struct sp_ffn {
    sp_device *device;
    int n_ff;
    sp_mem gate, up; /* [M, F] */
} sp_ffn;

sp_err sp_ffn_create(const sp_model *m, sp_device *d, int max_rows, sp_ffn *out) SP_MUST_CHECK;
void sp_ffn_destroy(sp_ffn *f);

/* sp_ffn_run -- x [m, E] += FFN(h [m, E]). Pre: h feeds products (ops.h). */
void sp_ffn_run(const sp_ffn *f, const sp_layer *w, const float *h, int64_t m, float *x);

#endif
