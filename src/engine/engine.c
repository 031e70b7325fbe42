#include <math.h>

#include "engine/engine_int.h"

/* rope_tables -- cos and sin for positions 0 .. n_pos-1, each rounded once from double precision.
 * A query meets a span at p - shift, which a span cached near the end of one prompt and used at
 * the start of another can raise to nearly twice the context. */
static sp_err rope_tables(const sp_rope_spec *spec, int n_pos, sp_rope *out)
{
    int half = spec->n_rot / 2;
    float *c = sp_alloc((size_t)n_pos * (size_t)half, sizeof *c);
    float *s = sp_alloc((size_t)n_pos * (size_t)half, sizeof *s);
    if (!c || !s) {
        sp_free(c);
        sp_free(s);
        return sp_fail_nomem((size_t)n_pos * (size_t)half * sizeof *c, "rotary tables");
    }
    for (int p = 0; p < n_pos; p++)
        for (int i = 0; i < half; i++) {
            double angle = (double)p * (double)spec->freq[i];
            c[(size_t)p * (size_t)half + (size_t)i] = (float)(cos(angle) * spec->magnitude);
            s[(size_t)p * (size_t)half + (size_t)i] = (float)(sin(angle) * spec->magnitude);
        }
    *out =
        (sp_rope){.n_rot = spec->n_rot, .adjacent = spec->adjacent, .n_pos = n_pos, .c = c, .s = s};
    return SP_OK;
}

static sp_err take_scratch(sp_engine *e)
{
    const sp_hparams *hp = &e->o.model->hp;
    size_t m = (size_t)e->o.max_rows, slices = (size_t)e->o.max_slices;
    size_t qd = (size_t)hp->n_heads * (size_t)hp->head,
           kd = (size_t)hp->n_kv_heads * (size_t)hp->head;
    const size_t ints = e->o.model->in_integers
                            ? e->o.ops->quantized_bytes(
                                  SP_MAX(hp->n_ff, (int)SP_MAX((size_t)hp->n_embd, qd)) / 32 * 32)
                            : 0;
    struct {
        void **at;
        size_t bytes;
    } want[] = {
        {(void **)&e->x, m * (size_t)hp->n_embd * 4},
        {(void **)&e->h, m * (size_t)hp->n_embd * 4},
        {(void **)&e->q, m * qd * 4},
        {(void **)&e->att, m * qd * 4},
        {(void **)&e->k, m * kd * 4},
        {(void **)&e->v, m * kd * 4},
        {(void **)&e->lse, m * (size_t)hp->n_heads * 4},
        {(void **)&e->gate, m * (size_t)hp->n_ff * 4},
        {(void **)&e->up, m * (size_t)hp->n_ff * 4},
        {&e->ints, m * ints},
        {(void **)&e->rows.id, m * sizeof *e->rows.id},
        {(void **)&e->rows.token, m * sizeof *e->rows.token},
        {(void **)&e->rows.pos, m * sizeof *e->rows.pos},
        {(void **)&e->rows.rot, m * sizeof *e->rows.rot},
        {(void **)&e->rows.see, m * sizeof *e->rows.see},
        {(void **)&e->rows.block, m * sizeof *e->rows.block},
        {(void **)&e->rows.slot, m * sizeof *e->rows.slot},
        {(void **)&e->rows.keep, m * sizeof *e->rows.keep},
        {(void **)&e->rows.first, (slices + 1) * sizeof *e->rows.first},
        {(void **)&e->reqs, slices * sizeof *e->reqs},
    };
    for (size_t i = 0; i < SP_COUNT(want); i++) {
        if (want[i].bytes == 0) continue;
        *want[i].at = sp_alloc_aligned(want[i].bytes);
        if (!*want[i].at) return sp_fail_nomem(want[i].bytes, "the scratch of a step");
    }
    return SP_OK;
}

sp_err sp_engine_create(const sp_engine_opts *o, sp_engine **out)
{
    if (o->n_ctx < 1 || o->max_rows < 1 || o->max_slices < 1)
        return sp_fail(SP_E_ARG, "engine: context %d, rows %d, slices %d", o->n_ctx, o->max_rows,
                       o->max_slices);
    if (o->model->hp.n_layers < 1)
        return sp_fail(SP_E_ARG, "%s: holds a vocabulary but no weights", o->model->path);
    if (o->model->packed_for && o->model->packed_for != o->ops)
        return sp_fail(SP_E_ARG, "engine: the weights are packed for %s, not for %s",
                       o->model->packed_for->name, o->ops->name);
    sp_engine *e = SP_NEW(sp_engine);
    if (!e) return sp_fail_nomem(sizeof *e, "the engine");
    e->o = *o;
    sp_err err = take_scratch(e);
    if (err == SP_OK) err = rope_tables(&o->model->rope, 2 * o->n_ctx, &e->rope);
    if (err != SP_OK) {
        sp_engine_destroy(e);
        return err;
    }
    *out = e;
    return SP_OK;
}

void sp_engine_destroy(sp_engine *e)
{
    if (!e) return;
    void *owned[] = {e->x,
                     e->h,
                     e->q,
                     e->att,
                     e->k,
                     e->v,
                     e->gate,
                     e->up,
                     e->mass,
                     e->ints,
                     e->reqs,
                     e->scratch,
                     e->lse,
                     e->probe,
                     e->rows.id,
                     e->rows.token,
                     e->rows.pos,
                     e->rows.rot,
                     e->rows.see,
                     e->rows.block,
                     e->rows.slot,
                     e->rows.keep,
                     e->rows.first,
                     (void *)e->rope.c,
                     (void *)e->rope.s};
    for (size_t i = 0; i < SP_COUNT(owned); i++) sp_free(owned[i]);
    sp_free(e);
}

const sp_engine_opts *sp_engine_opts_of(const sp_engine *e)
{
    return &e->o;
}

const sp_rope *sp_engine_rope(const sp_engine *e)
{
    return &e->rope;
}
