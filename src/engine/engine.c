/* engine.c -- what an engine owns: rotary tables, and the scratch of a step. */
#include <math.h>

#include "base/mem.h"
#include "engine/state.h"

enum { LOGIT_ROWS = 64 }; /* whose logits go to the host together, where they must be copied */

/* fill_tables -- cos and sin for positions 0 .. n_pos-1, each rounded once from double precision. */
static void fill_tables(const sp_rope_spec *spec, int n_pos, float *c, float *s)
{
    const int half = spec->n_rot / 2;
    for (int p = 0; p < n_pos; p++)
        for (int i = 0; i < half; i++) {
            double angle = (double)p * (double)spec->freq[i];
            c[(size_t)p * (size_t)half + (size_t)i] = (float)(cos(angle) * spec->magnitude);
            s[(size_t)p * (size_t)half + (size_t)i] = (float)(sin(angle) * spec->magnitude);
        }
}

/* rope_tables -- for twice the context: a query is rotated by p - shift for a span, and a span that
 * was cached near the end of one prompt and is used at the start of another raises that to nearly
 * twice its position. */
static sp_err rope_tables(sp_engine *e, const sp_rope_spec *spec, sp_mem *mem, sp_rope *rope)
{
    const int n_pos = 2 * e->o.n_ctx;
    const size_t n = (size_t)n_pos * (size_t)(spec->n_rot / 2), bytes = 2 * n * sizeof(float);
    SP_TRY(sp_mem_alloc(e->device, bytes, "rotary tables", mem));
    float *dev = mem->p, *host = sp_alloc(2 * n, sizeof *host);
    if (!host) return sp_fail_nomem("rotary tables");
    fill_tables(spec, n_pos, host, host + n);
    sp_err err = sp_device_wait(e->device, sp_device_copy_in(e->device, dev, host, bytes));
    sp_free(host);
    *rope = (sp_rope){
        .n_rot = spec->n_rot, .adjacent = spec->adjacent, .n_pos = n_pos, .c = dev, .s = dev + n};
    return err;
}

/* all_rope_tables -- SP_ROPE_NONE stays zero: no rotation. */
static sp_err all_rope_tables(sp_engine *e)
{
    const sp_rope_spec *specs[] = {&e->o.model->rope, &e->o.model->rope_local};
    for (int i = 0; i < (int)SP_COUNT(specs); i++)
        if (specs[i]->n_rot || i == 0)
            SP_TRY(rope_tables(e, specs[i], &e->memory[SP_N_ACTIVATIONS + i], &e->ropes[i]));
    e->ropes[SP_ROPE_NONE].n_pos = e->ropes[SP_ROPE_MAIN].n_pos;
    return SP_OK;
}

static sp_err take_activations(sp_engine *e)
{
    const sp_hparams *hp = &e->o.model->hp;
    const size_t m = (size_t)e->o.max_rows, width = (size_t)hp->n_embd;
    const size_t qd = (size_t)hp->n_heads * (size_t)hp->head,
                 kd = (size_t)hp->n_kv_heads * (size_t)hp->head;
    const struct {
        float **at;
        size_t n; /* floats a row */
    } want[SP_N_ACTIVATIONS] = {
        {&e->x, width},
        {&e->h, width},
        {&e->q, qd},
        {&e->att, qd},
        {&e->k, kd},
        {&e->v, kd},
        {&e->lse, (size_t)hp->n_heads},
    };
    for (int i = 0; i < SP_N_ACTIVATIONS; i++) {
        SP_TRY(sp_mem_alloc(e->device, m * want[i].n * sizeof(float), "the scratch of a step",
                            &e->memory[i]));
        *want[i].at = e->memory[i].p;
    }
    return SP_OK;
}

static sp_err take_scratch(sp_engine *e)
{
    const sp_hparams *hp = &e->o.model->hp;
    sp_device *d = e->device;
    const size_t m = (size_t)e->o.max_rows, slices = (size_t)e->o.max_slices;
    const char *what = "the scratch of a step";
    SP_TRY(take_activations(e));
    SP_TRY(sp_ffn_create(e->o.model, d, e->o.max_rows, &e->ffn));
    SP_TRY(sp_mirror_alloc(d, 2 * m * sizeof(sp_kv_slot), what, &e->slots));
    SP_TRY(sp_mirror_alloc(d, 2 * m * sizeof(float), what, &e->differ));
    if (!d->unified)
        SP_TRY(sp_mem_alloc(d, LOGIT_ROWS * (size_t)hp->n_vocab * sizeof(float), what, &e->logits));
    e->reqs = SP_NEW_N(sp_attend_req, slices);
    e->picks = SP_NEW_N(sp_pick_req, slices);
    e->of_head = SP_NEW_N(const sp_span *, slices *(size_t)hp->n_kv_heads);
    if (!e->reqs || !e->picks || !e->of_head) return sp_fail_nomem(what);
    SP_TRY(sp_rows_create(e));
    return all_rope_tables(e);
}

static sp_err check_opts(const sp_engine_opts *o)
{
    const sp_device *d = sp_kv_pool_device(o->pool);
    if (o->n_ctx < 1 || o->max_rows < 1 || o->max_slices < 1)
        return sp_fail(SP_E_ARG, "engine: context %d, rows %d, slices %d", o->n_ctx, o->max_rows,
                       o->max_slices);
    if (o->model->hp.n_layers < 1)
        return sp_fail(SP_E_ARG, "%s: holds a vocabulary but no weights", o->model->path);
    if (o->model->device ? o->model->device != d : !d->unified)
        return sp_fail(SP_E_ARG, "%s: the weights are not on the device of the KV pool, %s",
                       o->model->path, d->name);
    return SP_OK;
}

sp_err sp_engine_create(const sp_engine_opts *o, sp_engine **out)
{
    SP_TRY(check_opts(o));
    sp_engine *e = SP_NEW(sp_engine);
    if (!e) return sp_fail_nomem("the engine");
    e->o = *o;
    e->device = sp_kv_pool_device(o->pool);
    sp_err err = take_scratch(e);
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
    for (size_t i = 0; i < SP_COUNT(e->memory); i++) sp_mem_free(&e->memory[i]);
    sp_mem_free(&e->logits);
    sp_mem_free(&e->columns);
    sp_mem_free(&e->ahead);
    sp_mirror_free(&e->mass);
    sp_mirror_free(&e->slots);
    sp_mirror_free(&e->differ);
    sp_ffn_destroy(&e->ffn);
    sp_rows_destroy(&e->rows);
    if (e->notes.user) sp_kv_pool_set_notes(e->o.pool, NULL);
    for (int i = 0; i < SP_SUMMARY_N; i++) sp_summaries_destroy(e->summaries[i]);
    sp_free(e->reqs);
    sp_free(e->picks);
    sp_free(e->head_spans);
    sp_free(e->of_head);
    sp_free(e->column_list);
    sp_free(e);
}

void sp_engine_set_offload(sp_engine *e, sp_offload *o)
{
    e->offload = o;
}
