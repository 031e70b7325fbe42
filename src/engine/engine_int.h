/* engine_int.h -- the rows of a step, and the scratch they live in. */
#ifndef SP_ENGINE_ENGINE_INT_H
#define SP_ENGINE_ENGINE_INT_H

#include "engine/engine.h"

/* The tokens of a step, one row each, slice after slice. Gates and the last layer drop rows; the
 * rest close ranks, so every array below stays dense. */
typedef struct sp_rows {
    int n;
    int32_t *id;     /* [M] index into the plan's todo */
    int32_t *token;  /* [M] */
    int32_t *pos;    /* [M] position in the prompt */
    int32_t *rot;    /* [M] position that the key is rotated for: pos - shift of its span */
    uint16_t *see;   /* [M] */
    uint32_t *block; /* [M] where the KV goes */
    uint8_t *slot;   /* [M] */
    bool *keep;      /* [M] */
    int *first;      /* [slices + 1] rows of slice s: first[s] .. first[s + 1] */
} sp_rows;

struct sp_engine {
    sp_engine_opts o;
    sp_rope rope;
    sp_rows rows;
    float *x;            /* [M, E] residual stream */
    float *h;            /* [M, E] normalised */
    float *q, *att;      /* [M, H D] */
    float *k, *v;        /* [M, G D] */
    float *lse;          /* [M, H] of the layer being computed */
    float *gate, *up;    /* [M, F] */
    void *ints;          /* [M] rows of x rounded to integers, or NULL: no weights want them */
    float *mass;         /* grown when a gate wants it */
    size_t mass_cap;     /* floats */
    sp_attend_req *reqs; /* [slices] */
    void *scratch;       /* of attention, one piece a thread */
    size_t scratch_bytes;
    int scratch_spans; /* spans it is large enough for */
    void *probe;       /* scratch of probes, grown when a plan has one */
    size_t probe_bytes;
};

/* -- rows.c ------------------------------------------------------------------------------------ */

/* sp_rows_check -- whether the engine can compute these slices. Errors: SP_E_ARG, SP_E_CONTEXT. */
sp_err sp_rows_check(const sp_engine *e, const sp_slice *slices, int n_slices) SP_MUST_CHECK;
void sp_rows_gather(sp_rows *r, const sp_slice *slices, int n_slices);
/* sp_rows_close -- removes the rows whose keep is false, from the lists and from x, h and att. */
void sp_rows_close(sp_engine *e, int n_slices);
/* sp_row_wanted -- whether the logits of todo `id` are. */
bool sp_row_wanted(const sp_slice *slice, int id);
/* sp_rows_drop_unwanted -- before the last layer's attention: rows that neither logits nor a gate
 * nor a probe need. */
void sp_rows_drop_unwanted(sp_engine *e, const sp_slice *slices, int n_slices);
/* sp_rows_pass_gates -- after a layer: each gate says which of its plan's rows go on. */
void sp_rows_pass_gates(sp_engine *e, const sp_slice *slices, int n_slices, int layer);

/* -- probe.c: measures at the probed layer; the rows of a measured plan end there ------------- */

sp_err sp_probe_make_room(sp_engine *e, const sp_slice *slices, int n_slices) SP_MUST_CHECK;
/* after the layer's KV is stored */
void sp_probe_deviation(sp_engine *e, const sp_kv_view *kv, const sp_slice *slices, int n_slices,
                        int layer);
/* after its attention */
void sp_probe_columns(sp_engine *e, const sp_kv_view *kv, const sp_slice *slices, int n_slices,
                      int layer);

#endif
