/* state.h -- the rows of a step, and the device memory that they are in. */
#ifndef SP_ENGINE_STATE_H
#define SP_ENGINE_STATE_H

#include "engine/engine.h"
#include "engine/ffn.h"
#include "engine/offload/offload.h"
#include "engine/sparse/summaries.h"
#include "kv/notes.h"

/* What operations read about each row. */
typedef struct sp_row_lists {
    int32_t *token;  /* [M] */
    int32_t *pos;    /* [M] position in the prompt */
    int32_t *rot;    /* [M] position that the key is rotated for: pos - shift of its span */
    uint32_t *block; /* [M] where the KV goes */
    int32_t *from;   /* [M] where a row was before others were dropped */
    uint16_t *see;   /* [M] */
    uint8_t *slot;   /* [M] */
} sp_row_lists;

/* The tokens of a step, one row each, slice after slice. Gates and the last layer drop rows; arrays are then
 * compacted, so they stay dense. */
typedef struct sp_rows {
    int n;
    int32_t *id; /* [M] index into the plan's todo */
    bool *keep;  /* [M] */
    int *first;  /* [slices + 1] rows of slice s: first[s] .. first[s + 1] */
    sp_row_lists host, dev;
    sp_mirror lists; /* the memory of both */
} sp_rows;

enum { SP_N_ACTIVATIONS = 7 };

struct sp_engine {
    sp_engine_opts o;
    sp_device *device;
    sp_offload *offload; /* or NULL */
    sp_rope ropes[SP_ROPE_N];
    sp_rows rows;
    sp_ffn ffn;

    /* device memory */
    float *x;      /* [M, E] residual stream */
    float *h;      /* [M, E] normalised */
    float *q;      /* [M, H D] */
    float *att;    /* [M, H D] */
    float *k, *v;  /* [M, G D] */
    float *lse;    /* [M, H] of the layer being computed */
    sp_mem logits; /* [LOGIT_ROWS, V] on their way to the host; none on a unified device */
    sp_mem columns;
    sp_mem ahead; /* [slices, H D] approximate queries of the next layer, once they are wanted */
    sp_mem memory[SP_N_ACTIVATIONS + SP_ROPE_N];

    /* both sides */
    sp_mirror mass;   /* grows when a gate wants it */
    sp_mirror slots;  /* [2, M] pairs of stored tokens: to compare, or to copy */
    sp_mirror differ; /* [2, M] their squared distance, and the second one's squared size */

    /* host */
    sp_attend_req *reqs;                   /* [slices] */
    sp_pick_req *picks;                    /* [slices] */
    sp_summaries *summaries[SP_SUMMARY_N]; /* of each kind, once it is used */
    uint32_t kept;                         /* a bit for each kind that stores keep */
    sp_kv_notes notes;                     /* sp_engine_keep_summaries; else zeros */
    sp_span *head_spans; /* span lists rewritten by selectors: of each slice [G, n_spans] */
    const sp_span **of_head; /* [slices, G] lists in head_spans */
    size_t cap_head_spans;
    float **column_list; /* [cap_column_list] into columns */
    size_t cap_column_list;
};

/* sp_engine_rope -- the rotation of a layer. */
static inline const sp_rope *sp_engine_rope(const sp_engine *e, int layer)
{
    return &e->ropes[e->o.model->layers[layer].rope];
}

/* sp_engine_copy_slots -- keys and values of the first m slots of e->slots to those max_rows after them, in the layers
 * from first_layer on. */
void sp_engine_copy_slots(sp_engine *e, int first_layer, int64_t m);

/* -- norms.c: norms as layers want them --------------------------------------------------------- */

/* sp_norm_rows -- the stream, normalised into e->h, where products read next; w NULL: the stream
 * itself. b: biases of LayerNorm, or NULL. Returns where the rows are. */
const float *sp_norm_rows(sp_engine *e, const float *w, const float *b);
/* sp_norm_heads -- of n_heads heads a row, in place: each by itself, or (wide_qk_norm) all together; w
 * NULL: nothing. */
void sp_norm_heads(sp_engine *e, float *x, const float *w, int n_heads);
/* sp_norm_after -- y [rows, E], normalised where w is not NULL, is added to the stream. */
void sp_norm_after(sp_engine *e, float *y, const float *w);

/* -- rows.c ------------------------------------------------------------------------------------ */

/* sp_rows_check -- whether the engine can compute these slices. Errors: SP_E_ARG, SP_E_CONTEXT. */
sp_err sp_rows_check(const sp_engine *e, const sp_slice *slices, int n_slices) SP_MUST_CHECK;
sp_err sp_rows_create(sp_engine *e) SP_MUST_CHECK;
void sp_rows_destroy(sp_rows *r);
/* sp_rows_gather -- the rows of the slices, on both sides. */
sp_err sp_rows_gather(sp_rows *r, const sp_slice *slices, int n_slices) SP_MUST_CHECK;
/* sp_rows_close -- removes the rows whose keep is false, from the lists and from x, h and att. */
sp_err sp_rows_close(sp_engine *e, int n_slices) SP_MUST_CHECK;
/* sp_row_wanted -- whether the logits of todo `id` are wanted. */
bool sp_row_wanted(const sp_slice *slice, int id);
/* sp_rows_drop_unwanted -- before the last layer's attention: rows that neither logits nor a gate
 * nor a probe need. */
sp_err sp_rows_drop_unwanted(sp_engine *e, const sp_slice *slices, int n_slices) SP_MUST_CHECK;
/* sp_slice_is_there -- whether the known KV of the layers up to this one is there; waits as its hook does. */
bool sp_slice_is_there(const sp_slice *slice, int layer);
/* sp_rows_pass_gates -- after a layer: each gate decides which rows of its plan remain. Those it drops need their
 * twins' KV in all layers that remain: if that does not arrive, all rows of the slice are dropped. */
sp_err sp_rows_pass_gates(sp_engine *e, const sp_slice *slices, int n_slices,
                          int layer) SP_MUST_CHECK;

/* -- attention.c ---------------------------------------------------------------------------- */

/* sp_attention_make_room -- host lists for selectors, device memory for mass. */
sp_err sp_attention_make_room(sp_engine *e, const sp_slice *slices, int n_slices) SP_MUST_CHECK;
/* sp_attention_run -- queries and their attention over the plans' spans, into e->att. */
sp_err sp_attention_run(sp_engine *e, const sp_kv_view *kv, const sp_slice *slices, int n_slices,
                        int layer) SP_MUST_CHECK;
/* sp_attention_mass -- copies the masses of the layer to the host. */
sp_err sp_attention_mass(sp_engine *e, const sp_slice *slices, int n_slices) SP_MUST_CHECK;
/* sp_observes -- whether the plan's observer sees this step. */
static inline bool sp_observes(const sp_slice *slice)
{
    return slice->n == 1 && slice->plan->observer.look;
}

/* sp_mass_on_host -- those of one slice, or NULL. */
const float *sp_mass_on_host(const sp_engine *e, int slice);

/* -- probe.c: measures at the probed layer; the rows of a measured plan end there ------------- */

/* One layer, as probes see it. */
typedef struct sp_probed_layer {
    const sp_kv_view *kv;
    int layer;
} sp_probed_layer;

sp_err sp_probe_make_room(sp_engine *e, const sp_slice *slices, int n_slices) SP_MUST_CHECK;
/* sp_probe_deviation -- after the layer's KV is stored. */
sp_err sp_probe_deviation(sp_engine *e, sp_probed_layer at, const sp_slice *slices,
                          int n_slices) SP_MUST_CHECK;
/* sp_probe_columns -- after its attention. */
sp_err sp_probe_columns(sp_engine *e, sp_probed_layer at, const sp_slice *slices,
                        int n_slices) SP_MUST_CHECK;

#endif
